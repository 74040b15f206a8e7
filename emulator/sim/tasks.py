"""Virtual task processes: compute, in active time, what ``emulator.live`` does with real processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from emulator.core.completions import (
    CheckpointFailed,
    KillFailed,
    LaunchFailed,
    ResumeFailed,
    SuspendFailed,
    TerminateFailed,
)
from emulator.core.effects import Launch
from emulator.policies.resources import WHOLE_PPM

Failure: TypeAlias = (
    "type[LaunchFailed | SuspendFailed | CheckpointFailed | ResumeFailed | TerminateFailed | KillFailed]"
)
"""The answer to a pending operation if the process ends before it is done."""


@dataclass(slots=True)
class VirtualTask:
    """One process.  It walks ``keys`` keys in ``length_ns`` of active time, starting after ``keys_before`` keys.  It
    may have memory to write before that and to read back afterwards."""

    launch: Launch
    node: str
    ordered_ns: int
    keys: int
    length_ns: int
    index: int = 0
    """Among all tasks of its job that do the same work (``JobFacts.index_of``)."""
    keys_before: int = 0
    lost: tuple[str, ...] = ()
    """Containers whose work it was to go on from and did not find."""
    launched_ns: int | None = None
    """The time at which its process ran; None: not yet."""
    input_ready_ns: int | None = None
    """When it has its input; None: not known yet."""
    written_ns: int = 0
    """When a map has written its output."""
    first_key_ns: int | None = None
    """When its first key started; None while it waits for input or padding."""
    setup_ns: int = 0
    """Active time from its first key on for writing its memory, before it walks."""
    check_ns: int | None = None
    """Active time for reading its memory back after the walk; None: not known yet."""
    active_before_ns: int = 0
    """Active time walked before ``since_ns``."""
    since_ns: int | None = None
    """Start of the current active period; None while stopped or waiting."""
    waited: bool = False
    """Whether it ran before all map outputs were known."""
    stopped_ns: int | None = None
    """The time since which it is stopped."""
    saved_ns: int = 0
    """Active time at which it last saved by itself; of a program, what it began with."""
    checkpointing: bool = False
    committing: bool = False
    pending: list[Failure] = field(default_factory=list)
    """Pending operations, at most one, a SIGTERM and a kill.  Each must yield one completion; the exit comes after
    them."""
    token: int = 0
    """Grows with every change, so that an outdated plan of its end is recognised."""

    def active_ns(self, now_ns: int) -> int:
        """Active time of this process so far."""
        return self.active_before_ns + (now_ns - self.since_ns if self.since_ns is not None else 0)

    def instant_of(self, keys_done: int) -> int:
        """Active time of this process at the end of key number ``keys_done`` of the whole walk."""
        start_ns = self.keys_before * self.length_ns // self.keys
        return self.setup_ns + keys_done * self.length_ns // self.keys - start_ns

    def keys_done(self, now_ns: int) -> int:
        """The number of keys that it has done, with those before it."""
        return self._keys_after(self.active_ns(now_ns))

    def _keys_after(self, active_ns: int) -> int:
        if self.first_key_ns is None or not self.length_ns:
            return self.keys_before
        start_ns = self.keys_before * self.length_ns // self.keys
        walked_ns = max(0, active_ns - self.setup_ns)
        # One ns of tolerance: times are rounded down, so a key ends at most 1 ns before its exact time.
        return min(self.keys, ((start_ns + walked_ns + 1) * self.keys - 1) // self.length_ns)

    def done_ppm(self, now_ns: int) -> int:
        """Share of its whole walk that is done, in millionths."""
        if not self.length_ns:
            return WHOLE_PPM
        start_ns = self.keys_before * self.length_ns // self.keys
        walked_ns = 0 if self.first_key_ns is None else max(0, self.active_ns(now_ns) - self.setup_ns)
        return min(WHOLE_PPM, (start_ns + walked_ns) * WHOLE_PPM // self.length_ns)

    @property
    def stopped(self) -> bool:
        """Whether it is stopped now."""
        return self.stopped_ns is not None

    @property
    def is_stuck(self) -> bool:
        """Whether it does nothing until it is notified of something: it is stopped, or waits for its input."""
        waits_for_input = self.input_ready_ns is None and self.first_key_ns is None
        return not self.pending and (self.stopped or waits_for_input)

    @property
    def awaits_input(self) -> bool:
        """Whether it runs and goes on as soon as its input is known."""
        return self.first_key_ns is None and not self.stopped and self.launched_ns is not None

    def stop(self, now_ns: int) -> None:
        """Stop: no work is done from now on."""
        self.token += 1
        self.active_before_ns, self.since_ns, self.stopped_ns = self.active_ns(now_ns), None, now_ns

    def resume(self, now_ns: int) -> None:
        """Continue; what a map has not yet written is written later by the time it was stopped."""
        assert self.stopped_ns is not None
        if self.written_ns > self.stopped_ns:
            self.written_ns += now_ns - self.stopped_ns
        self.stopped_ns = None
        if self.first_key_ns is not None:
            self.since_ns = now_ns

    @property
    def left_ns(self) -> int:
        """Active time from launch to the end of the walk or, once known, of reading its memory back."""
        return self.instant_of(self.keys) + (self.check_ns or 0)

    @property
    def containers(self) -> tuple[str, ...]:
        """The containers of all its work: those in which what it resumed from was made, and then its own."""
        past = self.launch.saved.past_containers if self.launch.saved else ()
        return (*past, self.launch.container)

    def saves_after(self, period_ns: int) -> int | None:
        """The key after which it saves by itself next; None: it ends before that."""
        start_ns = self.keys_before * self.length_ns // self.keys
        walked_ns = max(self.saved_ns - self.setup_ns, 0) + period_ns
        key = -(-(start_ns + walked_ns) * self.keys // self.length_ns) if self.length_ns else self.keys
        return key if key < self.keys else None

    def program_saved_ns(self, period_ns: int, now_ns: int) -> int:
        """What a program keeps if it ends now, that began with ``saved_ns`` and saves once in a period."""
        walked_ns = self.active_ns(now_ns) - self.setup_ns - self.saved_ns
        return self.saved_ns + max(0, walked_ns) // period_ns * period_ns

    def readings(self, now_ns: int, period_ns: int) -> tuple[tuple[int, int], ...]:
        """The readings of its heartbeats: the start, the last key one period ago, the last key.

        Its rate is constant, so other readings would not change an estimate.  The reading of a period ago is needed
        because the ApplicationMaster leaves out readings after its last refresh.
        """
        active_ns = self.active_ns(now_ns)
        begin_ns = now_ns - active_ns  # when it would have begun if it had never stopped
        readings = [(begin_ns + self.setup_ns, self.keys_before)]
        for after_ns in (active_ns if self.since_ns is None else active_ns - period_ns, active_ns):
            keys_done = self._keys_after(after_ns)
            if keys_done > readings[-1][1]:
                readings.append((begin_ns + self.instant_of(keys_done), keys_done))
        return tuple(readings)
