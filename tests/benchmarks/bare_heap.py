"""A loop that does nothing but what a simulation's kernel does: what the speed of simulations is held against."""

from __future__ import annotations

from heapq import heappop, heappush

PROCESSES = 1000
"""That take turns at the timeouts: as many entries are in the heap."""


def bare_heap(events: int) -> None:
    """Take as many events from a heap, and set the next one after each."""
    heap = [(number, number) for number in range(PROCESSES)]
    for _ in range(events):
        now, number = heappop(heap)
        heappush(heap, (now + PROCESSES, number))
