"""The forms of a site's files: ``Key=Value``, comments, continued and included lines; tables; times, numbers and node
lists."""

from __future__ import annotations

import csv
import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from emulator.sites.slurm import SECOND_NS

MAX_BYTES = 16 * 1024 * 1024
LARGEST_TABLE_BYTES = 1 << 30
MAX_NODES = 100_000
MAX_INCLUDED = 1000
DEEPEST_INCLUDED = 10
UNLIMITED = ("UNLIMITED", "INFINITE", "-1")
_CLUSTER_NAME = "clustername"
_AROUND_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_RANGE = re.compile(r"(\d+)-(\d+)")
_BRACKETS = re.compile(r"\[[^][]*\]")
_DAYS_AND_HOURS = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?")


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    def error(self, key: str, what: str) -> ConfigError:
        """What is wrong with a key of this line."""
        return ConfigError(f"{self}: {key}: {what}")


@dataclass(frozen=True, slots=True)
class Line:
    """The pairs of one line, by key in lower case, in their order."""

    where: Where
    pairs: Mapping[str, str]

    @property
    def kind(self) -> str:
        """Its first key, which says what it is about."""
        return next(iter(self.pairs))


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a configuration, with those of included files in their places.

    Names of included files are relative to the folder of ``path``, and ``%c`` in them is the cluster's name
    (slurm.conf's page, INCLUDE MODIFIERS).

    Raises:
        ConfigError: a file cannot be read, a line has no ``Key=Value``, or too many files are included.
    """
    yield from _Lines(path).of(path, 0)


class _Lines:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._cluster_name = ""
        self._included = itertools.count(1)

    def of(self, path: Path, depth: int) -> Iterator[Line]:
        """The lines of a file, which is included so deep."""
        for where, words in _worded(path):
            if words[0].lower() == "include" and len(words) == 2:
                if depth == DEEPEST_INCLUDED:
                    raise where.error("Include", f"more than {DEEPEST_INCLUDED} files deep")
                if next(self._included) > MAX_INCLUDED:
                    raise where.error("Include", f"more than {MAX_INCLUDED:,} files")
                yield from self.of(self._path.parent / self._named(where, words[1]), depth + 1)
            else:
                line = Line(where, _pairs(where, words))
                self._cluster_name = line.pairs.get(_CLUSTER_NAME, self._cluster_name)
                yield line

    def _named(self, where: Where, name: str) -> str:
        """The name of an included file, with that of the cluster in it, which the file may give further down."""
        if "%c" not in name:
            return name
        cluster = self._cluster_name or next(
            (
                pairs[_CLUSTER_NAME]
                for at, words in _worded(self._path)
                if _CLUSTER_NAME in (pairs := _given(at, words))
            ),
            "",
        )
        if not cluster:
            raise where.error(
                "Include", f"'{printable(name[:40])}' has the cluster's name, but there is no ClusterName"
            )
        return name.replace("%c", cluster)


def _worded(path: Path) -> Iterator[tuple[Where, list[str]]]:
    """The words of each line that has some."""
    for number, text in _joined(path):
        where = Where(path, number)
        if words := _words(where, text):
            yield where, words


def _joined(path: Path) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones as one, with their numbers."""
    begun, begun_at = "", 0
    for number, line in enumerate(read_bytes(path, MAX_BYTES).decode("utf-8-sig", "replace").splitlines(), 1):
        text = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        begun_at = begun_at or number
        if text.endswith("\\"):
            begun += text[:-1]
            continue
        yield begun_at, begun + text
        begun, begun_at = "", 0
    if begun:
        yield begun_at, begun


def _words(where: Where, text: str) -> list[str]:
    """The words of a line: only ``"`` quotes, and there may be blanks around ``=``."""
    words = shlex.shlex(_AROUND_EQUALS.sub("=", text), punctuation_chars=False, posix=True)
    words.whitespace_split, words.commenters, words.quotes, words.escape = True, "", '"', ""
    try:
        return [*words]
    except ValueError as error:
        raise ConfigError(f"{where}: a quote is not closed") from error


def _given(where: Where, words: list[str]) -> dict[str, str]:
    """The pairs of a line; none of one that includes a file."""
    return {} if words[0].lower() == "include" else _pairs(where, words)


def _pairs(where: Where, words: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"{where}: '{printable(word[:40])}' is not Key=Value")
        pairs[key.lower()] = value
    return pairs


def whole(where: Where, key: str, text: str, least: int = 0) -> int:
    """A whole number that is not negative."""
    if not re.fullmatch(r"\d{1,15}", text):
        raise where.error(key, f"'{printable(text[:40])}' is not a whole number")
    if int(text) < least:
        raise where.error(key, f"must be at least {least}, not {text}")
    return int(text)


def time_ns(where: Where, key: str, text: str, unit_ns: int) -> int | None:
    """A time: a number in ``unit_ns``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM`` or ``D-HH:MM:SS``.

    None: unlimited.
    """
    if text.upper() in UNLIMITED:
        return None
    found = _DAYS_AND_HOURS.fullmatch(text)
    if found is None:
        raise where.error(key, f"'{printable(text[:40])}' is not a time such as 30, 10:00, 1:00:00 or 2-12")
    days, *parts = (None if part is None else int(part) for part in found.groups())
    given = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = (*given, 0, 0)[:3]
    elif len(given) == 1:
        return given[0] * unit_ns
    else:
        hours, minutes, seconds = (0, *given)[-3:]
    return (((days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds) * SECOND_NS


def node_names(where: Where, key: str, text: str) -> tuple[str, ...]:
    """The names in a node list such as ``n[0-3,7],login1``, in order."""
    if _most_names(text) > MAX_NODES:
        raise where.error(key, f"has more than {MAX_NODES:,} nodes")
    try:
        names = tuple(map(str, NodeSet(text, resolver=RESOLVER_NOGROUP)))
    except NodeSetException as error:
        raise where.error(key, printable(str(error))) from error
    if not names or len(names) > MAX_NODES:
        raise where.error(key, "names no node" if not names else f"has more than {MAX_NODES:,} nodes")
    return names


def _most_names(text: str) -> int:
    """How many names a node list stands for at most: the brackets of one name multiply."""
    names = _BRACKETS.sub(lambda found: found[0].replace(",", ";"), text).split(",")
    return sum(math.prod(map(_most_numbers, _BRACKETS.findall(name))) for name in names)


def _most_numbers(bracket: str) -> int:
    lengths = (
        int(last[:9]) - int(first[:9]) if len(last) < 10 else MAX_NODES for first, last in _RANGE.findall(bracket)
    )
    return bracket.count(";") + 1 + sum(max(0, length) for length in lengths)


def read_table(
    path: Path, needed: Sequence[str], command: str, broken: list[tuple[Where, dict[str, str]]] | None = None
) -> Iterator[tuple[Where, dict[str, str]]]:
    """The rows of a table that ``command`` prints, by its columns.

    Args:
        path: the table.
        needed: columns that it must have.
        command: what prints it.
        broken: takes rows with more or fewer values than there are columns, as far as they go; None: they are errors.

    Raises:
        ConfigError: it cannot be read, or is none, or one of the ``needed`` columns is missing.
    """
    text = read_bytes(path, LARGEST_TABLE_BYTES).decode("utf-8-sig", "replace")
    lines = csv.reader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE)
    try:
        columns = next(lines, [])
        if missing := [column for column in needed if column not in columns]:
            raise ConfigError(f"{path}:1: there is no column {missing[0]}; make the table with: {command}")
        for number, values in enumerate(lines, 2):
            where = Where(path, number)
            if len(values) == len(columns):
                yield where, dict(zip(columns, values, strict=True))
            elif broken is None:
                raise ConfigError(f"{where}: has {len(values)} values for {len(columns)} columns")
            else:
                broken.append((where, dict(zip(columns, values, strict=False))))
    except csv.Error as error:
        raise ConfigError(f"{path}: is not such a table: {error}") from error
