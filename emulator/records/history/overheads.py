"""Statistics of the measured overheads, for ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import numpy

from emulator.costs.overheads import OverheadProfile
from emulator.records.history.containers import Operation, OperationName

OVERRUN_TOLERANCE_REAL_NS = 5_000_000
"""An operation is an overrun if it exceeded the profile's total by more than this real time, at the run's time scale.

A smaller excess is the driver's own lateness, which ``lag`` reports.
"""


def overhead_statistics(
    operations: Iterable[Operation], profile: OverheadProfile, time_scale: float
) -> dict[str, dict[str, Any]]:
    """By operation: n, mean and percentiles in emulated seconds, overruns, and its parts in real milliseconds.

    Schedule and resume begin at the latest of three times: request at the ResourceManager, container free, input ready.
    They end at the first key (ApplicationMaster: at its start; SIGCONT: when the process runs).  Suspend begins when
    the ApplicationMaster asks the task, kill when the command is sent; both end when the ResourceManager knows that the
    container is free.  ``application_master_start`` is the part of an ApplicationMaster's schedule from the order to
    launch it.

    The parts of the real time: *mechanism* is the machine's time, *key* is the key in progress that a checkpoint
    finishes first, and *heartbeat* is the rest: waits for heartbeats and the padding of a profile.
    """
    limits_ns = {"schedule": profile.schedule_ns, "suspend": profile.suspend_ns, "resume": profile.resume_ns}
    by_name: dict[str, list[Operation]] = {name: [] for name in get_args(OperationName)}
    for operation in operations:
        by_name[operation.operation].append(operation)
    return {f"{name}_s": _statistics(found, limits_ns.get(name, 0), time_scale) for name, found in by_name.items()}


def _statistics(operations: list[Operation], limit_ns: int, time_scale: float) -> dict[str, Any]:
    totals_ns = numpy.array([operation.total_ns for operation in operations], dtype=float)
    mechanism, key, heartbeat = [], [], []
    for operation in operations:
        if operation.cost is not None:
            total_real_ns = operation.total_ns / time_scale
            mechanism.append(operation.cost.mechanism_real_ns)
            key.append(operation.cost.key_real_ns)
            heartbeat.append(max(0.0, total_real_ns - mechanism[-1] - key[-1]))
    tolerance_ns = OVERRUN_TOLERANCE_REAL_NS * time_scale
    p50, p95, p99 = percentiles(totals_ns / 1e9, (50, 95, 99))
    real_ns = {"heartbeat": heartbeat, "key": key, "mechanism": mechanism, "total": totals_ns / time_scale}
    return {
        "n": len(operations),
        "mean": float(totals_ns.mean()) / 1e9 if operations else None,
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "overruns": int((totals_ns > limit_ns + tolerance_ns).sum()) if limit_ns else 0,
        "real_ms": {part: _spread(numpy.array(values, dtype=float) / 1e6) for part, values in real_ns.items()},
    }


def _spread(values: numpy.ndarray) -> dict[str, float | None]:
    p50, p99 = percentiles(values, (50, 99))
    return {"mean": float(values.mean()) if len(values) else None, "p50": p50, "p99": p99}


def percentiles(values: numpy.ndarray, which: tuple[int, ...]) -> list[float | None]:
    """These percentiles of the values; None for each if there is no value."""
    if not len(values):
        return [None] * len(which)
    # ``numpy.percentile`` would import numpy.ma, which takes longer than all else here.
    places = numpy.array(which) / 100 * (len(values) - 1)
    return numpy.interp(places, numpy.arange(len(values)), numpy.sort(values)).tolist()
