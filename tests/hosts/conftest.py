"""Four hosts with Ray on them, brought up over SSH by ``ray up`` from a fifth."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.certificates import before_the_first_up
from tests.hosts.host_init import HOME
from tests.hosts.local_cluster import cluster_file
from tests.hosts.namespaces import LAPTOP, REPOSITORY, Host, Network, missing, network
from tests.run_results import RunResults
from tests.second_chance import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

HEAD, *WORKERS = ("host-1", "host-2", "host-3", "host-4")
LINK_MBIT_S = 1000
CLUSTER_FILE = f"{HOME}/cluster.local.yaml"
FIG4 = "workloads/catalog/natjam-fig4.yaml"
_UP_BOUND_S = 150

# Ray's newer autoscaler takes the head of a `local` cluster for one of its workers, and never starts the last of them.
_RAY_UP = {"RAY_UP_enable_autoscaler_v2": "0"}
_WAIT_FOR_NODES = """\
import ray, time
ray.init("auto", log_to_driver=False, configure_logging=False)
while sum(node["Alive"] for node in ray.nodes()) < {nodes}:
    time.sleep(0.2)
"""


@dataclass(frozen=True)
class Cluster:
    """Ray on the hosts."""

    network: Network
    up_real_s: float
    """What ``ray up`` has taken, until the last host was there."""

    @property
    def laptop(self) -> Host:
        """Where the user sits."""
        return self.network.hosts[LAPTOP]

    def on_laptop(self, *arguments: str, bound_s: float = 60) -> str:
        """Run a program on the laptop, in the checkout; what it prints.  Raises CalledProcessError, TimeoutExpired."""
        return self.laptop.run(*arguments, bound_s=bound_s, variables=_RAY_UP, cwd=str(REPOSITORY))

    def on_head(self, command: str, bound_s: float = 60) -> str:
        """Run a command line on the head by ``ray exec``; what it prints.  Raises as ``on_laptop``."""
        return self.on_laptop("ray", "exec", CLUSTER_FILE, command, bound_s=bound_s)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The hosts, on which Ray is up; in the end Ray is down, and nothing is left on any."""
    with ray_on(1 + len(WORKERS)) as cluster:
        yield cluster


@contextmanager
def ray_on(hosts: int, captured: bool = True) -> Iterator[Cluster]:
    """So many hosts, with Ray up on them; at the end Ray is down, and nothing is left on any host."""
    if reason := missing():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="natjam-hosts-", dir="/tmp"))
    names = [f"host-{number}" for number in range(1, hosts + 1)]
    try:
        with network(directory, [*names, LAPTOP], LINK_MBIT_S, captured) as made:
            yield from _up_and_down(made, names[1:])
    finally:
        shutil.rmtree(directory)


def _up_and_down(made: Network, names: Sequence[str]) -> Iterator[Cluster]:
    began_s = time.monotonic()
    laptop = made.hosts[LAPTOP]
    laptop.write(CLUSTER_FILE, cluster_file(made, HEAD, names))
    cluster = Cluster(made, 0)
    cluster.on_laptop("bash", "-c", before_the_first_up())
    cluster.on_laptop("ray", "up", "--yes", CLUSTER_FILE, bound_s=_UP_BOUND_S)
    wait = _WAIT_FOR_NODES.format(nodes=1 + len(names))
    made.hosts[HEAD].run("bash", "-i", "-c", f"python -c '{wait}'", bound_s=_UP_BOUND_S)
    yield Cluster(made, time.monotonic() - began_s)
    cluster.on_laptop("ray", "down", "--yes", CLUSTER_FILE)
    assert not _left(made.hosts[HEAD])
    # It leaves the workers of Ray's `local` provider alone: their Ray ends a minute after the head's.
    workers = [made.hosts[name] for name in names if made.hosts[name].process.poll() is None]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda host: host.run("bash", "-i", "-c", "ray stop"), workers))
    assert not [line for host in workers for line in _left(host)]


@pytest.fixture(scope="session")
def fig4(cluster: Cluster) -> RunResults:
    """Fig. 4, run on the head as a user runs it."""
    command = f"cd natjam && RAY_ADDRESS=auto natjam run {FIG4} --time-scale 20 --out /srv/fig4"
    print(cluster.on_head(command, bound_s=150))
    return RunResults(cluster.network.shared / "fig4")


def _left(host: Host) -> list[str]:
    """What runs on a host besides what it began with."""
    return [line for line in host.processes().values() if "host_init.py" not in line and not line.startswith("sshd")]
