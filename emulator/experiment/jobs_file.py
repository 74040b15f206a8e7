"""The jobs of a large workload in a file of JSON lines: one job a line, with the same keys as in YAML.

``workload: {jobs: {file: workload.jsonl}}`` replaces a list of jobs.  A relative path starts from the experiment's
directory.  Runs with many jobs write such a file and its ``sha256``; a file that was changed later is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field, ValidationError

from emulator.errors import ConfigError
from emulator.files.json_values import decoded
from emulator.files.strict import Strict
from emulator.files.yaml_positions import Document, read_bytes
from emulator.files.yaml_values import with_tuples
from workloads.schema import JobEntry

JOBS_NAME = "workload.jsonl"
LARGEST_FILE_BYTES = 256 * 2**20
_WHERE = ("workload", "jobs")


class JobsFile(Strict):
    """The file of the jobs."""

    file: Annotated[str, Field(min_length=1)]
    sha256: str | None = None


def encode_jobs(jobs: Sequence[JobEntry]) -> bytes:
    """Jobs as the bytes of such a file; default values are left out."""
    return b"".join(
        job.model_dump_json(exclude_defaults=True, fallback=msgspec.to_builtins).encode() + b"\n" for job in jobs
    )


def include_jobs(document: Document) -> None:
    """Replace the name of a file of jobs by the jobs.

    Raises:
        ConfigError: the file cannot be read, its ``sha256`` differs, or a line is not a JSON object.
    """
    entry = document.get(_WHERE)
    if not isinstance(entry, dict) or "file" not in entry:
        return
    try:
        named = JobsFile.model_validate(entry)
    except ValidationError:
        where = document.origin(_WHERE)
        raise ConfigError(f"{where}: workload.jobs: must be a list of jobs or {{file: ..., sha256: ...}}") from None
    path = (document.path.parent / Path(named.file).expanduser()).absolute()
    data = read_bytes(path, LARGEST_FILE_BYTES)
    if named.sha256 not in (None, hashlib.sha256(data).hexdigest()):
        raise ConfigError(f"{path}: was changed after {document.path} was written (its sha256 differs)")
    lines = enumerate(data.removesuffix(b"\n").split(b"\n"), start=1)
    document.include(_WHERE, path, tuple(_job(path, *line) for line in lines))


def _job(path: Path, number: int, line: bytes) -> Any:
    try:
        return with_tuples(decoded(line, _decode, ConfigError))
    except ConfigError as error:
        raise ConfigError(f"{path}:{number}: {error.message}") from None


_decode = msgspec.json.Decoder(dict[str, Any]).decode
