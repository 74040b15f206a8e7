"""Live runs whose victims are saved as process images, by both dumpers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.hosts_here import HostsHere
from tests.live_runs import SMALL
from tests.programs import criu_or_skip
from tests.run_results import job_of

IMAGES = SMALL.replace("reduce_s: [30]", "reduce_s: [90]").replace("submit_s: 12", "submit_s: 20")


def experiment(mechanism: str) -> str:
    storage = "storage: {tier: {write_mb_s: 50, read_mb_s: 100}}\nprotocol: {kill_timeout_s: 200}\nscheduler:"
    return IMAGES.replace("mechanism: suspend", f"mechanism: {mechanism}").replace("scheduler:", storage)


@pytest.mark.parametrize("dumper", ["pages", "criu"])
def test_victims_are_saved_and_made_again_with_the_output_of_an_undisturbed_run(tmp_path: Path, dumper: str) -> None:
    if dumper == "criu":
        criu_or_skip()
    settings = () if dumper == "criu" else (f"storage.url={tmp_path / 'shared'}",)
    with HostsHere(tmp_path, *settings, experiment=experiment(f"{{name: image, dumper: {dumper}}}")) as run:
        summary = run.check_verified()
        attempts = run.table("attempts")
        left = [path for path in tmp_path.rglob("*") if "image" in path.name]
    research = job_of(summary, "research")
    assert research["suspensions"] >= 3
    assert research["kills"] == 0
    assert research["lost_work_s"] == 0
    assert {row["outcome"] for row in attempts} == {"succeeded", "checkpointed"}
    assert summary["checkpoint_bytes"] > 3e6 * research["suspensions"]
    assert left == []


def test_a_task_that_dies_and_a_supervisor_that_dies_go_on_from_the_last_images(tmp_path: Path) -> None:
    criu_or_skip()
    with HostsHere(tmp_path, experiment=experiment("image")) as run:
        run.until(lambda: run.committed("production") == 3, "production's end")
        before = run.supervisor()
        os.kill(before, signal.SIGKILL)
        run.until(lambda: run.supervisor() != before, "a new supervisor")
        summary = run.check_verified()
        attempts = run.table("attempts")
    assert job_of(summary, "research")["suspensions"] > 0
    assert "crashed" in {row["outcome"] for row in attempts}
