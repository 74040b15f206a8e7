"""Single questions to Kueue's rules: of plain states, each answered in a tree of quotas that is made for it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from emulator.policies.kueue.assigner import nominate, targets_of
from emulator.policies.kueue.candidates import Request
from emulator.policies.kueue.cycle import Decision, advance, run_cycle
from emulator.policies.kueue.model import Assignment, Counts, Flavors, Ties, Victim
from emulator.policies.kueue.queues import Queues, Waiting
from emulator.policies.kueue.snapshot import Snapshot, amounts_of
from emulator.sites.kueue import Cluster, Cohort, FlavorQuotas, ResourceGroup, Workload


@dataclass(frozen=True)
class Admitted:
    """A workload that holds quota."""

    workload: Workload
    flavors: Flavors
    reserved_ns: int = 0
    evicted: bool = False
    """Its eviction is under way: it still holds its quota."""


@dataclass(frozen=True)
class Pending:
    """A workload that waits."""

    workload: Workload
    aside: bool = False
    expects_victims: bool = False
    """It preempted, was the last of its queue to do so, and has not started."""
    goes_on: tuple[tuple[int, int, int], ...] = ()
    """Where its next search for flavors begins: ``Assignment.goes_on``."""
    last_cycle: int = 0
    """When it was last looked at."""
    freed_since: bool = False
    """Whether quota was freed in its tree since."""


@dataclass(frozen=True)
class State:
    """A cluster, what is admitted and what waits."""

    cluster: Cluster
    admitted: tuple[Admitted, ...] = ()
    pending: tuple[Pending, ...] = ()
    cycles: int = 0
    """Run so far."""


@dataclass(frozen=True)
class Incoming:
    """A workload with its flavors, and the (flavor, resource) pairs that have no room for it as it is."""

    workload: Workload
    flavors: Flavors
    contested: tuple[tuple[str, str], ...]
    counts: Counts = ()


def snapshot_of(state: State, others: Flavors = ()) -> Snapshot:
    """The tree with what is admitted; ``others``: further flavors that are asked about, if no queue has them."""
    named = [*others, *(chosen for each in state.admitted for chosen in each.flavors)]
    pairs = dict.fromkeys((flavor, resource) for chosen in named for resource, flavor in chosen.items())
    without_quota = [ResourceGroup((resource,), (FlavorQuotas(flavor, {}),)) for flavor, resource in pairs]
    cohorts = (*state.cluster.cohorts, Cohort("without quota", groups=tuple(without_quota)))
    snapshot = Snapshot(replace(state.cluster, cohorts=cohorts))
    for each in state.admitted:
        snapshot.admit(each.workload, each.flavors, each.reserved_ns)
        if each.evicted:
            snapshot.evict(snapshot.held[each.workload.queue][each.workload.name])
    return snapshot


def assign(state: State, workload: Workload, ties: Ties) -> Assignment:
    """The flavors for a workload, how well they fit, and what was tried for them."""
    return nominate(snapshot_of(state), workload, ties).assignment


def victims(state: State, incoming: Incoming, ties: Ties) -> tuple[Victim, ...]:
    """Whom a workload preempts for these flavors, in Kueue's order; nobody if that would not be enough."""
    workload = incoming.workload
    snapshot = snapshot_of(state, incoming.flavors)
    amounts = amounts_of(workload.podsets, incoming.flavors, snapshot.cells, incoming.counts)
    contested = frozenset(snapshot.cells[pair] for pair in incoming.contested)
    request = Request(snapshot, snapshot.queues[workload.queue], workload, amounts, contested, ties)
    return tuple(target.victim() for target in targets_of(request))


def cycle(state: State, now_ns: int, ties: Ties) -> tuple[tuple[Decision, ...], State]:
    """One scheduling cycle: what it does with the head of each queue, in order, and the state after it.

    Victims are marked as evicted and keep their quota until the caller takes them out.
    """
    snapshot = snapshot_of(state)
    queues = Queues(snapshot)
    _restore(queues, state.pending)
    snapshot.now_ns = now_ns
    decisions, _ = advance(run_cycle(snapshot, queues, state.cycles + 1, ties))
    admitted = tuple(
        Admitted(held.workload, held.flavors, held.reserved_ns, held.evicted)
        for queue in snapshot.held.values()
        for held in queue.values()
    )
    return tuple(decisions), State(state.cluster, admitted, _pending(queues), state.cycles + 1)


def _restore(queues: Queues, pending: Sequence[Pending]) -> None:
    """Put workloads in as they waited."""
    for each in pending:
        queue = queues._queues[each.workload.queue]
        waiting = Waiting(each.workload, queue.node)
        waiting.goes_on, waiting.last_cycle = each.goes_on, each.last_cycle
        waiting.freed_since = each.freed_since
        if each.expects_victims:
            queues.preempts(waiting)
        if each.aside:
            queue.aside[each.workload.name] = waiting
            queue.shapes.add(waiting.shape)
        else:
            queue.push(waiting)


def _pending(queues: Queues) -> tuple[Pending, ...]:
    """All that wait, by queue, the active first and in their order."""
    return tuple(
        Pending(each.workload, aside, each is queue.preemptor, each.goes_on, each.last_cycle, each.freed_since)
        for queue in queues._queues.values()
        for aside, members in ((False, queue.active), (True, queue.aside))
        for each in sorted(members.values(), key=lambda waiting: waiting.key)
    )
