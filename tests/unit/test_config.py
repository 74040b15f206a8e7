"""Experiment files: what is accepted, and what is said about what is not."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from experiment_files import VALID, refusal, write
from hypothesis import given
from hypothesis import strategies as st

from emulator.experiment.load import load_experiment
from emulator.experiment.policies import find_policy
from emulator.files.times import seconds_to_ns
from emulator.policies.axes import JOB_EVICTION
from emulator.resolved import resolve
from tests.experiment_texts import NO_EXPERIMENTS, REFUSED_CHANGES
from tests.views import cluster

TRACE = VALID.partition("workload:")[0] + "workload: {trace: {format: swim, path: trace.tsv}}\n"


def test_a_valid_file(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, VALID))
    assert experiment.cluster.nodes == 6
    assert experiment.scheduler.allocation.queues["research"].capacity == 0.75
    assert experiment.workload.jobs is not None
    assert experiment.workload.jobs[1].reduce_s == (60.8, 30.0)
    assert experiment.protocol.kill_timeout_s == 12
    protocol = resolve(experiment).settings.protocol
    assert protocol.preemptor_period_ns == protocol.heartbeat_ns == 1_000_000_000


def test_periods_default_to_the_heartbeat(tmp_path: Path) -> None:
    path = write(tmp_path, VALID)
    experiment = load_experiment(path, ["heartbeat_s=0.01", "protocol.estimate_period_s=0.5"])
    protocol = resolve(experiment).settings.protocol
    assert protocol.task_heartbeat_ns == 10_000_000
    assert protocol.estimate_period_ns == 500_000_000


@pytest.mark.parametrize(
    ("text", "change", "line", "words"), [pytest.param(*rest, id=name) for name, *rest in REFUSED_CHANGES]
)
def test_refused_with_file_line_and_field(tmp_path: Path, text: str, change: str, line: int, words: list[str]) -> None:
    assert text in VALID
    path = write(tmp_path, VALID.replace(text, change, 1))
    message = refusal(path)
    assert message.startswith(f"{path}:{line}: "), message
    for word in words:
        assert word in message
    assert len(message.splitlines()) == 1


def test_programs_need_a_path_for_what_they_leave(tmp_path: Path) -> None:
    tasks = "tasks: {command: [sleep, '1'], count: 1, length_s: 1}"
    job = f"{{name: programs, queue: research, submit_s: 0, {tasks}}}"
    before, _, _ = VALID.partition("workload:")
    path = write(tmp_path, f"{before}storage: {{url: 's3://a/b'}}\nworkload: {{jobs: [{job}]}}\n")
    assert "programs leave directories" in refusal(path)


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = VALID.replace("seed: 1", "sead: 1").replace("maps: 4", "maps: -4").replace("srt", "shortest")
    text = text.replace("capacity: 0.75", "capacity: 0.9").replace("queue: production,", "queue: prod,")
    lines = refusal(write(tmp_path, text)).splitlines()
    numbers = [int(line.removeprefix(str(tmp_path)).split(":")[1]) for line in lines]
    # The queue that does not exist is a problem between sections: told only once the workload is valid by itself.
    assert numbers == [3, 9, 13, 18, 20]


@pytest.mark.parametrize(("content", "word"), NO_EXPERIMENTS)
def test_files_that_are_no_experiment(tmp_path: Path, content: bytes, word: str) -> None:
    path = write(tmp_path, content)
    message = refusal(path)
    assert word in message
    assert message.startswith(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing.yaml")
    assert "is a directory" in refusal(tmp_path)
    assert "not a regular file" in refusal(Path("/dev/zero"))
    assert "cannot be read" in refusal(tmp_path / "a\x00b")


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, VALID)
    experiment = load_experiment(
        path,
        [
            "scheduler.mechanism=suspend",
            "overheads=native",
            "workload.jobs.0.reduces=3",
            "storage.url=null",
            "repeats=2",
        ],
    )
    assert experiment.workload.jobs is not None
    assert (experiment.scheduler.mechanism, experiment.overheads) == ("suspend", "native")
    assert (experiment.workload.jobs[0].reduces, experiment.repeats) == (3, 2)
    assert load_experiment(path, ["seed=2", "seed=3"]).seed == 3


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("scheduler.mechanizm=kill", ["did you mean 'mechanism'"]),
        ("seed=x", ["seed: must be a whole number"]),
        ("seed", ["key.key=value"]),
        ("=3", ["key.key=value"]),
        ("seed.x=3", ["cannot be set inside"]),
        ("workload.jobs.7.maps=3", ["'7' must be a list index from 0 to 1"]),
        ("workload.jobs.first.maps=3", ["'first' must be a list index"]),
        ("cluster={nodes: 3", ["not valid YAML"]),
        (
            "cluster.slow_nodes={node-7: 2}",
            ["cluster.slow_nodes.node-7", "there is no node 'node-7'", "node-1 to node-6"],
        ),
        ("protocol.speculation={margin: 1}", ["protocol.speculation.margin"]),
        ("cluster={nodes: 3}", ["cluster.containers_per_node: is missing"]),
        ("scheduler.allocation.queues.research.capacity=0.9", ["add up to 1.15"]),
        ("protocol=", ["protocol: must be a mapping"]),
        ("scheduler.allocation.queues.production.maximum=0", ["greater than 0"]),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, words: list[str]) -> None:
    message = refusal(write(tmp_path, VALID), override)
    assert message.startswith(f"override {override}: ")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("eviction", "selection"),
    [("mdf", "edf"), ("mlf", "auto"), ("priority", "priority"), ("mr", "edf"), ("mr", "priority")],
)
def test_a_selection_that_goes_with_the_eviction(tmp_path: Path, eviction: str, selection: str) -> None:
    overrides = [f"scheduler.job_eviction={eviction}", f"scheduler.job_selection={selection}"]
    assert load_experiment(write(tmp_path, VALID), overrides).scheduler.job_selection == selection


def test_an_inconsistent_selection_must_be_wanted(tmp_path: Path) -> None:
    pair = ["scheduler.job_eviction=mlf", "scheduler.job_selection=edf"]
    assert "set it to auto or llf" in refusal(write(tmp_path, VALID), *pair)
    experiment = load_experiment(write(tmp_path, VALID), [*pair, "scheduler.allow_inconsistent=true"])
    assert experiment.scheduler.job_selection == "edf"


def test_caps_imply_waiting_and_a_hard_cap_its_capacity(tmp_path: Path) -> None:
    text = VALID.replace("  mechanism: checkpoint\n", "")
    assert load_experiment(write(tmp_path, text)).scheduler.mechanism == "checkpoint"
    soft = load_experiment(write(tmp_path, text.replace("two-queue", "soft-cap")))
    assert soft.scheduler.mechanism == "wait"
    assert "under hard-cap the maximum is the capacity" in refusal(
        write(tmp_path, text.replace("two-queue", "hard-cap"))
    )
    hard = load_experiment(write(tmp_path, text.replace("two-queue", "hard-cap").replace(", maximum: 1.0", "")))
    assert hard.scheduler.allocation.queues["research"].maximum == 0.75


def test_exactly_one_of_jobs_and_trace(tmp_path: Path) -> None:
    write(tmp_path, "", "trace.tsv")
    assert "none given" in refusal(write(tmp_path, VALID), "workload={}")
    both = VALID + "  trace: {format: swim, path: trace.tsv}\n"
    assert "jobs and trace given" in refusal(write(tmp_path, both))


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("{queues: [prodution]}", "workload.only.queues.0: there is no queue 'prodution'; did you mean 'production'?"),
        ("{jobs: [research-XL, x]}", "workload.only.jobs.1: there is no job 'x'"),
        ("{queues: [production], jobs: [research-XL]}", "workload.only: leaves no job to run"),
        ("{jobs: []}", "workload.only.jobs: must have at least 1 item"),
        ("{queue: [production]}", "workload.only.queue: unknown key; did you mean 'queues'?"),
    ],
)
def test_a_part_of_the_workload_must_be_there(tmp_path: Path, only: str, words: str) -> None:
    path = write(tmp_path, f"{VALID}  only: {only}\n")
    assert refusal(path).startswith(f"{path}:22: {words}")


def test_paths_start_from_the_file_and_in_overrides_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "experiments", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = write(folder, TRACE)
    assert f"no such file: {folder}/trace.tsv" in refusal(path)
    write(folder, "", "trace.tsv")
    trace = load_experiment(path).workload.trace
    assert trace is not None
    assert trace.path == str(folder / "trace.tsv")
    write(elsewhere, "", "trace.tsv")
    trace = load_experiment(path, ["workload.trace.path=trace.tsv"]).workload.trace
    assert trace is not None
    assert trace.path == str(elsewhere / "trace.tsv")
    assert "must be 'swim', 'rumen'" in refusal(path, "workload.trace.format=hive")


def test_a_policy_of_the_user_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, "def smallest(view, jobs, random):\n    return 'x'\n", "own_policy_of_a_user.py")
    experiment = load_experiment(write(tmp_path, VALID), ["scheduler.job_eviction=own_policy_of_a_user:smallest"])
    policy = find_policy(JOB_EVICTION, experiment.scheduler.choice("job_eviction"), tmp_path)
    assert policy.function(cluster(), (), Random(1)) == "x"
    write(tmp_path, "raise RuntimeError('broken on import')\n", "broken_policy_of_a_user.py")
    message = refusal(write(tmp_path, VALID), "scheduler.job_eviction=broken_policy_of_a_user:f")
    assert "broken on import" in message


@pytest.mark.parametrize(
    ("seconds", "nanoseconds"),
    [(0.0, 0), (1, 10**9), (0.1, 10**8), (182.7, 182_700_000_000), (1e-9, 1), (1.5e-9, 2), (0.5e-9, 0), (1e8, 10**17)],
)
def test_seconds_to_ns(seconds: float, nanoseconds: int) -> None:
    assert seconds_to_ns(seconds) == nanoseconds


@given(st.integers(0, 10**17))
def test_seconds_to_ns_is_exact_for_what_a_float_can_say(nanoseconds: int) -> None:
    seconds = float(f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}")
    error_ns = 0 if nanoseconds < 10**15 else 16
    assert abs(seconds_to_ns(seconds) - nanoseconds) <= error_ns
