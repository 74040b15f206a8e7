"""YAML documents that remember where every value came from, and overrides of their values.

The library only composes the text into YAML nodes; the values are built here, because we need the line of
each key, refuse duplicate keys and foreign tags, and want sequences as tuples: frozen, like the models.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from emulator.errors import ConfigError

Location = tuple["str | int", ...]
"""The way to a value: keys of mappings and indices of sequences."""

LARGEST_FILE_BYTES = 16 * 2**20
LARGEST_NODE_COUNT = 1_000_000
"""More values than this are refused: aliases can make a small file expand without end."""

_TAG = "tag:yaml.org,2002:"


def dotted(location: Location) -> str:
    """``('workload', 'jobs', 0, 'queue')`` as ``workload.jobs.0.queue``."""
    return ".".join(str(part) for part in location)


@dataclass
class Document:
    """The values of one YAML file, the line each stands on, and the overrides applied to it."""

    path: Path
    data: dict[str, Any]
    lines: dict[Location, int]
    """Line (from 1) of the key or item at each location."""
    overrides: dict[Location, str] = field(default_factory=dict)
    """Text of the override (``a.b=c``) that set the value at each location."""

    def origin(self, location: Location) -> str:
        """Where the value at a location, or its nearest known parent, was given.

        A mapping or list counts as given by an override if something inside it was.
        """
        for overridden, text in self.overrides.items():
            if location and overridden[: len(location)] == location:
                return f"override {text}"
        for length in range(len(location), -1, -1):
            if location[:length] in self.overrides:
                return f"override {self.overrides[location[:length]]}"
            if location[:length] in self.lines:
                return f"{self.path}:{self.lines[location[:length]]}"
        return f"{self.path}:1"

    def is_overridden(self, location: Location) -> bool:
        """Whether the value at a location, or something it is in, was given by an override."""
        return any(location[:length] in self.overrides for length in range(1, len(location) + 1))

    def override(self, text: str) -> None:
        """Apply one ``a.b=c``: the value is YAML, a number in the path counts into a list.

        Raises:
            ConfigError: no ``=``, a path through what is no mapping or list, an index past the end, bad YAML.
        """
        name, equals, value_text = text.partition("=")
        parts = name.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(f"override {text}: write key.key=value, for example scheduler.mechanism=kill")
        value = _parse(value_text, f"override {text}", None) if value_text.strip() else ""
        location, self.data = _replaced(self.data, parts, value, text)
        depth = len(location)
        kept = {known: told for known, told in self.overrides.items() if known[:depth] != location}
        self.overrides = {**kept, location: text}
        self.lines = {known: line for known, line in self.lines.items() if known[:depth] != location}

    def replace(self, location: Location, value: Any) -> None:
        """Put a value worked out by us (a path made absolute) where the user's stood; its origin stays."""
        _, self.data = _replaced(self.data, [str(part) for part in location], value, dotted(location))

    def get(self, location: Location) -> Any:
        """The value at a location, None where there is none."""
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
    """Read a YAML file whose top is a mapping.

    Raises:
        ConfigError: it cannot be read, is no regular file or UTF-8 text, malformed, has a duplicate key or
            a foreign tag.
    """
    text = _read_text(path)
    lines: dict[Location, int] = {(): 1}
    data = _parse(text, str(path), lines)
    if data is None:
        raise ConfigError(f"{path}: the file is empty; an experiment starts with 'name: ...'")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: must be a mapping of keys to values, not {kind_of(data)}")
    return Document(path, data, lines)


def dump_yaml(data: Any) -> str:
    """Data of plain types as YAML text that reads back as the same data."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    yaml.allow_unicode = True
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def kind_of(value: Any) -> str:
    """A value as a message shows it: its kind, and the value itself where that is short."""
    if value is None:
        return "null (nothing)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise ConfigError(f"{path}: is a directory; name a YAML file")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is no regular file; name a YAML file")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    if len(raw) > LARGEST_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {LARGEST_FILE_BYTES // 2**20} MiB: that is no experiment")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text; write the file as UTF-8 YAML") from None


def _parse(text: str, source: str, lines: dict[Location, int] | None) -> Any:
    """Values of a YAML text; ``lines`` receives the line of every location, None: messages name no line."""
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(io.StringIO(text))
        if node is None:
            return None
        return _Builder(yaml, source, lines).value(node, ())
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}" if mark is not None and lines is not None else source
        raise ConfigError(f"{place}: is not valid YAML: {error.problem or error.context}") from None
    except Exception as error:
        # On garbage the YAML library raises nearly anything (ReaderError, KeyError, AttributeError, ...).
        reason = (str(error) or repr(error)).splitlines()[0]
        raise ConfigError(f"{source}: is not valid YAML: {reason}") from None


class _Builder:
    """Builds values from composed nodes, noting lines on the way."""

    def __init__(self, yaml: YAML, source: str, lines: dict[Location, int] | None) -> None:
        self.yaml = yaml
        self.source = source
        self.numbered = lines is not None
        self.lines: dict[Location, int] = {} if lines is None else lines
        self.node_count = 0
        self.open_nodes: set[int] = set()

    def value(self, node: Node, location: Location) -> Any:
        self.node_count += 1
        if self.node_count > LARGEST_NODE_COUNT:
            raise ConfigError(f"{self.source}: has more than {LARGEST_NODE_COUNT} values, aliases expanded")
        if isinstance(node, ScalarNode):
            return self.scalar(node)
        if id(node) in self.open_nodes:
            raise self.problem(node, "an alias refers to something it is itself part of")
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self.mapping(node, location)
            if isinstance(node, SequenceNode):
                return self.sequence(node, location)
        finally:
            self.open_nodes.discard(id(node))
        raise self.problem(node, "is not a mapping, list or scalar")

    def mapping(self, node: MappingNode, location: Location) -> dict[str, Any]:
        self.check_tag(node, "map")
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self.problem(key_node, "a key must be a plain word")
            key = str(key_node.value)
            here = (*location, key)
            if key in result:
                raise self.problem(key_node, f"{dotted(here)}: the key is given twice; keep one")
            self.lines[here] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, here)
        return result

    def sequence(self, node: SequenceNode, location: Location) -> tuple[Any, ...]:
        self.check_tag(node, "seq")
        items = []
        for index, item in enumerate(node.value):
            self.lines[(*location, index)] = item.start_mark.line + 1
            items.append(self.value(item, (*location, index)))
        return tuple(items)

    def scalar(self, node: ScalarNode) -> Any:
        tag = str(node.tag).removeprefix(_TAG)
        construct = self.yaml.constructor
        try:
            if tag == "null":
                return None
            if tag == "bool":
                return construct.construct_yaml_bool(node)
            if tag == "int":
                return int(construct.construct_yaml_int(node))
            if tag == "float":
                return float(construct.construct_yaml_float(node))
        except (ValueError, KeyError):
            raise self.problem(node, f"{kind_of(node.value)} is no valid {tag}") from None
        if tag in ("str", "timestamp", "value", "merge"):
            return str(node.value)
        raise self.problem(node, f"the tag {node.tag} is not supported; remove it")

    def check_tag(self, node: Node, expected: str) -> None:
        if str(node.tag).removeprefix(_TAG) != expected:
            raise self.problem(node, f"the tag {node.tag} is not supported; remove it")

    def problem(self, node: Node, message: str) -> ConfigError:
        place = f"{self.source}:{node.start_mark.line + 1}" if self.numbered else self.source
        return ConfigError(f"{place}: {message}")


def _replaced(container: Any, parts: list[str], value: Any, override: str) -> tuple[Location, Any]:
    """The path with its list indices as numbers, and a copy of the container with the value replaced."""
    if not parts:
        return (), value
    key: str | int = parts[0]
    if isinstance(container, dict) or container is None:
        below, changed = _replaced((container or {}).get(key), parts[1:], value, override)
        return (key, *below), {**(container or {}), key: changed}
    if isinstance(container, tuple):
        if not (key.isascii() and key.isdigit() and int(key[:9]) < len(container)):
            last = len(container) - 1
            raise ConfigError(f"override {override}: '{key}' must be a number from 0 to {last}, into a list")
        key = int(key)
        below, changed = _replaced(container[key], parts[1:], value, override)
        return (key, *below), (*container[:key], changed, *container[key + 1 :])
    raise ConfigError(f"override {override}: '{key}' cannot be set inside {kind_of(container)}: no mapping")
