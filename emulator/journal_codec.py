"""How messages and effects are written in a journal, and read by the dataclasses' own type hints.

A message or an effect is an object with its type as the only key, ``{"Launched": {"container": ..., "cost": {...}}}``;
what is inside has the type its field declares.  A new message or field needs no change here; a field of a new kind of
type (a set, a union of two classes) does, and fails at import until then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from emulator.core import effects as effect_types
from emulator.core import messages as message_types
from emulator.core.effects import Effect, Send
from emulator.core.messages import Message

Decoder: TypeAlias = Callable[[Any], Any]
"""Makes a value from what JSON gave; raises Mismatch."""


def _concrete(module: object, base: type) -> dict[str, type]:
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return {cls.__name__: cls for cls in classes if issubclass(cls, base) and cls is not base}


MESSAGE_TYPES = _concrete(message_types, Message)
EFFECT_TYPES = _concrete(effect_types, Effect)


def tagged(value: Message | Effect) -> dict[str, Any]:
    """A message or effect under its type, as orjson is to be given it: the dataclasses inside it knows itself."""
    if type(value) is Send:
        return {"Send": {"to": value.to, "message": tagged(value.message)}}
    return {type(value).__name__: value}


class Mismatch(Exception):
    """A value is not what its field declares."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self.problem = problem
        self.location: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.location))}: {self.problem}" if self.location else self.problem


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain_decoder(wanted: type) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not wanted:
            raise Mismatch(f"expected {wanted.__name__}, found {shown(value)}")
        return value

    return decode


def _float_decoder(value: Any) -> float:
    if type(value) not in (float, int):
        raise Mismatch(f"expected a number, found {shown(value)}")
    return float(value)


def _enum_decoder(cls: type[Enum]) -> Decoder:
    members = {member.value: member for member in cls}

    def decode(value: Any) -> Any:
        member = members.get(value) if type(value) is str else None
        if member is None:
            raise Mismatch(f"expected one of {', '.join(members)}, found {shown(value)}")
        return member

    return decode


def _optional_decoder(decode_value: Decoder) -> Decoder:
    return lambda value: None if value is None else decode_value(value)


def _sequence_decoder(decode_item: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch(f"expected a list, found {shown(value)}")
        return tuple([decode_item(item) for item in value])

    return decode


def _tuple_decoder(decoders: list[Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not list or len(value) != len(decoders):
            raise Mismatch(f"expected a list of {len(decoders)}, found {shown(value)}")
        return tuple([decode_item(item) for decode_item, item in zip(decoders, value, strict=True)])

    return decode


def _mapping_decoder(decode_value: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch(f"expected an object, found {shown(value)}")
        return {key: decode_value(item) for key, item in value.items()}

    return decode


def dataclass_decoder(cls: type) -> Decoder:
    hints = get_type_hints(cls)
    fields = [(field.name, _decoder_of(hints[field.name])) for field in dataclasses.fields(cls)]

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch(f"expected an object, found {shown(value)}")
        name = ""
        try:
            parts = []
            for name, decode_field in fields:
                parts.append(decode_field(value[name]))
        except KeyError:
            raise Mismatch(f"field '{name}' is missing") from None
        except Mismatch as error:
            error.location.append(name)
            raise
        if len(value) != len(parts):
            unknown = sorted(value.keys() - {name for name, _ in fields})
            raise Mismatch(f"unknown field '{unknown[0]}'")
        return cls(*parts)

    return decode


def _tagged_decoder(types: dict[str, type], what: str) -> Decoder:
    decoders = {name: dataclass_decoder(cls) for name, cls in types.items()}

    def decode(value: Any) -> Any:
        if type(value) is not dict or len(value) != 1:
            raise Mismatch(f"expected an object with the type of the {what} as its only key, found {shown(value)}")
        ((name, fields),) = value.items()
        decode_fields = decoders.get(name)
        if decode_fields is None:
            raise Mismatch(f"there is no {what} '{name}'")
        try:
            return decode_fields(fields)
        except Mismatch as error:
            error.location.append(name)
            raise

    return decode


def _decoder_of(hint: Any) -> Decoder:
    """The decoder for an annotation: a class, ``X | None``, ``tuple[X, ...]``, ``tuple[X, Y]`` or ``dict[str, X]``."""
    if hint is Message:
        return _decode_message
    if hint is Effect:
        return _decode_effect
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (only,) = (parameter for parameter in parameters if parameter is not NoneType)
        return _optional_decoder(_decoder_of(only))
    if origin is tuple and len(parameters) == 2 and parameters[1] is Ellipsis:
        return _sequence_decoder(_decoder_of(parameters[0]))
    if origin is tuple:
        return _tuple_decoder([_decoder_of(parameter) for parameter in parameters])
    if origin is dict:
        return _mapping_decoder(_decoder_of(parameters[1]))
    if hint is float:
        return _float_decoder
    if issubclass(hint, Enum):
        return _enum_decoder(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return dataclass_decoder(hint)
    if hint in (int, str, bool):
        return _plain_decoder(hint)
    raise TypeError(f"journals have no form for {hint!r}")


_decode_message = _tagged_decoder(MESSAGE_TYPES, "message")
_decode_effect = _tagged_decoder(EFFECT_TYPES, "effect")
