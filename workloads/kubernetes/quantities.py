"""Kubernetes' quantities, such as ``500m``, ``4`` and ``16Gi``, as whole numbers."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

Quantity = str | int | float
"""As the files write it."""

_FORM = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
MOST = 2**63 - 1
"""As in Kubernetes, which counts in 64 bits."""


def exact(quantity: Quantity) -> Decimal:
    """A quantity of whole units, which may be negative.  Raises ValueError, which does not repeat it."""
    match = None if isinstance(quantity, bool) else _FORM.fullmatch(str(quantity).strip())
    if match is None:
        raise ValueError("is not a quantity; write for example 4, 500m or 16Gi")
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def amount(resource: str, quantity: Quantity | Decimal) -> int:
    """A quantity in the resource's unit, rounded up: thousandths for cpu, else whole.

    Raises ValueError: it is no quantity, is negative, or is too large.  The message does not repeat it.
    """
    value = quantity if isinstance(quantity, Decimal) else exact(quantity)
    value = (value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING)
    if not 0 <= value <= MOST:
        raise ValueError("must be from 0 to 2^63 - 1")
    return int(value)


def quantity(resource: str, value: int) -> str:
    """An amount as Kubernetes writes it."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    for suffix in ("Gi", "Mi", "Ki"):
        size = int(_SUFFIXES[suffix])
        if value and value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)
