"""The Ray actors that play the roles: thin shells around the hosts, and the calls between them.

One ResourceManager actor, one node host a Ray node, a small pool of application hosts.  A host is a plain asyncio
object (``emulator.live.host``); what is Ray's is here and in ``emulator.live.session`` only.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError

from emulator.live.application_host import ApplicationHost
from emulator.live.clock import LagRecord
from emulator.live.host import MachineHost, PeerLost
from emulator.live.janitor import start_janitor
from emulator.live.node_host import NodeHost
from emulator.live.plan import Batch, RunPlan
from emulator.live.resource_manager_host import ResourceManagerHost
from emulator.progress import JobStatus
from emulator.status import ClusterStatus

HostT = TypeVar("HostT", bound=MachineHost)


@dataclass(frozen=True, slots=True)
class Machine:
    """The computer a host runs on."""

    name: str
    boot_id: str
    pid: int
    node_id: str


@dataclass(frozen=True, slots=True)
class HostStatus:
    """What a host says when asked, about four times a second."""

    fatal: str | None
    journal: list[bytes]
    lag: LagRecord
    jobs: tuple[JobStatus, ...] = ()
    cluster: ClusterStatus | None = None


class _Actor(Generic[HostT]):
    """What all three have in common."""

    host: HostT

    def __init__(self, name: str, plan: RunPlan) -> None:
        self._name = name
        self._plan = plan
        self._peers: Mapping[str, ActorHandle] = {}
        # Ray starts workers with SIGINT ignored or blocked; what they start must not inherit that.
        with suppress(ValueError):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    async def machine(self) -> Machine:
        """Where this is."""
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return Machine(platform.node(), boot_id, os.getpid(), ray.get_runtime_context().get_node_id())

    async def monotonic_real_ns(self) -> int:
        """This machine's monotonic clock, for measuring its offset."""
        return time.monotonic_ns()

    async def meet(self, peers: Mapping[str, ActorHandle], shuffle_urls: Mapping[str, str]) -> None:
        """Learn of the other hosts."""
        self._peers = peers

    async def begin(self, origin_real_ns: int) -> None:
        """Emulated time 0 is at this instant of this machine's monotonic clock."""
        self.host.begin(origin_real_ns)

    async def receive(self, sender: str, batch: Batch) -> Batch:
        """A batch from another host; returns what there is for it."""
        return self.host.receive(sender, batch)

    async def _call(self, host: str, batch: Batch) -> Batch:
        try:
            return await self._peers[host].receive.remote(self._name, batch)
        except RayActorError as error:
            raise PeerLost(str(error)) from error

    async def status(self) -> HostStatus:
        """State of this host, and its journal since the last call."""
        return HostStatus(self.host.fatal, self.host.take_journal(), self.host.lag_record())


@ray.remote
class ResourceManagerActor(_Actor[ResourceManagerHost]):
    """Plays the ResourceManager (and the client)."""

    async def open(self) -> None:
        """Get ready."""
        self.host = ResourceManagerHost(self._name, self._plan, self._call)

    async def finished(self) -> None:
        """Returns when every job has ended."""
        await self.host.finished.wait()

    async def nodes_lost(self, nodes: tuple[str, ...], reason: str) -> None:
        """The host of these nodes has died."""
        self.host.nodes_lost(nodes, reason)

    async def status(self) -> HostStatus:
        """With the cluster's state."""
        host = self.host
        return HostStatus(host.fatal, host.take_journal(), host.lag_record(), cluster=host.cluster_status())


@ray.remote
class ApplicationHostActor(_Actor[ApplicationHost]):
    """Plays ApplicationMasters, any number at a time."""

    async def open(self) -> None:
        """Get ready."""
        self.host = ApplicationHost(self._name, self._plan, self._call)

    async def status(self) -> HostStatus:
        """With the jobs' states."""
        host = self.host
        return HostStatus(host.fatal, host.take_journal(), host.lag_record(), jobs=tuple(host.job_statuses()))


@dataclass(frozen=True, slots=True)
class NodeHostReady:
    """A node host is ready to begin."""

    shuffle_urls: dict[str, str]
    supervisor_pid: int
    sees_output: bool
    """Whether the output directory's marker, made by the driver, is there."""


@dataclass(frozen=True, slots=True)
class NodeHostClosed:
    """What a node host leaves behind."""

    served: dict[str, dict[str, int]]
    checkpoint_bytes: int
    lag: LagRecord


@ray.remote
class NodeHostActor(_Actor[NodeHost]):
    """Plays the NodeManagers of one Ray node."""

    def __init__(self, name: str, plan: RunPlan, work_root: str | None) -> None:
        super().__init__(name, plan)
        self._work_dir = Path(work_root or tempfile.gettempdir()) / f"natjam-{plan.run_id}-{name}"
        # The driver's janitor sees to the driver's machine; elsewhere one waits for the end of this process.
        self._janitor = None if work_root else start_janitor(plan.run_id, [self._work_dir], name)

    async def open(self, marker: str) -> NodeHostReady:
        """Start supervisor and shuffle service."""
        self.host = NodeHost(self._name, self._plan, self._call, self._work_dir)
        try:
            urls = await self.host.open()
        except BaseException:
            shutil.rmtree(self._work_dir, ignore_errors=True)
            raise
        return NodeHostReady(urls, self.host.supervisor_pid, os.path.exists(marker))

    async def meet(self, peers: Mapping[str, ActorHandle], shuffle_urls: Mapping[str, str]) -> None:
        """Learn of the other hosts and of all shuffle services."""
        await super().meet(peers, shuffle_urls)
        self.host.shuffle_urls.update(shuffle_urls)

    async def close(self) -> NodeHostClosed:
        """End every process and remove the work directory."""
        served = await self.host.close()
        return NodeHostClosed(served, self.host.checkpoint_bytes, self.host.lag_record())
