"""Objects in files of YAML or JSON: what structs name is taken from the parsed nodes, everything else stays unread.

A file may have several documents, and lists as ``kubectl get -o yaml`` writes them.  Nodes know their lines, so a field
that nobody takes can be listed with its line, and a bad value can be named without being shown.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import inspect

from emulator.errors import ConfigError, printable
from emulator.files.progress import OnBytes, ignore
from emulator.files.yaml_positions import read_bytes
from emulator.files.yaml_values import DEEPEST_NESTING
from emulator.vocabulary import SECOND_NS
from workloads.kubernetes.json_nodes import JsonObject, Text, json_node, texts_of
from workloads.kubernetes.objects import Object
from workloads.kubernetes.quantities import Quantity, amount
from workloads.saved import VERSIONS, made_anew, system_of
from workloads.setting_effects import Effect, Loss, SettingsTable

LARGEST_FILE_BYTES = 256 * 2**20
MAX_VALUES = 5_000_000
"""Aliases can make a small file expand without limit."""
_SUFFIXES = (".yaml", ".yml", ".json")
_LONGEST_NAME = 100
_OF_ANOTHER_TYPE = "is of another type, or out of range"
_OCTAL = re.compile(r"0[0-7]+")
_MERGE_TAG = "tag:yaml.org,2002:merge"
_NOT_COUNTED = ("objects", "settings")
_TEMPLATE = b"{{"
_WHY_TEMPLATE = "it is a template, not an object; give what it renders to (helm template)"
_type_info = functools.cache(inspect.type_info)

EnumT = TypeVar("EnumT", bound=Enum)
ObjectT = TypeVar("ObjectT", bound=Object)


@dataclass(frozen=True, slots=True)
class Found(Generic[ObjectT]):
    """An object, and where it begins.  Its methods make values of its fields; a bad one raises ConfigError."""

    value: ObjectT
    where: str
    losses: tuple[Loss, ...] = ()
    """What decides among its fields that are not taken."""

    @property
    def name(self) -> str:
        """Its kind, and its name with the namespace, as messages show them."""
        return f"{self.value.kind} {printable(self.value.full_name)}".strip()

    def problem(self, field: str, what: object) -> ConfigError:
        """An error with file, line, object and field."""
        return ConfigError(f"{self.where}: {self.name}: {field}: {what}")

    def left_out(self, why: str, kind: str) -> Loss:
        """That it is not there; ``kind``: what it is, in the plural."""
        return Loss(self.name, self.where, why, Effect.LEFT_OUT, kind)

    def lost(self, table: SettingsTable, of: str, key: str, value: str, kind: str, has_it: str = "") -> list[Loss]:
        """That one of its fields is not carried over, if that matters at this value.

        Args:
            table: the settings of its system.
            of: the list that has the field.
            key: its path there.
            value: as the table's inert values are written.
            kind: what is counted, in the plural.
            has_it: the one that has it, if it is not this object.
        """
        what, has_it = f"{self.name}.{key}", has_it or self.value.full_name
        loss = table.loss(of, key, value, self.where, what=what, kind=kind, has_it=has_it)
        return [] if loss is None else [loss]

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


def unique(found: Iterable[Found[ObjectT]]) -> Iterator[Found[ObjectT]]:
    """The same.  Raises ConfigError: two have one name, or one has none."""
    seen: dict[str, str] = {}
    for each in found:
        name = each.value.full_name
        if not name:
            raise each.problem("metadata.name", "is missing")
        if name in seen:
            raise each.problem("metadata.name", f"is in {seen[name]} too; give one")
        seen[name] = each.where
        yield each


class Other(NamedTuple):
    """An object of a kind that is not read, and where it begins."""

    kind: str
    name: str
    where: str
    makes_pods: bool = False
    """Whether it has a pod's spec or a number of replicas in it, as what makes pods has."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.where})"


@dataclass(slots=True)
class Objects:
    """The objects of some files."""

    by_kind: dict[type[Object], list[Found[Any]]] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    """What is lost with objects of other kinds, files that are no objects, and fields that decide nothing."""
    others: list[Other] = field(default_factory=list)

    def of(self, kind: type[ObjectT]) -> list[Found[ObjectT]]:
        """Those of a kind."""
        return self.by_kind.get(kind, [])

    def totals(self, kinds: Iterable[type[Object]]) -> dict[str, int]:
        """How many there are of those kinds that have a name in the plural."""
        return {kind.COUNTED: len(self.of(kind)) for kind in kinds if kind.COUNTED not in _NOT_COUNTED}

    def decides(self, kinds: Iterable[type[Object]]) -> Iterator[Loss]:
        """What decides in those of these kinds, and is not taken."""
        return (loss for kind in kinds for each in self.of(kind) for loss in each.losses)

    def add(self, more: Objects) -> None:
        """Add those of another file."""
        for kind, found in more.by_kind.items():
            self.by_kind.setdefault(kind, []).extend(found)
        self.losses += more.losses
        self.others += more.others


def files_of(path: Path) -> list[Path]:
    """The file itself, or those with a name of YAML or JSON in a folder and below, by name.

    What an import has written into such a folder is left out.

    Raises ConfigError: the folder has none.
    """
    if not path.is_dir():
        return [path]
    inside = [each for each in sorted(path.rglob("*")) if each.suffix in _SUFFIXES and each.is_file()]
    inside = [each for each in inside if system_of(each) is None]
    if not inside:
        raise ConfigError(f"{path}: has no file that ends in .yaml, .yml or .json")
    return inside


def read_objects(
    paths: Iterable[Path], kinds: Iterable[type[Object]], table: SettingsTable, on_bytes: OnBytes = ignore
) -> Objects:
    """The objects of ``kinds`` in files and folders; ``table`` says what the rest of them does to an answer.

    In a folder there may be files that are no objects, such as Helm's values and templates; what is named itself must
    be objects.  Raises ConfigError: file, line and field, but never a value.
    """
    objects, read = Objects(), _Kinds({(each.GROUP, each.__name__): each for each in kinds}, table)
    for path in paths:
        for file in files_of(path):
            _read_file(file, read, objects, on_bytes, in_folder=file != path)
    return objects


def _read_file(path: Path, kinds: _Kinds, objects: Objects, on_bytes: OnBytes, *, in_folder: bool) -> None:
    """Add the objects of a file.  Raises ConfigError."""
    raw = read_bytes(path, LARGEST_FILE_BYTES)
    reader = _Reader(path, kinds, in_folder=in_folder)
    try:
        for text, node in _documents(path, raw, on_bytes):
            reader.first_line = text.line
            reader.read(node, text.of_list)
    except ConfigError:
        if not in_folder or _TEMPLATE not in raw:
            raise
        objects.losses.append(Loss(printable(path.name), f"{path}:1", _WHY_TEMPLATE, Effect.LEFT_OUT, "files"))
        return
    objects.add(reader.objects)


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


def _documents(path: Path, raw: bytes, on_bytes: OnBytes) -> Iterator[tuple[Text, yaml.Node]]:
    """The documents of a file, each with the text that it is in."""
    for text in texts_of(raw):
        node = json_node(text.raw)
        if node is not None:
            on_bytes(len(text.raw))
        yield from ((text, each) for each in ([node] if node is not None else _composed(path, text, on_bytes)))


def _composed(path: Path, text: Text, on_bytes: OnBytes) -> Iterator[yaml.Node]:
    """The nodes that libyaml makes of a text.  Raises ConfigError."""
    try:
        nodes = yaml.compose_all(_Counted(text.raw, on_bytes), Loader=_Loader)
        yield from (node for node in nodes if not (node is None or _is_null(node)))  # kubectl passes over empty ones
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = "" if mark is None else f":{text.line + mark.line + 1}"
        raise ConfigError(f"{path}{at}: is neither YAML nor JSON") from None
    except _TooDeepError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise ConfigError(f"{path}: is neither YAML nor JSON in UTF-8") from None


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What is read, and the settings of what is not."""

    structs: Mapping[tuple[str, str], type[Object]]
    """By group and kind."""
    table: SettingsTable
    named: set[tuple[str, str]] = field(default_factory=set)
    """Settings that decide nothing and are listed already; of many objects one says it."""
    generated: Iterator[int] = field(default_factory=functools.partial(itertools.count, 1))
    """The ends of the names that the API server would make of ``generateName``, where they are random."""
    places: dict[type[Object], _Place] = field(default_factory=dict)
    """By kind: where the fields of its objects stand."""

    def place_of(self, kind: type[Object]) -> _Place:
        """Where an object's fields stand, the same for all of one kind."""
        return self.places.setdefault(kind, _Place(kind.__name__, counted=kind.COUNTED))


@dataclass(slots=True, eq=False)
class _Place:
    """Where a value stands in an object, and in its list of settings.  There is one for all objects that have it."""

    of: str
    """The list."""
    key: str = ""
    path: str = ""
    """As messages show it."""
    counted: str = "objects"
    """What has it, in the plural."""
    is_settled: bool = False
    """What stands here decides nothing, and is listed already."""
    inside: dict[str | type, _Place] = field(default_factory=dict)

    def below(self, name: str) -> _Place:
        """The place of a field."""
        found = self.inside.get(name)
        if found is None:
            key, path = f"{self.key}.{name}".lstrip("."), f"{self.path}.{name}".lstrip(".")
            found = self.inside[name] = _Place(self.of, key, path, self.counted)
        return found

    def of_struct(self, kind: type) -> _Place:
        """The same for a struct's fields, which may have a list of settings of their own, as those of a pod's spec."""
        listed = getattr(kind, "LISTED_IN", None)
        if listed is None:
            return self
        return self.inside.setdefault(kind, replace(self, **listed, inside={}))


class _Reader:
    """Reads the objects of one file."""

    def __init__(self, path: Path, kinds: _Kinds, *, in_folder: bool) -> None:
        self.objects = Objects()
        self.first_line = 0
        """Lines before the text of the document that is read."""
        self._path, self._kinds, self._in_folder = path, kinds, in_folder
        self._left = MAX_VALUES
        self._where_read = self._read = self._full_name = ""
        """Where the object begins that is read, and its name, with its kind and without."""
        self._version = ""
        self._only = Object.ONLY_IN
        self._losses: list[Loss] = []

    def read(self, node: yaml.Node, of_list: tuple[str, str] | None = None) -> None:
        """Read one object, or a list of them.  What a typed list as ``NodeList`` has need not say its kind again: it is
        ``of_list``, with the version."""
        if not isinstance(node, yaml.MappingNode):
            return self._no_object(node, "must be an object with apiVersion and kind")
        self._read = ""
        fields = self._fields(node)
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
            return None
        if not kind:
            other = next((f"{each}: {made_anew(each, self._path)}" for each in VERSIONS if each in fields), None)
            if other:
                raise ConfigError(f"{self._where(node)}: {other}")
            return self._no_object(node, "kind: is missing; every object of Kubernetes has one")
        group = version.rpartition("/")[0]
        self._full_name, self._where_read = self._name(fields), self._where(node)
        shown = printable(kind)[:_LONGEST_NAME]
        self._read = f"{shown} {self._full_name}".strip()
        struct = self._kinds.structs.get((group, kind))
        if struct is None:
            self.objects.others.append(Other(shown, self._full_name, self._where_read, self._makes_pods(node)))
            self.objects.losses += self._loss(_Place("kind", f"{kind}.{group}".rstrip(".")), self._read, "", node)
            return None
        self._version = version.rpartition("/")[2]
        self._only = struct.ONLY_IN
        self._losses = []
        place = self._kinds.place_of(struct)
        value = {"apiVersion": version, "kind": kind} | self._pick(node, _type_info(struct), place)
        if prefix := self._metadata(fields, "generateName"):
            value.setdefault("metadata.name", f"{prefix}{next(self._kinds.generated)}")
        try:
            converted = msgspec.convert(value, struct, strict=False)
        except msgspec.ValidationError as error:
            problem, _, at = str(error).partition(" - at `$.")
            missing = re.match("Object missing required field `(.*)`", problem)
            if missing is not None and not at:
                at = missing[1].rpartition(".")[0]  # a field inside of another object
            what = "is missing" if missing is not None else _OF_ANOTHER_TYPE
            raise self._problem(at.rstrip("`"), what) from None
        found = Found(converted, self._where_read, tuple(self._losses))
        self.objects.by_kind.setdefault(struct, []).append(found)
        return None

    def _no_object(self, node: yaml.Node, problem: str) -> None:
        """Leave out what is no object of Kubernetes.  Raises ConfigError: the file was named itself."""
        if not self._in_folder:
            raise ConfigError(f"{self._where(node)}: {problem}")
        what, why = printable(self._path.name), "it has no kind, so it is no object of Kubernetes"
        self.objects.losses.append(Loss(what, self._where(node), why, Effect.NOTHING, "files"))

    def _name(self, fields: Mapping[str, yaml.Node]) -> str:
        names = (self._metadata(fields, field) for field in ("namespace", "name"))
        return printable("/".join(filter(None, names)))[:_LONGEST_NAME]

    def _metadata(self, fields: Mapping[str, yaml.Node], field: str) -> str:
        metadata = fields.get("metadata")
        return _text(self._fields(metadata).get(field)) if isinstance(metadata, yaml.MappingNode) else ""

    def _makes_pods(self, node: yaml.Node) -> bool:
        """Whether a list of containers, or a number of replicas, is anywhere in it."""
        inside = [node]
        while inside:
            self._count()
            match inside.pop():
                case yaml.SequenceNode() as found:
                    inside += found.value
                case yaml.MappingNode() as found:
                    fields = self._fields(found)
                    if isinstance(fields.get("containers"), yaml.SequenceNode) or _text(fields.get("replicas")):
                        return True
                    inside += fields.values()
        return False

    def _problem(self, field: str, what: str) -> ConfigError:
        return ConfigError(f"{self._where_read}: {self._read}: {printable(field)}: {what}")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{self.first_line + node.start_mark.line + 1}"

    def _fields(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        """Its fields by name.  Raises ConfigError: one is there twice, which Kubernetes refuses."""
        if isinstance(node, JsonObject):
            fields = node.fields
            if len(fields) < len(node.value):
                raise self._twice(*node.last_of_two)
            return fields
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE_TAG:
                if key.value in seen:
                    raise self._twice(key.value, key)
                seen.add(key.value)
        _merge(node)
        return {name: value for name, (_, value) in _pairs(node).items()}

    def _twice(self, name: str, node: yaml.Node) -> ConfigError:
        of = f" {self._read}:" if self._read else ""
        return ConfigError(f"{self._where(node)}:{of} {printable(name)[:_LONGEST_NAME]}: is there twice in one object")

    def _pick(self, node: yaml.Node, of: inspect.Type, at: _Place) -> Any:
        """The node as plain values, with the fields that the type names only."""
        self._count()
        if isinstance(node, yaml.ScalarNode):
            is_octal = not node.style and _OCTAL.fullmatch(node.value)  # kubectl reads YAML 1.1
            return None if _is_null(node) else str(int(node.value, 8)) if is_octal else node.value
        if isinstance(of, inspect.UnionType):
            of = next((each for each in of.types if _suits(node, each)), of.types[0])
        if isinstance(of, inspect.StructType) and isinstance(node, yaml.MappingNode):
            return self._pick_struct(node, of, at)
        if isinstance(of, inspect.DictType) and isinstance(node, yaml.MappingNode):
            return {key: self._pick(value, of.value_type, at) for key, value in self._fields(node).items()}
        if isinstance(of, inspect.VarTupleType | inspect.ListType) and isinstance(node, yaml.SequenceNode):
            return [self._pick(item, of.item_type, at) for item in node.value]
        return object  # converts to nothing, so that it is an error of the field

    def _pick_struct(
        self, node: yaml.MappingNode, of: inspect.StructType, at: _Place, inside: str = ""
    ) -> dict[str, Any]:
        """The fields of a struct in its node, or in an object ``inside`` of it, such as ``spec.``; the rest is lost."""
        fields, objects = _fields_of(of.cls)
        if not inside:
            at = at.of_struct(of.cls)
        picked: dict[str, Any] = {}
        for key, value in self._fields(node).items():
            name, here = f"{inside}{key}", at.below(key)
            if _is_null(value):
                continue
            if self._only:
                self._refuse_of_other_version(here, value)
            if name in fields:
                picked[name] = self._pick(value, fields[name], here)
            elif name not in objects:
                self._lose(value, here)
            elif isinstance(value, yaml.MappingNode):
                picked |= self._pick_struct(value, of, here, f"{name}.")
            else:
                inner = {
                    each.removeprefix(f"{name}.").partition(".")[0] for each in fields if each.startswith(f"{name}.")
                }
                raise self._problem(here.path, f"must be an object, with {', '.join(sorted(inner))}")
        return picked

    def _refuse_of_other_version(self, at: _Place, node: yaml.Node) -> None:
        """Raises ConfigError: the API has this field in another version only, and so rejects it."""
        versions = self._only.get(at.path, (self._version,))
        if self._version not in versions:
            what = f"{self._read}: unknown field {at.path} in {self._version}; {versions[0]} has it"
            raise ConfigError(f"{self._where(node)}: {what}")

    def _lose(self, node: yaml.Node, at: _Place) -> None:
        """Count what is not read, by the parts that the table has rows for."""
        if at.is_settled:
            return
        self._count()
        if self._kinds.table.has_parts(at.of, at.key):
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            if items and all(isinstance(each, yaml.MappingNode) for each in items):
                for item in items:
                    for key, value in self._fields(item).items():
                        self._refuse_of_other_version(at.below(key), value)
                        self._lose(value, at.below(key))
                return
        value = _value_of(node)
        if value:
            what = f"{self._read}.{printable(at.path)[:_LONGEST_NAME]}"
            self._losses += self._loss(at, what, value, node)

    def _loss(self, at: _Place, what: str, value: str, node: yaml.Node) -> list[Loss]:
        """What is lost with a setting that decides, if anything is.  One that decides nothing is listed once."""
        table = self._kinds.table
        setting = table.find(at.of, at.key)
        is_named = setting is not None and (at.of, setting.key) in self._kinds.named
        if is_named or not table.loses(setting, value):
            is_modelled = setting is not None and setting.effect is Effect.MODELLED
            at.is_settled = (is_named or is_modelled) and not table.has_parts(at.of, at.key)
            return []
        has_it = self._full_name or self._where_read
        loss = table.loss(at.of, at.key, value, self._where(node), what=what, kind=at.counted, has_it=has_it)
        if loss is None or setting is None or loss.effect is Effect.DECIDES:
            return [] if loss is None else [loss]
        self._kinds.named.add((at.of, setting.key))
        self.objects.losses.append(loss)
        return []

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ConfigError(f"{self._path}: has too many values")


def _value_of(node: yaml.Node) -> str:
    """A value as a table's inert values are written; empty: it is not given."""
    if isinstance(node, yaml.ScalarNode):
        return "" if _is_null(node) else node.value
    return (node.value and "...") or ("[]" if isinstance(node, yaml.SequenceNode) else "{}")


@functools.cache
def _fields_of(kind: type) -> tuple[dict[str, inspect.Type], frozenset[str]]:
    """The types of a struct's fields, by where they stand, and the objects in which they do."""
    of = _type_info(kind)
    assert isinstance(of, inspect.StructType)
    types = {each.encode_name: each.type for each in of.fields}
    return types, frozenset(name[:dot] for name in types for dot, letter in enumerate(name) if letter == ".")


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
