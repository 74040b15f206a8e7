"""How far a file is read, for those who show it."""

from __future__ import annotations

from collections.abc import Callable

OnBytes = Callable[[int], None]
"""Called with the number of bytes read since the last call, as stored on disk (compressed)."""


def ignore(count: int) -> None:
    """An OnBytes for callers that show no progress."""
