"""A run of which a process stood still is disturbed, whichever process it was."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from emulator.live.beat import PERIOD_REAL_NS
from tests.live_runs import NatjamRun, RayCluster, until

STILL_REAL_S = 0.5
"""Ten heartbeats of emulated time; the starter may be away for 0.3 s without harm."""


def stand_still(pid: int) -> None:
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        goes_on_s = time.monotonic() + STILL_REAL_S
        until(lambda: time.monotonic() > goes_on_s, "time that passes")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_run_of_which_a_process_stood_still_is_disturbed(ray_cluster: RayCluster, tmp_path: Path) -> None:
    options = ("--strict", "--set", "workload.jobs.0.reduce_s=[160]")
    with NatjamRun(tmp_path, *options, cluster=ray_cluster) as run:
        run.walking("research")
        stopped = {name: run.host(name) for name in ("rm", "nodes-1", "applications-1")}
        stopped |= {"supervisor of nodes-2": run.supervisor("nodes-2"), "starter": run.process.pid}
        stopped["shuffle service of nodes-1"] = run.shuffle_service("nodes-1")
        for pid in stopped.values():
            stand_still(pid)
        run.check_failed("disturbed: the process ", " stood still for ")
        summary = run.summary
    lag, stood_still_s = summary["lag"], {gap["process"]: gap["emulated_s"] for gap in summary["lag"]["gaps"]}
    shortest_s = min(job["completion_s"] for job in summary["jobs"])
    assert summary["disturbed"] is True
    assert lag["gap_bound_emulated_s"] == max(1, 0.01 * shortest_s)
    for process in stopped:
        away_s = STILL_REAL_S - (0.3 if process == "starter" else PERIOD_REAL_NS / 1e9)
        assert stood_still_s[process] >= 20 * away_s > lag["gap_bound_emulated_s"], process
