"""What must hold of every journal and history: simulated clusters with random workloads and a bad network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.messages import JobState, Outcome
from emulator.records.history import AttemptRow, History
from emulator.records.journal import merge
from emulator.vocabulary import MASTER, REDUCE
from tests.examples import drawn
from tests.histories import fold
from tests.simulated import CheckedCluster, make_job, make_settings, run_checked

LENGTHS_S = st.lists(st.integers(1, 30), max_size=4).map(tuple)


@st.composite
def clusters(draw: st.DrawFn, chaos: bool) -> CheckedCluster:
    """A cluster that has run two jobs, the second one urgent, to the end."""
    cluster = make_settings(
        seed=draw(st.integers(0, 1000)),
        nodes=draw(st.integers(1, 3)),
        containers=draw(st.integers(3, 4)),  # more than the two jobs' ApplicationMasters
        mechanism=draw(st.sampled_from(("wait", "kill", "suspend", "checkpoint"))),
        task_eviction=draw(st.sampled_from(("srt", "lrt", "random"))),
        heartbeat_s=draw(st.sampled_from((0.25, 1.0))),
    )
    jobs = (
        make_job("j1", "research", 0, draw(LENGTHS_S), draw(LENGTHS_S)),
        make_job("j2", "production", draw(st.integers(0, 20)), draw(LENGTHS_S), draw(LENGTHS_S)),
    )
    network = BadNetwork(draw(st.integers(0, 1000)), 10, 10, 2 * 10**9) if chaos else None
    return run_checked(cluster, jobs, bad_network=network, limit_s=3000)


def history_of(cluster: CheckedCluster) -> History:
    return fold(merge(cluster.records), cluster.jobs.values())


@given(clusters(chaos=True))
@drawn
def test_the_tables_agree_with_each_other(cluster: CheckedCluster) -> None:
    history = history_of(cluster)
    by_name = {row.attempt: row for row in history.attempts}
    assert len({row.container for row in history.attempts}) == len(history.attempts)
    for row in history.attempts:
        check_attempt(row, by_name)
    for job in history.jobs:
        tasks = [task for task in history.tasks if task.job == job.name]
        attempts = [row for row in history.attempts if row.job == job.name and row.kind != MASTER]
        assert job.attempts == sum(task.attempts for task in tasks) == len(attempts)
        assert job.suspensions == sum(task.suspensions for task in tasks)
        assert job.useful_ns == sum(row.useful_ns for row in attempts)
        assert job.lost_work_ns == sum(task.lost_ns for task in tasks) == sum(row.lost_ns for row in attempts)
        assert job.state is JobState.SUCCEEDED
        assert job.finish_ns is not None
        assert job.finish_ns >= max((task.finish_ns or 0 for task in tasks), default=0)
    suspends = [operation for operation in history.operations if operation.operation == "suspend"]
    assert len(suspends) <= sum(job.suspensions for job in history.jobs)
    assert all(operation.begin_ns <= operation.end_ns for operation in history.operations)


def check_attempt(row: AttemptRow, by_name: dict[str, AttemptRow]) -> None:
    assert row.useful_ns == 0 or row.lost_ns == 0
    assert row.useful_ns + row.lost_ns <= row.active_ns
    assert row.active_ns <= row.busy_ns
    if row.first_key_ns is not None:
        assert row.launched_ns is not None
        assert row.ready_ns <= row.launched_ns <= row.first_key_ns
    if row.outcome in (Outcome.SUCCEEDED, Outcome.CHECKPOINTED) and row.kind == REDUCE:
        assert row.keys_done is not None
        assert row.keys_start <= row.keys_done <= row.keys_total
        assert (row.keys_done == row.keys_total) or row.outcome is Outcome.CHECKPOINTED
    if row.resumed_from is not None:
        before = by_name[row.resumed_from]
        assert (before.outcome, before.keys_done) == (Outcome.CHECKPOINTED, row.keys_start)
        assert (before.job, before.kind, before.task) == (row.job, row.kind, row.task)


@given(clusters(chaos=False))
@drawn
def test_useful_work_is_the_length_of_every_task(cluster: CheckedCluster) -> None:
    """Where operations cost nothing: whatever was suspended or killed, no work is missing or counted twice."""
    history = history_of(cluster)
    assert all(task.useful_ns == task.length_ns for task in history.tasks)
    assert all(row.outcome is not None for row in history.attempts)
