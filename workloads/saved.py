"""What an import takes over from another scheduler, in a file of natjam's own.

It is YAML.  Its first line is its header, ``imported: SYSTEM VERSION``; then it has ``name``, and one section with the
system's name and the values of a struct (``emulator.sites``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_positions import Document, read_document
from emulator.files.yaml_values import dump_yaml
from emulator.sites.saved import Saved
from emulator.vocabulary import Frozen

SECTIONS = ("kubernetes", "kueue", "slurm")
"""Of all schedulers whose files are taken over."""
HEADER = "imported"
_LONGEST_HEADER = 80
_ARGUMENTS = {"slurm": "--conf slurm.conf --sacct jobs.txt"}


SavedT = TypeVar("SavedT", bound=Saved)


class NotTaken(Frozen):
    """Something that an import leaves behind, in the words of the file that it was found in."""

    what: str
    where: str
    """File and line."""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.where})" + (f": {self.why}" if self.why else "")


def head_of(system: str, paths: Iterable[Path], left_out: Sequence[NotTaken]) -> list[str]:
    """The comments of a file: what it was made from, and what is not carried over."""
    lines = [f"Made by natjam import {system} from " + ", ".join(path.name for path in paths) + "."]
    return [*lines, "Not carried over:", *(f"  {each}" for each in left_out)] if left_out else lines


def system_of(path: Path) -> str | None:
    """The system from which a file was imported, by its header; None: it is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        key, _, given = file.readline(_LONGEST_HEADER).decode(errors="replace").partition(": ")
    system = given.partition(" ")[0]
    return system if key == HEADER and system in SECTIONS else None


def section_of(document: Document) -> str | None:
    """The system whose section a file has, imported or not; None: it has none."""
    return next((section for section in SECTIONS if section in document.data), None)


def made_anew(system: str, path: Path) -> str:
    """What to do with a file that another natjam has written."""
    arguments = _ARGUMENTS.get(system, "FILES")
    return f"another natjam has imported it; import it again: natjam import {system} {arguments} --out {path}"


def read_saved(path: Path, kind: type[SavedT]) -> SavedT:
    """The values that ``write_saved`` wrote.  Raises ConfigError."""
    return taken_over(read_document(path), kind)


def taken_over(document: Document, kind: type[SavedT]) -> SavedT:
    """The values of a file that was read already.  Raises ConfigError: file, line and field."""
    path, section = document.path, kind.SECTION
    if section not in document.data:
        other = section_of(document)
        but = f", but natjam import {other}" if other else ""
        raise ConfigError(f"{path}: natjam import {section} has not written this file{but}")
    if document.data.get(HEADER) != f"{section} {kind.VERSION}":
        raise ConfigError(f"{document.origin((section,))}: {section}: {made_anew(section, path)}")
    try:
        value = msgspec.convert(document.data[section], kind)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        location = _location(at.rstrip("`"))
        field = f"{section}.{at.rstrip('`')}: " if at else ""
        raise ConfigError(f"{document.origin((section, *location))}: {printable(field + what)}") from None
    for problem in value.problems():
        raise ConfigError(f"{path}: {section}.{printable(problem)}")
    return value


def _location(at: str) -> tuple[str | int, ...]:
    parts = at.replace("[", ".").replace("]", "").split(".") if at else []
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def write_saved(path: Path, value: Saved, head: Iterable[str]) -> None:
    """Write the file, with ``head`` as comments after its header.  Raises RunError."""
    comments = "".join(f"# {printable(line)}\n" for line in head)
    content = dump_yaml({"name": path.stem, value.SECTION: msgspec.to_builtins(value)})
    with written_whole(path) as unfinished:
        unfinished.write_text(f"{HEADER}: {value.SECTION} {value.VERSION}\n{comments}{content}")
