"""The format of a trace, guessed from its name and its first bytes."""

from __future__ import annotations

from pathlib import Path

from workloads.errors import TraceError
from workloads.importers.source import ByteSource
from workloads.schema import Format
from workloads.store import is_workload

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
