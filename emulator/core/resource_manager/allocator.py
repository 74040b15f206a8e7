"""The Allocator: carries out grants, so that a request has a container and a node has one less.

Theory of operation
-------------------
An allocation decides who gets a container (``emulator.core.resource_manager.allocation``).  ApplicationMasters outside
containers are not its business: they are launched when their job is submitted, on the nodes in turn.

Requests are counted from the moment they arrive and containers from the moment they are known free, or are not withheld
any more: the later of the two goes along with an allocation, because that is where scheduling overhead begins.

If a job is allocated far more containers at one instant than it has tasks, each of them was reclaimed at that instant.
Time would stop in a simulation, so the run ends.  What lies less than ``LEAST_WAIT_NS`` apart counts as one instant.
"""

from __future__ import annotations

from collections import Counter

from emulator.core.decisions import PolicyError
from emulator.core.delivery import CommandLedger
from emulator.core.effects import Effect
from emulator.core.messages import AllocatedContainer, StartContainer
from emulator.core.resource_manager.allocation import Grant
from emulator.core.resource_manager.applications import Application, HeldContainer, NodeState
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Preemptor
from emulator.core.settings import Settings
from emulator.policies.policy import LEAST_WAIT_NS
from emulator.vocabulary import MASTER, MASTER_GROUP, Resources, Work, counted

_FREE_GRANTS, _GRANTS_FOR_A_TASK = 100, 5
"""At one instant, a job may be allocated so many containers, and so many more for each of its tasks."""


class Allocator:
    """Carries out grants for the ResourceManager (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor, orders: CommandLedger) -> None:
        self._may_allocate = settings.scheduler.may_take
        self._policy = settings.scheduler.allocation.name
        self._tier = settings.tier
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        self._containers_made = 0
        self._instant_ns = -LEAST_WAIT_NS
        self._granted: Counter[str] = Counter()
        """How many containers each job was allocated at this instant."""

    def allocate(self, grant: Grant, now_ns: int) -> list[Effect]:
        """Give a container of a node, which has a free one that suits, to the request.

        Raises PolicyError if the job is allocated containers at one instant without end.
        """
        self._check_instant(grant, now_ns)
        state, application, node = self._state, grant.application, grant.node
        stopped = application.stopped_container(grant.task)
        request = application.request_for(grant.group)
        free_ns, owner = node.allocate_free(node.needs(grant.group.work, request, resumes=stopped in state.containers))
        if not node.is_free:
            state.has_none(node)
        if grant.task is not None and self._tier is not None:
            image_bytes = application.requests.resumes[grant.task][0].image_bytes
            node.restores_until_ns = max(now_ns, node.restores_until_ns) + self._tier.read_ns(image_bytes)
        since_ns, container = _remove_request(grant)
        ready_ns = max(since_ns, free_ns, state.capacity_freed_ns)
        held = state.containers.get(container) if container else None
        if held is None:
            held = self._new_container(grant, request, now_ns)
        else:
            node.ledger.resume(held.id)
        held.task, held.slot_ns = grant.task, now_ns
        state.mark_changed(held)
        held.ready_ns = ready_ns = max(ready_ns, held.ready_ns + 1)
        application.slots += 1
        state.used += 1
        application.held[grant.group.name] += 1
        if self._may_allocate(grant.group):
            application.victims[held.id] = held
        state.queues.update(application)
        self._preemptor.allocated(application.name, owner, application.requests.for_any_node)
        if grant.group is MASTER_GROUP:
            return self._launch_application_master(application, held, ready_ns, now_ns)
        application.news.allocate(
            AllocatedContainer(
                held.id, grant.group.name, node.name, ready_ns, grant.task, node.registration, grant.beside
            )
        )
        return []

    def _check_instant(self, grant: Grant, now_ns: int) -> None:
        if now_ns - self._instant_ns >= LEAST_WAIT_NS:
            self._instant_ns = now_ns
            self._granted.clear()
        job = grant.application.name
        self._granted[job] += 1
        if self._granted[job] <= _FREE_GRANTS:
            return
        tasks = sum(group.count for group in grant.application.facts.groups)
        if self._granted[job] > _FREE_GRANTS + _GRANTS_FOR_A_TASK * tasks:
            task = grant.group.name if grant.task is None else f"{grant.group.name} {grant.task.number}"
            raise PolicyError(
                f"allocation {self._policy}: at {now_ns / 1e9:.3f} s job {job} was given"
                f" {counted(self._granted[job], 'container')} for its {counted(tasks, 'task')}, the last one on"
                f" {grant.node.name} for {task}: whatever it is given is taken back at the same instant, without end"
            )

    def _new_container(self, grant: Grant, request: Resources, now_ns: int) -> HeldContainer:
        self._containers_made += 1
        name, application, node = f"container-{self._containers_made:06d}", grant.application, grant.node
        held = HeldContainer(name, application.name, grant.group, node.name, grant.task, now_ns, request=request)
        self._state.containers[held.id] = application.containers[held.id] = held
        self._state.mark_changed(held)
        application.nodes[node.name] = None
        # Only the job knows which task this is: until it is stopped it counts as the group's largest.
        sizes = grant.group.task_memory_bytes or application.facts.task_memory_bytes
        largest_bytes = max(sizes, default=None)
        is_master = held.group is MASTER_GROUP
        node.ledger.take(held.id, held.group.work, None if is_master else largest_bytes, request)
        return held

    def launch_unmanaged(self, application: Application, now_ns: int) -> list[Effect]:
        """Launch the job's ApplicationMaster, which takes no container, on the next node in turn."""
        nodes = [node for node in self._state.nodes.values() if node.state is not NodeState.LOST]
        node = nodes[(application.order + application.master_attempts) % len(nodes)]
        held = self._new_container(Grant(application, MASTER_GROUP, node), (), now_ns)
        return self._launch_application_master(application, held, now_ns, now_ns)

    def _launch_application_master(
        self, application: Application, held: HeldContainer, ready_ns: int, now_ns: int
    ) -> list[Effect]:
        application.master = held.id
        attempt = f"{application.name}/am" + (f".{application.master_attempts}" if application.master_attempts else "")
        application.master_attempts += 1
        registration = self._state.nodes[held.node].registration
        start = StartContainer(
            held.id,
            application.name,
            MASTER,
            0,
            attempt,
            ready_ns,
            registration=registration,
            work=Work.MASTER,
            request=held.request,
        )
        return [self._orders.send(held.id, held.node, start, now_ns)]


def _remove_request(grant: Grant) -> tuple[int, str | None]:
    """Remove the request that is served; returns when it arrived, and the stopped process's container, if any."""
    requests = grant.application.requests
    if grant.group is MASTER_GROUP:
        since_ns, requests.application_master = requests.application_master, None
        assert since_ns is not None
        return since_ns, None
    requests.at_once = 0  # a gang is given its minimum in one decision, and what is beyond it one by one
    if grant.task is not None:
        resume, since_ns = requests.resumes.pop(grant.task)
        return since_ns, resume.container
    return requests.since[grant.group.name].popleft(), None
