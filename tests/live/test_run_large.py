"""Two hundred and fifty nodes with two thousand containers as processes of this machine.  It should be quiet."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.live_runs import REPOSITORY, NatjamRun

EXPERIMENT = REPOSITORY / "workloads/catalog/natjam-2000.yaml"
TIME_SCALE = 5
SAMPLE_PERIOD_REAL_S = 0.5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_thousand_containers_on_one_machine(tmp_path: Path) -> None:
    crowded_real_s: list[float] = []
    memory_bytes = 0
    with NatjamRun(tmp_path, experiment=EXPERIMENT.read_text()) as run:
        children = Path(f"/proc/{run.supervisor()}/task/{run.supervisor()}/children")
        while True:
            try:
                assert run.process.wait(SAMPLE_PERIOD_REAL_S) == 0, run.log
                break
            except subprocess.TimeoutExpired:
                pass
            if _count(children) > 1500:
                crowded_real_s.append(time.monotonic())
                if len(crowded_real_s) == 60:  # it costs a second or two, so once
                    memory_bytes = sum(_proportional_bytes(pid) for pid in run.processes())
    summary = run.summary
    assert {job["state"] for job in summary["jobs"]} == {"succeeded"}
    assert sum(job["suspensions"] for job in summary["jobs"]) > 0
    assert summary["output"]["verified"]
    assert (crowded_real_s[-1] - crowded_real_s[0]) * TIME_SCALE >= 600
    assert summary["lag"]["p99_emulated_s"] < 0.5
    assert 1 << 30 < memory_bytes < 12 << 30


def _count(children: Path) -> int:
    """Processes in a list of /proc; none once its process has ended."""
    try:
        return len(children.read_text().split())
    except OSError:
        return 0


def _proportional_bytes(pid: int) -> int:
    """Memory of a process, what it shares counted in parts; 0 when it has ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).memory_full_info().pss
    return 0
