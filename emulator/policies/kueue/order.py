"""In which order the heads of a cycle are served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.policies.kueue.queues import Entry
from emulator.policies.kueue.snapshot import Node, Share, Snapshot


def in_order(snapshot: Snapshot, entries: Sequence[Entry]) -> Iterator[Entry]:
    """The entries as they are served; under fair sharing each choice sees what those before it have taken.

    Classical: who borrows less high, then by priority, then by age.
    """
    if snapshot.fair is None:
        yield from sorted(entries, key=lambda entry: (entry.assignment.borrow, entry.waiting.key))
        return
    trees: dict[Node, dict[Node, Entry]] = {}
    for entry in entries:
        trees.setdefault(entry.node.root, {})[entry.node] = entry
    for root, left in trees.items():
        while left:
            winner = left.pop(_Tournament(snapshot, left).winner(root).node)
            yield winner


class _Tournament:
    """From the root down: who would have the lowest share after admission, those that do not borrow first."""

    def __init__(self, snapshot: Snapshot, left: dict[Node, Entry]) -> None:
        self._snapshot = snapshot
        self._left = left
        self._by_node: dict[tuple[Node, Entry], tuple[bool, Share]] = {}
        for entry in left.values():
            self._weigh(entry)

    def winner(self, root: Node) -> Entry:
        """The entry that is served next."""
        found = self._best(root)
        assert found is not None
        return found

    def _weigh(self, entry: Entry) -> None:
        requested = [cell for cell, amount in entry.amounts.items() if amount]
        entry.node.add(entry.amounts)
        for node in entry.node.path():
            self._by_node[node, entry] = (node.is_above(requested), self._snapshot.share(node))
        entry.node.remove(entry.amounts)

    def _best(self, node: Node) -> Entry | None:
        if node.queue is not None:
            return self._left.get(node)
        below = [(child, best) for child in (*node.cohorts, *node.queues) if (best := self._best(child)) is not None]
        if not below:
            return None
        return min(below, key=lambda each: (*self._by_node[each], each[1].waiting.key))[1]
