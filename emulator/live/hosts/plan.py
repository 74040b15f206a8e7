"""What the hosts of a run get when they start, their messages to each other, and their status."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from emulator.core.job import JobSpec
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, job_address, node_address
from emulator.core.settings import SchedulerSettings, Settings
from emulator.policies.fit import OFFERED
from emulator.policies.job_eviction import JOB_EVICTION
from emulator.policies.job_selection import FIFO
from emulator.policies.mechanism import MECHANISM
from emulator.policies.placement import PLACEMENT
from emulator.policies.queues import SOFT_CAP
from emulator.policies.resume_order import RESUME_ORDER
from emulator.policies.task_eviction import TASK_EVICTION
from emulator.vocabulary import Frozen

if TYPE_CHECKING:  # hosts get what was resolved, and do without what resolves
    from emulator.display.status import ClusterStatus, JobStatus
    from emulator.records.gaps import Gap
    from emulator.records.lag import LagRecord
    from emulator.resolved import Resolved

RESOURCE_MANAGER_HOST = "rm"

_APPLICATION_HOSTS_MAX = 2
_OF_NODES = SchedulerSettings(
    allocation=SOFT_CAP,
    job_selection=FIFO,
    job_eviction=JOB_EVICTION.policies[0],
    task_eviction=TASK_EVICTION.policies[0],
    mechanism=MECHANISM.policies[0],
    placement=PLACEMENT.policies[0],
    resume_order=RESUME_ORDER.policies[0],
    queues=(),
    fit=OFFERED,
)
"""Nodes decide nothing; they only must know what may happen to a task."""
HOST = "host"
"""Address of the host itself."""
_TIMEOUT_AT_LEAST_REAL_NS = 30_000_000_000
"""A loaded machine may leave a process without a processor for some seconds."""


def timeout_real_ns(run: Resolved) -> int:
    """How long a task may give no sign of life, and how long a run may have no moves."""
    return max(_TIMEOUT_AT_LEAST_REAL_NS, int(run.task_timeout_ns / Decimal(str(run.experiment.time_scale))))


@dataclass(frozen=True)
class RunPlan:
    """A run, as every host knows it."""

    run_id: str
    settings: Settings
    """What all machines share.  Policies get to the hosts by the names of their functions, or as they are."""
    jobs: Mapping[str, JobSpec]
    time_scale: float
    """Emulated seconds per real second."""
    memory_scale: float
    """Real bytes of memory and swap per emulated byte."""
    limits_containers: bool
    """Whether the memory and the processors of each container are limited to what its task asks for."""
    network_bytes_s: float
    """Speed at which one reduce fetches map outputs from other nodes."""
    task_timeout_real_ns: int
    """How long a task may give no sign of life."""
    dumper: str | None
    """The program that makes process images; None: the first that works."""
    keeps_images_in_output: bool
    """Whether process images lie where the output does; else each node has its own."""
    node_hosts: Mapping[str, tuple[str, ...]]
    """Names of the node hosts, and the nodes on each."""
    application_hosts: tuple[str, ...]
    output: str
    """Path or URL of the place where it is kept."""
    secret: str
    """Secret of the shuffle services and of the links between hosts."""
    import_paths: tuple[str, ...]
    """Directories from which a user's own policies are imported."""
    addresses: Mapping[str, str]
    """IP address on which each host, and a node host's shuffle service, listens."""

    def for_nodes(self) -> RunPlan:
        """For a host of nodes: without policies, which may be files that only the driver has."""
        among = self.settings.scheduler.mechanism.among
        scheduler = replace(_OF_NODES, mechanism=structs.replace(_OF_NODES.mechanism, among=among))
        return replace(self, settings=replace(self.settings, scheduler=scheduler, availability=None))

    def routes(self) -> dict[str, str]:
        """The host of each machine.  Jobs are assigned to the application hosts in turn."""
        routes = {RESOURCE_MANAGER: RESOURCE_MANAGER_HOST, CLIENT: RESOURCE_MANAGER_HOST}
        for host, nodes in self.node_hosts.items():
            routes.update({node_address(node): host for node in nodes})
        for index, job in enumerate(self.jobs):
            routes[job_address(job)] = self.application_hosts[index % len(self.application_hosts)]
        return routes


def make_plan(
    run_id: str,
    run: Resolved,
    output: str,
    addresses: Sequence[str],
) -> RunPlan:
    """The plan of a run on the Ray nodes with these IP addresses; the driver's node comes first."""
    nodes, jobs = list(run.settings.nodes_by_name), run.jobs_by_name
    count = min(len(addresses), len(nodes))
    used = addresses[:count] if count > 1 else ["127.0.0.1"]
    node_hosts = {f"nodes-{index + 1}": tuple(nodes[index::count]) for index in range(count)}
    application_hosts = tuple(f"applications-{i + 1}" for i in range(min(_APPLICATION_HOSTS_MAX, max(1, len(jobs)))))
    with_driver = dict.fromkeys((RESOURCE_MANAGER_HOST, *application_hosts), used[0])
    return RunPlan(
        run_id=run_id,
        settings=run.settings,
        jobs=jobs,
        time_scale=run.experiment.time_scale,
        memory_scale=run.experiment.live.memory_scale,
        limits_containers=run.experiment.live.memory == "container",
        network_bytes_s=run.network_bytes_s,
        task_timeout_real_ns=timeout_real_ns(run),
        dumper=run.experiment.scheduler.choice("mechanism").options.get("dumper"),
        keeps_images_in_output=run.experiment.storage.url is not None,
        node_hosts=node_hosts,
        application_hosts=application_hosts,
        output=output,
        secret=secrets.token_hex(16),
        import_paths=tuple(dict.fromkeys([*(path for path in sys.path if path), os.getcwd()])),
        addresses=with_driver | dict(zip(node_hosts, used, strict=True)),
    )


class _Note(Frozen, tag=True):
    """Base of the hosts' messages to each other."""


class LaunchApplication(_Note):
    """Node host to application host: run the ApplicationMaster of ``job`` from ``at_ns`` (emulated) on."""

    job: str
    container: str
    node_host: str
    ordered_real_ns: int
    at_ns: int


class StopApplication(_Note):
    """Node host to application host: the ApplicationMaster's container has been killed."""

    job: str
    container: str


class ApplicationLaunched(_Note):
    """Application host to node host."""

    container: str


class ApplicationExited(_Note):
    """Application host to node host; ``killed``: it ended by order."""

    container: str
    killed: bool


class ProgressReadings(_Note):
    """Node host to application host: the readings of its reduces, once per task heartbeat period."""

    readings: tuple[tuple[str, int, int], ...]
    """(container, time of the last key in emulated ns, keys done)."""


Note: TypeAlias = LaunchApplication | StopApplication | ApplicationLaunched | ApplicationExited | ProgressReadings
"""All messages between hosts."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The status of a host, asked for about three times a second."""

    fatal: str | None
    journal: list[bytes]
    until_ns: int
    """Emulated time up to which the host has handed over its journal."""
    lag: LagRecord
    unreachable: tuple[str, ...]
    """Hosts to which its link is broken."""
    gaps: tuple[Gap, ...] = ()
    """The longest times for which it, or its supervisor, has stood still."""
    jobs: tuple[JobStatus, ...] = ()
    cluster: ClusterStatus | None = None
    moves: int = 0
    """For a node host; see ``emulator.live.hosts.host_reports.Standstill``."""
