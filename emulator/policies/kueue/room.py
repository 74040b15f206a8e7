"""Room on the flavors' nodes, as far as it was told.

Kueue may admit a workload into the quota of one that is still going; its pods then wait until those are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from emulator.policies.schedulers.protocol import Amounts


class Room:
    """What is used of each node, and what is given in the answer that is being made."""

    def __init__(self) -> None:
        self._has: dict[str, Amounts] = {}
        self._used: dict[str, tuple[str, Amounts]] = {}
        """By container: its node, and what it takes there."""
        self._taken: dict[str, Counter[str]] = {}
        """By node."""
        self._giving: dict[str, Counter[str]] = {}

    def begin(self) -> None:
        """What was given has been told by now, or is gone."""
        self._giving = {}

    def up(self, node: str, has: Amounts) -> None:
        """A node is there."""
        self._has[node] = has

    def uses(self, container: str, node: str, amounts: Amounts | None) -> None:
        """A container takes so much from now on; None: it is gone."""
        _, before = self._used.pop(container, (node, {}))
        taken = self._taken.setdefault(node, Counter())
        taken.subtract(before)
        if amounts is not None:
            self._used[container] = node, amounts
            taken.update(amounts)

    def give(self, wanted: Iterable[tuple[str, Amounts]], stopped: Iterable[str]) -> bool:
        """Whether all this has room together, in place of what these stopped containers hold; it then is given."""
        needs: dict[str, Counter[str]] = {}
        for node, amounts in wanted:
            needs.setdefault(node, Counter()).update(amounts)
        for node, amounts in map(self._used.__getitem__, stopped):
            needs.setdefault(node, Counter()).subtract(amounts)
        if not all(self._fits(node, need) for node, need in needs.items()):
            return False
        for node, need in needs.items():
            self._giving.setdefault(node, Counter()).update(need)
        return True

    def _fits(self, node: str, need: Mapping[str, int]) -> bool:
        has, taken = self._has[node], self._taken.get(node, Counter())
        giving = self._giving.get(node, Counter())
        return all(amount <= has.get(name, 0) - taken[name] - giving[name] for name, amount in need.items())
