"""Virtual task processes: what ``emulator.live`` does with real ones, as arithmetic on active time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from emulator.core.completions import CheckpointFailed, KillFailed, LaunchFailed, ResumeFailed, SuspendFailed
from emulator.core.effects import Launch

Failure: TypeAlias = (
    "type[LaunchFailed] | type[SuspendFailed] | type[CheckpointFailed] | type[ResumeFailed] | type[KillFailed]"
)
"""What an operation under way is answered with when the process ends before it is done."""


@dataclass(slots=True)
class VirtualTask:
    """One process.  It walks ``keys`` keys in ``length_ns`` of active time, from key ``keys_before``; it may have
    memory to write before that and to read back after it."""

    launch: Launch
    node: str
    ordered_ns: int
    keys: int
    length_ns: int
    keys_before: int = 0
    launched_ns: int = 0
    input_ready_ns: int | None = None
    """When its input is there; None while that is not known."""
    written_ns: int = 0
    """When a map has written its output."""
    first_key_ns: int | None = None
    """When its first key started; None while it waits for input or padding."""
    setup_ns: int = 0
    """Active time from its first key on in which it writes its memory, before it walks."""
    check_ns: int | None = None
    """Active time in which it reads its memory back, after it has walked; None while that is not known."""
    active_before_ns: int = 0
    """Active time walked before ``since_ns``."""
    since_ns: int | None = None
    """Start of the present spell of activity; None while stopped or waiting."""
    waited: bool = False
    """Whether it ran before all map outputs were known."""
    stopped_ns: int | None = None
    """Since when it is stopped."""
    checkpointing: bool = False
    committing: bool = False
    pending: list[Failure] = field(default_factory=list)
    """Operations under way, at most one and a kill: each must yield one completion, and the exit comes after it."""
    token: int = 0
    """Grows with every change, so that an end planned before it is known as stale."""

    def active_ns(self, now_ns: int) -> int:
        """Active time walked by this process so far."""
        return self.active_before_ns + (now_ns - self.since_ns if self.since_ns is not None else 0)

    def instant_of(self, keys_done: int) -> int:
        """Active time of this process at the end of its ``keys_done``-th key of the whole walk."""
        start_ns = self.keys_before * self.length_ns // self.keys
        return self.setup_ns + keys_done * self.length_ns // self.keys - start_ns

    def keys_done(self, now_ns: int) -> int:
        """Key counter."""
        if self.first_key_ns is None or not self.length_ns:
            return self.keys_before
        start_ns = self.keys_before * self.length_ns // self.keys
        walked_ns = max(0, self.active_ns(now_ns) - self.setup_ns)
        # One ns of grace: instants are rounded down, so a key ends at most 1 ns before its exact time.
        return min(self.keys, ((start_ns + walked_ns + 1) * self.keys - 1) // self.length_ns)

    @property
    def stopped(self) -> bool:
        """Whether it is stopped now."""
        return self.stopped_ns is not None

    @property
    def is_stuck(self) -> bool:
        """Whether it does nothing until it is told something: it is stopped, or waits for its input."""
        waits_for_input = self.input_ready_ns is None and self.first_key_ns is None
        return not self.pending and (self.stopped or waits_for_input)

    def stop(self, now_ns: int) -> None:
        """No work is done from now on."""
        self.token += 1
        self.active_before_ns, self.since_ns, self.stopped_ns = self.active_ns(now_ns), None, now_ns

    def go_on(self, now_ns: int) -> None:
        """It is stopped no more; what a map had not yet written is written that much later."""
        assert self.stopped_ns is not None
        if self.written_ns > self.stopped_ns:
            self.written_ns += now_ns - self.stopped_ns
        self.stopped_ns = None
        if self.first_key_ns is not None:
            self.since_ns = now_ns

    @property
    def left_ns(self) -> int:
        """Active time from launch to the end of the walk, or, once that is known, of reading its memory back."""
        return self.instant_of(self.keys) + (self.check_ns or 0)

    def readings(self, now_ns: int, period_ns: int) -> tuple[tuple[int, int], ...]:
        """What its heartbeats have said: the start, the last key a period ago, the last key.

        Its rate is constant, so that readings in between would change no estimate; the one a period ago is there
        because the ApplicationMaster leaves out what is newer than its last refresh.
        """
        begin_ns = now_ns - self.active_ns(now_ns)  # the instant it would have begun at, had it never stopped
        readings = [(begin_ns + self.setup_ns, self.keys_before)]
        for at_ns in (now_ns - period_ns, now_ns):
            keys_done = self.keys_done(at_ns)
            if keys_done > readings[-1][1]:
                readings.append((begin_ns + self.instant_of(keys_done), keys_done))
        return tuple(readings)
