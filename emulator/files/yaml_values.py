"""YAML text to plain values, and back.

libyaml gives the events of a text.  The values are built here, because we refuse duplicate keys and unknown tags, limit
the expansion of aliases, and return sequences as tuples, frozen like the models.  Plain words mean what YAML 1.2 says
(``yes`` is a word); numbers may have underscores.  A whole number that begins with 0 is refused: ``010`` is eight in
YAML 1.1, and ten in 1.2.  The lines of values are recorded only on request: this doubles the
time, and only errors need them.

The library's nodes would make values and lines in one, but a text of 20,000 jobs then takes 1.2 s before any value is
made, against 0.6 s for its values here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml
from yaml import CSafeLoader

from emulator.errors import ConfigError

Location = tuple["str | int", ...]
"""The path to a value: keys of mappings and indices of sequences."""

LARGEST_VALUE_COUNT = 2_000_000
"""More values than this, and than the file has characters, are refused: aliases can make a small file expand without
limit."""
DEEPEST_NESTING = 100
_LONGEST_NUMBER = 1000

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAGGED_BOOLS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9_]+)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_NUMBERS_BEGIN = frozenset("-+.0123456789")
_BASES = {"0b": 2, "0o": 8, "0x": 16}


def dotted(location: Location) -> str:
    """``('workload', 'jobs', 0, 'queue')`` as ``workload.jobs.0.queue``."""
    return ".".join(str(part) for part in location)


def with_tuples(value: Any) -> Any:
    """The value with lists turned into tuples, as values are read from YAML."""
    if isinstance(value, list | tuple):
        return tuple(map(with_tuples, value))
    return {key: with_tuples(below) for key, below in value.items()} if isinstance(value, dict) else value


def kind_of(value: Any) -> str:
    """A value as a message shows it: its type, and the value itself if it is short."""
    if value is None:
        return "null (nothing)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def parse_yaml(text: str, source: str, *, numbered: bool = True) -> Any:
    """The values of a YAML text; None if it is empty.

    Args:
        text: of one document.
        source: the name of the text in messages.
        numbered: whether messages name a line.

    Raises:
        ConfigError: the text is not valid YAML, is too deep or too large, or has a duplicate key or an unknown tag.
    """
    return _read(text, source, numbered, None)


def lines_of(text: str) -> dict[Location, int]:
    """The line, from 1, of each key and item of a text that was parsed before."""
    lines: list[tuple[Location, int]] = [((), 1)]
    _read(text, "", True, lines)
    return dict(lines)


def dump_yaml(data: Any, leaves_in_line: bool = False) -> str:
    """Data of plain types as YAML text that reads back as the same data; ``leaves_in_line``: what holds no more lists
    or mappings is on one line."""
    style = None if leaves_in_line else False
    return yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=style, width=4096)


class _Dumper(yaml.CSafeDumper):
    """Puts text in quotes that the rules above would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {}
for _tag, _pattern, _begin in (
    ("null", re.compile("|".join(map(re.escape, _WORDS))), ["", *"~nNtTfF"]),
    ("float", _FLOAT, [*_NUMBERS_BEGIN]),
    ("int", _INT, [*_NUMBERS_BEGIN]),
):
    _Dumper.add_implicit_resolver(_TAG + _tag, re.compile(f"(?:{_pattern.pattern})$"), _begin)


def _read(text: str, source: str, numbered: bool, lines: list[tuple[Location, int]] | None) -> Any:
    try:
        return _Builder(text, source, numbered, lines).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}" if mark is not None and numbered else source
        raise ConfigError(f"{place}: is not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # characters that YAML does not allow
        raise ConfigError(f"{source}: is not valid YAML: {str(error).splitlines()[0]}") from None


class _Anchor(msgspec.Struct):
    """The value that an alias refers to."""

    start: yaml.Event
    location: Location
    first_value: int
    """Number of values before it."""
    first_line: int
    """Number of lines recorded before it."""
    value: Any = None
    size: int = 0
    """Values in it, counting itself and the values of its aliases; 0 until it ends."""
    last_line: int = 0


class _Builder:
    """Builds the values of one document from its events."""

    def __init__(self, text: str, source: str, numbered: bool, lines: list[tuple[Location, int]] | None) -> None:
        self.next = CSafeLoader(text).get_event
        self.most_values = max(LARGEST_VALUE_COUNT, len(text))
        self.source = source
        self.numbered = numbered
        self.lines = lines
        self.path: list[str | int] = []
        """Path to the value being built."""
        self.count = 0
        """Number of values so far, with aliases expanded."""
        self.anchors: dict[str, _Anchor] = {}

    def document(self) -> Any:
        self.next()
        if type(self.next()) is yaml.StreamEndEvent:
            return None
        value = self.value(self.next())
        self.next()
        event = self.next()
        if type(event) is not yaml.StreamEndEvent:
            raise self.problem(event, "is not valid YAML: there is more than one document")
        return value

    def value(self, event: Any) -> Any:
        self.add(1)
        if type(event) is yaml.AliasEvent:
            return self.aliased(event)
        if event.anchor is not None:
            return self.anchored(event)
        return self.plain(event)

    def plain(self, event: Any) -> Any:
        if type(event) is yaml.ScalarEvent:
            return self.scalar(event)
        if len(self.path) > DEEPEST_NESTING:
            raise ConfigError(f"{self.source}: is nested too deeply")
        return self.mapping(event) if type(event) is yaml.MappingStartEvent else self.sequence(event)

    def add(self, values: int) -> None:
        self.count += values
        if self.count > self.most_values:
            raise ConfigError(f"{self.source}: has more than {self.most_values} values, with aliases expanded")

    def mapping(self, start: Any) -> dict[str, Any]:
        self.check_tag(start, "map")
        result: dict[str, Any] = {}
        next_event, path = self.next, self.path
        while type(event := next_event()) is not yaml.MappingEndEvent:
            if type(event) is not yaml.ScalarEvent:
                raise self.problem(event, "a key must be a plain word")
            key = event.value
            path.append(key)
            if key in result:
                raise self.problem(event, f"{dotted(tuple(path))}: the key is given twice; keep one")
            self.note(event)
            result[key] = self.value(next_event())
            path.pop()
        return result

    def sequence(self, start: Any) -> tuple[Any, ...]:
        self.check_tag(start, "seq")
        items: list[Any] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            self.path.append(len(items))
            self.note(event)
            items.append(self.value(event))
            self.path.pop()
        return tuple(items)

    def note(self, event: Any) -> None:
        if self.lines is not None:
            self.lines.append((tuple(self.path), event.start_mark.line + 1))

    def anchored(self, event: Any) -> Any:
        noted = self.lines or ()
        anchor = _Anchor(event, tuple(self.path), self.count - 1, len(noted))
        self.anchors[event.anchor] = anchor
        anchor.value = self.plain(event)
        anchor.size, anchor.last_line = self.count - anchor.first_value, len(noted)
        return anchor.value

    def aliased(self, event: Any) -> Any:
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            raise self.problem(event, f"is not valid YAML: found undefined alias {event.anchor!r}")
        if not anchor.size:
            raise self.problem(anchor.start, "an alias is inside the value that it refers to")
        self.add(anchor.size - 1)
        if self.lines is not None:
            depth = len(anchor.location)
            inside = self.lines[anchor.first_line : anchor.last_line]
            self.lines += [((*self.path, *location[depth:]), line) for location, line in inside]
        return anchor.value

    def scalar(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if tag is not None and tag != "!":
            return self.tagged(event, tag.removeprefix(_TAG))
        if not event.implicit[0]:
            return text
        if text[:1] in _NUMBERS_BEGIN:
            if text.isdigit() and text.isascii() and len(text) <= _LONGEST_NUMBER:
                return int(text) if text[0] != "0" or text == "0" else self.number(event, "int")
            if _FLOAT.fullmatch(text):
                return self.number(event, "float")
            if _INT.fullmatch(text):
                return self.number(event, "int")
            return text
        return _WORDS.get(text, text)

    def tagged(self, event: Any, tag: str) -> Any:
        if tag == "null":
            return None
        if tag in ("int", "float"):
            return self.number(event, tag)
        if tag == "bool" and event.value.lower() in _TAGGED_BOOLS:
            return _TAGGED_BOOLS[event.value.lower()]
        if tag == "bool":
            raise self.problem(event, f"{kind_of(event.value)} is no valid {tag}")
        if tag in ("str", "timestamp", "value", "merge"):
            return event.value
        raise self.problem(event, f"the tag {event.tag} is not supported; remove it")

    def number(self, event: Any, tag: str) -> int | float:
        text = event.value.replace("_", "")
        if len(text) > _LONGEST_NUMBER:
            raise self.problem(event, f"{kind_of(event.value)} is no valid {tag}")
        if tag == "int" and _LEADING_ZERO.fullmatch(text):
            shown = kind_of(event.value)
            raise self.problem(event, f"{shown} begins with 0: write it without, with 0o if it is octal, or in quotes")
        try:
            if tag == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            return int(text, _BASES.get(text.lstrip("+-")[:2], 10))
        except ValueError:
            raise self.problem(event, f"{kind_of(event.value)} is no valid {tag}") from None

    def check_tag(self, event: Any, expected: str) -> None:
        if event.tag is not None and event.tag not in ("!", _TAG + expected):
            raise self.problem(event, f"the tag {event.tag} is not supported; remove it")

    def problem(self, event: Any, message: str) -> ConfigError:
        place = f"{self.source}:{event.start_mark.line + 1}" if self.numbered else self.source
        return ConfigError(f"{place}: {message}")
