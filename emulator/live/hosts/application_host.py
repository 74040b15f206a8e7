"""An application host: a warm process that runs ApplicationMasters, any number at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.effects import Effect, ExitApplication, ReadProgress
from emulator.core.machine import StateMachine
from emulator.core.messages import ProgressSamples, Start, job_address
from emulator.display.status import job_status, stuck_attempts
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.plan import (
    HOST,
    ApplicationExited,
    ApplicationLaunched,
    HostStatus,
    LaunchApplication,
    Note,
    ProgressReadings,
    RunPlan,
    StopApplication,
)

_KEPT = 1000

Reading = tuple[int, int]
"""When a key ended, in emulated nanoseconds, and how many were done then."""


class Readings:
    """Readings of reduces' heartbeats by container, oldest first, kept until their ApplicationMaster reads them."""

    def __init__(self) -> None:
        self._readings: dict[str, list[Reading]] = {}

    def add(self, container: str, at_ns: int, keys_done: int) -> None:
        """Add a reading; if very many are unread, every other one is dropped."""
        readings = self._readings.setdefault(container, [])
        if len(readings) >= _KEPT:
            del readings[1::2]  # a rate over longer times is as good
        readings.append((at_ns, keys_done))

    def read(self, container: str, since_ns: int) -> tuple[Reading, ...]:
        """All readings; those later than ``since_ns`` are kept and returned again.

        An ApplicationMaster leaves readings after its last refresh for the next one (natjam, section 3.2), so it must
        get them again; readings that it already used change no estimate.
        """
        readings = self._readings.pop(container, [])
        later = [reading for reading in readings if reading[0] > since_ns]
        if later:
            self._readings[container] = later
        return tuple(readings)

    def forget(self, container: str) -> None:
        """Drop the readings of a container that nobody will read any more."""
        self._readings.pop(container, None)


class ApplicationHost(MachineHost):
    """Runs ApplicationMasters, and keeps the readings of their reduces' heartbeats until they read them."""

    def __init__(self, name: str, plan: RunPlan, journal: Path) -> None:
        super().__init__(name, plan, journal)
        self._masters: dict[str, ApplicationMaster] = {}
        self._node_hosts: dict[str, str] = {}
        """Node host of each ApplicationMaster's container."""
        self._readings = Readings()
        self._left: dict[str, ApplicationMaster] = {}
        """Masters whose jobs have ended, and masters that have died and may start again."""
        for recorder in self._restored.values():
            if isinstance(recorder.machine, ApplicationMaster):
                self._left[recorder.machine.job] = recorder.machine

    def make_machine(self, address: str) -> StateMachine:
        """See ``MachineHost``."""
        return ApplicationMaster(self.plan.jobs[address.partition(":")[2]], self.settings)

    def note(self, message: Note) -> None:
        """Take orders and readings from node hosts."""
        if isinstance(message, ProgressReadings):
            for container, at_ns, keys_done in message.readings:
                self._readings.add(container, at_ns, keys_done)
        elif isinstance(message, LaunchApplication):
            self._node_hosts[message.container] = message.node_host
            self.post(message.node_host, HOST, ApplicationLaunched(message.container))
            if message.at_ns > self.clock.now_ns():
                self.at(message.at_ns, self._start, message)
            else:
                self._start(message)
        elif isinstance(message, StopApplication):
            self._leave(message.job, message.container, killed=True)

    def _start(self, message: LaunchApplication) -> None:
        if message.container not in self._node_hosts:
            return  # killed before it started
        master = self.boot(job_address(message.job), Start(message.container))
        if isinstance(master, ApplicationMaster):
            self._masters[message.job] = master
            self._left.pop(message.job, None)

    def _leave(self, job: str, container: str, killed: bool) -> None:
        node_host = self._node_hosts.pop(container, None)
        if node_host is None:
            return
        master = self._masters.get(job)
        if master is not None and master.container == container:  # else a later attempt has started
            self._left[job] = self._masters.pop(job)
            for task in master.tasks.walkers:
                for attempt in task.attempts:
                    self._readings.forget(attempt.container or "")
            self.retire(job_address(job))
        self.post(node_host, HOST, ApplicationExited(container, killed))

    def execute(self, address: str, effect: Effect) -> None:
        """Carry out effects of ApplicationMasters."""
        if isinstance(effect, ReadProgress):
            since_ns = self.clock.now_ns() - self.settings.protocol.estimate_period_ns
            samples = tuple((c, self._readings.read(c, since_ns)) for c in effect.containers)
            self.tell(address, ProgressSamples(tuple(sample for sample in samples if sample[1])))
        elif isinstance(effect, ExitApplication):
            self._leave(address.partition(":")[2], effect.container, killed=False)
        else:
            super().execute(address, effect)

    def status(self) -> HostStatus:
        """The status with those of the jobs that run here or have run here."""
        masters = (self._left | self._masters).items()
        jobs = tuple(job_status(master, self.plan.jobs[job].queue) for job, master in masters)
        return replace(super().status(), jobs=jobs)

    def stuck_attempts(self) -> list[str]:
        """Attempts of the jobs that run here that have started and not ended."""
        return [attempt for master in self._masters.values() for attempt in stuck_attempts(master)]
