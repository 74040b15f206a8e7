"""Machines driven by hand; a ResourceManager with the messages that nodes and ApplicationMasters would send."""

from __future__ import annotations

from typing import Generic, TypeVar

from simulated import SECOND_NS

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.effects import Effect, Send
from emulator.core.messages import (
    AllocateResponse,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    Message,
    NodeHeartbeat,
    Start,
    StartContainer,
    SubmitJob,
    Tick,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import Settings
from emulator.vocabulary import JobFacts, map_reduce

MachineT = TypeVar("MachineT", NodeManager, ResourceManager, ApplicationMaster)


class MachineBench(Generic[MachineT]):
    """A machine on its own, and a clock that advances one second with each message."""

    machine: MachineT
    now_ns = 0

    def __call__(self, message: Message) -> list[Effect]:
        self.now_ns += SECOND_NS
        effects = self.machine.handle(message, self.now_ns)
        self.machine.validate_state()
        return effects


class Bench(MachineBench[ResourceManager]):
    """A ResourceManager."""

    def __init__(self, settings: Settings) -> None:
        self.machine = ResourceManager(settings)
        self.answers: dict[str, int] = {}
        self(Start())

    def node(self, node: str = "node-1", *freed: ContainerReport) -> list[Effect]:
        return self(NodeHeartbeat(node, self.now_ns + SECOND_NS, freed))

    def tick(self) -> list[Effect]:
        return self(Tick(0))

    def ask(self, job: str, ask: Ask) -> AllocateResponse | None:
        """Send a heartbeat of a master that has applied all answers so far."""
        application = self.machine.state.applications.get(job)
        return self.ask_from(application.master if application else "", job, ask)

    def told(self, job: str, ask: Ask) -> AllocateResponse:
        """The same, where the answer has something to tell."""
        answer = self.ask(job, ask)
        assert answer is not None
        return answer

    def ask_from(self, master: str, job: str, ask: Ask) -> AllocateResponse | None:
        """The same from the master in this container."""
        number = self.now_ns + SECOND_NS
        effects = self(ApplicationHeartbeat(job, number, self.answers.get(job, 0), ask, container=master))
        (response,) = sent(effects, ApplicationHeartbeatResponse)
        if response.answer is not None:
            self.answers[job] = response.answer.id
        return response.answer

    def submit(
        self, job: str, queue: str = "research", maps: int = 0, reduces: int = 2, priority: int = 0
    ) -> list[Effect]:
        return self(SubmitJob(JobFacts(job, queue, map_reduce(maps, reduces), priority=priority)))

    def running_job(self, job: str, ask: Ask, queue: str = "research") -> AllocateResponse:
        """Submit ``job``, start its master, and let node-1 serve its ask."""
        self.submit(job, queue)
        assert len(sent(self.node(), StartContainer)) == 1
        self.ask(job, ask)
        self.node()
        return self.told(job, Ask())

    @property
    def free(self) -> int:
        return self.machine.state.nodes["node-1"].free_count


def sent(effects: list[Effect], kind: type) -> list:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]
