"""Saving a stopped process to files, and making it again from files: one interface, two dumpers.

``criu`` saves a whole process of any program and restores it; it needs root and a criu that works on this kernel.
``pages`` saves the memory that a process has written to.  It is for natjam's own tasks, which are launched again from
their counters; the bytes and their cost are real, and it needs no root.  Neither knows images, stores or tiers:
``emulator.live.dumpers.images`` puts their files into an image of ``emulator.storage.images`` and gets them back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class DumpError(Exception):
    """A process could not be saved or restored; the text says why in one line."""


class Dumper(Protocol):
    """One way to save a process."""

    @property
    def name(self) -> str:
        """``criu`` or ``pages``; every image records it."""
        ...

    def dump(self, pid: int, directory: Path) -> None:
        """Write a stopped process, and its children, to files in an empty directory; it stays stopped.

        Memory pages go to files named ``pages-...``, whole pages one after the other.  Raises DumpError (the process is
        then stopped as before), OSError.
        """
        ...

    def restore(self, directory: Path) -> int | None:
        """Restore the process from the files of ``dump``: stopped, with its old id, a child of this process.

        Returns its id, or None for a dumper that saves memory only.  Raises DumpError, OSError.
        """
        ...
