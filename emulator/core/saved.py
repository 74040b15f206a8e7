"""What is left of the work of a task when its process has ended."""

from __future__ import annotations

from typing import TypeAlias

from emulator.vocabulary import Frozen


class KeyCheckpoint(Frozen, tag="key-checkpoint"):
    """What natjam section 3.1 saves for a suspended reduce; held by the ApplicationMaster and sent along at resume."""

    past_containers: tuple[str, ...]
    """Containers of the suspended attempts, in order; their partial outputs make up the output in this order."""
    keys_done: int
    location: str
    """Local path of the merged reduce input on ``node``."""
    node: str
    """Of the last suspended attempt, preferred at resume."""
    size_bytes: int = 0


class ProcessImage(Frozen, tag="process-image"):
    """A process as it was, with its memory, on the storage device (CRIU)."""

    past_containers: tuple[str, ...]
    """As of a key checkpoint; the last is that of the process."""
    keys_done: int
    """By a reduce, when it was made."""
    location: str
    """Where the file is."""
    node: str
    """Where the process ran."""
    size_bytes: int
    """Of its memory: what a restore reads."""
    checksum: str
    in_key_ns: int = 0
    """Active time that the key in progress (of a map: all its work) had had."""
    written_bytes: int | None = None
    """Of an incremental image: what had changed since the one before, which it rests on; None: it is whole."""

    @property
    def is_incremental(self) -> bool:
        """Whether it rests on the image before."""
        return self.written_bytes is not None

    @property
    def bytes_written(self) -> int:
        """What making it has written."""
        return self.size_bytes if self.written_bytes is None else self.written_bytes


Saved: TypeAlias = KeyCheckpoint | ProcessImage
"""What is left of the work of a process that has ended."""
