"""Traces in tests: the small shipped ones, and reading a whole trace."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.errors import Problems, TraceError
from workloads.importers import open_trace
from workloads.record import Header, WorkloadJob
from workloads.schema import Format, Machine, Unfinished

DATA = Path(__file__).parent / "data"
CATALOGUE_DATA = Path(__file__).parents[1] / "workloads" / "data"
FIRST_50 = CATALOGUE_DATA / "FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
FACEBOOK_DAY = CATALOGUE_DATA / "FB-2009_samples_24_times_1hr_0.tsv.gz"
FIVE_JOBS = DATA / "hadoop" / "5-of-19-jobs.trace.json.gz"
TWO_JOBS = DATA / "hadoop" / "2jobs2min-rumen-jh.json.gz"
SLS = DATA / "hadoop" / "inputsls.json"
SYNTH = DATA / "hadoop" / "syn.json"
GOOGLE = DATA / "google-2011"
SWF = DATA / "made-up.swf"
YARN = DATA / "hadoop" / "yarn"
YARN_APPS = YARN / "apps.json"


@dataclass(frozen=True)
class Read:
    """A trace read to its end."""

    header: Header
    jobs: list[WorkloadJob]
    facts: dict[str, Any]
    problems: list[TraceError]

    def of(self, job: str) -> WorkloadJob:
        return next(one for one in self.jobs if one.job == job)

    def tasks(self, kind: str) -> int:
        return sum(task.kind == kind for job in self.jobs for task in job.tasks or ())


def read(
    path: Path,
    format: Format,
    *,
    lenient: bool = False,
    unfinished: Unfinished | None = None,
    columns: Mapping[str, str] | None = None,
    machine: Machine | None = None,
) -> Read:
    """Read a trace to its end; raises TraceError."""
    problems = Problems(lenient)
    trace = open_trace(path, format, problems, unfinished=unfinished, columns=columns, machine=machine)
    jobs = list(trace.jobs)
    assert problems.count >= len(problems.kept)
    return Read(trace.header, jobs, trace.facts, problems.kept)


def write(folder: Path, raw: bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(raw)
    return path


def content(path: Path) -> bytes:
    """The bytes of a shipped trace, unpacked."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw
