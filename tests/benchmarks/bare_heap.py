"""A loop that does nothing but what a simulation's kernel does: what the speed of simulations is held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import heappop, heappush

PROCESSES = 1000
"""That take turns at the timeouts: as many entries are in the heap."""


def bare_heap(events: int) -> None:
    """Take as many events from a heap, and set the next one after each."""
    heap = [(number, number) for number in range(PROCESSES)]
    for _ in range(events):
        now, number = heappop(heap)
        heappush(heap, (now + PROCESSES, number))


def cpu_s(action: Callable[[], object]) -> float:
    """Processor seconds that something takes."""
    began_s = time.process_time()
    action()
    return time.process_time() - began_s


def bare_event_s() -> float:
    """Processor seconds of one event of a bare heap, the best of five."""
    return min(cpu_s(lambda: bare_heap(100_000)) for _ in range(5)) / 100_000
