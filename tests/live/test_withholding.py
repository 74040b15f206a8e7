"""A transactional workload under the live engine: real reduces give way to it and go on when it needs less."""

from __future__ import annotations

from pathlib import Path

from emulator.records.replay import replay
from tests.hosts_here import HostsHere

DAY = """\
name: day
time_scale: 20
overheads: native
cluster:
  nodes: 2
  containers_per_node: 3
  application_masters: outside
  availability: {steps: [[0, 6], [15, 2], [45, 6]], grace_s: 60}
scheduler: {allocation: {name: reverse-adaptive}, mechanism: suspend}
workload:
  jobs:
    - {name: first, queue: default, reduces: 3, reduce_s: [40], key_s: 1, deadline_s: 120}
    - {name: second, queue: default, reduces: 3, reduce_s: [40], key_s: 1, deadline_s: 180}
"""


def test_reduces_give_way_and_go_on(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=DAY) as run:
        run.check_verified()
        summary, tasks = run.summary, run.table("tasks")
        assert replay(run.records(), run.machine) is None
    assert sum(row["suspensions"] for row in tasks) >= 4
    assert all(row["attempts"] == 1 for row in tasks), "they went on: nothing was done twice"
    assert summary["transactional"]["withheld_container_s"] == 4 * 30
    assert summary["transactional"]["shortfall_container_s"] == 0
