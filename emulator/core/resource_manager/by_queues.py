"""Allocation by queues: an order of queues, and queues that reclaim from queues (natjam, sections 3.2 and 4).

Theory of operation
-------------------
The allocation policy chooses the queue for the next container, and the job selection chooses the job in it.  In a
queue, suspended tasks come first, unless the policy says otherwise.

The policy says, too, which queue may reclaim containers, and from which queues.  A queue that may reclaim from itself
does so between its jobs.  What is reclaimed is found by ``emulator.core.resource_manager.reclaim``.  A run that finds
nothing to reclaim or to forget would find nothing again until what it depends on changes, a reservation has stood too
long, or a task has run for its job's minimum.  So it is not run until then, unless a policy may decide otherwise as
time passes.

A node that is too small for all that is waited for is not offered to one job after another.

Where queues are of YARN's CapacityScheduler, requests of several sizes reserve the capacity that they are too large
for.  A request may be too large for what is free of a node, although it would fit the empty node.  Nodes that smaller
requests share would never have room for it.  So, when a node is offered to a queue that has no request which fits, the
first that would fit beside the ApplicationMasters and the stopped processes there, which both stay, reserves the
capacity: what becomes free of the node is kept for it (``emulator.core.resource_manager.reservations``).  As in YARN,
there is one reservation on a node, a job has no more of them than it has requests, and it gives the newest up when it
gets a container elsewhere.  Where a gang holds the node, nothing stays reserved: the two would wait for each other.
Unlike in YARN, others may use what is free of the node beside it, and requests of saved tasks reserve nothing.

A *paced* allocation reclaims by name, round by round (YARN's ProportionalCapacityPreemptionPolicy).  Once per
interval the policy's pace says how much it would reclaim, and from which jobs.  The task eviction order names the
containers: one after another, those that make some of it free (``emulator.policies.yarn.victims``).  Each goes on a
list with the current time (``emulator.policies.yarn.marks``).  If a container is chosen again in a later round, at
least ``wait`` after it went on the list, it is taken by a strict contract.  If it is not chosen again, it is forgotten
after twice ``wait``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.decisions import allocate, order_tasks, takes
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.resource_manager.allocation import (
    Contract,
    Decision,
    Grant,
    SchedulerEvent,
    SchedulerEventType,
    StrictContract,
)
from emulator.core.resource_manager.applications import Application, HeldContainer, Node
from emulator.core.resource_manager.offers import TASKS, ByContract, Components, Offer
from emulator.core.resource_manager.reclaim import ReclaimContainers, ReclaimOnNodes
from emulator.policies.mechanism import needs_no_job
from emulator.policies.policy import Pace, PacedAllocation, Reads
from emulator.policies.resources import fits, minus, total
from emulator.policies.views import AllocationDecision, ClusterView, Take, TaskView
from emulator.policies.yarn.allocation import ONE_CONTAINER, amounts_of
from emulator.policies.yarn.marks import Marks
from emulator.policies.yarn.victims import RoundVictims
from emulator.vocabulary import MASTER_GROUP, Resources, TaskGroup


class ByQueues(ByContract):
    """An ``Allocation`` by queues (see the module's theory of operation)."""

    def __init__(self, parts: Components) -> None:
        super().__init__(parts)
        self._policy = self._scheduler.allocation
        reads = self._policy.reads - {Reads.PROGRESS}
        reads |= self._scheduler.task_eviction.reads & {Reads.FORECAST}
        self._may_rest = self._scheduler.order_is_fixed and not reads
        """Whether the policies read only the queues and their jobs, in an order that never changes."""
        names = [queue.name for queue in self._scheduler.queues]
        self._takers = names if self._policy.queues.least_urgent_takes else names[:-1]
        """Queues that may ever reclaim."""
        has_sizes = parts.settings.has_sizes
        self._reclaims = (ReclaimOnNodes if has_sizes else ReclaimContainers)(parts, self._offers, self._victim_jobs)
        self._reserves = has_sizes and isinstance(self._policy, PacedAllocation)
        """Whether requests reserve capacity."""
        self._looks_at_size = has_sizes and self._scheduler.fit.takes_the_offer
        """Whether a node may be too small for a job, and another is not looked for then."""
        self._no_op_state: tuple[int, ...] | None = None
        """What a run depends on, when there was nothing to reclaim or to forget."""
        self._decision: AllocationDecision | None = None
        """The allocation's last."""
        self._holds_until_ns: int | None = None
        """When the allocation must be asked again even if nothing changes."""

    def frees(self, container: HeldContainer) -> Resources:
        """What taking the container back makes free; empty where all containers have one size."""
        return self._offers.reservations.frees(container)

    def _decided(self, view: ClusterView) -> AllocationDecision:
        self._decision = allocate(self._policy, view, self._decision)
        return self._decision

    # ---- giving ----

    def _choose(self, offer: Offer) -> Sequence[Grant]:
        if self._looks_at_size and self._is_too_small(offer.node):
            self._state.awaited.insufficient(offer.node.address)
            offer.is_for_others = True
            return ()
        decision = self._decided(offer.view)
        if decision.per_heartbeat is not None and offer.given >= decision.per_heartbeat:
            offer.is_for_others = True
            self._state.awaited.expect(offer.node.address)  # a task may wait for this node
            return ()
        offer.holds_until(decision.valid_until_ns)
        for queue in decision.order:
            grants = self._first_of(queue, decision.resumes_first, offer)
            if self._reserves:
                self._reserve_or_release(queue, offer, is_served=bool(grants))
            if grants:
                self._offers.reservations.granted(grants)
                return grants
        if offer.is_held or len(decision.order) < len(offer.view.queues):
            self._record_host(offer)
        return ()

    def _is_too_small(self, node: Node) -> bool:
        """Whether no job that waits can have room on the node, which then need not be asked one by one."""
        queues = self._state.queues
        return not (self._reserves or queues.gangs or queues.may_serve(node.free))

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Sequence[Grant]:
        """The next request of ``queue`` to get the container, or all requests of a gang."""
        waiting = self._state.waiting(queue, offer.view)
        jobs, new = waiting.jobs, waiting.new
        if self._looks_at_size:
            jobs, new = self._without_larger(jobs, offer), self._without_larger(new, offer)
        turns = ((jobs, self._any_of),)
        if resumes_first:
            turns = ((waiting.resuming, self._saved_of), (new, self._new_of))
        for applications, single_of in turns:
            for application in applications:
                if self._offers.gangs.waits(application):
                    grants = self._gang_of(application, offer)
                    if grants is None or grants:
                        return grants or ()
                    continue
                grant = single_of(application, offer)
                if grant is not None:
                    return (grant,)
        return ()

    def _saved_of(self, application: Application, offer: Offer) -> Grant | None:
        """The job's request for a suspended task."""
        return None if offer.is_held else self._offers.resume_of(application, offer)

    def _new_of(self, application: Application, offer: Offer, resumes: bool = False) -> Grant | None:
        """The job's request for its ApplicationMaster or a new task; ``resumes``: a suspended one counts too."""
        grant = None
        if not offer.is_held or application.master_attempts:
            grant = self._offers.master_of(application, offer)
        if grant is None and not offer.is_held:
            grant = self._offers.task_of(application, offer, TASKS, resumes=resumes)
        return grant

    def _without_larger(self, applications: Iterable[Application], offer: Offer) -> Iterator[Application]:
        """The jobs without those that wait only for containers for which the node is too small: most often most of
        them, and known without asking by group."""
        fitting = self._state.queues.fitting_in(offer.node.free)
        for application in applications:
            is_larger = bool(application.sizes) and application.sizes.isdisjoint(fitting)
            if offer.is_held or not is_larger or (application.facts.gang and application.must_start_whole):
                yield application
            else:
                offer.is_for_others = True

    def _any_of(self, application: Application, offer: Offer) -> Grant | None:
        return self._new_of(application, offer, resumes=True)

    def _gang_of(self, gang: Application, offer: Offer) -> Sequence[Grant] | None:
        """Containers for the whole gang, or none.  None: its queue may not grow by as many as it needs at once; the
        jobs of its queue after it wait too, because they would take the room that it waits for."""
        if offer.hold is not None:
            return ()
        share = self._state.queue_share_of_gang(gang)
        own = next(queue for queue in offer.view.queues if queue.name == gang.queue)
        grown = tuple(replace(queue, used=queue.used + share) if queue is own else queue for queue in offer.view.queues)
        if share > 0 and gang.queue not in allocate(self._policy, offer.view.with_queues(grown)).order:
            self._offers.gangs.explain_wait(gang, max(0, own.maximum - own.used))
            self._record_host(offer)
            return None
        return self._offers.gang_of(gang, offer)

    # ---- reserving ----

    def _reserve_or_release(self, queue: str, offer: Offer, is_served: bool) -> None:
        """The queue was asked for the node: it reserves it if it can use nothing of it, and a gang that holds it ends
        the reservation there."""
        reservations = self._offers.reservations
        offer.reserved.clear()
        if not is_served and offer.hold is None:
            self._reserve(queue, offer)
        elif offer.is_held and reservations.standing_on(offer.node.name):
            reservations.retain(lambda each: each.node != offer.node.name)
            offer.is_for_others = True

    def _reserve(self, queue: str, offer: Offer) -> None:
        """Keep the node's room for the queue's first request that could have it, unless it is kept already."""
        node, standing = offer.node, list(self._offers.reservations.standing())
        possible = self._can_become_free(node)
        here = next((each for each in standing if each.node == node.name), None)
        if here is not None and fits(here.request, possible):
            return
        if here is not None:  # an ApplicationMaster has come since, or a process was stopped
            self._offers.reservations.retain(lambda each: each is not here)
            offer.is_for_others = True
        reserved = Counter((each.requester, each.group) for each in standing if each is not here)
        for application in self._state.waiting(queue, offer.view).jobs:
            for group, count in self._new_one_by_one(application):
                avoids = group is not MASTER_GROUP and node.name in application.requests.avoided
                short = count > reserved[application.name, group.name]
                if short and not avoids and fits(application.request_for(group), possible):
                    self._offers.reservations.make(application, group, node.name, offer.view.now_ns)
                    offer.is_for_others = True
                    return

    def _can_become_free(self, node: Node) -> Resources:
        """What the node has without its ApplicationMasters and what stopped processes hold there."""
        masters = (
            held.request
            for held in self._state.containers.values()
            if held.node == node.name and held.group is MASTER_GROUP and self._state.on_slot(held)
        )
        return reduce(minus, masters, self._offers.reservations.beside_stopped()[node.name])

    @staticmethod
    def _new_one_by_one(application: Application) -> Sequence[tuple[TaskGroup, int]]:
        """How many new containers it may get one by one now, by group, in the order in which it gets them."""
        requests = application.requests
        if requests.application_master is not None:
            return ((MASTER_GROUP, 1),)
        if requests.at_once or application.must_start_whole:
            return ()
        groups = application.for_shuffle if application.maps_wait else application.others
        return [(group, len(requests.since[group.name])) for group in groups]

    # ---- reclaiming ----

    def _lack_due_ns(self, now_ns: int) -> int | None:
        if not self._reclaims.is_due(any(map(self._state.queues.pending_in, self._takers))):
            return None
        if self._no_op_state != self._reclaims.depends_on:
            return now_ns
        return None if self._holds_until_ns is None else max(now_ns, self._holds_until_ns)

    def _for_jobs(self, now_ns: int) -> Iterator[Contract | StrictContract]:
        before = self.changes
        self._reclaims.begin(now_ns)
        view = self._state.view(now_ns)
        decision, all_asked = self._decided(view), True
        for queue, victims in decision.reclaim:
            own = next(each for each in view.queues if each.name == queue)
            others = tuple(victim for victim in victims if victim != queue)
            if others and not (yield from self._reclaims.from_queues(own, others, now_ns)):
                break
            if queue in victims:
                all_asked &= yield from self._reclaims.within(queue, decision.most_reclaims_in_a_run, now_ns)
        if all_asked and self._may_rest and self.changes == before:
            times_ns = (
                decision.valid_until_ns,
                self._state.next_victim_ns(now_ns),
                self._offers.reservations.lasts_until_ns,
            )
            self._no_op_state = self._reclaims.depends_on
            self._holds_until_ns = min((at_ns for at_ns in times_ns if at_ns is not None), default=None)


class _ChosenFrom(NamedTuple):
    """A container that a round would take: the tasks that it was chosen from, and their order."""

    tasks: Sequence[TaskView]
    order: tuple[str, ...]
    why: str
    """Why the round takes so much."""


class ByRounds:
    """An ``Allocation`` that reclaims in rounds (see the module's theory of operation)."""

    def __init__(self, parts: Components, pace: Pace, offers: ByQueues) -> None:
        self._rounds_that_changed = 0
        self._offers = offers
        self._scheduler = parts.settings.scheduler
        self._seed = parts.settings.seed
        self._pace = pace
        self._state = parts.state
        self._marks = Marks(pace.interval_ns, pace.wait_ns)
        self._explains = needs_no_job(self._scheduler.mechanism.among)
        """Whether nobody else will explain: a job that is asked explains what it gives."""
        self._reasons: list[Effect] = []

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return self._rounds_that_changed + self._offers.changes

    def due_ns(self, event_type: SchedulerEventType, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if event_type is SchedulerEventType.TIME:
            return now_ns if self._scheduler.preempts and self._state.queues.pending else None
        return self._offers.due_ns(event_type, now_ns)

    def decide(self, event: SchedulerEvent) -> Iterator[Decision]:
        """See ``Allocation``."""
        if event.type is SchedulerEventType.TIME:
            return self._round(event.now_ns, event.planned_ns)
        return self._offers.decide(event)

    def _round(self, now_ns: int, planned_ns: int) -> Iterator[StrictContract]:
        """One round; the times on the list are planned times."""
        if self.due_ns(SchedulerEventType.TIME, now_ns) is None:
            return
        view = self._state.view(now_ns)
        chosen, among = dict[str, _ChosenFrom](), RoundVictims(amounts_of(view))
        for take in takes(self._scheduler.allocation, self._pace, view):
            self._choose(take, view, chosen, among)
        before = self._marks.since_ns
        due = self._marks.round(chosen, planned_ns)
        self._rounds_that_changed += self._marks.since_ns != before
        for container in due:
            held = self._state.containers[container]
            if self._explains:
                tasks, order, why = chosen[container]
                in_order = (held.id, *(other for other in order if other != held.id))
                rule = self._scheduler.task_eviction.name
                self._reasons.append(explain_tasks(rule, held.job, tasks, in_order, 1, short=why))
            yield StrictContract(held)

    def _choose(self, take: Take, view: ClusterView, chosen: dict[str, _ChosenFrom], among: RoundVictims) -> None:
        """Add the containers of ``take`` to ``chosen``."""
        found: dict[str, _ChosenFrom] = {}
        in_order = self._in_order(take, view, chosen, found)
        names = among.choose(take.amount, take.at_most, in_order, take.enough_of_any)
        chosen |= {name: found[name] for name in names}

    def _in_order(
        self, take: Take, view: ClusterView, chosen: Container[str], found: dict[str, _ChosenFrom]
    ) -> Iterator[tuple[str, Resources]]:
        """The containers that may go for ``take``, the first victim first, each with what it makes free: all of a gang
        that goes with it.  They are noted in ``found``."""
        state = self._state
        for job in take.jobs:
            tasks = tuple(task for task in state.victim_views(job, view.now_ns) if task.container not in chosen)
            if not tasks:
                continue
            # One draw per job, so that a random order stays the same from round to round.
            random = keyed_random(self._seed, "rm", "candidates", job)
            order = order_tasks(self._scheduler.task_eviction, view, tasks, random)
            found |= dict.fromkeys(order, _ChosenFrom(tasks, order, take.why))
            frees = [self._offers.frees(state.containers[name]) or ONE_CONTAINER for name in order]
            if order and state.applications[job].is_evicted_whole:
                order, frees = order[:1], [total(frees, ())]
            yield from zip(order, frees, strict=True)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys, self._reasons = self._reasons, []
        return [*self._offers.explain(), *whys]
