"""The Ray actors that play the roles; each only passes calls on to its host.

There is one ResourceManager actor, one node host per Ray node, and a small pool of application hosts.  A host is a
plain asyncio object (``emulator.live.hosts.host``).  Hosts talk to each other over links of their own.  Only this
module and ``emulator.live.session`` use Ray.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import ray

from emulator.live.hosts.links import Address
from emulator.live.hosts.plan import HostStatus, RunPlan
from emulator.live.janitor import start_janitor

if TYPE_CHECKING:  # each process imports the host that it plays; below, they are named in quotes
    from emulator.live.hosts.application_host import ApplicationHost  # noqa: F401
    from emulator.live.hosts.host import MachineHost
    from emulator.live.hosts.node_host import NodeHost  # noqa: F401
    from emulator.live.hosts.resource_manager_host import ResourceManagerHost  # noqa: F401

HostT = TypeVar("HostT", bound="MachineHost")


def own_boot_id() -> str:
    """The id that this computer has had since it was started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class HostReady:
    """A host is ready to connect to the others."""

    address: Address
    shuffle_urls: Mapping[str, str] = field(default_factory=dict)
    """The URL of the shuffle service of each of its nodes."""
    sees_output: bool = True
    """Whether a host of nodes sees the marker that the driver has made in the output directory."""
    computer: str = field(default_factory=platform.node)
    """The computer that it runs on."""
    boot_id: str = field(default_factory=own_boot_id)
    """The same for all hosts on one computer."""


class _Actor(Generic[HostT]):
    """What all three actors share."""

    host: HostT

    def __init__(self, name: str, import_paths: Sequence[str]) -> None:
        """``import_paths``: where modules are that the plan names, such as those of the user's own policies."""
        self._name = name
        sys.path += [path for path in import_paths if path not in sys.path]
        # Ray starts workers with SIGINT ignored or blocked; what they start must not inherit that.
        with suppress(ValueError):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    async def monotonic_real_ns(self) -> int:
        """This machine's monotonic clock, for measuring its offset."""
        return time.monotonic_ns()

    async def meet(self, hosts: Mapping[str, Address], shuffle_urls: Mapping[str, str]) -> None:
        """Connect to the other hosts."""
        await self.host.meet(hosts)

    async def meet_again(self, host: str, address: Address) -> None:
        """Connect to a new host that replaces another one."""
        await self.host.meet({host: address})

    async def begin(self, origin_real_ns: int) -> None:
        """Emulated time 0 is at this instant of this machine's monotonic clock."""
        self.host.begin(origin_real_ns)

    async def status(self) -> HostStatus:
        """The state of this host, and its journal records since the last call."""
        return self.host.status()


@ray.remote
class ResourceManagerActor(_Actor["ResourceManagerHost"]):
    """Plays the ResourceManager (and the client)."""

    async def open(self, plan: RunPlan, journal: str) -> HostReady:
        """Start the host; it keeps its journal in the file ``journal``, and continues from it if the file exists."""
        from emulator.live.hosts import resource_manager_host

        self.host = resource_manager_host.ResourceManagerHost(self._name, plan, Path(journal))
        return HostReady(await self.host.listen())

    async def finished(self) -> None:
        """Returns when every job has ended."""
        await self.host.finished.wait()

    async def nodes_lost(self, nodes: tuple[str, ...], reason: str) -> None:
        """The host of these nodes has died."""
        self.host.nodes_lost(nodes, reason)


@ray.remote
class ApplicationHostActor(_Actor["ApplicationHost"]):
    """Plays ApplicationMasters, any number at a time."""

    async def open(self, plan: RunPlan, journal: str) -> HostReady:
        """Start the host; it keeps its journal in the file ``journal``, and continues from it if the file exists."""
        from emulator.live.hosts import application_host

        self.host = application_host.ApplicationHost(self._name, plan, Path(journal))
        return HostReady(await self.host.listen())

    async def stuck_attempts(self) -> list[str]:
        """The attempts that must make progress so that the run can end."""
        return self.host.stuck_attempts()


@ray.remote
class NodeHostActor(_Actor["NodeHost"]):
    """Plays the NodeManagers of one Ray node."""

    def __init__(self, name: str, import_paths: Sequence[str], run_id: str, work_root: str | None) -> None:
        super().__init__(name, import_paths)
        self._work_dir = Path(work_root or tempfile.gettempdir()) / f"natjam-{run_id}-{name}"
        # The driver's janitor cleans up the driver's machine; elsewhere a janitor waits for the end of this process.
        self._janitor = None if work_root else start_janitor(run_id, [self._work_dir], name)

    async def open(self, plan: RunPlan, marker: str) -> HostReady:
        """Start supervisor and shuffle service.

        From then on this process ends when its raylet does.  Otherwise Ray would take it for dead some time later, and
        the driver would hear nothing more from it while it worked on: no journal would show that work.
        """
        from emulator.live.hosts import node_host

        asyncio.get_running_loop().add_reader(os.pidfd_open(os.getppid()), os._exit, 1)
        self.host = node_host.NodeHost(self._name, plan, self._work_dir)
        try:
            urls = await self.host.open()
            sees_output = await self.host.sees(marker)
        except BaseException:
            shutil.rmtree(self._work_dir, ignore_errors=True)
            raise
        return HostReady(await self.host.listen(), urls, sees_output)

    async def meet(self, hosts: Mapping[str, Address], shuffle_urls: Mapping[str, str]) -> None:
        """Connect to the other hosts and learn of all shuffle services."""
        await super().meet(hosts, shuffle_urls)
        self.host.shuffle_urls.update(shuffle_urls)

    async def meet_again(self, host: str, address: Address) -> None:
        """Tell the host now: the machines of the dead host are gone, and no machine of the new one has started yet."""
        await super().meet_again(host, address)
        self.host.application_host_died(host)

    async def close(self) -> dict[str, int]:
        """End every process and remove the work directory; returns what the shuffle service has served."""
        return await self.host.close()
