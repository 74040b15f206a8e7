"""Kueue's rules through the whole machines: what only the machines can do."""

from __future__ import annotations

from pathlib import Path

from test_kueue import SECOND_NS, queue, workload

from emulator.core.messages import JobState
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kueue.model import Cluster, Policy, Preemption
from emulator.policies.kueue.player import Arrival
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from workloads.kueue.saved import write_saved
from workloads.kueue.state import Kueue


def test_the_quota_of_a_workload_that_ends_within_its_grace_is_free(tmp_path: Path) -> None:
    of = Cluster((queue("q", 4000, Preemption(within_queue=Policy.LOWER_PRIORITY)),))
    arrivals = [
        Arrival(workload("low", "q", 4000, 0, 0), 100 * SECOND_NS),
        Arrival(workload("high", "q", 4000, 10, 80), 10 * SECOND_NS),
        Arrival(workload("last", "q", 4000, 0, 90), 10 * SECOND_NS),
    ]
    write_saved(tmp_path / "site.yaml", Kueue(of, arrivals=tuple(arrivals)), ())
    allocation = {"release_s": 5.0, "queues": {"q": {"grace_s": 30.0}}}
    mine = {"name": "mine", "site": "site.yaml", "scheduler": {"allocation": allocation}}
    (tmp_path / "mine.yaml").write_text(dump_yaml(mine))
    history = simulated_history(resolve(load_experiment(tmp_path / "mine.yaml")))
    assert {job.name: job.state for job in history.jobs} == dict.fromkeys(("low", "high", "last"), JobState.SUCCEEDED)
    starts_ns = {row.job: row.first_key_ns or 0 for row in history.attempts if row.kind != "am"}
    assert 100 * SECOND_NS <= starts_ns["high"] < starts_ns["last"]
