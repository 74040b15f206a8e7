"""The process that decides from outside: started with the first question, asked line by line, ended with the run.

Theory of operation
-------------------
A question is written to its standard input, and its standard output is read until ``done`` comes; both at a time, so
that neither side waits for the other.  It has a bound of real time for that.  What it writes to its standard error is
read with its answers; the beginning and the end of it are shown if it fails.

It runs below a keeper (``emulator.external_keeper``), in a session of its own: Ctrl-C in a terminal does not reach it.
It ends with this process, whatever ends that, and so does all that it has started.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
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
_ENDS_OF_STDERR_BYTES = 1000
"""So much is kept of the beginning of its standard error, and of the end."""
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
        self._unread = b""
        self._stderr = b""
        """The beginning of its standard error, and the end."""
        self._stderr_left_out = 0
        """How many bytes there were between the two."""
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
        _end(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def kill(self) -> None:
        """End it from another thread than the one that asks; that one then hears that it has ended, and closes."""
        process = self._process
        if process is not None and process.returncode is None:
            _end(process)

    def _start(self) -> None:
        self._unread, self._lines, self._stderr, self._stderr_left_out = b"", 0, b"", 0
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "emulator.external_keeper", str(os.getpid()), *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise RunError(f"allocation external: {self._name} cannot be started: {error}") from None
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
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
            reading = [process.stdout, *self._open_stderr]
            readable, writable, _ = select.select(reading, writing, [], timeout_real_s)
            if writable:
                left = left[self._write(process.stdin, left) :]
            self._read_stderr()
            if process.stdout in readable:
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
        return RunError(f"allocation external: {self._name}: {what}{self._said_in_stderr()}")

    @property
    def _open_stderr(self) -> list[IO[bytes]]:
        """Its standard error, until it has closed that."""
        pipe = None if self._process is None else self._process.stderr
        return [] if pipe is None or pipe.closed else [pipe]

    def _read_stderr(self) -> None:
        """Read what there is, and keep the two ends."""
        for pipe in self._open_stderr:
            chunk = pipe.read(_LONGEST_LINE_BYTES)  # as much as a pipe holds at most
            if chunk == b"":
                pipe.close()
            text = self._stderr + (chunk or b"")
            more = max(0, len(text) - 2 * _ENDS_OF_STDERR_BYTES)
            self._stderr = text[:_ENDS_OF_STDERR_BYTES] + text[_ENDS_OF_STDERR_BYTES + more :]
            self._stderr_left_out += more

    def _said_in_stderr(self) -> str:
        self._read_stderr()
        said = self._stderr
        if self._stderr_left_out:
            left_out = f"\n({self._stderr_left_out:,} bytes left out)\n".encode()
            said = said[:_ENDS_OF_STDERR_BYTES] + left_out + said[_ENDS_OF_STDERR_BYTES:]
        text = said.decode(errors="replace").strip()
        return f"; it says: {text}" if text else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the keeper end all."""
    os.kill(process.pid, signal.SIGTERM)
