"""Plays drawn workloads until a state comes back, and shrinks what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from msgspec.structs import replace

from emulator.loops.draw import SECOND_NS, Drawer, Plan
from emulator.policies.kueue.cycle import Decision
from emulator.policies.kueue.model import Cluster, PodSet, first_name
from emulator.policies.kueue.player import Arrival, Player
from emulator.policies.kueue.returns import Loop, StateReturns
from emulator.shrink import shortest

Log = list[tuple[int, int, Decision]]
"""Time, cycle and decision."""


@dataclass(slots=True)
class Search:
    """What was searched so far, and what was found."""

    plays: int = 0
    cycles: int = 0
    evictions: int = 0
    found: Plan | None = None


def search(
    cluster: Cluster,
    priorities: Sequence[int],
    seed: str,
    goes_on: Callable[[], bool],
    first: int = 0,
    near: Sequence[Plan] = (),
) -> Search:
    """Play one drawn plan after another, from the number ``first``, until one goes round or ``goes_on`` says no.

    A play is the same for the same ``seed`` and number.  With ``near``, every other play mixes a drawn plan with one
    of these.
    """
    searched, drawer = Search(), Drawer(cluster, priorities)
    while drawer.can_draw and searched.found is None and goes_on():
        number = first + searched.plays
        random = Random(f"{seed}/{number}")
        plan = drawer.draw(random)
        if near and number % 2:
            plan = varied(random.choice(near), plan, random)
        player = _player(plan)
        day = player.play()
        searched.plays += 1
        searched.cycles += day.cycles
        searched.evictions += sum(len(history.evictions) for history in day.histories.values())
        if day.loop is not None:
            searched.found = plan
    return searched


def varied(plan: Plan, drawn: Plan, random: Random) -> Plan:
    """A plan with a few of its workloads changed to the size or the priority of drawn ones, and some of these added."""
    arrivals = list(plan.arrivals)
    for other in random.sample(drawn.arrivals, random.randint(1, min(4, len(drawn.arrivals)))):
        number = random.randrange(len(arrivals))
        workload = arrivals[number].workload
        if random.random() < 0.3:
            workload = replace(workload, priority=other.workload.priority)
        elif random.random() < 0.5:
            workload = replace(workload, queue=other.workload.queue, podsets=other.workload.podsets)
        else:
            names = {each.workload.name for each in arrivals}
            name = next(name for place in count() if (name := f"v{place:02d}") not in names)
            arrivals.append(replace(other, workload=replace(other.workload, name=name)))
        arrivals[number] = replace(arrivals[number], workload=workload)
    return replace(drawn, arrivals=tuple(arrivals))


def loop_of(plan: Plan) -> Loop | None:
    """The loop that a plan ends in, if any."""
    return _player(plan).play().loop


def told(plan: Plan) -> tuple[Loop | None, Log]:
    """The loop of a plan, and all decisions up to it."""
    log: Log = []
    player = _player(plan, lambda now_ns, number, decision: log.append((now_ns, number, decision)))
    return player.play().loop, log


def _player(plan: Plan, on_decision: Callable[[int, int, Decision], None] | None = None) -> Player:
    return Player(
        plan.cluster, plan.arrivals, first_name, plan.release_ns, on_decision=on_decision, returns=StateReturns()
    )


def shrunk(plan: Plan) -> Plan:
    """A plan that still goes round, but no longer without any one of its workloads; and simpler where it can be."""
    arrivals = shortest(plan.arrivals, lambda kept: loop_of(replace(plan, arrivals=tuple(kept))) is not None)
    plan = replace(plan, arrivals=tuple(arrivals))
    changed = True
    while changed:
        changed = False
        for simpler in _simpler(plan):
            if loop_of(simpler) is not None:
                plan, changed = simpler, True
                break
    return plan


def _simpler(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing simpler: at once released, a second between arrivals, never ending, fewer resources."""
    if plan.release_ns:
        yield replace(plan, release_ns=0)
    for number, arrival in enumerate(plan.arrivals):
        for changed in _simpler_arrivals(arrival, (number + 1) * SECOND_NS):
            yield replace(plan, arrivals=(*plan.arrivals[:number], changed, *plan.arrivals[number + 1 :]))


def _simpler_arrivals(arrival: Arrival, at_ns: int) -> Iterator[Arrival]:
    workload = arrival.workload
    if arrival.duration_ns is not None:
        yield replace(arrival, duration_ns=None)
    if workload.created_ns > at_ns:
        yield replace(arrival, workload=replace(workload, created_ns=at_ns))
    if workload.priority > 0:
        yield replace(arrival, workload=replace(workload, priority=workload.priority - 1))
    (podset,) = workload.podsets
    for resource in podset.requests:
        if len(podset.requests) > 1:
            fewer = {name: amount for name, amount in podset.requests.items() if name != resource}
            yield replace(arrival, workload=replace(workload, podsets=(PodSet(podset.name, podset.count, fewer),)))
