"""The processes that a supervisor forks: tasks, and helpers that each do one thing.

A fork is a copy of the supervisor.  It closes what belongs to the supervisor, dies with it, and exits without cleanup.

Processes are made ahead, one after the other when nothing else is to be done: each fork takes the supervisor one
millisecond, and the new process copies hundreds of pages at its first writes to them.  So a process made ahead writes
to most of them (`reducer.rehearse`), and then waits for its task.  A burst of launches was then ready in half the time
(measured on a busy machine only).
Programs, and tasks of which images are made, are forked when they are launched: so nothing of this is part of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

from emulator.live.dumpers.criu import CriuDumper
from emulator.live.memory.held import MemoryChanged
from emulator.live.tasks import command, mapper, reducer
from emulator.live.tasks.containers import ContainerProcess
from emulator.live.tasks.partial_output import OutputError
from emulator.live.tasks.progress_page import AHEAD_SUFFIX, ProgressPage
from emulator.live.tasks.task import (
    EXIT_CRASHED,
    EXIT_DONE,
    EXIT_IO_FAILED,
    START,
    TaskProcess,
    failure_reason,
    join_groups,
    pack,
    send_report,
)
from emulator.parent import ctypes, end_with, libc


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
REHEARSED = "rehearsed"
"""What a process reports that was made ahead and is ready."""


class Children:
    """Makes the processes of one supervisor."""

    def __init__(
        self,
        page_path: str,
        page: ProgressPage,
        reports: int,
        not_theirs: Sequence[int],
        most_ahead: int,
        send_signal: Callable[[int, int], None],
    ) -> None:
        """``reports``: descriptor that tasks write to; ``not_theirs``: descriptors that children must close;
        ``most_ahead``: so many processes are enough, those of tasks and those made ahead together."""
        self._page_path = page_path
        self._page = page
        self._reports = reports
        self._not_theirs = tuple(not_theirs)
        self._parent = os.getpid()
        self._most_ahead = most_ahead
        self._signal = send_signal
        self._directory = Path(f"{page_path}{AHEAD_SUFFIX}")
        self._is_needed = False
        """Tasks are launched that can have a process made ahead."""
        self._ready: dict[int, None] = {}
        """Processes made ahead that wait for a task, the oldest first."""
        self._rehearsing: int | None = None
        """The one that is being made."""

    def fork_task(self, container: ContainerProcess) -> int:
        """The id of a process for this container, in its own process group, forked now or before.  Raises OSError."""
        kind, slot, params = container.kind, container.slot, container.params
        fits = kind != "command" and "images" not in params
        self._is_needed |= fits
        if not fits or not self._ready:
            return self._fork(lambda: self._do_task(kind, slot, params))
        pid = next(iter(self._ready))
        self._task_file(pid).write_bytes(pack([kind, slot, params]))
        del self._ready[pid]
        self._signal(pid, START)
        return pid

    # Ahead

    def make_ahead(self, tasks: int) -> None:
        """Make one process ahead, unless one is being made or there are enough beside those of so many tasks."""
        if not self._is_needed or self._rehearsing is not None or tasks + len(self._ready) >= self._most_ahead:
            return
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._rehearsing = self._fork(self._wait_for_task)
        except OSError:
            self._most_ahead = 0
            self.end_ahead()  # tasks need the room more

    def end_ahead(self) -> None:
        """Kill the processes made ahead; make no more."""
        self._is_needed = False
        for pid in (*self._ready, *([] if self._rehearsing is None else [self._rehearsing])):
            self._signal(pid, signal.SIGKILL)

    def rehearsed(self, pid: int, tasks: int) -> None:
        """The process that was being made is ready; if tasks have been launched meanwhile, it may be one too many."""
        if tasks + len(self._ready) >= self._most_ahead:
            self._signal(pid, signal.SIGKILL)  # it counts as being made until it has ended
            return
        self._rehearsing = None
        self._ready[pid] = None

    def is_ahead(self, pid: int) -> bool:
        """Whether a process was made ahead and has no task yet."""
        return pid in self._ready or pid == self._rehearsing

    @property
    def has_ahead(self) -> bool:
        """Whether there is any."""
        return bool(self._ready) or self._rehearsing is not None

    def ahead_ended(self, pid: int) -> bool:
        """Returns whether a process that has ended was made ahead and had no task yet."""
        if not self.is_ahead(pid):
            return False
        self._ready.pop(pid, None)
        if pid == self._rehearsing:
            self._rehearsing = None
        return True

    def _task_file(self, pid: int) -> Path:
        return self._directory / str(pid)

    def _wait_for_task(self) -> int:
        file = self._task_file(os.getpid())
        with suppress(Exception):  # what fails here will fail in a task as well, which says so
            reducer.rehearse(f"{file}-rehearsal")
        self.report(REHEARSED)
        signal.sigwaitinfo({START})
        kind, slot, params = msgpack.unpackb(file.read_bytes())
        file.unlink()
        return self._do_task(kind, slot, params)

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
        """In a child: send a report to the supervisor."""
        send_report(self._reports, event, fields)

    def attachment(self, slot: int, params: dict[str, Any]) -> dict[str, Any]:
        """Where the process of a container finds what it shares with the supervisor."""
        reports = f"/proc/{self._parent}/fd/{self._reports}"
        return {"page": self._page_path, "slot": slot, "reports": reports, "params": params}

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

    def _do_task(self, kind: str, slot: int, params: dict[str, Any]) -> int:
        task = None
        if kind != "command" and params.get("has_grace"):
            _set_signal(signal.SIGTERM, ctypes.c_void_p(signal.SIG_IGN))  # it works on until it is killed
        try:
            join_groups(params)
            task = TaskProcess(params, self._page.writer(slot), self._reports)
            if params.get("images", {}).get("dumper") == CriuDumper.name:
                task.may_be_made_again(self.attachment(slot, params))
                self._page.close()
                os.dup2(0, 2)  # criu can restore only what it knows: nothing else may be open
            return TASKS[kind](task)
        except BaseException as error:
            with suppress(OSError, ValueError):
                if task is None:
                    send_report(self._reports, "failed", {"reason": failure_reason(error)})
                else:
                    task.report("failed", reason=failure_reason(error))
            return EXIT_CRASHED
