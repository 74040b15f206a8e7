"""Experiment files that tests share or change, and the messages about a changed file."""

from __future__ import annotations

from pathlib import Path

from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from tests.experiment_texts import TURNS, TURNS_OF_ONE, VALID
from tests.refusals import refused

__all__ = ["TURNS", "TURNS_OF_ONE", "VALID", "complaints", "refusal", "write"]


def write(folder: Path, text: str | bytes, name: str = "experiment.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path, *overrides: str) -> str:
    return refused(load_experiment, path, list(overrides))


def complaints(path: Path, *overrides: str) -> list[str]:
    """Lines of the ConfigError, or none if the file is accepted; any other exception is a failure."""
    try:
        experiment = load_experiment(path, list(overrides))
    except ConfigError as error:
        return error.message.splitlines()
    assert isinstance(experiment, Experiment)
    return []
