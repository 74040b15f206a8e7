"""Gaps: times during which a process of a live run stood still; and whether the machine kept up with the run.

If it did not, the run's times are not to be trusted.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.records.history import JobRow

GAP_BOUND_HEARTBEATS = 1
GAP_BOUND_OF_SHORTEST_JOB = 0.01
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Gap:
    """A process did nothing for ``length_ns`` until ``ended_ns``, both in emulated time."""

    length_ns: int
    ended_ns: int
    process: str

    def within(self, from_ns: int, until_ns: int) -> Gap:
        """The part of it in that time; its length is 0 if it has none."""
        began_ns, ended_ns = max(from_ns, self.ended_ns - self.length_ns), min(until_ns, self.ended_ns)
        return Gap(max(0, ended_ns - began_ns), ended_ns, self.process)


_length_ns = attrgetter("length_ns")


class LongestGaps:
    """The longest gaps of some processes from ``from_ns`` on: few, so that they fit into every status."""

    def __init__(self, from_ns: int) -> None:
        self._from_ns = from_ns
        self._found: list[Gap] = []

    def add(self, gap: Gap) -> None:
        """Keep it if it is among the longest."""
        gap = gap.within(self._from_ns, gap.ended_ns)
        if gap.length_ns:
            self._found = heapq.nlargest(_KEPT, [*self._found, gap], key=_length_ns)

    @property
    def found(self) -> tuple[Gap, ...]:
        """Those that are kept."""
        return tuple(self._found)


def worst_gaps(gaps: Iterable[Gap], jobs: Sequence[JobRow]) -> list[Gap]:
    """The longest gap of each process between the first submission and the last finish, the longest first.

    What was before or after that time, such as the start of the processes, has changed no job.
    """
    finishes_ns = [job.finish_ns for job in jobs if job.finish_ns is not None]
    if not finishes_ns:
        return []
    from_ns, until_ns = min(job.submit_ns for job in jobs), max(finishes_ns)
    worst: dict[str, Gap] = {}
    for gap in sorted((gap.within(from_ns, until_ns) for gap in gaps), key=_length_ns, reverse=True):
        if gap.length_ns:
            worst.setdefault(gap.process, gap)
    return list(worst.values())


def gap_bound_ns(heartbeat_ns: int, jobs: Sequence[JobRow]) -> int:
    """The longest gap that a run may have: a heartbeat, or 1% of the shortest completion if that is more.

    An order waits for the next heartbeat in any case.  And a gap lengthens a job by about its own length: one of 1%
    changes no figure of a job by much more.
    """
    completions_ns = [job.completion_ns for job in jobs if job.completion_ns is not None]
    shortest_ns = min(completions_ns, default=0)
    return max(heartbeat_ns * GAP_BOUND_HEARTBEATS, round(shortest_ns * GAP_BOUND_OF_SHORTEST_JOB))


MAX_OVERRUNNING = 0.1
"""Most launches, as a share, that may take longer than the profile's total; otherwise the run is disturbed."""


def disturbances(summary: Mapping[str, Any]) -> list[str]:
    """Why a run was disturbed, from its ``summary.json``; empty if it was not."""
    found, launches = standstills(summary), summary["overheads"].get("schedule_s", {})
    if launches.get("overruns", 0) > MAX_OVERRUNNING * launches.get("n", 0):
        found.append(f"{launches['overruns']} of {launches['n']} launches took longer than the published overhead")
    return found


def standstills(summary: Mapping[str, Any]) -> list[str]:
    """Those of them that are about timers and processes: whether these were late or stood still, beyond the bounds."""
    found, lag = [], summary["lag"] or {}
    if not lag.get("within_bound", True):
        bound = f", beyond {lag['bound_emulated_s']:g} s" if "bound_emulated_s" in lag else ""
        found.append(f"timers were late by {lag['p99_emulated_s']:.2f} emulated s (p99){bound}")
    bound_s = lag.get("gap_bound_emulated_s", math.inf)
    for gap in lag.get("gaps", ())[:1]:  # the longest
        if gap["emulated_s"] > bound_s:
            found.append(
                f"the process {gap['process']} stood still for {gap['emulated_s']:.1f} emulated s,"
                f" until {gap['until_s']:.1f} s, beyond {bound_s:.4g} s"
            )
    return found


def disturbed_text(summary: Mapping[str, Any]) -> str | None:
    """The same for one run or for repeats, as one line that says what to do; None if nothing was disturbed."""
    if "repeats" in summary:
        seeds = summary.get("disturbed_seeds", [])
        if not seeds:
            return None
        why = f"{len(seeds)} of {summary['repeats']} repeats (seeds {', '.join(map(str, seeds))})"
    elif found := disturbances(summary):
        why = "; ".join(found)
    else:
        return None
    return f"disturbed: {why}; the machine was busy or too slow: run nothing else on it, or lower the time scale"
