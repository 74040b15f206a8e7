"""The pods of an imported cluster as real processes: evicted by a signal, within their grace."""

from __future__ import annotations

from pathlib import Path

from emulator.files.yaml_values import dump_yaml
from emulator.sites.kubernetes import Arrival, Kubernetes, Node, Pod, PriorityClass, State
from tests.hosts_here import HostsHere
from tests.run_results import job_of
from workloads.saved import write_saved

S = 10**9
HALF = {"cpu": 1000, "memory": 1 << 30}
CLUSTER = Kubernetes(
    State((Node("worker-a", {"cpu": 2000, "memory": 4 << 30}), Node("worker-b", {"cpu": 1000, "memory": 4 << 30}))),
    (PriorityClass("urgent", 10), PriorityClass("batch", 0)),
    arrivals=(
        *(Arrival(Pod(f"batch-{number}", requests=HALF), number * S, 60 * S, 3 * S) for number in range(3)),
        Arrival(Pod("urgent", 10, requests=HALF), 30 * S, 20 * S),
    ),
)
OPTIONS = {
    "engine": "live",
    "time_scale": 10,
    "overheads": "native",
    "scheduler": {"allocation": {"queues": {"batch": {"grace_s": 3}}}},
}


def test_the_pod_that_started_last_goes_by_sigterm_for_the_urgent_one(tmp_path: Path) -> None:
    write_saved(tmp_path / "mine.yaml", CLUSTER, ())
    experiment = dump_yaml({"name": "pods", "site": str(tmp_path / "mine.yaml"), **OPTIONS})
    with HostsHere(tmp_path, experiment=experiment) as run:
        assert run.wait() == 0, run.log
        summary, attempts = run.summary, [row for row in run.table("attempts") if row["kind"] == "pod"]
    assert summary["output"]["verified"]
    evicted = [row for row in attempts if row["outcome"] == "killed"]
    assert [row["job"] for row in evicted] == ["batch-2"]
    (urgent,) = (row for row in attempts if row["job"] == "urgent")
    assert urgent["node"] == evicted[0]["node"]
    assert evicted[0]["node"] in ("worker-a", "worker-b")
    assert 30 <= evicted[0]["ended_s"] <= urgent["launched_s"]
    assert job_of(summary, "batch-2")["kills"] == 1
