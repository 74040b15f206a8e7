"""Allocation by shares: every job has a number of containers to hold (flex; reverse-adaptive).

Theory of operation
-------------------
The shares alone decide (``emulator.core.resource_manager.by_shares``).  First come ApplicationMasters, then the most
underallocated job; in that job first maps, then suspended tasks, then new reduces.  Jobs below their share take from
jobs above theirs, as long as no suitable container is free.  For a transactional workload, jobs that hold more than
their share give first.

A run that finds nothing to reclaim would find nothing again until a message or a contract changes something, the
shares are no longer valid, or a task has run for its job's minimum.  So it is not run until then.

When a container is to be given out or reclaimed, an allocation that gives shares is asked, unless its last answer is
still valid.  An answer is valid until the end of the epoch, or until the time that the allocation names.  If slots for
maps and for reduces are separate, the allocation is asked for each on its own, with what the jobs hold, want and have
left of that.  Otherwise it is asked once, for all containers that no ApplicationMaster has.  Only jobs that hold or
want a container have a share.

A free container goes to the job that holds the smallest part of its share; among equals, to the job that lacks most. No
job gets more than its share, with one exception: the jobs below theirs cannot use the container because their stopped
processes wait on other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from emulator.core.decisions import share_out
from emulator.core.resource_manager.allocation import Contract, Decision, Grant, SchedulerEvent, SchedulerEventType
from emulator.core.resource_manager.applications import Application, NodeState
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.measured import WorkOf
from emulator.core.resource_manager.offers import ByContract, Components, Offer
from emulator.core.resource_manager.victims import net_of
from emulator.core.settings import Settings
from emulator.policies.capacity import Capacity
from emulator.policies.resources import WHOLE_PPM, count_fitting
from emulator.policies.views import ClusterView, JobView, NodeView, QueueView, TaskView
from emulator.vocabulary import MASTER, MeasuredCosts, Work


class _OfSlots:
    """The cluster as seen by an allocation that shares the slots for tasks that do ``works``: a ``ClusterSource``."""

    def __init__(self, state: ClusterState, works: tuple[Work, ...], total: int) -> None:
        self._state = state
        self._works = works
        self._slots_of = works[0] if len(works) == 1 else None
        self._total = total
        """Containers of the cluster; the capacities of queues are parts of this number."""

    def queue_views(self) -> tuple[QueueView, ...]:
        """See ``ClusterSource``: capacities scaled to these slots."""
        slots = self.containers_now()
        return tuple(
            replace(queue, capacity=queue.capacity * slots // self._total) for queue in self._state.queue_views()
        )

    def job_views(self, now_ns: int) -> Mapping[str, JobView]:
        """See ``ClusterSource``: jobs that hold or want such a slot."""
        views = (self.view_of(application, now_ns) for application in self._state.applications.values())
        return {view.name: view for view in views if view.containers or view.pending}

    def view_of(self, application: Application, now_ns: int) -> JobView:
        """The job with what it holds, wants and has left to do in these slots."""
        state = self._state
        work: WorkOf = state.work.of(application, self._works)
        names = [group.name for group in application.of_work(self._works)]
        of_these = (held for held in application.containers.values() if held.group.work in self._works)
        running = (held for held in of_these if state.on_slot(held))
        return JobView(
            facts=application.facts,
            order=application.order,
            submit_ns=application.submit_ns,
            containers=sum(application.held[name] for name in names),
            reclaimable=application.reclaimable(now_ns),
            pending=sum(map(application.requests.wanted, names)),
            work_ns=work.whole_ns,
            work_left_ns=work.left_ns,
            work_guessed=work.guessed,
            begun_ns=state.work.begun_ns(application, running, now_ns),
            task_ns=work.whole_ns // max(1, application.facts.maps + application.facts.reduces),
        )

    def task_views(self, job: str, now_ns: int) -> tuple[TaskView, ...]:
        """See ``ClusterSource``."""
        groups = self._state.applications[job].groups
        return tuple(t for t in self._state.task_views(job, now_ns) if groups[t.group].work in self._works)

    def node_views(self) -> Mapping[str, NodeView]:
        """See ``ClusterSource``."""
        return self._state.node_views()

    def node_view(self, name: str) -> NodeView | None:
        """See ``ClusterSource``."""
        return self._state.node_view(name)

    def containers_now(self) -> int:
        """See ``ClusterSource``: without containers that ApplicationMasters hold or wait for."""
        if self._slots_of is None:
            masters = sum(
                each.held[MASTER] + (each.requests.application_master is not None)
                for each in self._state.applications.values()
            )
            return max(0, self._state.containers_for_jobs - masters)
        nodes = (node for node in self._state.nodes.values() if node.state is not NodeState.LOST)
        return sum(count_fitting(node.settings.needs(self._slots_of, ()), node.settings.has) for node in nodes)

    def forecast(self) -> Capacity:
        """See ``ClusterSource``: the number of now, for ever, unless more is known."""
        return self._state.forecast_known or Capacity([(0, self.containers_now())])

    def measured_costs(self) -> MeasuredCosts:
        """See ``ClusterSource``."""
        return self._state.measured_costs()


@dataclass(slots=True)
class Instance:
    """The slots for tasks that do some kinds of work, and the jobs' shares of them."""

    works: tuple[Work, ...]
    source: _OfSlots
    shares: Mapping[str, int] = field(default_factory=dict)
    until_ns: int = 0
    """When the allocation is asked again."""

    def lacking(self, application: Application) -> int:
        """Containers that it lacks of its share; negative: it holds more."""
        return self.shares.get(application.name, 0) - self.held(application)

    def held(self, application: Application) -> int:
        """Containers that it holds for such tasks."""
        return sum([application.held[group.name] for group in application.of_work(self.works)])

    def requested(self, application: Application) -> int:
        """Containers that it wants for such tasks."""
        return sum([application.requests.wanted(group.name) for group in application.of_work(self.works)])

    def below(self, applications: Iterable[Application]) -> list[Application]:
        """Jobs that want more and hold less than their share, the most underallocated first."""
        below = (each for each in applications if self._has_requests(each) and self.lacking(each) > 0)
        return sorted(below, key=self._rank)

    def others(self, applications: Iterable[Application]) -> list[Application]:
        """Jobs that want more and hold their share or more, below their maximum, in the same order."""
        found = (each for each in applications if self._has_requests(each) and self.lacking(each) <= 0)
        return sorted((each for each in found if self.held(each) < each.facts.most_containers), key=self._rank)

    def _has_requests(self, application: Application) -> bool:
        return self.requested(application) > 0

    def _rank(self, application: Application) -> tuple[int, int, int]:
        """Sort key: the part of its share that a job holds."""
        share, held = self.shares.get(application.name, 0), self.held(application)
        return held * WHOLE_PPM // max(1, share), held - share, application.order


class Shares:
    """The shares of jobs, of the allocation by shares (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState) -> None:
        self._policy = settings.scheduler.allocation
        self._epoch_ns = settings.scheduler.epoch_ns
        self._state = state
        apart = settings.own_slots
        works = ((Work.SHUFFLE,), (Work.KEYS,)) if apart else ((Work.SHUFFLE, Work.KEYS),)
        self.asked = 0
        """How often the allocation was asked; each answer may change what is given from then on."""
        self._instances = [Instance(each, _OfSlots(state, each, state.containers_total)) for each in works]

    def instances(self, now_ns: int) -> list[Instance]:
        """One for each kind of slot, with the current shares.  Raises PolicyError."""
        for instance in self._instances:
            if now_ns >= instance.until_ns:
                self._ask(instance, now_ns)
        return self._instances

    @property
    def until_ns(self) -> int:
        """The time until which the current shares are valid."""
        return min(instance.until_ns for instance in self._instances)

    def ask_again(self) -> None:
        """The last answer is no longer valid."""
        for instance in self._instances:
            instance.until_ns = 0

    def _ask(self, instance: Instance, now_ns: int) -> None:
        self.asked += 1
        decision = share_out(self._policy, ClusterView(now_ns, instance.source))
        instance.shares = dict(decision.shares)
        instance.until_ns = (now_ns // self._epoch_ns + 1) * self._epoch_ns
        if decision.valid_until_ns is not None and now_ns < decision.valid_until_ns < instance.until_ns:
            instance.until_ns = decision.valid_until_ns

    def served(self, instance: Instance) -> Iterator[Application]:
        """Jobs that want a container, the most underallocated first.  Jobs that hold their share or more come last, and
        only if there are jobs below their share, which have then had no use for the container."""
        applications = self._state.applications.values()
        below = instance.below(applications)
        yield from below
        if below:
            yield from instance.others(applications)


class ByShares(ByContract):
    """An ``Allocation`` by shares of jobs (see the module's theory of operation)."""

    def __init__(self, parts: Components) -> None:
        super().__init__(parts)
        self._shares = Shares(parts.settings, parts.state)
        self._no_op_state: tuple[int, int] | None = None
        """State of ResourceManager and Preemptor when nothing could be reclaimed."""
        self._holds_until_ns: int | None = None
        """When more may be reclaimed even if nothing changes, with the same shares."""

    @property
    def changes(self) -> int:
        """See ``Allocation``: each answer of the policy may change what is given from then on."""
        return super().changes + self._shares.asked

    def decide(self, event: SchedulerEvent) -> Iterator[Decision]:
        """See ``Allocation``."""
        if event.type is SchedulerEventType.CAPACITY:
            self._shares.ask_again()
        return super().decide(event)

    def _choose(self, offer: Offer) -> Sequence[Grant]:
        node = offer.node
        if node.has_free(Work.MASTER):
            for application in self._state.applications.values():
                master = self._offers.master_of(application, offer)
                if master is not None:
                    return (master,)
        for instance in self._shares.instances(offer.view.now_ns):
            if not node.has_free(instance.works[0]):
                offer.is_for_others = True
                continue
            offer.holds_until(instance.until_ns)
            for application in self._shares.served(instance):
                grant = self._offers.task_of(application, offer, instance.works)
                if grant is not None:
                    return (grant,)
        self._record_host(offer)  # a job without a share now may have one later
        return ()

    def _lack_due_ns(self, now_ns: int) -> int | None:
        # Also while containers are free: they may be for other tasks.
        if not self._state.queues.pending:
            return None
        if self._no_op_state != self._stands:
            return now_ns
        until_ns = self._shares.until_ns
        return max(now_ns, until_ns if self._holds_until_ns is None else min(until_ns, self._holds_until_ns))

    @property
    def _stands(self) -> tuple[int, int]:
        return self._state.changes, self._preemptor.changes

    def _jobs_with_victims(self, now_ns: int) -> Iterator[dict[str, JobView]]:
        for instance in self._shares.instances(now_ns):
            yield self._above(instance, now_ns)
        yield from super()._jobs_with_victims(now_ns)

    def _for_jobs(self, now_ns: int) -> Iterator[Contract]:
        view, found = self._state.view(now_ns), False
        for instance in self._shares.instances(now_ns):
            for contract in self._surplus(instance, view):
                found = True
                yield contract
        if not found:
            self._no_op_state, self._holds_until_ns = self._stands, self._state.next_victim_ns(now_ns)

    def _surplus(self, instance: Instance, view: ClusterView) -> Iterator[Contract]:
        """Ask jobs above their share for the containers that others lack of theirs, or need for a master."""
        if self._scheduler.victims.isdisjoint(instance.works):
            return
        state = self._state
        if state.used < state.limit and any(node.has_free(instance.works[0]) for node in state.nodes.values()):
            return
        surplus = self._above(instance, view.now_ns)
        applications = self._state.applications.values()
        masters = [each for each in applications if each.requests.application_master is not None]
        for application in [*masters, *instance.below(applications)]:
            requests = application.requests
            movable = min(requests.for_any_node, instance.requested(application))
            lacking = 1 if application in masters else min(movable, instance.lacking(application))
            for _ in range(lacking - self._preemptor.outstanding(application.name)):
                if not surplus:
                    return
                yield from self._victim_jobs.choose(application.name, tuple(surplus.values()), surplus, view, 1)

    def _above(self, instance: Instance, now_ns: int) -> dict[str, JobView]:
        """Jobs that hold more than their share, each with its excess as the number it can give."""
        asked = self._preemptor.requested()
        found: dict[str, JobView] = {}
        for application in self._state.applications.values():
            above = min(-instance.lacking(application), application.reclaimable(now_ns)) - asked.get(
                application.name, 0
            )
            if above > 0:
                held = net_of(instance.source.view_of(application, now_ns), asked.get(application.name, 0))
                found[application.name] = replace(held, reclaimable=above)
        return found
