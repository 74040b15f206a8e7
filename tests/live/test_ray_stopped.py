"""Ray's own processes stop for good: results come first, and a run ends in bounded time with nothing left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.live_runs import NatjamRun, command_line, gone


@pytest.mark.slow
@pytest.mark.parametrize("program", ["gcs_server", "raylet"])
def test_a_run_writes_its_results_and_ends_though_ray_is_stopped(tmp_path: Path, program: str) -> None:
    with NatjamRun(tmp_path) as run:
        run.walking("research")
        (stopped,) = [pid for pid in run.processes() if command_line(pid).split(" ")[0].endswith(f"/{program}")]
        os.kill(stopped, signal.SIGSTOP)
        run.until(lambda: (run.out / "summary.json").exists(), "results")
        assert not gone([stopped]), "results come before Ray is taken down"
        run.check_verified()
        assert "Traceback" not in run.log
