"""Fixed seeds of ``natjam chaos`` over small clusters that are full; ``make chaos`` draws new ones.

What seeds drawn elsewhere have found is here too, each as its faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.chaos.runner import judge, undisturbed_ns
from emulator.chaos.schedule import Fault, FaultKind, draw_faults
from emulator.core.messages import JobState
from emulator.experiment.load import load_experiment
from tests.examples import CHAOS_SEEDS, CHAOS_SEEDS_OF_FIG_4
from tests.simulated_runs import FIG4

FULL = """\
name: full
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 3, containers_per_node: 3, max_suspended_per_node: 2}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
workload:
  jobs:
    - {name: research, queue: research, maps: 3, map_s: 4, reduces: 9, reduce_s: [20, 35], key_s: 1}
    - {name: production, queue: production, submit_s: 20, maps: 1, map_s: 2, reduces: 4, reduce_s: [12], key_s: 1}
    - {name: again, queue: production, submit_s: 48, maps: 0, reduces: 3, reduce_s: [6], key_s: 0.5}
"""
VARIANTS = {
    "checkpoint": (),
    "suspend": ("scheduler.mechanism=suspend",),
    "kill": ("scheduler.mechanism=kill",),
    "maps-too": ("scheduler.mechanism=suspend", "scheduler.victims=all"),
    "speculation": ("protocol.speculation={after_s: 5}", "cluster.slow_nodes={node-2: 4}"),
    "image": ("scheduler.mechanism=image", "storage.tier=ssd"),
}


def check(file: Path, overrides: tuple[str, ...], seeds: range) -> None:
    experiment = load_experiment(file, ["engine=sim", *overrides])
    span_ns = undisturbed_ns(experiment)
    found = []
    for seed in seeds:
        judged = judge(experiment, span_ns, seed, draw_faults(seed, span_ns, list(FaultKind)))
        if judged.violation is not None:
            found.append(f"seed {seed}: {judged.violation}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_fixed_seeds_on_a_full_cluster(tmp_path: Path, variant: str) -> None:
    file = tmp_path / "full.yaml"
    file.write_text(FULL)
    check(file, VARIANTS[variant], range(CHAOS_SEEDS))


def test_fixed_seeds_of_fig_4() -> None:
    check(FIG4, (), range(CHAOS_SEEDS_OF_FIG_4))


def test_what_ran_on_a_node_that_died_silently_is_known_to_be_gone_when_the_node_is_missed(tmp_path: Path) -> None:
    """Its job fails before that, because its ApplicationMaster has died too often."""
    file = tmp_path / "full.yaml"
    file.write_text(FULL)
    kinds = (FaultKind.SILENT_DEATH, FaultKind.MASTERS_DEATH, FaultKind.MASTERS_DEATH)
    faults = [Fault(kind, at_s * 10**9, 10**9, 2) for kind, at_s in zip(kinds, (15, 18, 30), strict=True)]
    judged = judge(load_experiment(file), 100 * 10**9, 1, faults)
    assert judged.violation is None
    assert judged.happened == kinds
    assert judged.jobs is not None
    assert judged.jobs[JobState.FAILED]
