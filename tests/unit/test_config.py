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
from tests.views import cluster

TRACE = VALID.partition("workload:")[0] + "workload: {trace: {format: swim, path: trace.tsv}}\n"


def test_a_valid_file(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, VALID))
    assert experiment.cluster.nodes == 6
    assert experiment.scheduler.allocation.queues["research"].capacity == 0.75
    assert experiment.workload.jobs is not None
    assert experiment.workload.jobs[1].reduce_s == (60.8, 30.0)
    assert experiment.protocol.kill_timeout_s == 12
    assert experiment.preemptor_period_ns == experiment.heartbeat_ns == 1_000_000_000


def test_periods_default_to_the_heartbeat(tmp_path: Path) -> None:
    path = write(tmp_path, VALID)
    experiment = load_experiment(path, ["heartbeat_s=0.01", "protocol.estimate_period_s=0.5"])
    assert experiment.task_heartbeat_ns == 10_000_000
    assert experiment.estimate_period_ns == 500_000_000


def test_models_are_frozen(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, VALID))
    with pytest.raises(ValueError, match="frozen"):
        experiment.cluster.nodes = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "change", "line", "words"),
    [
        pytest.param("nodes: 6", "nodez: 6", 5, ["cluster.nodez", "did you mean 'nodes'"], id="unknown key"),
        pytest.param("seed: 1", "colour: 1", 3, ["colour: unknown key", "time_scale"], id="nothing near"),
        pytest.param("maps: 4", "mapps: 4", 18, ["workload.jobs.0.mapps", "'maps'"], id="unknown key of a job"),
        pytest.param("seed: 1", "seed: one", 3, ["seed", "a whole number", "'one'"], id="wrong type"),
        pytest.param("seed: 1", "seed: 1.5", 3, ["seed", "a whole number"], id="fraction"),
        pytest.param("seed: 1", "seed: true", 3, ["seed", "a whole number"], id="boolean for a number"),
        pytest.param("time_scale: 20", "time_scale: '20'", 2, ["a number", "'20'"], id="text for a number"),
        pytest.param("time_scale: 20", "time_scale: .nan", 2, ["time_scale"], id="not a number"),
        pytest.param("time_scale: 20", "time_scale: .inf", 2, ["time_scale"], id="infinite"),
        pytest.param("time_scale: 20", "time_scale: 0", 2, ["time_scale", "at least 1e-06"], id="zero"),
        pytest.param("time_scale: 20", "time_scale: 1e-300", 2, ["time_scale", "at least 1e-06"], id="nearly zero"),
        pytest.param("time_scale: 20", "heartbeat_s: 1e-12", 2, ["heartbeat_s", "at least 1e-09"], id="no nanosecond"),
        pytest.param("name: fig4", "name: a/b", 1, ["name"], id="name that is a path"),
        pytest.param("submit_s: 50", "submit_s: -50", 20, ["jobs.1.submit_s", "at least 0"], id="negative time"),
        pytest.param("delay_s: 0", "delay_s: -1", 15, ["placement.delay_s", "at least 0"], id="negative delay"),
        pytest.param("[60.8, 30]", "[60.8, x]", 21, ["jobs.1.reduce_s.1", "'x'"], id="wrong item"),
        pytest.param("[60.8, 30]", "long", 21, ["a number or a list or a mapping"], id="no kind of length"),
        pytest.param(
            "longest: 182.7", "longest: -1", 19, ["reduce_s.longest", "must be at least"], id="negative length"
        ),
        pytest.param("{nodes: 6,", "{", 5, ["cluster.nodes", "is missing"], id="missing key"),
        pytest.param("capacity: 0.75", "capacity: 0.8", 9, ["add up to 1.05"], id="capacities over 1"),
        pytest.param(
            "capacity: 0.25, maximum: 1.0",
            "capacity: 0.25, maximum: 0.2",
            10,
            ["above the queue's maximum"],
            id="maximum",
        ),
        pytest.param("capacity: 0.75", "capacity: 1.75", 11, ["research.capacity", "at most 1"], id="capacity over 1"),
        pytest.param(
            "queue: production,", "queue: producton,", 20, ["no queue 'producton'", "'production'"], id="queue"
        ),
        pytest.param("name: production-S", "name: research-XL", 20, ["jobs.1.name", "jobs.0"], id="duplicate job"),
        pytest.param("name: production-S", "name: ..", 20, ["jobs.1.name", "'.'"], id="job name that is a path"),
        pytest.param("job_eviction: mr", "job_eviction: mrr", 12, ["no job eviction 'mrr'", "'mr'"], id="policy"),
        pytest.param(
            "task_eviction: srt", "task_eviction: nobodys:f", 13, ["'nobodys:f'", "imported"], id="own policy"
        ),
        pytest.param("task_eviction: srt", "task_eviction: math:f", 13, ["has no function 'f'"], id="no function"),
        pytest.param("mechanism: checkpoint", "mechanism: image", 14, ["storage.tier"], id="image"),
        pytest.param(
            "job_eviction: mr",
            "job_eviction: mdf\n  job_selection: llf",
            13,
            ["scheduler.job_selection", "auto or edf", "allow_inconsistent"],
            id="inconsistent",
        ),
        pytest.param("two-queue", "single-queue", 9, ["single-queue needs one queue"], id="single queue of two"),
        pytest.param("two-queue", "soft-cap", 14, ["soft-cap never preempts", "wait"], id="soft-cap preempting"),
        pytest.param("hadoop-0.23", "hadop-0.23", 4, ["overheads", "did you mean 'hadoop-0.23'"], id="overheads"),
        pytest.param("hadoop-0.23", "./none.yaml", 4, ["overheads", "no such file"], id="overheads file"),
        pytest.param("memory_gb: 16", "memory_gb: 4", 5, ["8 containers of 1 GB need 8"], id="memory"),
        pytest.param("25, maximum: 1.0", "01, maximum: 0.02", 20, ["the master takes one"], id="one container"),
        pytest.param("submit_s: 50", "memory_mb: 2048", 20, ["do not fit a container of 1 GB"], id="task memory"),
        pytest.param("seed: 1", "storage: {url: 'ftp://a'}", 3, ["storage.url", "write a path, s3://"], id="store"),
        pytest.param("seed: 1", "storage: {url: 'hdfs://a:1/b'}", 3, ["'hdfs://'", "webhdfs://namenode"], id="hdfs"),
        pytest.param("seed: 1", "storage: {url: 'webhdfs://a:b/c'}", 3, ["storage.url", "Port"], id="port"),
        pytest.param("seed: 1", "storage: {url: 's3:///'}", 3, ["storage.url", "names no store"], id="no bucket"),
        pytest.param("{nodes: 6,", "{nodes: 6, slots: {map: 1},", 5, ["slots.reduce", "is missing"], id="slots"),
        pytest.param("{nodes: 6,", "{nodes: 6, racks: 0,", 5, ["racks", "must be at least 1"], id="racks"),
        pytest.param("seed: 1", "time_scale: 1", 3, ["time_scale", "given twice"], id="duplicate key"),
        pytest.param("seed: 1", "seed: [1", 4, ["not valid YAML"], id="malformed"),
        pytest.param("seed: 1", "seed: !!python/name:os.system x", 3, ["not supported"], id="foreign tag"),
        pytest.param("seed: 1", "seed: &a [*a]", 3, ["inside the value"], id="alias to itself"),
        pytest.param("seed: 1", "[a, b]: 1", 3, ["a key must be a plain word"], id="list for a key"),
    ],
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


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"# nothing\n", "empty"),
        (b"- a\n- b\n", "must be a mapping"),
        (b"just text", "must be a mapping"),
        (b"\x00\x01\x02\xff", "not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", "not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "not valid YAML"),
        (b"[" * 5000, "too deeply"),
        (
            b"a: &a [x, x]\n" + b"".join(b"b%d: &%c [*%c, *%c]\n" % (i, i, i - 1, i - 1) for i in range(98, 123)),
            "aliases",
        ),
    ],
)
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
