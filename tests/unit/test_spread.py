"""Work spread over workers: every task is done once, and nothing waits behind a batch that is too large."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import psutil

from emulator.campaign.spread import ProcessWorkers, spread
from tests.live_runs import gone, until


class AtOnce:
    """Does tasks in this process, in no time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.batches: list[int] = []
        self._given: deque[list[int]] = deque()

    def submit(self, batch: Sequence[int]) -> None:
        self.batches.append(len(batch))
        self._given.append(list(batch))

    def wait(self, timeout_real_s: float) -> list[int]:
        assert self._given, "it waits although nothing is under way"
        return [-task for task in self._given.popleft()]


def test_processes_do_every_task_once() -> None:
    with ProcessWorkers(list, slots=2, preloaded=[]) as workers:
        found = [task for done in spread(range(300), workers) for task in done]
    assert sorted(found) == list(range(300))


def own_id(batch: Sequence[int]) -> list[int]:
    """The process that does a batch."""
    return [os.getpid() for _ in batch]


def hold_python(files: Sequence[str]) -> list[int]:
    """Write which process this is, and let no other thread of it run for longer than the test waits."""
    Path(files[0]).write_text(str(os.getpid()))
    return [ctypes.PyDLL(None).sleep(600)]


_HOLDS_PYTHON = """\
import sys
from test_spread import ProcessWorkers, hold_python
with ProcessWorkers(hold_python, slots=1, preloaded=[]) as workers:
    workers.submit(sys.argv[1:])
    workers.wait(600)
"""


def test_a_worker_that_holds_python_ends_with_a_campaign_that_is_killed(tmp_path: Path) -> None:
    file, path = tmp_path / "pid", os.pathsep.join([str(Path(__file__).parent), os.getcwd()])
    command, environment = [sys.executable, "-c", _HOLDS_PYTHON, str(file)], {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, env=environment) as campaign:
        pid = int(until(lambda: file.exists() and file.read_text(), "a worker at work"))
        campaign.kill()
    until(lambda: gone([pid]), "the worker is gone", 20)


def test_a_worker_that_somebody_has_stopped_does_not_outlive_its_campaign() -> None:
    with ProcessWorkers(own_id, slots=1, preloaded=[]) as workers:
        [pid] = [pid for done in spread([0], workers) for pid in done]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the worker has stopped")
    assert gone([pid])


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
