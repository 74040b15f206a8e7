"""What a task process has from its supervisor: parameters, progress slot, a pipe for reports, signals.

A task is a forked copy of the supervisor.  The three control signals are always blocked in it.  It takes them
synchronously, between two steps of its work (`take_signal`).  So no handler ever interrupts it, no call is ever
restarted, and a signal sent before the task was ready simply waits.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from emulator.live.cgroups import swapped_bytes_in
from emulator.live.clock import ScaledClock
from emulator.live.memory.held import HeldMemory, swapped_bytes_of
from emulator.live.tasks.progress_page import ProgressPage, SlotWriter


def pack(message: object) -> bytes:
    """One message as bytes.

    Raises TypeError for types that msgpack does not know, OverflowError beyond 64 bits.
    """
    packed = msgpack.packb(message)
    assert packed is not None  # only a packer without automatic reset gives none
    return packed


EXIT_DONE = 0
EXIT_CRASHED = 1
EXIT_IO_FAILED = os.EX_IOERR
EXIT_CHECKPOINTED = os.EX_TEMPFAIL

SUSPEND, CHECKPOINT, INPUT_CHANGED = signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2
CONTROL_SIGNALS = frozenset({SUSPEND, CHECKPOINT, INPUT_CHANGED})
START = signal.Signals(signal.SIGRTMIN)
"""Tells a process that was made ahead which task it is; a signal of its own, as two of one kind can become one."""
BLOCKED_SIGNALS = CONTROL_SIGNALS | {START}

ATTACHMENT = "attachment"
"""File in the folder of a task's images: the new place of a process that criu has restored."""
_REASON_CHARACTERS = 600
_NOISE_BYTES = 1 << 20
"""No more than this is paged by anything but the memory that tasks hold."""
_SIGN_OF_LIFE_REAL_NS = 2_000_000_000
"""A waiting task gives signs of life at least this often; keys are usually shorter."""


class TaskProcess:
    """One launched task, inside its own process.

    `params` are the launch parameters as sent.  `clock` is made from them (KeyError or ValueError if values for it are
    missing).
    """

    def __init__(self, params: dict[str, Any], slot: SlotWriter, report_descriptor: int) -> None:
        self.params = params
        self.slot = slot
        self.clock = ScaledClock(params["origin_real_ns"], params["scale"])
        self._report_descriptor = report_descriptor
        size_bytes = params.get("memory_bytes", 0)
        self.memory = HeldMemory(size_bytes) if size_bytes else None
        """Memory to write before the first key and to check after the last; None: there is none."""
        self._page: ProgressPage | None = None

    def may_be_made_again(self, attachment: dict[str, Any]) -> None:
        """From now on it keeps nothing outside open while it is stopped.  ``attachment`` says where it finds these
        things when it continues: page, slot, reports, params."""
        self._attachment = attachment
        os.close(self._report_descriptor)
        self._attach()

    def stop(self) -> tuple[int, int]:
        """Stop like ``stop_until_continued``; a restored process with the same memory may continue, elsewhere."""
        if self._page is None:
            return stop_until_continued()
        os.close(self._report_descriptor)
        self._page.close()
        instants = stop_until_continued()
        moved = Path(self.params["images"]["folder"], ATTACHMENT)
        if moved.exists():
            self._attachment = msgpack.unpackb(moved.read_bytes())
            moved.unlink()
        self._attach()
        return instants

    def _attach(self) -> None:
        there = self._attachment
        self.params = there["params"]
        self._page = ProgressPage.open(there["page"])
        self.slot = self._page.writer(there["slot"])
        self._report_descriptor = os.open(there["reports"], os.O_WRONLY | os.O_CLOEXEC)

    def use_memory(self, use: Callable[[Callable[[], None]], None], between: Callable[[], None]) -> None:
        """Write the memory, or check it, and report what was paged out of others and in of its own for that."""
        group: str | None = self.params.get("memory_group")
        if group is None:
            use(between)
            return
        own_bytes, all_bytes = swapped_bytes_of(os.getpid()), swapped_bytes_in(group)
        began_real_ns = time.monotonic_ns()
        use(between)
        instants = {"began_real_ns": began_real_ns, "ended_real_ns": time.monotonic_ns()}
        in_bytes = max(0, own_bytes - swapped_bytes_of(os.getpid()))
        out_bytes = max(0, swapped_bytes_in(group) - all_bytes + in_bytes)
        if max(in_bytes, out_bytes) > _NOISE_BYTES:
            self.report("paged", **instants, out_bytes=out_bytes, in_bytes=in_bytes)

    @property
    def container_directory(self) -> Path:
        """Scratch directory of this container on the node's disk."""
        return container_directory(self.params["work_dir"], self.params["container_id"])

    def wait(self, until_real_ns: int | None) -> int:
        """Wait like ``take_signal``, and give signs of life."""
        while True:
            now_real_ns = time.monotonic_ns()
            self.slot.alive(now_real_ns)
            sign_real_ns = now_real_ns + _SIGN_OF_LIFE_REAL_NS
            taken = take_signal(sign_real_ns if until_real_ns is None else min(until_real_ns, sign_real_ns))
            if taken or (until_real_ns is not None and time.monotonic_ns() >= until_real_ns):
                return taken

    def report(self, event: str, **fields: Any) -> None:
        """Send a report to the supervisor; fields are plain values.

        All tasks share one pipe, so a report is written as a whole or not at all: ValueError if it is longer than
        PIPE_BUF.
        """
        send_report(self._report_descriptor, event, fields)


def join_groups(params: dict[str, Any]) -> None:
    """Put this process into the cgroups of its container, else of its node's memory, and of its attempt.  Raises
    OSError."""
    if (group := params.get("memory_group")) is not None and not params.get("container_groups"):
        Path(group).write_text("0")
    for folder, limits in params.get("container_groups", {}).items():
        Path(folder).mkdir(exist_ok=True)
        for name, value in limits.items():
            Path(folder, name).write_text(value)
        Path(folder, "cgroup.procs").write_text("0")
    if (group := params.get("program_group")) is not None:
        Path(group, "cgroup.procs").write_text("0")


def container_directory(work_dir: str, container_id: str) -> Path:
    """Directory of a container's files made at launch time: its input list, its checkpoint."""
    return Path(work_dir, "containers", container_id)


def take_signal(until_real_ns: int | None) -> int:
    """Wait for a control signal until a real time (None: for ever); returns the signal, or 0 at that time.

    A pending signal is returned even if the time has passed.
    """
    if until_real_ns is None:
        return signal.sigwaitinfo(CONTROL_SIGNALS).si_signo
    while True:
        left_real_ns = until_real_ns - time.monotonic_ns()
        taken = signal.sigtimedwait(CONTROL_SIGNALS, max(0, left_real_ns) / 1e9)
        if taken is not None:
            return taken.si_signo
        if time.monotonic_ns() >= until_real_ns:
            return 0


def input_has_changed() -> bool:
    """Whether a new list of map outputs is there and has not been taken."""
    return INPUT_CHANGED in signal.sigpending()


def stop_until_continued() -> tuple[int, int]:
    """Stop this process; returns the real times at which it stopped and continued.

    It uses SIGSTOP, because the default action of SIGTSTP is ignored in an orphaned process group.
    """
    stopped_real_ns = time.monotonic_ns()
    os.kill(os.getpid(), signal.SIGSTOP)
    return stopped_real_ns, time.monotonic_ns()


def send_report(descriptor: int, event: str, fields: dict[str, Any]) -> None:
    """Write one report; see `TaskProcess.report`."""
    record = pack([os.getpid(), event, fields])
    if len(record) > select.PIPE_BUF:
        raise ValueError(f"report {event} of {len(record)} bytes is longer than {select.PIPE_BUF}")
    os.write(descriptor, record)


def failure_reason(error: BaseException) -> str:
    """One line for users: the error, and the innermost line of our code that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    what = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    return what[:_REASON_CHARACTERS] + where
