"""The questions to Kueue as pure functions of a state: ``assign``, ``victims``, ``cycle``."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.policies.kueue.assigner import assign_flavors, targets_of
from emulator.policies.kueue.candidates import Request
from emulator.policies.kueue.cycle import Decision, run_cycle
from emulator.policies.kueue.model import Admitted, Assignment, Flavors, Ties, Victim
from emulator.policies.kueue.queues import Pending, Queues
from emulator.policies.kueue.snapshot import Snapshot, amounts_of
from emulator.sites.kueue import Cluster, Workload
from emulator.vocabulary import Frozen


class State(Frozen):
    """A cluster, what is admitted and what waits."""

    cluster: Cluster
    admitted: tuple[Admitted, ...] = ()
    pending: tuple[Pending, ...] = ()
    cycles: int = 0
    """Run so far."""


class Incoming(Frozen):
    """A workload with its flavors, and the (flavor, resource) pairs that have no room for it as it is."""

    workload: Workload
    flavors: Flavors
    contested: tuple[tuple[str, str], ...]


def assign(state: State, workload: Workload, ties: Ties) -> Assignment:
    """The flavors for a workload, how well they fit, and what was tried for them."""
    return assign_flavors(Snapshot(state.cluster, state.admitted), workload, ties)


def victims(state: State, incoming: Incoming, ties: Ties) -> tuple[Victim, ...]:
    """Whom a workload preempts for these flavors, in Kueue's order; nobody if that would not be enough."""
    workload = incoming.workload
    snapshot = Snapshot(state.cluster, state.admitted, incoming.flavors)
    amounts = amounts_of(workload.podsets, incoming.flavors, snapshot.cells)
    contested = frozenset(snapshot.cells[pair] for pair in incoming.contested)
    request = Request(snapshot, snapshot.queues[workload.queue], workload, amounts, contested, ties)
    return tuple(target.victim() for target in targets_of(request))


def cycle(state: State, now_ns: int, ties: Ties) -> tuple[tuple[Decision, ...], State]:
    """One scheduling cycle at ``now_ns``: what it does with the head of each queue, in order, and the state after it.

    Victims are marked as evicted and keep their quota until the caller takes them out.  The caller also wakes those who
    are set aside, when quota is freed.
    """
    snapshot = Snapshot(state.cluster, state.admitted)
    queues = Queues(snapshot)
    queues.restore(state.pending)
    decisions = tuple(run_cycle(snapshot, queues, state.cycles + 1, now_ns, ties))
    admitted = tuple(
        replace(held.admitted, evicted=held.evicted) for queue in snapshot.held.values() for held in queue.values()
    )
    return decisions, State(state.cluster, admitted, queues.pending(), state.cycles + 1)
