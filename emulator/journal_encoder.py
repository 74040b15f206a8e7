"""Writes messages and effects as the JSON of a journal, by functions made from the dataclasses' own type hints.

``emulator.journal_codec`` says what they look like and reads them.  For each dataclass a function is compiled that is
one f-string; that takes a quarter of the time a general encoder needs to look at each field and its type, and a large
simulation spends much of its time here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import orjson

from emulator.core.effects import Effect
from emulator.core.messages import Message
from emulator.journal_codec import EFFECT_TYPES, MESSAGE_TYPES

Encoder: TypeAlias = Callable[[Any], str]

_MOST_QUOTED = 100_000


class _Quoted(dict[str, str]):
    """Strings as JSON; names come again and again."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _MOST_QUOTED:
            self.clear()
        as_json = self[text] = orjson.dumps(text).decode()
        return as_json


quoted = _Quoted()
"""``quoted[text]`` is a string as JSON."""

_encoders: dict[type, Encoder] = {}


def tagged(value: Message | Effect) -> str:
    """A message or effect under its type."""
    return _encoders[type(value)](value)


def _encoder(cls: type, tag: str | None = None) -> Encoder:
    """Compile the function that writes an object of ``cls``."""
    names: dict[str, Any] = {"quoted": quoted, "tagged": tagged}
    hints = get_type_hints(cls)
    fields = [f'"{f.name}":{{{_expression(hints[f.name], f"o.{f.name}", names)}}}' for f in dataclasses.fields(cls)]
    text = f"{{{{{','.join(fields)}}}}}"
    if tag is not None:
        text = f'{{{{"{tag}":{text}}}}}'
    return eval(f"lambda o: f'{text}'", names)  # of nothing but names of our own classes and fields


def _expression(hint: Any, value: str, names: dict[str, Any]) -> str:
    """Source of what an f-string must hold to write ``value``, the source of an expression of type ``hint``."""
    origin, parameters = get_origin(hint), get_args(hint)
    if hint in (Message, Effect):
        return f"tagged({value})"
    if origin in (Union, UnionType):
        (only,) = (parameter for parameter in parameters if parameter is not NoneType)
        return f'"null" if {value} is None else {_expression(only, value, names)}'
    if hint is int:
        return value
    if hint is bool:
        return f'"true" if {value} else "false"'
    if hint is str:
        return f"quoted[{value}]"
    if origin is not tuple and issubclass(hint, Enum):
        return f"quoted[{value}._value_]"
    name = f"part{len(names)}"
    if origin is tuple:
        names[name] = _tuple_encoder(parameters)
        return f'{name}({value}) if {value} else "[]"'
    if not (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        raise TypeError(f"journals have no form for {hint!r}")
    names[name] = _encoder(hint)
    return f"{name}({value})"


def _tuple_encoder(parameters: tuple[Any, ...]) -> Encoder:
    if parameters[-1] is Ellipsis:
        encode = _value_encoder(parameters[0])
        return lambda items: f"[{','.join(map(encode, items))}]"
    encoders = [_value_encoder(parameter) for parameter in parameters]
    return lambda items: f"[{','.join([encode(item) for encode, item in zip(encoders, items, strict=True)])}]"


def _value_encoder(hint: Any) -> Encoder:
    names: dict[str, Any] = {"quoted": quoted, "tagged": tagged}
    return eval(f"lambda o: f'{{{_expression(hint, 'o', names)}}}'", names)


for _cls in (*MESSAGE_TYPES.values(), *EFFECT_TYPES.values()):
    _encoders[_cls] = _encoder(_cls, tag=_cls.__name__)
