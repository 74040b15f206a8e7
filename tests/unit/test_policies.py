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
from msgspec import structs

from emulator.core.decisions import (
    PolicyError,
    allocate,
    choose_job,
    choose_mechanism,
    order_jobs,
    order_suspended,
    order_tasks,
    place,
)
from emulator.errors import ConfigError, NatjamError
from emulator.experiment.model import Choice
from emulator.experiment.policies import find_policy
from emulator.policies import axes as policies
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
from emulator.policies.placement import PreferLocal, cost, prefer_local
from emulator.policies.queues import hard_cap, single_queue, soft_cap, two_queue
from emulator.policies.resume_order import longest_remaining_first, suspended_first
from emulator.policies.task_eviction import (
    longest_remaining_time,
    lowest_checkpoint_cost,
    random_order,
    shortest_remaining_time,
)
from emulator.policies.views import (
    AllocationDecision,
    JobView,
    MechanismDecision,
    NodeView,
    PlacementDecision,
    QueueView,
    SuspendedView,
    TaskView,
)
from emulator.vocabulary import MAP, REDUCE, SECOND_NS, Mechanism, Tier
from tests.commands import run_natjam
from tests.simulated_runs import FIG4
from tests.views import cluster, job_view, queue_views, task_view


def jobs_of(*containers: int) -> tuple[JobView, ...]:
    return tuple(job_view(f"j{i}", held, i) for i, held in enumerate(containers))


def tasks_of(*remaining_ns: int | None) -> tuple[TaskView, ...]:
    return tuple(task_view(i, left_ns) for i, left_ns in enumerate(remaining_ns))


def shares(policy: Any, jobs: tuple[JobView, ...], draws: int = 4000) -> dict[str, float]:
    counts = Counter(policy(cluster(), jobs, Random(seed)) for seed in range(draws))
    return {name: count / draws for name, count in sorted(counts.items())}


# ---- job eviction ----


def test_most_resources_takes_from_the_job_that_holds_most() -> None:
    assert {most_resources(cluster(), jobs_of(3, 9, 5), Random(seed)) for seed in range(20)} == {"j1"}


def test_least_resources_takes_from_the_job_that_holds_fewest() -> None:
    assert {least_resources(cluster(), jobs_of(3, 9, 5), Random(seed)) for seed in range(20)} == {"j0"}


@pytest.mark.parametrize("policy", [most_resources, least_resources, probabilistic_resources])
def test_equal_jobs_are_taken_from_equally(policy: Any) -> None:
    assert shares(policy, jobs_of(4, 4, 4, 4)) == pytest.approx({f"j{i}": 0.25 for i in range(4)}, abs=0.03)


def test_probabilistic_resources_draws_in_proportion() -> None:
    drawn = shares(probabilistic_resources, jobs_of(1, 2, 5))
    assert drawn == pytest.approx({"j0": 0.125, "j1": 0.25, "j2": 0.625}, abs=0.03)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_job_eviction_does_not_depend_on_the_order_of_the_view(
    containers: list[int], seed: int, shuffler: Random
) -> None:
    jobs = jobs_of(*containers)
    shuffled = list(jobs)
    shuffler.shuffle(shuffled)
    for policy in policies.JOB_EVICTION.policies:
        again = policy.function(cluster(), tuple(shuffled), Random(seed))
        assert policy.function(cluster(), jobs, Random(seed)) == again


# ---- task eviction ----


def test_shortest_and_longest_remaining_time() -> None:
    tasks = tasks_of(30, 10, None, 20)
    assert shortest_remaining_time(cluster(), tasks, Random(1)) == ("c1", "c3", "c0", "c2")
    assert longest_remaining_time(cluster(), tasks, Random(1)) == ("c2", "c0", "c3", "c1")


def test_who_has_held_its_container_longest_has_the_least_left_where_no_progress_is_seen() -> None:
    tasks = tuple(task_view(i, started_ns=at_ns, keys_total=None) for i, at_ns in enumerate((30, 10, 20)))
    assert shortest_remaining_time(cluster(), tasks, Random(1)) == ("c1", "c2", "c0")
    assert longest_remaining_time(cluster(), tasks, Random(1)) == ("c0", "c2", "c1")


@pytest.mark.parametrize("policy", [shortest_remaining_time, longest_remaining_time, random_order])
@pytest.mark.parametrize("remaining_ns", [(7, 7, 7), (None, None, None)])
def test_ties_and_unknown_estimates_fall_in_random_order(policy: Any, remaining_ns: tuple[int | None, ...]) -> None:
    orders = Counter(policy(cluster(), tasks_of(*remaining_ns), Random(seed)) for seed in range(3000))
    assert len(orders) == 6
    assert all(count == pytest.approx(500, abs=90) for count in orders.values())


def test_a_tie_does_not_move_the_others() -> None:
    orders = {shortest_remaining_time(cluster(), tasks_of(5, 3, 5, 9), Random(seed)) for seed in range(50)}
    assert orders == {("c1", "c0", "c2", "c3"), ("c1", "c2", "c0", "c3")}


@given(
    st.lists(st.none() | st.integers(0, 100), min_size=1, max_size=12),
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_task_eviction_orders_every_task_whatever_the_order_of_the_view(
    remaining_ns: list[int | None], seed: int, shuffler: Random
) -> None:
    tasks = tasks_of(*remaining_ns)
    shuffled = list(tasks)
    shuffler.shuffle(shuffled)
    left = {task.container: 1 << 62 if task.remaining_ns is None else task.remaining_ns for task in tasks}
    for policy in policies.TASK_EVICTION.policies:
        order = policy.function(cluster(), tasks, Random(seed))
        assert sorted(order) == sorted(left)
        assert policy.function(cluster(), tuple(shuffled), Random(seed)) == order
        times = [left[container] for container in order]
        if policy.name in ("srt", "lrt"):
            assert times == sorted(times, reverse=policy.name == "lrt")


# ---- allocation and job selection ----


def decide(allocation: Any, production: int, research: int, **more: Any) -> AllocationDecision:
    return allocation(cluster(queues=queue_views(production, research, **more), containers=16))


def test_two_queue_serves_production_first_and_lets_it_reclaim_whatever_the_capacity() -> None:
    decision = decide(two_queue, 12, 4)
    assert decision == AllocationDecision(("production", "research"), (("production", ("research",)),))
    assert decide(two_queue, 16, 0) == AllocationDecision(("research",), ())


def test_a_single_queue_takes_from_itself_one_container_a_run() -> None:
    (queue, _) = queue_views(16, 0)
    decision = single_queue(cluster(queues=(queue,)))
    assert (decision.order, decision.reclaim) == (("production",), (("production", ("production",)),))
    assert (decision.most_reclaims_in_a_run, decision.resumes_first) == (1, False)


@pytest.mark.parametrize(
    ("production", "research", "order"),
    [(0, 0, ("production", "research")), (4, 0, ("research",)), (3, 12, ("production",)), (4, 12, ())],
)
def test_hard_cap_stops_at_the_capacity(production: int, research: int, order: tuple[str, ...]) -> None:
    assert decide(hard_cap, production, research) == AllocationDecision(order)


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
    assert decide(soft_cap, production, research) == AllocationDecision(order)


def test_soft_cap_serves_a_queue_without_capacity_last() -> None:
    assert decide(soft_cap, 0, 9, capacity=(0, 16)).order == ("research", "production")


def test_fifo_goes_by_submission() -> None:
    assert fifo(cluster(), (job_view("b", 1, 2), job_view("a", 1, 1), job_view("c", 1, 0))) == ("c", "a", "b")


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
        job_view(f"j{i}", 3, i, deadline_ns=deadline_ns, priority=priority, remaining_ns=remaining_ns)
        for i, (deadline_ns, priority, remaining_ns) in enumerate(fields)
    ]
    shuffler.shuffle(jobs)
    dictating = [policy for policy in policies.JOB_EVICTION.policies if policy.dictates is not None]
    assert len(dictating) == 3
    for eviction in dictating:
        order = policies.selection_for(eviction).function(cluster(now_ns), tuple(jobs))
        assert sorted(order) == sorted(job.name for job in jobs)
        assert eviction.function(cluster(now_ns), tuple(jobs), Random(1)) == order[-1]


def deadline_jobs(*fields: tuple[int | None, int | None]) -> tuple[JobView, ...]:
    """Jobs j0, j1, ... of these deadlines and remaining times."""
    return tuple(
        job_view(f"j{i}", 3, i, deadline_ns=deadline_ns, remaining_ns=remaining_ns)
        for i, (deadline_ns, remaining_ns) in enumerate(fields)
    )


def test_earliest_deadline_and_least_laxity_differ_where_much_is_left_to_do() -> None:
    jobs = deadline_jobs((100, 10), (120, 90), (None, 500), (90, None))
    view = cluster(20)
    assert earliest_deadline_first(view, jobs) == ("j3", "j0", "j1", "j2")
    assert [laxity_ns(job, 20) for job in jobs] == [70, 10, None, 70]
    assert least_laxity_first(view, jobs) == ("j1", "j3", "j0", "j2")
    victims = [evict(view, jobs[:2], Random(1)) for evict in (maximum_deadline_first, maximum_laxity_first)]
    assert victims == ["j1", "j0"]


def test_priority_goes_before_the_order_of_submission() -> None:
    jobs = tuple(job_view(f"j{i}", 3, i, priority=level) for i, level in enumerate((0, 7, 7, -3)))
    assert priority(cluster(), jobs) == ("j1", "j2", "j0", "j3")
    assert lowest_priority(cluster(), jobs, Random(1)) == "j3"


def test_the_selection_of_auto() -> None:
    chosen = {policy.name: policies.selection_for(policy).name for policy in policies.JOB_EVICTION.policies}
    assert chosen == {
        **dict.fromkeys(("mr", "lr", "pr"), "fifo"),
        "priority": "priority",
        "mdf": "edf",
        "mlf": "llf",
    }


# ---- placement and resume order ----


def suspended(node: str = "node-1", at_s: int = 0, task: int = 0, remaining_ns: int | None = None) -> SuspendedView:
    return SuspendedView("j", REDUCE, task, node, at_s * SECOND_NS, at_s * SECOND_NS, remaining_ns=remaining_ns)


def node(name: str, free: int, alive: bool = True) -> NodeView:
    return NodeView(name, "rack-1", alive, 4, free)


@pytest.mark.parametrize(
    ("offered", "old", "now_s", "decision"),
    [
        ("node-1", node("node-1", 1), 0, PlacementDecision(True)),
        ("node-2", node("node-1", 0), 1, PlacementDecision(False, holds_until_ns=5 * SECOND_NS)),
        ("node-2", node("node-1", 0), 5, PlacementDecision(True, rank=1)),
        ("node-2", node("node-1", 1), 5, PlacementDecision(False)),
        ("node-2", node("node-1", 0, alive=False), 1, PlacementDecision(True, rank=1)),
    ],
)
def test_prefer_local_holds_out_for_the_old_node(
    offered: str, old: NodeView, now_s: int, decision: PlacementDecision
) -> None:
    view = cluster(now_s * SECOND_NS, nodes=(old, node("node-2", 1)))
    assert prefer_local(view, suspended(), node(offered, 1), options=PreferLocal(delay_s=5.0)) == decision


@pytest.mark.parametrize(
    ("free_at_home", "free_in_rack", "avoids", "in_rack", "in_another"),
    [
        pytest.param(1, 1, (), None, None, id="at home"),
        pytest.param(0, 1, (), 1, None, id="in its rack"),
        pytest.param(0, 0, (), 1, 2, id="no room in its rack"),
        pytest.param(0, 1, ("node-2",), 1, 2, id="its job avoids the node in its rack"),
    ],
)
def test_prefer_local_goes_from_node_to_rack_to_any(
    free_at_home: int, free_in_rack: int, avoids: tuple[str, ...], in_rack: int | None, in_another: int | None
) -> None:
    """Node 1 is its home, in a rack with node 2; node 3 is in another."""
    near, far = node("node-2", free_in_rack), NodeView("node-3", "rack-2", True, 4, 1)
    view = cluster(0, nodes=(node("node-1", free_at_home), near, far))
    task = structs.replace(suspended(), avoids=frozenset(avoids))
    decisions = [prefer_local(view, task, offered) for offered in (near, far)]
    assert [decision.rank if decision.take else None for decision in decisions] == [in_rack, in_another]


TIER = Tier("own", write_bytes_s=100, read_bytes_s=100, network_bytes_s=50)


@pytest.mark.parametrize(
    ("free_at_home", "restores_at_home_s", "restores_there_s", "waited_s", "take", "again_s"),
    [
        pytest.param(1, 0, 0, 99, False, None, id="at home at once"),
        pytest.param(1, 5, 2, 0, True, None, id="sooner elsewhere"),
        pytest.param(1, 5, 4, 0, False, None, id="the network takes 2 s"),
        pytest.param(0, 0, 0, 1, False, 11, id="no container at home yet"),
        pytest.param(0, 0, 0, 3, True, None, id="none for longer than the network takes"),
        pytest.param(0, 0, 6, 3, False, 12.5, id="the device there is busy"),
    ],
)
def test_cost_restores_where_it_is_sooner(
    free_at_home: int, restores_at_home_s: int, restores_there_s: int, waited_s: int, take: bool, again_s: float | None
) -> None:
    """An image of 100 bytes: 1 s to read, 2 s over the network; it is 10 s."""
    now_ns = 10 * SECOND_NS
    old, new = (
        NodeView(name, "rack-1", True, 2, free, tier=TIER, restores_until_ns=now_ns + until_s * SECOND_NS)
        for name, free, until_s in (("node-1", free_at_home, restores_at_home_s), ("node-2", 1, restores_there_s))
    )
    asked_ns = now_ns - waited_s * SECOND_NS
    task = SuspendedView("j", MAP, 0, "node-1", asked_ns, asked_ns, image_bytes=100)
    view = cluster(now_ns, nodes=(old, new))
    assert cost(view, task, old).take
    assert cost(view, task, new).take == take
    if again_s is not None:
        again_ns = int(again_s * SECOND_NS) + 1
        assert cost(view, task, new).holds_until_ns == again_ns
        assert not cost(cluster(again_ns - 2, nodes=(old, new)), task, new).take
        assert cost(cluster(again_ns, nodes=(old, new)), task, new).take
    assert cost(cluster(now_ns, nodes=(new,)), task, new).take


def test_the_lowest_checkpoint_cost_counts_those_before_it_on_the_device() -> None:
    costs = [("node-1", 10), ("node-1", 11), ("node-2", 15), ("node-1", 5), ("node-3", 40)]
    tasks = tuple(
        structs.replace(task_view(number), node=node_name, image_overhead_ns=overhead, image_dump_ns=4)
        for number, (node_name, overhead) in enumerate(costs)
    )
    assert lowest_checkpoint_cost(cluster(), tasks, Random(1)) == ("c3", "c0", "c2", "c1", "c4")
    unknown = tuple(task_view(number) for number in range(3))
    assert sorted(lowest_checkpoint_cost(cluster(), unknown, Random(1))) == ["c0", "c1", "c2"]


def test_any_number_of_queues_each_preempts_those_below_it() -> None:
    """The bands of adaptive-checkpointing: two-queue with three of them."""
    queues = tuple(QueueView(name, rank, 2, 6, 2, 1) for rank, name in enumerate(("production", "middle", "free")))
    decision = two_queue(cluster(queues=queues))
    assert decision.order == ("production", "middle", "free")
    assert decision.reclaim == (("production", ("free", "middle")), ("middle", ("free",)))


def test_the_orders_of_resuming() -> None:
    tasks = tuple(suspended(at_s=at_s, task=at_s, remaining_ns=left) for at_s, left in ((3, 7), (1, 2), (2, None)))
    assert [task.task for task in suspended_first(cluster(), tasks)] == [1, 2, 3]
    assert [task.task for task in longest_remaining_first(cluster(), tasks)] == [2, 3, 1]


# ---- a user's own ----


def test_a_policy_is_found_by_module_and_function(tmp_path: Path) -> None:
    (tmp_path / "my_eviction.py").write_text("def last(view, jobs, random):\n    return jobs[-1].name\n")
    policy = find_policy(policies.JOB_EVICTION, Choice(name="my_eviction:last"), tmp_path)
    assert choose_job(policy, cluster(), jobs_of(1, 2), Random(1)) == "j1"
    assert find_policy(policies.JOB_EVICTION, Choice(name="mr"), tmp_path).function is most_resources


OWN_RECORD = """
from emulator.policies.policy import MechanismPolicy
from emulator.policies.views import MechanismDecision
from emulator.vocabulary import Frozen, Mechanism

class Options(Frozen):
    most: int = 1

def choose(view, task, options):
    few = (task.keys_done or 0) <= options.most
    return MechanismDecision(Mechanism.KILL if few else Mechanism.SUSPEND, (("keys_done", task.keys_done or 0),))

AMONG = frozenset({Mechanism.KILL, Mechanism.SUSPEND})
KILL_THE_YOUNG = MechanismPolicy("x", choose, "mine", among=AMONG, options=Options)
"""


def test_a_record_of_the_users_own_takes_options(tmp_path: Path) -> None:
    (tmp_path / "my_record.py").write_text(OWN_RECORD)
    choice = Choice.model_validate({"name": "my_record:KILL_THE_YOUNG", "most": 3})
    policy = find_policy(policies.MECHANISM, choice, tmp_path)
    assert policy.name == "my_record:KILL_THE_YOUNG"
    assert choose_mechanism(policy, cluster(), task_view(0), True).mechanism is Mechanism.KILL
    for wrong, says in (
        ({"most": "x"}, "most: must be a whole number, not text"),
        ({"mist": 1}, "mist: unknown key; did you mean 'most'"),
    ):
        with pytest.raises(ConfigError, match=says):
            find_policy(policies.MECHANISM, Choice.model_validate({"name": choice.name, **wrong}), tmp_path)
    with pytest.raises(ConfigError, match=r"task_eviction.most: 'srt' takes no options"):
        find_policy(policies.TASK_EVICTION, Choice.model_validate({"name": "srt", "most": 1}), tmp_path)


def test_a_policy_that_raises_is_named(tmp_path: Path) -> None:
    (tmp_path / "my_raising.py").write_text("def bad(view, jobs, random):\n    return jobs[99].name\n")
    policy = find_policy(policies.JOB_EVICTION, Choice(name="my_raising:bad"), tmp_path)
    where = re.escape(f"{tmp_path / 'my_raising.py'}:2: job_eviction policy my_raising:bad raised IndexError")
    with pytest.raises(NatjamError, match=f"^{where}"):
        choose_job(policy, cluster(), jobs_of(1), Random(1))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def mine():\n    return 1\n", ":1: task_eviction policy {0}:mine raised TypeError: mine() takes 0"),
        ("def mine(view, tasks, random):\n    return 7\n", "policy {0}:mine returned 7; it must return containers"),
        (
            "def mine(view, tasks, random):\n    raise SystemExit\n",
            ":2: task_eviction policy {0}:mine raised SystemExit: ",
        ),
    ],
)
def test_a_run_with_a_broken_policy_ends_with_one_message(tmp_path: Path, body: str, said: str) -> None:
    module = f"my_broken_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(body)
    (tmp_path / "fig4.yaml").write_text(FIG4.read_text())
    options = [f"--set=scheduler.task_eviction={module}:mine", "--engine=sim", f"--out={tmp_path / 'out'}"]
    done = run_natjam("run", tmp_path / "fig4.yaml", *options, status=1)
    assert isinstance(done.exception, SystemExit)
    line = done.stderr.splitlines()[-1]
    assert line.startswith("natjam: ")
    assert said.format(module) in line


def returning(axis: Any, value: Any) -> Any:
    return axis.own("mine:policy", lambda *arguments: value)


MINE = r".*mine:policy returned"


@pytest.mark.parametrize("nonsense", [None, 3, "stranger", ["j0"], b"j0", float("nan")])
def test_a_victim_that_is_no_job_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"job eviction {MINE}"):
        choose_job(returning(policies.JOB_EVICTION, nonsense), cluster(), jobs_of(1, 2), Random(1))


@pytest.mark.parametrize("nonsense", [None, 3, "c0", ("c0", "c0"), ("c9",), [["c0"]], {"c0"}, (None,), {"c0": 1}])
def test_an_order_that_is_no_order_of_the_tasks_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"task eviction {MINE}"):
        order_tasks(returning(policies.TASK_EVICTION, nonsense), cluster(), tasks_of(1, 2), Random(1))
    with pytest.raises(PolicyError, match=f"job selection {MINE}"):
        order_jobs(returning(policies.JOB_SELECTION, nonsense), cluster(), jobs_of(1, 1))


@pytest.mark.parametrize("fewer", [(), ["c1"], ("c1", "c0")])
def test_an_order_may_leave_tasks_out(fewer: Any) -> None:
    assert order_tasks(returning(policies.TASK_EVICTION, fewer), cluster(), tasks_of(1, 2), Random(1)) == tuple(fewer)


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        ("production",),
        AllocationDecision(("stranger",)),
        AllocationDecision(("production", "production")),
        AllocationDecision("production"),  # type: ignore
        AllocationDecision((), ("production",)),  # type: ignore
        AllocationDecision((), (("stranger", ("research",)),)),
        AllocationDecision((), (("production", ("stranger",)),)),
        AllocationDecision((), (("production", "research"),)),  # type: ignore
        AllocationDecision((), None),  # type: ignore
        AllocationDecision((), most_reclaims_in_a_run=0),
        AllocationDecision((), most_reclaims_in_a_run=1.5),  # type: ignore
    ],
)
def test_an_allocation_of_other_queues_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"allocation {MINE}"):
        allocate(returning(policies.ALLOCATION, nonsense), cluster(queues=queue_views(1, 1)))


def test_what_is_refused_is_shown_cut_short() -> None:
    with pytest.raises(PolicyError) as raised:
        order_tasks(returning(policies.TASK_EVICTION, ("c" * 10_000,)), cluster(), tasks_of(1), Random(1))
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("nonsense", [None, "kill", Mechanism.KILL, MechanismDecision("kill")])  # type: ignore
def test_a_mechanism_that_is_none_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"mechanism {MINE}"):
        choose_mechanism(returning(policies.MECHANISM, nonsense), cluster(), task_view(0), True)


@pytest.mark.parametrize("nonsense", [None, True, "node-1"])
def test_a_placement_that_is_none_is_refused(nonsense: Any) -> None:
    with pytest.raises(PolicyError, match=f"placement {MINE}"):
        place(returning(policies.PLACEMENT, nonsense), cluster(), suspended(), node("node-1", 1))


def test_a_resume_order_that_loses_a_task_is_refused() -> None:
    tasks = (suspended(task=0), suspended(task=1))
    for nonsense in (None, tasks[:1], (tasks[0], tasks[0]), ("a", "b")):
        with pytest.raises(PolicyError, match=f"resume order {MINE}"):
            order_suspended(returning(policies.RESUME_ORDER, nonsense), cluster(), tasks)
