"""Simulations of random workloads, judged by their journals alone: time never goes back, every task is done exactly
once, and no node ever runs more than it has containers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.completions import Exited, LaunchFailed, Suspended
from emulator.core.effects import Launch, Resume
from emulator.core.job import JobSpec
from emulator.core.messages import JobState, Outcome
from emulator.experiment.expand import expand
from emulator.experiment.model import Experiment
from emulator.records.journal import Record
from emulator.resolved import resolve
from emulator.sim.session import simulate
from tests.examples import drawn, fixed
from tests.histories import fold

QUEUES = ("production", "research")
_SHARES = {"capacity": 0.5, "maximum": 1.0}


def _schedulers() -> st.SearchStrategy[dict[str, Any]]:
    two_queue = st.fixed_dictionaries(
        {
            "allocation": st.just({"name": "two-queue", "queues": dict.fromkeys(QUEUES, _SHARES)}),
            "mechanism": st.sampled_from(("checkpoint", "suspend", "kill", "wait")),
            "job_eviction": st.sampled_from(("mr", "lr", "pr", "mdf", "priority")),
            "task_eviction": st.sampled_from(("srt", "lrt", "random")),
            "placement": st.fixed_dictionaries({"delay_s": st.sampled_from((0.0, 4.0))}),
        }
    )
    single_queue = st.fixed_dictionaries(
        {
            "allocation": st.just({"name": "single-queue", "queues": {"all": {"capacity": 1.0}}}),
            "mechanism": st.sampled_from(("checkpoint", "suspend", "kill")),
            "job_eviction": st.sampled_from(("mdf", "mlf", "priority")),
            "task_eviction": st.sampled_from(("srt", "lrt", "random")),
        }
    ).filter(lambda scheduler: (scheduler["mechanism"], scheduler["job_eviction"]) != ("kill", "mlf"))
    # Under MLF jobs take turns (natjam, section 4); where each turn kills the other's reduces, none ever ends.
    caps = st.fixed_dictionaries(
        {
            "allocation": st.fixed_dictionaries({"name": st.sampled_from(("hard-cap", "soft-cap"))}).map(
                lambda allocation: {**allocation, "queues": {queue: {"capacity": 0.5} for queue in QUEUES}}
            ),
            "job_selection": st.sampled_from(("fifo", "priority", "edf", "llf")),
        }
    )
    return two_queue | two_queue | single_queue | caps


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Small clusters, full for most of the time."""
    scheduler = draw(_schedulers())
    queues = tuple(scheduler["allocation"]["queues"])
    length_s = st.sampled_from((0.5, 3.0, 12.0, 40.0))
    jobs = [
        {
            "name": f"job-{number}",
            "queue": draw(st.sampled_from(queues)),
            "submit_s": draw(st.integers(0, 40_000)) / 1000,
            "maps": (maps := draw(st.integers(0, 6))),
            "map_s": draw(length_s),
            "reduces": draw(st.integers(0 if maps else 1, 12)),
            "reduce_s": (draw(length_s), draw(length_s)),
            "key_s": draw(st.sampled_from((0.5, 3.0))),
            "priority": draw(st.integers(0, 3)),
            "deadline_s": draw(st.sampled_from((None, 50.0, 100.0, 400.0))),
        }
        for number in range(draw(st.integers(2, 6)))
    ]
    return Experiment.model_validate(
        {
            "name": "random",
            "engine": "sim",
            "seed": draw(st.integers(0, 10**6)),
            "overheads": "hadoop-0.23",
            "cluster": {
                "nodes": draw(st.integers(2, 4)),
                "containers_per_node": draw(st.integers(2, 3)),
                "max_suspended_per_node": draw(st.integers(0, 4)),
            },
            "scheduler": scheduler,
            "workload": {"jobs": tuple(jobs)},
        }
    )


def check(experiment: Experiment) -> None:
    jobs = expand(experiment, experiment.seed)
    records: list[Record] = []
    simulate(resolve(experiment, jobs), records.extend)
    times_ns = [record.t_ns for record in records]
    assert times_ns == sorted(times_ns)
    _check_tasks(records, jobs)
    _check_nodes(records, experiment.cluster.containers_per_node)


def _check_tasks(records: list[Record], jobs: tuple[JobSpec, ...]) -> None:
    history = fold(records, jobs)
    assert {job.state for job in history.jobs} == {JobState.SUCCEEDED}
    done = Counter((row.job, row.kind, row.task) for row in history.attempts if row.outcome is Outcome.SUCCEEDED)
    assert set(done.values()) == {1}
    assert {(row.job, row.kind, row.task) for row in history.tasks} <= done.keys()
    assert len(history.tasks) == sum(len(job.map_ns) + len(job.reduce_ns) for job in jobs)
    walked: Counter[tuple[str, int]] = Counter()
    for row in history.attempts:
        if row.keys_total and row.outcome in (Outcome.SUCCEEDED, Outcome.CHECKPOINTED):
            assert row.keys_done is not None
            walked[row.job, row.task] += row.keys_done - row.keys_start
    assert walked == {(job.name, task): keys for job in jobs for task, keys in enumerate(job.reduce_keys)}


def _check_nodes(records: list[Record], containers: int) -> None:
    """A container is taken when its node orders a launch or a resume, free when the process has stopped or ended."""
    taken: dict[str, set[str]] = {}
    for record in records:
        here = taken.setdefault(record.actor, set())
        if isinstance(record.message, Exited | Suspended | LaunchFailed):
            here.discard(record.message.container)
        for effect in record.effects:
            if isinstance(effect, Launch | Resume):
                assert effect.container not in here
                here.add(effect.container)
        assert len(here) <= containers, f"{record.actor} at {record.t_ns} ns"
    assert not any(taken.values())


@given(experiments())
@fixed
def test_nothing_is_lost_or_done_twice_and_no_node_is_over_full(experiment: Experiment) -> None:
    check(experiment)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(experiments())
@drawn
def test_the_same_on_500_workloads(experiment: Experiment) -> None:
    check(experiment)
