"""The watchdog of a live run: detects a standstill.

Every node host counts moves: processes that start, stop, resume or end, and processes seen working when it looks for
silent ones, which it does eight times within a task's timeout.  If no count grows for that timeout although a submitted
job has not ended, the run is given up.  A single hanging task does not lead to this: it has been killed by then, and
that counts as a move.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.resolved import Resolved

_TIMEOUT_AT_LEAST_REAL_NS = 30_000_000_000
"""A loaded machine may leave a process without a processor for some seconds."""


def timeout_real_ns(run: Resolved) -> int:
    """How long a task may give no sign of life, and how long a run may have no moves."""
    return max(_TIMEOUT_AT_LEAST_REAL_NS, int(run.task_timeout_ns / Decimal(str(run.time_scale))))


class Standstill:
    """See the module's docstring."""

    def __init__(self, patience_real_ns: int) -> None:
        self._patience_real_ns = patience_real_ns
        self._moves: int | None = None
        self._moved_real_ns = 0
        self.since_ns = 0
        """Emulated time of the last move seen."""

    def is_reached(self, moves: int, has_work: bool, now_real_ns: int, now_ns: int) -> bool:
        """Whether nothing has moved for too long.

        Args:
            moves: the count of all node hosts together.
            has_work: whether a submitted job has not ended.
            now_real_ns: real time.
            now_ns: emulated time.
        """
        if moves != self._moves or not has_work:
            self._moves, self._moved_real_ns, self.since_ns = moves, now_real_ns, now_ns
        return now_real_ns - self._moved_real_ns > self._patience_real_ns
