"""What is left of a task's work when its process has ended."""

from __future__ import annotations

from typing import TypeAlias

from emulator.vocabulary import Frozen


class KeyCheckpoint(Frozen, tag="key-checkpoint"):
    """What natjam section 3.1 saves for a suspended reduce; the ApplicationMaster keeps it and sends it at resume."""

    past_containers: tuple[str, ...]
    """Containers of the suspended attempts, in order; the output consists of their partial outputs in this order."""
    keys_done: int
    location: str
    """Local path of the merged reduce input on ``node``."""
    node: str
    """Node of the last attempt that saved it, preferred at resume."""
    size_bytes: int = 0


class ProcessImage(Frozen, tag="process-image"):
    """A saved process with its memory, on the storage device (CRIU)."""

    past_containers: tuple[str, ...]
    """As in a key checkpoint; the last one is the container of the process."""
    keys_done: int
    """Keys that a reduce had done when the image was made."""
    location: str
    """Path of the file."""
    node: str
    """The node where the process ran."""
    size_bytes: int
    """Size of its memory: what a restore reads."""
    checksum: str
    in_key_ns: int = 0
    """Active time already spent on the key in progress (for a map: on all its work)."""
    written_bytes: int | None = None
    """What making it has written: of an incremental image, what had changed since the one before; None: all of it."""
    whole: bool = False
    """It rests on no other image, though it says what was written: a page that is there twice is written once."""

    @property
    def is_incremental(self) -> bool:
        """Whether it builds on an earlier image."""
        return self.written_bytes is not None and not self.whole

    @property
    def bytes_written(self) -> int:
        """Bytes written to make it."""
        return self.size_bytes if self.written_bytes is None else self.written_bytes


Saved: TypeAlias = KeyCheckpoint | ProcessImage
"""What is left of the work of a process that has ended."""
