"""Figures: axis labels carry units, curves can be told apart in grey, and the example in the documentation runs."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb

from analysis import statistics
from analysis.figures import runs as figures
from analysis.figures import style
from analysis.frames import pandas
from analysis.load import load
from tests.simulated_runs import simulate

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    simulate(directory, "kept")
    simulate(directory, "killed", "scheduler.mechanism=kill")
    return directory


def test_axes_are_labelled_with_units_and_text_is_legible(runs: Path) -> None:
    jobs = load(runs / "kept", runs / "killed").jobs
    pairs = statistics.pair_jobs(jobs[jobs["run"] == "kept"], jobs[jobs["run"] == "killed"])
    figure = figures.differences(pairs, "kept", "killed")
    figure.draw_without_rendering()
    for panel in figure.axes:
        for label in (panel.get_xlabel(), panel.get_ylabel()):
            assert label == "job" or ", s" in label, label
        texts = [panel.xaxis.label, panel.yaxis.label, *panel.get_xticklabels(), *panel.get_yticklabels()]
        assert all(float(text.get_fontsize()) >= 7 for text in texts)
        lines = [line for line in panel.get_lines() if not line.get_label().startswith("_")]  # type: ignore[union-attr]
        looks = {
            (line.get_color(), str(line.get_linestyle()), str(line._dash_pattern), line.get_marker())  # type: ignore[attr-defined]
            for line in lines
        }
        assert len(looks) == len(lines)


@pytest.mark.parametrize(("jobs", "label"), [(figures.MAX_DOTS, "job"), (figures.MAX_DOTS + 1, "share of jobs")])
def test_few_jobs_are_dots_and_no_axis_is_bent(jobs: int, label: str) -> None:
    pairs = pandas.DataFrame(
        {"job": [f"j{n}" for n in range(jobs)], "queue": ["a", "b", "a"] * (jobs // 3) + ["a"] * (jobs % 3)}
    )
    pairs["difference"] = [(-10.0) ** (n % 4) for n in range(jobs)]
    (panel,) = figures.differences(pairs, "x", "y").axes
    assert (panel.get_xscale(), panel.get_ylabel()) == ("linear", label)
    if label == "job":
        drawn = sorted(float(x) for line in panel.get_lines()[:2] for x in line.get_xdata())  # type: ignore[union-attr]
        assert drawn == sorted(pairs["difference"])


def test_neighbouring_curves_differ_in_dashes_and_in_grey_or_in_colour() -> None:
    assert len({str(line["linestyle"]) for line in style.LINES}) == len(style.LINES)
    assert len({line["color"] for line in style.LINES}) == len(style.LINES)
    for first, second in combinations([to_rgb(line["color"]) for line in style.LINES[:4]], 2):
        greys = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (first, second)]
        assert abs(greys[0] - greys[1]) > 0.03


def test_the_example_runs(runs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "docs/look_at_runs.py", str(runs / "kept"), str(runs / "killed"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "kept minus killed: mean -" in done.stdout
    names = {"differences.png", "differences.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all((tmp_path / name).stat().st_size > 5000 for name in names)
