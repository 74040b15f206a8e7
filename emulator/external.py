"""The process that decides from outside: started with the first question, asked line by line, ended with the run.

Theory of operation
-------------------
A question is written to its standard input, and its standard output is read until ``done`` comes; both at a time, so
that neither side waits for the other.  It has a bound of real time for that.  What it writes to its standard error goes
to a file without a name, whose end is shown if it fails.

It is the leader of a session of its own: Ctrl-C in a terminal does not reach it.  What it has started ends with it: its
process group, and all that descends from it, stopped first, so that nothing is started meanwhile.  If this process is
killed, its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO

import msgspec

from emulator.core.completions import ExternalDecisions
from emulator.core.effects import AskExternalScheduler
from emulator.core.job import PYTHON
from emulator.errors import RunError
from emulator.policies.policy import AllocationPolicy, ExternalCommand, SchedulerAllocation
from emulator.policies.schedulers.protocol import Decide, Done, InvalidLineError, SchedulerStarted, decision_of, shown

_encoder = msgspec.json.Encoder()
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 20
_LAST_OF_STDERR_BYTES = 2000
_END_TIMEOUT_REAL_S = 1.0
"""A process that has closed its output has mostly ended; for so long it is waited for, to say how."""


def process_of(allocation: AllocationPolicy) -> ExternalProcess | None:
    """The process that decides under this allocation, not started yet; None: it is decided here."""
    outside = allocation.outside if isinstance(allocation, SchedulerAllocation) else None
    return None if outside is None else ExternalProcess(outside)


class ExternalProcess:
    """An external scheduler in a process of its own, to be closed at the end (see the module's theory of operation)."""

    def __init__(self, outside: ExternalCommand) -> None:
        self._command = [sys.executable if part == PYTHON else part for part in outside.command]
        self._timeout_real_s = outside.answer_within_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._unread = b""
        self._lines = 0
        """How many lines it has said."""

    def ask(self, question: AskExternalScheduler) -> ExternalDecisions:
        """Ask it.  Raises RunError if it does not answer as it must; then it has ended."""
        try:
            if isinstance(question.events[0], SchedulerStarted):
                self.close()
                self._start()
            first_line = self._lines + 1
            data, decide = _encoder.encode_lines(question.events), question.events[-1]
            now_ns = decide.time_ns if isinstance(decide, Decide) else 0
            lines, done = self._exchange(data, question.question, now_ns)
        except BaseException:
            self.close()
            raise
        return ExternalDecisions(question.question, first_line, tuple(lines), done.again_ns)

    def close(self) -> None:
        """End it, with all that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, self._stderr):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def kill(self) -> None:
        """End it from another thread than the one that asks; that one then hears that it has ended, and closes."""
        process = self._process
        if process is not None and process.returncode is None:
            _kill(process)

    def _start(self) -> None:
        self._unread, self._lines = b"", 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise RunError(f"allocation external: {self._name} cannot be started: {error}") from None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    @property
    def _name(self) -> str:
        return shlex.join(self._command)

    def _exchange(self, data: bytes, question: int, now_ns: int) -> tuple[list[str], Done]:
        """Write ``data``, a question of that time, and read to the end of the answer.  Raises RunError."""
        process, lines, left = self._process, [], memoryview(data)
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        until_real_s = time.monotonic() + self._timeout_real_s
        while True:
            while (line := self._next_line()) is not None:
                done = self._done(line, question, now_ns)
                if done is not None:
                    return lines, done
                lines.append(line)
            timeout_real_s = until_real_s - time.monotonic()
            if timeout_real_s <= 0:
                raise self._error(f"has not answered question {question} within {self._timeout_real_s:g} s")
            writing = [process.stdin] if left else []
            readable, writable, _ = select.select([process.stdout], writing, [], timeout_real_s)
            if writable:
                left = left[self._write(process.stdin, left) :]
            if readable:
                self._read(process.stdout)

    def _write(self, pipe: IO[bytes], left: memoryview) -> int:
        try:
            return pipe.write(left) or 0
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(left)  # it reads no more: its end, or its answer, is read next

    def _read(self, pipe: IO[bytes]) -> None:
        chunk = pipe.read(_CHUNK_BYTES)
        if chunk == b"":
            raise self._error(self._how_it_ended())
        self._unread += chunk or b""

    def _next_line(self) -> str | None:
        line, newline, rest = self._unread.partition(b"\n")
        if not newline:
            if len(line) > _LONGEST_LINE_BYTES:
                raise self._error(f"line {self._lines + 1} is longer than {_LONGEST_LINE_BYTES} bytes")
            return None
        self._unread = rest
        self._lines += 1
        return line.decode(errors="surrogateescape")

    def _done(self, line: str, question: int, now_ns: int) -> Done | None:
        """The end of the answer, if this line is it.  Raises RunError if it is none that it may say."""
        try:
            what = decision_of(line)
        except InvalidLineError as error:
            raise self._error(f"{shown(self._lines, line)}: {error}") from None
        if not isinstance(what, Done):
            return None
        if what.question != question:
            raise self._error(f"{shown(self._lines, line)}: question {question} is asked, not {what.question}")
        if what.again_ns is not None and what.again_ns <= now_ns:
            raise self._error(f"{shown(self._lines, line)}: again_ns must be later than {now_ns}, the question's time")
        return what

    def _how_it_ended(self) -> str:
        """In words.  It is left to be waited for, so that its number stays its own until it is closed."""
        assert self._process is not None
        ending = os.pidfd_open(self._process.pid)
        try:
            select.select([ending], [], [], _END_TIMEOUT_REAL_S)
            ended = os.waitid(os.P_PIDFD, ending, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        finally:
            os.close(ending)
        if ended is None:
            return "has closed its standard output"
        by_signal = ended.si_code != os.CLD_EXITED
        return f"was ended by signal {ended.si_status}" if by_signal else f"has ended with status {ended.si_status}"

    def _error(self, what: str) -> RunError:
        return RunError(f"allocation external: {self._name}: {what}{self._last_of_stderr()}")

    def _last_of_stderr(self) -> str:
        assert self._stderr is not None
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _LAST_OF_STDERR_BYTES))
        text = self._stderr.read().decode(errors="replace").strip()
        return f"; it says: {text}" if text else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    import psutil  # here, because few runs need it

    stopped: set[psutil.Process] = set()
    with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
        os.killpg(process.pid, signal.SIGSTOP)
        root = psutil.Process(process.pid)
        while found := set(root.children(recursive=True)) - stopped:
            for child in found:
                with contextlib.suppress(psutil.Error):
                    child.suspend()
            stopped |= found
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in stopped:
        with contextlib.suppress(psutil.Error):
            child.kill()
