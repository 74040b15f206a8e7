"""What importing costs: memory, which does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.traces import FACEBOOK_DAY, FIVE_JOBS, GOOGLE, TWO_JOBS, content
from workloads.schema import Format

_DAY_US = 86_400 * 10**6
_MEASURE = """
import resource, sys
from pathlib import Path
from workloads.errors import Problems
from workloads.importers import open_trace
trace = open_trace(Path(sys.argv[1]), sys.argv[2], Problems())
jobs = sum(1 for _ in trace.jobs)
print(jobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def google(folder: Path, copies: int) -> Path:
    """The jobs of the shipped slice that begin and end in it, again and again: on days and with ids of their own."""
    begun = {row[2] for row in _rows("job_events") if row[3] == "0"}
    ended = sorted(begun & {row[2] for row in _rows("job_events") if row[3] in "3456"})
    numbers = {job: number for number, job in enumerate(ended, 1)}
    for table in ("task_events", "job_events"):
        rows = [row for row in _rows(table) if row[2] in ended]
        (folder / table).mkdir(parents=True)
        with (folder / table / "part-00000-of-00001.csv").open("w", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            for copy in range(copies):
                for row in rows:
                    time_us, job = int(row[0]) + copy * _DAY_US, numbers[row[2]] + copy * len(ended)
                    writer.writerow([time_us, row[1], job, *row[3:]])
    return folder


def _rows(table: str) -> Iterator[list[str]]:
    for path in sorted((GOOGLE / table).glob("part-*")):
        yield from csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))


def swim(folder: Path, copies: int) -> Path:
    rows = [line.split("\t") for line in content(FACEBOOK_DAY).decode().splitlines()]
    path = folder / "days.tsv"
    with path.open("w") as stream:
        for copy in range(copies):
            for row in rows:
                stream.write("\t".join([f"{row[0]}{copy:03}", str(int(row[1]) + copy * 86_410), *row[2:]]) + "\n")
    return path


def rumen(folder: Path, copies: int) -> Path:
    path = folder / "jobs.json"
    raw = content(FIVE_JOBS)
    with path.open("wb") as stream:
        for copy in range(copies):
            stream.write(raw.replace(b"job_200904211745_", b"job_2009%08d_" % copy))
    return path


def sls(folder: Path, copies: int) -> Path:
    from workloads.errors import Problems
    from workloads.importers import open_trace
    from workloads.importers.sls import export_sls

    one, path = folder / "one.json", folder / "jobs.json"
    export_sls(one, open_trace(TWO_JOBS, "rumen", Problems()))
    raw = one.read_bytes()
    with path.open("wb") as stream:
        for copy in range(copies):
            stream.write(raw.replace(b'"job.id": "job_', b'"job.id": "job_%d_' % copy))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "make", "copies"),
    [("google", google, 100), ("swim", swim, 10), ("rumen", rumen, 10), ("sls", sls, 100)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_memory_does_not_grow_with_the_file(
    format: Format, make: Callable[[Path, int], Path], copies: int, tmp_path: Path
) -> None:
    peaks, jobs = [], []
    for times in (1, 10):
        (tmp_path / str(times)).mkdir()
        path = make(tmp_path / str(times) / "trace" if format == "google" else tmp_path / str(times), times * copies)
        told = subprocess.run(
            [sys.executable, "-c", _MEASURE, str(path), format], check=True, capture_output=True, text=True
        ).stdout
        count, peak_kib = map(int, told.split())
        jobs.append(count)
        peaks.append(peak_kib / 1024)
    print(f"{format}: {jobs[0]} jobs {peaks[0]:.0f} MiB, {jobs[1]} jobs {peaks[1]:.0f} MiB")
    assert jobs[1] == 10 * jobs[0]
    assert peaks[1] < 1.2 * peaks[0] + 5
