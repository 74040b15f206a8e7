"""Experiment files that tests share or change, and the messages about a changed file."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment

VALID = """\
name: fig4
time_scale: 20
seed: 1
overheads: hadoop-0.23
cluster: {nodes: 6, containers_per_node: 8, container_memory_gb: 1, memory_gb: 16}
scheduler:
  allocation:
    name: two-queue
    queues:
      production: {capacity: 0.25, maximum: 1.0}
      research: {capacity: 0.75, maximum: 1.0}
  job_eviction: mr
  task_eviction: srt
  mechanism: checkpoint
  placement: {name: prefer-local, delay_s: 0}
workload:
  jobs:
    - {name: research-XL, queue: research, submit_s: 0, maps: 4, map_s: 1.0, reduces: 47,
       reduce_s: {uniform: [0.5, 1.0], longest: 182.7}, key_s: 1.0}
    - {name: production-S, queue: production, submit_s: 50, maps: 4, map_s: 1.0, reduces: 11,
       reduce_s: [60.8, 30]}
"""


TURNS = """\
name: turns
engine: sim
overheads: yarn-3
cluster: {nodes: 1, containers_per_node: 4}
scheduler:
  allocation: {name: single-queue, queues: {all: {capacity: 1.0}}}
  job_eviction: mlf
  mechanism: kill
workload:
  jobs:
    - {name: one, queue: all, maps: 2, map_s: 1, reduces: 4, reduce_s: [100], key_s: 1, deadline_s: 300}
    - {name: two, queue: all, submit_s: 5, maps: 2, map_s: 1, reduces: 4, reduce_s: [100], key_s: 1, deadline_s: 300}
"""
"""Under MLF jobs take turns (natjam, section 4); here each turn kills the other's reduces."""
TURNS_OF_ONE = TURNS.replace("containers_per_node: 4", "containers_per_node: 3").replace("reduces: 4", "reduces: 1")
"""The same with one reduce each, for one container: the end comes after a quarter of the kills."""


def write(folder: Path, text: str | bytes, name: str = "experiment.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path, *overrides: str) -> str:
    """The message of the ConfigError, which must be the only exception."""
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, list(overrides))
    assert caught.value.exit_code == 2
    return caught.value.message


def complaints(path: Path, *overrides: str) -> list[str]:
    """Lines of the ConfigError, or none if the file is accepted; any other exception is a failure."""
    try:
        experiment = load_experiment(path, list(overrides))
    except ConfigError as error:
        return error.message.splitlines()
    assert isinstance(experiment, Experiment)
    return []
