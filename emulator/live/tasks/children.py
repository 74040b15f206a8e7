"""The processes that a supervisor forks: tasks, and helpers that each do one thing.

A fork is a copy of the supervisor.  It closes what belongs to the supervisor, dies with it, and exits without cleanup.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from emulator.live.dumpers.criu import CriuDumper
from emulator.live.memory.held import MemoryChanged
from emulator.live.parent import end_with, libc
from emulator.live.tasks import command, mapper, reducer
from emulator.live.tasks.containers import ContainerProcess
from emulator.live.tasks.partial_output import OutputError
from emulator.live.tasks.progress_page import ProgressPage
from emulator.live.tasks.task import (
    EXIT_CRASHED,
    EXIT_DONE,
    EXIT_IO_FAILED,
    TaskProcess,
    failure_reason,
    join_groups,
    send_report,
)


def _run_map(task: TaskProcess) -> int:
    try:
        mapper.run_map(task.params, task)
    except (OSError, MemoryChanged, OutputError) as error:
        task.report("failed", reason=failure_reason(error))
        return EXIT_IO_FAILED
    return EXIT_DONE


_set_signal = libc.signal
"""Python's own takes 0.1 ms in a fresh fork, most of it to name the old handler."""
TASKS = {"reduce": reducer.run, "map": _run_map, "command": command.run}


class Children:
    """Makes the processes of one supervisor."""

    def __init__(self, page_path: str, page: ProgressPage, reports: int, not_theirs: Sequence[int]) -> None:
        """``reports``: descriptor that tasks write to; ``not_theirs``: descriptors that children must close."""
        self._page_path = page_path
        self._page = page
        self._reports = reports
        self._not_theirs = tuple(not_theirs)
        self._parent = os.getpid()

    def fork_task(self, container: ContainerProcess) -> int:
        """Fork the process of a container, in its own process group; returns its id.  Raises OSError."""
        return self._fork(lambda: self._do_task(container))

    def fork_helper(self, body: Callable[[], None]) -> int:
        """Fork a process that runs ``body``; returns its id, which is also its process group.  Raises OSError."""

        def run() -> int:
            try:
                body()
            except OSError as error:
                print(f"natjam supervisor: an image: {failure_reason(error)}", file=sys.stderr)
                return EXIT_IO_FAILED
            return EXIT_DONE

        return self._fork(run)

    def report(self, event: str, **fields: Any) -> None:
        """In a helper: send a report to the supervisor."""
        send_report(self._reports, event, fields)

    def attachment(self, container: ContainerProcess) -> dict[str, Any]:
        """Where the process of a container finds what it shares with the supervisor."""
        reports = f"/proc/{self._parent}/fd/{self._reports}"
        return {"page": self._page_path, "slot": container.slot, "reports": reports, "params": container.params}

    def _fork(self, body: Callable[[], int]) -> int:
        pid = os.fork()
        if pid == 0:
            code = EXIT_CRASHED
            try:
                self._shed()
                code = body()
            finally:
                os._exit(code)
        with suppress(OSError):
            os.setpgid(pid, pid)  # the child does so too; either may be first
        return pid

    def _shed(self) -> None:
        end_with(self._parent)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            _set_signal(number, None)  # SIG_DFL
        for descriptor in self._not_theirs:
            os.close(descriptor)

    def _do_task(self, container: ContainerProcess) -> int:
        task = None
        try:
            join_groups(container.params)
            task = TaskProcess(container.params, self._page.writer(container.slot), self._reports)
            if container.params.get("images", {}).get("dumper") == CriuDumper.name:
                task.may_be_made_again(self.attachment(container))
                self._page.close()
                os.dup2(0, 2)  # criu can restore only what it knows: nothing else may be open
            return TASKS[container.kind](task)
        except BaseException as error:
            with suppress(OSError, ValueError):
                if task is None:
                    send_report(self._reports, "failed", {"reason": failure_reason(error)})
                else:
                    task.report("failed", reason=failure_reason(error))
            return EXIT_CRASHED
