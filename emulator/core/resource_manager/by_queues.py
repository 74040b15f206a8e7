"""Allocation by queues: an order of queues, and queues that take from queues (natjam, sections 3.2 and 4).

Theory of operation
-------------------
The allocation policy chooses the queue for the next container, and the job selection chooses the job in it.  In a
queue, suspended tasks come first, unless the policy says otherwise.

The policy says, too, which queue may take containers back, and from which queues.  For each container that a job of
such a queue lacks, a victim is chosen among the jobs that have one to give, those of the least urgent queue first.  A
queue that may take from itself does so between its jobs.  All this happens only when the cluster is full.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from emulator.core.decisions import allocate, order_jobs
from emulator.core.resource_manager.allocation import Contract, Grant
from emulator.core.resource_manager.by_contract import ByContract, Parts
from emulator.core.resource_manager.offers import TASKS, Offer
from emulator.policies.policy import Reads
from emulator.policies.views import JobView


class ByQueues(ByContract):
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._policy = self._scheduler.allocation
        reads = self._policy.reads - {Reads.PROGRESS}
        self._asks_again_on_change = self._scheduler.order_is_fixed and not reads
        """Whether the policies read only the queues and their jobs, in an order that never changes."""
        self._all_asked: tuple[int, int] | None = None
        """State of queues and Preemptor when everything possible had been asked for."""
        self._holds_until_ns: int | None = None
        """When the allocation must be asked again even if nothing changes."""

    # ---- giving ----

    def _choose(self, offer: Offer) -> Grant | None:
        decision = allocate(self._policy, offer.view)
        if offer.given == decision.per_heartbeat:
            offer.is_for_others = True
            self._state.attention.expect(offer.node.address)  # a task may wait for this node
            return None
        offer.holds_until(decision.valid_until_ns)
        for queue in decision.order:
            grant = self._first_of(queue, decision.resumes_first, offer)
            if grant is not None:
                return grant
        return None

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Grant | None:
        """The next request of ``queue`` to get the container."""
        waiting = self._state.waiting(queue, offer.view)
        for application in waiting.resuming if resumes_first else ():
            grant = self._offers.resume_of(application, offer)
            if grant is not None:
                return grant
        for application in waiting.new if resumes_first else waiting.jobs:
            grant = self._offers.master_of(application, offer)
            grant = grant or self._offers.task_of(application, offer, TASKS, resumes=not resumes_first)
            if grant is not None:
                return grant
        return None

    # ---- taking back ----

    def _lack_due_ns(self, now_ns: int) -> int | None:
        state = self._state
        if not state.queues.pending:
            return None
        if state.free_nodes and state.used < state.limit:
            return None  # natjam, section 3.2: only when the cluster is full
        if self._all_asked != self._stands or not self._asks_again_on_change:
            return now_ns
        return None if self._holds_until_ns is None else max(now_ns, self._holds_until_ns)

    @property
    def _stands(self) -> tuple[int, int]:
        """Stays the same until something changes that taking back depends on."""
        return self._state.queues.changes, self._preemptor.changes

    def _for_jobs(self, now_ns: int) -> Iterator[Contract]:
        view = self._state.view(now_ns)
        decision = allocate(self._policy, view)
        rooms = {queue.name: queue.maximum - queue.used for queue in view.queues}
        all_asked = True
        for queue, victims in decision.reclaim:
            others = tuple(victim for victim in victims if victim != queue)
            if others:
                yield from self._from_queues(queue, others, rooms[queue], now_ns)
            if queue in victims:
                all_asked &= yield from self._within(queue, decision.most_reclaims_in_a_run, now_ns)
        if all_asked:
            self._all_asked, self._holds_until_ns = self._stands, decision.valid_until_ns

    def _from_queues(self, queue: str, victims: tuple[str, ...], room: int, now_ns: int) -> Iterator[Contract]:
        """For the jobs of ``queue``, which may grow by ``room`` containers."""
        possible: list[dict[str, JobView]] | None = None
        view = self._state.view(now_ns)
        for application in self._state.waiting(queue, view).jobs:
            outstanding = self._preemptor.outstanding(application.name)
            while outstanding < min(application.requests.for_any_node, room):
                if possible is None:
                    possible = [self._victim_jobs.among(self._state.queues.job_views(name, now_ns)) for name in victims]
                jobs = next(filter(None, possible), None)
                if jobs is None:
                    return
                yield self._victim_jobs.choose(application.name, tuple(jobs.values()), jobs, view)
                outstanding += 1
            room -= outstanding

    def _within(self, queue: str, most: int | None, now_ns: int) -> Generator[Contract, None, bool]:
        """The first waiting job takes from the jobs after it that have something to give (natjam, section 4).

        Each job takes as many as it lacks before it is the next one's turn; together they take at most ``most`` in one
        run.  Returns False if that limit ended the run, so that the next run may ask for more.
        """
        view = self._state.view(now_ns)
        jobs = tuple(self._state.queues.job_views(queue, now_ns))
        possible = self._victim_jobs.among(jobs)
        order = order_jobs(self._scheduler.preemption_order, view, jobs)
        made = 0
        for rank, name in enumerate(order):
            application = self._state.applications[name]
            lacking = application.requests.for_any_node - self._preemptor.outstanding(name)
            for _ in range(lacking):
                later = tuple([possible[job] for job in order[rank + 1 :] if job in possible])
                if not later:
                    return True
                if made == most:
                    return False
                yield self._victim_jobs.choose(application.name, later, possible, view)
                made += 1
        return True
