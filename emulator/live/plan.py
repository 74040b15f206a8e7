"""What the hosts of a run are told at their start, and what they say to each other besides machines' messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.config import Experiment
from emulator.core.job import JobSpec
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, job_address, node_address

RESOURCE_MANAGER_HOST = "rm"

Batch = list[tuple[str, object]]
"""Messages for the machines of one host: (address, message); the address ``HOST`` is the host itself."""
HOST = "host"


@dataclass(frozen=True)
class RunPlan:
    """One run, as every host knows it."""

    run_id: str
    experiment: Experiment
    seed: int
    jobs: Mapping[str, JobSpec]
    node_hosts: Mapping[str, tuple[str, ...]]
    """Names of the node hosts, and the nodes on each."""
    application_hosts: tuple[str, ...]
    output_dir: str
    secret: str
    """Of the shuffle services."""
    import_paths: tuple[str, ...]
    """Where a user's own policies are imported from."""
    addresses: Mapping[str, str]
    """Where each node host's shuffle service listens."""

    def routes(self) -> dict[str, str]:
        """The host of each machine.  Jobs go round the application hosts in turn."""
        routes = {RESOURCE_MANAGER: RESOURCE_MANAGER_HOST, CLIENT: RESOURCE_MANAGER_HOST}
        for host, nodes in self.node_hosts.items():
            routes.update({node_address(node): host for node in nodes})
        for index, job in enumerate(self.jobs):
            routes[job_address(job)] = self.application_hosts[index % len(self.application_hosts)]
        return routes


@dataclass(frozen=True, slots=True)
class LaunchApplication:
    """Node host to application host: run the ApplicationMaster of ``job`` from ``at_ns`` (emulated) on."""

    job: str
    container: str
    node_host: str
    ordered_real_ns: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class StopApplication:
    """Node host to application host: the ApplicationMaster's container has been killed."""

    job: str
    container: str


@dataclass(frozen=True, slots=True)
class ApplicationLaunched:
    """Application host to node host."""

    container: str


@dataclass(frozen=True, slots=True)
class ApplicationExited:
    """Application host to node host; ``killed``: on order."""

    container: str
    killed: bool


@dataclass(frozen=True, slots=True)
class ProgressReadings:
    """Node host to application host: what the heartbeats of its reduces say, once a task heartbeat period."""

    readings: tuple[tuple[str, int, int], ...]
    """(container, instant of the last key in emulated ns, keys done)."""
