"""Kueue's victims in drawn clusters: they make room, none goes in vain, and a cycle agrees with the question alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.policies.kueue.model import Mode, first_name
from emulator.policies.kueue.snapshot import Snapshot, amounts_of
from emulator.sites.kueue import (
    DEFAULT_STRATEGIES,
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Workload,
)
from tests.examples import fixed
from tests.kueue_questions import Admitted, Incoming, Pending, State, assign, cycle, snapshot_of, victims

FLAVORS = ({"cpu": "default"},)
NOW_NS = 1000
RECLAIMS = (Policy.ANY, Policy.LOWER_PRIORITY, Policy.NEVER)


@st.composite
def queues(draw: st.DrawFn, number: int) -> ClusterQueue:
    limits = st.sampled_from((None, None, 0, 4))
    quota = Quota(draw(st.integers(2, 12)), draw(limits), draw(limits))
    within = draw(st.sampled_from((Policy.LOWER_OR_NEWER_EQUAL_PRIORITY, Policy.LOWER_PRIORITY)))
    borrow = draw(st.sampled_from((Policy.NEVER, Policy.LOWER_PRIORITY)))
    threshold = draw(st.one_of(st.none(), st.integers(0, 2)))
    preemption = Preemption(within, draw(st.sampled_from(RECLAIMS)), BorrowWithinCohort(borrow, threshold))
    group = ResourceGroup(("cpu",), (FlavorQuotas("default", {"cpu": quota}),))
    weight, cohort = draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))), draw(st.sampled_from(("a", "b")))
    return ClusterQueue(f"q{number}", cohort, (group,), weight, preemption=preemption)


@st.composite
def states(draw: st.DrawFn) -> tuple[State, Workload]:
    """A cluster with whoever fits of the drawn workloads, and one that comes in."""
    count = draw(st.integers(1, 4))
    fair = draw(st.sampled_from((None, DEFAULT_STRATEGIES, DEFAULT_STRATEGIES[:1])))
    cohorts = (Cohort("root"), Cohort("a", "root"), Cohort("b", "root"))
    cluster = Cluster(tuple(draw(queues(number)) for number in range(count)), cohorts, fair)
    snapshot, admitted = Snapshot(cluster), list[Admitted]()
    workloads = st.tuples(st.integers(0, count - 1), st.integers(1, 6), st.integers(0, 3), st.integers(0, NOW_NS))
    for number, (queue, cpus, priority, created_ns) in enumerate(draw(st.lists(workloads, min_size=6, max_size=12))):
        workload = Workload(f"w{number}", f"q{queue}", (PodSet("main", 1, {"cpu": cpus}),), priority, created_ns)
        each = Admitted(workload, FLAVORS, created_ns, draw(st.integers(0, 9)) == 0)
        if snapshot.queues[workload.queue].fits(amounts_of(workload.podsets, FLAVORS, snapshot.cells)):
            snapshot.admit(workload, FLAVORS, created_ns)
            admitted.append(each)
    podsets = (PodSet("main", 1, {"cpu": draw(st.integers(4, 10))}),)
    incoming = Workload("in", f"q{draw(st.integers(0, count - 1))}", podsets, draw(st.integers(1, 4)), NOW_NS)
    return State(cluster, tuple(admitted)), incoming


def room_without(state: State, gone: set[str], workload: Workload) -> tuple[bool, bool]:
    """Whether it fits when these have gone; and whether it then borrows."""
    left = tuple(each for each in state.admitted if each.workload.name not in gone)
    snapshot = snapshot_of(State(state.cluster, left))
    node, amounts = snapshot.queues[workload.queue], amounts_of(workload.podsets, FLAVORS, snapshot.cells)
    return node.fits(amounts), node.borrows(amounts)


@given(states())
@fixed
def test_victims_make_room_and_none_of_them_goes_in_vain(drawn: tuple[State, Workload]) -> None:
    state, workload = drawn
    found = assign(state, workload, first_name)
    pending = State(state.cluster, state.admitted, (Pending(workload),))
    (decision,), _ = cycle(pending, NOW_NS, first_name)
    if found.mode is not Mode.PREEMPT:
        assert decision.victims == ()
        return
    chosen = victims(state, Incoming(workload, found.flavors, found.contested), first_name)
    assert decision.victims == chosen
    if not chosen:
        return
    names = {each.name for each in chosen}
    assert len(names) == len(chosen)
    fits, borrows = room_without(state, names, workload)
    assert fits
    for name in names:
        fits_too, would_borrow = room_without(state, names - {name}, workload)
        # A pass in which the preemptor may not borrow takes more than room alone would need.
        assert not fits_too or (would_borrow and not borrows), f"{name} need not go"
