"""Rumen traces: counts and lengths of real jobs, tasks that did not finish, and broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces import FIVE_JOBS, TWO_JOBS, content, read, write
from workloads.errors import TraceError

MS = 10**6


def attempt(start: int, finish: float, result: str = "SUCCESS", **more: Any) -> dict[str, Any]:
    return {"startTime": start, "finishTime": finish, "result": result, "hostName": "/r/n", **more}


def job(name: str = "job_1", maps: Any = None, reduces: Any = (), **more: Any) -> dict[str, Any]:
    tasks = [{"attempts": attempts} for attempts in (maps if maps is not None else [[attempt(1000, 3000)]])]
    reduces = [{"attempts": attempts} for attempts in reduces]
    return {"jobID": name, "submitTime": 500, "finishTime": 9000, "mapTasks": tasks, "reduceTasks": reduces, **more}


def dumped(*jobs: Any) -> bytes:
    return "\n".join(json.dumps(one) for one in jobs).encode()


def test_the_shipped_jobs():
    found = read(FIVE_JOBS, "rumen")
    assert len(found.jobs) == 5
    assert (found.tasks("map"), found.tasks("reduce")) == (503, 151)
    assert found.facts["attempts"] == 757
    assert [found.facts[f"attempts {result}"] for result in ("SUCCESS", "FAILED", "KILLED")] == [652, 17, 88]
    failed = found.of("job_200904211745_0020")
    assert (failed.outcome, len(failed.lengths_ns("map")), len(failed.lengths_ns("reduce"))) == ("failed", 329, 101)
    modelled = [task for job in found.jobs for task in job.tasks or () if task.source == "modelled"]
    assert [task.kind for task in modelled] == ["reduce", "reduce"]
    small = found.of("job_200904211745_0003")
    assert (small.user, small.priority, small.memory_bytes) == ("geek2", 3, 640 * 2**20)
    assert max(job.finish_ns or 0 for job in found.jobs) - min(job.submit_ns for job in found.jobs) == 1_989_657 * MS


def test_the_two_jobs_of_yarns_simulator():
    found = read(TWO_JOBS, "rumen")
    first, second = found.jobs
    assert [len(job.tasks or ()) for job in found.jobs] == [96, 96]
    assert second.submit_ns - first.submit_ns == 105_204 * MS
    assert (second.finish_ns or 0) - first.submit_ns == 197_256 * MS
    lengths_s = sorted(length / 1e9 for job in found.jobs for length in job.lengths_ns("map"))
    assert [round(lengths_s[place], 1) for place in (0, 96, -1)] == [11.1, 19.7, 47.0]
    assert {job.queue for job in found.jobs} == {"sls_queue_1"}


class TestLengths:
    def test_a_reduce_does_not_work_while_it_waits_for_maps(self, tmp_path: Path):
        early = attempt(2000, 8000, shuffleFinished=3500)  # its last map ends at 3000
        second_wave = attempt(5000, 8000, shuffleFinished=6000)
        shuffled_before = attempt(1000, 8000, shuffleFinished=2500)
        raw = dumped(job(reduces=[[early], [second_wave], [shuffled_before]]))
        (found,) = read(write(tmp_path, raw), "rumen").jobs
        assert found.lengths_ns("reduce") == (5000 * MS, 3000 * MS, 5500 * MS)
        assert found.lengths_ns("map") == (2000 * MS,)

    def test_the_successful_attempt_counts_and_the_others_are_lost(self, tmp_path: Path):
        runs = [attempt(1000, 1400, "FAILED"), attempt(1500, 2500), attempt(1600, 1700, "KILLED")]
        (found,) = read(write(tmp_path, dumped(job(maps=[runs]))), "rumen").jobs
        assert found.tasks is not None
        (task,) = found.tasks
        assert (task.length_ns, task.attempts, task.lost_ns, task.start_ns) == (1000 * MS, 3, 500 * MS, 1500 * MS)

    @pytest.mark.parametrize(
        ("rule", "lengths_ms"),
        [("median", [2000, 2000, 2000]), ("observed", [2000, 700]), ("drop", [2000])],
    )
    def test_tasks_that_did_not_finish(self, tmp_path: Path, rule, lengths_ms):
        maps = [[attempt(1000, 3000)], [attempt(1000, 1700, "KILLED")], []]
        found = read(write(tmp_path, dumped(job(maps=maps))), "rumen", unfinished=rule)
        assert [length // MS for length in found.jobs[0].lengths_ns("map")] == lengths_ms
        assert found.facts["tasks without a length, left out"] == 3 - len(lengths_ms)
        sources = [task.source for task in found.jobs[0].tasks or ()]
        assert sources == ["measured"] + ["modelled"] * (len(lengths_ms) - 1)

    def test_without_any_success_the_observed_runs_give_the_median(self, tmp_path: Path):
        maps = [[attempt(1000, 1700, "KILLED")], [attempt(1000, 1900, "FAILED")], [attempt(1000, 1100, "FAILED")], []]
        found = read(write(tmp_path, dumped(job(maps=maps), job("job_2", maps=[[]]))), "rumen")
        assert [length // MS for length in found.jobs[0].lengths_ns("map")] == [700] * 4
        assert len(found.jobs) == 1
        assert found.facts["jobs without any length, left out"] == 1

    def test_times_not_recorded(self, tmp_path: Path):
        maps = [[attempt(-1, 2000), attempt(0, -1, "KILLED"), attempt(1000, 1250)]]
        (found,) = read(write(tmp_path, dumped(job(maps=maps, finishTime=-1))), "rumen").jobs
        assert (found.lengths_ns("map"), found.finish_ns) == ((250 * MS,), None)


GOOD = dumped(job())
BROKEN = [
    (GOOD + b"\n" + GOOD, 2, "jobID", "earlier job"),
    (dumped(job(submitTime=None)), 1, "submitTime", "missing"),
    (dumped(job(submitTime="5")), 1, "submitTime", "not a whole number"),
    (dumped(job(submitTime=10**18)), 1, "submitTime", "is not 0 to"),
    (dumped(job(finishTime=400)), 1, "finishTime", "before submitTime"),
    (dumped(job(jobID=None)), 1, "jobID", "not text"),
    (dumped(job(mapTasks={})), 1, "mapTasks", "not a list"),
    (dumped(job(mapTasks=[3])), 1, "mapTasks[0]", "not an object"),
    (dumped(job(maps=[[attempt(3000, 1000)]])), 1, "mapTasks[0].attempts[0].finishTime", "2 s before startTime"),
    (dumped(job(maps=[[attempt(1, 2), attempt(1, 2.5)]])), 1, "mapTasks[0].attempts[1].finishTime", "not a whole"),
    (GOOD.replace(b"500", b"NaN", 1), 1, None, "not JSON"),
    (b"\n\n" + GOOD[:-1], 3, None, "no end"),
    (GOOD + b"\n,\n" + GOOD, 2, None, "not a JSON object"),
    (b"a\tb\tc\n", 1, None, "is not a JSON object"),
    (b"", None, None, "no JSON object in the file"),
    (b'{"a": "' + b"x" * (2 << 20), 1, None, "closing quote"),
]


@pytest.mark.parametrize(("raw", "line", "column", "reason"), BROKEN)
def test_error_names_file_line_column_and_reason(tmp_path: Path, raw, line, column, reason):
    path = write(tmp_path, raw)
    with pytest.raises(TraceError) as caught:
        read(path, "rumen")
    assert reason in caught.value.reason
    if line is not None:
        assert (caught.value.line, caught.value.column) == (line, column)


def test_lenient_skips_attempts_tasks_and_jobs_and_counts_them(tmp_path: Path):
    maps = [[attempt(3000, 1000, "FAILED"), attempt(1000, 2000)], [attempt(3000, 1000)], [attempt(1000, 5000)]]
    raw = dumped(job(maps=maps), job("job_2", submitTime=None), job("job_3")) + b"\n{"
    found = read(write(tmp_path, raw), "rumen", lenient=True)
    assert [job.job for job in found.jobs] == ["job_1", "job_3"]
    assert [length // MS for length in found.jobs[0].lengths_ns("map")] == [1000, 2500, 4000]
    assert [problem.line for problem in found.problems] == [1, 1, 2, 4]


def test_objects_over_many_lines_carriage_returns_and_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    raw = content(TWO_JOBS)
    whole = read(TWO_JOBS, "rumen").jobs
    assert read(write(tmp_path, raw.replace(b"\n", b"\r\n")), "rumen").jobs == whole
    monkeypatch.setattr("workloads.importers.json_objects.CHUNK_BYTES", 1000)
    assert read(TWO_JOBS, "rumen").jobs == whole
    broken = raw.replace(b'"finishTime" : 1371222251755', b'"finishTime" : x', 1)
    with pytest.raises(TraceError) as caught:
        read(write(tmp_path, broken), "rumen")
    assert caught.value.line == broken[: broken.index(b": x")].count(b"\n") + 1
