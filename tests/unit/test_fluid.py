"""The fluid engine: shares act exactly, capacity changes, and what it cannot do is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.decisions import PolicyError
from emulator.core.job import JobSpec
from emulator.errors import RunError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.fluid.model import FluidResult, Stuck, simulate
from emulator.fluid.session import metrics_of, simulated
from emulator.policies.axes import ALLOCATION
from emulator.policies.capacity import Capacity
from emulator.policies.policy import AllocationPolicy
from emulator.policies.views import ClusterView, QueueView, ShareDecision
from emulator.resolved import resolve
from emulator.run import run_briefly
from emulator.vocabulary import SECOND_NS, JobFacts, map_reduce
from tests.commands import run_natjam
from tests.experiment_files import refusal, write
from tests.refusals import changed
from workloads.paper_jobs import bimodal_jobs
from workloads.schema import BimodalEntry

QUEUES = (QueueView("default", 0, 0, 8, 0, 0),)
EXPERIMENT = """\
name: small
engine: fluid
overheads: hadoop-0.23
cluster: {nodes: 2, containers_per_node: 4}
scheduler: {allocation: {name: fair}}
workload:
  jobs:
    - {name: long, queue: default, maps: 8, map_s: 10}
    - {name: short, queue: default, submit_s: 5, maps: 4, map_s: 5}
"""
DRAWN = EXPERIMENT[: EXPERIMENT.index("workload:")] + "workload: {bimodal: {jobs: 5, tasks: 60}}\n"


def job(name: str, tasks: int, submit_s: int = 0, task_s: int = 1, **facts: Any) -> JobSpec:
    return JobSpec(
        JobFacts(name, "default", groups=map_reduce(tasks, 0), **facts),
        submit_s * SECOND_NS,
        (task_s * SECOND_NS,) * tasks,
        (),
        (),
    )


def run(jobs: list[JobSpec], name: str = "fair", capacity: Capacity | None = None) -> FluidResult:
    return simulate(jobs, QUEUES, capacity or Capacity(((0, 8),)), ALLOCATION.by_name[name])


def ends_s(outcome: FluidResult) -> dict[str, float]:
    return {name: round(end_ns / 1e9, 6) for name, end_ns in outcome.ends_ns.items()}


def test_fair_shares_evenly_and_fifo_does_not() -> None:
    jobs = [job("long", 8, task_s=10), job("short", 4, submit_s=5, task_s=5)]
    assert ends_s(run(jobs)) == {"short": 10.0, "long": 12.5}
    assert ends_s(run(jobs, "fifo")) == {"long": 10.0, "short": 15.0}
    assert ends_s(run(jobs, "flex")) == {"short": 10.0, "long": 12.5}


def test_capacity_takes_steps() -> None:
    steps = Capacity(((0, 8), (5 * SECOND_NS, 0), (15 * SECOND_NS, 4)))
    assert ends_s(run([job("only", 8, task_s=10)], capacity=steps)) == {"only": 25.0}
    assert [steps.at(instant) for instant in (0, 5 * SECOND_NS - 1, 5 * SECOND_NS, 10**12)] == [8, 8, 0, 4]


def test_jobs_that_wait_for_ever_are_said() -> None:
    with pytest.raises(Stuck, match="at 5 s only hold no containers, and never will"):
        run([job("only", 8, task_s=10)], capacity=Capacity(((0, 8), (5 * SECOND_NS, 0))))


def test_a_queue_shares_its_capacity_as_a_minimum() -> None:
    """The late job has no weight, and still a third of the pool's six containers."""
    queues = (QueueView("default", 0, 6, 8, 0, 0),)
    jobs = [job("a", 80), job("b", 80), job("late", 80)]
    outcome = simulate(jobs, queues, Capacity(((0, 8),)), ALLOCATION.by_name["flex"])
    assert sorted(share for _, share in outcome.steps[0].shares) == [2, 2, 4]


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30), st.integers(0, 4)), min_size=1, max_size=6),
    st.lists(st.integers(1, 12), max_size=4),
    st.sampled_from(["fifo", "fair", "flex"]),
)
def test_all_work_is_done_within_the_capacity(rows, steps, name) -> None:
    jobs = [job(f"job-{i}", tasks, submit, 3, min_containers=low) for i, (tasks, submit, low) in enumerate(rows)]
    capacity = Capacity(((0, 8), *((7 * SECOND_NS * place, count) for place, count in enumerate(steps, start=1))))
    outcome = run(jobs, name, capacity)
    assert set(outcome.ends_ns) == {spec.name for spec in jobs}
    for step in outcome.steps:
        assert sum(share for _, share in step.shares) <= step.containers == capacity.at(step.start_ns)
    for spec in jobs:
        mine = [(step, share) for step in outcome.steps for held, share in step.shares if held == spec.name]
        assert all(step.start_ns >= spec.submit_ns and share <= len(spec.map_ns) for step, share in mine)
        done = sum(share * (step.end_ns - step.start_ns) for step, share in mine)
        assert sum(spec.map_ns) <= done <= sum(spec.map_ns) + 12 * len(outcome.steps)  # ends are whole nanoseconds


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (None, "pairs of a job"),
        ((("only", 9),), "8 or fewer in all"),
        ((("other", 1),), "pairs of a job"),
        ((("only", -1),), "pairs of a job"),
        ((("only", 1.5),), "pairs of a job"),
        ("only", "pairs of a job"),
    ],
)
def test_an_allocation_that_answers_wrongly_is_named(shares, words) -> None:
    def own(view: ClusterView) -> ShareDecision:
        return ShareDecision(shares)

    with pytest.raises(PolicyError, match=words):
        simulate([job("only", 8)], QUEUES, Capacity(((0, 8),)), AllocationPolicy("own", own, "test"))


def test_an_allocation_that_gives_no_shares_is_named() -> None:
    soft_cap = ALLOCATION.by_name["soft-cap"]
    with pytest.raises(PolicyError, match=r"allocation policy soft-cap returned .* it must return a ShareDecision"):
        simulate([job("only", 8)], QUEUES, Capacity(((0, 8),)), soft_cap)


def test_an_allocation_is_asked_again_when_its_answer_has_run_out() -> None:
    asked_ns = []

    def own(view: ClusterView) -> ShareDecision:
        asked_ns.append(view.now_ns)
        return ShareDecision((("only", 8),), valid_until_ns=view.now_ns + 4 * SECOND_NS)

    simulate([job("only", 8, task_s=10)], QUEUES, Capacity(((0, 8),)), AllocationPolicy("own", own, "test"))
    assert asked_ns == [0, 4 * SECOND_NS, 8 * SECOND_NS]


def test_metrics_of_a_run() -> None:
    jobs = [job("a", 8, deadline_ns=1 * SECOND_NS), job("b", 8, deadline_ns=1 * SECOND_NS, weight_ppm=500_000)]
    found = metrics_of(jobs, {"a": 1 * SECOND_NS, "b": 3 * SECOND_NS}, 8)
    assert found["response"] == {"sum": 4, "weighted_sum": 2.5, "largest": 3, "weighted_largest": 1.5}
    assert found["stretch"]["sum"] == 4
    assert (found["tardy"]["sum"], found["tardiness"]["weighted_sum"], found["lateness"]["sum"]) == (1, 1, 2)
    assert found["makespan"] == {"largest": 3, "weighted_largest": 1.5}


# ---- experiment files ----


def test_a_run_leaves_its_shares_a_picture_and_what_every_metric_says(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_natjam("run", write(tmp_path, EXPERIMENT), "--out", out)
    summary = json.loads((out / "summary.json").read_text())
    assert [found["completion_s"] for found in summary["jobs"]] == [12.5, 5.0]
    assert summary["penalties"]["response"]["sum"] == 17.5
    assert summary["work"]["utilization"] == pytest.approx(1.0)
    shares = pyarrow.parquet.read_table(out / "shares.parquet").to_pylist()
    assert sum(row["containers"] * (row["end_s"] - row["start_s"]) for row in shares) == pytest.approx(100)
    assert "<svg" in (out / "packing.svg").read_text()


@pytest.mark.parametrize(
    ("change", "to", "words"),
    [
        (
            "name: fair",
            "name: soft-cap, queues: {default: {capacity: 1}}",
            ["gives no shares", "choose fifo, fair, flex"],
        ),
        ("name: fair", "name: flex, metric: {name: speed}", ["scheduler.allocation.metric.name"]),
        ("name: fair", "name: flex, metric: {name: tardy, sum: false}", ["only the sum can be minimised"]),
        ("maps: 8,", "maps: 8, min_containers: 5, max_containers: 3,", ["min_containers 5 is above max_containers 3"]),
        ("maps: 8,", "maps: 8, weight: .nan,", ["weight"]),
        ("maps: 8,", "maps: 8, weight: -1,", ["weight"]),
        ("maps: 8,", "maps: 8, deadline_s: .nan,", ["deadline_s"]),
        ("maps: 8,", "maps: 8, sla: [{deadline_s: 9, cost: .nan}],", ["sla.0.cost"]),
        ("maps: 8,", "maps: 8, min_containers: .nan,", ["min_containers"]),
        ("maps: 8,", "maps: 8, max_containers: 0,", ["max_containers"]),
        ("maps: 8,", "maps: 0,", ["needs at least one map"]),
        (
            "maps: 8,",
            "maps: 8, sla: [{deadline_s: 9, cost: 1}, {deadline_s: 3, cost: 2}],",
            ["deadlines must increase"],
        ),
        ("queue: default, s", "queue: defualt, s", ["did you mean 'default'"]),
    ],
)
def test_what_cannot_be_is_said_with_its_field(tmp_path: Path, change: str, to: str, words: list[str]) -> None:
    message = refusal(write(tmp_path, changed(EXPERIMENT, change, to)))
    assert all(word in message for word in words), message


def test_jobs_that_never_end_fail_the_run(tmp_path: Path) -> None:
    path = write(tmp_path, EXPERIMENT.replace("nodes: 2,", "nodes: 2, availability: {steps: [[5, 0]]},"))
    experiment = load_experiment(path)
    with pytest.raises(RunError, match="hold no containers"):
        simulated(resolve(experiment), lambda records: None)


def test_a_run_of_a_figure_writes_its_summary_alone(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, EXPERIMENT))
    summary = run_briefly(experiment, tmp_path / "out", lambda status: None)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.json"]
    assert summary["shares"][0] == {"start_s": 0.0, "end_s": 5.0, "available": 8, "containers": {"long": 8}}
    assert summary["decisions"]["n"] == 3


def test_slack_moves_the_minima_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, DRAWN)
    tight, loose = (expand(load_experiment(path, [f"workload.bimodal.slack={slack}"]), 3) for slack in (0.1, 0.9))
    assert [spec.map_ns for spec in tight] == [spec.map_ns for spec in loose]
    assert [spec.facts.sla for spec in tight] == [spec.facts.sla for spec in loose]
    assert sum(spec.facts.min_containers or 0 for spec in tight) > sum(spec.facts.min_containers or 0 for spec in loose)


@given(st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))
def test_drawn_jobs_keep_the_rules(seed: int, small: float, slack: float) -> None:
    jobs = bimodal_jobs(BimodalEntry(jobs=6, tasks=90, small=small, slack=slack), 20, 1, seed)
    assert sum(sum(spec.map_ns) for spec in jobs) == pytest.approx(900 * SECOND_NS, abs=10)
    for spec in jobs:
        facts = spec.facts
        assert 1 <= (facts.min_containers or 0) <= (facts.max_containers or 0) <= 20
        assert facts.max_containers == min(20, len(spec.map_ns))
        assert list(facts.sla) == sorted(facts.sla)
        assert 0 < (facts.deadline_ns or 0) <= 900 * SECOND_NS // 20 + 1
