"""The Allocator: a part of the ResourceManager that gives out containers (natjam, section 3.2).

Theory of operation
-------------------
Containers are given out when a NodeManager's heartbeat arrives.  The allocation policy chooses the queue for the next
container, and the job selection chooses the job in it.  In a queue, suspended tasks come first.  In a job, the
ApplicationMaster's container comes first, then maps, then new reduces (R1).  The placement policy decides whether a
suspended task resumes in the container at hand.  A stopped process can only resume on its own node.  The policy may
give it up for a container on another node: it is killed, and once its end is known its job asks for another container
(os-assisted-preemption, section V-A).

If the allocation gives shares, the shares alone decide (``emulator.core.resource_manager.shares``): first
ApplicationMasters, then the most underallocated job; in that job first maps, then suspended tasks, then new reduces.
ApplicationMasters outside containers are launched when their job is submitted, on the nodes in turn.

No container is given out above what a transactional workload leaves (``emulator.core.resource_manager.withholding``).

Requests are counted from the moment they arrive and containers from the moment they are known free, or are not withheld
any more: the later of the two goes along with an allocation, because that is where scheduling overhead begins.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from emulator.core.command_ledger import OrderLedger
from emulator.core.decisions import PolicyError, allocate, place
from emulator.core.effects import Effect
from emulator.core.messages import (
    AllocatedContainer,
    ResumeAsk,
    StartContainer,
    TaskId,
    TaskOrder,
    job_address,
    node_address,
)
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeState
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.preemptor import Preemptor
from emulator.core.resource_manager.shares import Instance, Shares
from emulator.core.settings import Settings
from emulator.policies.views import AllocationDecision, ClusterView, NodeView, SuspendedView
from emulator.vocabulary import Kind, Order

_BEST_ELSEWHERE = 1
"""The lowest placement rank of a task on a node that is not its own (``PlacementDecision``)."""


class _Wish(NamedTuple):
    """The request that a container is given to."""

    application: Application
    kind: Kind
    task: TaskId | None = None
    """The suspended task that resumes, if any."""


class _Offer:
    """A free container of a node, offered to one request after another."""

    def __init__(self, node: Node, view: ClusterView) -> None:
        self.node = node
        self.view = view
        self.is_host = False
        """Whether a task that was suspended on this node waits to resume."""
        self.is_declined = False
        """Whether a placement policy has declined it."""
        self.is_for_others = False
        """Whether some requests cannot use this container."""
        self.holds_until_ns: int | None = None
        """When a policy may decide otherwise even if nothing else changes."""
        self.has_given_up = False
        """Whether a stopped process will be killed because its task resumes elsewhere."""

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


class Allocator:
    """See the module's theory of operation."""

    def __init__(
        self,
        settings: Settings,
        state: ClusterState,
        preemptor: Preemptor,
        orders: OrderLedger,
        shares: Shares | None,
    ) -> None:
        self._allocation = settings.scheduler.allocation
        self._shares = shares
        self._placement = settings.scheduler.placement
        one_rack = len({node.rack for node in settings.nodes}) == 1
        self._strangers_are_alike = self._placement.strangers_are_alike and one_rack
        self._victims = settings.scheduler.victims
        self._tier = settings.tier
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        self._containers_made = 0

    def allocate(self, node: Node, now_ns: int) -> list[Effect] | None:
        """Give out the free containers of ``node``; None: nothing was given or decided.  Raises PolicyError."""
        effects: list[Effect] = []
        state, asked = self._state, self._shares.asked if self._shares is not None else 0
        state.attention.selection_left_out = False
        given, has_given_up = 0, False
        while node.free and state.queues.pending:
            if state.used >= state.limit:
                state.attention.refused(node_address(node.name), self._is_awaited(node), None)
                break
            offer = _Offer(node, state.view(now_ns))
            if self._shares is not None:
                wish = self._wish_by_shares(self._shares, offer)
            else:
                decision = allocate(self._allocation, offer.view)
                if given == decision.per_heartbeat:
                    state.attention.expect(node_address(node.name))  # a task may wait for this node
                    break
                wish = self._next_wish(decision, offer)
            has_given_up |= offer.has_given_up
            if wish is None:
                another = offer.is_for_others or (offer.is_declined and not self._strangers_are_alike)
                if not another and not state.attention.selection_left_out:  # else another beat may still get one
                    address = node_address(node.name)
                    state.attention.refused(address, offer.is_host, offer.holds_until_ns)
                break
            effects += self._give(wish, node, now_ns)
            given += 1
        decided = self._shares is not None and self._shares.asked != asked
        return effects if given or decided or has_given_up else None

    def free_node_due_ns(self, now_ns: int) -> int | None:
        """From when on a heartbeat of any node with a free container may get one; None: none is wanted, or none would
        be given unless something changes."""
        state = self._state
        if not state.free_nodes or not state.queues.pending or state.used >= state.limit:
            return None
        return state.attention.free_node_ns(now_ns)

    def _is_awaited(self, node: Node) -> bool:
        """Whether a suspended task waits that was suspended there."""
        waiting = (application.requests.resumes.values() for application in self._state.applications.values())
        return any(resume.node == node.name for resumes in waiting for resume, _ in resumes)

    def _next_wish(self, decision: AllocationDecision, offer: _Offer) -> _Wish | None:
        if decision.shares is not None:
            name = self._allocation.name
            raise PolicyError(f"allocation policy {name} gives shares; name a record of it whose gives_shares is true")
        offer.holds_until(decision.valid_until_ns)
        for queue in decision.order:
            wish = self._first_wish(queue, decision.resumes_first, offer)
            if wish is not None:
                return wish
        return None

    def _first_wish(self, queue: str, resumes_first: bool, offer: _Offer) -> _Wish | None:
        """The next request of ``queue`` to get the container."""
        waiting = self._state.waiting(queue, offer.view)
        for application in waiting.resuming if resumes_first else ():
            task = self._resume_for(application, offer)
            if task is not None:
                return _Wish(application, task.kind, task)
        for application in waiting.new if resumes_first else waiting.jobs:
            requests = application.requests
            if requests.application_master is not None:
                return _Wish(application, Kind.APPLICATION_MASTER)
            avoids = offer.node.name in requests.avoided
            offer.is_for_others |= avoids
            if requests.since[Kind.MAP] and not avoids:
                return _Wish(application, Kind.MAP)
            task = None if resumes_first else self._resume_for(application, offer)
            if task is not None or (requests.since[Kind.REDUCE] and not avoids):
                return _Wish(application, task.kind if task else Kind.REDUCE, task)
        return None

    def _wish_by_shares(self, shares: Shares, offer: _Offer) -> _Wish | None:
        """The next request to get the container when every job has a share."""
        node = offer.node
        if node.has_free(Kind.APPLICATION_MASTER):
            for application in self._state.applications.values():
                if application.requests.application_master is not None:
                    return _Wish(application, Kind.APPLICATION_MASTER)
        for instance in shares.instances(offer.view.now_ns):
            if not node.has_free(instance.kinds[0]):
                offer.is_for_others = True
                continue
            offer.holds_until(instance.until_ns)
            for application in shares.served(instance):
                wish = self._wish_of(application, instance, offer)
                if wish is not None:
                    return wish
        return None

    def _wish_of(self, application: Application, instance: Instance, offer: _Offer) -> _Wish | None:
        since = application.requests.since
        avoids = offer.node.name in application.requests.avoided
        offer.is_for_others |= avoids
        if Kind.MAP in instance.kinds and since[Kind.MAP] and not avoids:
            return _Wish(application, Kind.MAP)
        if Kind.REDUCE not in instance.kinds:
            return None
        task = self._resume_for(application, offer)
        if task is not None or (since[Kind.REDUCE] and not avoids):
            return _Wish(application, task.kind if task else Kind.REDUCE, task)
        return None

    def _resume_for(self, application: Application, offer: _Offer) -> TaskId | None:
        """The suspended task of ``application`` that resumes in the container, if any: the one with the lowest
        placement rank; among equals, the first in the job's own order."""
        maps_wait = bool(application.requests.since[Kind.MAP])
        best: tuple[int, TaskId] | None = None
        for task, (resume, since_ns) in application.requests.resumes.items():
            if maps_wait and task.kind is Kind.REDUCE:
                break  # maps come first, else its reduces would wait for their output for ever
            offer.is_host |= resume.node == offer.node.name
            if resume.container is not None:
                if self._is_stopped_at(resume.container, offer.node):
                    return task
                if self._placement.gives_up:
                    self._consider_giving_up(application, resume, since_ns, offer)
                continue
            if offer.node.name in application.requests.avoided:
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

    def _is_stopped_at(self, container: str, node: Node) -> bool:
        """Whether the process can resume there; not before its node has reported that it stopped."""
        held = self._state.containers.get(container)
        return held is not None and held.node == node.name and not held.given_up and not node.ledger.on_slot(held.id)

    def _consider_giving_up(self, application: Application, resume: ResumeAsk, since_ns: int, offer: _Offer) -> None:
        """Ask the placement policy whether to give up a process that is stopped on another node.  Its ApplicationMaster
        asks for a container for another attempt only when the end of the process is known."""
        held = self._state.containers.get(resume.container or "")
        if held is None or held.given_up or resume.node == offer.node.name:
            return
        decision = place(self._placement, offer.view, _suspended_view(application, resume, since_ns), offer.node_view)
        offer.holds_until(decision.holds_until_ns)
        if not decision.gives_up:
            offer.is_declined = True
            return
        held.given_up = offer.has_given_up = True
        why = f"given up: {resume.node} had no room for it in time"
        application.orders.append(TaskOrder(resume.task, Order.KILL, held.id, why))
        self._state.attention.expect(job_address(application.name))

    def _give(self, wish: _Wish, node: Node, now_ns: int) -> list[Effect]:
        state, application = self._state, wish.application
        slot = node.take_free(wish.kind)
        if not node.free:
            del state.free_nodes[node.name]
        if wish.task is not None and self._tier is not None:
            image_bytes = application.requests.resumes[wish.task][0].image_bytes
            node.restores_until_ns = max(now_ns, node.restores_until_ns) + self._tier.read_ns(image_bytes)
        since_ns, container = _take_request(wish)
        ready_ns = max(since_ns, slot.since_ns, state.room_ns)
        held = state.containers.get(container) if container else None
        if held is None:
            held = self._new_container(wish, node, now_ns)
        else:
            node.ledger.resume(held.id, held.kind)
        held.task, held.slot_ns = wish.task, now_ns
        application.slots += 1
        state.used += 1
        application.held[wish.kind] += 1
        application.running_victims += wish.kind in self._victims
        state.queues.note(application)
        self._preemptor.allocated(application.name, slot.former_owner, application.requests.for_any_node)
        if wish.kind is Kind.APPLICATION_MASTER:
            return self._launch_application_master(application, held, ready_ns, now_ns)
        application.allocated.append(
            AllocatedContainer(held.id, wish.kind, node.name, ready_ns, wish.task, node.registration)
        )
        state.attention.expect(job_address(application.name))
        return []

    def _new_container(self, wish: _Wish, node: Node, now_ns: int) -> HeldContainer:
        self._containers_made += 1
        name, application = f"container-{self._containers_made:06d}", wish.application
        held = HeldContainer(name, application.name, wish.kind, node.name, wish.task, now_ns)
        self._state.containers[held.id] = application.containers[held.id] = held
        application.nodes[node.name] = None
        # Only the job knows which task this is: until it is stopped it counts as the job's largest.
        largest_bytes = max(application.facts.task_memory_bytes, default=None)
        node.ledger.take(held.id, held.kind, None if held.kind is Kind.APPLICATION_MASTER else largest_bytes)
        return held

    def start_outside(self, application: Application, now_ns: int) -> list[Effect]:
        """Launch the job's ApplicationMaster, which takes no container, on the next node in turn."""
        nodes = [node for node in self._state.nodes.values() if node.state is not NodeState.LOST]
        node = nodes[(application.order + application.master_attempts) % len(nodes)]
        held = self._new_container(_Wish(application, Kind.APPLICATION_MASTER), node, now_ns)
        return self._launch_application_master(application, held, now_ns, now_ns)

    def _launch_application_master(
        self, application: Application, held: HeldContainer, ready_ns: int, now_ns: int
    ) -> list[Effect]:
        application.master, application.master_since_ns = held.id, now_ns
        attempt = f"{application.name}/am" + (f".{application.master_attempts}" if application.master_attempts else "")
        application.master_attempts += 1
        registration = self._state.nodes[held.node].registration
        start = StartContainer(
            held.id, application.name, Kind.APPLICATION_MASTER, 0, attempt, ready_ns, registration=registration
        )
        return [self._orders.send(held.id, held.node, start, now_ns)]


def _take_request(wish: _Wish) -> tuple[int, str | None]:
    """Remove the request that is served; returns when it arrived, and the stopped process's container, if any."""
    requests = wish.application.requests
    if wish.kind is Kind.APPLICATION_MASTER:
        since_ns, requests.application_master = requests.application_master, None
        assert since_ns is not None
        return since_ns, None
    if wish.task is not None:
        resume, since_ns = requests.resumes.pop(wish.task)
        return since_ns, resume.container
    return requests.since[wish.kind].popleft(), None


def _suspended_view(application: Application, resume: ResumeAsk, since_ns: int) -> SuspendedView:
    task = resume.task
    return SuspendedView(
        application.name,
        task.kind,
        task.number,
        resume.node,
        resume.suspended_ns,
        since_ns,
        resume.container is not None,
        image_bytes=resume.image_bytes,
        avoids=application.requests.avoided,
    )
