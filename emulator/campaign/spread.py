"""Work spread over workers, for whatever simulates much: campaigns, chaos, comparisons of the engines.

Theory of operation
-------------------
Tasks go to the workers in batches of about half a second, so that sending even short ones costs little, and progress
is seen.  How long a task takes is taken from those done so far.  A worker has a batch at work and one waiting.  Towards
the end batches become smaller, so that all workers end together.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

STATUS_PERIOD_REAL_S = 0.25
_BATCH_REAL_S = 0.5
_BATCHES_AHEAD = 2
"""Batches under way for each worker: one at work, one waiting."""

TaskT = TypeVar("TaskT")
DoneT = TypeVar("DoneT")
_TaskT = TypeVar("_TaskT", contravariant=True)


class Workers(Protocol[_TaskT, DoneT]):
    """Processes that do tasks, here or on other machines."""

    slots: int
    """How many tasks they do at a time."""

    def submit(self, batch: Sequence[_TaskT]) -> None:
        """Give them tasks to do one after another."""
        ...

    def wait(self, patience_real_s: float) -> list[DoneT]:
        """What was done since the last call; waits up to ``patience_real_s`` if there is nothing.  Raises RunError."""
        ...


def spread(tasks: Iterable[TaskT], workers: Workers[TaskT, DoneT]) -> Iterator[list[DoneT]]:
    """What the tasks give, as it comes and in any order; a few times a second, perhaps nothing.  Raises RunError."""
    waiting, under_way = deque(tasks), 0
    timed, since_real_s = 0, time.monotonic()
    size = 1
    while waiting or under_way:
        while waiting and under_way < workers.slots * _BATCHES_AHEAD * size:
            share = max(1, len(waiting) // (workers.slots * _BATCHES_AHEAD))
            batch = [waiting.popleft() for _ in range(min(size, share))]
            workers.submit(batch)
            under_way += len(batch)
        done = workers.wait(STATUS_PERIOD_REAL_S)
        under_way -= len(done)
        now_real_s = time.monotonic()
        if timed:
            timed += len(done)
            size = max(1, int(_BATCH_REAL_S * timed / max(1e-9, (now_real_s - since_real_s) * workers.slots)))
        elif done:
            timed, since_real_s = len(done), now_real_s  # what came before was the start of the workers
        yield done
