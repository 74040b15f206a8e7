"""What Kueue's decisions are made of: how well a flavor fits, and who has to go and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum

from emulator.vocabulary import Frozen

Ties = Callable[[Sequence[str]], str]
"""Chooses among cohorts of one share.  Kueue takes whichever its map has last, which is chance."""


def first_name(names: Sequence[str]) -> str:
    """The choice of a caller who wants the same answer each time."""
    return min(names)


Flavors = tuple[Mapping[str, str], ...]
"""For each podset, the flavor of each resource."""


Counts = tuple[int, ...]
"""For each podset, how many pods are admitted; empty: all of them."""


class Mode(IntEnum):
    """How well a flavor fits, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """It would have to preempt, and there is nobody that it may."""
    PREEMPT = 2
    """Somebody of its own queue would have to go."""
    RECLAIM = 3
    """Only workloads of other queues would have to go."""
    FIT = 4


class Tried(Frozen):
    """One flavor as it was found for one podset."""

    podset: str
    flavor: str
    mode: Mode
    borrow: int
    """Height in the tree of the lowest subtree that has room: 0 is the queue itself."""
    resource: str
    """The one that decided."""
    asked: int
    """What is requested of it, what earlier podsets take included."""
    room: int
    """What is left of it for the queue, borrowing included."""
    why_excluded: str = ""
    """Why the podset may not have the flavor at all, whatever is left of it."""


class Assignment(Frozen):
    """The flavors for a workload, and what was tried for them."""

    mode: Mode
    """NO_FIT, PREEMPT or FIT."""
    flavors: Flavors = ()
    contested: tuple[tuple[str, str], ...] = ()
    """The (flavor, resource) pairs that do not fit as it is.  There may be some although ``mode`` is FIT, where
    preemption is preferred over borrowing: it looks like a fault of Kueue.  Such a workload waits until there is room.
    """
    borrow: int = 0
    tried: tuple[Tried, ...] = ()
    goes_on: tuple[tuple[int, int, int], ...] = ()
    """(podset, group, flavor): where the next search begins, for each that ended before its last flavor."""
    counts: Counts = ()
    """Where the workload gets fewer pods than it asks for."""


class Reason(StrEnum):
    """Kueue's reasons in the condition ``Preempted``."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


class Victim(Frozen):
    """A workload that has to go."""

    name: str
    queue: str
    reason: Reason
    priority: int = 0
    shares: tuple[float, float] | None = None
    """Under fair sharing: the preemptor's share with its request, and the share of the victim's side that let it go; in
    thousandths."""
