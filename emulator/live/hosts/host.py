"""A host: machines in one asyncio loop, on scaled time, linked to the other hosts.

Theory of operation
-------------------
A machine handles one message at a time and never awaits.  Messages that come up meanwhile are handled after it, first
in, first out.  A machine's messages go to the outbox of the receiving host.  All messages of one turn of the loop are
sent together: one batch per turn and pair of hosts, however many machines these hold.  So batches grow with the load,
and an idle system answers at once.  Timers are the loop's; it is recorded how late each one fires.  Those that come
last wait until no message is queued here.

An exception in a machine (or in a user's policy) ends the run: it is kept as ``fatal``, for the next status call.

A host that keeps a journal on its own disk can be replaced.  A machine is pure: given to a new machine, its journal
restores its state.  The records of a host's machines are written there first; only then may any message of theirs leave
the host, and only then does the driver get the records.  So if the host is killed, a record that is missing there has
had no effect.  To all others its message was lost, which the protocol tolerates.  Written bytes survive the death of
the process that wrote them; the death of the computer ends the run in any case.  The new host offers the whole journal
to the driver, which knows the part it already has.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from emulator.core.decisions import PolicyError
from emulator.core.effects import EXPLANATIONS, Effect, Send, SetTimer
from emulator.core.machine import StateMachine
from emulator.core.messages import Message, Start, Tick, TimerFired
from emulator.errors import NatjamError
from emulator.files.whole_files import writing
from emulator.live.beat import PERIOD_REAL_NS, Beat, awake_or_not_real_ns, gap
from emulator.live.clock import ScaledClock
from emulator.live.hosts.links import Address, Batch, Links
from emulator.live.hosts.plan import HostStatus, Note, RunPlan
from emulator.records.gaps import LongestGaps
from emulator.records.journal import Record, Recorder, decode_record, encode_record
from emulator.records.lag import LagRecorder


class HostJournal:
    """Lines of records; see the module's theory of operation."""

    def __init__(self, path: Path) -> None:
        """Continue the file ``path``, or create it.  Raises OSError."""
        self._path = path
        self.found = _whole_lines(path)
        """The records found in it, one encoded record each."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.truncate(path, sum(len(line) + 1 for line in self.found))
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self._unwritten: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Add a record, encoded."""
        self._unwritten.append(line)

    def write(self) -> None:
        """Write all records that were added.

        Raises:
            RunError: they cannot be written; nothing may be added then.
        """
        if not self._unwritten:
            return
        rest = memoryview(b"\n".join([*self._unwritten, b""]))
        with writing(self._path):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self._unwritten.clear()


def restored(
    lines: list[bytes], make_machine: Callable[[str], StateMachine], sink: Callable[[Record], None]
) -> dict[str, Recorder]:
    """The machines that a journal restores, by address, each in a recorder that continues with ``sink``."""
    recorders: dict[str, Recorder] = {}
    for record in map(decode_record, lines):
        recorder = recorders.get(record.actor)
        if recorder is None:
            recorder = recorders[record.actor] = Recorder(make_machine(record.actor), sink)
        recorder.machine.handle(record.message, record.t_ns)
        recorder.seq = record.seq + 1
    return recorders


def _whole_lines(path: Path) -> list[bytes]:
    """All complete lines; a line that was being written when its writer died is left out."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


class MachineHost:
    """Base of the hosts.  Must be created in the event loop in which it will run."""

    def __init__(self, name: str, plan: RunPlan, journal: Path | None = None) -> None:
        """``journal``: file for its own journal; if the file exists, machines are restored from it."""
        self.name = name
        self.plan = plan
        self.settings = plan.settings
        self.lag = LagRecorder()
        self.gaps = LongestGaps(min((job.submit_ns for job in plan.jobs.values()), default=0))
        self.fatal: str | None = None
        self.clock = ScaledClock(time.monotonic_ns(), 1)
        self._loop = asyncio.get_running_loop()
        self._links = Links(name, plan.secret, self._accept, lambda error: self.fail(error, self.name))
        self._routes = plan.routes()
        self._recorders: dict[str, Recorder] = {}
        self._own_journal = None if journal is None else HostJournal(journal)
        found = [] if self._own_journal is None else self._own_journal.found
        self._restored = restored(found, self.make_machine, self._record)
        """Restored or retired machines that have not started again, by address."""
        self._journal: list[bytes] = [*found]
        self._outboxes: dict[str, Batch] = {}
        self._telling = False
        self._queued = 0
        """Messages of this host's machines to each other that wait to be handled."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: dict[int, list[tuple[Callable[..., None], tuple[object, ...]]]] = {}
        """What is to be done at each real time, in the order in which it was asked for."""

    async def listen(self) -> Address:
        """Listen for the other hosts; returns the address.  Raises OSError."""
        return await self._links.listen(self.plan.addresses[self.name])

    async def meet(self, hosts: Mapping[str, Address]) -> None:
        """Connect to the other hosts.  Raises LinkError."""
        await self._links.connect(hosts)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Hosts to which the link is broken."""
        return tuple(self._links.broken)

    def begin(self, origin_real_ns: int) -> None:
        """Emulated time 0 is at ``origin_real_ns``, a future time of this machine's monotonic clock."""
        self.clock = ScaledClock(origin_real_ns, self.plan.time_scale)
        self._keep_the_beat(Beat(awake_or_not_real_ns()))

    def _keep_the_beat(self, beat: Beat) -> None:
        self._loop.call_later(PERIOD_REAL_NS / 1e9, self._keep_the_beat, beat)
        if late_real_ns := beat.late_real_ns(awake_or_not_real_ns()):
            self.gaps.add(gap(self.name, late_real_ns, time.monotonic_ns(), self.clock))

    # ---- machines ----

    def boot(self, address: str, start: Start) -> StateMachine:
        """Make the machine of ``address``, or take the existing or restored one, and tell it to start."""
        is_here = address in self._recorders
        recorder = self._recorders.get(address) or self._restored.pop(address, None)
        if recorder is None:
            recorder = Recorder(self.make_machine(address), self._record)
        self._recorders[address] = recorder
        self.tell(address, start)
        machine = recorder.machine
        if not is_here:
            self._await_tick(recorder, machine)
        return machine

    def make_machine(self, address: str) -> StateMachine:
        """A new machine for ``address``."""
        raise NotImplementedError(f"{self.name} has no machine {address}")

    def _await_tick(self, recorder: Recorder, machine: StateMachine) -> None:
        """Send the machine its next ``Tick``, and then the later ones, as long as it is here."""
        if machine.heartbeat is None:
            return
        due_ns = machine.heartbeat.after(max(0, self.clock.now_ns()))

        def tick() -> None:
            if self._recorders.get(machine.address) is recorder:
                self.tell(machine.address, Tick(due_ns))
                self._await_tick(recorder, machine)

        self.at(due_ns, tick)

    def retire(self, address: str) -> None:
        """Remove the machine of ``address``: it gets no more messages, unless it starts again."""
        recorder = self._recorders.pop(address, None)
        if recorder is not None:
            self._restored[address] = recorder

    def tell(self, address: str, message: Message) -> None:
        """Let a machine handle ``message`` now, or after the message that is being handled."""
        if self._telling:
            self._soon(self.tell, address, message)
            return
        recorder = self._recorders.get(address)
        if recorder is None or self.fatal is not None:
            return
        self._telling = True
        try:
            effects = recorder.handle(message, max(0, self.clock.now_ns()))
            for effect in effects:
                self._carry_out(address, effect)
        except Exception as error:
            self.fail(error, f"{address} on {type(message).__name__}")
        finally:
            self._telling = False

    def _soon(self, action: Callable[..., None], *arguments: object) -> None:
        """Run ``action`` after what is queued here."""
        self._queued += 1
        self._loop.call_soon(self._take, action, arguments)

    def _take(self, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        self._queued -= 1
        action(*arguments)

    def _tell_last(self, address: str, message: Message) -> None:
        """Let a machine handle ``message`` when nothing is queued here any more: neither what has happened until now,
        nor what follows of it."""
        if self._queued:
            self._loop.call_soon(self._tell_last, address, message)
        else:
            self.tell(address, message)

    def fail(self, error: BaseException, where: str) -> None:
        """End the run with ``error``."""
        text = str(error) if isinstance(error, NatjamError | PolicyError) else f"{type(error).__name__}: {error}"
        self.fatal = self.fatal or f"{where}: {text}"

    def _record(self, record: Record) -> None:
        line = encode_record(record)
        self._journal.append(line)
        if self._own_journal is not None:
            self._own_journal.add(line)

    def take_journal(self) -> tuple[list[bytes], int]:
        """The encoded records since the last call, and an emulated time: later calls return no record before it."""
        if not self._journal_is_written():
            return [], 0
        records, self._journal = self._journal, []
        return records, self.clock.now_ns()

    def _journal_is_written(self) -> bool:
        """Write it.  If that is impossible, the run ends, and nothing leaves the host any more."""
        try:
            if self._own_journal is not None:
                self._own_journal.write()
        except NatjamError as error:
            self.fail(error, self.name)
            return False
        return True

    # ---- effects ----

    def _carry_out(self, address: str, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.post(self._routes[effect.to], effect.to, effect.message)
        elif isinstance(effect, SetTimer):
            fired = TimerFired(effect.name, effect.generation, effect.at_ns)
            self.at(effect.at_ns, self._tell_last if effect.is_last else self.tell, address, fired)
        elif not isinstance(effect, EXPLANATIONS):  # these are for the journal only
            self.execute(address, effect)

    def execute(self, address: str, effect: Effect) -> None:
        """Carry out an effect that is neither a message nor a timer."""
        raise NotImplementedError(f"{self.name} cannot carry out {type(effect).__name__}")

    def at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Run ``action`` at the emulated time ``at_ns``, and record how late it was.

        Actions of the same time run in the order of the calls, as in a simulation.  An event loop does not keep that
        order: it has its timers in a heap that compares their times only.
        """
        due_real_ns = self.clock.to_real_ns(at_ns)
        if due_real_ns not in self._due:
            self._due[due_real_ns] = []
            self._loop.call_at(due_real_ns / 1e9, self._fire, due_real_ns)
        self._due[due_real_ns].append((action, arguments))

    def _fire(self, due_real_ns: int) -> None:
        for action, arguments in self._due.pop(due_real_ns):
            self.lag.record(due_real_ns, time.monotonic_ns())
            self._guarded(action.__name__, action, *arguments)

    def _guarded(self, what: str, action: Callable[..., None], *arguments: object) -> None:
        """Run an action of the host itself; an exception ends the run, since nobody else would see it."""
        try:
            action(*arguments)
        except Exception as error:
            self.fail(error, f"{self.name}: {what}")

    # ---- messages ----

    def post(self, host: str, address: str, message: Message | Note) -> None:
        """Send to a machine (or, at ``HOST``, to the host itself)."""
        if host == self.name:
            self._soon(self._dispatch, address, message)
            return
        if not self._outboxes:
            self._loop.call_soon(self._empty_outboxes)
        self._outboxes.setdefault(host, []).append((address, message))

    def _empty_outboxes(self) -> None:
        if not self._journal_is_written():  # first: a message that was sent must not be missing in the journal
            return
        outboxes, self._outboxes = self._outboxes, {}
        for host, batch in outboxes.items():
            self._links.send(host, batch)

    def _accept(self, batch: Batch) -> None:
        for address, message in batch:
            self._dispatch(address, message)

    def _dispatch(self, address: str, message: Message | Note) -> None:
        if isinstance(message, Note):
            self._guarded(type(message).__name__, self.note, message)
        else:
            self.tell(address, message)

    def note(self, message: Note) -> None:
        """Handle a message for the host itself."""
        raise NotImplementedError(f"{self.name} takes no {type(message).__name__}")

    def spawn(self, work: Awaitable[None]) -> None:
        """Run ``work`` in the background; its failure ends the run."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error, self.name)

    def status(self) -> HostStatus:
        """The state of this host, and its journal records since the last call."""
        return HostStatus(self.fatal, *self.take_journal(), self.lag.to_record(), self.unreachable, self.gaps.found)
