"""Statistics of the measured overheads, for ``summary.json``."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from emulator.core.settings import OverheadSettings
from emulator.records.history.containers import Operation, OperationName

if TYPE_CHECKING:
    import numpy

OVERRUN_TOLERANCE_REAL_NS = 5_000_000
"""An operation is an overrun if it exceeded the profile's total by more than this real time, at the run's time scale.

A smaller excess is the driver's own lateness, which ``lag`` reports.
"""


class OverheadTimes:
    """The times of a run's operations, by operation, without anything else of them: large runs have millions."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._by_name = {name: _Times() for name in get_args(OperationName)}
        self.add(operations)

    def add(self, operations: Iterable[Operation]) -> None:
        """Add the times of these."""
        for operation in operations:
            self._by_name[operation.operation].add(operation)

    def statistics(self, profile: OverheadSettings, time_scale: float) -> dict[str, dict[str, Any]]:
        """By operation: n, mean and percentiles in emulated seconds, overruns, and its parts in real milliseconds.

        Schedule and resume begin at the latest of three times: request at the ResourceManager, container free, input
        ready.  They end at the first key (ApplicationMaster: at its start; SIGCONT: when the process runs).  Suspend
        begins when the ApplicationMaster asks the task, kill when the command is sent; both end when the
        ResourceManager knows that the container is free.  ``application_master_start`` is the part of an
        ApplicationMaster's schedule from the order to launch it.

        The parts of the real time: *mechanism* is the machine's time, *key* is the key in progress that a checkpoint
        finishes first, and *heartbeat* is the rest: waits for heartbeats and the padding of a profile.
        """
        limits_ns = {"schedule": profile.schedule_ns, "suspend": profile.suspend_ns, "resume": profile.resume_ns}
        return {
            f"{name}_s": times.statistics(limits_ns.get(name, 0), time_scale) for name, times in self._by_name.items()
        }


class _Times:
    """The times of one kind of operation."""

    def __init__(self) -> None:
        self._totals_ns = array("q")
        self._known_totals_ns = array("q")
        """The totals of those whose parts the driver reported."""
        self._mechanism_real_ns = array("q")
        self._key_real_ns = array("q")

    def add(self, operation: Operation) -> None:
        self._totals_ns.append(operation.total_ns)
        if operation.cost is not None:
            self._known_totals_ns.append(operation.total_ns)
            self._mechanism_real_ns.append(operation.cost.mechanism_real_ns)
            self._key_real_ns.append(operation.cost.key_real_ns)

    def statistics(self, limit_ns: int, time_scale: float) -> dict[str, Any]:
        import numpy  # here, because a simulation does without until it ends

        measured = self._totals_ns, self._known_totals_ns, self._mechanism_real_ns, self._key_real_ns
        totals_ns, known_ns, mechanism, key = (numpy.array(values, dtype=float) for values in measured)
        tolerance_ns = OVERRUN_TOLERANCE_REAL_NS * time_scale
        p50, p95, p99 = percentiles(totals_ns / 1e9, (50, 95, 99))
        heartbeat = numpy.maximum(0.0, known_ns / time_scale - mechanism - key)
        real_ns = {"heartbeat": heartbeat, "key": key, "mechanism": mechanism, "total": totals_ns / time_scale}
        return {
            "n": len(totals_ns),
            "mean": float(totals_ns.mean()) / 1e9 if len(totals_ns) else None,
            "p50": p50,
            "p95": p95,
            "p99": p99,
            "overruns": int((totals_ns > limit_ns + tolerance_ns).sum()) if limit_ns else 0,
            "real_ms": {part: _spread(values / 1e6) for part, values in real_ns.items()},
        }


def _spread(values: numpy.ndarray) -> dict[str, float | None]:
    p50, p99 = percentiles(values, (50, 99))
    return {"mean": float(values.mean()) if len(values) else None, "p50": p50, "p99": p99}


def percentiles(values: Sequence[float] | numpy.ndarray, which: tuple[int, ...]) -> list[float | None]:
    """These percentiles of the values; None for each if there is no value."""
    if not len(values):
        return [None] * len(which)
    import numpy

    # ``numpy.percentile`` would import numpy.ma, which takes longer than all else here.
    places = numpy.array(which) / 100 * (len(values) - 1)
    return numpy.interp(places, numpy.arange(len(values)), numpy.sort(values)).tolist()
