"""Objects in JSON as nodes of YAML, made as far as they are looked at: most of what kubectl prints nobody asks for.

Python reads JSON several times as fast as libyaml makes nodes of it.  Where a node stands is found when it is asked, by
reading what is before it in its object once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

_SPACE = re.compile(r"\s*")
_NEXT_VALUE = re.compile(rb"\}\s*\{")
"""Between two values of JSON; inside of one there is a comma."""


class Text(NamedTuple):
    """A text in a file: of one object, or of all that are in it."""

    raw: bytes
    line: int = 0
    """The number of lines before it."""
    of_list: tuple[str, str] | None = None
    """Of an item of a list: version and kind that the list has, if it is a typed one as ``NodeList``."""


def texts_of(raw: bytes) -> Iterator[Text]:
    """The items of lists in JSON, and other values of JSON, also where one list follows the other, which is no YAML.

    Anything else as it is.
    """
    for text in _values(raw):
        yield from _items(text)


def _values(raw: bytes) -> list[Text]:
    if _NEXT_VALUE.search(raw) is None:
        return [Text(raw)]
    found: list[Text] = []
    decoder, line, at = json.JSONDecoder(), 0, 0
    try:
        text = raw.decode("utf-8-sig")
        while at < len(text):
            begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            line += text.count("\n", at, begin)
            if begin == len(text):
                break
            if text[begin] != "{":
                return [Text(raw)]
            at = decoder.raw_decode(text, begin)[1]
            found.append(Text(text[begin:at].encode(), line))
            line += text.count("\n", begin, at)
    except (ValueError, RecursionError):
        return [Text(raw)]
    return found if len(found) > 1 else [Text(raw)]


def _items(text: Text) -> Iterator[Text]:
    """Each item of a list with a text of its own, in which its parts are found soon."""
    try:
        fields = msgspec.json.decode(text.raw, type=dict[str, msgspec.Raw])
        version, kind = (msgspec.json.decode(fields[name], type=str) for name in ("apiVersion", "kind"))
        items = msgspec.json.decode(fields["items"], type=list[msgspec.Raw]) if kind.endswith("List") else None
    except (KeyError, msgspec.DecodeError, RecursionError):
        version = kind = ""
        fields, items = {}, None
    if items is None:
        yield text
        return
    at, line = text.raw.index(bytes(fields["items"])), text.line
    line += text.raw.count(b"\n", 0, at)
    for item in map(bytes, items):
        begin = text.raw.index(item[:1], at)  # before it are only spaces and a comma
        line += text.raw.count(b"\n", at, begin)
        yield Text(item, line, (version, kind.removesuffix("List")))
        at = begin + len(item)
        line += item.count(b"\n")


class _Pairs(list[tuple[str, Any]]):
    """An object: also the fields that it has twice."""


class _Plain(str):
    """A number as it is written."""


_WORDS = {True: "true", False: "false", None: "null"}
_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=_Plain, parse_float=_Plain, parse_constant=_Plain)


def json_node(raw: bytes) -> JsonObject | None:
    """The node of an object in JSON, of its text; None: it is none."""
    if not raw.startswith(b"{"):
        return None
    try:
        text = raw.decode()
        return JsonObject(_DECODER.decode(text), text, 0)
    except (ValueError, RecursionError):
        return None


class _Mark(NamedTuple):
    """Where a node begins."""

    line: int


class _Part(yaml.Node):
    """A value, and its number among those that it is inside of."""

    tag = ""
    _before = _SPACE
    """What stands before a value in it."""

    def __init__(self, given: Any, inside: _Part | str, number: int) -> None:
        """``inside``: what it is inside of; of an object with a text of its own, that text."""
        self.value, self._inside, self._number = given, inside, number

    @property
    def start_mark(self) -> _Mark:  # type: ignore[override]
        """Where it begins, in its object's text."""
        text, at = self._begin()
        return _Mark(text.count("\n", 0, at))

    def _begin(self) -> tuple[str, int]:
        """The text of its object, and the place there."""
        return (self._inside, 0) if isinstance(self._inside, str) else self._inside._begin_of(self._number)

    def _begin_of(self, number: int) -> tuple[str, int]:
        """The same of a value in it, found by reading those before once more."""
        text, at = self._begin()
        at += 1
        for _ in range(number):
            at = _end(_COMMA, text, _DECODER.raw_decode(text, _end(self._before, text, at))[1])
        return text, _end(self._before, text, at)


class JsonObject(_Part, yaml.MappingNode):
    """An object, whose value has names and values, not nodes."""

    _before = re.compile(r'\s*"(?:[^"\\]|\\.)*"\s*:\s*')

    @property
    def fields(self) -> dict[str, yaml.Node]:
        """Its fields by name; of those that are there twice the last."""
        return {key: _node(value, self, number) for number, (key, value) in enumerate(self.value)}

    @property
    def last_of_two(self) -> tuple[str, yaml.Node]:
        """The second of two fields of one name, with the name."""
        names = [name for name, _ in self.value]
        number = next(number for number, name in enumerate(names) if name in names[:number])
        return names[number], _node(self.value[number][1], self, number)


class _Sequence(_Part, yaml.SequenceNode):
    def __init__(self, given: list[Any], inside: _Part, number: int) -> None:
        super().__init__([_node(value, self, at) for at, value in enumerate(given)], inside, number)


class _Scalar(_Part, yaml.ScalarNode):
    def __init__(self, given: Any, inside: _Part, number: int) -> None:
        super().__init__(given if isinstance(given, str) else _WORDS[given], inside, number)
        self.style = '"' if type(given) is str else None


def _node(given: Any, inside: _Part, number: int) -> yaml.Node:
    kind = JsonObject if type(given) is _Pairs else _Sequence if type(given) is list else _Scalar
    return kind(given, inside, number)


_COMMA = re.compile(r"\s*,?")


def _end(of: re.Pattern[str], text: str, at: int) -> int:
    """Where what is found at a place ends."""
    found = of.match(text, at)
    assert found is not None, "the text was read before"
    return found.end()
