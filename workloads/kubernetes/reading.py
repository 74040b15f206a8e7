"""Objects in files of YAML or JSON: what structs name is taken from the parsed nodes, everything else stays unread.

A file may have several documents, and lists as ``kubectl get -o yaml`` writes them.  Nodes know their lines, so a field
that nobody takes can be listed with its line, and a bad value can be named without being shown.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml
from msgspec import inspect

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from emulator.files.yaml_values import DEEPEST_NESTING
from emulator.vocabulary import SECOND_NS
from workloads.importers.source import OnBytes, ignore
from workloads.kubernetes.quantities import Quantity, amount
from workloads.saved import VERSIONS, made_anew, system_of
from workloads.setting_effects import Loss

LARGEST_FILE_BYTES = 256 * 2**20
MAX_VALUES = 5_000_000
"""Aliases can make a small file expand without limit."""
_SUFFIXES = (".yaml", ".yml", ".json")
_LONGEST_NAME = 100
_OF_ANOTHER_TYPE = "is of another type, or out of range"
_MERGE_TAG = "tag:yaml.org,2002:merge"
_type_info = functools.cache(inspect.type_info)

StructT = TypeVar("StructT", bound=msgspec.Struct)
EnumT = TypeVar("EnumT", bound=Enum)
Kind = tuple[str, str]
"""API group and kind, such as ``("kueue.x-k8s.io", "ClusterQueue")``; the version does not matter."""


@dataclass(frozen=True, slots=True)
class Found(Generic[StructT]):
    """An object, and where it begins.  Its methods make values of its fields; a bad one raises ConfigError."""

    value: StructT
    where: str
    unread: tuple[str, ...] = ()
    """Fields of it that are not taken."""

    @property
    def name(self) -> str:
        """Its kind, and its name with the namespace, as messages show them."""
        value: Any = self.value
        return f"{value.kind} {printable(value.full_name)}".strip()

    def problem(self, field: str, what: object) -> ConfigError:
        """An error with file, line, object and field."""
        return ConfigError(f"{self.where}: {self.name}: {field}: {what}")

    def not_taken(self, why: str) -> Loss:
        """That it, or something of it, is left behind."""
        return Loss(f"{self.name}: {why}", self.where)

    def word(self, field: str, of: type[EnumT], text: str) -> EnumT:
        """One of the words of an enumeration."""
        try:
            return of(text)
        except ValueError:
            raise self.problem(field, f"must be one of {', '.join(str(each.value) for each in of)}") from None

    def amount(self, field: str, resource: str, quantity: Quantity) -> int:
        """A quantity in the resource's unit."""
        try:
            return amount(resource, quantity)
        except ValueError as error:
            raise self.problem(field, error) from None

    def time_ns(self, field: str, text: str) -> int | None:
        """Nanoseconds since 1970; None for no text."""
        try:
            return _time_ns(text)
        except ValueError as error:
            raise self.problem(field, error) from None


def _time_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of a time such as ``2026-01-31T12:00:00Z``, in whole seconds; None for no text.

    Raises ValueError, which does not repeat the text.
    """
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return int(when.timestamp()) * SECOND_NS
    except (ValueError, OverflowError):
        raise ValueError("is not a time such as 2026-01-31T12:00:00Z") from None


def unique(found: Iterable[Found[StructT]]) -> Iterator[Found[StructT]]:
    """The same.  Raises ConfigError: two have one name, or one has none."""
    seen: dict[str, str] = {}
    for each in found:
        value: Any = each.value
        name = value.full_name
        if not name:
            raise each.problem("metadata.name", "is missing")
        if name in seen:
            raise each.problem("metadata.name", f"is in {seen[name]} too; give one")
        seen[name] = each.where
        yield each


@dataclass(slots=True)
class Objects:
    """The objects of some files."""

    by_kind: dict[Kind, list[Found[Any]]] = field(default_factory=dict)
    unread: list[Loss] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Found[Any]]:
        """Those of a kind."""
        return self.by_kind.get(kind, [])


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those with a name of YAML or JSON in folders and below, by name.

    What an import has written into such a folder is left out.

    Raises ConfigError: a path does not exist, or a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [each for each in sorted(path.rglob("*")) if each.suffix in _SUFFIXES and each.is_file()]
        inside = [each for each in inside if system_of(each) is None]
        if not inside:
            raise ConfigError(f"{path}: has no file that ends in .yaml, .yml or .json")
        files += inside
    return files


def read_objects(
    paths: Iterable[Path], kinds: Mapping[Kind, type[msgspec.Struct]], on_bytes: OnBytes = ignore
) -> Objects:
    """The objects of ``kinds`` in files and folders.  Raises ConfigError: file, line and field, but never a value."""
    objects = Objects()
    for path in files_of(paths):
        for node in _documents(path, on_bytes):
            _Reader(path, kinds, objects).read(node)
    return objects


class _Counted(io.BytesIO):
    """Tells how much of it has been read."""

    def __init__(self, raw: bytes, on_bytes: OnBytes) -> None:
        super().__init__(raw)
        self._on_bytes = on_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self._on_bytes(len(piece))
        return piece


class _TooDeepError(Exception):
    """A value is inside of too many others."""


class _Loader(yaml.CSafeLoader):
    """libyaml builds nodes by calling itself, and would overflow its stack."""

    _depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: Any) -> None:
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            raise _TooDeepError

    def ascend_resolver(self) -> None:
        self._depth -= 1


def _documents(path: Path, on_bytes: OnBytes) -> Iterator[yaml.Node]:
    stream = _Counted(read_bytes(path, LARGEST_FILE_BYTES), on_bytes)
    try:
        yield from (node for node in yaml.compose_all(stream, Loader=_Loader) if node is not None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise ConfigError(f"{path}{line}: is neither YAML nor JSON") from None
    except _TooDeepError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise ConfigError(f"{path}: is neither YAML nor JSON in UTF-8") from None


class _Reader:
    """Reads the objects of one document."""

    def __init__(self, path: Path, kinds: Mapping[Kind, type[msgspec.Struct]], objects: Objects) -> None:
        self._path, self._kinds, self._objects = path, kinds, objects
        self._left = MAX_VALUES
        self._where_read = self._read = ""
        """Where the object begins that is read, and its name."""

    def read(self, node: yaml.Node, of_list: Kind | None = None) -> None:
        """Read one object, or a list of them.  What a typed list as ``NodeList`` has need not say its kind again: it is
        ``of_list``, with the version."""
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{self._where(node)}: must be an object with apiVersion and kind")
        fields = _fields(node)
        version, kind = (
            _text(fields.get(name)) or usual
            for name, usual in zip(("apiVersion", "kind"), of_list or ("", ""), strict=True)
        )
        items = fields.get("items")
        if kind.endswith("List") and isinstance(items, yaml.SequenceNode):
            if of_list is not None:
                raise ConfigError(f"{self._where(node)}: a list must not be in another list")
            for item in items.value:
                self.read(item, (version, kind.removesuffix("List")))
            return
        if not kind:
            other = next((f"{each}: {made_anew(each, self._path)}" for each in VERSIONS if each in fields), None)
            raise ConfigError(f"{self._where(node)}: {other or 'kind: is missing; every object of Kubernetes has one'}")
        key = (version.rpartition("/")[0], kind)
        name, before = f"{printable(kind)[:_LONGEST_NAME]} {self._name(fields)}".strip(), len(self._objects.unread)
        if key not in self._kinds:
            self._objects.unread.append(Loss(name, self._where(node)))
            return
        self._where_read, self._read = self._where(node), name
        value = {"apiVersion": version, "kind": kind} | self._pick(node, _type_info(self._kinds[key]), "")
        unread = tuple(each.what.removeprefix(f"{name}.") for each in self._objects.unread[before:])
        try:
            converted = msgspec.convert(value, self._kinds[key], strict=False)
        except msgspec.ValidationError as error:
            problem, _, at = str(error).partition(" - at `$.")
            missing = re.match("Object missing required field `(.*)`", problem)
            if missing is not None and not at:
                at = missing[1].rpartition(".")[0]  # a field inside of another object
            what = "is missing" if missing is not None else _OF_ANOTHER_TYPE
            raise self._problem(at.rstrip("`"), what) from None
        self._objects.by_kind.setdefault(key, []).append(Found(converted, self._where(node), unread))

    def _name(self, fields: Mapping[str, yaml.Node]) -> str:
        metadata = fields.get("metadata")
        inside = _fields(metadata) if isinstance(metadata, yaml.MappingNode) else {}
        names = (_text(inside.get(field)) for field in ("namespace", "name"))
        return printable("/".join(filter(None, names)))[:_LONGEST_NAME]

    def _problem(self, field: str, what: str) -> ConfigError:
        return ConfigError(f"{self._where_read}: {self._read}: {printable(field)}: {what}")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"

    def _pick(self, node: yaml.Node, of: inspect.Type, path: str) -> Any:
        """The node as plain values, with the fields that the type names only."""
        self._left -= 1
        if self._left < 0:
            raise ConfigError(f"{self._path}: has too many values")
        if isinstance(of, inspect.UnionType):
            if _is_null(node):
                return None
            of = next((each for each in of.types if _suits(node, each)), of.types[0])
        if isinstance(of, inspect.StructType) and isinstance(node, yaml.MappingNode):
            return self._pick_struct(node, of, path)
        if isinstance(of, inspect.DictType) and isinstance(node, yaml.MappingNode):
            return {key: self._pick(value, of.value_type, f"{path}{key}.") for key, value in _fields(node).items()}
        if isinstance(of, inspect.VarTupleType | inspect.ListType) and isinstance(node, yaml.SequenceNode):
            return [self._pick(item, of.item_type, path) for item in node.value]
        if isinstance(node, yaml.ScalarNode):
            return None if _is_null(node) else node.value
        return object  # converts to nothing, so that it is an error of the field

    def _pick_struct(
        self, node: yaml.MappingNode, of: inspect.StructType, path: str, inside: str = ""
    ) -> dict[str, Any]:
        """The fields of a struct in its node, or in an object ``inside`` of it, such as ``spec.``."""
        fields, objects = _fields_of(of.cls)
        listed: frozenset[str] = getattr(of.cls, "LISTED", frozenset())
        picked: dict[str, Any] = {}
        for key, value in _fields(node).items():
            name = f"{inside}{key}"
            if name in fields:
                if not _is_null(value):
                    picked[name] = self._pick(value, fields[name], f"{path}{name}.")
            elif name in objects:
                if isinstance(value, yaml.MappingNode):
                    picked |= self._pick_struct(value, of, path, f"{name}.")
                elif not _is_null(value):
                    raise self._problem(f"{path}{name}", _OF_ANOTHER_TYPE)
            elif name in listed or f"{inside}*" in listed:
                what = f"{self._read}.{path}{inside}{printable(key)[:_LONGEST_NAME]}"
                self._objects.unread.append(Loss(what, self._where(value)))
        return picked


@functools.cache
def _fields_of(kind: type) -> tuple[dict[str, inspect.Type], frozenset[str]]:
    """The types of a struct's fields, by where they stand, and the objects in which they do."""
    of = _type_info(kind)
    assert isinstance(of, inspect.StructType)
    types = {each.encode_name: each.type for each in of.fields}
    return types, frozenset(name[:dot] for name in types for dot, letter in enumerate(name) if letter == ".")


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    _merge(node)
    return {name: value for name, (_, value) in _pairs(node).items()}


def _pairs(node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Its keys with their values, by name; of two of one name the last."""
    return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _merge(node: yaml.MappingNode) -> None:
    """Put what ``<<`` names in the place of it: the node's own fields go before it, and of a list the first."""
    merged = [value for key, value in node.value if key.tag == _MERGE_TAG]
    if not merged:
        return
    node.value = [pair for pair in node.value if pair[0].tag != _MERGE_TAG]  # first: a node may name itself
    pairs = _pairs(node)
    for other in (each for value in merged for each in (value.value if value.id == "sequence" else [value])):
        if isinstance(other, yaml.MappingNode):
            _merge(other)
            pairs = _pairs(other) | pairs
    node.value = [*pairs.values()]


def _text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in ("", "~", "null", "Null", "NULL")


def _suits(node: yaml.Node, of: inspect.Type) -> bool:
    if isinstance(node, yaml.MappingNode):
        return isinstance(of, inspect.StructType | inspect.DictType)
    if isinstance(node, yaml.SequenceNode):
        return isinstance(of, inspect.VarTupleType | inspect.ListType)
    return isinstance(of, inspect.StrType)
