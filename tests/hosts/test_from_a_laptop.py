"""``natjam run --cluster`` on the machine of a user, far from the hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import psutil

from tests.campaigns import CAMPAIGN
from tests.hosts.conftest import CLUSTER_FILE, Cluster
from tests.hosts.host_init import HOME
from tests.live_runs import until

BOUND_S = 120


def test_a_run_survives_lost_connections_and_its_results_are_fetched(cluster: Cluster) -> None:
    laptop = cluster.laptop
    laptop.run("natjam", "init", "mine")
    command = laptop.command(
        *("natjam", "run", "mine/experiment.yaml", "--cluster", CLUSTER_FILE, "--out", "first"),
        *("--set", "scheduler.task_eviction=my_policies:newest", "--set", "storage.url=/srv/laptop"),
    )
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lost, said = 0, []
        for line in process.stdout:
            said.append(line)
            if "emulated | running" in line and lost < 2:
                until(lambda: _connections_killed(cluster), "a connection to lose", BOUND_S)
                lost += 1
    assert process.returncode == 0, said
    assert lost == 2
    assert sum("starting hosts" in line for line in said) == 1, "what has been shown is not shown again"
    assert any("verified" in line for line in said)
    assert said[-1] == "fetched to first\n"
    summary = json.loads(laptop.run("cat", "first/summary.json"))
    assert summary["output"]["verified"] is True
    assert len(summary["machines"]) == 4
    assert "report.html" in laptop.run("ls", "first")


def test_a_detached_run_is_found_again_and_stopped(cluster: Cluster) -> None:
    laptop, on_cluster = cluster.laptop, ("--cluster", CLUSTER_FILE)
    endless = ("--set", "workload.jobs.0.reduce_s=[5000]", "--set", "storage.url=/srv/laptop")
    long = ("catalog:natjam-fig4", "--watch", "--detach", "--out", "long")
    said = laptop.run("natjam", "run", *long, *on_cluster, *endless)
    assert f"natjam stop long --cluster {CLUSTER_FILE}" in said
    assert laptop.run("natjam", "status", "long", *on_cluster) == "long: running\n"
    command = laptop.command("natjam", "attach", "long", *on_cluster)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as attached:
        assert attached.stdout is not None
        address = next(line for line in attached.stdout if line.startswith("watch it at ")).split()[-1]
        until(lambda: "<html" in _page(cluster, address), "the page", BOUND_S)
        until(lambda: _connections_killed(cluster), "a connection to lose", BOUND_S)
        until(lambda: "<html" in _page(cluster, address), "the page over a new connection", BOUND_S)
        laptop.run("natjam", "stop", "long", *on_cluster)
        attached.stdout.read()
    assert attached.returncode == 1
    ended = subprocess.run(
        laptop.command("natjam", "status", "long", *on_cluster), stderr=subprocess.PIPE, text=True, timeout=BOUND_S
    )
    assert ended.returncode == 1
    assert f"{HOME}/natjam-runs/long.log says why" in ended.stderr


def test_a_campaign_runs_on_the_cluster(cluster: Cluster) -> None:
    laptop = cluster.laptop
    laptop.run("natjam", "init", "many")
    laptop.write(f"{HOME}/many/few.yaml", CAMPAIGN.replace("seeds: 20", "seeds: 2"))
    said = laptop.run("natjam", "campaign", "many/few.yaml", "--cluster", CLUSTER_FILE, "--out", "few", bound_s=BOUND_S)
    assert said.endswith("fetched to few\n")
    assert "campaign.parquet" in laptop.run("ls", "few")


def _page(cluster: Cluster, address: str) -> str:
    fetch = f"import urllib.request; print(urllib.request.urlopen({address!r}, timeout=5).read().decode())"
    command = cluster.laptop.command("python", "-c", fetch)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=BOUND_S).stdout


def _connections_killed(cluster: Cluster) -> int:
    """Kill the SSH clients of the laptop; how many there were."""
    here = os.readlink(f"/proc/{cluster.laptop.pid}/ns/pid")
    killed = 0
    for process in psutil.process_iter():
        try:
            if process.name() == "ssh" and os.readlink(f"/proc/{process.pid}/ns/pid") == here:
                process.send_signal(signal.SIGKILL)
                killed += 1
        except (psutil.NoSuchProcess, OSError):
            continue
    return killed
