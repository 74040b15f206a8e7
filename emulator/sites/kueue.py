"""A cluster with Kueue: quotas in a tree of cohorts, and the workloads that arrive.

Amounts are whole numbers in one unit for each resource (cpu in thousandths, memory in bytes).  Times are nanoseconds.
The names are those of Kueue's API (kueue.x-k8s.io/v1beta2); its defaults are the defaults here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from emulator.sites.basis import Basis
from emulator.sites.kubernetes import Node, Taint, Toleration
from emulator.sites.labels import NodeTerm, Selector
from emulator.vocabulary import SECOND_NS, Details, Frozen


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


class Preference(StrEnum):
    """Which of two flavors is better if one needs borrowing and the other preemption; it counts only where neither
    ends the search."""

    BORROWING = "BorrowingOverPreemption"
    PREEMPTION = "PreemptionOverBorrowing"


class StopPolicy(StrEnum):
    """Whether a queue is stopped: it admits nobody."""

    NONE = "None"
    HOLD = "Hold"
    """Its running workloads go on."""
    HOLD_AND_DRAIN = "HoldAndDrain"
    """Its running workloads are evicted."""


class QueueingStrategy(StrEnum):
    """Whether a workload that cannot start blocks those behind it."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class ShareStrategy(StrEnum):
    """When fair sharing lets one queue take from another (``preemptionStrategies`` of Kueue's configuration)."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class Quota(Frozen):
    """The quota of one resource in one flavor.  None: no limit."""

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
    preference: Preference = Preference.BORROWING

    @property
    def prefers_preemption(self) -> bool:
        """Whether a flavor that needs preemption is better than one that needs more borrowing."""
        return (
            self.preference is Preference.PREEMPTION
            and self.when_can_borrow is FlavorPolicy.TRY_NEXT_FLAVOR
            and self.when_can_preempt is FlavorPolicy.TRY_NEXT_FLAVOR
        )


class ClusterQueue(Frozen):
    """A queue with its own quota.  Without a cohort it borrows from nobody."""

    name: str
    cohort: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    stop: StopPolicy = StopPolicy.NONE
    namespaces: Selector = Selector()
    """Of the namespaces whose workloads it admits."""
    checks: Mapping[str, tuple[str, ...]] = {}
    """Its admission checks, each with the flavors for which it is needed; none named: for all."""

    def selects(self, namespace: str, labels: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether it admits workloads of a namespace; one whose labels are not known counts as selected."""
        return namespace not in labels or self.namespaces.matches(labels[namespace])


class LocalQueue(Frozen):
    """A queue of a namespace, through which workloads come to a ClusterQueue."""

    name: str
    namespace: str
    queue: str
    stop: StopPolicy = StopPolicy.NONE


class AdmissionCheck(Frozen):
    """Something outside of Kueue that a workload waits for when it has reserved its quota."""

    name: str
    delays_ns: tuple[int, ...] = (0,)
    """How long it takes: one of these, at random."""


class RequeuingTimestamp(StrEnum):
    """What counts as the age of a workload that was evicted because its pods were not ready."""

    EVICTION = "Eviction"
    CREATION = "Creation"


class PodsReady(Frozen):
    """``waitForPodsReady`` of Kueue's Configuration: whose pods are not ready in time is evicted, and returns later."""

    timeout_ns: int
    timestamp: RequeuingTimestamp = RequeuingTimestamp.EVICTION
    backoff_base_ns: int = 60 * SECOND_NS
    backoff_max_ns: int = 3600 * SECOND_NS
    limit: int | None = None
    """So often a workload may return; the next time it is deactivated."""
    blocks: bool = False
    """``blockAdmission``: no workload is admitted while the pods of another that holds quota are not ready."""

    def backoff_ns(self, timeouts: int) -> int:
        """How long a workload waits after so many timeouts, the last one included."""
        return min(self.backoff_max_ns, self.backoff_base_ns << min(timeouts - 1, 40))


class StopChange(Frozen):
    """The stop policy of a queue from some time on."""

    at_ns: int
    stop: StopPolicy
    queue: str = ""
    """The ClusterQueue; empty: a LocalQueue."""
    local_queue: tuple[str, str] = ("", "")
    """Namespace and name."""


class Flavor(Frozen):
    """What is known of the nodes of a flavor.  One that is not known has no labels and no taints."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    """Those that each pod gets with the flavor."""

    def covers(self, node: Node) -> bool:
        """Whether a node is one of its nodes."""
        return self.labels.items() <= node.labels.items()


MAX_COHORTS_DEEP = 50


class Cluster(Frozen):
    """All queues and cohorts.  A cohort that is only named, by a queue or another cohort, has no quota of its own."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    fair_sharing: tuple[ShareStrategy, ...] | None = None
    """None: classical preemption.  Kueue's default is both strategies, the final share first."""
    flavors: tuple[Flavor, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """The labels of each namespace that is known."""
    checks: tuple[AdmissionCheck, ...] = ()
    """One that is not here takes no time."""
    pods_ready: PodsReady | None = None
    """None: Kueue does not look at whether pods are ready."""
    stops: tuple[StopChange, ...] = ()
    sorts_by_priority: bool = True
    """Whether of the heads of queues that borrow alike the one of higher priority goes first; else it is the older one
    (the feature gate ``PrioritySortingWithinCohort``)."""

    @property
    def circle(self) -> str | None:
        """A cohort that is above itself, or below too many others."""
        parents = {cohort.name: cohort.parent for cohort in self.cohorts}
        for name in parents:
            above: str | None = name
            for _ in range(MAX_COHORTS_DEEP):
                above = parents.get(above) if above is not None else None
            if above is not None:
                return name
        return None


DEFAULT_STRATEGIES = (ShareStrategy.FINAL_SHARE, ShareStrategy.INITIAL_SHARE)


class _Pods(Frozen, kw_only=True):
    """What pods may choose from."""

    selector: Mapping[str, str] = {}
    """The labels of nodes that they want."""
    affinity: tuple[NodeTerm, ...] = ()
    """Required: one of these has to hold; none: any node will do."""
    tolerations: tuple[Toleration, ...] = ()
    min_count: int | None = None
    """So many of them are enough; None: all are needed."""
    pod_requests: Mapping[str, int] | None = None
    """What a pod requests of its node, if Kueue counts something else (``resources`` of its Configuration)."""

    @property
    def choice(self) -> dict[str, Any]:
        """These of its fields."""
        return {each: getattr(self, each) for each in _Pods.__struct_fields__}


class PodTemplate(_Pods):
    """The pods of a podset, without their number."""

    name: str
    requests: Mapping[str, int] = {}

    def podset(self, count: int) -> PodSet:
        """So many of these pods."""
        return PodSet(self.name, count, self.requests, **self.choice)


class PodSet(_Pods):
    """Pods that are alike; ``requests`` are of one pod."""

    name: str
    count: int
    requests: Mapping[str, int]

    @property
    def template(self) -> PodTemplate:
        """It without the number of pods."""
        return PodTemplate(self.name, self.requests, **self.choice)

    @property
    def of_node(self) -> Mapping[str, int]:
        """What each pod requests of its node."""
        return self.requests if self.pod_requests is None else self.pod_requests

    @property
    def spare(self) -> int:
        """How many of its pods it can do without."""
        return 0 if self.min_count is None else max(0, self.count - self.min_count)


class Workload(Frozen):
    """What is admitted, or preempted, as a whole.  Its name is its last tie-break, as the UID is in Kueue."""

    name: str
    queue: str
    podsets: tuple[PodSet, ...]
    priority: int = 0
    created_ns: int = 0
    namespace: str = ""
    local_queue: str = ""
    max_execution_ns: int | None = None
    """When it has run for so long, over all its runs, it is deactivated; None: never."""

    @property
    def local(self) -> tuple[str, str]:
        """Namespace and name of its LocalQueue, by default of its ClusterQueue's name."""
        return self.namespace, self.local_queue or self.queue


class WorkloadDetails(Details, Frozen, tag_field="kind", tag="kueue"):
    """What a job is to Kueue: a workload, whose name, queue and priority are the job's."""

    podsets: tuple[PodTemplate, ...] = ()
    """The pods of the job's groups of tasks, in their order; those of further groups ask for nothing."""
    created_ns: int = 0
    """Its age, which Kueue compares, also if its submission comes late in a live run."""
    endless: bool = False
    """Whether it does not end by itself."""
    namespace: str = ""
    local_queue: str = ""
    max_execution_ns: int | None = None
    ready_ns: tuple[int | None, ...] = ()
    """How long after its first, second, ... start its pods are ready; the last holds for all later ones.

    None: they are never.  Empty: at once.
    """

    def workload(self, name: str, queue: str, priority: int, tasks: Mapping[str, int]) -> Workload:
        """The workload of a job with these facts; ``tasks``: how many, by group."""
        templates = (*self.podsets, *map(PodTemplate, [*tasks][len(self.podsets) :]))
        podsets = tuple(each.podset(count) for each, count in zip(templates, tasks.values(), strict=True))
        local = self.namespace, self.local_queue
        return Workload(name, queue, podsets, priority, self.created_ns, *local, self.max_execution_ns)


class Arrival(Frozen):
    """A workload, submitted at its ``created_ns``, and how long it runs."""

    workload: Workload
    duration_ns: int | None = None
    """None: it never ends."""
    ready_ns: tuple[int | None, ...] = ()
    """See ``WorkloadDetails``."""

    @property
    def details(self) -> WorkloadDetails:
        """What its job is to Kueue."""
        of = self.workload
        templates = tuple(each.template for each in of.podsets)
        limits = of.max_execution_ns, self.ready_ns
        return WorkloadDetails(
            templates, of.created_ns, self.duration_ns is None, of.namespace, of.local_queue, *limits
        )


CIRCLE = "goes round in a circle, or is too deep"
"""What is wrong with the parents of a cohort."""


class Kueue(Frozen):
    """What natjam knows of a cluster with Kueue.  Times count from the first arrival.

    Raises ValueError if a cohort is above itself, or the queue of an arrival is unknown.
    """

    cluster: Cluster
    priorities: Mapping[str, int] = {}
    """By name of the class."""
    arrivals: tuple[Arrival, ...] = ()
    nodes: tuple[Node, ...] = ()
    """Those that take pods and have the labels of a flavor; none: nodes are not known, and have no part in runs."""
    basis: Basis = Basis()

    def __post_init__(self) -> None:
        if self.cluster.circle is not None:
            raise ValueError(f"cluster.cohorts: {self.cluster.circle}: parent: {CIRCLE}")
        names = {queue.name for queue in self.cluster.queues}
        for arrival in self.arrivals:
            if arrival.workload.queue not in names:
                raise ValueError(f"arrivals: {arrival.workload.name}: its queue is not one of kueue.cluster.queues")
