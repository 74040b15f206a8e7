"""What is running and what waits, as the schedulers see it; they change it as they decide.

Sets of nodes are whole numbers: bit ``i`` is the node that ``slurm.conf`` has in place ``i``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from operator import add
from operator import sub as subtract

from emulator.policies.slurm.limits import LimitUsage
from emulator.sites.slurm import (
    FOREVER_NS,
    SECOND_NS,
    Amounts,
    Cluster,
    Job,
    Mode,
    Partition,
    Qos,
    amounts_of_job,
    amounts_of_node,
    fits,
    has_features,
)

ALREADY_NS = -(1 << 62)
"""A node has them now."""
NEVER_NS = 1 << 63
"""A node is too small."""


class FreeTimes:
    """When each node will have so much free, by the time limits of the jobs on it; kept up to date as jobs come and
    go."""

    def __init__(self, at_ns: Iterable[int]) -> None:
        """``at_ns``: for each node, ``ALREADY_NS`` and ``NEVER_NS`` included."""
        self._at_ns = list(at_ns)
        self._order = sorted((at, place) for place, at in enumerate(self._at_ns))
        self._times: list[int] = []
        self._masks: list[int] = []
        """At each of ``_times``, the nodes that have room by then; empty: they are to be made again."""
        self._first_ns: dict[tuple[int, int], int | None] = {}
        """What ``first_ns`` has found for nodes and a count, since the last change."""
        self.now = sum(1 << place for place, at in enumerate(self._at_ns) if at == ALREADY_NS)
        """The nodes that have room now."""

    def change(self, place: int, at_ns: int) -> None:
        """A node will have room at another time than it seemed."""
        before_ns = self._at_ns[place]
        if at_ns == before_ns:
            return
        self._at_ns[place] = at_ns
        del self._order[bisect_left(self._order, (before_ns, place))]
        insort(self._order, (at_ns, place))
        self._masks = []
        if ALREADY_NS in (before_ns, at_ns):
            self.now ^= 1 << place

    def first_ns(self, nodes: int, count: int) -> int | None:
        """When so many of ``nodes`` will have room; None: never."""
        if not self._masks:
            self._update()
        key = nodes, count
        first_ns = self._first_ns.get(key, NEVER_NS)
        if first_ns == NEVER_NS:  # it was not asked before
            found = bisect_left(self._masks, count, key=lambda mask: (mask & nodes).bit_count())
            first_ns = self._first_ns[key] = self._times[found] if found < len(self._masks) else None
        return first_ns

    def by(self, at_ns: int) -> int:
        """The nodes that will have room by then."""
        if not self._masks:
            self._update()
        found = bisect_right(self._times, at_ns)
        return self._masks[found - 1] if found else 0

    def _update(self) -> None:
        self._times, mask = [], 0
        self._first_ns.clear()
        for at_ns, place in self._order:
            if at_ns == NEVER_NS:
                break
            mask |= 1 << place
            if self._times and self._times[-1] == at_ns:
                self._masks[-1] = mask
            else:
                self._times.append(at_ns)
                self._masks.append(mask)


Kind = tuple[str, str]
"""Jobs of one partition and one QOS."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A job that is pending."""

    job: Job
    partition: Partition
    number: int
    """Its JobId: the order of submission."""
    eligible_ns: int = 0
    """A requeued job may not start before."""
    qos: Qos | None = None
    """Under ``preempt/qos``."""
    submitted_ns: int = 0
    """When it was submitted, or requeued: the order of jobs of one priority, before the JobId."""
    stopped_on: frozenset[str] = frozenset()
    """Nodes that it must have: processes of it are stopped there, as another of its nodes was lost."""
    priority: int = 0
    """That which it was given, or was last calculated."""
    amounts: Amounts = ()
    """What it takes of each of its nodes; known when it has been submitted."""
    displaces: int = 0
    """Whom it may preempt: see ``Snapshot.displaced``; known when it has been submitted."""
    stops: int = 0
    """Those of them that stop when it is put over them."""
    makes_way: int = 0
    """The same as ``displaces``, but that those who would stop keep their memory and GRES."""
    chooses_ns: int = ALREADY_NS
    """When it may choose victims (again)."""
    last_reason: tuple[tuple[int, ...], str] = ((), "")
    """Why it found no room when it was last asked, and the numbers of nodes that this is about."""
    limit_ns: int = field(init=False)
    """Its time limit."""

    def __post_init__(self) -> None:
        limits = (self.job.limit_ns, self.partition.limit_ns, FOREVER_NS)
        self.limit_ns = next(limit for limit in limits if limit is not None)
        self.priority = self.priority or self.job.priority

    @property
    def key(self) -> tuple[int, ...]:
        """The order in which jobs are looked at."""
        return -self.partition.tier, -self.priority, self.submitted_ns, self.number

    @property
    def kind(self) -> Kind:
        """Its partition and its QOS; blank: QOS do not say who preempts."""
        return self.partition.name, "" if self.qos is None else self.qos.name

    @property
    def terms(self) -> Partition | Qos:
        """What says how it is preempted."""
        return self.partition if self.qos is None else self.qos


@dataclass(eq=False, slots=True)
class Running:
    """A job on its nodes."""

    waiting: Waiting
    nodes: tuple[str, ...]
    start_ns: int
    end_ns: int
    """When its time limit, or its grace, is over."""
    preempted: bool = False
    """Whether it was chosen as a victim; ``end_ns`` is when its grace is over."""
    exempt_until_ns: int = ALREADY_NS
    """When it can be a victim at the earliest (``PreemptExemptTime``)."""

    kind: Kind = field(init=False)
    """Its partition and its QOS, by which others may preempt it."""

    def __post_init__(self) -> None:
        self.kind = self.waiting.kind

    @property
    def tier(self) -> int:
        """That of its partition."""
        return self.waiting.partition.tier

    @property
    def rank(self) -> tuple[int, int]:
        """The lowest is preempted first."""
        return self.tier, 0 if self.waiting.qos is None else self.waiting.qos.priority

    @property
    def amounts(self) -> Amounts:
        """What it takes of each of its nodes."""
        return self.waiting.amounts

    @property
    def amounts_running(self) -> Amounts:
        """That of it which others may have while it is stopped: CPUs, not memory and GRES."""
        return tuple(amount if place < KEPT_FROM else 0 for place, amount in enumerate(self.waiting.amounts))


KEPT_FROM = 2
"""The place of the first of a cluster's resources that a stopped job keeps."""


def plus(left: Amounts, right: Amounts) -> Amounts:
    """The sum, resource by resource."""
    return tuple(map(add, left, right))


def minus(left: Amounts, right: Amounts) -> Amounts:
    """The difference, resource by resource."""
    return tuple(map(subtract, left, right))


Displaced = dict[Kind, bool]
"""The kinds of running jobs that make room for others, and whether they leave for good, with all that they have."""


class Snapshot:
    """What is free, running and waiting jobs.  Sets of nodes are whole numbers, as in ``FreeTimes``."""

    def __init__(self, cluster: Cluster, wall_ns: int = 0) -> None:
        """``wall_ns``: what the wall's clock says at 0."""
        self.cluster, self.wall_ns = cluster, wall_ns
        self.displaced: list[Displaced] = [{}]
        """Whom a job may preempt, by number (``Waiting.displaces``); nobody by the first."""
        self._now_ns = ALREADY_NS
        self._exempt: list[tuple[int, int, Running]] = []
        """Running jobs that cannot be victims yet, and until when."""
        self.partitions = {each.name: each for each in cluster.partitions}
        self.order = {name: place for place, name in enumerate(cluster.nodes)}
        self.nodes_of = {each.name: self.mask(each.nodes) for each in cluster.partitions}
        """The nodes of each partition."""
        weights = {name: node.weight for name, node in cluster.nodes.items()}
        self.up_to_weight = [
            self.mask(name for name in weights if weights[name] <= most) for most in sorted({*weights.values()})
        ]
        """The nodes of the lowest ``Weight``, those with the next ones too, and so on until all."""
        self.resources = cluster.resources
        nodes, sharing = cluster.nodes, cluster.sharing
        self.at_once = {name: amounts_of_node(self.resources, node) for name, node in nodes.items()}
        """What each node has for jobs that run at one time."""
        self.amounts_of = {name: amounts_of_node(self.resources, node, sharing[name]) for name, node in nodes.items()}
        """What each node has for those that are on it: more of its CPUs where jobs share them."""
        self._for_others = {name: minus(self.amounts_of[name], has)[:KEPT_FROM] for name, has in self.at_once.items()}
        """What jobs have of a node that share its CPUs with others, if all of it is had."""
        self.shared = self.mask(name for name, jobs in sharing.items() if jobs > 1)
        """The nodes whose CPUs several jobs may have at once."""
        self.free = dict(self.amounts_of)
        """What no job has of each node, stopped ones included."""
        self.up = set(cluster.nodes)
        """The nodes that are not down."""
        self.running: dict[str, Running] = {}
        """By job, in the order of their starts."""
        self.going: dict[str, Running] = {}
        """Those of them that have been ended for others, and have not left yet."""
        self.waiting: dict[str, Waiting] = {}
        self.ends_ns: list[int] = []
        """When the running jobs end by their limits, in order."""
        self.by_end: list[Running] = []
        """The running jobs in the order of ``ends_ns``."""
        self.limits = LimitUsage(cluster)
        self._names = tuple(cluster.nodes)
        self._queue: list[Waiting] = []
        """The waiting ones, in the order in which they are looked at."""
        self._of_kind: dict[Kind, dict[str, Running]] = {}
        self._on: dict[str, dict[str, Running]] = {name: {} for name in cluster.nodes}
        self._free_times: dict[tuple[Amounts, int], FreeTimes] = {}
        self._with_features: dict[str, int] = {}
        """The nodes that have what jobs ask for, by their words."""

    # ---- sets of nodes ----

    def mask(self, names: Iterable[str]) -> int:
        """The set of the named nodes."""
        return sum(1 << self.order[name] for name in names)

    def names(self, nodes: int) -> list[str]:
        """The names of a set of nodes, in their order."""
        found = []
        while nodes:
            lowest = nodes & -nodes
            found.append(self._names[lowest.bit_length() - 1])
            nodes ^= lowest
        return found

    def nodes_for(self, waiting: Waiting) -> int:
        """The nodes of its partition that have the features a job asks for."""
        nodes, wanted = self.nodes_of[waiting.partition.name], waiting.job.features
        if wanted and wanted not in self._with_features:
            having = (name for name, node in self.cluster.nodes.items() if has_features(node, wanted))
            self._with_features[wanted] = self.mask(having)
        return nodes & self._with_features[wanted] if wanted else nodes

    # ---- what happens ----

    def submit(self, waiting: Waiting) -> None:
        """A job waits from now on."""
        waiting.amounts = amounts_of_job(self.resources, waiting.job)
        modes = self._preempted_by(waiting)
        waiting.displaces = self._number(dict.fromkeys(modes, True))
        waiting.stops = self._number({kind: False for kind, mode in modes.items() if mode is Mode.SUSPEND})
        waiting.makes_way = self._number({kind: mode is not Mode.SUSPEND for kind, mode in modes.items()})
        self.waiting[waiting.job.name] = waiting
        insort(self._queue, waiting, key=lambda each: each.key)

    def withdraw(self, name: str) -> Waiting:
        """A job waits no longer."""
        waiting = self.waiting.pop(name)
        del self._queue[bisect_left(self._queue, waiting.key, key=lambda each: each.key)]
        return waiting

    def set_priorities(self, priority_of: Callable[[Waiting], int]) -> None:
        """The waiting jobs have other priorities now."""
        for waiting in self._queue:
            waiting.priority = priority_of(waiting)
        self._queue.sort(key=lambda each: each.key)

    def start(self, running: Running) -> None:
        """A waiting job is on its nodes from now on."""
        name = running.waiting.job.name
        waiting = self.withdraw(name)
        self.running[name] = self._of_kind.setdefault(running.kind, {})[name] = running
        self._add_end(running)
        if exempt_ns := self._exempt_ns(waiting):
            running.exempt_until_ns = self.second_of(running.start_ns) + exempt_ns
            heappush(self._exempt, (running.exempt_until_ns, waiting.number, running))
        self.limits.start(waiting.job)
        for node in running.nodes:
            self.free[node] = minus(self.free[node], running.amounts)
            self._on[node][name] = running
        self._changed(running.nodes)

    def end(self, running: Running) -> None:
        """It is gone from its nodes."""
        name = running.waiting.job.name
        del self.running[name], self._of_kind[running.kind][name]
        self.going.pop(name, None)
        self._remove_end(running)
        self.limits.end(running.waiting.job)
        for node in running.nodes:
            self.free[node] = plus(self.free[node], running.amounts)
            del self._on[node][name]
        self._changed(running.nodes)

    def begin_grace(self, running: Running, now_ns: int) -> bool:
        """It is a victim, and may go on until its grace is over, which is counted from the whole second; False: it has
        had one before, or has none."""
        grace_ns = running.waiting.terms.grace_ns
        if running.preempted or not grace_ns:
            return False
        running.preempted = True
        self.move_end(running, min(running.end_ns, self.second_of(now_ns) + grace_ns))
        return True

    def send_off(self, running: Running, now_ns: int) -> None:
        """It has been ended for others, and is still on its nodes."""
        running.preempted = True
        self.going[running.waiting.job.name] = running
        self.move_end(running, now_ns)

    def move_end(self, running: Running, end_ns: int) -> None:
        """It will have to end at another time."""
        self._remove_end(running)
        running.end_ns = end_ns
        self._add_end(running)
        self._changed(running.nodes)

    def _add_end(self, running: Running) -> None:
        place = bisect_right(self.ends_ns, running.end_ns)
        self.ends_ns.insert(place, running.end_ns)
        self.by_end.insert(place, running)

    def _remove_end(self, running: Running) -> None:
        place = bisect_left(self.ends_ns, running.end_ns)
        while self.by_end[place] is not running:  # several end at one time
            place += 1
        del self.ends_ns[place], self.by_end[place]

    def node_gone(self, node: str) -> None:
        """A node is down: nothing of it can be had."""
        self.up.discard(node)
        self.free[node] = minus(self.free[node], self.amounts_of[node])
        self._changed([node])

    def node_up(self, node: str) -> None:
        """A node is there, if it was down."""
        if node not in self.up:
            self.up.add(node)
            self.free[node] = plus(self.free[node], self.amounts_of[node])
            self._changed([node])

    # ---- what the schedulers ask ----

    def pending(self, now_ns: int, limit: int | None) -> list[Waiting]:
        """The first that may start, or all, in the order in which they are looked at."""
        return list(islice((each for each in self._queue if each.eligible_ns <= now_ns), limit))

    def advance(self, now_ns: int) -> None:
        """It is later: who was exempt from preemption may no longer be."""
        self._now_ns = self.limits.now_ns = now_ns
        while self._exempt and self._exempt[0][0] <= now_ns:
            running = heappop(self._exempt)[-1]
            if self.running.get(running.waiting.job.name) is running:
                self._changed(running.nodes)

    def second_of(self, at_ns: int) -> int:
        """The beginning of a second of the wall's clock: Slurm's times are whole seconds."""
        return at_ns - (at_ns + self.wall_ns) % SECOND_NS

    def free_times(self, amounts: Amounts, displaced: int = 0) -> FreeTimes:
        """When each node will have so much free, if those that may be displaced make room at once."""
        found = self._free_times.get((amounts, displaced))
        if found is None:
            made = FreeTimes(self._room_ns(node, amounts, displaced) for node in self._names)
            found = self._free_times[amounts, displaced] = made
        return found

    def free_at(self, node: str, at_ns: int, displaced: int = 0) -> Amounts:
        """What of a node will be free by then, if those that may be displaced make room at once."""
        free = self.free[node]
        for running in self._on[node].values():
            if running.end_ns <= at_ns:
                free = plus(free, running.amounts)
            elif (leaves := self._makes_room(running, displaced)) is not None:
                free = plus(free, running.amounts if leaves else running.amounts_running)
        return free

    def free_without(self, gone: Iterable[Running], stopped: Iterable[Running] = ()) -> dict[str, Amounts]:
        """What is free of each node when ``gone`` will have left, and ``stopped`` will be stopped."""
        free = dict(self.free)
        leaving = ((each, each.amounts) for each in gone)
        stopping = ((each, each.amounts_running) for each in stopped)
        for running, amounts in (*leaving, *stopping):
            for node in running.nodes:
                free[node] = plus(free[node], amounts)
        return free

    def completing(self) -> int:
        """The nodes of which all jobs have been ended for others: nobody gets them before one of these has left."""
        if not self.going:
            return 0
        nodes = {node for each in self.going.values() for node in each.nodes}
        return self.mask(node for node in nodes if self._on[node].keys() <= self.going.keys())

    def preemptable(self, displaced: int) -> Iterator[Running]:
        """The running jobs that may make room now."""
        for kind in self.displaced[displaced]:
            of_kind = self._of_kind.get(kind, {}).values()
            yield from (each for each in of_kind if each.exempt_until_ns <= self._now_ns)

    def _makes_room(self, running: Running, displaced: int) -> bool | None:
        leaves = self.displaced[displaced].get(running.kind)
        return leaves if running.exempt_until_ns <= self._now_ns else None

    def _preempted_by(self, job: Waiting) -> dict[Kind, Mode]:
        """Whom a job may preempt, and how.  By QOS, who is suspended is in a partition of a lower tier (slurm.conf's
        ``PreemptType``): in the same partition Slurm would give both turns, which is not modelled."""
        settings, found = self.cluster.settings, dict[Kind, Mode]()
        if not settings.preempts:
            return found
        for partition in self.cluster.partitions:
            is_lower = partition.tier < job.partition.tier
            if job.qos is None:
                found |= {(partition.name, ""): partition.mode} if is_lower else {}
                continue
            for qos in self.cluster.qos:
                if qos.name in job.qos.preempts and (is_lower or qos.mode is not Mode.SUSPEND):
                    found[partition.name, qos.name] = qos.mode
        never = {Mode.OFF} if settings.gang else {Mode.OFF, Mode.SUSPEND}
        return {kind: mode for kind, mode in found.items() if mode not in never}

    def _number(self, displaced: Displaced) -> int:
        if displaced not in self.displaced:
            self.displaced.append(displaced)
        return self.displaced.index(displaced)

    def _exempt_ns(self, waiting: Waiting) -> int:
        """``PreemptExemptTime``, which slurm.conf's page takes out where ``GANG`` is beside preempt/partition_prio."""
        if waiting.qos is not None:
            return waiting.qos.exempt_ns
        return 0 if self.cluster.settings.gang else self.cluster.settings.exempt_ns

    def sharing(self) -> dict[str, Running]:
        """The running jobs on nodes that have not enough CPUs for all of theirs at once, in the order of starts."""
        others = self._for_others
        shared = (node for node, free in self.free.items() if not fits(free, others[node]))
        names = {name for node in shared for name in self._on[node]}
        return {name: running for name, running in self.running.items() if name in names} if names else {}

    def _room_ns(self, node: str, amounts: Amounts, displaced: int) -> int:
        free = self.free[node]
        if fits(free, amounts):
            return ALREADY_NS
        leaving = list[tuple[int, Amounts]]()
        for running in self._on[node].values():
            leaves = self._makes_room(running, displaced)
            if leaves:
                free = plus(free, running.amounts)
            elif leaves is None:
                leaving.append((running.end_ns, running.amounts))
            else:  # no plan counts on its end, as recorded
                free = plus(free, running.amounts_running)
        if fits(free, amounts):
            return ALREADY_NS
        for end_ns, gone in sorted(leaving):
            free = plus(free, gone)
            if fits(free, amounts):
                return end_ns
        return NEVER_NS

    def _changed(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            for (amounts, displaced), room in self._free_times.items():
                room.change(self.order[node], self._room_ns(node, amounts, displaced))
