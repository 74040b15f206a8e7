"""What a scheduler knows of the cluster: its nodes, the containers on them, and what jobs wait for.

Theory of operation
-------------------
A scheduler decides that a job is to be on some nodes, or is to leave them: a ``Stay``.  The cluster follows with some
delay, of which events tell: containers are given when the job waits for them and their nodes have room, and are
reclaimed when they are known.  ``carry_out`` says what can be done of that now.

What was given counts as used at once.  When the scheduler is notified next, the containers given are among the events,
or have come and gone.  A stopped process goes on holding a part of its node; it goes on in what it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from emulator.policies.schedulers.protocol import (
    Amounts,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    GrantContainer,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    SchedulerDecision,
)


@dataclass(eq=False, slots=True)
class JobPlacement:
    """A job on nodes, from the decision on until it has left them."""

    job: str
    places: Sequence[tuple[str, str]]
    """The group and the node of each of its tasks."""
    why: str = ""
    beside: int = 0
    """See ``GrantContainer``."""
    least: int = 1
    """How many of its tasks must wait before any gets its container."""
    renews: bool = False
    """Whether tasks get containers again that wait again."""
    containers: dict[str, None] = field(default_factory=dict)
    """Those whose processes run."""
    has_started: bool = False
    """Whether it has had a container."""
    is_given: bool = False
    """Whether it was given containers that are not known yet."""
    leaves: bool = False
    reclaim: Callable[[str], SchedulerDecision] | None = None
    """How one of its containers is reclaimed, if it leaves; None: they end without that."""
    is_reclaimed: bool = False

    @property
    def has_left(self) -> bool:
        """Whether it was to leave its nodes, and has."""
        return self.leaves and not self.containers and not self.is_given


@dataclass(slots=True)
class _Job:
    """What is known of a job."""

    groups: dict[str, Amounts]
    """What each task of a group asks for."""
    waits: JobRequests | None = None
    """The containers that it waits for, if any."""
    stay: JobPlacement | None = None
    """The last one that was decided."""
    stopped: dict[str, str] = field(default_factory=dict)
    """Containers whose processes are stopped, and their groups."""


@dataclass(slots=True)
class _Container:
    node: str
    group: str
    amounts: Amounts
    stay: JobPlacement | None = None
    """The execution in which it runs."""


class KnownCluster:
    """The cluster as a scheduler knows it (see the module's theory of operation)."""

    def __init__(self) -> None:
        self._nodes: dict[str, Amounts] = {}
        """What each node has that is there."""
        self._used: dict[str, Counter[str]] = {}
        """What is used of each node."""
        self._giving: dict[str, Counter[str]] = {}
        """What is used of each node by containers that are not known yet."""
        self._given: list[JobPlacement] = []
        self._jobs: dict[str, _Job] = {}
        self._ended: dict[str, None] = {}
        self._containers: dict[str, _Container] = {}
        self._open: dict[JobPlacement, None] = {}
        """Those of which something is still to be given or reclaimed."""

    # ---- what is known ----

    def begin(self) -> None:
        """Events come: what was given is among them, or is gone."""
        for stay in self._given:
            stay.is_given = False
        self._given.clear()
        self._giving.clear()
        for name in [name for name in self._ended if self._is_empty(self._jobs[name])]:
            del self._ended[name], self._jobs[name]

    @staticmethod
    def _is_empty(job: _Job) -> bool:
        return not job.stopped and (job.stay is None or not job.stay.containers)

    def take(self, event: Event) -> JobPlacement | None:
        """Take in an event; the stay that it is about, if it is about one."""
        match event:
            case NodeAdded():
                self._nodes[event.node] = event.resources
            case NodeRemoved():
                self._nodes.pop(event.node, None)
            case JobSubmitted():
                self._jobs[event.job] = _Job({group.group: group.resources for group in event.groups})
            case JobRequests():
                return self._waits(self._jobs[event.job], event)
            case JobEnded():
                return self._end(event.job)
            case ContainerStarted():
                return self._start(event)
            case ContainerStopped():
                return self._leave(event, event.holds)
            case ContainerEnded():
                return self._leave(event, None)
            case _:
                pass
        return None

    def _waits(self, job: _Job, event: JobRequests) -> JobPlacement | None:
        job.waits = event if event.new or event.suspended else None
        if job.waits is not None and job.stay is not None and job.stay.renews and not job.stay.leaves:
            self._open.setdefault(job.stay)
        return job.stay

    def _end(self, name: str) -> JobPlacement | None:
        job = self._jobs[name]
        self._ended[name] = job.waits = None
        if job.stay is not None:
            self.leave(job.stay)
        return job.stay

    def _start(self, event: ContainerStarted) -> JobPlacement | None:
        job = self._jobs[event.job]
        self._charge(event.container, -1)
        stay, amounts = job.stay, job.groups.get(event.group, {})
        self._containers[event.container] = _Container(event.node, event.group, amounts, stay)
        self._charge(event.container, 1)
        job.stopped.pop(event.container, None)
        if stay is not None:
            stay.containers[event.container] = None
            stay.has_started = True
        return stay

    def _leave(self, event: ContainerStopped | ContainerEnded, holds: Amounts | None) -> JobPlacement | None:
        """A process has been stopped, and ``holds`` so much of its node; None: it has ended."""
        job, container = self._jobs.get(event.job), self._containers.get(event.container)
        if container is None:  # an ApplicationMaster's
            return None
        stay, container.stay = container.stay, None
        self._charge(event.container, -1)
        if stay is not None:
            del stay.containers[event.container]
            stay.is_reclaimed &= bool(stay.containers)
        if holds is None:
            del self._containers[event.container]
            if job is not None:
                job.stopped.pop(event.container, None)
            return stay
        container.amounts = holds
        self._charge(event.container, 1)
        if job is not None:
            job.stopped[event.container] = container.group
        return stay

    def _charge(self, name: str, sign: int) -> None:
        container = self._containers.get(name)
        if container is not None:
            used = self._used.setdefault(container.node, Counter())
            for resource, amount in container.amounts.items():
                used[resource] += sign * amount

    def is_up(self, node: str) -> bool:
        """Whether a node is there."""
        return node in self._nodes

    def waits(self, job: str) -> JobRequests | None:
        """The containers that a job waits for, if any."""
        return self._jobs[job].waits

    def stopped(self, job: str) -> Counter[str]:
        """By group, how many processes of a job are stopped."""
        return Counter(self._jobs[job].stopped.values())

    @property
    def to_start(self) -> Iterator[JobPlacement]:
        """Stays that have still to be given containers."""
        return (stay for stay in self._open if not stay.leaves)

    # ---- what is decided ----

    def start(self, stay: JobPlacement) -> None:
        """A job is to be on nodes, for the first time or again."""
        self._jobs[stay.job].stay = stay
        stay.leaves, stay.reclaim = False, None
        self._open[stay] = None

    def leave(self, stay: JobPlacement, reclaim: Callable[[str], SchedulerDecision] | None = None) -> None:
        """A job is to leave its nodes; ``reclaim``: see ``Stay``."""
        stay.leaves, stay.reclaim = True, reclaim
        self._open.pop(stay, None)
        if reclaim is not None and not stay.is_reclaimed:
            self._open[stay] = None

    def carry_out(self) -> Iterator[SchedulerDecision]:
        """What can be done now so that jobs leave their nodes, and get to them."""
        for stay in [each for each in self._open if each.leaves]:
            if stay.is_given:
                continue
            del self._open[stay]
            if stay.containers and stay.reclaim is not None:
                stay.is_reclaimed = True
                yield stay.reclaim(next(iter(stay.containers)))
        for stay in list(self.to_start):
            yield from self._gives(stay)

    def _gives(self, stay: JobPlacement) -> list[GrantContainer]:
        """Containers for all of its tasks that wait; none if one of them finds no room."""
        job = self._jobs[stay.job]
        tasks = [] if job.waits is None else _placed(stay.places, job.waits)
        if not tasks or len(tasks) < stay.least:
            return []
        needs: dict[str, Counter[str]] = {}
        for group, node, _ in tasks:
            needs.setdefault(node, Counter()).update(job.groups[group])
        for container in map(self._containers.__getitem__, job.stopped):
            needs.setdefault(container.node, Counter()).subtract(container.amounts)
        if not all(self._fits(node, need) for node, need in needs.items()):
            return []
        for node, need in needs.items():
            self._giving.setdefault(node, Counter()).update(need)
        job.waits, stay.is_given = None, True
        self._given.append(stay)
        del self._open[stay]
        return [GrantContainer(stay.job, node, group, task, stay.beside, stay.why) for group, node, task in tasks]

    def _fits(self, node: str, need: Counter[str]) -> bool:
        has, used, giving = self._nodes.get(node), self._used.get(node, {}), self._giving.get(node, {})
        if has is None:
            return False
        left = ((name, has.get(name, 0) - used.get(name, 0) - giving.get(name, 0)) for name in need)
        return all(need[name] <= free for name, free in left)


def _placed(places: Sequence[tuple[str, str]], waits: JobRequests) -> list[tuple[str, str, int | None]]:
    """The group, the node and the number of each task that gets a container: where its process is stopped, then those
    that were saved, then new ones, which have no number."""
    there: dict[tuple[str, str], list[int]] = {}
    saved: dict[str, list[int]] = {}
    for each in waits.suspended:
        tasks = there.setdefault((each.group, each.node), []) if each.only_there else saved.setdefault(each.group, [])
        tasks.append(each.task)
    new, found = Counter(waits.new), list[tuple[str, str, int | None]]()
    for group, node in places:
        if tasks := there.get((group, node)) or saved.get(group):
            found.append((group, node, tasks.pop(0)))
        elif new[group] > 0:
            new[group] -= 1
            found.append((group, node, None))
    return found
