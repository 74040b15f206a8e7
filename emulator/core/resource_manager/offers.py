"""Offers: the free containers of a node, each offered to one request after another (natjam, section 3.2).

Theory of operation
-------------------
Containers are offered when a NodeManager's heartbeat arrives.  The allocation says which jobs are asked, in which
order; in a job the ApplicationMaster's container comes first, then maps, then new tasks of its other groups, group by
group (R1).  Where containers have several sizes, a map may find no node with room for it; its job's other tasks wait
too then, or they would take the room that becomes free, and wait there for its output.  A new container is on the node
whose heartbeat it is, or on the one that the fit policy chooses.  The placement policy decides whether a suspended task
resumes in the container at hand.  A stopped process can only resume on its own node.  The policy may give it up for a
container on another node: it is killed, and once its end is known its job asks for another container
(os-assisted-preemption, section V-A).

An allocation of this form is asked for containers to reclaim once per period of the Preemptor (``ByContract``;
natjam, section 3.2): first those for a transactional workload (``emulator.core.resource_manager.transactional``), then
those that jobs lack.  No container is given out above what a transactional workload leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from emulator.core.decisions import choose_node, place
from emulator.core.effects import Effect
from emulator.core.messages import ResumeAsk, TaskOrder
from emulator.core.resource_manager.allocation import (
    Contract,
    Decision,
    Grant,
    SchedulerEvent,
    SchedulerEventType,
    StrictContract,
)
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Preemptor
from emulator.core.resource_manager.gangs import GangReservation, Gangs
from emulator.core.resource_manager.reservations import Reservation, Reservations
from emulator.core.resource_manager.transactional import TransactionalLoad
from emulator.core.resource_manager.victims import VictimJobs
from emulator.core.settings import Settings
from emulator.policies.views import ClusterView, JobView, NodeView, SuspendedView
from emulator.vocabulary import MASTER_GROUP, Order, TaskGroup, TaskId, Work

TASKS = (Work.SHUFFLE, Work.KEYS)
"""What tasks do."""
_BEST_ELSEWHERE = 1
"""The lowest placement rank of a task on a node that is not its own (``PlacementDecision``)."""


class Offer:
    """A free container of a node, offered to one request after another."""

    def __init__(self, node: Node, view: ClusterView, given: int) -> None:
        self.node = node
        self.view = view
        self.given = given
        """Containers given out before, in answer to the same heartbeat."""
        self.is_host = False
        """Whether a task that was suspended on this node waits to resume."""
        self.is_declined = False
        """Whether a placement policy has declined it."""
        self.is_for_others = False
        """Whether some requests cannot use this container."""
        self.holds_until_ns: int | None = None
        """When a policy may decide otherwise even if nothing else changes."""
        self.hold: GangReservation | None = None
        """The room that a gang keeps which waits before the requests asked from now on."""
        self.is_held = False
        """Whether this container is part of it."""
        self.reserved: dict[str, list[Reservation]] = {}
        """The reservations that stand on each node that was looked at; forgotten when one is made or ends."""

    @cached_property
    def node_view(self) -> NodeView:
        """The node as placement policies see it; made only if a suspended task waits."""
        offered = self.view.node(self.node.name)
        assert offered is not None
        return offered

    def holds_until(self, at_ns: int | None) -> None:
        """A decision may change at ``at_ns``; keep the earliest such time."""
        if at_ns is not None and (self.holds_until_ns is None or at_ns < self.holds_until_ns):
            self.holds_until_ns = at_ns


Choose = Callable[[Offer], Sequence[Grant]]
"""Chooses the request that gets the container offered: nobody's, one job's, or a whole gang's, on other nodes too."""


class Offers:
    """The offers of an allocation that answers nodes' heartbeats (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor) -> None:
        self.abandoned = 0
        """Stopped processes that were given up because their tasks resume elsewhere."""
        self._placement = settings.scheduler.placement
        self._fit = settings.scheduler.fit
        one_rack = len({node.rack for node in settings.nodes}) == 1
        self._remote_nodes_are_equal = self._placement.strangers_are_alike and one_rack
        self._has_sizes = settings.has_sizes
        self._state = state
        self.reservations = Reservations(settings, state, preemptor)
        self.gangs = Gangs(state, self.reservations, settings.has_sizes)

    def answer(self, node: Node, now_ns: int, choose: Choose) -> Iterator[Grant]:
        """Give out the free containers of ``node``.  Raises PolicyError."""
        state, given = self._state, 0
        state.awaited.selection_left_out = False
        while node.is_free and state.queues.pending:
            if state.used >= state.limit:
                state.awaited.refused(node.address, self.is_awaited(node), None)
                return
            offer = Offer(node, state.view(now_ns), given)
            grants = choose(offer)
            if not grants:
                another = offer.is_for_others or (offer.is_declined and not self._remote_nodes_are_equal)
                if state.awaited.selection_left_out:
                    return  # another beat may still get one
                if not another:
                    state.awaited.refused(node.address, offer.is_host, offer.holds_until_ns)
                elif not given:  # else the next beat may be the turn of another request
                    state.awaited.refused_one_node(node.address, offer.holds_until_ns)
                return
            yield from grants
            given += len(grants)

    def due_ns(self, now_ns: int) -> int | None:
        """From when on the heartbeat of any node with a free container may get one; None: none is wanted, or none would
        be given unless something changes."""
        state = self._state
        if not state.free_nodes or not state.queues.pending or state.used >= state.limit:
            return None
        return state.awaited.free_node_ns(now_ns, len(state.free_nodes))

    def is_awaited(self, node: Node) -> bool:
        """Whether a suspended task waits that was suspended there."""
        waiting = (application.requests.resumes.values() for application in self._state.applications.values())
        return any(resume.node == node.name for resumes in waiting for resume, _ in resumes)

    def master_of(self, application: Application, offer: Offer) -> Grant | None:
        """The job's request for its ApplicationMaster's container."""
        if application.requests.application_master is None:
            return None
        return self._new(application, MASTER_GROUP, offer)

    def _new(self, application: Application, group: TaskGroup, offer: Offer) -> Grant | None:
        """A container for a new process, if a node that it may get has room for it."""
        node = self._node_for(application, group, offer)
        if node is not None:
            return Grant(application, group, node)
        offer.is_for_others = True
        return None

    def _node_for(self, application: Application, group: TaskGroup, offer: Offer) -> Node | None:
        """The node whose heartbeat it is, if that has room; or the one that the fit policy chooses, of those with room
        that no gang holds and that the job does not avoid."""
        request, state = application.request_for(group), self._state
        if self._fit.takes_the_offer:
            return offer.node if self._fits(application, group, offer.node, offer) else None
        avoided = application.requests.avoided if group is not MASTER_GROUP else ()
        nodes = [
            node
            for node in state.nodes.values()
            if node.is_free
            and node.has_free(group.work)
            and self._fits(application, group, node, offer)
            and node.name not in avoided
        ]
        if offer.hold is not None:
            nodes = [node for node in nodes if node is offer.node or self.gangs.spares(offer.hold, node)]
        views = tuple([view for node in nodes if (view := offer.view.node(node.name)) is not None])
        if not views:
            return None
        return state.nodes[choose_node(self._fit, offer.view, request, views, offer.node_view)]

    def _fits(
        self, application: Application, group: TaskGroup, node: Node, offer: Offer, resumes: bool = False
    ) -> bool:
        """Whether the node has room that is not reserved for others; ``resumes``: for a process stopped there."""
        needs = node.needs(group.work, application.request_for(group), resumes)
        if not node.fits(needs):
            return False
        if node.name not in offer.reserved:
            offer.reserved[node.name] = self.reservations.standing_on(node.name)
        return node.fits(needs, self.reservations.kept_from(application, group, node, offer.reserved[node.name]))

    def task_of(
        self, application: Application, offer: Offer, works: tuple[Work, ...], resumes: bool = True
    ) -> Grant | None:
        """The job's request for a task that does one of these and can use the container: one that writes output for the
        shuffle, a suspended task if such are considered, a new one that walks keys.  A gang that has not started can
        use no single container."""
        if application.requests.at_once or application.must_start_whole:
            return None
        avoids = offer.node.name in application.requests.avoided
        offer.is_for_others |= avoids
        if Work.SHUFFLE in works and not avoids:
            grant = self._first_new(application, application.for_shuffle, offer)
            if grant is not None:
                return grant
        if Work.KEYS not in works:
            return None
        grant = self.resume_of(application, offer) if resumes else None
        if grant is None and not avoids and not (self._has_sizes and application.maps_wait):
            return self._first_new(application, application.others, offer)
        return grant

    def gang_of(self, application: Application, offer: Offer) -> Sequence[Grant]:
        """Containers for the whole gang; none: it has too little room, and holds what there is (``Offer.hold``)."""
        grants = self.gangs.grants(application, offer.node)
        if len(grants) >= application.requests.at_once:
            return grants
        self.gangs.explain_wait(application, len(grants))
        offer.hold = self.gangs.reserve(application)
        offer.is_held = not self.gangs.spares(offer.hold, offer.node)
        offer.is_for_others |= bool(offer.hold.at_node or application.requests.avoided)
        for resume, since_ns in application.requests.resumes.values():
            offer.is_host |= resume.node == offer.node.name
            if resume.container is not None and self._placement.gives_up:
                self._consider_abandoning(application, resume, since_ns, offer)
        return ()

    def _first_new(self, application: Application, groups: tuple[TaskGroup, ...], offer: Offer) -> Grant | None:
        """The first new task of these groups that waits and fits."""
        since = application.requests.since
        waiting = (self._new(application, group, offer) for group in groups if since[group.name])
        return next(filter(None, waiting), None)

    def resume_of(self, application: Application, offer: Offer) -> Grant | None:
        """The suspended task of ``application`` that resumes in the container, if any: the one with the lowest
        placement rank; among equals, the first in the job's own order."""
        requests = application.requests
        if not requests.resumes or requests.at_once or application.must_start_whole:
            return None
        task = self._resuming(application, offer)
        return None if task is None else Grant(application, application.groups[task.group], offer.node, task)

    def _resuming(self, application: Application, offer: Offer) -> TaskId | None:
        groups, maps_wait = application.groups, application.maps_wait
        best: tuple[int, TaskId] | None = None
        rooms: dict[str, bool] = {}  # for each group, whether a new container of it fits
        for task, (resume, since_ns) in application.requests.resumes.items():
            if maps_wait and groups[task.group].work is Work.KEYS:
                break  # maps come first, else its reduces would wait for their output for ever
            offer.is_host |= resume.node == offer.node.name
            if resume.container is not None:
                if self._state.is_stopped_at(resume.container, offer.node):
                    if self._fits(application, groups[task.group], offer.node, offer, resumes=True):
                        return task
                    continue
                if self._placement.gives_up:
                    self._consider_abandoning(application, resume, since_ns, offer)
                continue
            if task.group not in rooms:
                rooms[task.group] = self._fits(application, groups[task.group], offer.node, offer)
            if offer.node.name in application.requests.avoided or not rooms[task.group]:
                offer.is_for_others = True
                continue
            if resume.node in application.requests.avoided:
                return task  # its old node is to be avoided, so it does not wait for that
            if best is not None and best[0] == _BEST_ELSEWHERE and resume.node != offer.node.name:
                continue
            suspended = _suspended_view(application, resume, since_ns)
            decision = place(self._placement, offer.view, suspended, offer.node_view)
            if not decision.take:
                offer.is_declined = True
                offer.holds_until(decision.holds_until_ns)
            elif decision.rank == 0:
                return task
            elif best is None or decision.rank < best[0]:
                best = (decision.rank, task)
        return None if best is None else best[1]

    def _consider_abandoning(self, application: Application, resume: ResumeAsk, since_ns: int, offer: Offer) -> None:
        """Ask the placement policy whether to give up a process that is stopped on another node.  Its ApplicationMaster
        asks for a container for another attempt only when the end of the process is known."""
        held = self._state.containers.get(resume.container or "")
        if held is None or held.is_abandoned or resume.node == offer.node.name:
            return
        decision = place(self._placement, offer.view, _suspended_view(application, resume, since_ns), offer.node_view)
        offer.holds_until(decision.holds_until_ns)
        if not decision.gives_up:
            offer.is_declined = True
            return
        held.is_abandoned = True
        self.abandoned += 1
        why = f"given up: {resume.node} had no room for it in time"
        application.news.order(TaskOrder(resume.task, Order.KILL, held.id, why))


def _suspended_view(application: Application, resume: ResumeAsk, since_ns: int) -> SuspendedView:
    task = resume.task
    return SuspendedView(
        application.name,
        task.group,
        task.number,
        resume.node,
        resume.suspended_ns,
        since_ns,
        resume.container is not None,
        image_bytes=resume.image_bytes,
        avoids=application.requests.avoided,
    )


class Components(NamedTuple):
    """The parts of a ResourceManager that allocations look at."""

    settings: Settings
    state: ClusterState
    preemptor: Preemptor
    transactional: TransactionalLoad


class ByContract(ABC):
    """An ``Allocation`` that offers the free containers of nodes, and reclaims once per period."""

    def __init__(self, parts: Components) -> None:
        self._scheduler = parts.settings.scheduler
        self._preempts = self._scheduler.preempts
        self._state = parts.state
        self._preemptor = parts.preemptor
        self._transactional = parts.transactional
        self._offers = Offers(parts.settings, parts.state, parts.preemptor)
        self._victim_jobs = VictimJobs(parts.settings, parts.state, parts.preemptor)

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        offers, reservations = self._offers, self._offers.reservations
        return (
            offers.abandoned + offers.gangs.explained + reservations.made + reservations.ended + self._preemptor.changes
        )

    def due_ns(self, event_type: SchedulerEventType, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if event_type is SchedulerEventType.HEARTBEAT:
            return self._offers.due_ns(now_ns)
        if event_type is not SchedulerEventType.TIME or not self._preempts:
            return None
        return now_ns if self._transactional.shortfall > 0 else self._lack_due_ns(now_ns)

    def decide(self, event: SchedulerEvent) -> Iterator[Decision]:
        """See ``Allocation``."""
        if event.node is not None:
            return self._offers.answer(event.node, event.now_ns, self._choose)
        return self._reclaim(event.now_ns) if event.type is SchedulerEventType.TIME else iter(())

    def _reclaim(self, now_ns: int) -> Iterator[Decision]:
        if not self._preempts:
            return
        yield from self._transactional.contracts(self._jobs_with_victims(now_ns), self._victim_jobs, now_ns)
        if self._lack_due_ns(now_ns) == now_ns:
            yield from self._for_jobs(now_ns)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        return [*self._offers.gangs.explain(), *self._victim_jobs.explain()]

    def _jobs_with_victims(self, now_ns: int) -> Iterator[dict[str, JobView]]:
        """Groups of jobs with a task to give, in the order in which they must give to a transactional workload."""
        for queue in reversed(self._scheduler.queues):
            yield self._victim_jobs.among(self._state.queues.job_views(queue.name, now_ns))

    def _record_host(self, offer: Offer) -> None:
        """Not all jobs were asked: one of those left out may have a suspended task that waits for this very node."""
        offer.is_host = offer.is_host or self._offers.is_awaited(offer.node)

    @abstractmethod
    def _choose(self, offer: Offer) -> Sequence[Grant]:
        """The next request to get the container offered, or all requests of a gang."""

    @abstractmethod
    def _lack_due_ns(self, now_ns: int) -> int | None:
        """When a job may next take a container back; None: not until something changes."""

    @abstractmethod
    def _for_jobs(self, now_ns: int) -> Iterator[Contract | StrictContract]:
        """Ask for the containers that jobs lack.  Raises PolicyError."""
