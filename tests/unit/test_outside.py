"""An allocation by another process: what it is told, what it may say, and how it may fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.completions import ExternalDecisions
from emulator.core.effects import AskExternalScheduler, Launch
from emulator.core.messages import JobFinished, SubmitJob
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.external import ExternalProcess
from emulator.policies.policy import LEAST_WAIT_NS, ExternalCommand
from emulator.policies.schedulers.protocol import (
    VERSION,
    Decide,
    InvalidLineError,
    JobSubmitted,
    NodeAdded,
    SchedulerStarted,
    decision_of,
    shown,
)
from emulator.records.journal import Record, read_journal
from emulator.records.replay import replay
from emulator.resolved import make_machine, resolve
from emulator.sim.session import simulate, simulated_history
from tests.commands import invoked, run_natjam
from tests.examples import fixed

EXAMPLE = ["{python}", str(Path(__file__).resolve().parents[2] / "docs/examples/first_fit.py")]
EXPERIMENT = """
name: outside
engine: sim
overheads: none
cluster: {nodes: 2, containers_per_node: 3}
protocol: {news: NEWS}
scheduler:
  allocation: {name: external, command: COMMAND, answer_within_s: 20}
  mechanism: MECHANISM
sim: {journal: full}
workload:
  jobs:
    - {name: low, queue: default, maps: 1, map_s: 2, reduces: 6, reduce_s: {uniform: [0.5, 1], longest: 30}}
    - {name: high, queue: default, priority: 5, submit_s: 10, reduces: 2, reduce_s: {uniform: [0.5, 1], longest: 10}}
"""
PYTHON_HEAD = """
import json, sys
def say(**line): print(json.dumps(line))
for text in sys.stdin:
    news = json.loads(text)
    if news["event"] == "decide":
        say(decision="done", question=news["question"]); sys.stdout.flush()
"""


def experiment(folder: Path, command: list[str], news: str = "at-once", mechanism: str = "kill") -> Path:
    path = folder / "outside.yaml"
    text = EXPERIMENT.replace("COMMAND", json.dumps(command)).replace("NEWS", news)
    path.write_text(text.replace("MECHANISM", mechanism))
    return path


def simulated(folder: Path, command: list[str], records: list[Record], **options: str) -> dict[str, float]:
    """Simulate it; the completion of each job, in seconds.  Raises RunError."""
    resolved = resolve(load_experiment(experiment(folder, command, **options)))
    simulate(resolved, records.extend)
    ends = (record.message for record in records if isinstance(record.message, JobFinished))
    return {end.job: (end.finish_ns - resolved.jobs_by_name[end.job].submit_ns) / 1e9 for end in ends}


def children() -> set[str]:
    """The processes that this one has started and that are there."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint", "suspend"])
@pytest.mark.parametrize("news", ["at-once", "heartbeat"])
def test_the_example_gives_and_takes_back(tmp_path: Path, news: str, mechanism: str) -> None:
    records: list[Record] = []
    ends_s = simulated(tmp_path, EXAMPLE, records, news=news, mechanism=mechanism)
    assert ends_s["high"] < 16 < ends_s["low"], "it need not wait for the end of a reduce"
    if news == "at-once" and mechanism == "kill":
        assert ends_s["high"] == pytest.approx(10, abs=0.01)


def test_a_replay_needs_no_process(tmp_path: Path) -> None:
    records: list[Record] = []
    simulated(tmp_path, EXAMPLE, records, news="heartbeat", mechanism="suspend")
    resolved = resolve(load_experiment(experiment(tmp_path, ["no-such-program"], "heartbeat", "suspend")))
    make = partial(make_machine, settings=resolved.settings, jobs=resolved.jobs_by_name)
    assert replay(records, lambda address: make(address)) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "nonsense: not JSON"),
        ('{"decision": "give"}', '{"decision": "give"}: Invalid value \'give\''),
        ('{"decision": "grant", "job": "low"}', "missing required field `node`"),
        ('{"decision": "grant", "job": "no", "node": "node-1"}', "there is no job 'no'"),
        ('{"decision": "grant", "job": "low", "node": "node-9"}', "there is no node 'node-9'"),
        (
            '{"decision": "grant", "job": "low", "node": "node-1", "group": "map"}',
            "waits for no container for group map",
        ),
        ('{"decision": "strict-contract", "container": "c"}', "there is no container 'c'"),
        ('{"decision": "explain-wait", "job": "no", "why": "it rains"}', "there is no job 'no'"),
        ('{"decision": "contract", "victim": "low", "requester": "low"}', "has no task that may be taken back"),
        ('{"decision": "done", "question": 77}', "is asked, not 77"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    script = f"""{PYTHON_HEAD}
    if news["event"] == "job-waits": print({line!r})
"""
    (tmp_path / "mine.py").write_text(script)
    records: list[Record] = []
    with pytest.raises(RunError) as caught:
        simulated(tmp_path, ["{python}", "mine.py"], records)
    questions = sum(isinstance(record.message, ExternalDecisions) for record in records)
    assert f"line {questions + 1}: {line}" in caught.value.message
    assert words in caught.value.message
    assert any(isinstance(record.message, SubmitJob) for record in records), "nothing is lost of what happened before"


def test_one_that_always_wants_the_next_nanosecond_is_asked_less_often(tmp_path: Path) -> None:
    text, done = Path(EXAMPLE[1]).read_text(), '"question": news["question"]'
    assert text.count(done) == 1
    (tmp_path / "mine.py").write_text(text.replace(done, f'{done}, "again_ns": news["time_ns"] + 1'))
    records: list[Record] = []
    ends_s = simulated(tmp_path, ["{python}", "mine.py"], records)
    questions = sum(isinstance(record.message, ExternalDecisions) for record in records)
    assert max(ends_s.values()) < 60
    assert questions < 2 * 60e9 / LEAST_WAIT_NS


def test_one_that_decides_at_short_times_is_asked_when_it_wants(tmp_path: Path) -> None:
    text, done = Path(EXAMPLE[1]).read_text(), '"question": news["question"]'
    (tmp_path / "mine.py").write_text(text.replace(done, f'{done}, "again_ns": news["time_ns"] + 3_000_000'))
    records: list[Record] = []
    simulated(tmp_path, ["{python}", "mine.py"], records)
    asked_ns = [record.t_ns for record in records if isinstance(record.message, ExternalDecisions)]
    assert any(later - sooner == 3_000_000 for sooner, later in pairwise(asked_ns))


HOSTILE = """
import json, sys
waits, running = {}, []
for news in map(json.loads, sys.stdin):
    match news["event"]:
        case "job-waits":
            waits[news["job"]] = news["am"] + sum(news["new"].values()) + len(news["suspended"])
        case "container-started" if news["group"] == "reduce":
            running.append(news["container"])
        case "decide":
            for container in running:
                print(json.dumps({"decision": "strict-contract", "container": container}))
            for job in [job for job in waits if waits[job]]:
                print(json.dumps({"decision": "grant", "job": job, "node": "node-1"}))
            print(json.dumps({"decision": "done", "question": news["question"], "again_ns": AGAIN}), flush=True)
            running = []
"""


@pytest.mark.parametrize("mechanism", ["kill", "suspend", "checkpoint"])
@pytest.mark.parametrize("again", ["None", "news['time_ns'] + 1"])
def test_one_that_grants_and_takes_back_at_one_instant_is_stopped(tmp_path: Path, mechanism: str, again: str) -> None:
    (tmp_path / "mine.py").write_text(HOSTILE.replace("AGAIN", again))
    text = EXPERIMENT.replace("maps: 1, map_s: 2, reduces: 6", "reduces: 1").replace(
        "    - {name: high, queue: default, ", "    # "
    )
    path = tmp_path / "hostile.yaml"
    path.write_text(
        text.replace("COMMAND", '["{python}", mine.py]').replace("NEWS", "at-once").replace("MECHANISM", mechanism)
    )
    result = run_natjam("run", path, "--out", tmp_path / "out", status=1)
    words = " ".join(result.output.split())
    assert "allocation external: at " in words
    assert "s job low was given 106 containers for its 1 task, the last one on node-1 for reduce" in words


def test_the_command_fails_and_keeps_what_happened(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON_HEAD + '    if news["event"] == "job-waits": print("nonsense")\n')
    out = tmp_path / "out"
    result = run_natjam("run", experiment(tmp_path, ["{python}", "mine.py"]), "--out", out, status=1)
    assert "nonsense: not JSON" in " ".join(result.output.split())
    _, records = read_journal(next(out.glob("journal.*")))
    assert any(isinstance(record.message, SubmitJob) for record in records)


GRANT = b'{"decision": "grant", "job": "low", "node": "node-1"}\n'


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('out of ideas')", "has ended with status 1; it says: out of ideas"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was ended by signal 15"),
        ("import os, time; os.close(2); time.sleep(100)", "has not answered question 1 within 0.5 s"),
        ("import sys\nwhile True: print('x' * 65536, file=sys.stderr)  # sleep", " bytes left out)\nxxx"),
        ("import sys; print('I begin', 'x' * 9999, 'I end', file=sys.stderr); sys.exit(3)", "it says: I begin xxx"),
        ("import sys; print('I begin', 'x' * 9999, 'I end', file=sys.stderr); sys.exit(3)", "xxx I end"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "line 1 is longer than"),
        ("import os; os.close(1); input(); input(); input()", "has"),
        ('print(\'{"decision": "done", "question": 1, "again_ns": 0}\')', "again_ns must be later than 0"),
        (f"import os\nwhile True: os.write(1, {GRANT!r} * 1000)  # sleep", "has not answered question 1 within 0.5 s"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush(); input(); input()", "line 1: "),
    ],
)
def test_a_process_that_fails_is_named_and_ended(script: str, words: str) -> None:
    process = ExternalProcess(
        ExternalCommand((sys.executable, "-c", script), answer_within_s=0.5 if "sleep" in script else 20)
    )
    with pytest.raises(RunError) as caught:
        process.ask(AskExternalScheduler(1, (SchedulerStarted(VERSION, 1, ()), Decide(1, 0))))
    assert words in caught.value.message


def test_one_that_is_not_there() -> None:
    process = ExternalProcess(ExternalCommand(("/no/such/program",)))
    with pytest.raises(RunError, match="cannot be started"):
        process.ask(AskExternalScheduler(1, (SchedulerStarted(VERSION, 1, ()), Decide(1, 0))))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["{python}", "mine.py"], "scheduler.allocation.command.1: there is no file mine.py in "),
        (["./mine.sh"], "scheduler.allocation.command.0: there is no program ./mine.sh, neither in "),
    ],
)
def test_one_that_is_not_there_is_found_by_validate(tmp_path: Path, command: list[str], said: str) -> None:
    path = experiment(tmp_path, command)
    result = invoked("validate", path)
    assert (result.exit_code, f"natjam: {path}:" in result.stderr) == (2, True)
    assert said in result.stderr
    assert "put it there, or name another" in result.stderr
    (tmp_path / command[-1]).touch(0o700)
    assert invoked("validate", path).exit_code == 0


@pytest.mark.parametrize("own_session", [False, True])
def test_what_it_has_started_ends_with_it(own_session: bool) -> None:
    started = f"subprocess.Popen(['sleep', '100'], env={{}}, start_new_session={own_session})"
    script = (
        f"import subprocess, sys; print({started}.pid, file=sys.stderr, flush=True); print('x', flush=True); input()"
    )
    process = ExternalProcess(ExternalCommand((sys.executable, "-c", f"{script}; input(); input(); input()")))
    with pytest.raises(RunError) as caught:
        process.ask(AskExternalScheduler(1, (SchedulerStarted(VERSION, 1, ()), Decide(1, 0))))
    started = caught.value.message.split("it says: ")[1].split()[0]
    until = time.monotonic() + 20
    while is_running(started):
        assert time.monotonic() < until
        os.sched_yield()


@pytest.mark.parametrize("thinks", [True, False])
def test_a_simulation_that_is_killed_leaves_no_process(tmp_path: Path, thinks: bool) -> None:
    """By SIGKILL, while the process is thinking, or while natjam waits for the pipe that nobody reads."""
    script = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "100"], start_new_session=True)
orphan = subprocess.run(["sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, text=True).stdout
pathlib.Path("PIDS.part").write_text(f"{os.getpid()} {child.pid} {orphan}")
os.rename("PIDS.part", "PIDS")
while True: time.sleep(100) if THINKS else None
""".replace("THINKS", str(thinks))
    (tmp_path / "mine.py").write_text(script)
    path = experiment(tmp_path, ["{python}", "mine.py"])
    natjam = [str(Path(sys.executable).with_name("natjam")), "run", str(path), "--out", str(tmp_path / "out")]
    with subprocess.Popen(natjam, cwd=tmp_path) as command:
        until = time.monotonic() + 60
        while not (tmp_path / "PIDS").exists():
            assert time.monotonic() < until
            assert command.poll() is None
            os.sched_yield()
        command.kill()
    pids = (tmp_path / "PIDS").read_text().split()
    while any(map(is_running, pids)):
        assert time.monotonic() < until, pids
        os.sched_yield()


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    """Ctrl-C while the process is thinking."""
    (tmp_path / "mine.py").write_text(
        "import os, pathlib, time\npathlib.Path('PID').write_text(str(os.getpid()))\ntime.sleep(100)\n"
    )
    path = experiment(tmp_path, ["{python}", "mine.py"])
    natjam = [str(Path(sys.executable).with_name("natjam")), "run", str(path), "--out", str(tmp_path / "out")]
    with subprocess.Popen(natjam, cwd=tmp_path) as command:
        until = time.monotonic() + 60
        while not (tmp_path / "PID").exists() or not (tmp_path / "PID").read_text():
            assert time.monotonic() < until
            assert command.poll() is None
            os.sched_yield()
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=60) == 130
    assert not is_running((tmp_path / "PID").read_text())


GANG = """
import json, sys
GIVEN, GROUP = int(sys.argv[1]), sys.argv[2:]
waits = {}
def say(**line): print(json.dumps(line))
for text in sys.stdin:
    news = json.loads(text)
    if news["event"] == "job-waits":
        waits = news
    elif news["event"] == "decide":
        if waits.get("am"):
            say(decision="grant", job="low", node="node-1", group="am")
        for number in range(GIVEN if waits.get("at_once") else 0):
            node = f"node-{number // 2 + 1}"
            say(decision="grant", job="low", node=node, **({"group": GROUP[0]} if GROUP else {}))
        waits = {}
        say(decision="done", question=news["question"])
        sys.stdout.flush()
"""


def gang(folder: Path, *arguments: str) -> Path:
    script = folder / "gang.py"
    script.write_text(GANG)
    path = experiment(folder, ["{python}", str(script), *arguments])
    head, _ = path.read_text().split("    - {name: low")
    path.write_text(f"{head}    - {{name: low, queue: default, reduces: 4, reduce_s: 5, gang: true}}\n")
    return path


def test_a_gang_starts_at_once(tmp_path: Path) -> None:
    records: list[Record] = []
    simulate(resolve(load_experiment(gang(tmp_path, "4", "reduce"))), records.extend)
    starts = [record.t_ns for record in records for effect in record.effects if isinstance(effect, Launch)]
    assert len(starts) == 5
    assert len(set(starts[1:])) == 1, "the ApplicationMaster, then all tasks"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("3", "reduce"), "low is a gang and needs 4 containers at once, in one answer"),
        (("4",), "low is a gang; name the group of each of its containers"),
    ],
)
def test_a_part_of_a_gang_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(RunError, match=words):
        simulate(resolve(load_experiment(gang(tmp_path, *arguments))), lambda records: None)


SIZED = "cluster: {node_groups: [{count: 2, resources: {cpu: 4, gpu: 2}, labels: {zone: a}}]}"


def sized(path: Path, resources: str) -> Path:
    """The same experiment, where containers have the sizes that their tasks ask for."""
    text = path.read_text().replace("cluster: {nodes: 2, containers_per_node: 3}", SIZED)
    path.write_text(text.replace("reduces: 4,", f"reduces: 4, resources: {resources},"))
    return path


def test_a_gang_of_any_size_starts_at_once(tmp_path: Path) -> None:
    records: list[Record] = []
    simulate(resolve(load_experiment(sized(gang(tmp_path, "4", "reduce"), "{cpu: 1.5, gpu: 1}"))), records.extend)
    starts = [record.t_ns for record in records for effect in record.effects if isinstance(effect, Launch)]
    assert len(starts) == 5
    assert len(set(starts[1:])) == 1, "the ApplicationMaster, then all tasks"
    asked = (effect for record in records for effect in record.effects if isinstance(effect, AskExternalScheduler))
    told = [each for effect in asked for each in effect.events]
    node = next(each for each in told if isinstance(each, NodeAdded))
    assert (node.resources, node.labels) == ({"cpu": 4000, "gpu": 2000}, {"zone": "a"})
    job = next(each for each in told if isinstance(each, JobSubmitted))
    assert job.groups[0].resources == {"cpu": 1500, "gpu": 1000}
    assert next(each for each in told if isinstance(each, SchedulerStarted)).master_resources == {"cpu": 1000}


FILLING = """
import json, sys
def say(**line): print(json.dumps(line))
waits = {}
for text in sys.stdin:
    news = json.loads(text)
    if news["event"] == "job-waits":
        waits[news["job"]] = news
    elif news["event"] == "job-ended":
        waits.setdefault("late", {})["may_start"] = True
    elif news["event"] == "decide":
        for job, wanted in waits.items():
            if wanted.pop("am", 0):
                say(decision="grant", job=job, node="node-1", group="am")
            if job == "low" or "may_start" in wanted:
                for number in range(wanted.pop("new", {}).get("reduce", 0)):
                    say(decision="grant", job=job, node=f"node-{number // 2 + 1}", group="reduce")
        say(decision="done", question=news["question"])
        sys.stdout.flush()
"""


def test_what_needs_nothing_fits_a_full_node(tmp_path: Path) -> None:
    """The second job's ApplicationMaster needs nothing, and starts while tasks of the first hold both nodes."""
    path = sized(gang(tmp_path), "{cpu: 2, gpu: 1}")
    (tmp_path / "gang.py").write_text(FILLING)
    late = "    - {name: late, queue: default, submit_s: 2, reduces: 1, reduce_s: 1, resources: {cpu: 1}}\n"
    text = path.read_text().replace(", gang: true", "")
    path.write_text(text.replace("cluster: {", "cluster: {master_resources: {cpu: 0}, ") + late)
    rows = simulated_history(resolve(load_experiment(path))).attempts
    (master,) = [row for row in rows if (row.job, row.kind) == ("late", "am")]
    ends_ns = [row.ended_ns or 0 for row in rows if (row.job, row.kind) == ("low", "reduce")]
    assert len(ends_ns) == 4
    assert (master.launched_ns or 0) < min(ends_ns)


@pytest.mark.parametrize(
    ("instead", "mechanism", "words"),
    [
        (
            'say(decision="grant", job="low", node="node-1", group="reduce")',
            "kill",
            "node-1 lacks 3 cpu, 2 gpu of 6 cpu, 4 gpu",
        ),
        ('say(decision="contract", victim="low", requester="low")', "kill", "name the container, by a strict-contract"),
        (
            'say(decision="strict-contract", container="container-000001", stays_ns=1)',
            "suspend",
            "a container stays taken only after a kill",
        ),
    ],
)
def test_with_sizes_what_cannot_be_is_refused(tmp_path: Path, instead: str, mechanism: str, words: str) -> None:
    """Four tasks that ask for all that there is: the gang would be half placed if its parts were looked at alone."""
    path = sized(gang(tmp_path, "4", "reduce"), "{cpu: 1.5, gpu: 1}")
    path.write_text(path.read_text().replace("mechanism: kill", f"mechanism: {mechanism}"))
    script = tmp_path / "gang.py"
    lines = script.read_text().split("\n")
    first = next(i for i, line in enumerate(lines) if "node = f" in line)
    script.write_text("\n".join([*lines[:first], f"            {instead}", *lines[first + 2 :]]))
    records: list[Record] = []
    with pytest.raises(RunError, match=words):
        simulate(resolve(load_experiment(path)), records.extend)
    started = [effect for record in records for effect in record.effects if isinstance(effect, Launch)]
    assert len(started) == 1, "the ApplicationMaster alone"


def test_a_command_must_be_given(tmp_path: Path) -> None:
    path = experiment(tmp_path, ["x"])
    path.write_text(path.read_text().replace('command: ["x"], ', ""))
    result = invoked("validate", path)
    assert result.exit_code != 0
    assert "command" in result.output


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda data: data.decode(errors="surrogateescape")))
@fixed
def test_any_line_is_understood_or_refused(line: str) -> None:
    assert shown(1, line).startswith("line 1: ")
    with contextlib.suppress(InvalidLineError):
        decision_of(line)
