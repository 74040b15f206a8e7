"""Kueue's rules through the whole machines: what only the machines can do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_kueue import SECOND_NS, queue, workload

from emulator.core.messages import JobState
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kueue.scheduler import MAX_WITHOUT_PROGRESS
from emulator.records.history import History
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kueue import Arrival, BorrowWithinCohort, Cluster, Kueue, Policy, Preemption
from workloads.saved import write_saved


def run(folder: Path, of: Cluster, arrivals: list[Arrival], scheduler: Mapping[str, Any]) -> History:
    """What becomes of the arrivals in the machines."""
    write_saved(folder / "site.yaml", Kueue(of, arrivals=tuple(arrivals)), ())
    (folder / "mine.yaml").write_text(dump_yaml({"name": "mine", "site": "site.yaml", "scheduler": dict(scheduler)}))
    return simulated_history(resolve(load_experiment(folder / "mine.yaml")))


def starts_s(history: History) -> dict[str, list[float]]:
    """When each job's tasks started, in order."""
    found: dict[str, list[float]] = {}
    for row in history.attempts:
        if row.kind != "am" and row.first_key_ns is not None:
            found.setdefault(row.job, []).append(row.first_key_ns / SECOND_NS)
    return {job: sorted(times) for job, times in found.items()}


def test_the_quota_of_a_workload_that_ends_within_its_grace_is_free(tmp_path: Path) -> None:
    of = Cluster((queue("q", 4000, Preemption(within_queue=Policy.LOWER_PRIORITY)),))
    arrivals = [
        Arrival(workload("low", "q", 4000, 0, 0), 100 * SECOND_NS),
        Arrival(workload("high", "q", 4000, 10, 80), 10 * SECOND_NS),
        Arrival(workload("last", "q", 4000, 0, 90), 10 * SECOND_NS),
    ]
    allocation = {"release_s": 5.0, "queues": {"q": {"grace_s": 30.0}}}
    history = run(tmp_path, of, arrivals, {"allocation": allocation})
    assert {job.name: job.state for job in history.jobs} == dict.fromkeys(("low", "high", "last"), JobState.SUCCEEDED)
    starts = starts_s(history)
    assert 100 <= starts["high"][0] < starts["last"][0]


@pytest.mark.parametrize(("minimum_s", "high_s"), [(0, 20), (60, 60), (200, 100)])
def test_nobody_is_preempted_before_the_minimum_runtime(minimum_s: int, high_s: int, tmp_path: Path) -> None:
    of = Cluster((queue("q", 4000, Preemption(within_queue=Policy.LOWER_PRIORITY)),))
    arrivals = [
        Arrival(workload("low", "q", 4000, 0, 0), 100 * SECOND_NS),
        Arrival(workload("high", "q", 4000, 10, 20), 10 * SECOND_NS),
    ]
    allocation = {"queues": {"q": {"minimum_runtime_s": minimum_s}}}
    starts = starts_s(run(tmp_path, of, arrivals, {"allocation": allocation}))
    # Where low ends by itself, high was set aside by then, and is woken a second later.
    assert starts["high"][0] == pytest.approx(high_s + (high_s == 100), abs=0.01)
    assert len(starts["low"]) == 1 + (high_s < 100)


RESEARCH = Preemption(
    Policy.LOWER_OR_NEWER_EQUAL_PRIORITY, Policy.ANY, BorrowWithinCohort(Policy.LOWER_PRIORITY, max_priority=0)
)
SERVING = Preemption(
    Policy.LOWER_OR_NEWER_EQUAL_PRIORITY, Policy.LOWER_PRIORITY, BorrowWithinCohort(Policy.LOWER_PRIORITY)
)
"""Of ``docs/kueue-queues.yaml``, in which three workloads go round."""


@pytest.mark.parametrize(
    ("mechanism", "saves_s", "evictions"), [("kill", None, 10), ("suspend", None, 10), ("kill", 300.0, 100)]
)
def test_a_circle_ends_the_run_with_its_workloads_and_queues(
    mechanism: str, saves_s: float | None, evictions: int, tmp_path: Path
) -> None:
    """Also where each killed task could have kept work, so that far more evictions are awaited."""
    of = Cluster((queue("research", 6000, RESEARCH), queue("serving", 2000, SERVING)))
    in_circle = [("w00", "serving", 6000, 1, 1), ("w01", "research", 8000, 0, 2), ("w02", "research", 4000, 0, 3)]
    duration_ns = None if saves_s is None else 10**6 * SECOND_NS
    arrivals = [Arrival(workload(*each), duration_ns) for each in in_circle]
    late = Arrival(workload("late", "serving", 1000, 0, 1_000_000), SECOND_NS)
    terms = {} if saves_s is None else {name: {"checkpoint_period_s": saves_s} for name in ("research", "serving")}
    with pytest.raises(RunError, match=r"evictions go round in a circle: .*natjam loops") as caught:
        run(tmp_path, of, [*arrivals, late], {"mechanism": mechanism, "allocation": {"queues": terms}})
    for name, of_queue, *_ in in_circle:
        assert f"{name} of queue {of_queue} {evictions}" in str(caught.value)
    assert "late" not in str(caught.value)


def test_short_turns_of_work_that_is_kept_are_no_circle(tmp_path: Path) -> None:
    of = Cluster((queue("research", 6000, RESEARCH), queue("serving", 2000, SERVING)))
    in_circle = [("w00", "serving", 6000, 1, 1), ("w01", "research", 8000, 0, 2), ("w02", "research", 4000, 0, 3)]
    arrivals = [Arrival(workload(*each), 150 * SECOND_NS) for each in in_circle]
    with pytest.raises(RunError, match="evictions go round in a circle"):
        run(tmp_path, of, arrivals, {"mechanism": "kill"})
    history = run(tmp_path, of, arrivals, {"mechanism": "suspend"})
    assert {job.state for job in history.jobs} == {JobState.SUCCEEDED}
    assert max(job.suspensions for job in history.jobs) > MAX_WITHOUT_PROGRESS


def test_who_would_not_be_admitted_to_an_empty_cluster_waits_as_in_kueue(tmp_path: Path) -> None:
    of = Cluster((queue("q", 4000),))
    arrivals = [
        Arrival(workload("large", "q", 5000, 10, 0), 10 * SECOND_NS),
        Arrival(workload("small", "q", 4000, 0, 5), 10 * SECOND_NS),
    ]
    history = run(tmp_path, of, arrivals, {})
    assert {job.name: job.state for job in history.jobs} == {"large": JobState.KILLED, "small": JobState.SUCCEEDED}
    assert starts_s(history) == {"small": [pytest.approx(5, abs=0.01)]}


# ---- room on the nodes ----
