"""The host of the ResourceManager and the client."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from emulator.core.client import Client
from emulator.core.effects import AllFinished, AskExternalScheduler, Effect
from emulator.core.machine import StateMachine
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, Message, NodeHeartbeat, NodeLost, Start
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.display.status import cluster_status
from emulator.external import process_of
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.plan import HostStatus, RunPlan


class ResourceManagerHost(MachineHost):
    """Runs the ResourceManager and the client; ``finished`` is set when every job has ended."""

    def __init__(self, name: str, plan: RunPlan, journal: Path) -> None:
        super().__init__(name, plan, journal)
        self.finished = asyncio.Event()
        self._manager: ResourceManager | None = None
        self._client: Client | None = None
        self._expiry_ns = self.settings.protocol.node_expiry_ns
        self._external = process_of(self.settings.scheduler.allocation)
        self._last_heartbeat_ns: dict[str, int] = {}
        """Last heartbeat of each node that is not gone."""

    def begin(self, origin_real_ns: int) -> None:
        """Start both machines at emulated time 0, or, after a replacement, where the dead host stopped.

        They start now, before the nodes.  So jobs submitted at once are present when the first heartbeats arrive.
        Otherwise the order would depend on when the loops wake up, and could cost the first job up to a heartbeat.
        """
        super().begin(origin_real_ns)
        self._guarded("begin", self._boot)

    def make_machine(self, address: str) -> StateMachine:
        """See ``MachineHost``."""
        return Client(tuple(self.plan.jobs.values())) if address == CLIENT else ResourceManager(self.settings)

    def _boot(self) -> None:
        manager, client = self.boot(RESOURCE_MANAGER, Start()), self.boot(CLIENT, Start())
        assert isinstance(manager, ResourceManager)
        assert isinstance(client, Client)
        self._manager, self._client = manager, client
        self._last_heartbeat_ns = {node.name: max(0, self.clock.now_ns()) for node in self.settings.nodes}
        self._expire_nodes()

    def tell(self, address: str, message: Message) -> None:
        """Let a machine handle ``message``; record which nodes are alive."""
        if isinstance(message, NodeHeartbeat):  # also of one that was given up: it may resync
            self._last_heartbeat_ns[message.node] = self.clock.now_ns()
        super().tell(address, message)

    def _expire_nodes(self) -> None:
        """Report silent nodes as lost.  Empty heartbeats leave no trace in a machine, so silence is noticed here."""
        now_ns = self.clock.now_ns()
        for node in [node for node, at_ns in self._last_heartbeat_ns.items() if now_ns - at_ns > self._expiry_ns]:
            self.nodes_lost((node,), f"{node} has not been heard of for {self._expiry_ns / 1e9:g} s")
        self.at(now_ns + self._expiry_ns // 4, self._expire_nodes)

    def execute(self, address: str, effect: Effect) -> None:
        """Carry out effects: the client has seen the end of all jobs."""
        if isinstance(effect, AllFinished):
            self.finished.set()
            self._end_external_scheduler()
        elif isinstance(effect, AskExternalScheduler):
            self.spawn(self._ask_external_scheduler(address, effect))
        else:
            super().execute(address, effect)

    async def _ask_external_scheduler(self, address: str, effect: AskExternalScheduler) -> None:
        """Ask the process beside the loop, which goes on meanwhile."""
        assert self._external is not None, "no allocation from outside"
        try:
            answer = await asyncio.to_thread(self._external.ask, effect)
        except Exception:
            if self.finished.is_set():
                return  # it was asked when the run had ended, and was ended with it
            raise
        self.tell(address, answer)

    def _end_external_scheduler(self) -> None:
        if self._external is not None:
            self._external.kill()

    def fail(self, error: BaseException, where: str) -> None:
        """End the run; those who wait for its end stop waiting."""
        super().fail(error, where)
        self._end_external_scheduler()
        self.finished.set()

    def nodes_lost(self, nodes: tuple[str, ...], reason: str) -> None:
        """The host of ``nodes`` has died."""
        for node in nodes:
            self._last_heartbeat_ns.pop(node, None)
            self.tell(RESOURCE_MANAGER, NodeLost(node, reason))

    def status(self) -> HostStatus:
        """The status with the cluster's state."""
        status = super().status()
        if self._manager is None or self._client is None:
            return status
        return replace(status, cluster=cluster_status(self._manager, self._client, max(0, self.clock.now_ns())))
