"""The timeline of a run: attempts placed on the containers of their nodes.

Theory of operation
-------------------
The ResourceManager gives each attempt one of the containers of a node, but the tables do not say which one.  Here
attempts are placed on lanes, one for each container of a node.  An attempt gets the lane that has been free longest;
but if it got a container at the moment it was freed, it gets the lane of that container.  So an eviction is followed on
its lane by the attempt for which it was made.  A stopped process holds memory but no container.  It is on a separate
lane of its node, for stopped processes.

An attempt holds its container from the start of its overhead at the ResourceManager until the ResourceManager knows
that the container is free again.  This time is divided into segments, each in one of ``STATES``.

Where containers have sizes, a node has no number of them: it has as many lanes as it needs.  Above these is a lane for
each of its resources, with what its containers hold of it over time; a stopped process holds what the cluster says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy
import pyarrow
from numpy.typing import NDArray

from analysis.curves import Curve, summed
from emulator.core.settings import NodeSettings
from emulator.policies.resources import PARTS
from emulator.vocabulary import MASTER, Frozen

STATES = (
    "application master",
    "starting",
    "waiting for input",
    "map",
    "reduce",
    "task",
    "resuming",
    "checkpointing",
    "suspending",
    "suspended",
    "paging out",
    "paging in",
)
"""``task`` is the work of a program, or of a task of a group.  ``checkpointing`` and ``suspending`` last from the
eviction's order until the container is known free.  In ``paging out`` and ``paging in`` a task writes its memory or
reads it back, while others' pages go to swap, or its own come back.
"""
_AM, _STARTING, _WAITING, _MAP, _REDUCE, _TASK, *_LATER = range(len(STATES))
_RESUMING, _CHECKPOINTING, _SUSPENDING, _SUSPENDED, _OUT, _IN = _LATER
_WORKING = {"map": _MAP, "reduce": _REDUCE}
"""By the kind of an attempt; all others are ``_TASK``."""
_GIVING_WAY = (_CHECKPOINTING, _SUSPENDING)
_GONE = -1
"""The process has ended, but the ResourceManager does not know it yet; this gives no segment."""
_EVICTIONS = frozenset({"preempted", "asked back and not given in time"})
"""The reasons of kills that are evictions; other kills are not."""
_COLUMNS = (
    *("kind", "node", "outcome", "reason", "ready_s", "launched_s", "first_key_s", "input_ready_s", "suspend_asked_s"),
    *("ended_s", "slot_freed_s", "resumed_from", "suspended_spans", "paging_spans", "request"),
)


class Lane(Frozen):
    """One row of the timeline."""

    node: str
    number: int
    """Number in its node, from 1."""
    stopped: bool = False
    """Whether it is for stopped processes; if not, it is a container."""
    resource: str = ""
    """The resource whose use it shows; empty: it has attempts."""
    whole: float = 0.0
    """How much of the resource the node has."""

    @property
    def name(self) -> str:
        if self.resource:
            return f"{self.resource}, of {self.whole:g}"
        return f"{'stopped process' if self.stopped else 'container'} {self.number}"


class Handover(NamedTuple):
    """A container went from an evicted attempt to the next one."""

    lane: int
    victim: int
    """Row in the table of attempts; ``successor`` too."""
    successor: int
    from_s: float
    """A time inside the victim's last segment there."""
    to_s: float
    """Start of the successor's first segment."""


class Use(NamedTuple):
    """What the containers of a node hold of one of its resources."""

    lane: int
    """Where it is shown."""
    curve: Curve
    """In thousandths."""


class Timeline(Frozen):
    """Segments as columns, sorted by lane and time; segments of a lane do not overlap."""

    lanes: tuple[Lane, ...]
    lane: NDArray[numpy.int32]
    state: NDArray[numpy.uint8]
    """Index in ``STATES``."""
    start_s: NDArray[numpy.float64]
    end_s: NDArray[numpy.float64]
    attempt: NDArray[numpy.int32]
    """Row in the table of attempts."""
    handovers: tuple[Handover, ...]
    uses: tuple[Use, ...] = ()
    """In the order of their lanes; none where all containers have one size."""

    def total_use(self) -> dict[str, tuple[float, Curve]]:
        """For each resource, how much of it the cluster has, and what all containers hold of it, in thousandths."""
        by_resource: dict[str, list[Use]] = {}
        for use in self.uses:
            by_resource.setdefault(self.lanes[use.lane].resource, []).append(use)
        return {
            name: (sum(self.lanes[use.lane].whole for use in uses), _together(use.curve for use in uses))
            for name, uses in by_resource.items()
        }


def _together(curves: Iterable[Curve]) -> Curve:
    times, amounts = zip(*curves, strict=True)
    changes = [numpy.diff(each, prepend=0) for each in amounts]
    return summed(numpy.concatenate(times), numpy.concatenate(changes))


class _Stay(msgspec.Struct):
    """A span in which an attempt is on one lane."""

    start_s: float
    end_s: float
    attempt: int
    stopped: bool
    gives_way: bool
    """Whether it ends by eviction."""
    cuts: list[tuple[float, int]]
    """Times at which each state begins."""

    @property
    def last_segment_s(self) -> float:
        """Start of its last segment."""
        return next(at_s for at_s, state in reversed(self.cuts) if state != _GONE)


class _Lanes(msgspec.Struct):
    """The lanes of one type on one node."""

    capacity: int
    free: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """The free lanes: since when, and number; the one free longest first."""
    last: list[_Stay | None] = msgspec.field(default_factory=list)
    """The last stay on each lane."""

    def take(self, stay: _Stay) -> tuple[int, _Stay | None]:
        """The lane of a stay, and the stay before it there.  Stays must come in the order of their starts."""
        while len(self.last) < self.capacity:
            self.last.append(None)
            insort(self.free, (float("-inf"), len(self.last) - 1))
        known = bisect_right(self.free, (stay.start_s, len(self.last)))
        if not known:  # clocks of several machines differ a little, or the node was lost
            self.last.append(None)
            number = len(self.last) - 1
        else:
            exact = bisect_left(self.free, (stay.start_s, 0))
            _, number = self.free.pop(exact if exact < known else 0)
        before, self.last[number] = self.last[number], stay
        insort(self.free, (stay.end_s, number))
        return number, before


def make_timeline(attempts: pyarrow.Table, nodes: Sequence[NodeSettings], end_s: float) -> Timeline:
    """Place the attempts of one run.

    Args:
        attempts: the table of ``attempts.parquet``.
        nodes: all nodes of the cluster, in the order to show.
        end_s: when the run ended, or now; attempts without a known end last until then.
    """
    settings = {node.name: node for node in nodes}
    by_node: dict[str, list[_Stay]] = {node.name: [] for node in nodes}
    columns = [attempts.column(name).to_pylist() for name in _COLUMNS]
    for number, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(_COLUMNS, values, strict=True))
        if row["kind"] == MASTER and not row["request"] and nodes[0].resources:
            continue  # where containers have sizes, such an ApplicationMaster holds none
        stays = _stays(row, number, end_s)
        for span in row["paging_spans"]:
            for stay in stays:
                _show_paging(stay, span)
        by_node.setdefault(row["node"], []).extend(stays)
    handovers: list[Handover] = []
    lanes: list[Lane] = []
    segments: list[tuple[int, float, float, int, int]] = []
    uses: list[Use] = []
    requests = columns[_COLUMNS.index("request")]
    for node, stays in by_node.items():
        stays.sort(key=lambda stay: (stay.start_s, stay.attempt))
        containers = 0 if node not in settings or settings[node].resources else settings[node].containers
        for resource, whole in enumerate(settings[node].resources if node in settings else ()):
            if whole:
                uses.append(Use(len(lanes), _held_of(resource, settings[node], stays, requests)))
                name = settings[node].resource_names[resource]
                lanes.append(Lane(node, resource + 1, resource=name, whole=whole / PARTS))
        for stopped, capacity in ((False, containers), (True, 0)):
            pool = _Lanes(capacity)
            for stay in (stay for stay in stays if stay.stopped is stopped):
                number, before = pool.take(stay)
                lane = len(lanes) + number
                if before is not None and before.gives_way and before.end_s == stay.start_s:
                    handovers.append(Handover(lane, before.attempt, stay.attempt, before.last_segment_s, stay.start_s))
                segments += _segments(stay, lane)
            lanes += [Lane(node, number + 1, stopped) for number in range(max(capacity, len(pool.last)))]
    segments.sort()
    lane, start_s, until_s, state, attempt = zip(*segments, strict=True) if segments else ((), (), (), (), ())
    return Timeline(
        tuple(lanes),
        numpy.array(lane, dtype=numpy.int32),
        numpy.array(state, dtype=numpy.uint8),
        numpy.array(start_s, dtype=float),
        numpy.array(until_s, dtype=float),
        numpy.array(attempt, dtype=numpy.int32),
        tuple(handovers),
        tuple(uses),
    )


def _held_of(
    resource: int, node: NodeSettings, stays: Sequence[_Stay], requests: Sequence[Sequence[dict[str, int]]]
) -> Curve:
    """What the attempts of these stays hold of the node's resource with this number over time."""
    holding = [stay for stay in stays if requests[stay.attempt] and (node.stopped_hold[resource] or not stay.stopped)]
    times_s = [stay.start_s for stay in holding] + [stay.end_s for stay in holding]
    amounts = numpy.array([requests[stay.attempt][resource]["thousandths"] for stay in holding], dtype=numpy.int64)
    return summed(numpy.array(times_s, dtype=float), numpy.concatenate([amounts, -amounts]))


def _segments(stay: _Stay, lane: int) -> Iterator[tuple[int, float, float, int, int]]:
    ends_s = [at_s for at_s, _ in stay.cuts[1:]] + [stay.end_s]
    for (start_s, state), until_s in zip(stay.cuts, ends_s, strict=True):
        if state != _GONE and (until_s > start_s or state in _GIVING_WAY):
            yield lane, start_s, until_s, state, stay.attempt


def _stays(row: dict[str, Any], attempt: int, end_s: float) -> list[_Stay]:
    """The stays of one attempt: on its container, and on a lane for stopped processes."""
    left_s = _first_known(row["slot_freed_s"], row["ended_s"], end_s)
    stays = [_Stay(row["ready_s"], left_s, attempt, False, False, _beginning(row))]
    for span in row["suspended_spans"]:
        here = stays[-1]
        stopped_s, asked_s = span["stopped_s"], _first_known(span["asked_s"], span["stopped_s"])
        here.cuts.append((min(asked_s, stopped_s), _SUSPENDING))
        back_s = _first_known(span["resume_ready_s"], span["resumed_s"])
        if span["freed_s"] is None:  # it was resumed or lost before its container was known free
            here.cuts.append((stopped_s, _SUSPENDED))
            if span["resumed_s"] is not None:
                here.cuts.append((span["resumed_s"], _working(row)))
            continue
        here.end_s, here.gives_way = span["freed_s"], True
        beside_until_s = _first_known(back_s, row["ended_s"], end_s)
        beside = _Stay(here.end_s, beside_until_s, attempt, True, False, [(here.end_s, _SUSPENDED)])
        if back_s is None:
            stays.append(beside)
            return [_bounded(stay) for stay in stays]
        cuts = [(back_s, _RESUMING)]
        if span["resumed_s"] is not None:
            cuts.append((span["resumed_s"], _working(row)))
        stays += [beside, _Stay(back_s, left_s, attempt, False, False, cuts)]
    last = stays[-1]
    if row["outcome"] == "checkpointed":
        last.gives_way = True
        last.cuts.append((_first_known(row["suspend_asked_s"], row["ended_s"], last.end_s), _CHECKPOINTING))
    elif row["ended_s"] is not None:
        last.gives_way = row["outcome"] == "killed" and row["reason"] in _EVICTIONS
        last.cuts.append((row["ended_s"], _GONE))
    return [_bounded(stay) for stay in stays]


def _beginning(row: dict[str, Any]) -> list[tuple[float, int]]:
    """The states from getting the container to the first key."""
    if row["kind"] == MASTER:
        return [(row["ready_s"], _AM)]
    starting = _STARTING if row["resumed_from"] is None else _RESUMING
    cuts = [(row["ready_s"], starting)]
    input_ready_s, launched_s, first_key_s = row["input_ready_s"], row["launched_s"], row["first_key_s"]
    if launched_s is not None and row["kind"] != "map":
        if input_ready_s is not None and input_ready_s > launched_s:
            cuts += [(launched_s, _WAITING), (input_ready_s, starting)]
        elif first_key_s is None:
            cuts.append((launched_s, _WAITING))
    if first_key_s is not None:
        cuts.append((first_key_s, _working(row)))
    return cuts


def _working(row: dict[str, Any]) -> int:
    return _WORKING.get(row["kind"], _TASK)


def _bounded(stay: _Stay) -> _Stay:
    """The stay with its cuts in order and inside it, even if clocks of several machines differ."""
    stay.end_s = max(stay.end_s, stay.start_s)
    latest_s = stay.start_s
    for place, (at_s, state) in enumerate(stay.cuts):
        latest_s = min(max(latest_s, at_s), stay.end_s)
        stay.cuts[place] = (latest_s, state)
    return stay


def _show_paging(stay: _Stay, span: dict[str, Any]) -> None:
    """Work in a span of paging is shown as that."""
    cuts: list[tuple[float, int]] = []
    ends_s = [at_s for at_s, _ in stay.cuts[1:]] + [stay.end_s]
    for (at_s, state), until_s in zip(stay.cuts, ends_s, strict=True):
        cuts.append((at_s, state))
        from_s, to_s = max(at_s, span["began_s"]), min(until_s, span["ended_s"])
        if state in (_MAP, _REDUCE) and from_s < to_s:
            cuts += [(from_s, _IN if span["in_bytes"] else _OUT), (to_s, state)]
    stay.cuts = cuts


def _first_known(*values: float | None) -> Any:
    return next((value for value in values if value is not None), None)
