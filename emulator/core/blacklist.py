"""Nodes where tasks of a job keep failing: its ApplicationMaster wants no more containers there (YARN's blacklisting).

A node is avoided after ``node_blacklist_failures`` attempts of the job have failed there.  If that applied to a third
of the nodes or more, the job itself may be at fault, so no node is avoided (in Hadoop
``yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent``).
"""

from __future__ import annotations

from collections import Counter

_IGNORED_FROM_PERCENT = 33


class Blacklist:
    """Part of one ApplicationMaster; see the module's text."""

    def __init__(self, failures_max: int, nodes: int) -> None:
        """``nodes``: number of nodes in the cluster."""
        self._failures_max = failures_max
        self._nodes = nodes
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
        nodes = self._nodes - len(self._lost)
        return () if len(black) * 100 >= nodes * _IGNORED_FROM_PERCENT else tuple(black)
