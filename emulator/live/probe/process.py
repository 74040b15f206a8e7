"""The program that is probed, with all its children: start, stop, continue, kill and restore it.

Apart from the supervisor and the janitor, only this module signals processes: those of the program it has started.
They have the probe's id in their environment, restored ones too, so a janitor ends them if the probe is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from emulator.costs.probe_result import MemoryUse
from emulator.errors import ConfigError, RunError
from emulator.live.janitor import RUN_VARIABLE

_PR_SET_CHILD_SUBREAPER = 36
_STOP_PATIENCE_REAL_S = 2.0
_STOP_TRIES = 3
_END_PATIENCE_REAL_S = 10.0
_SPINNING_REAL_NS = 5_000_000
_PAUSE_REAL_S = 0.0005
_TOLD_CHARACTERS = 400


class ProbedProcess:
    """A program under probe; call ``end`` when done."""

    def __init__(self, command: list[str], output: Path, run_id: str) -> None:
        """Start it, with its output to a file.  Raises ConfigError if there is no such program."""
        # Its orphans become our children and are reaped here, so that their ids are free when it is restored.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._output = output
        began_real_ns = self.started_real_ns = time.monotonic_ns()
        try:
            with open(output, "wb") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, RUN_VARIABLE: run_id},
                    preexec_fn=os.setpgrp,  # no new session: there it would ignore SIGTSTP
                )
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be started: {error.strerror}") from None
        self.start_real_ns = time.monotonic_ns() - began_real_ns
        process.returncode = 0  # reaped here
        self.pid = process.pid
        self._killed: list[int] = []
        self._gone = False
        self._ignores_stop = False

    def run_for(self, real_s: float) -> None:
        """Let it run for a time.  Raises RunError if it ends meanwhile."""
        deadline = time.monotonic() + real_s
        while (left_s := deadline - time.monotonic()) > 0:
            self._changed(os.WEXITED)
            time.sleep(min(0.01, left_s))

    def stop(self) -> int | None:
        """Send SIGTSTP; returns nanoseconds until it has stopped.  If it ignores that: SIGSTOP, and None.

        Raises RunError if it ends.
        """
        if not self._ignores_stop and (taken_real_ns := self._signal_and_wait(signal.SIGTSTP, os.WSTOPPED)):
            return taken_real_ns
        self._ignores_stop = True
        for _ in range(_STOP_TRIES):
            if self._signal_and_wait(signal.SIGSTOP, os.WSTOPPED) is not None:
                return None
            self.go_on()  # it may be in vfork, with a child that has stopped before exec
        raise RunError(f"the program cannot be stopped: process {self.pid} hangs in the kernel")

    def go_on(self) -> int | None:
        """Send SIGCONT; returns nanoseconds until it continues.  Raises RunError if it ends."""
        return self._signal_and_wait(signal.SIGCONT, os.WCONTINUED)

    def memory(self) -> MemoryUse:
        """Its memory now.  Raises RunError if it has ended."""
        try:
            uses = [process.memory_full_info() for process in self._tree()]
        except psutil.Error:
            self._changed(os.WEXITED)
            raise RunError("the memory of the program cannot be read") from None
        return MemoryUse(
            processes=len(uses),
            resident_bytes=sum(use.rss for use in uses),
            own_bytes=sum(use.uss for use in uses),
            swapped_bytes=sum(use.swap for use in uses),
        )

    def kill(self) -> None:
        """Kill it, stopped or not, and reap it with all its children, so that their ids are free."""
        if self._gone:
            return
        with suppress(psutil.Error):
            self._killed = [process.pid for process in self._tree()]
        for pid in self._killed or [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._killed or [self.pid]:
            self._reap(pid)
        self._gone = True

    def made_again(self) -> None:
        """It has been restored, with its old ids."""
        self._gone = False

    end = kill

    def _tree(self) -> list[psutil.Process]:
        """Its processes, parents first."""
        process = psutil.Process(self.pid)
        return [process, *process.children(recursive=True)]

    def _reap(self, pid: int) -> None:
        deadline = time.monotonic() + _END_PATIENCE_REAL_S
        while time.monotonic() < deadline and os.path.exists(f"/proc/{pid}"):
            with suppress(ChildProcessError):  # our child only after its parent was reaped
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            time.sleep(_PAUSE_REAL_S)

    def _signal_and_wait(self, number: int, change: int) -> int | None:
        began_real_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        while (passed_real_ns := time.monotonic_ns() - began_real_ns) < _STOP_PATIENCE_REAL_S * 1e9:
            if self._changed(change | os.WEXITED):
                return time.monotonic_ns() - began_real_ns
            if passed_real_ns > _SPINNING_REAL_NS:
                time.sleep(_PAUSE_REAL_S)
        return None

    def _changed(self, options: int) -> bool:
        """Whether it has stopped or continued, as asked; raises RunError if it has ended."""
        try:
            change = os.waitid(os.P_PID, self.pid, options | os.WNOHANG)
        except ChildProcessError:
            raise RunError("the program is gone") from None
        if change is None:
            return False
        if change.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            self._gone = True
            how = "ended with status" if change.si_code == os.CLD_EXITED else "was killed by signal"
            after_s = (time.monotonic_ns() - self.started_real_ns) / 1e9
            raise RunError(
                f"the program {how} {change.si_status} after {after_s:.2f} s, before it could be measured; "
                f"probe one that runs longer{self._told()}"
            )
        return True

    def _told(self) -> str:
        with suppress(OSError):
            if text := self._output.read_text(errors="replace").strip():
                return f". It printed: {text[-_TOLD_CHARACTERS:]}"
        return ""
