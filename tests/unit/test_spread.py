"""Work spread over workers: every task is done once, and nothing waits behind a batch that is too large."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Sequence

from emulator.campaign.spread import ProcessWorkers, spread


class AtOnce:
    """Does tasks in this process, in no time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.batches: list[int] = []
        self._given: deque[list[int]] = deque()

    def submit(self, batch: Sequence[int]) -> None:
        self.batches.append(len(batch))
        self._given.append(list(batch))

    def wait(self, patience_real_s: float) -> list[int]:
        assert self._given, "it waits although nothing is under way"
        return [-task for task in self._given.popleft()]


def test_processes_do_every_task_once() -> None:
    with ProcessWorkers(list, slots=2, preloaded=[]) as workers:
        found = [task for done in spread(range(300), workers) for task in done]
    assert sorted(found) == list(range(300))


_SERVES_NOBODY = """\
import multiprocessing
from emulator.campaign.spread import _serve
ours, its = multiprocessing.Pipe()
watched, held = multiprocessing.Pipe(duplex=False)
ours.close()
_serve(its, watched, list, {})
"""


def test_a_process_whose_campaign_has_died_ends_without_a_word() -> None:
    ended = subprocess.run([sys.executable, "-c", _SERVES_NOBODY], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def test_batches_grow_where_tasks_are_short_and_shrink_towards_the_end() -> None:
    workers = AtOnce(2)
    found = [task for done in spread(range(10_000), workers) for task in done]
    assert sorted(found, reverse=True) == [-task for task in range(10_000)]
    assert workers.batches[:4] == [1, 1, 1, 1], "nothing is known of their length yet"
    assert max(workers.batches) > 100
    assert workers.batches[-1] == 1
    assert len(workers.batches) < 200


def test_no_tasks_are_no_work() -> None:
    assert list(spread([], AtOnce(1))) == []
