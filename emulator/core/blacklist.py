"""Nodes where tasks of a job keep failing: its ApplicationMaster wants no more containers there (YARN's blacklisting).

A node is avoided after ``node_blacklist_failures`` attempts of the job have failed there.  If that applied to a third
of the nodes or more, the job itself may be at fault, so no node is avoided (in Hadoop
``yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent``).  Nor is any if one of the job's groups
would then have no node that is large enough: its tasks would wait for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from emulator.core.settings import NodeSettings
from emulator.policies.resources import fits
from emulator.vocabulary import Resources

_IGNORED_FROM_PERCENT = 33


class Blacklist:
    """Part of one ApplicationMaster; see the module's text."""

    def __init__(self, failures_max: int, nodes: Sequence[NodeSettings], requests: Collection[Resources]) -> None:
        """``nodes``: those of the cluster; ``requests``: what a task of each group asks for."""
        self._failures_max = failures_max
        self._nodes = nodes
        self._requests = requests
        self._failures: Counter[str] = Counter()
        self._lost: set[str] = set()

    def failed(self, node: str) -> None:
        """An attempt has failed there."""
        self._failures[node] += 1

    def node_lost(self, node: str) -> None:
        """The node is lost, so there is one node fewer; if it returns, its failures no longer count."""
        self._lost.add(node)
        self._failures.pop(node, None)

    def node_is_there(self, node: str) -> None:
        """A container has been given there."""
        self._lost.discard(node)

    @property
    def avoided(self) -> tuple[str, ...]:
        """Nodes to be avoided, in the order of their names."""
        if not self._failures:
            return ()
        black = sorted(node for node, failures in self._failures.items() if failures >= self._failures_max)
        if not black:
            return ()
        left = [node for node in self._nodes if node.name not in self._lost]
        if len(black) * 100 >= len(left) * _IGNORED_FROM_PERCENT:
            return ()
        others = {node.resources for node in left if node.name not in black}
        has_place = all(any(fits(request, size) for size in others) for request in self._requests)
        return tuple(black) if has_place else ()
