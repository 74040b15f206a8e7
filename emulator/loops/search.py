"""Plays drawn workloads until a state comes back, shrinks what was found, and describes it step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, starmap
from random import Random

from msgspec.structs import replace

from emulator.loops.draw import SECOND_NS, Drawer, Plan
from emulator.loops.play import Loop, PlanPlay
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.why import why
from emulator.policies.resources import amount_text
from emulator.shrink import shortest
from emulator.sites.kueue import Arrival, Cluster, Workload

Log = list[tuple[int, int, Decision]]
"""Time, cycle and decision."""


_MAX_BUSY = 8
_MAX_WORKLOADS = 16
"""The most workloads of a variant."""


@dataclass(slots=True)
class Search:
    """A search, with what was searched so far, and what was found.

    Half of the plays are drawn; the others are variants of those that had most evictions, and of loops that are known.
    """

    cluster: Cluster
    priorities: Sequence[int]
    seed: str
    like: Sequence[Workload] = ()
    """Workloads that are known, as examples for those that are drawn."""
    plays: int = 0
    cycles: int = 0
    evictions: int = 0
    found: Plan | None = None
    _drawer: Drawer = field(init=False, compare=False, repr=False)
    _busy: list[tuple[int, Plan]] = field(default_factory=list)
    """Plans with their evictions, most first."""

    def __post_init__(self) -> None:
        self._drawer = Drawer(self.cluster, self.priorities, self.like)

    def go_on(self, goes_on: Callable[[], bool], near: Sequence[Plan] = ()) -> None:
        """Play until something goes round, or ``goes_on`` says no.

        ``near``: loops that are known.  With the same ones the plays are the same.
        """
        self.found = None
        while self._drawer.can_draw and self.found is None and goes_on():
            random = Random(f"{self.seed}/{self.plays}")
            plan = self._drawer.draw(random)
            like = [*near, *(busy for _, busy in self._busy)]
            if like and self.plays % 2:
                plan = varied(random.choice(like), plan, random)
            self._play(plan)

    def _play(self, plan: Plan) -> None:
        played = PlanPlay(plan)
        loop = played.play()
        self.plays += 1
        self.cycles += played.cycles
        self.evictions += played.evictions
        if loop is not None:
            self.found = plan
            return
        self._busy.append((played.evictions, plan))
        self._busy.sort(key=lambda each: -each[0])
        del self._busy[_MAX_BUSY:]


def search(
    cluster: Cluster,
    priorities: Sequence[int],
    seed: str,
    goes_on: Callable[[], bool],
    like: Sequence[Workload] = (),
) -> Search:
    """Play one plan after another until one goes round or ``goes_on`` says no; ``like``: see ``Search``."""
    searched = Search(cluster, priorities, seed, like)
    searched.go_on(goes_on)
    return searched


def varied(plan: Plan, drawn: Plan, random: Random) -> Plan:
    """A plan with a few of its workloads changed to the size or the priority of drawn ones, and some of these added.

    Workloads of queues that are not in the tree of the drawn ones are left out.
    """
    queues = {queue.name for queue in drawn.cluster.queues}
    arrivals = [arrival for arrival in plan.arrivals if arrival.workload.queue in queues]
    if not arrivals:
        return drawn
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
    kept = sorted(random.sample(range(len(arrivals)), min(len(arrivals), _MAX_WORKLOADS)))
    return replace(drawn, arrivals=tuple(arrivals[place] for place in kept))


def loop_of(plan: Plan) -> Loop | None:
    """The loop that a plan ends in, if any."""
    return PlanPlay(plan).play()


def told(plan: Plan) -> tuple[Loop | None, Log]:
    """The loop of a plan, and all decisions up to it."""
    log: Log = []
    played = PlanPlay(plan, lambda now_ns, number, decision: log.append((now_ns, number, decision)))
    return played.play(), log


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
            yield replace(arrival, workload=replace(workload, podsets=(replace(podset, requests=fewer),)))


def cast(plan: Plan) -> Iterator[str]:
    """Who arrives when, and what each asks for."""
    for arrival in plan.arrivals:
        workload = arrival.workload
        (podset,) = workload.podsets
        asks = ", ".join(starmap(amount_text, podset.requests.items()))
        asks += "".join(f", selects {key}={value}" for key, value in podset.selector.items())
        asks += ", with a node affinity" * bool(podset.affinity) + ", tolerates taints" * bool(podset.tolerations)
        ends = "" if arrival.duration_ns is None else f", runs for {arrival.duration_ns / SECOND_NS:g} s"
        yield (
            f"{workload.created_ns / SECOND_NS:g} s: {workload.name} arrives in {workload.queue} "
            f"(priority {workload.priority}, {asks}{ends})"
        )


def story(loop: Loop, log: Log) -> Iterator[str]:
    """One round: who preempts and who starts, with reasons; then that it goes on."""
    first, last = loop.cycles
    begin_ns = min((now_ns for now_ns, cycle, _ in log if first < cycle <= last), default=loop.at_ns)
    for now_ns, cycle, decision in log:
        if not first < cycle <= last:
            continue
        head, *reasons = why(decision)
        if decision.outcome is Outcome.ADMITTED:
            yield f"+{(now_ns - begin_ns) / SECOND_NS:g} s: {head}"
        elif decision.evicted:
            yield f"+{(now_ns - begin_ns) / SECOND_NS:g} s: {head}"
            yield from (f"    {reason}" for reason in reasons)
    every = "at once" if loop.period_ns == 0 else f"every {loop.period_ns / SECOND_NS:g} s"
    yield f"then the same state is back, and the same happens again, {every}, until somebody arrives or ends"
