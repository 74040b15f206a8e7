"""What a supervisor does for programs beyond signals to their process groups.

Theory of operation
-------------------
SIGTSTP and SIGCONT go to the process group of a program, as a terminal would send them.  A process that has left the
group, or ignores them, is caught afterwards:

- *stop*: when the program itself has stopped, all other members of its attempt that still run get SIGSTOP, again and
  again until none runs.  Only then is the program suspended.  criu fails with "task interruption" where another SIGSTOP
  and a SIGCHLD wait for a stopped process; so before an image is made, such a one is continued and stopped once.
- *stay*: a member that somebody else continues while the program is suspended is stopped again.  Of the program itself
  the kernel tells that; the others are looked at now and then.
- *continue*: those get SIGCONT.
- *kill* and *end*: when the program has ended, in whatever way, its other members get SIGKILL until none is left.  Only
  then the attempt has ended, and only then, if it has succeeded, a helper makes its directory the task's output.

Members are held while they are signalled (``Members.held``), so that none of them starts another one meanwhile.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from emulator.live.program_members import ByDescent, InGroup, Members, is_stopped, is_told_to_stop, parent_of, waits
from emulator.live.tasks import command
from emulator.live.tasks.containers import ContainerProcess
from emulator.live.tasks.task import EXIT_DONE, EXIT_IO_FAILED, failure_reason

_BETWEEN_ROUNDS_REAL_NS = 1_000_000
_LOOK_REAL_NS = 1_000_000_000
"""Between two looks at who runs of a suspended attempt; each reads some files of the kernel for each member."""
_END_TIMEOUT_REAL_NS = 10_000_000_000
"""What is not gone this long after it was first killed hangs in the kernel, or is another user's."""

Done = Callable[[int | None, str], None]
"""Gets the exit status of an attempt of which nothing is left, and the digest of what it has written, if that was
committed."""


@dataclass(slots=True)
class _Attempt:
    container: ContainerProcess
    members: Members
    stopped: set[int] | None
    """The members that were sent SIGSTOP here; None: it was restored from an image, in which all were stopped."""
    is_stopping: bool = False
    is_looked_at: bool = False
    """Whether the next look at it is due some time."""
    code: int | None = None
    done: Done | None = None
    give_up_real_ns: int = 0
    digest: str | None = None
    """The digest of its output; None: it is not committed."""


@dataclass(slots=True)
class ProgramWork:
    """The programs of one supervisor; see the module's text."""

    fork: Callable[[Callable[[], None]], int]
    """Runs a function in a new process, and returns its id."""
    report: Callable[..., None]
    """``report(event, **fields)``, in such a process: sends a report to this one."""
    send: Callable[[int, int], None]
    """Sends a signal to a process."""
    after: Callable[[int, Callable[[], None]], None]
    """Calls a function after so many real nanoseconds."""
    strangers: Callable[[list[int]], list[int] | None]
    """See ``ByDescent``."""
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    """By container, from its launch until nothing is left of it."""
    _committing: dict[int, _Attempt] = field(default_factory=dict)
    """By helper."""

    def begin(self, container: ContainerProcess) -> None:
        """Make room for a program, before it starts or is restored.  Raises OSError."""
        group = container.params.get("program_group")
        members = InGroup(Path(group)) if group else ByDescent(lambda: container.living_pid, self.strangers)
        self._attempts[container.id] = _Attempt(container, members, None if container.restores else set())

    def stop(self, container: ContainerProcess, then: Callable[[], None]) -> None:
        """The program itself has stopped: stop the others, and call ``then`` when none runs."""
        attempt = self._attempts[container.id]
        if not attempt.is_stopping:
            attempt.is_stopping = True
            if attempt.stopped is None:
                attempt.stopped = set()
            self._stop_round(attempt, then)

    def _stop_round(self, attempt: _Attempt, then: Callable[[], None]) -> None:
        container, told = attempt.container, attempt.stopped
        assert told is not None
        program = container.living_pid
        if program is None or not container.is_to_stop or not is_stopped(program, told=False):
            attempt.is_stopping = False  # it was killed, or somebody has continued it: then it is notified again
            return
        pids = attempt.members.pids()  # their states are read before they are held: a frozen one seems to wait
        starting = _starting_another(pids) if container.is_to_be_saved else set()
        may_wait = not container.is_to_be_saved
        stopped = {pid for pid in pids if is_stopped(pid, may_wait and pid in told)}
        running = self._stop_all_but(stopped | starting, attempt)
        self._send(sorted(starting & stopped), signal.SIGCONT)
        twice = [pid for pid in stopped if container.is_to_be_saved and is_told_to_stop(pid)]
        for number in (signal.SIGCONT, signal.SIGSTOP):
            self._send(twice, number)
        told.update(twice)
        if running or starting or twice:
            self.after(_BETWEEN_ROUNDS_REAL_NS, lambda: self._stop_round(attempt, then))
            return
        attempt.is_stopping = False
        then()
        self._look_later(attempt)

    def _look_later(self, attempt: _Attempt) -> None:
        if not attempt.is_looked_at and attempt.container.stays_suspended:
            attempt.is_looked_at = True
            self.after(_LOOK_REAL_NS, lambda: self._look(attempt))

    def _look(self, attempt: _Attempt) -> None:
        """Stop again whom somebody else has continued."""
        attempt.is_looked_at = False
        told = attempt.stopped
        if told is None or not attempt.container.stays_suspended:
            return
        pids = attempt.members.pids()
        stopped = {pid for pid in pids if is_stopped(pid, pid in told)}
        if len(stopped) < len(pids):
            self._stop_all_but(stopped, attempt)
        self._look_later(attempt)

    def _stop_all_but(self, others: set[int], attempt: _Attempt) -> list[int]:
        """Send SIGSTOP to all other members; returns them."""
        with attempt.members.held():
            pids = [pid for pid in attempt.members.pids() if pid not in others]
            self._send(pids, signal.SIGSTOP)
        assert attempt.stopped is not None
        attempt.stopped.update(pids)
        return pids

    def pass_on(self, container: ContainerProcess, number: int) -> None:
        """A signal was sent to the program's process group: send it to the others too."""
        attempt = self._attempts[container.id]
        if number == signal.SIGKILL:
            with attempt.members.held():
                self._send(attempt.members.pids(), number)
        elif number == signal.SIGCONT and attempt.stopped != set():
            pids = attempt.members.pids()
            self._send([pid for pid in pids if attempt.stopped is None or pid in attempt.stopped], number)
            attempt.stopped = set()

    def ended(self, container: ContainerProcess, code: int | None, done: Done) -> None:
        """The program itself has ended: end the others, commit what it has written, and call ``done``."""
        attempt = self._attempts[container.id]
        attempt.code, attempt.done = code, done
        attempt.give_up_real_ns = time.monotonic_ns() + _END_TIMEOUT_REAL_NS
        self._end_round(attempt)

    def forget(self, container: ContainerProcess) -> None:
        """The program was never started."""
        if (attempt := self._attempts.pop(container.id, None)) is not None:
            attempt.members.gone()

    def _end_round(self, attempt: _Attempt) -> None:
        with attempt.members.held():
            left = attempt.members.pids()
            self._send(left, signal.SIGKILL)
        if not left and attempt.members.gone():
            self._all_ended(attempt)
        elif time.monotonic_ns() < attempt.give_up_real_ns:
            self.after(_BETWEEN_ROUNDS_REAL_NS, lambda: self._end_round(attempt))
        else:
            self._failed(attempt, f"what it has started cannot be ended: {', '.join(map(str, left)) or 'unknown'}")

    def _all_ended(self, attempt: _Attempt) -> None:
        if attempt.code != EXIT_DONE:
            self._finish(attempt, attempt.code)
            return
        try:
            self._committing[self.fork(lambda: self._commit(attempt))] = attempt
        except OSError as error:
            self._failed(attempt, f"its output cannot be committed: {error.strerror}")

    def _commit(self, attempt: _Attempt) -> None:
        """In a helper."""
        try:
            digest = command.commit(attempt.container.params)
        except OSError as error:
            self.report("failed", reason=failure_reason(error))
        else:
            self.report("committed", digest=digest)

    def reported(self, pid: int, event: str, fields: dict[str, str]) -> bool:
        """A report of a process; returns whether it was a helper."""
        attempt = self._committing.get(pid)
        if attempt is None:
            return False
        if event == "committed":
            attempt.digest = fields["digest"]
        else:
            attempt.container.failed(fields["reason"])
        return True

    def is_helper(self, pid: int) -> bool:
        """Whether a process commits what a program has left."""
        return pid in self._committing

    def helper_ended(self, pid: int) -> None:
        """A process has ended, and all its reports were taken; does nothing if it was no helper."""
        attempt = self._committing.pop(pid, None)
        if attempt is None:
            return
        if attempt.digest is None:
            self._failed(attempt, "the commit of its output was killed")
        else:
            self._finish(attempt, EXIT_DONE)

    def _failed(self, attempt: _Attempt, reason: str) -> None:
        attempt.container.failed(reason)
        self._finish(attempt, EXIT_IO_FAILED)

    def _finish(self, attempt: _Attempt, code: int | None) -> None:
        del self._attempts[attempt.container.id]
        assert attempt.done is not None
        attempt.done(code, attempt.digest or "")

    def _send(self, pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                self.send(pid, number)


def _starting_another(pids: list[int]) -> set[int]:
    """Processes whose parents wait for them in vfork until they have called exec: criu cannot save such a parent."""
    waiting = {pid for pid in pids if waits(pid)}
    return {pid for pid in pids if parent_of(pid) in waiting}
