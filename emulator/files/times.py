"""Times in experiment files."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated

from pydantic import Field

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
