"""The watchdog of a live run: has it come to a standstill?

Every node host counts what moves: processes that start, stop, go on or end, and those that it sees at work when it
looks for silent ones, eight times in a task's timeout.  When no count has grown for as long as that although a job has
been submitted and not ended, the run is given up: a single task that hangs has been killed by then, and has moved.
"""

from __future__ import annotations

from decimal import Decimal

from emulator.experiment.model import Experiment

_TIMEOUT_AT_LEAST_REAL_NS = 30_000_000_000
"""A machine under load may leave a process without a processor for some seconds."""


def timeout_real_ns(experiment: Experiment) -> int:
    """How long a task may give no sign of life, and a run not move."""
    timeout_real_s = Decimal(str(experiment.protocol.task_timeout_s)) / Decimal(str(experiment.time_scale))
    return max(_TIMEOUT_AT_LEAST_REAL_NS, int(timeout_real_s * 1_000_000_000))


class Standstill:
    """See the module's theory of operation."""

    def __init__(self, patience_real_ns: int) -> None:
        self._patience_real_ns = patience_real_ns
        self._moves: int | None = None
        self._moved_real_ns = 0
        self.since_ns = 0
        """Emulated instant at which something was last seen to have moved."""

    def is_reached(self, moves: int, has_work: bool, now_real_ns: int, now_ns: int) -> bool:
        """Whether nothing has moved for too long.

        Args:
            moves: what all node hosts together have counted.
            has_work: whether a job has been submitted and not ended.
            now_real_ns: real time.
            now_ns: emulated time.
        """
        if moves != self._moves or not has_work:
            self._moves, self._moved_real_ns, self.since_ns = moves, now_real_ns, now_ns
        return now_real_ns - self._moved_real_ns > self._patience_real_ns
