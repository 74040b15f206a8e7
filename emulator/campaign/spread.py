"""Work spread over the processes of this machine or other workers, for campaigns, chaos, comparisons of the engines.

Theory of operation
-------------------
Tasks go to the workers in batches of about half a second, so that sending even short ones costs little, and progress
is seen.  How long a task takes is taken from those done so far.  A worker has a batch at work and one waiting.  Towards
the end batches become smaller, so that all workers end together.

On this machine there is a process for each core.  They are forked from a server that has imported what a simulation
needs, so that they need not import it again.  Each has a pipe, through which it gets one batch at a time and answers
it.  There are no queues and no locks between processes: their semaphores would have names, and stay on the machine if
everything here was killed at once.

Each process watches another pipe, whose other end only this process holds.  When that end is closed, by us or because
this process has died, the worker ends at once.  If a user's policy keeps its thread from that, the kernel ends it with
the server.  For that a worker closes what it inherits of the server, which ``multiprocessing`` does not name in public:
while a worker has it open, the server waits for the worker.  Tried without: a worker in a call of 25 s that held
Python's lock was still there 3 s after its campaign was killed; with it, it was gone.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from emulator.errors import RunError
from emulator.interruption import deferred, unheard_by_children
from emulator.parent import end_with
from emulator.standard_streams import outlast_readers

STATUS_PERIOD_REAL_S = 0.25
_BATCH_REAL_S = 0.5
_BATCHES_AHEAD = 2
"""Batches under way for each worker: one at work, one waiting."""
_END_TIMEOUT_REAL_S = 1.0

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

    def wait(self, timeout_real_s: float) -> list[DoneT]:
        """What was done since the last call; waits up to ``timeout_real_s`` if there is nothing.  Raises RunError."""
        ...


def spread(
    tasks: Iterable[TaskT], workers: Workers[TaskT, DoneT], is_needed: Callable[[TaskT], bool] = lambda task: True
) -> Iterator[list[DoneT]]:
    """What the tasks give, as it comes and in any order; a few times a second, perhaps nothing.

    A task that is not needed any more when its turn comes is left out.  Raises RunError.
    """
    waiting, under_way = deque(tasks), 0
    timed, since_real_s = 0, time.monotonic()
    size = 1
    while waiting or under_way:
        while waiting and under_way < workers.slots * _BATCHES_AHEAD * size:
            share = max(1, len(waiting) // (workers.slots * _BATCHES_AHEAD))
            batch = list(filter(is_needed, [waiting.popleft() for _ in range(min(size, share))]))
            if batch:
                workers.submit(batch)
                under_way += len(batch)
        done = workers.wait(STATUS_PERIOD_REAL_S)
        under_way -= len(done)
        now_real_s = time.monotonic()
        if timed:
            timed += len(done)
            fitting = int(_BATCH_REAL_S * timed / max(1e-9, (now_real_s - since_real_s) * workers.slots))
            size = max(1, min(fitting, 2 * size))  # the first few say little, and may show what is not needed
        elif done:
            timed, since_real_s = len(done), now_real_s  # what came before was the start of the workers
        yield done


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    is_at_work: bool = False


class ProcessWorkers(Generic[TaskT, DoneT]):
    """``Workers`` on this machine; a context manager."""

    def __init__(
        self,
        work: Callable[[Sequence[TaskT]], list[DoneT]],
        slots: int | None = None,
        *,
        preloaded: Sequence[str],
    ) -> None:
        """
        Args:
            work: does a batch of tasks; a function that worker processes can import.
            slots: number of processes; None: one for each core that this process may use.
            preloaded: modules that the work needs; they are imported once for all processes.
        """
        self._work = work
        self.slots = slots or len(os.sched_getaffinity(0))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preloaded))
        self._watched, self._held = self._context.Pipe(duplex=False)
        resource_tracker.ensure_running()  # otherwise the server starts it, and unblocks signals that are blocked here
        with unheard_by_children():
            forkserver.ensure_running()
        self._waiting: deque[Sequence[TaskT]] = deque()
        self._workers: list[_Worker] = []

    def __enter__(self) -> ProcessWorkers[TaskT, DoneT]:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        for worker in self._workers:
            worker.process.join(_END_TIMEOUT_REAL_S)
            worker.process.kill()  # somebody has stopped it
            worker.process.join()
            worker.pipe.close()
        self._watched.close()

    def submit(self, batch: Sequence[TaskT]) -> None:
        """See ``Workers``."""
        self._waiting.append(batch)
        self._hand_out()

    def wait(self, timeout_real_s: float) -> list[DoneT]:
        """See ``Workers``."""
        at_work = {worker.pipe: worker for worker in self._workers if worker.is_at_work}
        done: list[DoneT] = []
        for pipe in connection.wait(list(at_work), timeout_real_s):
            worker = at_work[pipe]  # type: ignore[index]
            done += self._answer_of(worker)
            worker.is_at_work = False
        self._hand_out()
        return done

    def _hand_out(self) -> None:
        while self._waiting and (worker := self._idle()) is not None:
            try:
                worker.pipe.send(self._waiting.popleft())
            except OSError:
                _has_died()
            worker.is_at_work = True

    def _idle(self) -> _Worker | None:
        for worker in self._workers:
            if not worker.is_at_work:
                return worker
        if len(self._workers) == self.slots:
            return None
        ours, its = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(its, self._watched, self._work, dict(os.environ)))
        with deferred():  # an interrupt here would leave a half started worker behind
            process.start()
            self._workers.append(_Worker(process, ours))
        its.close()
        return self._workers[-1]

    def _answer_of(self, worker: _Worker) -> list[DoneT]:
        try:
            outcomes, error, where = worker.pipe.recv()
        except (EOFError, OSError):
            _has_died()
        if error is not None:
            raise error from RuntimeError(where)
        return outcomes  # type: ignore[no-any-return]


def _has_died() -> NoReturn:
    raise RunError(
        "a worker process has died (killed, or out of memory?); to continue, give the same command again"
    ) from None


def _serve(
    pipe: Connection,
    watched: Connection,
    work: Callable[[Sequence[Any]], list[Any]],
    environment: Mapping[str, str],
) -> None:
    """``environment``: of the process that asks; the server may be older than it."""
    end_with(os.getppid())
    if (held := forkserver._forkserver._forkserver_alive_fd) is not None:  # type: ignore[attr-defined]
        os.close(held)  # while a worker has it open, the server does not end
    os.environ.clear()
    os.environ.update(environment)
    outlast_readers()  # a user's policy may print
    threading.Thread(target=_end_with_campaign, args=(watched,), daemon=True).start()
    try:
        while True:
            batch = pipe.recv()
            try:
                answer = work(batch), None, ""
            except Exception as error:
                answer = None, error, traceback.format_exc()
            pipe.send(answer)
    except (EOFError, ConnectionError):  # the campaign has died, and this thread is the first to see it
        _end()


def _end_with_campaign(watched: Connection) -> None:
    watched.poll(None)  # nothing is ever sent, so this returns when the other end is closed
    _end()


def _end() -> NoReturn:
    for child in multiprocessing.active_children():  # a user's policy has started it
        child.kill()
    os._exit(1)
