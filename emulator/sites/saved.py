"""What the files of all sites have in common (``workloads.saved`` reads and writes them)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from emulator.vocabulary import Frozen


class Saved(Frozen):
    """Base of what an import takes over."""

    SECTION: ClassVar[str]
    VERSION: ClassVar[str]
    """Of the scheduler whose decisions are meant."""

    def problems(self) -> Iterator[str]:
        """What of it contradicts itself, with its place."""
        yield from ()


def twice(where: str, names: Iterable[str]) -> Iterator[str]:
    """A problem for each name that several of the things at a place have."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"{where}: '{name}' is there twice"
        seen.add(name)
