"""Both engines on one small workload, small enough for any machine: the calibration is made up, so that only what the
machines decide and the published overheads are compared, not what this machine costs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from emulator.costs.calibration import dump_calibration
from tests.calibrations import make_calibration
from tests.live_runs import natjam, short_directory

_WORKLOAD = """\
name: compared
time_scale: 10
overheads: hadoop-0.23
cluster: {nodes: 2, containers_per_node: 3}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
  mechanism: checkpoint
workload:
  jobs:
    - {name: research, queue: research, maps: 1, map_s: 2, reduces: 5, reduce_s: [40, 36, 34, 32, 30]}
    - {name: production, queue: production, submit_s: 22, maps: 1, map_s: 2, reduces: 2, reduce_s: 12}
"""
_BOUND_S = 5.0
"""Emulated: half a real second, which a busy machine may take longer for what the calibration has it do at once.  Left
out of the simulation, the overheads of scheduling alone would come to more."""


def test_a_simulation_predicts_a_live_run(tmp_path: Path) -> None:
    file = tmp_path / "compared.yaml"
    file.write_text(_WORKLOAD)
    calibration = tmp_path / "calibration.yaml"
    calibration.write_text(dump_calibration(make_calibration(1_000_000, 4_000_000)))
    with short_directory() as temporary:
        options = ("--repeats", "1", "--set", f"calibration={calibration}", "--out", tmp_path / "out")
        ended = natjam("fidelity", file, *options, TMPDIR=temporary)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert os.listdir(temporary) == []
    (found,) = json.loads((tmp_path / "out/fidelity.json").read_text())["files"]
    figures = {(metric["job"], metric["name"]): metric for metric in found["metrics"]}
    assert figures["research", "suspensions"]["live"] == figures["research", "suspensions"]["sim"][0][:1]
    assert figures["research", "suspensions"]["live"][0] > 0
    for job in ("research", "production"):
        assert abs(figures[job, "completion_s"]["difference"]) <= _BOUND_S, figures
