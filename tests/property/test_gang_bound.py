"""How long a gang waits for the room that is taken back for it: the kill timeout, the longest grace and two heartbeats
(docs/experiments.md), from when its job's request is known; here that takes two heartbeats more."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from emulator.core.messages import Outcome
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.records.history.rows import AttemptRow
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

HEARTBEAT_S, KILL_TIMEOUT_S = 1.0, 12.0


def waited_s(folder: Path, random: Random, grace_s: float, **of_fill: Any) -> tuple[float, list[AttemptRow]]:
    """How long after its submission a gang has started in a cluster that is full; the tasks that filled it."""
    nodes, members, each = random.randint(1, 3), random.randint(2, 4), random.choice((1, 2, 3))
    queues = {"production": {"capacity": 0.3}, "research": {"capacity": 0.7, "grace_s": grace_s}}
    fill = {"reduces": nodes * 12, "reduce_s": 300, "resources": {"cpu": 1, "memory_gb": 1}, **of_fill}
    gang = {"reduces": members, "reduce_s": 5, "resources": {"cpu": each, "memory_gb": 1}, "gang": True}
    submit_s = round(random.uniform(15, 40), 2)
    experiment = {
        "name": "bound",
        "engine": "sim",
        "seed": random.randint(1, 10**6),
        "overheads": "none",
        "heartbeat_s": HEARTBEAT_S,
        "protocol": {"kill_timeout_s": KILL_TIMEOUT_S},
        "cluster": {
            "application_masters": "outside",
            "node_groups": [{"count": nodes, "resources": {"cpu": 12, "memory_gb": 16}}],
        },
        "scheduler": {"allocation": {"name": "two-queue", "queues": queues}, "mechanism": "checkpoint"},
        "workload": {
            "jobs": [
                {"name": "fill", "queue": "research", **fill},
                {"name": "gang", "queue": "production", "submit_s": submit_s, **gang},
            ]
        },
    }
    file = folder / "bound.yaml"
    file.write_text(dump_yaml(experiment))
    rows = [row for row in simulated_history(resolve(load_experiment(file))).attempts if row.kind != "am"]
    (began_ns,) = {row.launched_ns for row in rows if row.job == "gang"}
    assert began_ns is not None
    return began_ns / 1e9 - submit_s, [row for row in rows if row.job == "fill"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("key_s", "grace_s"), [(1.0, 0.0), (300.0, 0.0), (300.0, 20.0)])
def test_a_gang_has_its_room_within_the_bound(tmp_path: Path, seed: int, key_s: float, grace_s: float) -> None:
    """Where a key takes 300 s, no victim answers in time, and each is killed."""
    late_s, fill = waited_s(tmp_path, Random(seed), grace_s, key_s=key_s)
    answers_s = key_s if key_s < KILL_TIMEOUT_S else KILL_TIMEOUT_S
    assert late_s <= answers_s + grace_s + 4 * HEARTBEAT_S
    assert any(row.outcome is (Outcome.KILLED if key_s > 1 else Outcome.CHECKPOINTED) for row in fill)
