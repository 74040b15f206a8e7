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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from emulator.core.decisions import allocate
from emulator.core.resource_manager.allocation import (
    Contract,
    Grant,
    StrictContract,
)
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.offers import TASKS, ByContract, Components, Offer
from emulator.core.resource_manager.reclaim import ReclaimContainers, ReclaimOnNodes
from emulator.policies.policy import Reads
from emulator.policies.views import AllocationDecision, ClusterView


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
        self._looks_at_size = has_sizes and self._scheduler.fit.takes_the_offer
        """Whether a node may be too small for a job, and another is not looked for then."""
        self._no_op_state: tuple[int, ...] | None = None
        """What a run depends on, when there was nothing to reclaim or to forget."""
        self._decision: AllocationDecision | None = None
        """The allocation's last."""
        self._holds_until_ns: int | None = None
        """When the allocation must be asked again even if nothing changes."""

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
            if grants:
                self._offers.reservations.granted(grants)
                return grants
        if offer.is_held or len(decision.order) < len(offer.view.queues):
            self._record_host(offer)
        return ()

    def _is_too_small(self, node: Node) -> bool:
        """Whether no job that waits can have room on the node, which then need not be asked one by one."""
        queues = self._state.queues
        return not (queues.gangs or queues.fitting_in(node.free))

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Sequence[Grant]:
        """The next request of ``queue`` to get the container, or all requests of a gang."""
        waiting = self._state.waiting(queue, offer.view)
        jobs, new = waiting.jobs, waiting.new
        if self._looks_at_size:
            jobs, new = self._without_larger(jobs, offer), self._without_larger(new, offer)
        turns = ((jobs, partial(self._new_of, resumes=True)),)
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
