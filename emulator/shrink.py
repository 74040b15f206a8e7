"""The fewest items that still break something, by delta debugging (Zeller and Hildebrandt, TSE 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shortest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items``, in their order, for which ``fails`` still holds, but no longer if any one item is removed.

    Args:
        items: ``fails`` holds for all of them together.
        fails: called with parts of them, the empty part included.
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
