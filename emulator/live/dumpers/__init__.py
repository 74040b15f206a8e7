"""What turns a stopped process into files, and files into a process again: one seam, two dumpers.

``criu`` saves a whole process of any program and makes it again; it needs root and a criu that works on this kernel.
``pages`` saves the memory that a process has written to, for natjam's own tasks, which are launched anew from their
counters: the bytes and their cost are real, and no root is needed.  Neither knows of images, stores or tiers:
``emulator.live.dumpers.images`` puts what they write into an image of ``emulator.storage.images`` and gets it back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class DumpError(Exception):
    """A process could not be saved, or made again; the text says why in one line."""


class Dumper(Protocol):
    """One way to save a process."""

    @property
    def name(self) -> str:
        """``criu`` or ``pages``; stands in every image."""
        ...

    def dump(self, pid: int, directory: Path) -> None:
        """Write a stopped process, and its children, to files in an empty directory; it stays stopped.

        Pages of memory go to files named ``pages-...``, whole pages one after the other.  Raises DumpError (the
        process is then stopped, as it was), OSError.
        """
        ...

    def restore(self, directory: Path) -> int | None:
        """Make the process again from what ``dump`` wrote: stopped, with its old id, a child of this one.

        Returns its id, or None from a dumper that saves memory alone.  Raises DumpError, OSError.
        """
        ...
