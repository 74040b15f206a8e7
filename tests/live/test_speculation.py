"""A slow node under the live engine: second attempts win, the output is right to the byte, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.records.replay import replay
from tests.hosts_here import HostsHere
from tests.run_results import job_of

STRAGGLERS = """\
name: stragglers
time_scale: 20
overheads: native
cluster: {nodes: 3, containers_per_node: 3, slow_nodes: {node-1: 5}}
protocol: {speculation: {after_s: 10, at_most: 1}}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
workload:
  jobs:
    - {name: research, queue: research, maps: 2, map_s: 1, reduces: 8, reduce_s: [40]}
    - {name: production, queue: production, submit_s: 50, maps: 2, map_s: 1, reduces: 3, reduce_s: [10]}
"""


@pytest.mark.parametrize(
    "mechanism",
    ["checkpoint", pytest.param("suspend", marks=pytest.mark.slow), pytest.param("kill", marks=pytest.mark.slow)],
)
def test_second_attempts_win(tmp_path: Path, mechanism: str) -> None:
    with HostsHere(tmp_path, f"scheduler.mechanism={mechanism}", experiment=STRAGGLERS) as run:
        summary = run.check_verified()
        attempts = [row for row in run.table("attempts") if row["kind"] == "reduce" and row["job"] == "research"]
        assert replay(run.records(), run.machine) is None
    assert job_of(summary, "research")["completion_s"] < 200, "what is left on the slow node would take that long"
    beaten = [row for row in attempts if row["reason"] == "another attempt at the task is ahead"]
    beaten = [row for row in beaten if row["node"] == "node-1"]  # on a busy machine others may be late too
    assert beaten
    won = {row["task"]: row["node"] for row in attempts if row["outcome"] == "succeeded"}
    assert len(won) == 8
    assert all(won[row["task"]] != "node-1" for row in beaten)
