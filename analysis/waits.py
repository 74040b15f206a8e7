"""What the tasks of a job waited for where containers have several sizes: the resources that the nodes were short of.

A task's container is known to have been ready at an instant, ``ready_s``: the later of its request and of the time at
which its room was free.  If every node was short of something just before, the task waited for room, and these are what
it waited for.  Room that was there, but kept for others, is no such wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
import pyarrow

from analysis.curves import Curve
from analysis.timeline import make_timeline
from emulator.core.settings import NodeSettings
from emulator.policies.resources import lacking, minus, written
from emulator.vocabulary import Resources

_NODES_NAMED = 4
_NOTHING: Curve = (numpy.empty(0), numpy.empty(0, dtype=numpy.int64))


@dataclass(frozen=True, slots=True)
class Wait:
    """The end of one wait."""

    attempt: str
    until_s: float
    asked: str
    """What its container asked for, in words."""
    node: str
    """Where it got its container."""
    short: dict[str, str]
    """For each node, what it was short of just before, in words; the nearest to enough first."""

    def in_words(self) -> str:
        """What the nodes were short of; of many nodes only the first."""
        named = [f"{node} lacked {what}" for node, what in list(self.short.items())[:_NODES_NAMED]]
        left = len(self.short) - len(named)
        return ", ".join(named) + (f", and {left} other nodes lacked some too" if left else "")


def waits_for_room(attempts: pyarrow.Table, nodes: Sequence[NodeSettings], job: str) -> tuple[Wait, ...]:
    """The waits of a job, by time; ``attempts``: the run's table.  None where containers have one size."""
    if not nodes[0].resources:
        return ()
    rows = attempts.select(["job", "attempt", "node", "ready_s", "request"]).to_pylist()
    mine = sorted((row for row in rows if row["job"] == job and row["request"]), key=lambda row: row["ready_s"])
    timeline = make_timeline(attempts, nodes, end_s=float("inf"))
    lanes = timeline.lanes
    held = {(lanes[use.lane].node, lanes[use.lane].resource): use.curve for use in timeline.uses}
    found = []
    for row in mine:
        request = tuple(amount["thousandths"] for amount in row["request"])
        short = {node.name: lacking(request, _free(node, held, row["ready_s"])) for node in nodes}
        if all(map(any, short.values())):
            names = nodes[0].resource_names
            nearest = sorted(short, key=lambda node: (sum(map(bool, short[node])), sum(short[node])))
            what = {node: written(short[node], names) for node in nearest}
            found.append(Wait(row["attempt"], row["ready_s"], written(request, names), row["node"], what))
    return tuple(found)


def _free(node: NodeSettings, curves: Mapping[tuple[str, str], Curve], at_s: float) -> Resources:
    """What was free of a node just before; ``curves``: what is held of each resource that nodes have."""
    held = []
    for name in node.resource_names:
        times_s, amounts = curves.get((node.name, name), _NOTHING)
        place = int(numpy.searchsorted(times_s, at_s, side="left")) - 1
        held.append(int(amounts[place]) if place >= 0 else 0)
    return minus(node.resources, tuple(held))
