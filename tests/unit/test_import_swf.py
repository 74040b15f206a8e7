"""The Standard Workload Format: what its fields mean, and broken files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.traces import SWF, content, read, write
from workloads.errors import TraceError

LINE = b"1 0 10 100 4 95 2048 4 3600 4096 1 3 1 -1 1 -1 -1 -1\n"


def test_the_shipped_file():
    found = read(SWF, "swf")
    first, third, fourth = found.jobs
    assert (first.job, first.submit_ns, first.start_ns, first.finish_ns) == ("job-1", 0, 10 * 10**9, 110 * 10**9)
    assert first.lengths_ns("reduce") == (100 * 10**9,) * 4
    assert (first.queue, first.user, first.memory_bytes, first.outcome) == ("queue-1", "user-3", 2**21, "succeeded")
    assert third.lengths_ns("reduce") == (30_250_000_000,) * 2, "requested processors, fractions of a second"
    assert (third.memory_bytes, third.outcome, third.start_ns) == (2**20, "failed", 60_500_000_000)
    assert fourth.lengths_ns("reduce") == (120 * 10**9,), "the whole, not its partial executions"
    assert found.facts == {"rows": 5, "jobs that never ran, left out": 2, "partial executions, left out": 2}
    assert found.header.columns["tasks.kind"].source == "modelled"


@pytest.mark.parametrize(
    ("raw", "line", "column", "reason"),
    [
        (LINE + LINE, 2, "job number", "earlier job"),
        (LINE + b"2 5" + LINE[3:] + b"3 4" + LINE[3:], 3, "submit time", "before the job above"),
        (LINE.replace(b" 100 ", b" NaN "), 1, "run time", "not a number"),
        (LINE.replace(b" 100 ", b" 1e20 "), 1, "run time", "above"),
        (LINE.replace(b" 4 95", b" 4.5 95"), 1, "allocated processors", "not a whole number"),
        (LINE.replace(b" 4 95", b" 200000 95"), 1, "allocated processors", "above 100000"),
        (LINE.replace(b"4096 1 ", b"4096 9 "), 1, "status", "none of"),
        (LINE.replace(b" ", b","), 1, None, "1 fields"),
        (b"; nothing\n", None, None, "no job in the file"),
    ],
)
def test_broken(tmp_path: Path, raw: bytes, line: int, column: str, reason: str):
    with pytest.raises(TraceError) as caught:
        read(write(tmp_path, raw), "swf")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


@pytest.mark.parametrize("change", [lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: b"\xef\xbb\xbf" + raw])
def test_files_from_other_systems(tmp_path: Path, change: Callable[[bytes], bytes]):
    raw = b"; comment\n" + LINE
    assert read(write(tmp_path, change(raw)), "swf").jobs == read(write(tmp_path, raw), "swf").jobs


def test_lenient_skips_and_counts(tmp_path: Path):
    found = read(write(tmp_path, content(SWF) + b"x\n" + LINE), "swf", lenient=True)
    assert len(found.jobs) == 3
    assert [problem.line for problem in found.problems] == [13, 14]


def test_archives_are_longer_than_the_longest_task(tmp_path: Path):
    late = LINE.replace(b"1 0 ", b"2 109000000 ")
    assert [job.submit_ns for job in read(write(tmp_path, LINE + late), "swf").jobs] == [0, 109_000_000 * 10**9]
    with pytest.raises(TraceError) as caught:
        read(write(tmp_path, LINE + LINE.replace(b"1 0 ", b"2 1e10 ")), "swf")
    assert (caught.value.line, caught.value.column) == (2, "submit time")
