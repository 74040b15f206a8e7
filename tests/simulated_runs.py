"""Run directories of simulations of natjam's Fig. 4, for tests of what is made from them."""

from __future__ import annotations

from pathlib import Path

from analysis.whole_run import run_experiment
from emulator.experiment.load import load_experiment

CATALOGUE = Path(__file__).resolve().parents[1] / "workloads/catalog"
FIG4 = CATALOGUE / "natjam-fig4.yaml"


def simulate(directory: Path, name: str, *overrides: str, file: Path = FIG4) -> Path:
    """Simulate with the published overheads into ``directory / name``; returns that run directory."""
    experiment = load_experiment(file, ["engine=sim", "overheads=hadoop-0.23", *overrides])
    run_experiment(experiment, directory / name, lambda status: None)
    return directory / name
