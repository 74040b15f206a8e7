"""Importers: one module for each trace format, a generator of ``WorkloadJob`` that uses as little memory as it can.

In: a trace as it is published.
Out: its jobs, one after another, and what had to be assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from workloads.errors import Problems, TraceError
from workloads.importers.google import HEADER as GOOGLE
from workloads.importers.google import read_google
from workloads.importers.rumen import HEADER as RUMEN
from workloads.importers.rumen import read_rumen
from workloads.importers.sls import HEADER as SLS
from workloads.importers.sls import read_sls
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.importers.swf import HEADER as SWF
from workloads.importers.swf import read_swf
from workloads.importers.swim import HEADER as SWIM
from workloads.importers.swim import read_swim
from workloads.importers.synth import HEADER as SYNTH
from workloads.importers.synth import read_synth
from workloads.importers.table_file import HEADER as TABLE
from workloads.importers.table_file import read_table
from workloads.importers.yarn_apps import HEADER as YARN
from workloads.importers.yarn_apps import read_yarn_apps
from workloads.record import Header, Trace, WorkloadJob
from workloads.schema import Format, Machine, TraceEntry, Unfinished
from workloads.store import is_workload, read_workload

_Read = Callable[..., Iterator[WorkloadJob]]
"""Functions of path, problems, facts and on_bytes; some have ``unfinished`` too."""
_READERS: dict[Format, tuple[Header, _Read]] = {
    "swim": (SWIM, read_swim),
    "rumen": (RUMEN, read_rumen),
    "sls": (SLS, read_sls),
    "synth": (SYNTH, read_synth),
    "swf": (SWF, read_swf),
    "google": (GOOGLE, read_google),
    "yarn": (YARN, read_yarn_apps),
    "table": (TABLE, read_table),
}
_UNFINISHED: dict[Format, Unfinished] = {"rumen": "median", "google": "observed"}
"""The defaults for formats that record tasks which did not finish."""


def open_entry(entry: TraceEntry, problems: Problems, on_bytes: OnBytes = ignore) -> Trace:
    """Open the trace of an experiment; see ``open_trace``."""
    given = {"unfinished": entry.rates.unfinished, "columns": entry.columns, "machine": entry.machine}
    return open_trace(Path(entry.path), entry.format, problems, on_bytes=on_bytes, **given)


def open_trace(
    path: Path,
    format: Format,
    problems: Problems,
    *,
    unfinished: Unfinished | None = None,
    columns: Mapping[str, str] | None = None,
    machine: Machine | None = None,
    on_bytes: OnBytes = ignore,
) -> Trace:
    """Open a trace; its jobs are read lazily, and reading them may raise TraceError.

    Args:
        path: a file; for a Google trace, the directory with the folders of its tables.
        format: its format.
        problems: handles broken rows.
        unfinished: the rule for the length of tasks that did not finish in the trace; None: the format's default.
        columns: of a table, its columns by field (``workloads.columns``).
        machine: of Google's trace, what its largest machine has; None: requests are not read.
        on_bytes: called with the progress.

    Raises:
        TraceError: it cannot be read.
    """
    if format == "natjam":
        return read_workload(path, problems, on_bytes)
    header, read = _READERS[format]
    step = f"read from {path.name} as {format}"
    if format in _UNFINISHED:
        rule = unfinished or _UNFINISHED[format]
        read, step = partial(read, unfinished=rule), f"{step}, unfinished: {rule}"
    if format == "table":
        read = partial(read, columns=columns or {})
        step += "".join(f", {field}: {column}" for field, column in (columns or {}).items())
    if machine is not None:
        read = partial(read, machine=machine)
        step += f", shares of a machine of {machine.cpu:g} cpu and {machine.memory_gb:g} GB"
    facts: dict[str, Any] = {}
    jobs = read(path, problems, facts, on_bytes)
    return Trace(header.with_step(step + (", lenient" if problems.lenient else "")), jobs, facts)


# ---- the format of a trace, guessed from its name and its first bytes ----

_OF_SUFFIX: dict[str, Format] = {".jsonl": "natjam", ".tsv": "swim", ".swf": "swf", ".csv": "table"}
_OF_KEYS: tuple[tuple[bytes, Format], ...] = (
    (b'"jobID"', "rumen"),
    (b'"am.type"', "sls"),
    (b'"job.start.ms"', "sls"),
    (b'"job_classes"', "synth"),
    (b'"apps"', "yarn"),
)
"""Keys of the JSON formats; the first of them in the file decides."""
_HEAD_BYTES = 64 * 1024


def guess_format(path: Path) -> Format | None:
    """The format of a file, compressed or not, or of a directory of tables; None: it cannot be guessed."""
    if path.is_dir():
        return "google" if (path / "task_events").is_dir() else None
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".parquet":
        return "natjam" if is_workload(path) else "table"
    return _OF_SUFFIX.get(suffix) or (_by_keys(path) if suffix == ".json" else None)


def _by_keys(path: Path) -> Format | None:
    try:
        with ByteSource(path) as source:
            head = source.read(_HEAD_BYTES)
    except TraceError:
        return None  # opening the file later will report the error
    places: list[tuple[int, Format]] = [(head.find(key), format) for key, format in _OF_KEYS if key in head]
    return min(places)[1] if places else None
