"""The policies of ours, and what happens with a user's: named by module:function, or returning nonsense."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from emulator import policies
from emulator.assemble import load_policy
from emulator.cli.main import app
from emulator.core.decisions import PolicyError, allocate, choose_job, order_jobs, order_tasks
from emulator.core.messages import MeasuredCosts
from emulator.errors import NatjamError
from emulator.policies.allocation import hard_cap, single_queue, soft_cap, two_queue
from emulator.policies.job_eviction import (
    least_resources,
    lowest_priority,
    maximum_deadline_first,
    maximum_laxity_first,
    most_resources,
    probabilistic_resources,
)
from emulator.policies.job_selection import (
    earliest_deadline_first,
    fifo,
    laxity_ns,
    least_laxity_first,
    priority,
)
from emulator.policies.task_eviction import longest_remaining_time, random_order, shortest_remaining_time
from emulator.policies.views import (
    AllocationDecision,
    JobEvictionView,
    JobView,
    QueueView,
    TaskEvictionView,
    TaskView,
)
from tests.simulated_runs import FIG4

COSTS = MeasuredCosts()


def job(name: str, containers: int, order: int = 0) -> JobView:
    return JobView(name, "research", order, 0, containers, containers, 0, None, 0)


def jobs_view(*containers: int) -> JobEvictionView:
    return JobEvictionView(0, tuple(job(f"j{i}", held, i) for i, held in enumerate(containers)), COSTS)


def tasks_view(*remaining_ns: int | None) -> TaskEvictionView:
    tasks = (TaskView(i, f"c{i}", "node-1", 0, 0, 1, left_ns) for i, left_ns in enumerate(remaining_ns))
    return TaskEvictionView(0, "j", tuple(tasks), COSTS)


def shares(policy: Any, view: JobEvictionView, draws: int = 4000) -> dict[str, float]:
    counts = Counter(policy(view, Random(seed)) for seed in range(draws))
    return {name: count / draws for name, count in sorted(counts.items())}


# ---- job eviction ----


def test_most_resources_takes_from_the_job_that_holds_most() -> None:
    assert {most_resources(jobs_view(3, 9, 5), Random(seed)) for seed in range(20)} == {"j1"}


def test_least_resources_takes_from_the_job_that_holds_fewest() -> None:
    assert {least_resources(jobs_view(3, 9, 5), Random(seed)) for seed in range(20)} == {"j0"}


@pytest.mark.parametrize("policy", [most_resources, least_resources, probabilistic_resources])
def test_equal_jobs_are_taken_from_equally(policy: Any) -> None:
    assert shares(policy, jobs_view(4, 4, 4, 4)) == pytest.approx({f"j{i}": 0.25 for i in range(4)}, abs=0.03)


def test_probabilistic_resources_draws_in_proportion() -> None:
    drawn = shares(probabilistic_resources, jobs_view(1, 2, 5))
    assert drawn == pytest.approx({"j0": 0.125, "j1": 0.25, "j2": 0.625}, abs=0.03)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_job_eviction_does_not_depend_on_the_order_of_the_view(
    containers: list[int], seed: int, shuffler: Random
) -> None:
    view = jobs_view(*containers)
    shuffled = list(view.jobs)
    shuffler.shuffle(shuffled)
    for policy in policies.JOB_EVICTION.values():
        again = policy(JobEvictionView(0, tuple(shuffled), COSTS), Random(seed))
        assert policy(view, Random(seed)) == again


# ---- task eviction ----


def test_shortest_and_longest_remaining_time() -> None:
    view = tasks_view(30, 10, None, 20)
    assert shortest_remaining_time(view, Random(1)) == ("c1", "c3", "c0", "c2")
    assert longest_remaining_time(view, Random(1)) == ("c2", "c0", "c3", "c1")


@pytest.mark.parametrize("policy", [shortest_remaining_time, longest_remaining_time, random_order])
@pytest.mark.parametrize("remaining_ns", [(7, 7, 7), (None, None, None)])
def test_ties_and_unknown_estimates_fall_in_random_order(policy: Any, remaining_ns: tuple[int | None, ...]) -> None:
    orders = Counter(policy(tasks_view(*remaining_ns), Random(seed)) for seed in range(3000))
    assert len(orders) == 6
    assert all(count == pytest.approx(500, abs=90) for count in orders.values())


def test_a_tie_does_not_move_the_others() -> None:
    orders = {shortest_remaining_time(tasks_view(5, 3, 5, 9), Random(seed)) for seed in range(50)}
    assert orders == {("c1", "c0", "c2", "c3"), ("c1", "c2", "c0", "c3")}


@given(
    st.lists(st.none() | st.integers(0, 100), min_size=1, max_size=12),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_task_eviction_orders_every_task_whatever_the_order_of_the_view(
    remaining_ns: list[int | None], seed: int, shuffler: Random
) -> None:
    view = tasks_view(*remaining_ns)
    shuffled = list(view.tasks)
    shuffler.shuffle(shuffled)
    left = {task.container: 1 << 62 if task.remaining_ns is None else task.remaining_ns for task in view.tasks}
    for name, policy in policies.TASK_EVICTION.items():
        order = policy(view, Random(seed))
        assert sorted(order) == sorted(left)
        assert policy(TaskEvictionView(0, "j", tuple(shuffled), COSTS), Random(seed)) == order
        times = [left[container] for container in order]
        if name != "random":
            assert times == sorted(times, reverse=name == "lrt")


# ---- allocation and job selection ----


def queues(production: int, research: int, capacity: tuple[int, int] = (4, 12)) -> tuple[QueueView, QueueView]:
    return (
        QueueView("production", 0, capacity[0], 16, production, 1),
        QueueView("research", 1, capacity[1], 16, research, 1),
    )


def test_two_queue_serves_production_first_and_lets_it_reclaim_whatever_the_capacity() -> None:
    decision = two_queue(queues(12, 4), 16)
    assert decision == AllocationDecision(("production", "research"), (("production", ("research",)),))
    assert two_queue(queues(16, 0), 16) == AllocationDecision(("research",), ())


def test_a_single_queue_takes_from_itself_one_container_a_run() -> None:
    (queue, _) = queues(16, 0)
    decision = single_queue((queue,), 16)
    assert (decision.order, decision.reclaim) == (("production",), (("production", ("production",)),))
    assert (decision.reclaims_a_run, decision.resumes_first) == (1, False)


@pytest.mark.parametrize(
    ("production", "research", "order"),
    [(0, 0, ("production", "research")), (4, 0, ("research",)), (3, 12, ("production",)), (4, 12, ())],
)
def test_hard_cap_stops_at_the_capacity(production: int, research: int, order: tuple[str, ...]) -> None:
    assert hard_cap(queues(production, research), 16) == AllocationDecision(order)


@pytest.mark.parametrize(
    ("production", "research", "order"),
    [
        (1, 3, ("production", "research")),  # equally underserved: the more urgent one
        (2, 3, ("research", "production")),
        (4, 12, ("production", "research")),
        (1, 15, ("production", "research")),
        (16, 0, ("research",)),
    ],
)
def test_soft_cap_serves_the_most_underserved_up_to_the_maximum(
    production: int, research: int, order: tuple[str, ...]
) -> None:
    assert soft_cap(queues(production, research), 16) == AllocationDecision(order)


def test_soft_cap_serves_a_queue_without_capacity_last() -> None:
    assert soft_cap(queues(0, 9, capacity=(0, 16)), 16).order == ("research", "production")


def test_fifo_goes_by_submission() -> None:
    assert fifo((job("b", 1, 2), job("a", 1, 1), job("c", 1, 0)), 0) == ("c", "a", "b")


ORDERED_JOBS = st.lists(
    st.builds(
        lambda deadline_ns, priority, remaining_ns: (deadline_ns, priority, remaining_ns),
        st.none() | st.integers(1, 4),
        st.integers(-1, 2),
        st.none() | st.integers(0, 4),
    ),
    min_size=1,
    max_size=8,
)


@given(ORDERED_JOBS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_an_eviction_that_dictates_a_selection_takes_from_its_end(
    fields: list[tuple[int | None, int, int | None]], now_ns: int, shuffler: Random
) -> None:
    """So that what is taken from a job is not given back to it while another waits."""
    jobs = [
        replace(job(f"j{i}", 3, i), deadline_ns=deadline_ns, priority=priority, remaining_ns=remaining_ns)
        for i, (deadline_ns, priority, remaining_ns) in enumerate(fields)
    ]
    shuffler.shuffle(jobs)
    for eviction, selection in policies.DICTATED_SELECTION.items():
        order = policies.JOB_SELECTION[selection](tuple(jobs), now_ns)
        assert sorted(order) == sorted(job.name for job in jobs)
        victim = policies.JOB_EVICTION[eviction](JobEvictionView(now_ns, tuple(jobs), COSTS), Random(1))
        assert victim == order[-1]


def deadline_jobs(*fields: tuple[int | None, int | None]) -> tuple[JobView, ...]:
    """Jobs j0, j1, ... of these deadlines and remaining times."""
    return tuple(
        replace(job(f"j{i}", 3, i), deadline_ns=deadline_ns, remaining_ns=remaining_ns)
        for i, (deadline_ns, remaining_ns) in enumerate(fields)
    )


def test_earliest_deadline_and_least_laxity_differ_where_much_is_left_to_do() -> None:
    jobs = deadline_jobs((100, 10), (120, 90), (None, 500), (90, None))
    assert earliest_deadline_first(jobs, 20) == ("j3", "j0", "j1", "j2")
    assert [laxity_ns(job, 20) for job in jobs] == [70, 10, None, 70]
    assert least_laxity_first(jobs, 20) == ("j1", "j3", "j0", "j2")
    view = JobEvictionView(20, jobs[:2], COSTS)
    assert (maximum_deadline_first(view, Random(1)), maximum_laxity_first(view, Random(1))) == ("j1", "j0")


def test_priority_goes_before_the_order_of_submission() -> None:
    jobs = tuple(replace(job(f"j{i}", 3, i), priority=level) for i, level in enumerate((0, 7, 7, -3)))
    assert priority(jobs, 0) == ("j1", "j2", "j0", "j3")
    assert lowest_priority(JobEvictionView(0, jobs, COSTS), Random(1)) == "j3"


def test_the_selection_of_auto() -> None:
    chosen = {name: policies.selection_for(name) for name in policies.JOB_EVICTION}
    assert chosen == {
        **dict.fromkeys(("mr", "lr", "pr"), "fifo"),
        "priority": "priority",
        "mdf": "edf",
        "mlf": "llf",
    }


# ---- a user's own ----


def test_a_policy_is_found_by_module_and_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_eviction.py").write_text("def last(view, random):\n    return view.jobs[-1].name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = load_policy("job_eviction", policies.JOB_EVICTION, "my_eviction:last")
    assert choose_job(policy, jobs_view(1, 2), Random(1)) == "j1"
    assert load_policy("job_eviction", policies.JOB_EVICTION, "mr") is most_resources


def test_a_policy_that_raises_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_raising.py").write_text("def bad(view, random):\n    return view.jobs[99].name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = load_policy("job_eviction", policies.JOB_EVICTION, "my_raising:bad")
    where = re.escape(f"{tmp_path / 'my_raising.py'}:2: job_eviction policy my_raising:bad raised IndexError")
    with pytest.raises(NatjamError, match=f"^{where}"):
        choose_job(policy, jobs_view(1), Random(1))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def mine():\n    return 1\n", ":1: task_eviction policy {0}:mine raised TypeError: mine() takes 0"),
        ("def mine(view, random):\n    return 7\n", "policy {0}:mine returned 7; it must return containers"),
        ("def mine(view, random):\n    raise SystemExit\n", ":2: task_eviction policy {0}:mine raised SystemExit: "),
    ],
)
def test_a_run_with_a_broken_policy_ends_with_one_message(tmp_path: Path, body: str, said: str) -> None:
    module = f"my_broken_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(body)
    (tmp_path / "fig4.yaml").write_text(FIG4.read_text())
    options = [f"--set=scheduler.task_eviction={module}:mine", "--engine=sim", f"--out={tmp_path / 'out'}"]
    done = CliRunner().invoke(app, ["run", str(tmp_path / "fig4.yaml"), *options])
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit)
    (line,) = done.stderr.splitlines()
    assert line.startswith("natjam: ")
    assert said.format(module) in line


def returning(value: Any) -> Any:
    def a_policy_of_mine(*arguments: Any) -> Any:
        return value

    return a_policy_of_mine


MINE = r".*test_policies:returning\.<locals>\.a_policy_of_mine returned"


@pytest.mark.parametrize("nonsense", [None, 3, "stranger", ["j0"], b"j0", float("nan")])
def test_a_victim_that_is_no_job_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"job eviction {MINE}"):
        choose_job(returning(nonsense), jobs_view(1, 2), Random(1))


@pytest.mark.parametrize("nonsense", [None, 3, "c0", ("c0", "c0"), ("c9",), [["c0"]], {"c0"}, (None,), {"c0": 1}])
def test_an_order_that_is_no_order_of_the_tasks_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"task eviction {MINE}"):
        order_tasks(returning(nonsense), tasks_view(1, 2), Random(1))
    with pytest.raises(PolicyError, match=f"job selection {MINE}"):
        order_jobs(returning(nonsense), (job("a", 1), job("b", 1)), 0)


@pytest.mark.parametrize("fewer", [(), ["c1"], ("c1", "c0")])
def test_an_order_may_leave_tasks_out(fewer: Any) -> None:
    assert order_tasks(returning(fewer), tasks_view(1, 2), Random(1)) == tuple(fewer)


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        ("production",),
        AllocationDecision(("stranger",)),
        AllocationDecision(("production", "production")),
        AllocationDecision("production"),  # pyright: ignore
        AllocationDecision((), ("production",)),  # pyright: ignore
        AllocationDecision((), (("stranger", ("research",)),)),
        AllocationDecision((), (("production", ("stranger",)),)),
        AllocationDecision((), (("production", "research"),)),  # pyright: ignore
        AllocationDecision((), None),  # pyright: ignore
        AllocationDecision((), reclaims_a_run=0),
        AllocationDecision((), reclaims_a_run=1.5),  # pyright: ignore
    ],
)
def test_an_allocation_of_other_queues_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"allocation {MINE}"):
        allocate(returning(nonsense), queues(1, 1), 16)


def test_what_is_refused_is_shown_cut_short() -> None:
    with pytest.raises(PolicyError) as raised:
        order_tasks(returning(("c" * 10_000,)), tasks_view(1), Random(1))
    assert len(str(raised.value)) < 500
