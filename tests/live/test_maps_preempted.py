"""Maps as victims under the live engine: stopped by a real SIGTSTP, continued, and the output right to the byte."""

from __future__ import annotations

from pathlib import Path

from emulator.records.replay import replay
from tests.hosts_here import HostsHere

MAPS = """\
name: maps
time_scale: 20
overheads: native
cluster: {nodes: 2, containers_per_node: 4}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
  mechanism: suspend
  victims: all
workload:
  jobs:
    - {name: map-only, queue: research, maps: 3, map_s: 40, reduces: 0}
    - {name: research, queue: research, maps: 3, map_s: 40, reduces: 2, reduce_s: [5]}
    - {name: production, queue: production, submit_s: 12, maps: 4, map_s: 5, reduces: 4, reduce_s: [5]}
"""


def test_maps_are_stopped_and_go_on(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=MAPS) as run:
        run.check_verified()
        tasks = run.table("tasks")
        assert replay(run.records(), run.machine) is None
    stopped = [row for row in tasks if row["suspensions"]]
    assert {(row["job"], row["kind"]) for row in stopped} >= {("map-only", "map"), ("research", "map")}
    assert all(row["attempts"] == 1 for row in stopped), "they went on: nothing was done twice"
