"""The questions to Kueue as pure functions of a state: ``assign``, ``victims``, ``cycle``."""

from __future__ import annotations

from emulator.policies.kueue.assigner import assign_flavors, targets_of
from emulator.policies.kueue.candidates import Request
from emulator.policies.kueue.model import Admitted, Assignment, Cluster, Flavors, Ties, Victim, Workload
from emulator.policies.kueue.snapshot import Snapshot, amounts_of
from emulator.vocabulary import Frozen


class State(Frozen):
    """A cluster, what is admitted and what waits."""

    cluster: Cluster
    admitted: tuple[Admitted, ...] = ()


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
    given = Admitted(incoming.workload, incoming.flavors)
    snapshot = Snapshot(state.cluster, (*state.admitted, given))
    snapshot.take(snapshot.held[incoming.workload.queue][incoming.workload.name])
    amounts = amounts_of(incoming.workload.podsets, incoming.flavors, snapshot.cells)
    contested = frozenset(snapshot.cells[pair] for pair in incoming.contested)
    request = Request(snapshot, snapshot.queues[incoming.workload.queue], incoming.workload, amounts, contested, ties)
    return tuple(target.victim() for target in targets_of(request))
