"""Work spread over this machine: one process for each core.

Theory of operation
-------------------
Processes are forked from a server that has imported what a simulation needs, so that they need not import it again.
Each watches a pipe whose other end only this process holds.  When that end is closed, by us or because this process
has died, the worker ends at once.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from emulator.errors import RunError
from emulator.interruption import deferred, unheard_by_children

_PRELOADED = ["emulator.campaign.worker", "emulator.sim.session"]

TaskT = TypeVar("TaskT")
OutcomeT = TypeVar("OutcomeT")


class ProcessWorkers(Generic[TaskT, OutcomeT]):
    """Implements ``emulator.campaign.spread.Workers``; a context manager."""

    def __init__(
        self,
        work: Callable[[Sequence[TaskT]], list[OutcomeT]],
        slots: int | None = None,
        preloaded: Sequence[str] = (),
    ) -> None:
        """
        Args:
            work: does a batch of tasks; a function that worker processes can import.
            slots: number of processes; None: one for each core that this process may use.
            preloaded: modules that the work needs.
        """
        self._work = work
        self.slots = slots or len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_PRELOADED, *preloaded])
        watched, self._held = context.Pipe(duplex=False)
        resource_tracker.ensure_running()  # otherwise the server starts it, and unblocks signals that are blocked here
        with unheard_by_children():
            forkserver.ensure_running()
        self._executor = ProcessPoolExecutor(self.slots, context, _begin_worker, (watched, dict(os.environ)))
        self._futures: set[Future[list[OutcomeT]]] = set()

    def __enter__(self) -> ProcessWorkers[TaskT, OutcomeT]:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, batch: Sequence[TaskT]) -> None:
        """See ``Workers``."""
        with deferred():  # an interrupt here would leave a half started worker behind
            self._futures.add(self._executor.submit(self._work, batch))

    def wait(self, patience_real_s: float) -> list[OutcomeT]:
        """See ``Workers``."""
        done, self._futures = wait(self._futures, patience_real_s, FIRST_COMPLETED)
        try:
            return [outcome for future in done for outcome in future.result()]
        except BrokenProcessPool:
            raise RunError(
                "a worker process has died (killed, or out of memory?); to continue, give the same command again"
            ) from None


def _begin_worker(watched: Connection, environment: dict[str, str]) -> None:
    """``environment``: this process's; the server may be older than it."""
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with_campaign, args=(watched,), daemon=True).start()


def _end_with_campaign(watched: Connection) -> None:
    watched.poll(None)  # nothing is ever sent, so this returns when the other end is closed
    for child in multiprocessing.active_children():  # a user's policy has started it
        child.kill()
    os._exit(1)
