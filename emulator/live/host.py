"""A host: machines in one asyncio loop, on scaled time, behind batched calls to other hosts.

Theory of operation
-------------------
A machine handles one message at a time and never awaits.  Its sends go to the outbox of the host they are for; an
outbox is emptied by one call at a time, so that while a call is under way whatever comes up waits and then goes
together: batches grow with load, and an idle system answers at once.  A call's result carries what the other side had
for us.  Timers are the loop's; how late each fires is recorded.

Whatever a machine (or a user's policy) raises ends the run: it is kept as ``fatal`` and found at the next status call.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from emulator.assemble import make_machine, make_settings
from emulator.core.decisions import PolicyError
from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.machine import Machine
from emulator.core.messages import Message, Start, TimerFired
from emulator.errors import NatjamError
from emulator.journal import Record, Recorder, encode_record
from emulator.live.clock import LagRecord, LagRecorder, ScaledClock
from emulator.live.plan import HOST, Batch, RunPlan

Call = Callable[[str, Batch], Awaitable[Batch]]


class PeerLost(Exception):
    """The host called has died."""


class MachineHost:
    """Base of the hosts; ``call(host, batch)`` reaches another one and raises PeerLost when it is dead."""

    def __init__(self, name: str, plan: RunPlan, call: Call) -> None:
        for path in plan.import_paths:
            if path not in sys.path:
                sys.path.append(path)
        self.name = name
        self.plan = plan
        self.settings = make_settings(plan.experiment, plan.seed)
        self.lag = LagRecorder()
        self.fatal: str | None = None
        self.clock = ScaledClock(time.monotonic_ns(), 1)
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._routes = plan.routes()
        self._recorders: dict[str, Recorder] = {}
        self._journal: list[bytes] = []
        self._outboxes: dict[str, Batch] = {}
        self._calling: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead: set[str] = set()

    def begin(self, origin_real_ns: int) -> None:
        """Emulated time 0 is at ``origin_real_ns``, an instant of this machine's monotonic clock yet to come."""
        self.clock = ScaledClock(origin_real_ns, self.plan.experiment.time_scale)

    # ---- machines ----

    def boot(self, address: str, start: Start) -> Machine:
        """Make the machine of ``address`` and tell it to start."""
        machine = make_machine(address, self.settings, self.plan.jobs)
        self._recorders[address] = Recorder(machine, self._record)
        self.tell(address, start)
        return machine

    def retire(self, address: str) -> None:
        """The machine of ``address`` is gone and hears nothing any more."""
        self._recorders.pop(address, None)

    def tell(self, address: str, message: Message) -> None:
        """Have a machine handle ``message`` now."""
        recorder = self._recorders.get(address)
        if recorder is None or self.fatal is not None:
            return
        try:
            effects = recorder.handle(message, max(0, self.clock.now_ns()))
            for effect in effects:
                self._carry_out(address, effect)
        except Exception as error:
            self.fail(error, f"{address} on {type(message).__name__}")

    def fail(self, error: BaseException, where: str) -> None:
        """End the run with ``error``."""
        text = str(error) if isinstance(error, NatjamError | PolicyError) else f"{type(error).__name__}: {error}"
        self.fatal = self.fatal or f"{where}: {text}"

    def _record(self, record: Record) -> None:
        self._journal.append(encode_record(record))

    def take_journal(self) -> list[bytes]:
        """The records since the last call, encoded."""
        records, self._journal = self._journal, []
        return records

    # ---- effects ----

    def _carry_out(self, address: str, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.post(self._routes[effect.to], effect.to, effect.message)
        elif isinstance(effect, SetTimer):
            fired = TimerFired(effect.name, effect.generation, effect.at_ns)
            self.at(effect.at_ns, self.tell, address, fired)
        else:
            self.execute(address, effect)

    def execute(self, address: str, effect: Effect) -> None:
        """Carry out an effect that is neither a message nor a timer."""
        raise NotImplementedError(f"{self.name} cannot carry out {type(effect).__name__}")

    def at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Do ``action`` at the emulated instant ``at_ns`` and record how late."""
        due_real_ns = self.clock.to_real_ns(at_ns)
        self._loop.call_at(due_real_ns / 1e9, self._fire, due_real_ns, action, arguments)

    def _fire(self, due_real_ns: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        self.lag.record(due_real_ns, time.monotonic_ns())
        action(*arguments)

    # ---- messages ----

    def post(self, host: str, address: str, message: object) -> None:
        """Send to a machine (or, at ``HOST``, to the host itself)."""
        if host == self.name:
            self._loop.call_soon(self._dispatch, address, message)
        elif host not in self._dead:
            self._outboxes.setdefault(host, []).append((address, message))
            if host not in self._calling:
                self._calling.add(host)
                self.spawn(self._empty_outbox(host))

    def spawn(self, work: Awaitable[None]) -> None:
        """Run ``work`` in the background; its failure ends the run."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error, self.name)

    async def _empty_outbox(self, host: str) -> None:
        await asyncio.sleep(0)  # let this turn's other messages come along
        try:
            while batch := self._outboxes.pop(host, None):
                self.accept(await self._call(host, batch))
        except PeerLost:
            self._dead.add(host)
            self._outboxes.pop(host, None)
        finally:
            self._calling.discard(host)

    def receive(self, sender: str, batch: Batch) -> Batch:
        """A call from another host; returns what there is for it."""
        self.accept(batch)
        return self._outboxes.pop(sender, [])

    def accept(self, batch: Batch) -> None:
        """Deliver a batch."""
        for address, message in batch:
            self._dispatch(address, message)

    def _dispatch(self, address: str, message: object) -> None:
        if address == HOST:
            self.note(message)
        elif isinstance(message, Message):
            self.tell(address, message)

    def note(self, message: object) -> None:
        """A message for the host itself."""
        raise NotImplementedError(f"{self.name} takes no {type(message).__name__}")

    def lag_record(self) -> LagRecord:
        """How late its timers were."""
        return self.lag.to_record()
