"""The fewest faults that still break a run: delta debugging (Zeller and Hildebrandt, TSE 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shortest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items``, in their order, for which ``fails`` still holds, and does not when any one is taken out.

    Args:
        items: for all of which it holds.
        fails: asked for parts of them, the empty one included.
    """
    kept, parts = list(items), 2
    if fails([]):
        return []
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        for begin in range(0, len(kept), size):
            rest = [*kept[:begin], *kept[begin + size :]]
            if rest and fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return kept
