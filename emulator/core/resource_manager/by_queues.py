"""Allocation by queues: an order of queues, and queues that take from queues (natjam, sections 3.2 and 4).

Theory of operation
-------------------
The allocation policy chooses the queue for the next container, and the job selection chooses the job in it.  In a
queue, suspended tasks come first, unless the policy says otherwise.

The policy says, too, which queue may take containers back, and from which queues.  For each container that a job of
such a queue lacks, a victim is chosen among the jobs that have one to give, those of the least urgent queue first.  A
queue that may take from itself does so between its jobs.  All this happens only when the cluster is full.

A *paced* allocation reclaims by name, round by round (YARN's ProportionalCapacityPreemptionPolicy).  Once per
interval the policy's pace says how much it would reclaim, and from which jobs.  The task eviction order names the
containers: one after another, those that make some of it free (``emulator.policies.yarn_ideal.Chosen``).  Each goes on
a list with the current time.  If a container is chosen again in a later round, at least ``wait`` after it went on the
list, it is taken by a strict contract.  If it is not chosen again, it is forgotten after twice ``wait``.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.decisions import allocate, order_jobs, order_tasks, takes
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.mechanisms import needs_no_job
from emulator.core.resource_manager.allocation import (
    Contract,
    Decision,
    Grant,
    SchedulerEvent,
    SchedulerEventType,
    StrictContract,
)
from emulator.core.resource_manager.applications import Application, HeldContainer
from emulator.core.resource_manager.offers import TASKS, ByContract, Components, Offer
from emulator.policies.policy import Pace, Reads
from emulator.policies.resources import total
from emulator.policies.views import AllocationDecision, ClusterView, JobView, Take, TaskView
from emulator.policies.yarn_ideal import ONE_CONTAINER, RoundVictims
from emulator.vocabulary import Resources


class ByQueues(ByContract):
    """An ``Allocation`` by queues (see the module's theory of operation)."""

    def __init__(self, parts: Components) -> None:
        super().__init__(parts)
        self._policy = self._scheduler.allocation
        reads = self._policy.reads - {Reads.PROGRESS}
        self._asks_again_on_change = self._scheduler.order_is_fixed and not reads
        """Whether the policies read only the queues and their jobs, in an order that never changes."""
        names = [queue.name for queue in self._scheduler.queues]
        self._takers = names if self._policy.queues.least_urgent_takes else names[:-1]
        """Queues that may ever take containers back."""
        self._all_asked: tuple[int, int, int] | None = None
        """State of queues and Preemptor when everything possible had been asked for."""
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
        decision = self._decided(offer.view)
        if decision.per_heartbeat is not None and offer.given >= decision.per_heartbeat:
            offer.is_for_others = True
            self._state.awaited.expect(offer.node.address)  # a task may wait for this node
            return ()
        offer.holds_until(decision.valid_until_ns)
        for queue in decision.order:
            grants = self._first_of(queue, decision.resumes_first, offer)
            if grants:
                return grants
        if offer.is_held or len(decision.order) < len(offer.view.queues):
            self._record_host(offer)
        return ()

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Sequence[Grant]:
        """The next request of ``queue`` to get the container, or all requests of a gang."""
        waiting = self._state.waiting(queue, offer.view)
        turns = ((waiting.jobs, self._any_of),)
        if resumes_first:
            turns = ((waiting.resuming, self._saved_of), (waiting.new, self._new_of))
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

    # ---- reclaiming ----

    def _lack_due_ns(self, now_ns: int) -> int | None:
        state = self._state
        if not any(map(state.queues.pending_in, self._takers)):
            return None
        if not (self._is_full or state.queues.gangs):
            return None  # natjam, section 3.2: only when the cluster is full
        if self._all_asked != self._stands or not self._asks_again_on_change:
            return now_ns
        return None if self._holds_until_ns is None else max(now_ns, self._holds_until_ns)

    @property
    def _is_full(self) -> bool:
        return not self._state.free_nodes or self._state.used >= self._state.limit

    @property
    def _stands(self) -> tuple[int, int, int]:
        """Stays the same until something changes that reclaiming depends on."""
        state = self._state
        return state.queues.changes, self._preemptor.changes, len(state.free_nodes) if state.queues.gangs else 0

    def _for_jobs(self, now_ns: int) -> Iterator[Contract | StrictContract]:
        view = self._state.view(now_ns)
        decision = self._decided(view)
        rooms = {queue.name: queue.maximum - queue.used for queue in view.queues}
        all_asked = True
        for queue, victims in decision.reclaim:
            others = tuple(victim for victim in victims if victim != queue)
            if others and not (yield from self._from_queues(queue, others, rooms[queue], now_ns)):
                break
            if queue in victims:
                all_asked &= yield from self._within(queue, decision.most_reclaims_in_a_run, now_ns)
        if all_asked:
            times_ns = (decision.valid_until_ns, self._state.next_victim_ns(now_ns))
            self._all_asked = self._stands
            self._holds_until_ns = min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def _from_queues(
        self, queue: str, victims: tuple[str, ...], room: int, now_ns: int
    ) -> Generator[Contract, None, bool]:
        """For the jobs of ``queue``, which may grow by ``room`` containers; returns whether jobs of other queues may
        take containers back too.  They may not if a gang holds what is free, because it would keep those as well."""
        possible: list[dict[str, JobView]] | None = None
        view = self._state.view(now_ns)
        for application in self._state.waiting(queue, view).jobs:
            outstanding = self._preemptor.outstanding(application.name)
            is_gang = self._offers.gangs.waits(application)
            lacking = self._lacking(application, room) - outstanding
            while lacking > 0:
                if possible is None:
                    possible = [self._victim_jobs.among(self._state.queues.job_views(name, now_ns)) for name in victims]
                if is_gang and not _has_enough(lacking, possible):
                    return False
                jobs = next(filter(None, possible), None)
                if jobs is None:
                    return True
                contracts = self._victim_jobs.choose(application.name, tuple(jobs.values()), jobs, view, lacking)
                yield from contracts
                outstanding, lacking = outstanding + len(contracts), lacking - len(contracts)
            if is_gang:
                return application.requests.at_once > room
            room -= outstanding
        return True

    def _lacking(self, application: Application, room: int | None = None) -> int:
        """Containers to reclaim for the job, if its queue may grow by ``room``.

        Only a gang takes containers back while others are free: it holds these, and they are too few for it.
        """
        requests = application.requests
        if requests.at_once:
            fits = (room is None or requests.at_once <= room) and self._offers.gangs.waits(application)
            return self._offers.gangs.lacking(application) if fits else 0
        if not self._is_full:
            return 0
        return requests.for_any_node if room is None else min(requests.for_any_node, room)

    def _within(self, queue: str, most: int | None, now_ns: int) -> Generator[Contract, None, bool]:
        """The first waiting job takes from the jobs after it that have something to give (natjam, section 4).

        Each job takes as many as it lacks before it is the next one's turn; together they take at most ``most`` in one
        run, a gang nevertheless all that it lacks.  Returns False if that limit ended the run, so that the next run may
        ask for more.  Jobs after a gang that waits take nothing: it would keep that.
        """
        view = self._state.view(now_ns)
        jobs = tuple(self._state.queues.job_views(queue, now_ns))
        possible = self._victim_jobs.among(jobs)
        order = order_jobs(self._scheduler.preemption_order, view, jobs)
        made = 0
        for rank, name in enumerate(order):
            application = self._state.applications[name]
            lacking = self._lacking(application) - self._preemptor.outstanding(name)
            is_gang, begun = self._offers.gangs.waits(application), False
            while lacking > 0:
                later = tuple([possible[job] for job in order[rank + 1 :] if job in possible])
                if not later or (is_gang and not _has_enough(lacking, ({job.name: job for job in later},))):
                    return True
                if most is not None and made >= most and not begun:
                    return False
                contracts = self._victim_jobs.choose(application.name, later, possible, view, lacking)
                yield from contracts
                made, lacking, begun = made + len(contracts), lacking - len(contracts), is_gang
            if is_gang:
                return True
        return True


def _has_enough(lacking: int, possible: Iterable[Mapping[str, JobView]]) -> bool:
    """Whether these jobs can give as much as a gang lacks: less is of no use to it."""
    return sum(job.reclaimable for jobs in possible for job in jobs.values()) >= lacking


class Candidates:
    """The list of containers that may be taken, each with the time when it went on the list."""

    def __init__(self, pace: Pace) -> None:
        self._interval_ns = pace.interval_ns
        self._wait_ns = pace.wait_ns
        self.since_ns: dict[str, int] = {}

    def round(self, chosen: Iterable[str], now_ns: int) -> list[str]:
        """The containers of ``chosen`` that are due; the others go on the list, or stay on it."""
        # Forget what the round before this one would have forgotten, even if that round was skipped.
        oldest_ns = now_ns - self._interval_ns - 2 * self._wait_ns
        self.since_ns = {container: since for container, since in self.since_ns.items() if since >= oldest_ns}
        due: list[str] = []
        for container in chosen:
            since_ns = self.since_ns.get(container)
            if since_ns is None:
                self.since_ns[container] = now_ns
            elif since_ns + self._wait_ns <= now_ns:
                del self.since_ns[container]
                due.append(container)
        return due


class _ChosenFrom(NamedTuple):
    """A container that a round would take: the tasks that it was chosen from, and their order."""

    tasks: Sequence[TaskView]
    order: tuple[str, ...]


class ByRounds:
    """An ``Allocation`` that reclaims in rounds (see the module's theory of operation)."""

    def __init__(self, parts: Components, pace: Pace, offers: ByQueues) -> None:
        self._rounds_that_changed = 0
        self._offers = offers
        self._scheduler = parts.settings.scheduler
        self._seed = parts.settings.seed
        self._pace = pace
        self._state = parts.state
        self._candidates = Candidates(pace)
        self._explains = needs_no_job(self._scheduler.mechanism.among)
        """Whether nobody else will explain: a job that is asked explains what it gives."""
        self._whys: list[Effect] = []

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return self._rounds_that_changed + self._offers.changes

    def asked_ns(self, occasion: SchedulerEventType, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if occasion is SchedulerEventType.TIME:
            return now_ns if self._scheduler.preempts and self._state.queues.pending else None
        return self._offers.asked_ns(occasion, now_ns)

    def decide(self, asked: SchedulerEvent) -> Iterator[Decision]:
        """See ``Allocation``."""
        if asked.occasion is SchedulerEventType.TIME:
            return self._round(asked.now_ns, asked.planned_ns)
        return self._offers.decide(asked)

    def _round(self, now_ns: int, planned_ns: int) -> Iterator[StrictContract]:
        """One round; the times on the list are planned times."""
        if self.asked_ns(SchedulerEventType.TIME, now_ns) is None:
            return
        view = self._state.view(now_ns)
        chosen, among = dict[str, _ChosenFrom](), RoundVictims()
        for take in takes(self._scheduler.allocation, self._pace, view):
            self._choose(take, view, chosen, among)
        before = self._candidates.since_ns
        due = self._candidates.round(chosen, planned_ns)
        self._rounds_that_changed += self._candidates.since_ns != before
        for container in due:
            held = self._state.containers[container]
            if self._explains:
                tasks, order = chosen[container]
                in_order = (held.id, *(other for other in order if other != held.id))
                self._whys.append(explain_tasks(self._scheduler.task_eviction.name, held.job, tasks, in_order, 1))
            yield StrictContract(held)

    def _choose(self, take: Take, view: ClusterView, chosen: dict[str, _ChosenFrom], among: RoundVictims) -> None:
        """Add the containers of ``take`` to ``chosen``."""
        found: dict[str, _ChosenFrom] = {}
        names = among.choose(take, self._in_order(take, view, chosen, found))
        chosen |= {name: found[name] for name in names}

    def _in_order(
        self, take: Take, view: ClusterView, chosen: Container[str], found: dict[str, _ChosenFrom]
    ) -> Iterator[tuple[str, Resources]]:
        """The containers that may go for ``take``, the first victim first, each with what it makes free: all of a gang
        that goes with it.  They are noted in ``found``."""
        state = self._state
        for job in take.jobs:
            tasks = tuple(
                task
                for task in view.tasks(job)
                if state.may_be_victim(task, view.now_ns) and task.container not in chosen
            )
            if not tasks:
                continue
            # One draw per job, so that a random order stays the same from round to round.
            random = keyed_random(self._seed, "rm", "candidates", job)
            order = order_tasks(self._scheduler.task_eviction, view, tasks, random)
            found |= dict.fromkeys(order, _ChosenFrom(tasks, order))
            frees = [self._offers.frees(state.containers[name]) or ONE_CONTAINER for name in order]
            if order and state.applications[job].is_evicted_whole:
                order, frees = order[:1], [total(frees, ())]
            yield from zip(order, frees, strict=True)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys, self._whys = self._whys, []
        return [*self._offers.explain(), *whys]
