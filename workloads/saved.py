"""What an import takes over from another scheduler, in a file of natjam's own.

It is YAML.  Its first line is its header, ``imported: SYSTEM VERSION``; then it has ``name``, and one section with the
values of a struct of ``emulator.sites``, whose name in lower case is the system's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_positions import LARGEST_FILE_BYTES, Document, read_document
from emulator.files.yaml_values import dump_yaml
from emulator.vocabulary import Frozen

VERSIONS = {"kubernetes": "1.36", "kueue": "0.19", "slurm": "22.05"}
"""The version of the scheduler whose decisions are meant, by system whose files are taken over."""
HEADER = "imported"
_ARGUMENTS = {"slurm": "--conf slurm.conf --sacct jobs.txt"}
_HEADERS = {f"{HEADER}: {system} {version}\n".encode(): system for system, version in VERSIONS.items()}
_LONGEST_HEADER = 80
SavedT = TypeVar("SavedT", bound=Frozen)


def system_of(path: Path) -> str | None:
    """The system from which a file was imported, by its header; None: it is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return _HEADERS.get(file.readline(_LONGEST_HEADER))


def section_of(document: Document) -> str | None:
    """The system whose section a file has; None: it has none."""
    return next((system for system in VERSIONS if system in document.data), None)


def made_anew(system: str, path: Path) -> str:
    """What to do with a file that another natjam has written."""
    arguments = _ARGUMENTS.get(system, "FILES")
    return f"another natjam has imported it; import it again: natjam import {system} {arguments} --out {path}"


def read_saved(path: Path, kind: type[SavedT]) -> SavedT:
    """The values that ``write_saved`` wrote.  Raises ConfigError."""
    return taken_over(read_document(path), kind)


def taken_over(document: Document, kind: type[SavedT]) -> SavedT:
    """The values of a file that was read already.  Raises ConfigError: file, line and field."""
    path, section, there = document.path, kind.__name__.lower(), section_of(document)
    if there is not None and document.data.get(HEADER) != f"{there} {VERSIONS[there]}":
        raise ConfigError(f"{document.origin((there,))}: {there}: {made_anew(there, path)}")
    if there != section:
        but = f", but natjam import {there}" if there else ""
        raise ConfigError(f"{path}: natjam import {section} has not written this file{but}")
    try:
        return msgspec.convert(document.data[section], kind)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        location = _location(at.rstrip("`"))
        field = f"{section}.{at.rstrip('`')}: " if at else f"{section}."
        raise ConfigError(f"{document.origin((section, *location))}: {printable(field + what)}") from None


def _location(at: str) -> tuple[str | int, ...]:
    parts = at.replace("[", ".").replace("]", "").split(".") if at else []
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


_TOO_LARGE = f"larger than {LARGEST_FILE_BYTES >> 20} MiB, the most that natjam reads of such a file"
JOB_BYTES = 90
"""What a job of Slurm takes in an imported file at least; with a time limit and a QOS it is some 150."""
MAX_SAVED_JOBS = LARGEST_FILE_BYTES // JOB_BYTES


def check_saved_jobs(path: Path, jobs: int) -> None:
    """Refuse a table whose jobs would not fit into the file that is written of them, before the work.

    Raises ConfigError.
    """
    if jobs > MAX_SAVED_JOBS:
        raise ConfigError(
            f"{path}: has {jobs:,} jobs, above {MAX_SAVED_JOBS:,}: the file made of them would be {_TOO_LARGE}; import"
            " a shorter time (sacct -S and -E)"
        )


def write_saved(path: Path, value: Frozen, head: Iterable[str]) -> None:
    """Write the file, with ``head`` as comments after its header.

    Raises:
        ConfigError: it would be larger than what is read.
        RunError: it cannot be written.
    """
    comments, system = "".join(f"# {printable(line)}\n" for line in head), type(value).__name__.lower()
    content = dump_yaml({"name": path.stem, system: msgspec.to_builtins(value)})
    text = f"{HEADER}: {system} {VERSIONS[system]}\n{comments}{content}".encode()
    if len(text) > LARGEST_FILE_BYTES:
        raise ConfigError(f"{path}: would be {_TOO_LARGE}: import a shorter time, or fewer objects")
    with written_whole(path) as unfinished:
        unfinished.write_bytes(text)
