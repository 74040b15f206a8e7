"""Speculative execution: who gets a second attempt, which of two wins, and what is left when both are evicted."""

from __future__ import annotations

from dataclasses import replace

from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.speculation import stragglers
from emulator.core.application_master.task import AttemptState, RateEstimate, Task, TaskAttempt, TaskEvent, TaskState
from emulator.core.settings import SpeculationSettings
from emulator.vocabulary import REDUCE, KeyCheckpoint, TaskGroup, TaskId

NOW_NS = 100 * SECOND_NS
RULE = SpeculationSettings(margin_ppm=200_000, after_ns=60 * SECOND_NS, at_most_ppm=1_000_000)


def task_with(index: int, rate: int | None, keys_done: int = 10, running_s: float = 0.0) -> Task:
    """A reduce of 100 keys that runs since ``running_s``, at ``rate`` keys in 1000 s."""
    task = Task("j", TaskGroup(REDUCE, 9), index, index, keys_total=100, state=TaskState.RUNNING)
    estimate = RateEstimate(NOW_NS, keys_done, rate and rate * 10**6)
    running_ns = round(running_s * SECOND_NS)
    task.attempts.append(
        TaskAttempt(
            f"a{index}",
            TaskId(REDUCE, index),
            100,
            state=AttemptState.RUNNING,
            running_since_ns=running_ns,
            estimate=estimate,
        )
    )
    return task


def chosen(tasks: list[Task], rule: SpeculationSettings = RULE) -> list[int]:
    live = [attempt for task in tasks for attempt in task.attempts if attempt.state is AttemptState.RUNNING]
    return [task.index for task in stragglers(rule, tasks, live, NOW_NS)]


def test_it_is_slower_than_the_mean_by_more_than_the_margin() -> None:
    others = [task_with(index, 1000) for index in range(9)]
    # with a tenth of rate r the mean is (9000 + r) / 10: r is below 0.8 of it from 782 on
    assert chosen([*others, task_with(9, 783)]) == []
    assert chosen([*others, task_with(9, 782)]) == [9]


def test_it_has_run_for_some_time_and_has_shown_a_rate() -> None:
    others = [task_with(index, 1000) for index in range(9)]
    assert chosen([*others, task_with(9, 500, running_s=40.0)]) == [9]
    assert chosen([*others, task_with(9, 500, running_s=40.1)]) == []
    assert chosen([*others, task_with(9, None)]) == []


def test_victims_and_tasks_that_have_a_second_attempt_are_left_alone() -> None:
    tasks = [task_with(0, 1000), task_with(1, 1000), task_with(2, 100), task_with(3, 100)]
    tasks[2].attempt.state = AttemptState.CHOSEN
    assert chosen(tasks) == [3]
    tasks[3].take(TaskEvent.SPECULATE)
    assert chosen(tasks) == []


def test_attempts_that_have_ended_count_in_the_mean() -> None:
    tasks = [task_with(index, 1000) for index in range(3)] + [task_with(3, 400)]
    for task in tasks[:3]:
        task.state = TaskState.SUCCEEDED
        task.attempt.state = AttemptState.SUCCEEDED
    assert chosen(tasks) == [3], "it is alone, and still slow"


def test_those_with_the_most_time_left_go_first_and_only_some_at_a_time() -> None:
    tasks = [task_with(index, 1000) for index in range(8)]
    tasks += [task_with(8, 300, keys_done=60), task_with(9, 300, keys_done=20)]
    assert chosen(tasks) == [9, 8]
    assert chosen(tasks, replace(RULE, at_most_ppm=100_000)) == [9]
    assert chosen(tasks, replace(RULE, at_most_ppm=1)) == [9], "one may always"
    tasks[9].take(TaskEvent.SPECULATE)
    assert chosen(tasks, replace(RULE, at_most_ppm=100_000)) == []


def test_a_task_whose_attempts_were_both_evicted_goes_on_from_the_further_with_its_own_rate() -> None:
    task = task_with(0, 250, keys_done=40)
    first, second = task.attempt, task.take(TaskEvent.SPECULATE)
    second.estimate = RateEstimate(NOW_NS, 30, 10**9)
    first.container, second.container = "c1", "c2"
    assert task.speculative
    task.accept(KeyCheckpoint(("c1",), 41, "/in", "node-1"), None)
    task.accept(KeyCheckpoint(("c2",), 31, "/in", "node-2"), None)
    first.state = second.state = AttemptState.SUSPENDED
    third = task.new_attempt(suspended_ns=NOW_NS)
    assert third.saved is not None
    assert third.saved.past_containers == ("c1",)
    assert third.estimate == RateEstimate(None, 40, 250 * 10**6), "the time it lay suspended is not in it"
    assert third.estimate.remaining_ns(100, NOW_NS + 10**15) == third.estimate.remaining_ns(100, NOW_NS)


def run_with_a_slow_node(mechanism: str, speculation: dict[str, float] | None, urgent: bool = False) -> CheckedCluster:
    settings = make_settings(
        nodes=3, containers=2, mechanism=mechanism, slow_nodes={"node-1": 5.0}, speculation=speculation
    )
    jobs = [make_job("research", "research", 0.0, (), (20.0,) * 5)]
    if urgent:
        jobs.append(make_job("urgent", "production", 30.0, (), (10.0,) * 4))
    return run_checked(settings, tuple(jobs))


def end_s(cluster: CheckedCluster) -> float:
    return (cluster.masters["research"].finish_ns or 0) / SECOND_NS


def test_without_it_nothing_runs_twice_and_with_it_the_second_attempts_win() -> None:
    plain, helped = run_with_a_slow_node("checkpoint", None), run_with_a_slow_node("checkpoint", {})
    assert all(len(task.attempts) == 1 for task in plain.masters["research"].tasks.walkers)
    assert end_s(plain) > 100
    assert end_s(helped) < 70
    raced = [task for task in helped.masters["research"].tasks.walkers if len(task.attempts) > 1]
    assert raced
    for task in raced:
        first, second = task.attempts
        assert second.state is AttemptState.SUCCEEDED
        assert first.state is not AttemptState.SUCCEEDED
        assert first.node == "node-1" != second.node
