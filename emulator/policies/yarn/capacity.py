"""YARN's CapacityScheduler on plain values: what a node's heartbeat gives to whom (Hadoop 3.4).

Theory of operation
-------------------
When a node reports, what is reserved on it comes first, and nothing else happens there then: it is given up if nobody
asks for it any more, it is fulfilled if the node has room for it now, or else it stays.  Without a reservation the
scheduler goes down the tree of queues, the least used / guaranteed first, to the first application that can be served;
and again, as often as the node may be given containers in one heartbeat.  Of an application only the first request is
tried, by its priority, then by its age.

A request that is too large for what the node has free is reserved there.  What is reserved counts as used.  A request
may have one reservation, and more the longer it starves.  If it gets a container elsewhere while it may not have one
more, one of its reservations is given up for that; so is one if only that makes room below the maximum of its queue.
If the first request of an application is too large for what its queue may still hold, queues that come later leave that
alone in this turn.  An application whose user holds more than he may (``users``) is passed over, unless he would not
without its reservations: then one of them is given up.  One whose ApplicationMaster would be one too many waits, and
asks for nothing until another of its queue is gone.

A container that is killed gives its resources back to its queue at once, and to its node when the node reports it gone.

In natjam a request may also be for a suspended task.  One whose process is stopped can resume on its node only, in what
it holds there; on other nodes it is passed over, as YARN passes over a request for another node, and nothing
else is reserved there.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from emulator.policies.resources import common, fits, lacking, minus, most, plus, total
from emulator.policies.yarn.amounts import Amounts, exact, single
from emulator.policies.yarn.ideal import Need
from emulator.policies.yarn.options import FairQueue
from emulator.policies.yarn.users import (
    QueueLimits,
    QueueUse,
    masters_limit,
    may_start,
    to_give_up,
    user_limit,
    user_masters_limit,
)
from emulator.policies.yarn.victims import Application, Held
from emulator.vocabulary import Resources


class StepKind(Enum):
    """What the scheduler does."""

    ALLOCATE = "allocate"
    RESERVE = "reserve"
    FULFIL = "fulfil"
    """Allocate where it was reserved."""
    UNRESERVE = "unreserve"


@dataclass(eq=False, slots=True)
class Request:
    """A request of an application for one container."""

    application: RunningApplication
    name: str
    amount: Resources
    priority: int
    """The smallest number is the most urgent."""
    number: int
    """Its own among those of its application: the largest is the newest."""
    reserved: dict[str, int] = field(default_factory=dict)
    """The nodes where it is reserved, and the number of the container there."""
    stayed: int = 0
    """How often a reservation of it has stayed since it last won or lost one."""
    container: int = 0
    """The number of its container in the cluster."""
    node: str = ""
    only_on: str = ""
    """The node where its process is stopped; blank: it may go anywhere."""
    holds: Resources = ()
    """What of that node its process goes on holding, once it has stopped."""
    exempt_until_ns: int = 0
    """When it may be a victim at the earliest."""

    @property
    def takes(self) -> Resources:
        """What it takes of its node, beside what its process holds there."""
        return minus(self.amount, self.holds) if self.holds else self.amount

    def may_go(self, node: str) -> bool:
        """Whether it may be allocated there."""
        return (self.only_on == node and self.holds != ()) if self.only_on else node not in self.application.avoids

    @property
    def label(self) -> str:
        """Its name among those of all applications."""
        return f"{self.application.name}/{self.name}"

    @property
    def is_master(self) -> bool:
        """Whether it is for the ApplicationMaster."""
        return self.number == 0


@dataclass(eq=False, slots=True)
class RunningApplication:
    """An application."""

    name: str
    queue: Queue
    priority: int
    order: int
    """Its number in the order of submission."""
    used: Resources
    """What it holds, with what it has reserved."""
    reserved: Resources
    requests: list[Request] = field(default_factory=list)
    """Those that wait, the first to be tried first."""
    held: dict[str, Request] = field(default_factory=dict)
    """Its containers, by name."""
    leaving: dict[str, Request] = field(default_factory=dict)
    """Those that were killed and are still on their nodes."""
    user: str = ""
    master: Resources | None = None
    """What its ApplicationMaster asks for; None: it has none here."""
    is_waiting: bool = False
    """Whether its ApplicationMaster would be one too many."""
    avoids: Collection[str] = ()
    """The nodes where it wants no container."""


@dataclass(eq=False, slots=True)
class Queue:
    """A queue: a leaf with applications, or a parent of queues."""

    name: str
    capacity: Fraction
    """The share of its parent that it is guaranteed."""
    largest: Fraction = Fraction(1)
    """The share of what its parent may hold that it may."""
    priority: int = 0
    by_priority: bool = False
    """Whether its queues are served by priority as well (``priority-utilization``)."""
    is_fair: bool = False
    """Whether its applications are served by what they hold (``fair``), or in their order (``fifo``)."""
    is_disabled: bool = False
    """``disable_preemption``."""
    limits: QueueLimits = field(default_factory=QueueLimits)
    is_dominant: bool = False
    """Whether what is in it is served by dominant shares (``drf``)."""
    fair: FairQueue | None = None
    """What the FairScheduler has of it, if that decides."""
    parent: Queue | None = None
    children: list[Queue] = field(default_factory=list)
    applications: list[RunningApplication] = field(default_factory=list)
    current: Resources = ()
    """What it might hold when one of its applications was looked at last."""
    share: Fraction = Fraction(1)
    """The share of the cluster that it is guaranteed."""
    guaranteed: Resources = ()
    maximum: Resources = ()
    least: Resources = ()
    """``minResources``."""
    used: Resources = ()
    """What is held of it, with what is reserved."""
    reserved: Resources = ()
    served: Fraction | None = None
    """What is used of its guarantee; None: it is to be computed."""
    users: tuple[dict[str, Resources], dict[str, Resources]] | None = None
    """What each of its users holds, and what he may; None: it is to be computed."""

    def add(self, child: Queue) -> None:
        """A queue is in it; ``disable_preemption`` is inherited."""
        child.parent = self
        self.children.append(child)
        for queue in child.all if self.is_disabled else ():
            queue.is_disabled = True

    def resize(self, whole: Resources, guaranteed: Fraction, most: Fraction) -> None:
        """The cluster has so much; the parent is guaranteed, and may hold, these shares of it, with single
        precision."""
        self.share = self.capacity * (self.parent.share if self.parent else 1)
        guaranteed, most = single(single(self.capacity) * guaranteed), single(single(self.largest) * most)
        self.guaranteed, self.maximum = (tuple(int(each * share) for each in whole) for share in (guaranteed, most))
        self.served = None
        self.least = tuple(int(each * exact(self.fair.min_share)) for each in whole) if self.fair else ()
        for child in self.children:
            child.resize(whole, guaranteed, most)

    @property
    def of_fair(self) -> FairQueue:
        """What the FairScheduler has of it, which decides."""
        assert self.fair is not None
        return self.fair

    @property
    def path(self) -> Iterator[Queue]:
        """Itself, and the queues that it is in."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @property
    def all(self) -> Iterator[Queue]:
        """Itself, and the queues in it."""
        yield self
        for child in self.children:
            yield from child.all

    @property
    def leaves(self) -> Iterator[Queue]:
        """The queues with applications in it; itself if it has no queues."""
        return (queue for queue in self.all if not queue.children)

    @property
    def may_run_one_more(self) -> bool:
        """Whether the numbers of applications of it, and of the queues that it is in, allow one more to run."""
        for queue in self.path:
            running = (each for leaf in queue.leaves for each in leaf.applications if not each.is_waiting)
            most = queue.limits.max_parallel_apps
            if most is not None and sum(1 for _ in running) >= most:
                return False
        return True

    @property
    def held(self) -> Iterator[Request]:
        """The containers of its applications."""
        return (request for application in self.applications for request in application.held.values())

    def in_order(self, amounts: Amounts) -> list[RunningApplication]:
        """Its applications in the order of service, without those that wait for their ApplicationMaster's turn."""
        running = [each for each in self.applications if not each.is_waiting]
        if self.is_dominant:
            return sorted(running, key=lambda each: (amounts.shares(each.used)[0], each.order))
        if self.is_fair:
            return sorted(running, key=lambda each: (each.used[0] - each.reserved[0], each.order))
        return running


@dataclass(eq=False, slots=True)
class Node:
    """A node."""

    name: str
    size: Resources
    free: Resources
    reserved: Request | None = None


class Step(NamedTuple):
    """What was done for which request, and on which node."""

    kind: StepKind
    request: Request
    node: str


class _Turn(NamedTuple):
    """What a queue did when its turn came."""

    steps: list[Step]
    kept: Resources
    """What queues that come later may not have, if it did nothing: its first request waits for that."""


class CapacityScheduler:
    """Queues, nodes and applications, and what each heartbeat gives (see the module's theory of operation)."""

    def __init__(
        self,
        root: Queue,
        smallest: Resources,
        per_heartbeat: int,
        gives_up_first: Callable[[str], int] = lambda node: 0,
    ) -> None:
        """``smallest``: a container; ``gives_up_first``: of the nodes where a request has reservations the one with the
        least number gives its own up first."""
        self.root = root
        self.nodes: dict[str, Node] = {}
        self.reserved: dict[str, Request] = {}
        """What is reserved on nodes, by node."""
        self._smallest = self.least = smallest
        """A node that has less than the second free gets nothing."""
        self._per_heartbeat = per_heartbeat
        self._gives_up_first = gives_up_first
        self._small_part: dict[Resources, Fraction] = {}
        """By amounts that were asked for, how much smaller they are than the largest container."""
        self.pending = 0
        """How many requests wait."""
        self._resuming = Counter[str]()
        """How many of them can go on one node only, where they hold something."""
        self.changes = 0
        """How often heartbeats have changed anything here."""
        self._submitted = self._numbered = 0
        self._left: list[Queue] = []
        """The queues that applications have left since a node reported: others may start after the next report."""
        self.none: Resources = (0,) * len(smallest)
        for queue in root.all:
            queue.used = queue.reserved = self.none
        self._resize()

    # ---- what comes in ----

    def add_node(self, name: str, size: Resources) -> None:
        """A node is there; all of it is free."""
        self.nodes[name] = Node(name, size, size)
        self._resize()

    def remove_node(self, name: str) -> None:
        """A node is gone, after all its containers."""
        if (request := self.nodes[name].reserved) is not None:
            self.unreserve(request, name)
        del self.nodes[name]
        self._resize()

    def _resize(self) -> None:
        sizes = [node.size for node in self.nodes.values()]
        whole = total(sizes, self.none)
        self.amounts = Amounts(whole)
        self._largest = most(sizes) if sizes else self.none
        self._small_part.clear()
        self.root.resize(whole, Fraction(1), Fraction(1))
        for queue in self.root.leaves:
            queue.current = queue.maximum
            self._admit(queue)

    def submit(self, name: str, queue: Queue, priority: int, user: str = "") -> RunningApplication:
        """An application is there; it asks for nothing yet."""
        self._submitted += 1
        application = RunningApplication(name, queue, priority, self._submitted, self.none, self.none, user=user)
        queue.users = None
        insort(queue.applications, application, key=lambda each: (-each.priority, each.order))
        return application

    def ask(self, request: Request) -> None:
        """An application asks for one container."""
        insort(request.application.requests, request, key=lambda each: (each.priority, each.number))
        self.pending += 1
        self._resuming[request.only_on] += 1
        application = request.application
        application.queue.users = None
        if request.is_master and application.master is None:
            application.master, application.is_waiting = request.amount, True
            self._admit(application.queue)

    def withdraw(self, request: Request) -> None:
        """An application asks for that container no longer; where it is reserved it is given up when the node
        reports."""
        request.application.requests.remove(request)
        request.application.queue.users = None
        self.pending -= 1
        self._resuming[request.only_on] -= 1

    def kill(self, request: Request) -> None:
        """The container goes: its queue has what it holds, and its node not yet."""
        request.application.leaving[request.name] = request.application.held.pop(request.name)
        self._charge(request, -1)

    def free(self, request: Request, holds: Resources = ()) -> None:
        """A node reports that a container is gone, which has ended or was killed; ``holds``: what of the node its
        process, which was only stopped, goes on holding."""
        if request.name in request.application.held:
            self.kill(request)
        del request.application.leaving[request.name]
        self.give_back(request.node, minus(request.amount, holds) if holds else request.amount)

    def give_back(self, node: str, amount: Resources) -> None:
        """So much of a node is free again, if the node is there."""
        if node in self.nodes:
            self.nodes[node].free = plus(self.nodes[node].free, amount)

    def end(self, application: RunningApplication) -> None:
        """An application is gone."""
        application.queue.applications.remove(application)
        application.queue.users = None
        above = (each for each in application.queue.path if each.limits.max_parallel_apps is not None)
        self._left += [application.queue, *(leaf for each in above for leaf in each.leaves)]

    def unreserve(self, request: Request, node: str) -> Step:
        """What is reserved on the node is given up."""
        del request.reserved[node]
        request.stayed = 0
        self.nodes[node].reserved = None
        del self.reserved[node]
        self._charge(request, -1)
        self._charge_reserved(request, -1)
        return Step(StepKind.UNRESERVE, request, node)

    # ---- a heartbeat ----

    def heartbeat(self, name: str, most_given: int | None = None) -> list[Step]:
        """What is done on a node that reports, after all that has ended there; ``most_given``: how many containers may
        be given out, if not any number."""
        node = self.nodes[name]
        self.changes += node.reserved is not None or bool(self._left)
        steps = self._serve(node, most_given)
        self.changes += len(steps)
        for queue in self._left:
            self._admit(queue)
        self._left.clear()
        return steps

    def _serve(self, node: Node, most_given: int | None) -> list[Step]:
        steps, given = list[Step](), 0
        if node.reserved is not None:
            return self._look_at_reserved(node, node.reserved, most_given != 0)
        limit = self._per_heartbeat if most_given is None else min(self._per_heartbeat, most_given)
        while given < limit and node.reserved is None and self._may_serve(node):
            found = self._assign(self.root, node, self.root.maximum).steps
            if not found:
                break
            steps += found
            given += 1
        return steps

    def _may_serve(self, node: Node) -> bool:
        """Whether it has enough left for any container; a process that is stopped there may need nothing more."""
        return self.is_resumed_on(node.name) or (any(node.free) and fits(self.least, node.free))

    def is_resumed_on(self, node: str) -> bool:
        """Whether a request waits that only this node can serve: its process is stopped there."""
        return self._resuming[node] > 0

    @property
    def awaited(self) -> list[str]:
        """The nodes whose reports matter even if nothing is free there."""
        return [*self.reserved, *(node for node in self._resuming if node in self.nodes and self.is_resumed_on(node))]

    def _look_at_reserved(self, node: Node, request: Request, may_give: bool) -> list[Step]:
        if request not in request.application.requests or self.is_resumed_on(node.name):
            return [self.unreserve(request, node.name)]
        if may_give and fits(request.takes, node.free):
            request.container = request.reserved.pop(node.name)
            del self.reserved[node.name]
            node.reserved = None
            self._charge_reserved(request, -1)
            self._place(request, node)
            return [Step(StepKind.FULFIL, request, node.name)]
        request.stayed += 1
        return []

    def _assign(self, queue: Queue, node: Node, limit: Resources) -> _Turn:
        """The first thing that can be done for the queue; ``limit``: how much it may hold."""
        none = self.amounts.none
        if not self._is_below(queue, limit, queue.reserved):
            return _Turn([], none)
        if not queue.children:
            return self._assign_leaf(queue, node, limit)
        kept = none
        for child in sorted(queue.children, key=lambda child: self._rank(child, queue)):
            left = minus(minus(limit, kept), queue.used)
            turn = self._assign(child, node, common(plus(left, child.used), child.maximum))
            if turn.steps:
                return turn
            kept = plus(kept, turn.kept)
        return _Turn([], kept)

    def _is_below(self, queue: Queue, limit: Resources, reserved: Resources) -> bool:
        """Whether the queue may hold more, if so much of what is reserved is given up."""
        return self.amounts.more(limit, queue.used) or self.amounts.more(limit, minus(queue.used, reserved))

    def _rank(self, queue: Queue, parent: Queue) -> tuple[bool, int, Fraction, Fraction]:
        if queue.fair is not None:
            of = (queue.used, queue.least)
            held, least = (self.amounts.shares(each)[0] if parent.is_dominant else each[0] for each in of)
            by = Fraction(least) if held < least else exact(queue.fair.weight) or Fraction(1, 10**9)
            return held >= least, 0, held / by, -queue.share
        used = queue.served
        if used is None:
            used = single(self.amounts.ratio(queue.used, queue.guaranteed)) if any(queue.guaranteed) else Fraction(0)
            queue.served = used
        if parent.by_priority:
            return used >= 1, -queue.priority, used, -queue.share
        return False, 0, used, -queue.share

    def _assign_leaf(self, queue: Queue, node: Node, limit: Resources) -> _Turn:
        amounts = self.amounts
        headroom = minus(limit, queue.used)
        held, limits = ({}, {}) if queue.limits.limits_nobody else self._users(queue)
        over: Resources | None = amounts.none
        for application in queue.in_order(self.amounts) if any(each.requests for each in queue.applications) else ():
            if not self._is_below(queue, limit, application.reserved):
                break
            if queue.limits.maximum_am_resource_percent is not None and queue.current != limit:
                queue.current = limit
                self.changes += 1
            request = next((each for each in application.requests if each.may_go(node.name)), None)
            if request is None:
                continue
            if limits:
                user = application.user
                over = to_give_up(limits[user], held[user], application.reserved, amounts)
            if over is None:
                continue
            if not fits(request.amount, plus(headroom, application.reserved)):
                return _Turn([], amounts.larger(headroom, amounts.none))
            if steps := self._try(request, node, headroom, over):
                return _Turn(steps, amounts.none)
        return _Turn([], amounts.none)

    def _try(self, request: Request, node: Node, headroom: Resources, over: Resources) -> list[Step]:
        """Allocate or reserve, if that is possible; ``headroom``: what its queue may still hold; ``over``: what has to
        be given up for its user."""
        amounts = self.amounts
        if not fits(request.amount, node.size):
            return []
        lacks = amounts.larger(minus(request.amount, headroom), over)
        is_full = any(each > 0 for each in lacks)
        may_reserve = self._may_reserve(request)
        if not fits(request.takes, node.free):
            may_reserve = may_reserve and not self.is_resumed_on(node.name)
            return [self._reserve(request, node)] if may_reserve and not is_full else []
        steps: list[Step] = []
        if is_full or not may_reserve:
            gives_up = lacks if is_full else request.amount
            reserved = sorted(request.reserved, key=self._gives_up_first)
            if not reserved or not fits(gives_up, request.amount):
                return []
            steps.append(self.unreserve(request, reserved[0]))
        self._numbered += 1
        request.container = self._numbered
        self._charge(request, 1)
        self._place(request, node)
        return [*steps, Step(StepKind.ALLOCATE, request, node.name)]

    def _may_reserve(self, request: Request) -> bool:
        """Whether it may have one more reservation: the more, the longer those that it has have stayed; large ones
        later than small ones."""
        if not request.reserved:
            return True
        part = self._small_part.get(request.amount)
        if part is None:
            share = max(Fraction(each, most) for each, most in zip(request.amount, self._largest, strict=True) if most)
            factor = min(single(share), single(1 - Fraction(self._smallest[0], self._largest[0] or 1)))
            part = self._small_part[request.amount] = single(1 - factor)
        starvation = int(single(single(Fraction(request.stayed, len(request.reserved))) * part))
        return 1 + starvation > len(request.reserved)

    def _reserve(self, request: Request, node: Node) -> Step:
        self._numbered += 1
        request.reserved[node.name] = self._numbered
        request.stayed = 0
        node.reserved = self.reserved[node.name] = request
        self._charge(request, 1)
        self._charge_reserved(request, 1)
        return Step(StepKind.RESERVE, request, node.name)

    def _place(self, request: Request, node: Node) -> None:
        request.node = node.name
        self.withdraw(request)
        request.application.held[request.name] = request
        node.free = minus(node.free, request.takes)

    def _charge(self, request: Request, sign: int) -> None:
        amount = tuple(sign * each for each in request.amount)
        request.application.used = plus(request.application.used, amount)
        request.application.queue.users = None
        for queue in request.application.queue.path:
            queue.used, queue.served = plus(queue.used, amount), None

    def _charge_reserved(self, request: Request, sign: int) -> None:
        amount = tuple(sign * each for each in request.amount)
        request.application.reserved = plus(request.application.reserved, amount)
        for queue in request.application.queue.path:
            queue.reserved = plus(queue.reserved, amount)

    # ---- for the preemption policy ----

    def need(self) -> Need:
        """The queues as the preemption policy sees them."""
        return self._need_of(self.root)

    def _need_of(self, queue: Queue) -> Need:
        children = tuple(map(self._need_of, queue.children))
        if children:
            pending = total((child.pending for child in children), ())
            less_reserved = total((child.pending_less_reserved for child in children), ())
        else:
            pending, less_reserved = self._pending(queue)
        return Need(
            queue.name,
            queue.guaranteed,
            queue.maximum,
            queue.used,
            pending,
            less_reserved,
            queue.priority,
            queue.is_disabled,
            children,
        )

    def _pending(self, queue: Queue) -> tuple[Resources, Resources]:
        """What a leaf wants, of each user at most what he may have; and the same without what is reserved."""
        held, limits = self._users(queue)
        running = [each for each in queue.in_order(self.amounts) if each.requests]
        asked = [
            (each.user, total((request.amount for request in each.requests), self.none), each.reserved)
            for each in running
        ]

        def within(wanted: Iterable[tuple[str, Resources]]) -> Resources:
            left = {user: lacking(limits[user], held[user]) for user in held}
            found = self.none
            for user, amount in wanted:
                counted = common(amount, left[user])
                left[user], found = minus(left[user], counted), plus(found, counted)
            return found

        wants = within((user, amount) for user, amount, _ in asked)
        return wants, within((user, lacking(amount, reserved)) for user, amount, reserved in asked)

    # ---- users and ApplicationMasters ----

    def _users(self, queue: Queue) -> tuple[dict[str, Resources], dict[str, Resources]]:
        """What each user of a leaf holds, and what he may."""
        if queue.users is None:
            queue.users = self._computed_users(queue)
        return queue.users

    def _computed_users(self, queue: Queue) -> tuple[dict[str, Resources], dict[str, Resources]]:
        amounts, limits = self.amounts, queue.limits
        held: dict[str, Resources] = {}
        for application in queue.applications:
            held[application.user] = plus(held.get(application.user, amounts.none), application.used)
        if queue.fair is not None:
            return held, dict.fromkeys(held, queue.maximum)
        active = {each.user for each in queue.applications if each.requests and not each.is_waiting}
        use = QueueUse(
            queue.guaranteed,
            queue.maximum,
            Fraction(sum(amounts.shares(each)[0] for each in held.values()), amounts.shares(amounts.whole)[0] or 1),
            total((held[user] for user in active), amounts.none),
            sum(map(limits.weight_of, active), Fraction(0)),
        )
        weights = {user: limits.weight_of(user) for user in held}
        of_weight = {each: user_limit(limits, use, each, self._smallest, amounts) for each in {*weights.values()}}
        return held, {user: of_weight[weight] for user, weight in weights.items()}

    def _admit(self, queue: Queue) -> None:
        """The applications whose ApplicationMasters may start ask from now on, in their order."""
        queue.users = None
        waiting = [each for each in queue.applications if each.is_waiting]
        limits, none = queue.limits, self.amounts.none
        if limits.maximum_am_resource_percent is None:
            for application in waiting:
                application.is_waiting = not queue.may_run_one_more
            return
        share = exact(limits.maximum_am_resource_percent)
        usable = queue.current if fits(queue.guaranteed, queue.current) else queue.guaranteed
        limit = masters_limit(share, usable, self._smallest)
        by_user: dict[str, Resources] = {}
        for application in queue.applications:
            if application.master is not None and not application.is_waiting:
                by_user[application.user] = plus(by_user.get(application.user, none), application.master)
        running = {each.user for each in queue.applications if not each.is_waiting}
        active = {each.user for each in queue.applications if each.requests and not each.is_waiting}
        active |= {each.user for each in waiting} - running
        for application in sorted(waiting, key=lambda each: (-each.priority, each.order)):
            user, master = application.user, application.master or none
            weight = limits.weight_of(user)
            own = user_masters_limit(limits, share, queue.guaranteed, len(active), weight, self._smallest)
            all_held, held = total(by_user.values(), none), by_user.get(user, none)
            if not queue.may_run_one_more:
                return
            if may_start(master, all_held, limit) and (not any(all_held) or fits(plus(held, master), own)):
                application.is_waiting = False
                by_user[user] = plus(held, master)

    def applications(self, now_ns: int = 0) -> dict[str, list[Application]]:
        """The applications of each leaf, the last of its order first, with what they hold and have reserved."""
        return {
            leaf.name: [self._application(each, now_ns) for each in reversed(leaf.in_order(self.amounts))]
            for leaf in self.root.leaves
        }

    def _application(self, application: RunningApplication, now_ns: int) -> Application:
        none = self.amounts.none
        held, leaving = (
            [_held(each, each.label, each.node, each.container, now_ns) for each in those.values()]
            for those in (application.held, application.leaving)
        )
        reserved = [
            _held(request, f"{request.label}@{node}", node, request.reserved[node], now_ns)
            for node, request in sorted(self.reserved.items(), key=lambda pair: self._gives_up_first(pair[0]))
            if request.application is application
        ]
        pending = total((request.amount for request in application.requests), none)
        return Application(application.name, application.priority, pending, held, reserved, leaving)


def _held(request: Request, name: str, node: str, number: int, now_ns: int) -> Held:
    return Held(
        name,
        request.amount,
        node,
        request.priority,
        request.number,
        request.is_master,
        number,
        request.exempt_until_ns > now_ns,
    )
