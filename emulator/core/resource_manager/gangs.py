"""Gangs: jobs whose tasks get room at once, or not at all.

Theory of operation
-------------------
A job with a *gang* starts only when a minimum of its tasks has room at one time.  Its ask says how many containers are
of use only together (``Ask.at_once``).  They are given in one decision, on all nodes that have them, and told in one
answer.  So no gang is ever half placed, and gangs cannot wait for each other's halves: a deadlock would need a gang
that holds room without running.  ApplicationMasters hold room too, and so many are admitted that the largest gang has
room beside them (``emulator.core.resource_manager.admission``).

The first gang in the order of the allocation that has too little room *holds* what is free, and requests after it do
not get that.  There is only one such hold in the cluster, and it is not kept: every decision finds it again, so an
order that changes moves it.  A stopped process holds room on its own node only; the rest of the hold may be anywhere.
What the hold has no use for goes on to others, but not to another gang.  An ApplicationMaster that is started again
passes every hold, because its running tasks would otherwise never end.

Bound
-----
Room that is free and useful to the first gang is not given away.  So it starts once enough containers have become free:
at the latest when all tasks that run at the time have ended, or, under preemption, when those reclaimed for it have
been given or killed.  Its victims are asked together, and only if the gang then has room (``lacking``).  A victim that
does not answer is killed after ``kill_timeout_s``: counted at the Preemptor's next run, told at once, and its end known
with its node's next heartbeat.  So without lost messages the room is there within the kill timeout, the longest grace
of the victims, and two heartbeats.

Several sizes
-------------
The requests of a gang are placed one after another in what is free of each node: a stopped process on its own node, a
saved task on its old one if that has room, every other where room is reserved for the gang, else on the first node with
room.  What is reserved for other jobs is left alone.  Only if all have room is any given.

The first gang that has too little room holds every node that is large enough for one of its tasks: nothing that asks
after it is given a container there.  But it holds nothing if it would have too little room even if all that runs had
ended, because of what stopped processes hold: these would wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from emulator.core.effects import Effect, ExplainGang
from emulator.core.resource_manager.allocation import Grant
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.reservations import Reservations
from emulator.policies.resources import fits, minus
from emulator.vocabulary import Resources, TaskGroup, TaskId


@dataclass(frozen=True, slots=True)
class GangReservation:
    """The room that the first waiting gang keeps."""

    application: Application
    at_node: Mapping[str, int]
    """Containers of single nodes, for its stopped processes."""
    anywhere: int
    """Further containers."""


class Gangs:
    """Places gangs, and holds room for the first that waits; see the module's theory of operation."""

    def __init__(self, state: ClusterState, reservations: Reservations, has_sizes: bool) -> None:
        self.explained = 0
        """Grows with every explanation."""
        self._state = state
        self._reservations = reservations
        self._has_sizes = has_sizes
        self._any_node = next(iter(state.nodes.values()))
        self._short: dict[str, tuple[int, int]] = {}
        """What was last explained of each waiting gang: containers that it needs at once, and those that are free."""
        self._reasons: list[Effect] = []

    @staticmethod
    def waits(application: Application) -> bool:
        """Whether it is a gang that has asked for all that it needs to start."""
        requests = application.requests
        is_alone = requests.application_master is not None
        return 0 < requests.at_once <= requests.pending and not is_alone

    def grants(self, application: Application, first: Node | None = None) -> list[Grant]:
        """Containers for the gang, no more than it needs at once; fewer if there is no room for it.  With one size, the
        nodes come in the order in which they became free, ``first`` before them; with several, in that of the
        cluster."""
        reserved: dict[str, list[str]] = {}
        for each in self._reservations.standing():
            if each.requester == application.name:
                reserved.setdefault(each.group, []).append(each.node)
        if self._has_sizes:
            return self._placed_in(self._reservations.free(), application, reserved)
        free = {name: self._state.nodes[name].free for name in self._state.free_nodes}
        if first is not None and first.name in free:
            free = {first.name: free.pop(first.name), **free}
        return self._placed_in(free, application, reserved)

    def _placed_in(
        self, free: dict[str, Resources], application: Application, reserved: dict[str, list[str]]
    ) -> list[Grant]:
        rooms, grants = _Rooms(free, application.requests.avoided), list[Grant]()
        most = min(application.requests.at_once, self._state.limit - self._state.used)
        for group, task, home in self._in_order(application):
            if len(grants) >= most:
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
        resumes = application.stopped_container(task) is not None
        node = self._state.nodes[home] if resumes else self._any_node
        needs = node.needs(group.work, application.request_for(group), resumes)
        if resumes:
            return home if rooms.take(home, needs) else None
        if reserved and min(rooms.free[reserved[0]]) >= 0:
            return reserved.pop(0)  # what is reserved was taken of the rooms before
        if home and home not in application.requests.avoided and rooms.take(home, needs):
            return home
        return rooms.take_first(needs)

    def _in_order(self, application: Application) -> Iterator[tuple[TaskGroup, TaskId | None, str]]:
        """The group of each request, and for a suspended task which it is and its old node."""
        requests, groups = application.requests, application.groups
        resumes = [resume for resume, _ in requests.resumes.values()]
        for resume in resumes:
            if resume.container and self._state.is_stopped_at(resume.container, self._state.nodes[resume.node]):
                yield groups[resume.task.group], resume.task, resume.node
        for group in application.for_shuffle:
            yield from ((group, None, "") for _ in requests.since[group.name])
        yield from ((groups[each.task.group], each.task, each.node) for each in resumes if each.container is None)
        for group in application.others:
            yield from ((group, None, "") for _ in requests.since[group.name])

    # ---- holding room ----

    @staticmethod
    def reserve(application: Application) -> GangReservation:
        """The room that the gang keeps while it waits."""
        stopped = (resume for resume, _ in application.requests.resumes.values() if resume.container is not None)
        at_node = Counter(resume.node for resume in stopped)
        return GangReservation(application, at_node, max(0, application.requests.at_once - at_node.total()))

    def spares(self, hold: GangReservation, node: Node) -> bool:
        """Whether what is free of ``node`` is of no use to the gang that holds room."""
        return self._spares_node(hold.application, node) if self._has_sizes else self._spares_container(hold, node)

    def _spares_container(self, hold: GangReservation, node: Node) -> bool:
        state, avoided = self._state, hold.application.requests.avoided
        if state.limit - state.used <= hold.application.requests.at_once:
            return False
        beyond = {name: state.nodes[name].free_count - hold.at_node.get(name, 0) for name in state.free_nodes}
        if beyond.get(node.name, 0) <= 0:
            return False
        useful = sum(left for name, left in beyond.items() if left > 0 and name not in avoided)
        return node.name in avoided or useful > hold.anywhere

    def _spares_node(self, gang: Application, node: Node) -> bool:
        """No task of the gang can ever be there, or it must wait for stopped processes to go on."""
        if any(other.ledger.stopped for other in self._state.nodes.values()):
            rooms = self._reservations.beside_stopped()
            if len(self._placed_in(rooms, gang, {})) < gang.requests.at_once:
                return True
        size = node.settings.resources
        return node.name in gang.requests.avoided or not any(fits(g.request, size) for g in gang.facts.groups)

    def lacking(self, application: Application) -> int:
        """Containers that must be reclaimed so that the gang has room; 0 if none can help: stopped processes wait for
        containers of their own nodes, and who is asked back chooses the container."""
        requests = application.requests
        granted = self.grants(application)
        stopped = {task for task, (resume, _) in requests.resumes.items() if resume.container is not None}
        resuming = sum(grant.task in stopped for grant in granted)
        return 0 if resuming < min(len(stopped), requests.at_once) else requests.at_once - len(granted)

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

    # ---- explaining ----

    def explain_wait(self, application: Application, free: int) -> None:
        """The gang has too little room: ``free`` containers of those that it needs."""
        short = application.requests.at_once, free
        if self._short.get(application.name) != short:
            self._short[application.name] = short
            self.explained += 1
            self._reasons.append(ExplainGang(application.name, *short))

    def explain(self) -> list[Effect]:
        """Explanations since the last call."""
        whys, self._reasons = self._reasons, []
        return whys


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
