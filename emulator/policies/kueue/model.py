"""What Kueue decides about: quotas in a tree of cohorts, workloads, and what is admitted or waits.

Amounts are whole numbers in one unit for each resource (cpu in thousandths, memory in bytes).  Times are nanoseconds.
The names are those of Kueue's API (kueue.x-k8s.io/v1beta2); its defaults are the defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum

from emulator.vocabulary import Frozen

Ties = Callable[[Sequence[str]], str]
"""Chooses among cohorts of one share.  Kueue takes whichever its map has last, which is chance."""


def first_name(names: Sequence[str]) -> str:
    """The choice of a caller who wants the same answer each time."""
    return min(names)


class Policy(StrEnum):
    """Whom a workload may preempt, by priority and age."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


class FlavorPolicy(StrEnum):
    """Whether the search for a flavor ends at one that needs borrowing, or preemption."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class QueueingStrategy(StrEnum):
    """Whether a workload that cannot start blocks those behind it."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class ShareStrategy(StrEnum):
    """When fair sharing lets one queue take from another (``preemptionStrategies`` of Kueue's configuration)."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class Quota(Frozen):
    """Of one resource in one flavor.  None: no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorQuotas(Frozen):
    """The quotas of a flavor, by resource."""

    name: str
    quotas: Mapping[str, Quota]


class ResourceGroup(Frozen):
    """A podset takes all of a group's resources from one flavor; flavors are tried in their order."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class Cohort(Frozen):
    """A node of the tree: its queues and cohorts lend to each other, and to the rest of the tree."""

    name: str
    parent: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


class BorrowWithinCohort(Frozen):
    """Whether a preemptor may borrow.  ``max_priority``: of the victims, None: any that is below the preemptor's."""

    policy: Policy = Policy.NEVER
    max_priority: int | None = None


class Preemption(Frozen):
    """The three policies of a queue's ``preemption``."""

    within_queue: Policy = Policy.NEVER
    reclaim_within_cohort: Policy = Policy.NEVER
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()

    @property
    def may_borrow(self) -> bool:
        """Whether it may preempt while it borrows."""
        return self.borrow_within_cohort.policy is not Policy.NEVER


class Fungibility(Frozen):
    """When a podset takes a flavor, and when it looks at the next one first."""

    when_can_borrow: FlavorPolicy = FlavorPolicy.MAY_STOP_SEARCH
    when_can_preempt: FlavorPolicy = FlavorPolicy.TRY_NEXT_FLAVOR


class ClusterQueue(Frozen):
    """A queue with its own quota.  Without a cohort it borrows from nobody."""

    name: str
    cohort: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()


class Cluster(Frozen):
    """All queues and cohorts.  A cohort that is only named, by a queue or another cohort, has no quota of its own."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    fair_sharing: tuple[ShareStrategy, ...] | None = None
    """None: classical preemption.  Kueue's default is both strategies, the final share first."""


DEFAULT_STRATEGIES = (ShareStrategy.FINAL_SHARE, ShareStrategy.INITIAL_SHARE)


class PodSet(Frozen):
    """Pods that are alike; ``requests`` are of one pod."""

    name: str
    count: int
    requests: Mapping[str, int]


class Workload(Frozen):
    """What is admitted, or preempted, as a whole.  Its name is its last tie-break, as the UID is in Kueue."""

    name: str
    queue: str
    podsets: tuple[PodSet, ...]
    priority: int = 0
    created_ns: int = 0


class Arrival(Frozen):
    """A workload, submitted at its ``created_ns``, and how long it runs."""

    workload: Workload
    duration_ns: int | None = None
    """None: it never ends."""


Flavors = tuple[Mapping[str, str], ...]
"""For each podset, the flavor of each resource."""


class Admitted(Frozen):
    """A workload that holds quota."""

    workload: Workload
    flavors: Flavors
    reserved_ns: int = 0
    evicted: bool = False
    """Its eviction is under way: it still holds its quota."""


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
    """Of it, what earlier podsets take included."""
    room: int
    """What is left of it for the queue, borrowing included."""


class Assignment(Frozen):
    """The flavors for a workload, and what was tried for them."""

    mode: Mode
    """NO_FIT, PREEMPT or FIT."""
    flavors: Flavors = ()
    contested: tuple[tuple[str, str], ...] = ()
    """The (flavor, resource) pairs that do not fit as it is."""
    borrow: int = 0
    tried: tuple[Tried, ...] = ()
    goes_on: tuple[tuple[int, int, int], ...] = ()
    """(podset, group, flavor): where the next search begins, for each that ended before its last flavor."""


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
