"""Times and shares in experiment files, and the units that the machines have them in."""

from __future__ import annotations

from dataclasses import fields
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SettingsT = TypeVar("SettingsT", bound="DataclassInstance")

LARGEST_TIME_S = 1e8
"""About three years, so that every instant in nanoseconds fits easily in 64 bits."""

Seconds = Annotated[float, Field(ge=0, le=LARGEST_TIME_S, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(ge=1e-9, le=LARGEST_TIME_S, allow_inf_nan=False)]
"""At least a nanosecond, so that no period is rounded to 0."""


def ns_to_seconds(ns: int | None) -> float | None:
    """Nanoseconds to seconds; None: there is no time."""
    return None if ns is None else ns / 1e9


def seconds_to_ns(seconds: float) -> int:
    """Emulated seconds, as written in a file, to nanoseconds: exact in decimal, halves rounded to even."""
    return int((Decimal(str(seconds)) * 10**9).to_integral_value(ROUND_HALF_EVEN))


def in_machine_units(settings: type[SettingsT], given: Any, **others: Any) -> SettingsT:
    """A section of a file as ``settings``, which the machines get: seconds in nanoseconds, shares in millionths.

    By the names of the fields: ``x_ns`` is made from ``x_s``, ``x_ppm`` from ``x``, and others are taken as they are.
    ``others`` has the fields that are made in another way.  The two stay two classes: the hosts of a live run do
    without the models of files, whose import takes 0.4 s, longer than that of all else that a host imports.
    """
    values = dict(others)
    for name in (field.name for field in fields(settings) if field.init and field.name not in others):
        if name.endswith("_ns"):
            values[name] = seconds_to_ns(getattr(given, name.removesuffix("_ns") + "_s"))
        elif name.endswith("_ppm"):
            values[name] = int(Decimal(str(getattr(given, name.removesuffix("_ppm")))) * 1_000_000)
        else:
            values[name] = getattr(given, name)
    return settings(**values)
