"""Some two hundred dumps and restores of twenty processes over two node hosts, half of them restored on the other one:
none is lost, none is there twice, nothing of them is left."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.live_runs import TWO_QUEUES, NatjamRun, RayCluster, until
from tests.programs import criu_or_skip
from tests.run_results import job_of

PROCESSES, BURSTS, CYCLES = 20, 12, 150
EXPERIMENT = (
    TWO_QUEUES
    + f"""\
  placement: crosswise:crosswise
name: cycles
cluster: {{nodes: 2, containers_per_node: {PROCESSES // 2}, application_masters: outside}}
storage: {{tier: native}}
protocol: {{kill_timeout_s: 3600}}
workload:
  jobs:
    - {{name: low, queue: research, reduces: {PROCESSES}, reduce_s: [600], key_s: 1}}
"""
    + "".join(
        f"    - {{name: high-{number}, queue: production, reduces: {PROCESSES}, reduce_s: [300], key_s: 30,"
        f" submit_when: {{job: low, progress: {number / (BURSTS + 1):.3f}}}}}\n"
        for number in range(1, BURSTS + 1)
    )
).replace("mechanism: checkpoint", "mechanism: {name: image, dumper: criu}")
CROSSWISE = """\
from emulator.policies.views import PlacementDecision

def crosswise(view, suspended, node):
    is_here, stays = suspended.node == node.name, suspended.task % 2 == 0
    return PlacementDecision(True, rank=int(is_here != stays))
"""
"""Every other task would rather go on elsewhere."""
# A burst lasts longer than ten dumps of a node one after the other.  Otherwise its tasks would take containers of each
# other, and the rest of the low ones would not be dumped.


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_cycles_over_two_node_hosts_lose_and_leave_nothing(ray_cluster: RayCluster, tmp_path: Path) -> None:
    criu_or_skip()
    (tmp_path / "crosswise.py").write_text(CROSSWISE)
    options = ("--set", f"storage.url={tmp_path / 'shared'}")
    with NatjamRun(tmp_path, *options, experiment=EXPERIMENT, cluster=ray_cluster) as run:
        last = tmp_path / "shared" / "out" / f"high-{BURSTS}"
        until(lambda: len(list(last.glob("part-*"))) == PROCESSES, "all cycles", 900)
        supervisors = [psutil.Process(run.supervisor(name)) for name in ("nodes-1", "nodes-2")]
        until(lambda: not any(map(zombies, supervisors)), "no zombies")
        run.process.wait(120)
        summary = run.check_verified()
        attempts = {row["attempt"]: row for row in run.table("attempts") if row["job"] == "low"}
        left = [path for path in tmp_path.rglob("*") if "image" in path.name]
    low = job_of(summary, "low")
    assert low["suspensions"] >= CYCLES
    assert {row["lost_s"] for row in attempts.values() if row["outcome"] == "checkpointed"} == {0}
    # On a busy machine the next burst may come while some are being restored: they are killed, for they are all saved.
    resumed = [row for row in attempts.values() if row["resumed_from"]]
    moved = [row for row in resumed if row["node"] != attempts[row["resumed_from"]]["node"]]
    assert len(resumed) == low["suspensions"] + low["kills"]
    assert len(moved) > len(resumed) / 3
    ended = [row["task"] for row in attempts.values() if (row["kind"], row["outcome"]) == ("reduce", "succeeded")]
    assert sorted(ended) == list(range(PROCESSES)), "each once"
    assert left == []
    print(f"{len(resumed)} dumps and restores, {len(moved)} on the other host, {summary['real_s']:.0f} s")


def zombies(supervisor: psutil.Process) -> list[psutil.Process]:
    return [child for child in supervisor.children(recursive=True) if child.status() == psutil.STATUS_ZOMBIE]
