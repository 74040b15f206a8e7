"""Reservations: room on one node that is kept for a request until all of it is there.

Theory of operation
-------------------
Where containers have several sizes, what is reclaimed must make room on the node where the asker fits.  That room
becomes free piece by piece, and has no former owner.  A reservation keeps it: while it stands, no other request gets
what it needs there.  It is for one container of a job's group, on one node.

It ends when the request has got a container there, when the job wants less than is reserved for it (the newest ends),
when the job has ended or avoids the node, and when the node is lost.  It also ends when a map of the job waits and it
is for another group: that gets nothing before the map, which may need the same room.  Whether it stands is found again
whenever it is read, so that it ends with the message that ends the need.

In its runs the Preemptor lets two more kinds go (``settle``).  Less than was hoped for is there: a container that was
reclaimed holds more than expected.  And one that has stood for twice the kill timeout and the longest grace of those
asked for it: by then its room is there, and the asker has not wanted it, for example because its placement waits for
another node.  The need of either is looked at again, and what is still to come counts for it.  What jobs owe on a node
and no reservation needs any more, they may keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from emulator.core.resource_manager.allocation import Grant
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeState
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Preemptor
from emulator.core.settings import Settings
from emulator.policies.mechanism import keeps_processes
from emulator.policies.resources import irreducible, lacking, minus, plus, total
from emulator.policies.views import TaskView
from emulator.vocabulary import MASTER, MASTER_GROUP, Resources, TaskGroup


class Reservation(NamedTuple):
    """Room for a container of ``group`` of the job ``requester``."""

    requester: str
    group: str
    node: str
    registration: int
    """The node's, so that it is known if it was lost meanwhile."""
    request: Resources
    until_ns: int
    """When it has stood too long."""


class Reservations:
    """The capacity that an allocation reserves (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor) -> None:
        self.made = 0
        """How many were made."""
        self.ended = 0
        """How many the Preemptor has found ended, or has let go."""
        self._state = state
        self._lasts_ns = 2 * settings.protocol.kill_timeout_ns
        self._keeps_processes = keeps_processes(settings.scheduler.mechanism.among)
        self._preemptor = preemptor
        self._all: list[Reservation] = []
        """Oldest first; some of them may have ended."""
        self._freed: dict[tuple[str, Resources], Resources] = {}
        """What ``frees`` has found, for a node and a request."""

    # ---- reading ----

    def standing(self) -> Iterator[Reservation]:
        """Those that have not ended, oldest first."""
        return self._standing_of(self._all)

    def standing_on(self, node: str) -> list[Reservation]:
        """Those on the node that have not ended, oldest first.

        Whether one has ended depends on the older ones for tasks of the same group, and on no others.
        """
        needs = {(each.requester, each.group) for each in self._all if each.node == node}
        if not needs:
            return []
        alike = [each for each in self._all if (each.requester, each.group) in needs]
        return [each for each in self._standing_of(alike) if each.node == node]

    def _standing_of(self, reservations: Iterable[Reservation]) -> Iterator[Reservation]:
        """Those of them that have not ended; all for tasks of a group must be among them."""
        left = dict[tuple[str, str], int]()
        for each in reservations:
            application, node = self._state.applications.get(each.requester), self._state.nodes[each.node]
            if application is None or (node.state, node.registration) != (NodeState.ALIVE, each.registration):
                continue
            need = each.requester, each.group
            if need not in left:
                left[need] = application.requested_anywhere.get(each.group, 0)
            avoids = each.group != MASTER and each.node in application.requests.avoided
            if not avoids and left[need]:
                left[need] -= 1
                yield each

    def kept_from(
        self, application: Application, group: TaskGroup, node: Node, standing: list[Reservation]
    ) -> Resources:
        """What a container of the job's group cannot have of ``node``, of those ``standing_on`` it; the job's
        ApplicationMaster may use what is reserved for its tasks."""
        if not standing:
            return ()
        is_master = group is MASTER_GROUP
        return total(
            (
                each.request
                for each in standing
                if not (each.requester == application.name and (is_master or each.group == group.name))
            ),
            node.settings.resource_names,
        )

    def frees(self, container: HeldContainer | TaskView) -> Resources:
        """What taking the container, or that of the task, back makes free for certain: a process that is stopped holds
        the rest."""
        of = container.node, container.request
        if of not in self._freed:
            node = self._state.nodes[container.node].settings
            self._freed[of] = node.guaranteed_freed(container.request, self._keeps_processes)
        return self._freed[of]

    def free(self) -> dict[str, Resources]:
        """What is free of each node that is there, beside what is reserved; it may be below 0."""
        free = {node.name: node.free for node in self._state.nodes.values() if node.state is NodeState.ALIVE}
        for each in self.standing():
            free[each.node] = minus(free[each.node], each.request)
        return free

    def beside_stopped(self) -> dict[str, Resources]:
        """What each node that is there has without what stopped processes hold: as much can become free before they
        resume."""
        there = (node for node in self._state.nodes.values() if node.state is NodeState.ALIVE)
        rooms = {node.name: node.settings.resources for node in there}
        for container in self._state.containers.values() if self._keeps_processes else ():
            if container.node in rooms and container.group is not MASTER_GROUP and not self._state.on_slot(container):
                held = self._state.nodes[container.node].settings.held_when_stopped(container.request)
                rooms[container.node] = minus(rooms[container.node], held)
        return rooms

    def expected(self, now_ns: int) -> dict[str, Resources]:
        """What is still to become free, because it was reclaimed or a job will give it, of the nodes where that is
        something."""
        containers = self._state.containers
        going = (
            containers[task.container]
            for job in self._preemptor.jobs_with_contracts()
            for task in self.being_evicted(job, now_ns)
        )
        return self._by_node([*self._reclaimed(), *going])

    def being_evicted(self, job: str, now_ns: int) -> list[TaskView]:
        """The tasks of the job that go for what it owes on nodes, as far as is known here: its ApplicationMaster
        chooses."""
        amounts = self._preemptor.open_amounts_of(job)
        if not amounts:
            return []
        tasks = self._state.victim_views(job, now_ns, amounts)
        going: list[TaskView] = []
        for node, amount in amounts.items():
            here = tuple([task for task in tasks if task.node == node])
            enough = irreducible(amount, here, self.frees)
            going += here if enough is None else enough
        return going

    def _reclaimed(self) -> list[HeldContainer]:
        return [container for container in self._state.containers.values() if container.is_reclaimed]

    def _by_node(self, containers: Iterable[HeldContainer]) -> dict[str, Resources]:
        """What these make free of each node."""
        freed: dict[str, Resources] = {}
        for container in containers:
            more, node = self.frees(container), container.node
            freed[node] = plus(freed[node], more) if node in freed else more
        return freed

    @property
    def lasts_until_ns(self) -> int | None:
        """When the first of them will have stood too long; None: there is none."""
        return min((each.until_ns for each in self._all), default=None)

    # ---- changing ----

    def make(self, application: Application, group: TaskGroup, node: str, now_ns: int, grace_ns: int = 0) -> None:
        """Keep room on ``node`` for one more container of the job's group; ``grace_ns``: the longest of those asked."""
        registration, request = self._state.nodes[node].registration, application.request_for(group)
        until_ns = now_ns + self._lasts_ns + grace_ns
        self._all.append(Reservation(application.name, group.name, node, registration, request, until_ns))
        self.made += 1

    def granted(self, grants: Sequence[Grant]) -> None:
        """The requests get their containers."""
        for grant in grants if self._all else ():
            need = grant.application.name, grant.group.name, grant.node.name
            if grant.application.stopped_container(grant.task) is None:
                place = next((i for i, each in enumerate(self._all) if each[:3] == need), None)
                if place is not None:
                    del self._all[place]

    def retain(self, is_wanted: Callable[[Reservation], bool]) -> None:
        """Forget those that have ended, and those that are not ``wanted``."""
        before = len(self._all)
        self._all = [each for each in self.standing() if is_wanted(each)]
        self.ended += before - len(self._all)

    def update(self, now_ns: int) -> None:
        """Forget those that have ended, have stood too long, or will not get their room; and let jobs keep what is not
        needed any more of what they were asked for."""
        if self._all:
            self._update(now_ns)
        if self._preemptor.has_contracts_on_nodes:
            self._release()

    def _update(self, now_ns: int) -> None:
        self.retain(lambda each: now_ns < each.until_ns)
        before = len(self._all)
        free, coming = self.free(), self.expected(now_ns)
        for each in reversed(self._all):
            there = free[each.node]
            if min(plus(there, coming[each.node]) if each.node in coming else there) < 0:
                free[each.node] = plus(free[each.node], each.request)
                self._all.remove(each)
        self.ended += before - len(self._all)

    def _release(self) -> None:
        free, taken = self.free(), self._by_node(self._reclaimed())
        for node in self._preemptor.nodes_with_contracts():
            there = plus(free[node], taken[node]) if node in taken else free[node]
            for job in self._preemptor.lower(node, lacking((0,) * len(there), there)):
                self._state.applications[job].news.reduce_contract()
