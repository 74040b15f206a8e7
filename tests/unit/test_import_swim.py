"""SWIM traces: rows, and broken files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces import FACEBOOK_DAY, FIRST_50, read, write
from workloads.errors import Problems, TraceError
from workloads.importers import open_trace

GOOD = b"job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t0\t432269\n"


def test_rows_of_the_shipped_files():
    jobs = read(FIRST_50, "swim").jobs
    assert len(jobs) == 50
    assert (jobs[0].submit_ns, jobs[-1].submit_ns) == (49 * 10**9, 2826 * 10**9)
    assert sum(job.input_bytes or 0 for job in jobs) == 16_208_585_408
    assert sum(job.shuffle_bytes or 0 for job in jobs) == 19_133_284_339
    assert sum(job.output_bytes or 0 for job in jobs) == 154_932_355_988
    assert sum(job.shuffle_bytes == 0 for job in jobs) == 18
    assert {job.tasks for job in jobs} == {None}
    day = read(FACEBOOK_DAY, "swim").jobs
    assert len(day) == 5894
    assert day[:50] == jobs
    assert sum(job.shuffle_bytes == 0 for job in day) == 4448


def test_a_path_column_and_a_missing_last_line_end_are_accepted(tmp_path: Path):
    path = write(tmp_path, b"job0\t1\t1\t5\t6\t7\tinputPath9\njob1\t1\t0\t5\t6\t7\tinputPath9\t\t\n")
    assert [job.output_bytes for job in read(path, "swim").jobs] == [7, 7]
    assert len(read(write(tmp_path, GOOD.removesuffix(b"\n")), "swim").jobs) == 2


BROKEN = [
    (b"\n", 1, None, "blank"),
    (GOOD + b"\n", 3, None, "blank"),
    (GOOD.replace(b"\t", b","), 1, None, "1 tab-separated fields"),
    (b"job0\t49\t49\t7\t2\n", 1, None, "5 tab-separated fields"),
    (b"job0\t49\t49\t7\t2\t3\tpath\tmore\n", 1, None, "8 tab-separated fields"),
    (b"job0\t49\t49\tNaN\t2\t3\n", 1, "map input bytes", "not a whole number"),
    (b"job0\t49\t49\t7\t2\t-3\n", 1, "reduce output bytes", "negative"),
    (b"job0\t49\t\t7\t2\t3\n", 1, "gap", "not a whole number"),
    (b"job0\t49\t49\t7\t\xd9\xa3\t3\n", 1, "shuffle bytes", "not a whole number"),
    (b"job0\t49\t49\t7\t" + b"9" * 5000 + b"\t3\n", 1, "shuffle bytes", "18 digits"),
    (b"job0\t" + b"9" * 18 + b"\t49\t7\t2\t3\n", 1, "submit time", "above"),
    (b"a\x00b\t49\t49\t7\t2\t3\n", 1, "job id", "printable"),
    (b"../x\t49\t49\t7\t2\t3\n", 1, "job id", "start with"),
    ("é".encode() * 80 + b"\t49\t49\t7\t2\t3\n", 1, "job id", "file name"),
    (GOOD + b"job0\t102\t1\t7\t2\t3\n", 3, "job id", "earlier line"),
    (GOOD + b"job2\t100\t1\t7\t2\t3\n", 3, "submit time", "before the line above"),
    (GOOD + b"job\xff\t102\t1\t7\t2\t3\n", 3, None, "byte 4 (0xff) is not UTF-8"),
    (GOOD + b"x" * 70_000, 3, None, "too long"),
]


@pytest.mark.parametrize(("raw", "line", "column", "reason"), BROKEN)
def test_error_names_file_line_column_and_reason(tmp_path: Path, raw, line, column, reason):
    path = write(tmp_path, raw)
    with pytest.raises(TraceError) as caught:
        read(path, "swim")
    error = caught.value
    assert (error.path, error.line, error.column) == (path, line, column)
    assert reason in error.reason
    assert error.message.startswith(f"{path}:{line}: ")
    assert len(error.message) < 500
    assert "\n" not in error.message


def test_lenient_skips_and_counts_what_is_broken(tmp_path: Path):
    raw = GOOD + b"job0\t102\t1\t7\t2\t3\n\njob2\t100\t1\t7\t2\t3\nx\njob3\t103\t1\t7\t2\t3\n"
    found = read(write(tmp_path, raw), "swim", lenient=True)
    assert [job.job for job in found.jobs] == ["job0", "job1", "job3"]
    assert [problem.line for problem in found.problems] == [3, 4, 5, 6]
    assert found.header.history[-1].endswith(", lenient")


def test_a_file_that_is_empty_or_not_there_or_no_file(tmp_path: Path):
    for lenient in (False, True):
        with pytest.raises(TraceError, match="empty"):
            read(write(tmp_path, b""), "swim", lenient=lenient)
        for path in (tmp_path / "none.tsv", tmp_path, Path("a\0b")):
            with pytest.raises(TraceError, match="cannot be read"):
                read(path, "swim", lenient=lenient)


def test_rows_before_a_broken_one_are_delivered(tmp_path: Path):
    """The reader streams: it does not read ahead of the row it hands out."""
    jobs = open_trace(write(tmp_path, GOOD + b"broken\n"), "swim", Problems()).jobs
    assert [next(jobs).job, next(jobs).job] == ["job0", "job1"]
    with pytest.raises(TraceError):
        next(jobs)


def test_truncated_and_damaged_gzip(tmp_path: Path):
    whole = FACEBOOK_DAY.read_bytes()
    with pytest.raises(TraceError, match="truncated"):
        read(write(tmp_path, whole[:5000]), "swim")
    damaged = bytearray(whole)
    damaged[5000:5040] = b"x" * 40
    with pytest.raises(TraceError, match=r"gzip|tab-separated|UTF-8|whole number|printable"):
        read(write(tmp_path, bytes(damaged)), "swim")
