"""What has happened since a scheduler was last notified: what it knows, compared with the cluster's state.

Theory of operation
-------------------
``Events`` keeps what the scheduler knows, and compares what may have changed since.  So it is notified of nothing
twice, of nothing that came and went between two notifications, and a new scheduler of everything in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import compress

from emulator.core.resource_manager.applications import Application, HeldContainer, NodeState
from emulator.core.resource_manager.cluster_state import Changes, ClusterState
from emulator.core.resource_manager.gangs import Gangs
from emulator.core.settings import Settings
from emulator.policies.mechanism import stopping
from emulator.policies.resources import named
from emulator.policies.schedulers.protocol import (
    VERSION,
    Capacity,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    GroupFacts,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    QueueFacts,
    SchedulerStarted,
    Suspended,
)
from emulator.vocabulary import TaskGroup


class Events:
    """What a scheduler is notified of; see the module's theory of operation."""

    def __init__(self, state: ClusterState, may_take: Callable[[TaskGroup], bool]) -> None:
        """``may_take``: whether tasks of a group may be victims."""
        self._state = state
        self._may_take = may_take
        self._names = next(iter(state.nodes.values())).settings.resource_names
        self._capacity = state.containers_total
        self._nodes: dict[str, int] = {}
        """Registration of each node that it knows to be there."""
        self._waits: dict[str, JobRequests | None] = {}
        """What each job that it knows waits for."""
        self._containers: dict[str, int | None] = {}
        """Each container that it knows, and when it was last given; None: its process was stopped."""
        state.changed = Changes(dict.fromkeys(state.nodes), dict(state.containers))
        state.queues.touched = dict.fromkeys(state.applications)

    def restarted(self) -> Events:
        """The same for a scheduler that knows nothing."""
        return Events(self._state, self._may_take)

    def take(self) -> list[Event]:
        """All that is new, in the order: ends, nodes, jobs, containers; from now on it is known."""
        state, touched, jobs = self._state, self._state.changed, self._state.queues.touched
        assert touched is not None, "it is read here"
        assert jobs is not None, "it is read here"
        if not (touched.containers or touched.nodes or jobs or self._capacity != state.limit):
            return []
        state.changed, state.queues.touched = Changes(), {}
        held = sorted(touched.containers.values(), key=_age)
        return [*self._ends(held), *self._of_nodes(touched.nodes), *self._of_jobs(jobs), *self._of_containers(held)]

    def _ends(self, touched: Iterable[HeldContainer]) -> Iterator[Event]:
        for held in touched:
            if held.id in self._containers and held.id not in self._state.containers:
                del self._containers[held.id]
                yield ContainerEnded(held.id, held.job, held.node)

    def _of_nodes(self, touched: Container[str]) -> Iterator[Event]:
        if self._capacity != self._state.limit:
            self._capacity = self._state.limit
            yield Capacity(self._capacity)
        for node in self._state.nodes.values() if touched else ():
            if node.name not in touched:
                continue
            is_there = node.state is NodeState.ALIVE
            known = self._nodes.get(node.name)
            if known is not None and not (is_there and known == node.registration):
                del self._nodes[node.name]
                yield NodeRemoved(node.name)
            if is_there and node.name not in self._nodes:
                self._nodes[node.name] = node.registration
                settings = node.settings
                has = named(settings.resources, self._names)
                yield NodeAdded(node.name, settings.rack, settings.containers, has, dict(settings.labels))

    def _of_jobs(self, touched: Iterable[str]) -> Iterator[Event]:
        there = [self._state.applications[job] for job in touched if job in self._state.applications]
        ended = {job for job in touched if job in self._waits and job not in self._state.applications}
        for job in [job for job in self._waits if job in ended] if len(ended) > 1 else ended:
            del self._waits[job]
            yield JobEnded(job)
        for application in sorted(there, key=lambda each: each.order):
            if application.name not in self._waits:
                self._waits[application.name] = None
                yield self._submitted(application)
            waits, known = _waits(application), self._waits[application.name]
            if waits != known and (known is not None or application.requests.pending):
                self._waits[application.name] = waits
                yield waits

    def _of_containers(self, touched: Iterable[HeldContainer]) -> Iterator[Event]:
        for held in touched:
            if held.id not in self._state.containers:
                continue
            given_ns = held.slot_ns if self._state.on_slot(held) else None
            if given_ns is None and held.id not in self._containers:
                continue  # it takes no room: an ApplicationMaster outside
            known_ns = self._containers.get(held.id)
            self._containers[held.id] = given_ns
            if given_ns is not None and given_ns != known_ns:
                yield _started(held)
            elif given_ns is None and known_ns is not None:
                holds = self._state.nodes[held.node].settings.held_when_stopped(held.request)
                yield ContainerStopped(held.id, held.job, held.node, named(holds, self._names))

    def _submitted(self, application: Application) -> JobSubmitted:
        facts = application.facts
        groups = tuple(
            GroupFacts(group.name, group.count, self._may_take(group), named(group.request, self._names))
            for group in facts.groups
        )
        times = facts.deadline_ns, application.submit_ns
        terms = facts.checkpoint_period_ns, facts.minimum_runtime_ns, facts.grace_ns, facts.details
        master = named(facts.master_request, self._names)
        return JobSubmitted(
            facts.name, facts.queue, facts.priority, groups, *times, *terms, application.is_last, master
        )


def first_event(settings: Settings) -> SchedulerStarted:
    """The event of which a scheduler is notified first."""
    queues = tuple(QueueFacts(queue.name, queue.capacity, queue.maximum) for queue in settings.scheduler.queues)
    node, may_stop = settings.nodes[0], stopping(settings.scheduler.mechanism.among)
    master = named(settings.master_request, node.resource_names)
    held = tuple(compress(node.resource_names, node.stopped_hold)) if may_stop else ()
    mechanism = settings.scheduler.mechanism.name
    return SchedulerStarted(VERSION, settings.seed, queues, master, held, mechanism, node.resource_names)


def _waits(application: Application) -> JobRequests:
    requests = application.requests
    suspended = tuple(
        Suspended(*resume.task, resume.node, resume.container is not None, resume.container or "")
        for resume, _ in requests.resumes.values()
    )
    new = {group: len(since) for group, since in requests.since.items() if since}
    am = int(requests.application_master is not None)
    at_once = requests.at_once if Gangs.waits(application) else 0
    return JobRequests(application.name, am, new, suspended, tuple(sorted(requests.avoided)), at_once)


def _started(held: HeldContainer) -> ContainerStarted:
    return ContainerStarted(
        held.id, held.job, held.group.name, held.node, None if held.task is None else held.task.number
    )


def _age(held: HeldContainer) -> tuple[int, str]:
    """Containers in the order in which they were first given: their names have rising numbers."""
    return len(held.id), held.id
