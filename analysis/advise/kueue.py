"""Advice for a cluster with Kueue: its workloads played with no preemption, and with a minimum runtime that is swept.

A minimum runtime is how long a workload runs before it may be preempted; Kueue has none so far.  The days that are
played have the recorded times of arrivals, and at each a workload drawn from the recorded ones, so that what is said
holds for such days and not for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from analysis.report.variants import interval_cell
from emulator.display.tables import FittedTable, names, new_table, numbers
from emulator.intervals import Spread, spread_of
from emulator.loops.play import RunningSetDetector
from emulator.policies.kueue.scheduler import workloads_player
from emulator.policies.schedulers.play import Outcome
from emulator.policies.schedulers.protocol import CannotGoOnError
from emulator.sites.kueue import Arrival, Cluster, Preemption
from emulator.vocabulary import MINUTE_NS, Frozen

_WAYS_NS = {
    "no preemption": 0,
    "0": 0,
    "1 min": MINUTE_NS,
    "5 min": 5 * MINUTE_NS,
    "15 min": 15 * MINUTE_NS,
    "1 h": 60 * MINUTE_NS,
}
NO_PREEMPTION = next(iter(_WAYS_NS))
DAYS = 20
PLAYS = DAYS * len(_WAYS_NS)
RELEASE_NS = 5 * 10**9
"""From an eviction until the quota is free: as in most of the days that Kueue was recorded with."""


class KueueResult(Frozen):
    """What a minimum runtime means: means over days.  None: no day had any."""

    minimum_runtime: str
    urgent_wait_s: Spread | None
    """Mean time until their first start, of the workloads of the highest priority."""
    other_completion_s: Spread | None
    """Mean from submission to the end, of the others that end."""
    evictions: Spread | None
    """A day."""
    lost_pod_h: Spread | None
    """Pod-hours that are done again, a day."""
    loops: int
    """Days that went round in a circle, and count for none of these."""


class Day(Frozen):
    """What one day gave."""

    urgent_wait_s: float | None
    other_completion_s: float | None
    evictions: int
    lost_pod_h: float


def drawn(arrivals: Sequence[Arrival], number: int) -> list[Arrival]:
    """A day like the recorded one; the first is that one."""
    if not number:
        return list(arrivals)
    random, found = Random(f"kueue-day/{number}"), []
    for arrival in arrivals:
        like, at = random.choice(arrivals), arrival.workload
        found.append(replace(like, workload=replace(like.workload, name=at.name, created_ns=at.created_ns)))
    return found


def results_of(
    cluster: Cluster, arrivals: Sequence[Arrival], on_day: Callable[[], None] = lambda: None
) -> Iterator[KueueResult]:
    """For no preemption, and for each minimum runtime.  ``on_day`` is called after each of ``DAYS`` days of each."""
    never = replace(cluster, queues=tuple(replace(queue, preemption=Preemption()) for queue in cluster.queues))
    for name, minimum_ns in _WAYS_NS.items():
        chosen = never if name == NO_PREEMPTION else cluster
        days: list[Day | None] = []
        for number in range(DAYS):
            days.append(_day(chosen, drawn(arrivals, number), minimum_ns))
            on_day()
        ended = [day for day in days if day is not None]
        columns = {field: spread_of(getattr(day, field) for day in ended) for field in Day.__struct_fields__}
        yield KueueResult(name, loops=len(days) - len(ended), **columns)


def _day(cluster: Cluster, arrivals: Sequence[Arrival], minimum_ns: int) -> Day | None:
    player, detector = workloads_player(cluster, arrivals, RELEASE_NS, minimum_ns), RunningSetDetector()
    try:
        if any(detector.look(player, cycle) for cycle in player.play()):
            return None
    except CannotGoOnError:  # another measure of the same
        return None
    most = max(each.workload.priority for each in arrivals)
    urgent, others = Outcome(), Outcome()
    for workload in (each.workload for each in arrivals):
        side = urgent if workload.priority == most else others
        side.add(workload.created_ns, player.executions[workload.name])
    evictions, lost_h = urgent.preempted + others.preempted, urgent.lost_h + others.lost_h
    return Day(urgent.wait_s, others.completion_s, evictions, lost_h)


def results_table(found: Sequence[KueueResult]) -> FittedTable:
    """One row for each way."""
    columns = [*names("minimum runtime"), *numbers("urgent\nwait s", "others'\ncompletion s", "evictions\na day")]
    columns += numbers("lost pod-h\na day", "days\nin a circle")
    title = f"what each means for {DAYS} days like this one (mean, 95% interval)"
    table = new_table(title, columns, also_in="advise.json")
    for each in found:
        intervals = (each.urgent_wait_s, each.other_completion_s, each.evictions, each.lost_pod_h)
        table.add_row(each.minimum_runtime, *map(_text, intervals), f"{each.loops:,}")
    return table


def _text(found: Spread | None) -> str:
    return interval_cell(found).text


def words(found: Sequence[KueueResult]) -> Iterator[str]:
    """What the figures say, in sentences."""
    wait, *swept = found
    others = f"the others take {_text(wait.other_completion_s)} s" if wait.other_completion_s else "no other ends"
    yield f"Without preemption {_urgent(wait)}, and {others}."
    again = f", and {_text(swept[0].lost_pod_h)} pod-hours a day are done again" if swept[0].lost_pod_h else ""
    yield f"With it {_urgent(swept[0])}{again}."
    loops = [each.minimum_runtime for each in found if each.loops]
    if loops:
        yield f"Some days went round in a circle ({', '.join(loops)}): natjam loops tells why."


def _urgent(found: KueueResult) -> str:
    return (
        f"urgent workloads wait {_text(found.urgent_wait_s)} s" if found.urgent_wait_s else "no urgent workload starts"
    )
