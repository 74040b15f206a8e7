"""What a summary says of deadlines: who counts, how many were missed, by how much, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.experiment.load import load_experiment
from emulator.run import run_briefly
from tests.commands import run_natjam
from tests.experiment_files import write
from tests.unit.test_fluid import EXPERIMENT

CATALOG = Path(__file__).resolve().parents[2] / "workloads/catalog"


def test_deadlines_missed_by_how_much_and_when(tmp_path: Path) -> None:
    """Under FAIR, short ends at 10 s and long at 12.5."""
    text = EXPERIMENT.replace("map_s: 10}", "map_s: 10, deadline_s: 10}").replace(
        "map_s: 5}", "map_s: 5, deadline_s: 3601}"
    )
    out = tmp_path / "out"
    run_natjam("run", write(tmp_path, text), "--out", out)
    assert json.loads((out / "summary.json").read_text())["deadlines"] == {
        "jobs": 2,
        "missed": 1,
        "missed_pct": 50.0,
        "beyond_s": 2.5,
        "room_s": 3591.0,
        "by_hour": [{"hour": 0, "deadlines": 1, "missed": 1}, {"hour": 1, "deadlines": 1, "missed": 0}],
    }
    assert "<svg" in (out / "holders.svg").read_text()


def test_a_week_counts_the_days_in_the_middle_and_leaves_its_jobs_out(tmp_path: Path) -> None:
    def run(counted_s: str) -> dict[str, Any]:
        options = ["workload.poisson.load=0.2", f"workload.poisson.counted_s={counted_s}"]
        experiment = load_experiment(CATALOG / "reverse-adaptive-week.yaml", options)
        return run_briefly(experiment, tmp_path / str(len(counted_s)), lambda status: None)

    week, days = run("null"), run("[86400, 518400]")
    assert week["jobs"] == days["jobs"] == []
    assert "shares" not in week
    assert week["deadlines"]["jobs"] > 200
    assert days["deadlines"]["jobs"] == pytest.approx(week["deadlines"]["jobs"] * 5 / 7, rel=0.2)
    hours = [entry["hour"] for entry in days["deadlines"]["by_hour"]]
    assert hours == sorted(hours)
    assert hours[0] >= 24
    assert hours[-1] <= 144 + 24
