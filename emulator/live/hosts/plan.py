"""What the hosts of a run are told at their start, and their messages to each other besides machines' messages."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from emulator.core.job import JobSpec
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, job_address, node_address
from emulator.costs.overheads import OverheadProfile
from emulator.experiment.model import Experiment, Scheduler
from emulator.resolved import Resolved, resolve
from emulator.vocabulary import Frozen

RESOURCE_MANAGER_HOST = "rm"

_APPLICATION_HOSTS_MAX = 2
_OF_NODES = Scheduler.model_validate({"allocation": {"name": "soft-cap", "queues": {"default": {"capacity": 1}}}})
HOST = "host"
"""Address of the host itself."""


@dataclass(frozen=True)
class RunPlan:
    """A run, as every host knows it."""

    run_id: str
    experiment: Experiment
    overheads: OverheadProfile
    jobs: Mapping[str, JobSpec]
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
        """For a host of nodes: of the policies only the mechanism; the others may be files that only the driver has, as
        an availability may."""
        whole = self.experiment
        scheduler = _OF_NODES.model_copy(update={"mechanism": whole.scheduler.mechanism})
        cluster = whole.cluster.model_copy(update={"availability": None})
        return replace(self, experiment=whole.model_copy(update={"scheduler": scheduler, "cluster": cluster}))

    def resolved(self) -> Resolved:
        """The run, resolved once more, in the process of a host.  Raises ConfigError."""
        return resolve(self.experiment, tuple(self.jobs.values()), self.overheads)

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
        experiment=run.experiment,
        overheads=run.profile,
        jobs=jobs,
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
