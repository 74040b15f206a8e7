"""How much of a cluster's capacity was used: of its containers, or where they have sizes of the resource most used."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.records.history import AttemptRow, History
from emulator.resolved import Resolved


def busy_share(history: History, run: Resolved, makespan_ns: int | None) -> float | None:
    """Share of the capacity over ``makespan_ns`` that was held by attempts at work; None: no job has ended."""
    if not run.settings.has_sizes:
        busy_ns = sum(row.busy_ns for row in history.jobs)
        if run.settings.masters_outside:
            busy_ns -= sum(row.masters_busy_ns for row in history.jobs)
        return _of_containers(busy_ns, run, makespan_ns)
    return _of_resources([(row, row.busy_ns) for row in history.attempts], run, makespan_ns)


def wasted_share(history: History, run: Resolved, makespan_ns: int | None) -> float | None:
    """The same of attempts whose work was lost, and of dumps and restores."""
    if not run.settings.has_sizes:
        wasted_ns = sum(row.lost_work_ns + row.overhead_ns for row in history.jobs)
        return _of_containers(wasted_ns, run, makespan_ns)
    return _of_resources([(row, row.lost_ns + row.overhead_ns) for row in history.attempts], run, makespan_ns)


def sized_work_share(history: History, run: Resolved, makespan_ns: int) -> float:
    """The same of attempts at work, in dumps and in restores, where containers have sizes."""
    times = [(row, row.useful_ns + row.lost_ns + row.overhead_ns) for row in history.attempts]
    return _of_resources(times, run, makespan_ns) or 0.0


def _of_containers(used_ns: int, run: Resolved, makespan_ns: int | None) -> float | None:
    return used_ns / (run.containers * makespan_ns) if makespan_ns else None


def _of_resources(times: Sequence[tuple[AttemptRow, int]], run: Resolved, makespan_ns: int | None) -> float | None:
    if not makespan_ns:
        return None
    totals = [sum(amounts) for amounts in zip(*(node.resources for node in run.settings.nodes), strict=True)]
    used = [0] * len(totals)
    for row, time_ns in times:
        for place, amount in enumerate(row.request):
            used[place] += time_ns * amount.thousandths
    return max(
        (used_ / (total * makespan_ns) for used_, total in zip(used, totals, strict=True) if total), default=None
    )
