"""The process that forks, signals and reaps the tasks of one node host.

There is one single-threaded process per host: a Ray worker must not fork (its threads hold locks), and a fork of this
small preloaded image costs about 2 ms.  It imports only the standard library, msgpack and the task code.

Commands come in on stdin and events go out on stdout, as msgpack maps one after the other.  A command has ``op``, an
event has ``event``, both have ``id``.  Every operation on a container is answered by exactly
one completion, and ``exited`` is the last event of a container.  The very first event is ``ready``; ``late`` says that
the supervisor has stood still for a while.  (These two have no ``id``.)  Operations on one
container are done one after the other: SIGCONT is sent only after a confirmed stop, because it would cancel a pending
SIGTSTP.  Only a kill does not wait.

Nothing is left behind.  On ``close``, at the end of stdin, and on SIGTERM, it kills and reaps every task, stopped ones
too.  (It asks the kernel for SIGTERM when the thread that started it dies.)  If it is itself killed, the kernel kills
its tasks.  Started by a Ray worker, it inherits niceness 15 and OOM score 1000, and its tasks inherit them too.  It and
its tasks ignore SIGINT: the driver handles interrupts of a run.
"""

from __future__ import annotations

import argparse
import errno
import gc
import heapq
import itertools
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgpack

from emulator.live.beat import PERIOD_REAL_NS, Beat, awake_or_not_real_ns
from emulator.live.memory.held import swapped_bytes_of
from emulator.live.tasks import shuffle
from emulator.live.tasks.children import REHEARSED, TASKS, Children
from emulator.live.tasks.command import last_words
from emulator.live.tasks.containers import ContainerProcess, PendingCommand, launch_problem, parse_command
from emulator.live.tasks.imaging import ImageWork, attach
from emulator.live.tasks.program_work import ProgramWork
from emulator.live.tasks.progress_page import ProgressPage
from emulator.live.tasks.task import (
    BLOCKED_SIGNALS,
    INPUT_CHANGED,
    SUSPEND,
    failure_reason,
    pack,
)
from emulator.parent import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, libc


class StartQueue:
    """Containers that wait for their turn: to be forked, or to get their input.

    A launch is some milliseconds of work: a fork, then a map's output or a reduce's input.  If hundreds of tasks
    started at once, each would be ready only when nearly all are, and tasks already walking their keys would wake up
    late.  One after the other, the same work is done at the same time, most of it earlier, and the run queue is short.

    A task has *settled* when its launch work is done, or when it waits for another (for map outputs, for example).  A
    task that takes longer than ``timeout_real_ns`` loses its turn to the next one but continues; it may be waiting for
    the network.
    """

    def __init__(self, width: int, timeout_real_ns: int = 200_000_000) -> None:
        self._width = width
        self._timeout_real_ns = timeout_real_ns
        self._waiting: dict[str, ContainerProcess] = {}
        """By container id, the next one first."""
        self._until_real_ns: dict[str, int] = {}
        """Containers whose turn it is, in the order in which they started, with the latest end of each turn."""

    def add(self, container: ContainerProcess) -> None:
        """Put a container last in the queue, unless it is already in it."""
        self._waiting.setdefault(container.id, container)

    def take(self, now_real_ns: int) -> ContainerProcess | None:
        """The next container, if it may start now; its turn begins."""
        if not self._waiting or self.wait_real_ns(now_real_ns):
            return None
        container = self._waiting.pop(next(iter(self._waiting)))
        self.settled(container)
        self._until_real_ns[container.id] = now_real_ns + self._timeout_real_ns
        return container

    def settled(self, container: ContainerProcess) -> None:
        """The container's turn is over."""
        self._until_real_ns.pop(container.id, None)

    def wait_real_ns(self, now_real_ns: int) -> int | None:
        """How long until the next one may start if none settles; None: none is waiting."""
        if not self._waiting:
            return None
        while self._until_real_ns:
            first = next(iter(self._until_real_ns))
            if self._until_real_ns[first] > now_real_ns:
                break
            del self._until_real_ns[first]
        if len(self._until_real_ns) < self._width:
            return 0
        return self._until_real_ns[next(iter(self._until_real_ns))] - now_real_ns

    @property
    def is_busy(self) -> bool:
        """Whether a container waits for its turn, or has it."""
        return bool(self._waiting or self._until_real_ns)

    def forget(self, container: ContainerProcess) -> None:
        """The container has ended, or will never start."""
        self._waiting.pop(container.id, None)
        self.settled(container)


_STARTS_A_CORE = 2
_READ_BYTES = 1 << 16
_FLUSH_TIMEOUT_REAL_NS = 2_000_000_000
_STOP_TIMEOUT_REAL_NS = 1_000_000_000
"""A program that has not stopped this long after SIGTSTP gets SIGSTOP."""
_LOOSE_REAL_NS = 20_000_000
"""How long a program that does not stop is let go on before it gets SIGSTOP again."""
_STATE_CHANGES = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG


class Supervisor:
    """The event loop.  `run` returns the exit status when everything is closed, killed and reaped."""

    def __init__(
        self, page_path: str, page: ProgressPage, command_descriptor: int, event_descriptor: int, most_ahead: int = 0
    ) -> None:
        self._page = page
        self._commands_in = command_descriptor
        self._events_out = event_descriptor
        self._reports_in, self._reports_out = os.pipe2(os.O_CLOEXEC)
        self._wakeup_in, self._wakeup_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for descriptor in (command_descriptor, event_descriptor, self._reports_in):
            os.set_blocking(descriptor, False)
        self._commands = msgpack.Unpacker(max_buffer_size=1 << 30)
        self._reports = msgpack.Unpacker()
        self._outbox = bytearray()
        self._containers: dict[str, ContainerProcess] = {}
        self._by_pid: dict[int, ContainerProcess] = {}
        self._starts = StartQueue(_STARTS_A_CORE * len(os.sched_getaffinity(0)))
        not_theirs = (command_descriptor, event_descriptor, self._reports_in, self._wakeup_in, self._wakeup_out)
        self._children = Children(page_path, page, self._reports_out, not_theirs, most_ahead, os.kill)
        self._images = ImageWork(self._children.fork_helper)
        self._programs = ProgramWork(
            self._children.fork_helper, self._children.report, os.kill, self._after, self._strangers
        )
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        """(real time, number, action)."""
        self._numbers = itertools.count()
        self._closing = False
        self._reaped_all_real_ns = 0
        self._terminated = False
        self._has_forked = False
        """Since the last rehearsal."""
        self._status = 0

    def run(self) -> int:
        """Serve until closed.

        Everything else is served between two forks, so no signal waits behind a burst of launches.
        """
        poll = select.poll()
        poll.register(self._wakeup_in, select.POLLIN)
        poll.register(self._reports_in, select.POLLIN)
        poll.register(self._commands_in, select.POLLIN)
        self._install_signals()
        self._emit("ready", real_ns=time.monotonic_ns())
        beat = Beat(awake_or_not_real_ns())
        while not self._finished():
            if self._outbox:
                poll.register(self._events_out, select.POLLOUT)
            ready = dict(poll.poll(self._poll_timeout_ms()))
            if late_real_ns := beat.late_real_ns(awake_or_not_real_ns()):
                self._emit("late", late_real_ns=late_real_ns, real_ns=time.monotonic_ns())
            self._read_reports()
            if self._wakeup_in in ready:
                os.read(self._wakeup_in, 4096)
                self._reap()
            if self._commands_in in ready and not self._closing:
                self._read_commands()
            if self._terminated:
                self._close()
            if self._closing:
                with suppress(KeyError):
                    poll.unregister(self._commands_in)
            if (container := self._starts.take(time.monotonic_ns())) is not None:
                self._start(container)
            while self._timers and self._timers[0][0] <= time.monotonic_ns():
                heapq.heappop(self._timers)[2]()
            self._flush()
            if self._poll_timeout_ms() != 0:
                if not self._closing and not self._starts.is_busy:
                    self._children.make_ahead(len(self._containers))
                if self._has_forked:
                    self._has_forked = False
                    self._rehearse_suspend()
            if not self._outbox:
                with suppress(KeyError):
                    poll.unregister(self._events_out)
        return self._status

    def _poll_timeout_ms(self) -> int:
        now_real_ns = time.monotonic_ns()
        waits_real_ns = [PERIOD_REAL_NS, *(timer[0] - now_real_ns for timer in self._timers[:1])]
        if (starts_real_ns := self._starts.wait_real_ns(now_real_ns)) is not None:
            waits_real_ns.append(starts_real_ns)
        return max(0, -(-min(waits_real_ns) // 1_000_000))

    def _at(self, real_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (real_ns, next(self._numbers), action))

    def _after(self, real_ns: int, action: Callable[[], None]) -> None:
        self._at(time.monotonic_ns() + real_ns, action)

    def _finished(self) -> bool:
        if not self._closing or self._containers or self._children.has_ahead:
            return False
        now_real_ns = time.monotonic_ns()
        self._reaped_all_real_ns = self._reaped_all_real_ns or now_real_ns
        return not self._outbox or now_real_ns - self._reaped_all_real_ns > _FLUSH_TIMEOUT_REAL_NS

    def _install_signals(self) -> None:
        def terminate(_signal: int, _frame: object) -> None:
            self._terminated = True

        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        signal.signal(signal.SIGTERM, terminate)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGCHLD, signal.SIGTERM})
        signal.set_wakeup_fd(self._wakeup_out, warn_on_full_buffer=False)

    # Commands

    def _read_commands(self) -> None:
        data = os.read(self._commands_in, _READ_BYTES)
        received_real_ns = time.monotonic_ns()
        if not data:
            self._close()
            return
        try:
            self._commands.feed(data)
            for message in self._commands:
                self._command(parse_command(message), received_real_ns)
        except (ValueError, msgpack.UnpackException) as error:
            print(f"natjam supervisor: malformed command, giving up: {failure_reason(error)}", file=sys.stderr)
            self._status = os.EX_PROTOCOL
            self._close()

    def _command(self, command: dict[str, Any], received_real_ns: int) -> None:
        op = command["op"]
        if op == "close":
            self._close()
            return
        container = self._containers.get(command["id"])
        if op == "launch":
            self._accept_launch(command, container, received_real_ns)
        elif op == "input":
            # The task may have ended since the caller last heard of it; then there is nobody to tell.
            if container is not None and container.take_input(command["outputs"]):
                self._starts.add(container)
        elif container is None:
            self._emit(f"{op}_failed", id=command["id"], reason="no such container here")
        elif op == "kill" and container.pid is None and container.restores and self._leave_images(container):
            container.request(PendingCommand(op, received_real_ns))
            self._fail_launch(container, "killed before it was restored")
        else:
            container.request(PendingCommand(op, received_real_ns))
            self._advance(container)

    def _accept_launch(self, command: dict[str, Any], known: ContainerProcess | None, received_real_ns: int) -> None:
        identity, kind, slot = command["id"], command["kind"], command["slot"]
        if known is not None:
            reason = "a container of this id is already here"
        elif kind not in TASKS:
            reason = f"unknown kind of task {kind!r}; known are {', '.join(TASKS)}"
        elif not 0 <= slot < self._page.slots:
            reason = f"slot {slot} is outside the progress page of {self._page.slots} slots"
        elif self._closing:
            reason = "the supervisor is closing"
        else:
            reason = launch_problem(command)
        if reason is not None:
            self._emit("launch_failed", id=identity, reason=reason)
            return
        container = ContainerProcess(identity, kind, slot, command["params"], received_real_ns)
        self._containers[identity] = container
        if container.restores:
            self._at(container.params["restore"]["brought_real_ns"], lambda: self._restore(container))
        else:
            self._starts.add(container)

    def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        for container in [container for container in self._containers.values() if container.pid is None]:
            if not container.restores or self._leave_images(container):
                self._fail_launch(container, "the supervisor is closing")
        for container in self._by_pid.values():
            self._signal(container, signal.SIGKILL)
        self._children.end_ahead()

    # Starting

    def _start(self, container: ContainerProcess) -> None:
        """Start this container's turn: fork its task, or give the task its input."""
        if container.pid is None:
            self._launch(container)
            return
        try:
            container.write_input()
        except OSError as error:
            print(f"natjam supervisor: input of {container.id}: {error}", file=sys.stderr)
        os.kill(container.pid, INPUT_CHANGED)

    def _launch(self, container: ContainerProcess) -> None:
        self._page.clear(container.slot)
        try:
            if container.is_program:
                self._programs.begin(container)
            pid = self._children.fork_task(container)
        except OSError as error:
            self._fail_launch(container, _launch_reason(error))
            return
        self._is_there(container, pid)

    def _is_there(self, container: ContainerProcess, pid: int) -> None:
        forked_real_ns = time.monotonic_ns()
        self._has_forked = True
        container.pid = pid
        self._by_pid[pid] = container
        received_real_ns = container.received_real_ns
        self._emit(
            "launched",
            id=container.id,
            pid=pid,
            received_real_ns=received_real_ns,
            forked_real_ns=forked_real_ns,
        )
        self._advance(container)

    def _fail_launch(self, container: ContainerProcess, reason: str) -> None:
        del self._containers[container.id]
        self._starts.forget(container)
        self._programs.forget(container)
        container.launch_failed(reason, self._emit)

    # Images

    def _leave_images(self, container: ContainerProcess) -> bool:
        """Cancel image operations of a container; returns False if that is not possible."""
        helper = self._images.leave(container)
        if helper is not None:
            os.killpg(helper, signal.SIGKILL)
        return not self._images.has(container)

    def _dumped(self, container: ContainerProcess, outcome: Mapping[str, Any]) -> None:
        """The image of a stopped process is made, or has failed."""
        if container.pid is not None and (number := container.dumped(outcome, self._emit)) is not None:
            self._signal(container, number)
            self._advance(container)

    def _restore(self, container: ContainerProcess) -> None:
        """Restore a container: its image is on this node by now.  Does nothing if it is no longer wanted."""
        if self._containers.get(container.id) is not container or self._closing:
            return
        try:
            if container.is_program:
                self._programs.begin(container)
        except OSError as error:
            self._fail_launch(container, _launch_reason(error))
            return
        self._images.restore(container, self._restored)

    def _restored(self, container: ContainerProcess, outcome: Mapping[str, Any]) -> None:
        if "failed" in outcome:
            self._kill_rest(outcome.get("left_pid"))
            if outcome.get("broken") or "left_pid" not in outcome:
                self._fail_launch(container, outcome["failed"])
                return
        for why in (*outcome.get("damaged", ()), outcome.get("anew"), outcome.get("failed")):
            if why:
                print(f"natjam supervisor: {container.id}: {why}", file=sys.stderr)
        if "pid" not in outcome:
            container.go_on_from(outcome.get("counters") if "failed" not in outcome else None)
            self._starts.add(container)
            return
        try:
            if not container.is_program:
                attach(
                    container.params["restore"]["folder"], self._children.attachment(container.slot, container.params)
                )
        except OSError as error:
            self._kill_rest(outcome["pid"])
            self._fail_launch(container, _launch_reason(error))
            return
        container.made_again(outcome["counters"], time.monotonic_ns())
        self._is_there(container, outcome["pid"])
        if self._closing:
            os.kill(_pid_of(container), signal.SIGKILL)
        self._at(container.first_key_due_real_ns, lambda: self._continue(container))

    def _continue(self, container: ContainerProcess) -> None:
        """Continue a restored process."""
        if self._by_pid.get(container.pid or 0) is container:
            self._signal(container, signal.SIGCONT)

    def _kill_rest(self, pid: int | None) -> None:
        """Kill what criu may have left of a process that it could not restore."""
        if pid is None or pid in self._by_pid:
            return
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, _STATE_CHANGES | os.WNOWAIT)  # it is a child of ours
            os.kill(pid, signal.SIGKILL)

    # Signalling and reaping

    def _rehearse_suspend(self) -> None:
        """Do what a suspend does, for a container without a process of its own.

        After a fork each page of this process is copied at the first write to it, and Python writes to every object
        that it uses, to count its users.  A suspend writes to some forty pages, which takes 0.1 ms.  They are copied
        here, when nothing waits, and not when a task is to stop.
        """
        now_real_ns, queued_bytes = time.monotonic_ns(), len(self._outbox)
        nobody = ContainerProcess("", "reduce", 0, {}, now_real_ns, pid=os.getpid(), is_stopped=True)
        self._containers[nobody.id] = nobody
        message = msgpack.unpackb(pack({"op": "suspend", "id": nobody.id}))
        self._command(parse_command(message), now_real_ns)  # refused: it is stopped
        del self._containers[nobody.id]
        self._signal(nobody, 0)
        nobody.signalled(now_real_ns, self._emit)
        nobody.stop_changed(True, now_real_ns, self._emit)
        del self._outbox[queued_bytes:]

    def _advance(self, container: ContainerProcess) -> None:
        """Send the signal for the container's next operation, if no other is running."""
        if (number := container.next_signal(self._emit)) is not None:
            if container.is_stopped and container.holds_memory:
                container.swapped_bytes = swapped_bytes_of(_pid_of(container))
            now_real_ns = time.monotonic_ns()  # first: the process may have obeyed before this one goes on
            self._signal(container, number)
            container.signalled(now_real_ns, self._emit)
            if number == signal.SIGTERM:
                self._advance(container)  # nothing is to be waited for
            if container.is_program and number == SUSPEND:
                self._after(_STOP_TIMEOUT_REAL_NS, lambda: self._insist(container))

    def _signal(self, container: ContainerProcess, number: int) -> None:
        """Send a signal: for a program to its process group, and to what else belongs to it."""
        if not container.is_program:
            os.kill(_pid_of(container), number)
            return
        os.killpg(_pid_of(container), number)
        self._programs.pass_on(container, number)

    def _insist(self, container: ContainerProcess) -> None:
        """Stop a program that ignores SIGTSTP."""
        if self._is_to_stop(container):
            self._signal(container, signal.SIGSTOP)
            self._after(_STOP_TIMEOUT_REAL_NS, lambda: self._loosen(container))

    def _loosen(self, container: ContainerProcess) -> None:
        """Let a program that has not stopped go on for a moment.

        It may be in vfork: a parent stops only after its child has called exec, and the child may have stopped before.
        """
        if self._is_to_stop(container):
            self._signal(container, signal.SIGCONT)
            self._after(_LOOSE_REAL_NS, lambda: self._insist(container))

    def _is_to_stop(self, container: ContainerProcess) -> bool:
        return self._by_pid.get(container.pid or 0) is container and container.is_to_stop

    def _read_reports(self) -> None:
        while True:
            try:
                data = os.read(self._reports_in, _READ_BYTES)
            except BlockingIOError:
                return
            self._reports.feed(data)
            for pid, event, fields in self._reports:
                if event == REHEARSED:
                    self._children.rehearsed(pid, len(self._containers))
                    continue
                if self._programs.reported(pid, event, fields):
                    continue
                container = self._by_pid[pid]
                if event == "settled":
                    self._starts.settled(container)
                else:
                    container.reported(event, fields, self._emit)

    def _stop_changed(self, container: ContainerProcess, stopped: bool, real_ns: int) -> None:
        if stopped and container.is_program and container.is_to_stop:
            self._programs.stop(container, lambda: self._stopped(container, True, time.monotonic_ns()))
        else:
            self._stopped(container, stopped, real_ns)

    def _stopped(self, container: ContainerProcess, stopped: bool, real_ns: int) -> None:
        container.stop_changed(stopped, real_ns, self._emit)
        if container.is_to_be_dumped:
            container.set_counters(self._page.keys_done(container.slot))
            self._images.dump(container, self._dumped)
        self._advance(container)

    def _reap(self) -> None:
        while True:
            try:
                change = os.waitid(os.P_ALL, 0, _STATE_CHANGES)
            except ChildProcessError:
                return
            if change is None:
                return
            real_ns = time.monotonic_ns()
            exited_normally = change.si_code == os.CLD_EXITED
            container = self._by_pid.get(change.si_pid)
            if change.si_code in (os.CLD_STOPPED, os.CLD_CONTINUED):
                if container is not None:
                    self._stop_changed(container, change.si_code == os.CLD_STOPPED, real_ns)
                continue
            self._read_reports()  # its last reports are in the pipe
            code = change.si_status if exited_normally else None
            if container is None:  # a helper, an orphan of some process, or made ahead
                if self._children.ahead_ended(change.si_pid):
                    continue
                if not self._images.helper_ended(change.si_pid, code):
                    self._programs.helper_ended(change.si_pid)
                continue
            del self._by_pid[change.si_pid]
            container.has_ended = True
            self._starts.forget(container)
            self._leave_images(container)
            killed_by = None if exited_normally else change.si_status
            if container.is_program:
                self._programs.ended(container, code, partial(self._program_ended, container, killed_by))
            else:
                self._exited(container, code, killed_by, real_ns)

    def _exited(
        self, container: ContainerProcess, code: int | None, killed_by: int | None, real_ns: int, **facts: str
    ) -> None:
        del self._containers[container.id]
        keys_done = self._page.keys_done(container.slot)
        container.exited(code, killed_by, keys_done, real_ns, self._emit, **facts)

    def _program_ended(self, container: ContainerProcess, killed_by: int | None, code: int | None, digest: str) -> None:
        """Nothing is left of a program."""
        real_ns = time.monotonic_ns()
        if code and (words := last_words(container.params)):
            container.failed(f"exit status {code}, and its standard error ends with: {words}")
        if digest:
            self._page.writer(container.slot).key_done(1, real_ns)
        self._exited(container, code, killed_by, real_ns, output_sha256=digest)

    def _strangers(self, children: list[int]) -> list[int] | None:
        """Those of the given children of this process that it does not know; None while criu makes some."""
        if self._images.is_restoring:
            return None
        known = (self._by_pid.__contains__, self._images.is_helper, self._programs.is_helper, self._children.is_ahead)
        return [pid for pid in children if not any(is_it(pid) for is_it in known)]

    # Events

    def _emit(self, event: str, **fields: Any) -> None:
        self._outbox += pack({"event": event, **fields})

    def _flush(self) -> None:
        while self._outbox:
            try:
                written = os.write(self._events_out, self._outbox)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._outbox.clear()  # nobody listens any more, and stdin is closed too
                self._close()
                return
            del self._outbox[:written]


def _pid_of(container: ContainerProcess) -> int:
    """The process to signal.  It is ours and not reaped yet, so no other process can have its id."""
    assert container.pid is not None
    return container.pid


def _launch_reason(error: OSError) -> str:
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return (
            f"cannot fork another process: {error.strerror}; run fewer containers on this machine, "
            "or raise its limits on processes and memory (ulimit -u, pids.max)"
        )
    return f"cannot launch: {error.strerror}{': ' + str(error.filename) if error.filename else ''}"


def _take_standard_streams() -> tuple[int, int]:
    """Move stdin and stdout away, so that output of tasks cannot mix with the events."""
    commands, events = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return commands, events


def main() -> int:
    """Entry point of ``python -m emulator.live.tasks.supervisor``; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m emulator.live.tasks.supervisor", description=__doc__)
    parser.add_argument("--page", required=True, help="the progress page, an existing file")
    parser.add_argument("--slots", required=True, type=int, help="slots in the page")
    parser.add_argument("--ahead", default=0, type=int, help="tasks for which processes are made ahead")
    arguments = parser.parse_args()
    # Fires when the thread that started us ends; if it has already ended, the end of stdin shows that.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what programs leave is ended and reaped here
    commands, events = _take_standard_streams()
    try:
        page = ProgressPage.open(arguments.page, arguments.slots)
    except (OSError, ValueError) as error:
        print(f"natjam supervisor: cannot use the progress page: {error}", file=sys.stderr)
        return os.EX_USAGE
    supervisor = Supervisor(arguments.page, page, commands, events, arguments.ahead)
    shuffle.warm_up()
    gc.collect()
    gc.freeze()  # keep a task's collector from touching, and so copying, pages shared with us
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
