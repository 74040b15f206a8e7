"""The shared progress page: one 64-byte slot per container, written by the task, read by its node host.

Tasks increase counters in a memory-mapped file instead of sending messages, so heartbeats of thousands of tasks cost no
traffic.  Every field is one aligned 8-byte word, stored and loaded as a whole: a reader never sees half a counter.  Two
words of one slot may be a few instructions apart; no reader depends on that.  The node host decides which container
uses which slot; the supervisor clears a slot when it launches into it.
"""

from __future__ import annotations

import mmap
import os
import struct
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SLOT_BYTES = 64
AHEAD_SUFFIX = "-ahead"
"""The end of the name of the folder beside the page that processes made ahead of their tasks use."""
_SLOT = struct.Struct("=8Q")
_KEYS_DONE, _KEYS_TOTAL, _STATE, _STATE_SINCE, _LAST_KEY, _STOPPED, _ALIVE = range(7)


class WorkState(IntEnum):
    """What a task process is doing; the page holds the value."""

    EMPTY = 0
    """Never used, or just cleared for a launch."""
    STARTED = 1
    WAITING_INPUT = 2
    """Not all map outputs are known, or one could not be fetched."""
    FETCHING = 3
    WAITING_FIRST_KEY = 4
    """It has its input and waits for the end of its launch overhead."""
    RUNNING = 5
    STOPPED = 6
    """About to stop itself; when it continues, it returns to its state before."""
    COMMITTING = 7
    DONE = 8
    CHECKPOINTED = 9


_STATES = tuple(WorkState)


class Progress(NamedTuple):
    """The content of one slot.  Times are real nanoseconds of CLOCK_MONOTONIC, 0 for never."""

    keys_done: int
    keys_total: int
    state: WorkState
    state_since_real_ns: int
    last_key_real_ns: int
    stopped_real_ns: int
    """Total real time spent stopped; it does not count as work."""
    alive_real_ns: int
    """When it last gave a sign of life."""


class ProgressPage:
    """A mapped progress page.  ``create`` makes the file, ``open`` maps an existing one; ``close`` unmaps it."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._words = memoryview(mapping).cast("Q")
        self.slots = len(mapping) // SLOT_BYTES

    @classmethod
    def create(cls, path: str | Path, slots: int) -> ProgressPage:
        """Make a zeroed page of `slots` slots.

        Raises FileExistsError, or ValueError if `slots` is below 1.
        """
        if slots < 1:
            raise ValueError(f"{path}: a progress page needs at least one slot, not {slots}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, slots * SLOT_BYTES)
            return cls(mmap.mmap(descriptor, slots * SLOT_BYTES))
        finally:
            os.close(descriptor)

    @classmethod
    def open(cls, path: str | Path, slots: int | None = None) -> ProgressPage:
        """Map an existing page.

        Raises ValueError if its size is not a whole number of slots, or not ``slots`` slots.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes == 0 or size_bytes % SLOT_BYTES or (slots and size_bytes != slots * SLOT_BYTES):
                wanted = f"{slots * SLOT_BYTES} bytes" if slots else f"a multiple of {SLOT_BYTES} bytes"
                raise ValueError(f"{path}: a progress page of {size_bytes} bytes, expected {wanted}")
            return cls(mmap.mmap(descriptor, size_bytes))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Unmap the page; the file stays.  Slot writers must not be used after that."""
        self._words.release()
        self._mapping.close()

    def clear(self, slot: int) -> None:
        """Zero a slot before a new container uses it."""
        start = self._offset(slot)
        self._mapping[start : start + SLOT_BYTES] = bytes(SLOT_BYTES)

    def writer(self, slot: int) -> SlotWriter:
        """The writer of one slot, for the task that owns it."""
        return SlotWriter(self._words, self._offset(slot) // 8)

    def read(self, slot: int) -> Progress:
        """The current content of one slot."""
        keys_done, keys_total, state, *instants, _ = _SLOT.unpack_from(self._mapping, self._offset(slot))
        return Progress(keys_done, keys_total, _STATES[state], *instants)

    def keys_done(self, slot: int) -> int:
        """Only the key counter of one slot: a tenth of the cost of reading all."""
        return self._words[self._offset(slot) // 8 + _KEYS_DONE]

    def _offset(self, slot: int) -> int:
        if not 0 <= slot < self.slots:
            raise IndexError(f"slot {slot} is outside a progress page of {self.slots} slots")
        return slot * SLOT_BYTES


class SlotWriter:
    """Writes a task's slot.  Each write is a memory store, without a system call."""

    def __init__(self, words: memoryview, first_word: int) -> None:
        self._words = words
        self._first = first_word

    def start(self, keys_done: int, keys_total: int) -> None:
        """Set the counters at the start; a resumed task already has keys done."""
        self._words[self._first + _KEYS_TOTAL] = keys_total
        self._words[self._first + _KEYS_DONE] = keys_done

    def key_done(self, keys_done: int, real_ns: int) -> None:
        """`keys_done` keys are written, the last one at `real_ns`."""
        self._words[self._first + _LAST_KEY] = real_ns
        self._words[self._first + _KEYS_DONE] = keys_done

    def state(self, state: WorkState, real_ns: int) -> None:
        """The task is in `state` since `real_ns`."""
        self._words[self._first + _STATE_SINCE] = real_ns
        self._words[self._first + _STATE] = state

    def alive(self, real_ns: int) -> None:
        """The task gives a sign of life, whether it makes progress or not."""
        self._words[self._first + _ALIVE] = real_ns

    def stopped(self, total_real_ns: int) -> None:
        """The task has been stopped for `total_real_ns` in total."""
        self._words[self._first + _STOPPED] = total_real_ns
