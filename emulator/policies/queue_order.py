"""Orders of queues that several allocations share."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key

from emulator.policies.views import QueueView


def most_underserved(queues: Iterable[QueueView]) -> tuple[str, ...]:
    """Names of the queues, the least used / capacity first; queues without capacity come last."""

    def compare(a: QueueView, b: QueueView) -> int:
        # Compares used_a / capacity_a with used_b / capacity_b in whole numbers.
        left, right = a.used * b.capacity, b.used * a.capacity
        if a.capacity == 0 or b.capacity == 0:
            left, right = int(a.capacity == 0), int(b.capacity == 0)
        return (left > right) - (left < right) or (a.rank - b.rank)

    return tuple(queue.name for queue in sorted(queues, key=cmp_to_key(compare)))
