"""Kubernetes' resources in an experiment: their names, and their amounts in thousandths of our units."""

from __future__ import annotations

from collections.abc import Mapping

PODS = "pods"
"""Kubernetes' resource that counts pods."""
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Resources that are counted in bytes; others are in thousandths (cpu), or counted."""


def our_name(name: str) -> str:
    """``memory_gb`` of ``memory``."""
    return f"{name}_gb" if name.startswith(_BYTES) else name


def our_amount(name: str, amount: int, up: bool = False) -> float:
    """In our unit, with three decimals."""
    if name.startswith(_BYTES):
        thousandths = -(-(amount * 1000) >> 30) if up else amount * 1000 >> 30
        return thousandths / 1000
    return amount / 1000 if name == "cpu" else float(amount)


def asked(requests: Mapping[str, int]) -> dict[str, float]:
    """What one pod asks for: its requests, rounded down, and one of ``PODS``."""
    amounts = {our_name(name): our_amount(name, amount) for name, amount in requests.items() if name != PODS}
    return {**amounts, PODS: 1.0}
