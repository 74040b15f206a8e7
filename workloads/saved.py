"""What an import takes over from another scheduler, in a file of natjam's own: YAML with ``name`` and one section.

The section has the scheduler's name, its version, and the values of a struct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_positions import read_document
from emulator.files.yaml_values import dump_yaml
from emulator.vocabulary import Frozen

SECTIONS = ("kubernetes", "kueue", "slurm")
"""Of all schedulers whose files are taken over."""
_HEAD_BYTES = 1 << 16


class Saved(Frozen):
    """Base of what such a file has in its section."""

    SECTION: ClassVar[str]
    VERSION: ClassVar[str]
    """Of the scheduler whose decisions are meant."""


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


def is_saved(path: Path, *sections: str) -> bool:
    """Whether ``path`` is such a file with one of ``sections``."""
    if not path.is_file():
        return False
    begins = tuple(f"{section}:".encode() for section in sections)
    with path.open("rb") as file:
        return any(line.startswith(begins) for line in file.read(_HEAD_BYTES).splitlines())


def read_section(path: Path, kind: type[SavedT]) -> SavedT:
    """The values that ``write_saved`` wrote.  Raises ConfigError: file, line and field."""
    document, section, version = read_document(path), kind.SECTION, kind.VERSION
    given = document.data.get(section)
    if given is None:
        others = (f", but natjam import {other}" for other in SECTIONS if other in document.data)
        raise ConfigError(f"{path}: natjam import {section} has not written this file{next(others, '')}")
    try:
        if not isinstance(given, dict) or given.get("version") != version:
            where = document.origin((section, "version"))
            raise ConfigError(f"{where}: {section}.version: must be '{version}'")
        return msgspec.convert({key: value for key, value in given.items() if key != "version"}, kind)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        location = _location(at.rstrip("`"))
        field = f"{section}.{at.rstrip('`')}: " if at else ""
        raise ConfigError(f"{document.origin((section, *location))}: {printable(field + what)}") from None


def _location(at: str) -> tuple[str | int, ...]:
    parts = at.replace("[", ".").replace("]", "").split(".") if at else []
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def refuse_twice(path: Path, where: str, names: Iterable[str]) -> None:
    """Raise ConfigError if two of the things at a place of the file have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"{path}: {where}: '{printable(name)}' is there twice")
        seen.add(name)


def write_saved(path: Path, value: Saved, head: Iterable[str]) -> None:
    """Write the file, with ``head`` as comments before it.  Raises RunError."""
    section = {"version": value.VERSION, **msgspec.to_builtins(value)}
    content: dict[str, Any] = {"name": path.stem, value.SECTION: section}
    comments = "".join(f"# {printable(line)}\n" for line in head)
    with written_whole(path) as unfinished:
        unfinished.write_text(comments + dump_yaml(content))
