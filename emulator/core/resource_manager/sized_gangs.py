"""Gangs where containers have several sizes: all that a gang needs at once has room, on one node each.

Theory of operation
-------------------
The requests of a gang are placed one after another in what is free of each node: a stopped process on its own node, a
saved task on its old one if that has room, every other where room is reserved for the gang, else on the first node with
room.  What is reserved for other jobs is left alone.  Only if all have room is any given.

The first gang that has too little room holds every node that is large enough for one of its tasks: nothing that asks
after it is given a container there.  But it holds nothing if it would have too little room even if all that runs had
ended, because of what stopped processes hold: these would wait for it.
"""

from __future__ import annotations

from collections.abc import Container

from emulator.core.resource_manager.allocation import Grant
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.gangs import Gangs, Hold
from emulator.core.resource_manager.reservations import Reservations
from emulator.policies.resources import fits, minus
from emulator.vocabulary import Resources, TaskGroup, TaskId


class SizedGangs(Gangs):
    """See the module's theory of operation."""

    def __init__(self, state: ClusterState, reservations: Reservations) -> None:
        super().__init__(state)
        self._reservations = reservations

    def grants(self, application: Application, first: Node | None = None) -> list[Grant]:
        """See ``Gangs``."""
        reserved: dict[str, list[str]] = {}
        for each in self._reservations.standing():
            if each.requester == application.name:
                reserved.setdefault(each.group, []).append(each.node)
        return self._placed_in(self._reservations.free(), application, reserved)

    def _placed_in(
        self, free: dict[str, Resources], application: Application, reserved: dict[str, list[str]]
    ) -> list[Grant]:
        rooms, grants = _Rooms(free, application.requests.avoided), list[Grant]()
        for group, task, home in self._in_order(application):
            if len(grants) >= application.requests.at_once:
                break
            name = self._place(application, group, task, home, rooms, reserved.get(group.name, []))
            if name is not None:
                grants.append(Grant(application, group, self._state.nodes[name], task))
        return grants

    def _place(
        self,
        application: Application,
        group: TaskGroup,
        task: TaskId | None,
        home: str,
        rooms: _Rooms,
        reserved: list[str],
    ) -> str | None:
        """The node for one request, whose room is then taken of ``rooms``; None: no node has any."""
        request = application.request_for(group)
        if application.stopped_container(task) is not None:
            held = self._state.nodes[home].settings.held_when_stopped(request)
            return home if rooms.take(home, minus(request, held)) else None
        if reserved and min(rooms.free[reserved[0]]) >= 0:
            return reserved.pop(0)  # what is reserved was taken of the rooms before
        if home and home not in application.requests.avoided and rooms.take(home, request):
            return home
        return rooms.take_first(request)

    @staticmethod
    def hold(application: Application) -> Hold:
        """See ``Gangs``."""
        return Hold(application, {}, application.requests.at_once)

    def spares(self, hold: Hold, node: Node) -> bool:
        """See ``Gangs``: no task of the gang can ever be there, or it must wait for stopped processes to go on."""
        gang, size = hold.application, node.settings.resources
        if any(other.ledger.stopped for other in self._state.nodes.values()):
            rooms = self._reservations.beside_stopped()
            if len(self._placed_in(rooms, gang, {})) < gang.requests.at_once:
                return True
        return node.name in gang.requests.avoided or not any(fits(g.request, size) for g in gang.facts.groups)

    def members(self, application: Application) -> tuple[TaskGroup, ...]:
        """Those of its tasks for which room must be made at once, beside what is reserved; none if one of them can
        have it only on the node where its process is stopped."""
        waiting = list(self._in_order(application))[: application.requests.at_once]
        if any(application.stopped_container(task) is not None for _, task, _ in waiting):
            return ()
        groups = [group for group, _, _ in waiting]
        for each in self._reservations.standing():
            if each.requester == application.name and (group := application.groups[each.group]) in groups:
                groups.remove(group)
        return tuple(groups)


class _Rooms:
    """What is free of each node while a gang is placed: it only becomes less."""

    def __init__(self, free: dict[str, Resources], avoided: Container[str]) -> None:
        self.free = free
        self._names = [name for name in free if name not in avoided]
        self._from: dict[Resources, int] = {}
        """For each request, how many of the names have no room for it."""

    def take(self, name: str, request: Resources) -> bool:
        """Take room on this node, if it has some; returns whether it had."""
        if name not in self.free or not fits(request, self.free[name]):
            return False
        self.free[name] = minus(self.free[name], request)
        return True

    def take_first(self, request: Resources) -> str | None:
        """Take room on the first node that has some and is not avoided; returns its name."""
        for place in range(self._from.get(request, 0), len(self._names)):
            if self.take(self._names[place], request):
                self._from[request] = place
                return self._names[place]
        self._from[request] = len(self._names)
        return None
