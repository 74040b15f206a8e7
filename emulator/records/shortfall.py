"""What a transactional workload went short of: containers that jobs held after the grace, as processes showed it.

Taken from what processes did, not from what the ResourceManager believed of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from emulator.policies.capacity import Capacity, Step
from emulator.records.history.rows import AttemptRow
from emulator.resolved import Resolved
from emulator.vocabulary import MASTER

Change = tuple[int, int]
"""At this instant, so many containers more in use."""


def transactional_facts(attempts: Iterable[AttemptRow], run: Resolved, end_ns: int) -> dict[str, Any] | None:
    """Until ``end_ns``, container-seconds: ``withheld_container_s`` for the transactional workload, and of those
    ``shortfall_container_s`` that jobs held longer than the grace; None where the cluster has no such workload."""
    availability, outside = run.settings.availability, run.settings.masters_outside
    if availability is None:
        return None
    counted = (row for row in attempts if not outside or row.kind != MASTER)
    tolerated = tolerated_steps(availability.capacity, availability.grace_ns, end_ns)
    return {
        "shortfall_container_s": shortfall_ns(changes_of(counted, end_ns), tolerated) / 1e9,
        "withheld_container_s": (run.containers * end_ns - availability.capacity.until(end_ns)) / 1e9,
    }


def changes_of(attempts: Iterable[AttemptRow], end_ns: int) -> Iterator[Change]:
    """A container is in use while its process is there and not stopped; what has not ended lasts until ``end_ns``."""
    for row in attempts:
        if row.launched_ns is None:
            continue
        ended_ns = end_ns if row.ended_ns is None else row.ended_ns
        instants = [row.launched_ns]
        for span in row.suspended_spans:
            instants += [span.stopped_ns, ended_ns if span.resumed_ns is None else span.resumed_ns]
        for place, at_ns in enumerate((*instants, ended_ns)):
            yield at_ns, -1 if place % 2 else 1


def tolerated_steps(capacity: Capacity, grace_ns: int, end_ns: int) -> list[Step]:
    """From each instant on, the most containers that there were at any time in the grace before it."""
    steps = list(capacity.until_end(end_ns))
    over_ns = [start_ns + grace_ns for start_ns, _ in steps[1:]]
    found: list[Step] = []
    highest: deque[int] = deque()
    """Places of the steps that count, the highest first; a lower one counts after those before it."""
    coming = 0
    for at_ns in sorted({0, *(start_ns for start_ns, _ in steps), *over_ns}):
        while coming < len(steps) and steps[coming][0] <= at_ns:
            while highest and steps[highest[-1]][1] <= steps[coming][1]:
                highest.pop()
            highest.append(coming)
            coming += 1
        while highest[0] < len(over_ns) and over_ns[highest[0]] <= at_ns:
            highest.popleft()
        found.append((at_ns, steps[highest[0]][1]))
    return found


def shortfall_ns(changes: Iterable[Change], tolerated: Sequence[Step]) -> int:
    """Container-nanoseconds in use above what was tolerated."""
    events: list[tuple[int, int, int | None]] = [(at_ns, more, None) for at_ns, more in changes]
    events += [(at_ns, 0, count) for at_ns, count in tolerated]
    events.sort(key=lambda event: event[0])
    found_ns, in_use, limit = 0, 0, 0
    for (at_ns, more, count), (until_ns, _, _) in pairwise(events):
        in_use += more
        limit = limit if count is None else count
        found_ns += max(0, in_use - limit) * (until_ns - at_ns)
    return found_ns
