"""The Google trace: counts of the slice, lengths and evictions of made-up events, block sizes, broken rows."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy
import pytest

from analysis.curves import summed
from analysis.timeline import make_timeline
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.history import AttemptRow
from emulator.records.parquet_tables import table_of
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from tests.traces import GOOGLE, read
from workloads.errors import TraceError
from workloads.importers import google_events
from workloads.schema import Machine

S = 10**6
SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)


def rows_of(table: str) -> list[list[str]]:
    files = sorted((GOOGLE / table).glob("part-*"))
    return [row for file in files for row in csv.reader(gzip.open(file, "rt"))]


def task_row(
    time_s: float, event: int, *, job: int = 1, index: int = 0, machine: int | str = 77, priority: int = 0
) -> str:
    return f"{int(time_s * S)},,{job},{index},{machine},{event},user,0,{priority},0.1,0.1,0.1,0\n"


def job_row(time_s: float, event: int, job: int = 1) -> str:
    return f"{int(time_s * S)},,{job},{event},user,2,name,logical\n"


def slice_of(folder: Path, tasks: str | bytes, jobs: str | bytes) -> Path:
    for table, rows in (("task_events", tasks), ("job_events", jobs)):
        (folder / table).mkdir(exist_ok=True, parents=True)
        (folder / table / "part-00000-of-00001.csv").write_bytes(rows if isinstance(rows, bytes) else rows.encode())
    return folder


class TestTheShippedSlice:
    def test_events_are_counted_as_they_are_in_the_files(self):
        facts = read(GOOGLE, "google").facts
        events, jobs = rows_of("task_events"), rows_of("job_events")
        assert (facts["task events"], facts["job events"]) == (len(events), len(jobs)) == (2704, 175)
        by_type = Counter(int(row[5]) for row in events)
        for number, name in enumerate(("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")):
            assert facts[f"task events {name}"] == by_type[number]
        evicted = Counter(row[8] for row in events if row[5] == "2")
        assert {name: facts[f"evictions of priority {name}"] for name in evicted} == evicted
        submitted = {(row[2], row[3]) for row in events if row[5] == "0"}
        assert facts["tasks with a SUBMIT event"] == len(submitted) == 827
        assert facts["jobs with a SUBMIT event of a task"] == len({job for job, _ in submitted}) == 62
        assert facts["machines at time 0"] == 40

    def test_jobs_and_tasks_are_those_submitted_in_the_slice(self):
        found = read(GOOGLE, "google")
        events = rows_of("task_events")
        submitted = {row[2] for row in rows_of("job_events") if row[3] == "0"}
        assert {job.job for job in found.jobs} <= submitted
        left_out = found.facts["jobs without any length, left out"]
        assert len(found.jobs) == len(submitted) - left_out == 56
        tasks = {(row[2], row[3]) for row in events if row[2] in submitted}
        assert found.tasks("reduce") + found.facts["tasks without a length, left out"] == len(tasks)
        assert found.tasks("map") == 0
        evictions = sum(row[5] == "2" and row[2] in submitted for row in events)
        assert sum(task.evictions or 0 for job in found.jobs for task in job.tasks or ()) == evictions

    def test_lengths_are_those_of_a_plain_reading(self):
        """One event after the other, by hand."""
        started: dict[tuple[str, str], int] = {}
        lengths: dict[tuple[str, str], int] = {}
        for row in rows_of("task_events"):
            task, time, event = (row[2], row[3]), int(row[0]), int(row[5])
            if event == FINISH and task in started:
                lengths[task] = (time - started[task]) * 1000
            if event == SCHEDULE:
                started[task] = time
            elif event <= LOST:
                started.pop(task, None)
        found = read(GOOGLE, "google", unfinished="drop")
        expected = Counter((job, length) for (job, _), length in lengths.items())
        names = {job.job for job in found.jobs}
        ours = Counter((job.job, length) for job in found.jobs for length in job.lengths_ns("reduce"))
        assert ours == Counter({key: count for key, count in expected.items() if key[0] in names})
        assert sum(ours.values()) > 300

    @pytest.mark.parametrize("block_bytes", [1000, 30_000])
    def test_the_size_of_blocks_does_not_matter(self, monkeypatch: pytest.MonkeyPatch, block_bytes: int):
        whole = read(GOOGLE, "google")
        monkeypatch.setattr(google_events, "BLOCK_BYTES", block_bytes)
        pieces = read(GOOGLE, "google")
        assert pieces.jobs == whole.jobs
        assert pieces.facts == whole.facts

    def test_one_file_of_task_events(self):
        path = GOOGLE / "task_events" / "part-00003-of-00500.csv.gz"
        found = read(path, "google")
        assert 0 < len(found.jobs) < 56
        assert {job.outcome for job in found.jobs} == {None}


class TestEvents:
    def test_evictions_lost_work_and_the_last_finish(self, tmp_path: Path):
        tasks = (
            task_row(10, SUBMIT)
            + task_row(11, SCHEDULE)
            + task_row(15, EVICT)
            + task_row(15, SUBMIT, machine="")
            + task_row(20, SCHEDULE)
            + task_row(21, UPDATE_RUNNING)
            + task_row(23, FAIL)
            + task_row(24, SUBMIT)
            + task_row(25, SCHEDULE, machine=78)
            + task_row(125, FINISH, machine=78, priority=4)
        )
        found = read(slice_of(tmp_path, tasks, job_row(9, SUBMIT) + job_row(126, FINISH)), "google")
        (job,) = found.jobs
        assert job.tasks is not None
        (task,) = job.tasks
        assert (job.submit_ns, job.finish_ns, job.outcome, job.user) == (9 * 10**9, 126 * 10**9, "succeeded", "user")
        assert (task.length_ns, task.start_ns, task.host) == (100 * 10**9, 25 * 10**9, "78")
        assert (task.attempts, task.evictions, task.lost_ns, task.priority) == (3, 1, 7 * 10**9, 4)

    @pytest.mark.parametrize(("rule", "length_s"), [("observed", 6), ("median", 30), ("drop", None)])
    def test_a_task_that_was_killed(self, tmp_path: Path, rule, length_s):
        tasks = (
            task_row(10, SUBMIT)
            + task_row(10, SUBMIT, index=1)
            + task_row(11, SCHEDULE)
            + task_row(12, SCHEDULE, index=1)
            + task_row(18, KILL, index=1)
            + task_row(41, FINISH)
        )
        path = slice_of(tmp_path, tasks, job_row(9, SUBMIT) + job_row(41, KILL))
        (job,) = read(path, "google", unfinished=rule).jobs
        assert [length // 10**9 for length in job.lengths_ns("reduce")] == [
            30,
            *([] if length_s is None else [length_s]),
        ]
        assert job.outcome == "killed"

    def test_what_began_before_the_slice_is_left_out_and_counted(self, tmp_path: Path):
        tasks = task_row(10, FINISH) + task_row(11, SUBMIT, job=2) + task_row(12, SCHEDULE, job=2)
        found = read(slice_of(tmp_path, tasks, job_row(9, FINISH) + job_row(11, SUBMIT, job=2)), "google")
        assert found.jobs == []
        assert found.facts["jobs without a SUBMIT event of their own, left out"] == 1
        assert found.facts["jobs without any length, left out"] == 1

    def test_after_the_end_of_the_trace(self, tmp_path: Path):
        end = task_row(0, KILL).replace("0", str(2**63 - 1), 1)
        tasks = task_row(10, SUBMIT) + task_row(11, SCHEDULE) + task_row(12, FINISH) + end
        (job,) = read(slice_of(tmp_path, tasks, job_row(9, SUBMIT)), "google").jobs
        assert job.lengths_ns("reduce") == (10**9,)


GOOD = task_row(10, SUBMIT) + task_row(11, SCHEDULE) + task_row(12, FINISH)
JOBS = job_row(9, SUBMIT) + job_row(12, FINISH)


@pytest.mark.parametrize(
    ("tasks", "line", "column", "reason"),
    [
        (GOOD + task_row(11, SUBMIT), 4, "time", "before the row above"),
        (GOOD + "NaN" + task_row(13, SUBMIT)[8:], 4, "time", "not a whole number"),
        (GOOD + task_row(13, 9), 4, "event", "above 8"),
        (GOOD + task_row(13, SUBMIT, priority=12), 4, "priority", "above 11"),
        (GOOD + task_row(13, SUBMIT).replace(",1,0,77", ",,0,77"), 4, "job", "missing"),
        (GOOD + task_row(13, SUBMIT).replace(",", ";"), 4, None, "1 fields"),
        (GOOD + "1,2,3\n", 4, None, "3 fields"),
        (GOOD + '"' + task_row(13, SUBMIT), 4, "time", "not a whole number"),
        (GOOD.encode() + b"1\xff" + task_row(13, SUBMIT).encode(), 4, None, "not UTF-8"),
        (GOOD + "x" * 100_000, 4, None, "too long"),
    ],
)
def test_broken_rows(tmp_path: Path, tasks, line, column, reason):
    path = slice_of(tmp_path, tasks, JOBS)
    with pytest.raises(TraceError) as caught:
        read(path, "google")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.path.parent.name == "task_events"
    assert reason in caught.value.reason
    if line > 1:
        (job,) = read(path, "google", lenient=True).jobs
        assert job.lengths_ns("reduce") == (10**9,)


def test_line_ends_of_other_systems(tmp_path: Path):
    path = slice_of(tmp_path, GOOD.replace("\n", "\r\n"), JOBS.replace("\n", "\r\n"))
    other = slice_of(tmp_path / "other", GOOD, JOBS)
    assert read(path, "google").jobs == read(other, "google").jobs


def test_no_tables_and_truncated_files(tmp_path: Path):
    with pytest.raises(TraceError, match="has no files task_events/part-"):
        read(tmp_path, "google")
    slice_of(tmp_path, gzip.compress(GOOD.encode() * 1000)[:60], JOBS)
    with pytest.raises(TraceError, match="truncated"):
        read(tmp_path, "google")


# ---- requests ----

EXACT = Machine(cpu=100_000, memory_gb=100_000)
"""So large that the shares of the trace, of eight decimals, are whole thousandths."""
ALL_AT_ONCE = """\
name: slice
engine: sim
overheads: none
protocol: {news: at-once}
cluster:
  application_masters: outside
  node_groups: [{count: 2, resources: {cpu: 1.0e+8, memory_gb: 1.0e+8}}]
scheduler:
  allocation: {name: soft-cap, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
workload:
  trace: {format: google, path: PATH, production_priority: 9, machine: {cpu: 100000, memory_gb: 100000}}
"""


def seen_requests() -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Of each task that was submitted with its job and ran in the slice: from when to when it would run if it began at
    once, in microseconds; and its requests, in hundred-millionths of the largest machine.  By hand."""
    submitted = {row[2]: int(row[0]) for row in reversed(rows_of("job_events")) if row[3] == "0"}
    begun: dict[tuple[str, str], int] = {}
    finished: dict[tuple[str, str], int] = {}
    longest: dict[tuple[str, str], int] = {}
    requests: dict[tuple[str, str], list[int]] = {}
    for row in rows_of("task_events"):
        task, time, event = (row[2], row[3]), int(row[0]), int(row[5])
        requests[task] = [int(Decimal(share) * 10**8) for share in row[9:11]]
        if event == SCHEDULE:
            begun[task] = time
        elif EVICT <= event <= LOST and task in begun:
            ran = time - begun.pop(task)
            longest[task] = max(ran, longest.get(task, 0))
            if event == FINISH:
                finished[task] = ran
    lengths = {task: finished.get(task, ran) for task, ran in longest.items() if task[0] in submitted}
    first = min(submitted[job] for job, _ in lengths)
    spans = [(submitted[job] - first, submitted[job] - first + ran) for (job, _), ran in lengths.items()]
    return spans, [requests[task] for task in lengths]


def test_what_the_tasks_of_the_slice_request_over_time_is_what_is_held_if_all_find_room(tmp_path: Path) -> None:
    path = tmp_path / "slice.yaml"
    path.write_text(ALL_AT_ONCE.replace("PATH", str(GOOGLE)))
    run = resolve(load_experiment(path))
    history = simulated_history(run)
    timeline = make_timeline(table_of(AttemptRow, history.attempts), run.settings.nodes, end_s=1e9)
    spans, requests = seen_requests()
    assert len(spans) == sum(row.kind == "reduce" for row in history.attempts) > 500
    starts, ends = (numpy.array([span[end] for span in spans], dtype=float) / 1e6 for end in (0, 1))
    for number, (_, (times_s, held)) in enumerate(timeline.total_use().values()):
        amounts = numpy.array([each[number] for each in requests])
        wanted_s, wanted = summed(numpy.concatenate([starts, ends]), numpy.concatenate([amounts, -amounts]))
        same = numpy.searchsorted(times_s, wanted_s + 1e-6) - 1
        assert times_s[same] == pytest.approx(wanted_s, abs=2e-6)
        assert (held[same] == wanted).all()


def test_a_request_of_one_task_that_differs_is_kept_with_each_task(tmp_path: Path) -> None:
    events = "".join(
        task_row(time, event, index=index).replace(",0.1,0.1,0.1,0", f",{cpu},0.25,0,0")
        for index, cpu in ((0, 0.1), (1, 0.5), (2, 0.1))
        for time, event in ((1, SUBMIT), (2, SCHEDULE), (9 + index, FINISH))
    )
    rows = sorted(events.splitlines(keepends=True), key=lambda row: int(row.partition(",")[0]))
    path = slice_of(tmp_path, "".join(rows), job_row(1, SUBMIT) + job_row(20, FINISH))
    (job,) = read(path, "google", machine=Machine(cpu=10, memory_gb=8)).jobs
    assert job.cpu_thousandths is job.memory_bytes is None
    assert [(task.cpu_thousandths, task.memory_bytes) for task in job.tasks or ()] == [
        (1000, 2 << 30),
        (5000, 2 << 30),
        (1000, 2 << 30),
    ]
    (job,) = read(path, "google").jobs
    assert {task.cpu_thousandths for task in job.tasks or ()} == {None}
    text = ALL_AT_ONCE.replace("PATH", str(path)).replace("100000", "10")
    (tmp_path / "sized.yaml").write_text(text)
    (spec,) = expand(load_experiment(tmp_path / "sized.yaml"), 1)
    assert [(group.name, group.count, group.request) for group in spec.facts.groups] == [
        ("reduce", 2, (1000, 2500)),
        ("reduce-2", 1, (5000, 2500)),
    ]
    assert [length // 10**9 for length in spec.reduce_ns] == [7, 9, 8]


def test_a_share_above_a_machine_is_a_broken_row(tmp_path: Path) -> None:
    row = task_row(1, SUBMIT).replace(",0.1,0.1,0.1,0", ",1.5,0.1,0,0")
    path = slice_of(tmp_path, row, job_row(1, SUBMIT))
    with pytest.raises(TraceError, match="is no share of a machine, from 0 to 1"):
        read(path, "google", machine=EXACT)
    read(path, "google")
