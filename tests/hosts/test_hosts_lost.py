"""What a run does when the network, or a host, fails under it.  The last test takes a host away for good."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.hosts.conftest import HEAD, WORKERS, Cluster
from tests.hosts.host_init import HOME
from tests.live_runs import TWO_QUEUES
from tests.run_results import RunResults

SPREAD = (
    TWO_QUEUES
    + """\
name: spread
protocol: {kill_timeout_s: 300}
cluster: {nodes: 4, containers_per_node: 4}
workload:
  jobs:
    - {name: research, queue: research, submit_s: 0, maps: 8, map_s: 1, reduces: 12, reduce_s: [200], key_s: 1}
    - {name: production, queue: production, submit_s: 100, maps: 2, map_s: 1, reduces: 4, reduce_s: [40], key_s: 1}
"""
)
"""What is asked back over a link that is cut is given when the link is back, not killed after 12 emulated seconds."""

CUT_S = 4
"""Long enough for many heartbeats to be missed, not for a host to be given up."""


def test_a_link_that_is_cut_for_a_while_loses_nothing(cluster: Cluster) -> None:
    with _running(cluster, "cut") as run:
        _check_closed_to_others(cluster)
        cluster.network.cut(WORKERS[1])
        time.sleep(CUT_S)
        cluster.network.mend(WORKERS[1])
    assert {row["outcome"] for row in run.table("attempts")} <= {"succeeded", "checkpointed"}


@pytest.mark.slow
def test_the_run_goes_on_without_a_host_that_has_died(cluster: Cluster) -> None:
    lost = WORKERS[-1]
    with _running(cluster, "killed") as run:
        cluster.network.hosts[lost].end()
    summary = run.summary
    (host,) = next(machine["hosts"] for machine in summary["machines"] if machine["name"] == lost)
    ended = [row for row in run.table("attempts") if row["outcome"] == "lost"]
    assert ended
    assert {row["reason"] for row in ended} == {f"its host {host} has died"}
    assert len({row["node"] for row in ended}) == 1
    assert sum(job["lost_work_s"] for job in summary["jobs"]) > 0


def _check_closed_to_others(cluster: Cluster) -> None:
    """No command line has the cluster's token, and the shuffle services have no address but their hosts' own."""
    token = cluster.laptop.run("cat", f"{HOME}/.ray/auth_token").strip()
    assert len(token) == 64
    for name in (HEAD, *WORKERS):
        host = cluster.network.hosts[name]
        lines = host.processes().values()
        assert any("emulator.live.services.shuffle_service" in line for line in lines)
        assert not any(token in line for line in lines)
        listening = [line.split() for line in host.run("ss", "-tlnpH").splitlines() if '"python' in line]
        assert {fields[3].rpartition(":")[0] for fields in listening} == {host.address}


@contextmanager
def _running(cluster: Cluster, name: str) -> Iterator[RunResults]:
    """A run on the head that is at work; at the end of the block it ends, and its output is right."""
    head = cluster.network.hosts[HEAD]
    head.write(f"{HOME}/spread.yaml", SPREAD)
    run = f"RAY_ADDRESS=auto natjam run spread.yaml --out {name} --set storage.url=/srv/{name}"
    command = head.command("bash", "-i", "-c", f"{run} && cp -r {name} /srv/run-{name}")
    results = RunResults(cluster.network.shared / f"run-{name}")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="")
            if "research 8/20 done" in line:
                break
        assert process.poll() is None, "the run has ended"
        yield results
        for line in process.stdout:
            print(line, end="")
    assert process.returncode == 0
    assert results.summary["output"]["verified"] is True
