"""Runs over several hosts of this machine that need minutes, and the machine for themselves.  Needs root.

``python -m pytest -s tests/benchmarks/test_several_hosts.py`` prints the figures.  With ``FIGURES=DIRECTORY`` those of
scheduling are kept there, and drawn once there are some.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil
import pytest
import yaml

from analysis.whole_run import run_experiment
from emulator.core.messages import RESOURCE_MANAGER
from emulator.experiment.load import load_experiment
from emulator.records.journal import read_journal
from tests.hosts.conftest import FIG4, HEAD, LINK_MBIT_S, Cluster, ray_on
from tests.hosts.namespaces import REPOSITORY
from tests.run_results import RunResults

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
CALIBRATION = "/srv/calibration"
FIDELITY_TIME_SCALE = 10
MANY = REPOSITORY / "workloads/catalog/natjam-2000.yaml"
TIMES_MORE = 25
"""A hundred hosts are so many times these four."""
_LOOK_REAL_S = 0.25
_START_REAL_S = 5.0
"""What the ResourceManager uses so soon after its start is not counted in its share."""
_BEGIN_REAL_S = 20
"""A run begins so long after its ResourceManager's process at most."""

Looks = list[tuple[float, float]]
"""When the ResourceManager's process was looked at, and the processor time that it had used: both in seconds."""


@pytest.fixture(scope="module")
def four() -> Iterator[Cluster]:
    with ray_on(4, captured=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def calibration(four: Cluster) -> str:
    """Of the cluster as it is.  Swap, which it measures too, must be on a disk, and the hosts' own ``/tmp`` is not."""
    command = f"mkdir /srv/tmp && TMPDIR=/srv/tmp RAY_ADDRESS=auto natjam measure --quick --out {CALIBRATION}"
    print(four.on_head(command, bound_s=300))
    return f"{CALIBRATION}/calibration.yaml"


@pytest.mark.parametrize("link_mbit_s", [LINK_MBIT_S, LINK_MBIT_S // 10])
def test_a_simulation_predicts_a_run_over_four_hosts(four: Cluster, calibration: str, link_mbit_s: int) -> None:
    """By 2% on average, 5% at worst.  The network of the experiment is what the links are at this time scale."""
    four.network.set_speed(link_mbit_s)
    network = f"--set cluster.network_mbit_s={link_mbit_s // FIDELITY_TIME_SCALE}"
    options = f"--strict --set calibration={calibration} {network} --time-scale {FIDELITY_TIME_SCALE}"
    print(f"links of {link_mbit_s} Mbit/s")
    command = f"cd natjam && RAY_ADDRESS=auto natjam fidelity {FIG4} {options} --out /srv/fidelity-{link_mbit_s}"
    print(four.on_head(command, bound_s=400))
    four.network.set_speed(LINK_MBIT_S)


def test_two_thousand_containers_and_what_a_hundred_hosts_would_need(four: Cluster, tmp_path: Path) -> None:
    """A hundred hosts as full as these four, if what the ResourceManager handles costs there what it costs here."""
    run, looks = _run(four, MANY, "", 900)
    heartbeat_s, message_s = _costs(_Load(run), looks)
    print(f"a heartbeat costs the ResourceManager {heartbeat_s * 1e6:.0f} us, another message {message_s * 1e6:.0f} us")
    many = tmp_path / "many.yaml"
    many.write_text(_times_more(MANY.read_text()))
    run_experiment(load_experiment(many), tmp_path / "out", lambda status: None)
    for time_scale in (1, 5):
        load = _Load(RunResults(tmp_path / "out"), time_scale)
        print(f"100 hosts at time scale {time_scale}: {load.heartbeats_real_s:.0f} heartbeats a second")
        for when, messages in (("on average", load.messages.mean()), ("in the busiest second", load.messages.max())):
            share = heartbeat_s * load.heartbeats_real_s + message_s * messages
            print(f"{when}: {messages:.0f} other messages, {share:.0%} of a core")


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_scheduling_latency_against_the_number_of_hosts(hosts: int, tmp_path: Path) -> None:
    """The same work on the same nodes; only on how many hosts these are is different."""
    options = "--time-scale 10 --set overheads=native --set cluster.nodes=8 --set cluster.containers_per_node=6"
    with ray_on(hosts, captured=False) as cluster:
        run, looks = _run(cluster, REPOSITORY / FIG4, options, 300)
        summary = run.summary
    assert len(summary["machines"]) == hosts
    found = {
        "hosts": hosts,
        "share": _share(looks),
        "schedule_s": summary["overheads"]["schedule_s"],
        "lag": summary["lag"],
    }
    print(found)
    figures = Path(os.environ.get("FIGURES", tmp_path))
    (figures / f"schedule-{hosts}.json").write_text(json.dumps(found))
    _draw(figures)


class _Load:
    """What a run asks of its ResourceManager, if it is at this time scale."""

    def __init__(self, run: RunResults, time_scale: float | None = None) -> None:
        summary, experiment = run.summary, load_experiment(run.out / "experiment.yaml")
        scale = time_scale or experiment.time_scale
        masters_s = sum(job["finish_s"] - job["start_s"] for job in summary["jobs"])
        node_s = experiment.cluster.nodes * summary["makespan_s"]
        self.heartbeats_real_s = (node_s + masters_s) / experiment.heartbeat_s / summary["makespan_s"] * scale
        _, records = read_journal(run.out / "journal.jsonl.zst")
        real_s = [record.t_ns / 1e9 / scale for record in records if record.actor == RESOURCE_MANAGER]
        self.messages = np.bincount(np.array(real_s, dtype=int))
        """In each real second from the run's begin on, without heartbeats that say nothing."""


def _costs(load: _Load, looks: Looks) -> tuple[float, float]:
    """Seconds of processor time for a heartbeat and for another message.

    By least squares: in each second there are as many heartbeats, and so many other messages.  When the run began is
    not known to the looks; it is where this fits best.
    """
    at_s, used_s = np.array(looks).T
    best = (np.inf, 0.0, 0.0)
    for begin_s in np.arange(0, _BEGIN_REAL_S, _LOOK_REAL_S):
        seconds = at_s[0] + begin_s + np.arange(len(load.messages) + 1)
        used = np.diff(np.interp(seconds, at_s, used_s))
        handled = np.stack([np.full(len(used), load.heartbeats_real_s), load.messages], axis=1)
        (heartbeat_s, message_s), residuals, _, _ = np.linalg.lstsq(handled, used)
        best = min(best, (float(residuals[0]), heartbeat_s, message_s))
    return best[1:]


def _times_more(text: str) -> str:
    """An experiment of so many times the nodes and the jobs, simulated."""
    experiment = yaml.safe_load(text)
    experiment["engine"], experiment["cluster"]["nodes"] = "sim", TIMES_MORE * experiment["cluster"]["nodes"]
    jobs = experiment["workload"]["jobs"]
    experiment["workload"]["jobs"] = [job | {"name": f"{job['name']}-{n}"} for job in jobs for n in range(TIMES_MORE)]
    return yaml.safe_dump(experiment)


def _run(cluster: Cluster, file: Path, options: str, bound_s: float) -> tuple[RunResults, Looks]:
    """A run whose output is right, and looks at its ResourceManager."""
    cluster.network.hosts[HEAD].write(f"/srv/{file.name}", file.read_text())
    with _resource_manager(cluster) as looks:
        command = f"cd /srv && RAY_ADDRESS=auto natjam run {file.name} {options} --out {file.stem}"
        print(cluster.on_head(command, bound_s=bound_s))
    run = RunResults(cluster.network.shared / file.stem)
    assert run.summary["output"]["verified"] is True
    assert {job["state"] for job in run.summary["jobs"]} == {"succeeded"}
    print(f"{file.stem}: {run.summary['real_s']:.0f} s, {_share(looks):.1%} of a core for the ResourceManager")
    print(f"lag: {run.summary['lag']}")
    return run, looks


def _share(looks: Looks) -> float:
    """Of a core, without its start."""
    (from_real_s, from_cpu_s), (to_real_s, to_cpu_s) = looks[round(_START_REAL_S / _LOOK_REAL_S)], looks[-1]
    return (to_cpu_s - from_cpu_s) / (to_real_s - from_real_s)


@contextmanager
def _resource_manager(cluster: Cluster) -> Iterator[Looks]:
    """Looks at it."""
    found: Looks = []
    over = threading.Event()

    def look() -> None:
        process: psutil.Process | None = None
        while not over.wait(_LOOK_REAL_S):
            with suppress(psutil.NoSuchProcess):
                if process is None:
                    processes = cluster.network.hosts[HEAD].processes()
                    pids = [pid for pid, line in processes.items() if line.startswith("ray::ResourceManagerActor")]
                    process = psutil.Process(pids[0]) if pids else None
                if process is not None:
                    times = process.cpu_times()
                    found.append((time.monotonic(), times.user + times.system))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def _draw(figures: Path) -> None:
    """Latency against the number of hosts, of all runs there are."""
    runs = sorted(
        (json.loads(file.read_text()) for file in figures.glob("schedule-*.json")), key=lambda run: run["hosts"]
    )
    hosts = [run["hosts"] for run in runs]
    _, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, label in (("p50", "median"), ("p95", "95th percentile"), ("p99", "99th percentile")):
        axes.plot(hosts, [run["schedule_s"][name] for run in runs], "o-", label=label)
    axes.set(xlabel="hosts", ylabel="scheduling latency (emulated s)", xticks=hosts, ylim=(0, None))
    axes.legend()
    plt.savefig(figures / "scheduling-on-hosts.png", dpi=130)
    plt.close()
