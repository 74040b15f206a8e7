"""YARN's CapacityScheduler as an allocation: each queue is guaranteed its capacity and may grow to its maximum.

The queue with the least used / guaranteed is served first.  Once per interval the preemption policy asks back what
queues hold beyond their ideal assignments (``ideal``), and with ``intra_queue`` the jobs of a queue also take from
those of lower priority (``victims``: natjam has no users to limit).  A container that stays on the list for
``max_wait_before_kill`` is taken.  ApplicationMasters are exempt, and so are maps, as everywhere in natjam.

Where containers have several sizes, all amounts are vectors, compared as YARN's DominantResourceCalculator does, and a
container must fit its node in all resources.  Hadoop's default, the DefaultResourceCalculator, sees memory only and
lets nodes have more containers than cores: so does a cluster whose nodes have no resource but memory, as ``natjam
import yarn`` makes it.  Where all containers have one size, an amount has one number: 1/1024 of a container, as Hadoop
counts the megabytes of containers of 1 GB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from operator import gt
from typing import Annotated, Any

import msgspec

from emulator.policies.job_selection import PRIORITY, by_priority
from emulator.policies.policy import PacedAllocation
from emulator.policies.queues import most_underserved
from emulator.policies.resources import PARTS, WHOLE_PPM, common, lacking, minus, plus, total, written
from emulator.policies.views import AllocationDecision, ClusterView, JobView, QueueView, Take
from emulator.policies.yarn.amounts import Amounts, exact
from emulator.policies.yarn.ideal import Need, assign
from emulator.policies.yarn.options import YarnParent, YarnPreemption
from emulator.policies.yarn.victims import Claim, demanded
from emulator.vocabulary import Frozen, Resources

UNIT = 1024
"""Parts of a container, where all have one size."""
ONE_CONTAINER: Resources = (UNIT,)
_IN_PARTS = "memory_gb"
"""The resource that is not counted in whole numbers."""


class YarnPace(msgspec.Struct, frozen=True):
    """When and what YARN's preemption policy reclaims; see ``emulator.policies.policy.Pace``."""

    preemption: YarnPreemption
    parents: dict[str, YarnParent] = msgspec.field(default_factory=dict)
    disable_preemption: tuple[str, ...] = ()

    @property
    def interval_ns(self) -> int:
        """See ``Pace``."""
        return self.preemption.interval_ns

    @property
    def wait_ns(self) -> int:
        """See ``Pace``."""
        return self.preemption.wait_ns

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """See ``Pace``."""
        amounts = amounts_of(view)
        leaves = [_need_of(queue, amounts, queue.name in self.disable_preemption) for queue in view.queues]
        root = _root_of(leaves, self.parents, amounts)
        allowed = left = assign(root, self.preemption, False, amounts)
        words = partial(_in_words, names=next((node.resource_names for node in view.nodes.values()), ()))
        takes: list[Take] = []
        for leaf in leaves:
            obtained = lacking(leaf.to_obtain, amounts.none)
            left = lacking(left, obtained)
            jobs = [job.name for job in _last_first(view, leaf.name)]
            takes += _take(jobs, obtained, allowed, why=_across_in_words(leaf, leaves, words))
        for leaf in leaves if self.preemption.intra_queue else ():
            jobs = _last_first(view, leaf.name)
            claims = [_claim_of(job, amounts) for job in jobs]
            tasks = total((claim.tasks for claim in claims), amounts.none)
            awaited = (claim.pending for claim, job in zip(claims, jobs, strict=True) if not job.containers)
            masters = plus(minus(leaf.used, tasks), total(awaited, amounts.none))
            givers, amount = demanded(leaf, claims, masters, left, self.preemption, amounts)
            left = lacking(left, amount)
            why = f"jobs of queue {leaf.name} of higher priority lack {words(amount)}"
            takes += _take([job.name for job in jobs if job.name in givers], amount, allowed, True, why)
        return tuple(takes)


class YarnOptions(Frozen):
    """The keys beside ``name: yarn-capacity``."""

    offswitch_per_heartbeat: Annotated[int, msgspec.Meta(ge=1)] = 1
    """``per-node-heartbeat.maximum-offswitch-assignments``: most containers given out per heartbeat of a node."""
    preemption: YarnPreemption | None = YarnPreemption()
    """None: the scheduling monitor is off, which is Hadoop's default."""
    parents: dict[str, YarnParent] = msgspec.field(default_factory=dict)
    """The queues that have queues and no jobs, by name; each queue is in one of them, or in the root."""
    disable_preemption: tuple[str, ...] = ()
    """The queues with jobs from which nothing is taken for other queues."""

    @property
    def pace(self) -> YarnPace | None:
        """See ``emulator.policies.policy.PacedAllocation``."""
        return None if self.preemption is None else YarnPace(self.preemption, self.parents, self.disable_preemption)


def amounts_of(view: ClusterView) -> Amounts:
    """The amounts of the cluster as an allocation sees it."""
    nodes = [node for node in view.nodes.values() if node.resources]
    if not nodes:
        return Amounts((view.containers * UNIT,))
    names = nodes[0].resource_names
    whole = total((node.resources for node in nodes), names)
    return Amounts(whole, tuple(1 if name == _IN_PARTS else PARTS for name in names))


def yarn_capacity(view: ClusterView, options: YarnOptions) -> AllocationDecision:
    """YARN's CapacityScheduler: guaranteed capacities, the least used / guaranteed first, preemption at YARN's pace.

    The jobs of a queue are ordered by priority, then by submission.
    """
    known = {queue.name: queue for queue in view.queues}
    whole = WHOLE_PPM if any(queue.held for queue in view.queues) else view.containers
    for name, parent in _from_the_leaves(options.parents):
        children = [known[child] for child in parent.queues]
        known[name] = QueueView(
            name,
            min(child.rank for child in children),
            sum(child.capacity for child in children),
            int(whole * exact(parent.maximum)),
            sum(child.used for child in children),
            sum(child.pending for child in children),
        )
    order = tuple(_in_order(_tops(known, options.parents), known, options.parents))
    return AllocationDecision(order, per_heartbeat=options.offswitch_per_heartbeat)


# ---- the tree ----


def _tops(names: Iterable[str], parents: Mapping[str, YarnParent]) -> list[str]:
    """The queues that are in no other."""
    inside = {child for parent in parents.values() for child in parent.queues}
    return [name for name in names if name not in inside]


def _from_the_leaves(parents: Mapping[str, YarnParent]) -> Iterator[tuple[str, YarnParent]]:
    """The parents, each after those that are in it."""
    done = dict.fromkeys(parents, False)
    while not all(done.values()):
        for name, parent in parents.items():
            if not done[name] and all(done.get(child, True) for child in parent.queues):
                done[name] = True
                yield name, parent


def _in_order(names: Iterable[str], known: Mapping[str, QueueView], parents: Mapping[str, YarnParent]) -> Iterator[str]:
    """The leaves below these queues in the order of service, level by level; a full queue is left out."""
    for name in most_underserved(known[name] for name in names if known[name].used < known[name].maximum):
        if name in parents:
            yield from _in_order(parents[name].queues, known, parents)
        else:
            yield name


def _root_of(leaves: Iterable[Need], parents: Mapping[str, YarnParent], amounts: Amounts) -> Need:
    known = {leaf.name: leaf for leaf in leaves}
    for name, parent in _from_the_leaves(parents):
        known[name] = _parent_of(name, [known[child] for child in parent.queues], exact(parent.maximum), amounts)
    return _parent_of("root", [known[name] for name in _tops(known, parents)], Fraction(1), amounts)


def _parent_of(name: str, children: Sequence[Need], maximum: Fraction, amounts: Amounts) -> Need:
    none = amounts.none
    return Need(
        name,
        total((child.guaranteed for child in children), none),
        amounts.part(amounts.whole, maximum),
        total((child.used for child in children), none),
        total((child.pending for child in children), none),
        children=tuple(children),
    )


# ---- parts ----


def _need_of(queue: QueueView, amounts: Amounts, is_disabled: bool) -> Need:
    """A queue from a view; requests beyond its maximum do not count."""
    has_sizes = bool(queue.held)
    guaranteed, maximum = (
        amounts.part(amounts.whole, Fraction(count, WHOLE_PPM)) if has_sizes else (count * UNIT,)
        for count in (queue.capacity, queue.maximum)
    )
    used = queue.held or (queue.used * UNIT,)
    pending = common(queue.wanted or (queue.pending * UNIT,), lacking(maximum, used))
    return Need(queue.name, guaranteed, maximum, used, pending, is_disabled=is_disabled)


def _claim_of(job: JobView, amounts: Amounts) -> Claim:
    tasks = job.tasks_hold or ((job.containers - min(1, job.containers)) * UNIT,)
    pending = job.wanted or (job.pending * UNIT,)
    return Claim(job.name, job.facts.priority, tasks, pending, amounts.none)


def _last_first(view: ClusterView, queue: str) -> Sequence[JobView]:
    """The jobs of a queue, in reverse order of service."""
    return sorted((job for job in view.jobs.values() if job.facts.queue == queue), key=by_priority, reverse=True)


def _take(
    jobs: Sequence[str], amount: Resources, allowed: Resources, enough_of_any: bool = False, why: str = ""
) -> list[Take]:
    return [Take(tuple(jobs), amount, allowed, enough_of_any, why)] if jobs and any(amount) else []


def _across_in_words(queue: Need, queues: Iterable[Need], words: Callable[[Resources], str]) -> str:
    """What the queue is entitled to, what a round takes of it, and for whom."""
    short = ", ".join(other.name for other in queues if any(map(gt, other.ideal, other.used)))
    holds = f"holds {words(queue.used)} and is entitled to {words(queue.ideal)}"
    return f"queue {queue.name} {holds}; this round takes {words(queue.to_obtain)} for {short}"


def _in_words(amount: Resources, names: Sequence[str]) -> str:
    return written(amount, names) if names else f"{amount[0] / UNIT:.4g} containers"


_WITH_OPTIONS: Any = yarn_capacity
YARN_CAPACITY = PacedAllocation(
    "yarn-capacity",
    _WITH_OPTIONS,
    "Hadoop 3.4, CapacityScheduler and ProportionalCapacityPreemptionPolicy",
    options=YarnOptions,
    dictates=PRIORITY,
)
