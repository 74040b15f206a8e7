"""YAML documents that know where every value came from, and overrides of their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError
from emulator.files.yaml_values import Location, dotted, kind_of, lines_of, parse_yaml

LARGEST_FILE_BYTES = 256 * 2**20
"""Of a file that is read here, and so of one that an import writes."""


@dataclass
class Document:
    """The values of one YAML file, and the overrides applied to it."""

    path: Path
    data: dict[str, Any]
    text: str = ""
    """The text of the file; positions in it are computed when needed."""
    overrides: dict[Location, str] = field(default_factory=dict)
    """Text of the override (``a.b=c``) that set the value at each location."""

    included: dict[Location, Path] = field(default_factory=dict)
    """By location of a list: the file whose lines are its items."""
    derived: dict[Location, str] = field(default_factory=dict)
    """By location of a value that another file gave: that file."""

    @cached_property
    def _lines(self) -> dict[Location, int]:
        return lines_of(self.text)

    def origin(self, location: Location) -> str:
        """Where the value at a location, or its nearest known parent, was set.

        A mapping or list counts as set by an override if something inside it was.
        """
        for overridden, text in self.overrides.items():
            if location and overridden[: len(location)] == location:
                return f"override {text}"
        parents = [location[:length] for length in range(len(location), -1, -1)]
        for parent in parents:
            if parent in self.overrides:
                return f"override {self.overrides[parent]}"
            if parent in self.derived:
                return self.derived[parent]
        for listed, file in self.included.items():
            if location[: len(listed)] == listed and len(location) > len(listed):
                return f"{file}:{int(location[len(listed)]) + 1}"
        line = next(self._lines[parent] for parent in parents if parent in self._lines)
        return f"{self.path}:{line}"

    def is_overridden(self, location: Location) -> bool:
        """Whether an override set the value at a location, or something that contains it."""
        return any(location[:length] in self.overrides for length in range(1, len(location) + 1))

    def override(self, text: str) -> None:
        """Apply one ``a.b=c``: the value is YAML, and a number in the path is the index of a list item.

        Raises:
            ConfigError: no ``=``, a path through something that is not a mapping or list, an index past the end, or
                bad YAML.
        """
        name, equals, value_text = text.partition("=")
        parts = name.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(f"override {text}: write key.key=value, for example scheduler.mechanism=kill")
        value = parse_yaml(value_text, f"override {text}", numbered=False) if value_text.strip() else ""
        location, self.data = _replaced(self.data, parts, value, text)
        depth = len(location)
        kept = {known: told for known, told in self.overrides.items() if known[:depth] != location}
        self.overrides = {**kept, location: text}

    def replace(self, location: Location, value: Any) -> None:
        """Replace the user's value by one derived from it (an absolute path); its origin stays."""
        _, self.data = _replaced(self.data, [str(part) for part in location], value, dotted(location))

    def derive(self, location: Location, value: Any, origin: str) -> None:
        """Set a value that another file gives."""
        _, self.data = _replaced(self.data, [str(part) for part in location], value, dotted(location))
        self.derived[location] = origin

    def include(self, location: Location, path: Path, items: tuple[Any, ...]) -> None:
        """Replace the name of a file by the items on its lines."""
        self.replace(location, items)
        self.included[location] = path

    def get(self, location: Location) -> Any:
        """The value at a location; None if there is none."""
        value: Any = self.data
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, tuple) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return None
        return value


def read_document(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises:
        ConfigError: it cannot be read, is not a regular file, is not UTF-8 text or valid YAML, or has a duplicate key
            or an unknown tag.
    """
    text = _read_text(path)
    data = parse_yaml(text, str(path))
    if data is None:
        raise ConfigError(f"{path}: the file is empty; an experiment starts with 'name: ...'")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: must be a mapping of keys to values, not {kind_of(data)}")
    return Document(path, data, text)


def read_bytes(path: Path, most: int) -> bytes:
    """The contents of a regular file of at most ``most`` bytes, a whole number of MiB.  Raises ConfigError."""
    try:
        if path.is_dir():
            raise ConfigError(f"{path}: is a directory; name a file")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is not a regular file; name another")
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: the path has a NUL
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    if len(raw) > most:
        raise ConfigError(f"{path}: is larger than {most // 2**20} MiB, the most that natjam reads of such a file")
    return raw


def _read_text(path: Path) -> str:
    raw = read_bytes(path, LARGEST_FILE_BYTES)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text; write the file as UTF-8 YAML") from None


def _replaced(container: Any, parts: list[str], value: Any, override: str) -> tuple[Location, Any]:
    """The path with list indices as numbers, and a copy of the container with the value replaced."""
    if not parts:
        return (), value
    key = parts[0]
    if isinstance(container, dict) or container is None:
        below, changed = _replaced((container or {}).get(key), parts[1:], value, override)
        return (key, *below), {**(container or {}), key: changed}
    if isinstance(container, tuple):
        if not (key.isascii() and key.isdigit() and int(key[:9]) < len(container)):
            last = len(container) - 1
            raise ConfigError(f"override {override}: '{key}' must be a list index from 0 to {last}")
        index = int(key)
        below, changed = _replaced(container[index], parts[1:], value, override)
        return (index, *below), (*container[:index], changed, *container[index + 1 :])
    raise ConfigError(f"override {override}: '{key}' cannot be set inside {kind_of(container)}: it is not a mapping")
