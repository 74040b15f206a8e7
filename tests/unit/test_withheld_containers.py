"""Containers that a transactional workload has first call on: given up by the mechanism, within the grace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from analysis.report.facts import facts
from emulator.core.job import JobSpec
from emulator.core.settings import Settings
from emulator.display.closing_tables import closing_tables
from emulator.engine import EngineResult
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.policies.capacity import Capacity
from emulator.records.measures import changes_of, shortfall_ns, tolerated_steps
from emulator.resolved import resolve
from emulator.run import summary_of
from emulator.sim.session import simulated_history
from emulator.vocabulary import MASTER
from tests.commands import displayed
from tests.examples import fixed
from tests.experiment_files import refusal, write
from tests.histories import fold

MECHANISMS = ("kill", "suspend", "checkpoint")


def shortfall_s(run: CheckedCluster) -> float:
    """Of a run whose ApplicationMasters are outside."""
    assert run.settings.availability is not None
    tasks = [row for row in fold(run.records, run.jobs.values()).attempts if row.kind != MASTER]
    availability, end_ns = run.settings.availability, run.kernel.now_ns
    tolerated = tolerated_steps(availability.capacity, availability.grace_ns, end_ns)
    return shortfall_ns(changes_of(tasks, end_ns), tolerated) / SECOND_NS


def long_job(name: str = "research", tasks: int = 4, length_s: float = 60.0) -> JobSpec:
    return make_job(name, "research", 0.0, (), (length_s,) * tasks)


def four_containers(mechanism: str, grace_s: float = 10.0, **more: Any) -> Settings:
    available = [(0, 4), (20, 1), (100, 4)]
    changes: dict[str, Any] = {
        "allocation": "fair",
        "unmanaged_masters": True,
        "available": available,
        "grace_s": grace_s,
        **more,
    }
    return make_settings(nodes=2, containers=2, mechanism=mechanism, **changes)


def test_under_wait_jobs_hold_what_they_have_and_that_is_the_shortfall() -> None:
    run = run_checked(four_containers("wait"), (long_job(),))
    assert shortfall_s(run) == pytest.approx(3 * 31, abs=6), (
        "three reduces of 60 s, begun in the first seconds, from 30 s"
    )


def test_no_more_is_given_up_than_is_wanted_and_it_goes_on_later() -> None:
    run = run_checked(four_containers("checkpoint", available=[(0, 4), (20, 3), (50, 4)]), (long_job(),))
    attempts = [a for task in run.masters["research"].tasks.walkers for a in task.attempts]
    assert len(attempts) == 5
    assert run.kernel.now_ns < 100 * SECOND_NS


def test_what_comes_back_in_time_is_not_given_up() -> None:
    available = [(0.0, 4), (20.0, 1), (20.4, 4)]
    run = run_checked(four_containers("kill", available=available), (long_job(),))
    assert all(len(task.attempts) == 1 for task in run.masters["research"].tasks.walkers)


def test_jobs_above_their_share_give_first() -> None:
    """Fair shares of four are two each; when two are left, one each."""
    jobs = (long_job("first", 4), make_job("second", "research", 12.0, (), (60.0,)))
    run = run_checked(four_containers("kill", available=[(0, 4), (30, 2), (90, 4)]), jobs)
    assert len(run.masters["second"].tasks.walkers[0].attempts) == 1


@st.composite
def capacities(draw: st.DrawFn, most: int) -> list[tuple[float, int]]:
    """Steps of any height at any time, in the end all."""
    steps: list[tuple[float, int]] = [(0.0, draw(st.integers(0, most)))]
    for gap_ms, count in draw(st.lists(st.tuples(st.integers(1, 30_000), st.integers(0, most)), max_size=6)):
        steps.append((steps[-1][0] + gap_ms / 1000, count))
    return [*steps, (steps[-1][0] + 20.0, most)]


@given(
    st.data(),
    st.sampled_from(MECHANISMS),
    st.sampled_from(("fair", "flex", "adaptive", "reverse-adaptive", "two-queue")),
    st.integers(4, 20),
    st.integers(0, 10**6),
)
@fixed
def test_containers_in_use_never_exceed_what_there_is_after_the_grace(
    data: st.DataObject, mechanism: str, allocation: str, grace_s: int, seed: int
) -> None:
    nodes, containers = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    cluster = make_settings(
        seed=seed,
        nodes=nodes,
        containers=containers,
        memory_gb=containers + data.draw(st.integers(0, 3)),
        max_suspended=data.draw(st.integers(0, 3)),
        mechanism=mechanism,
        allocation=allocation,
        victims="all",
        unmanaged_masters=True,
        available=data.draw(capacities(nodes * containers)),
        grace_s=grace_s,
    )
    lengths = st.lists(st.integers(1, 40), max_size=6).map(tuple)
    jobs = []
    for number in range(data.draw(st.integers(1, 3))):
        queue, submit_s = data.draw(st.sampled_from(("research", "production"))), data.draw(st.integers(0, 30))
        deadline_s = data.draw(st.none() | st.integers(submit_s + 1, 200))
        maps_s, reduces_s = data.draw(lengths), data.draw(lengths)
        jobs.append(make_job(f"job-{number}", queue, submit_s, maps_s, reduces_s or (1.0,), 0.5, deadline_s))
    assert shortfall_s(run_checked(cluster, tuple(jobs))) == 0


# ---- the sum ----


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), max_size=6),
    st.integers(0, 5),
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=8),
)
def test_the_shortfall_is_what_is_held_above_all_there_was_in_the_grace(gaps, first, grace, spans) -> None:
    steps, now = [(0, first)], 0
    for gap, count in gaps:
        now += gap
        steps.append((now, count))
    capacity, end = Capacity(steps), 100
    changes = [change for start, length in spans for change in ((start, 1), (start + length, -1))]
    by_hand = 0
    for instant in range(end):
        in_use = sum(start <= instant < start + length for start, length in spans)
        there = max(capacity.at(before) for before in range(max(0, instant - grace), instant + 1))
        by_hand += max(0, in_use - there)
    assert shortfall_ns([*changes, (end, 0)], tolerated_steps(capacity, grace, end)) == by_hand


# ---- experiment files ----

EXPERIMENT = """\
name: small
engine: sim
overheads: hadoop-0.23
cluster:
  nodes: 2
  containers_per_node: 2
  application_masters: outside
  availability: {steps: [[20, 1], [100, 4]], grace_s: 10}
scheduler: {allocation: {name: reverse-adaptive}, mechanism: checkpoint}
workload:
  jobs:
    - {name: long, queue: default, reduces: 4, reduce_s: 60, deadline_s: 300}
"""


def run_of(tmp_path: Path, *overrides: str) -> dict[str, Any]:
    """The summary of a run of ``EXPERIMENT``."""
    experiment = load_experiment(write(tmp_path, EXPERIMENT), overrides)
    run = resolve(experiment)
    return summary_of(run, simulated_history(run), EngineResult([], None, None, None, {}), None)


def test_a_summary_says_what_jobs_held_too_long(tmp_path: Path) -> None:
    in_time, waits = run_of(tmp_path), run_of(tmp_path, "scheduler.mechanism=wait")
    assert in_time["transactional"]["shortfall_container_s"] == 0
    assert waits["transactional"]["shortfall_container_s"] > 50
    assert in_time["transactional"]["withheld_container_s"] == 3 * 80


def test_what_a_web_service_measured_is_shown(tmp_path: Path) -> None:
    latency = {"requests": 9, "failed": 0, "p50_real_ms": 1.5, "p95_real_ms": 20.25, "p99_real_ms": 33.75}
    unknown = dict.fromkeys(latency) | {"requests": 0, "failed": 0}
    summary = run_of(tmp_path) | {"web": {**latency, "preempting": unknown}}
    said = "9 requests, 0 failed; latency p50 1.500, p99 33.75 ms real"
    assert said in displayed(*closing_tables(summary), width=200)
    shown = {name: cell.text for name, cell in facts(summary)}
    assert (shown["latency p99, real"], shown["while jobs give way, p99"]) == ("33.75 ms", "-")


def test_a_cluster_that_has_nothing_for_an_hour_waits_for_it(tmp_path: Path) -> None:
    summary = run_of(tmp_path, "cluster.availability.steps=[[0, 0], [3600, 4]]")
    assert 3660 < summary["makespan_s"] < 3700


def test_a_cluster_that_has_nothing_any_more_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="long wait for containers that they cannot get"):
        run_of(tmp_path, "cluster.availability.steps=[[0, 0]]")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["cluster.availability.grace_s=-1"], ["cluster.availability.grace_s"]),
        (["cluster.availability.grace_s=.nan"], ["cluster.availability.grace_s"]),
        (["cluster.availability.transactional={kind: database}"], ["transactional.kind", "placeholder"]),
        (["cluster.availability.transactional={kind: web, requests_real_s: 0}"], ["requests_real_s"]),
        (["cluster.availability.transactional={kind: web, request_real_ms: .nan}"], ["request_real_ms"]),
        (["cluster.availability.steps=[[0, 5]]"], ["5 is more than the 4 containers of the cluster"]),
        (["cluster.slots={map: 1, reduce: 1}"], ["is of containers for anything"]),
        (
            [
                "scheduler.allocation={name: yarn-capacity, queues: {default: {capacity: 1}}}",
                "scheduler.mechanism=kill",
            ],
            ["takes nothing back for a transactional workload"],
        ),
    ],
)
def test_what_cannot_be_is_said_with_its_field(tmp_path: Path, overrides: list[str], words: list[str]) -> None:
    message = refusal(write(tmp_path, EXPERIMENT), *overrides)
    assert all(word in message for word in words), message
