"""YARN's CapacityScheduler: its ideal assignment, its pace, whom it takes, and the recorded runs of a real one."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manager_bench import Bench, sent
from simulated import SECOND_NS, make_job, make_settings, run_checked

from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import all_figures
from analysis.reproduce.run import planned
from analysis.whole_run import run_experiment
from emulator.core.effects import Effect, SetTimer
from emulator.core.messages import (
    Ask,
    ContainerReport,
    ContainerState,
    KillContainer,
    Message,
    Outcome,
    StartContainer,
    Tick,
    TimerFired,
)
from emulator.core.settings import Settings
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies import axes as policies
from emulator.policies.resources import PARTS, plus
from emulator.policies.schedulers.protocol import (
    GroupFacts,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    QueueFacts,
    SchedulerStarted,
)
from emulator.policies.task_eviction import newest
from emulator.policies.views import ClusterView, Known, TaskView
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.capacity import CapacityScheduler, Request
from emulator.policies.yarn.ideal import Need, assign
from emulator.policies.yarn.monitor import Marks, PreemptionMonitor
from emulator.policies.yarn.options import (
    OrderingPolicy,
    YarnOptions,
    YarnParent,
    YarnPreemption,
    YarnQueue,
    YarnQueueSettings,
)
from emulator.policies.yarn.scheduler import YarnScheduler
from emulator.policies.yarn.tree import tree_of
from emulator.policies.yarn.victims import Application, Held, select
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import REDUCE
from tests.commands import invoked

TUNED = YarnPreemption(1, 1, 1, 1, 0)
UNIT = 1024


def units(*counts: int) -> list[tuple[int]]:
    """So many containers each."""
    return [(count * UNIT,) for count in counts]


def need_of(name: str, guaranteed: int, maximum: int, used: int, pending: int, *children: Need) -> Need:
    """A queue as the policy sees it, in containers."""
    of_queue = units(guaranteed, maximum, used, pending)
    return Need(name, of_queue[0], of_queue[1], of_queue[2], of_queue[3], children=children)


def job(name: str, containers: int, pending: int = 0, priority: int = 0) -> Application:
    """An application that holds so many containers, the first of them its master's; the last is the newest."""
    held = [
        Held(f"{name}/{number}", (UNIT,), "node", int(number > 0), number, number == 0, number)
        for number in range(containers)
    ]
    return Application(name, priority, (pending * UNIT,), held)


def taken(preemption: YarnPreemption, containers: int, *queues: tuple[Need, list[Application]]) -> dict[str, int]:
    """How many containers a round takes of which job; ``queues``: each with its jobs, the last of its order first."""
    root = need_of("root", containers, containers, 0, 0, *(need for need, _ in queues))
    jobs = {need.name: jobs for need, jobs in queues}
    found = select(root, jobs, {}, preemption, Amounts((containers * UNIT,)))
    return dict(Counter(name.split("/")[0] for name in (*found.across_queues, *found.inside_queues)))


def two(research: int, production: int, pending: int) -> list[tuple[Need, list[Application]]]:
    """The recorded cluster: production is guaranteed 12 of 48, research 36."""
    return [
        (need_of("production", 12, 48, production, pending), [job("p", production, pending)]),
        (need_of("research", 36, 48, research, 0), [job("r", research)]),
    ]


class TestAmounts:
    @pytest.mark.parametrize(
        ("preemption", "held", "count"),
        [
            (YarnPreemption(), (48, 0, 1), 1),  # a fifth of a container is one
            (YarnPreemption(), (47, 1, 11), 1),  # 10% of the cluster, a fifth of that
            (YarnPreemption(natural_termination_factor=1), (47, 1, 11), 4),  # 4.8, of which four are whole
            (YarnPreemption(total_preemption_per_round=1), (47, 1, 11), 3),  # a fifth of 11
            (TUNED, (47, 1, 11), 11),
            (TUNED, (47, 1, 5), 5),
            (TUNED, (36, 12, 20), 0),  # production has its guarantee: no claim beyond it
            (TUNED, (40, 8, 20), 4),
            (YarnPreemption(), (39, 9, 3), 0),  # within 10% of 36
            (YarnPreemption(), (40, 8, 4), 1),
            (TUNED, (48, 0, 0), 0),  # nobody wants it
            (YarnPreemption(total_preemption_per_round=0), (48, 0, 1), 0),
        ],
    )
    def test_a_round(self, preemption: YarnPreemption, held: tuple[int, int, int], count: int):
        assert taken(preemption, 48, *two(*held)) == ({"r": count} if count else {})

    def test_the_last_job_of_the_queue_gives_first(self):
        research = need_of("research", 36, 48, 48, 9), [job("new", 3, 9), job("old", 37), job("urgent", 8, 0, 1)]
        production = need_of("production", 12, 48, 0, 3), [job("p", 0, 3)]
        assert taken(TUNED, 48, production, research) == {"new": 2, "old": 1}, "not its master"

    def test_several_queues_give_in_proportion_to_what_they_hold_too_much(self):
        queues = (
            (need_of("a", 24, 48, 0, 40), [job("ja", 0, 40)]),
            (need_of("b", 12, 48, 30, 0), [job("jb", 30)]),
            (need_of("c", 12, 48, 18, 0), [job("jc", 18)]),
        )
        assert taken(TUNED, 48, *queues) == {"jb": 18, "jc": 6}
        half = YarnPreemption(1, 1, 0.25, 1, 0)  # 12 of the 24
        assert taken(half, 48, *queues) == {"jb": 9, "jc": 3}

    def test_a_queue_without_a_guarantee_has_what_the_others_leave(self):
        needs = [need_of("a", 0, 48, 30, 10), need_of("b", 48, 48, 10, 8)]
        assign(need_of("root", 48, 48, 40, 18, *needs), TUNED, False, Amounts((48 * UNIT,)))
        assert [need.ideal for need in needs] == units(30, 18), "no more than it holds, which is above 0"

    @given(st.data())
    def test_an_ideal_assignment_is_one(self, data: st.DataObject):
        total = data.draw(st.integers(1, 200))
        needs, left = [], total
        for number in range(data.draw(st.integers(1, 5))):
            guaranteed = data.draw(st.integers(0, left))
            left -= guaranteed
            maximum = data.draw(st.integers(guaranteed, total))
            used = data.draw(st.integers(0, maximum))
            pending = data.draw(st.integers(0, maximum - used))
            needs.append(need_of(str(number), guaranteed, maximum, used, pending))
        if sum(need.used[0] for need in needs) > total * UNIT:
            return
        assign(need_of("root", total, total, 0, 0, *needs), TUNED, False, Amounts((total * UNIT,)))
        assert sum(need.ideal[0] for need in needs) <= total * UNIT
        for need in needs:
            assert min(need.used, need.guaranteed) <= need.ideal <= plus(need.used, need.pending)
            assert need.ideal <= max(need.guaranteed, need.used)
            assert need.ideal <= need.maximum


class TestSizes:
    """10 cpu, 40 GB and 4 gpu; production is guaranteed half of it."""

    WHOLE = (10_000, 40_000, 4_000)

    @pytest.mark.parametrize(
        ("research", "production", "asked"),
        [
            ((10_000, 10_000, 0), (2_000, 1_000, 0), (2_000, 0, 0)),
            # An offer is of all resources: with the gpu that nobody wants production has its guarantee after the first.
            ((10_000, 40_000, 0), (8_000, 8_000, 0), (4_000, 15_000, 0)),
            ((5_000, 5_000, 0), (8_000, 8_000, 0), (0, 0, 0)),  # within its guarantee
            ((2_000, 5_000, 4_000), (1_000, 1_000, 1_000), (0, 0, 1_000)),  # gpu is its dominant resource
        ],
    )
    def test_the_larger_share_decides(self, research: tuple, production: tuple, asked: tuple):
        """What a round asks for, if research holds and production wants so much."""
        amounts = Amounts(self.WHOLE, (PARTS, 1, PARTS))
        half, none = amounts.part(self.WHOLE, Fraction(1, 2)), (0, 0, 0)
        needs = Need("p", half, self.WHOLE, none, production), Need("r", half, self.WHOLE, research, none)
        assign(Need("root", self.WHOLE, self.WHOLE, none, none, children=needs), TUNED, False, amounts)
        assert tuple(max(0, each) for each in needs[1].to_obtain) == asked


class TestInsideAQueue:
    def of(self, low: int, high: int, pending: int, priority: int = 1) -> tuple[Need, list[Application]]:
        return need_of("q", 48, 48, low + high, pending), [job("low", low), job("high", high, pending, priority)]

    def test_off_unless_asked_for(self):
        assert taken(YarnPreemption(), 48, self.of(48, 0, 1)) == {}

    def test_a_job_takes_from_one_of_lower_priority(self):
        preemption = YarnPreemption(intra_queue=True)
        assert taken(preemption, 48, self.of(48, 0, 1)) == {"low": 1}
        assert taken(preemption, 48, self.of(47, 1, 11)) == {"low": 4}, "10% of the cluster a round, whole ones"
        assert taken(preemption, 48, self.of(47, 1, 11, priority=0)) == {}, "not from one of its own"

    def test_no_more_than_a_fifth_of_the_guarantee(self):
        tuned = YarnPreemption(1, 1, 1, 1, 0, intra_queue=True)
        assert taken(tuned, 48, self.of(47, 1, 30)) == {"low": 10}, "9.6"
        wide = YarnPreemption(1, 1, 1, 1, 0, True, intra_queue_max_allowable_limit=1)
        assert taken(wide, 48, self.of(47, 1, 30)) == {"low": 30}

    def test_not_below_half_of_the_guarantee(self):
        assert taken(YarnPreemption(intra_queue=True), 48, self.of(20, 1, 11)) == {}


class TestTheList:
    def test_a_container_is_taken_when_it_has_waited(self):
        marks = Marks(3 * SECOND_NS, 15 * SECOND_NS)
        s = SECOND_NS
        assert [marks.round(["a"], at * s) for at in (0, 3, 6, 9, 12)] == [[]] * 5
        assert marks.round(["a", "b"], 15 * s) == ["a"]
        assert marks.since_ns == {"b": 15 * s}

    def test_one_that_is_not_chosen_any_more_is_forgotten_after_twice_the_wait(self):
        s = SECOND_NS
        for away, due in ((27, ["a"]), (36, [])):
            marks = Marks(3 * SECOND_NS, 15 * SECOND_NS)
            marks.round(["a"], 0)
            assert marks.round(["a"], away * s) == due

    def test_without_a_wait_it_is_taken_the_second_time(self):
        marks = Marks(SECOND_NS, 0)
        assert marks.round(["a"], 0) == []
        assert marks.round(["a"], SECOND_NS) == ["a"]


def test_newest_first():
    tasks = tuple(
        TaskView(f"container-{number:06d}", "j", REDUCE, "node-1", at_ns)
        for number, at_ns in ((3, 20), (999_999, 20), (1_000_000, 20), (1, 30))
    )
    order = newest(ClusterView(0, Known((), ())), tasks, Random(1))
    assert [int(container[10:]) for container in order] == [1, 1_000_000, 999_999, 3]


# ---- the machines ----


def yarn(options: YarnOptions, mechanism: str = "kill", **settings: object) -> Settings:
    made = make_settings(mechanism=mechanism, task_eviction="newest", **settings)  # type: ignore[arg-type]
    queues = {"production": YarnQueue(0.25), "research": YarnQueue(0.75)}
    options = msgspec.structs.replace(options, queues=queues)
    allocation = policies.ALLOCATION.by_name["yarn-capacity"].with_options(options)
    return dataclasses.replace(made, scheduler=dataclasses.replace(made.scheduler, allocation=allocation))


class YarnBench(Bench):
    timer: SetTimer | None = None
    """The last one that the ResourceManager has set: for the next round."""

    def __call__(self, message: Message) -> list[Effect]:
        effects = super().__call__(message)
        self.timer = next((each for each in reversed(effects) if isinstance(each, SetTimer)), self.timer)
        return effects

    def round(self) -> list:
        """The next one; returns the kills that the node is told of at once, which are none."""
        timer, self.timer = self.timer, None
        if timer is None:
            return sent(self(Tick(self.now_ns + SECOND_NS)), KillContainer)
        self.now_ns = max(self.now_ns, timer.at_ns - SECOND_NS)
        return sent(self(TimerFired(timer.name, timer.generation, timer.at_ns)), KillContainer)

    def full(self) -> list[str]:
        """Research holds everything, production waits for its master; research's reduces, the newest last."""
        self.running_job("r", Ask(((REDUCE, 3),)))
        while self.timer is not None:
            self.round()
        self.submit("p", "production")
        held = [held for held in self.machine.state.containers.values() if held.group.name == REDUCE]
        return [one.id for one in held]


def report_of(bench: Bench, container: str, outcome: Outcome) -> ContainerReport:
    held = bench.machine.state.containers[container]
    return ContainerReport(held.id, held.job, held.group.name, held.node, 9, ContainerState.DONE, outcome=outcome)


def test_a_master_that_ends_before_its_scheduler_hears_of_it_is_given_again():
    bench = Bench(yarn(YarnOptions(), news="at-once"))
    bench.node()
    (first,) = sent(bench.submit("r"), StartContainer)
    effects = bench.node("node-1", report_of(bench, first.container, Outcome.CRASHED))
    (second,) = sent([*effects, *bench.node()], StartContainer)
    assert second.container != first.container


class TestTakingByName:
    def test_one_container_a_heartbeat(self):
        bench = Bench(yarn(YarnOptions(), containers=8))
        bench.submit("r")
        bench.node()
        bench.ask("r", Ask(((REDUCE, 5),)))
        for held in (2, 3, 4):
            bench.node()
            assert len(bench.machine.state.containers) == held
        two = Bench(yarn(YarnOptions(offswitch_per_heartbeat=2), containers=8))
        two.submit("r")
        two.node()
        two.ask("r", Ask(((REDUCE, 5),)))
        two.node()
        assert len(two.machine.state.containers) == 3

    def test_a_kill_waits_for_the_nodes_heartbeat(self):
        bench = YarnBench(yarn(YarnOptions(100, TUNED), containers=4))
        reduces = bench.full()
        assert bench.round() == []
        assert bench.round() == []
        queues = {queue.name: queue.used for queue in bench.machine.state.queue_views()}
        assert queues == {"production": 0, "research": 3}, "gone for its queue"
        told = bench.node()
        assert [kill.container for kill in sent(told, KillContainer)] == [reduces[-1]], "the newest"
        assert sent(told, StartContainer) == [], "and still there for its node"
        assert bench.round() == bench.round() == [], "nobody else has to go for it"
        assert not sent(bench.node(), KillContainer)
        freed = bench.node("node-1", report_of(bench, reduces[-1], Outcome.KILLED))
        assert [start.job for start in sent(freed, StartContainer)] == ["p"]

    def test_a_round_follows_a_change_though_nothing_is_requested(self):
        """It may take containers too, where a queue's ideal assignment is less than it holds; if it does not, the next
        one follows the next change."""
        bench = YarnBench(yarn(YarnOptions(100, TUNED), containers=4))
        bench.running_job("r", Ask(((REDUCE, 3),)))
        assert bench.timer is not None
        bench.round()
        assert bench.timer is None
        held = next(each for each in bench.machine.state.containers.values() if each.group.name == REDUCE)
        bench.node("node-1", report_of(bench, held.id, Outcome.SUCCEEDED))
        assert bench.timer is not None

    @pytest.mark.parametrize("mechanism", ["checkpoint", "suspend"])
    def test_a_job_is_asked_for_that_container(self, mechanism: str):
        bench = YarnBench(yarn(YarnOptions(100, TUNED), mechanism, containers=4))
        reduces = bench.full()
        bench.round()
        bench.round()
        answer = bench.told("r", Ask())
        assert (answer.named, answer.reclaim) == ((reduces[-1],), 0)
        for _ in range(13):
            bench.tick()
        killed = sent(bench.node(), KillContainer)
        assert [kill.container for kill in killed] == [reduces[-1]], "not given within kill_timeout"

    def test_what_a_job_has_given_is_not_killed(self):
        bench = YarnBench(yarn(YarnOptions(100, TUNED), "checkpoint", containers=4))
        reduces = bench.full()
        bench.round()
        bench.round()
        bench.ask("r", Ask())
        freed = bench.node("node-1", report_of(bench, reduces[-1], Outcome.CHECKPOINTED))
        assert [start.job for start in sent(freed, StartContainer)] == ["p"]
        for _ in range(15):
            bench.tick()
        assert not sent(bench.node(), KillContainer)

    @pytest.mark.parametrize(
        "preemption", [None, msgspec.structs.replace(TUNED, observe_only=True)], ids=["off", "observes only"]
    )
    def test_nothing_is_taken_where_the_monitor_is_off(self, preemption: YarnPreemption | None):
        bench = YarnBench(yarn(YarnOptions(100, preemption), containers=4))
        bench.full()
        assert bench.timer is None

    def test_every_three_seconds_as_hadoop_has_it(self):
        bench = YarnBench(yarn(YarnOptions(), containers=4))
        bench.full()
        times = []
        for _ in range(3):
            assert bench.timer is not None
            times.append(bench.timer.at_ns)
            bench.round()
        assert [later - earlier for earlier, later in pairwise(times)] == [3 * SECOND_NS] * 2

    @pytest.mark.parametrize("mechanism", ["kill", "checkpoint", "suspend"])
    @pytest.mark.parametrize("every_heartbeat", [False, True])
    def test_a_cluster(self, mechanism: str, every_heartbeat: bool):
        jobs = (
            make_job("r", "research", 0, (), (40.0,) * 15),
            make_job("p", "production", 20, (), (8.0,) * 4),
        )
        settings = yarn(YarnOptions(1, TUNED), mechanism, nodes=4, containers=4)
        found = run_checked(settings, jobs, every_heartbeat=every_heartbeat)
        outcomes = Counter(attempt.state.name for task in found.masters["r"].tasks.walkers for attempt in task.attempts)
        assert outcomes["KILLED"] == (4 if mechanism == "kill" else 0), "production's guarantee: a master and three"
        assert sum(outcomes.values()) == (15 if mechanism == "suspend" else 19)


# ---- a real YARN ----


@pytest.mark.parametrize("run", ["alone", "wait", "stock", "tuned"])
def test_the_recorded_runs(tmp_path: Path, run: str):
    """Each job within 5%, preempted containers within one, lost work within 10% (seed 1)."""
    figure = all_figures()["yarn/recorded"]
    claims = all_claims()
    for variant in planned([figure], "sim", None, quick=True)[figure.id]:
        if variant.name.startswith(f"yarn-recorded-{run}"):
            name = variant.name.removeprefix("yarn-recorded-")
            out = tmp_path / name
            out.mkdir()
            summary = run_experiment(variant.experiment, out, lambda status: None)
            assert summary["work"]["useful_s"] > 300, "ends that only heartbeats tell are told"
            for cell in figure.cells.values():
                if cell.variant == name and cell.value is not None:
                    _, of, value = cell.value.split(".")
                    measured = next(job[value] for job in summary["jobs"] if job["name"] == of)
                    claim = claims[cell.claim or ""]
                    published = claim.published_of(cell.part)
                    assert published is not None
                    if "within" in claim.accept:
                        assert measured == pytest.approx(published, rel=claim.accept["within"]), cell
                    else:
                        assert abs(measured - published) <= claim.accept["within_absolute"], cell


class TestWhy:
    def test_explain_says_it(self, tmp_path: Path):
        preemption = {"interval_s": 1, "max_wait_before_kill_s": 1, "total_preemption_per_round": 1}
        preemption |= {"natural_termination_factor": 1, "max_ignored_over_capacity": 0}
        queues = {"production": {"capacity": 0.25}, "research": {"capacity": 0.75}}
        lengths = {"research": (0.0, 15, 40.0), "production": (20.0, 4, 8.0)}
        jobs = [
            {"name": name, "queue": name, "submit_s": at, "reduces": count, "reduce_s": length, "key_s": 1.0}
            for name, (at, count, length) in lengths.items()
        ]
        allocation = {"name": "yarn-capacity", "queues": queues, "preemption": preemption}
        scheduler = {"allocation": allocation, "job_selection": "priority", "task_eviction": "newest"}
        experiment = {
            "name": "why",
            "engine": "sim",
            "overheads": "yarn-3",
            "cluster": {"nodes": 4, "containers_per_node": 4},
            "scheduler": {**scheduler, "mechanism": "kill"},
            "workload": {"jobs": jobs},
        }
        path, out = tmp_path / "why.yaml", tmp_path / "run"
        path.write_text(dump_yaml(experiment))
        assert invoked("run", path, "--out", out).exit_code == 0
        found = json.loads(invoked("explain", out, "--json").output)
        whys = [each["why"] for each in found["evictions"]]
        assert len(whys) == 4
        assert whys[0].endswith("is entitled to 15 containers; this round takes 1 container for production"), (
            "its master's"
        )
        assert whys[0].startswith("yarn-capacity: queue research holds 16 containers")
        (wait, *_) = found["let_start"]
        assert wait["job"] == "production"
        assert "1 container marked, killed if still wanted after 1 s (max_wait_before_kill)" in wait["why"]
        assert wait["until_s"] < 45, "its queue lacks nothing then"
        shown = invoked("explain", out).output
        assert "  queue research is guaranteed 12 containers, holds 16 containers" in shown
        assert "beyond that: 1 killed" in shown
        assert "itself" not in shown, "YARN takes containers for a queue, for no job of it"


class TestNodes:
    def test_a_full_node_gives_only_what_resumes_there_in_what_it_holds(self):
        scheduler = CapacityScheduler(tree_of(YarnOptions(queues={"q": YarnQueue(1)}))["root"], (UNIT,), 100)
        scheduler.add_node("0", (UNIT,))
        application = scheduler.submit("j", scheduler.root.children[0], 0)
        scheduler.ask(Request(application, "0", (UNIT,), 1, 1))
        scheduler.heartbeat("0")
        scheduler.add_node("1", (UNIT,))
        scheduler.least = (0,)
        scheduler.ask(Request(application, "nothing", (0,), 1, 2))
        assert scheduler.heartbeat("0") == []
        assert scheduler.awaited == []
        scheduler.ask(Request(application, "stopped", (UNIT,), 0, 3, only_on="0", holds=(UNIT,)))
        assert scheduler.awaited == ["0"]
        assert scheduler.heartbeat("0")[0].request.name == "stopped"

    def test_without_nodes_nothing_is_taken(self):
        scheduler = YarnScheduler(YarnOptions(100, TUNED, queues={"q": YarnQueue(1)}))
        group = GroupFacts("reduce", 1, True)
        scheduler.notify(
            [
                SchedulerStarted(1, 1, (QueueFacts("q", 1, 1),), mechanism="kill"),
                NodeAdded("0", "", 1),
                JobSubmitted("j", "q", 0, (group,), None, 0),
                JobRequests("j", 1, {"reduce": 1}, (), (), 0),
            ],
            0,
        )
        until_ns = scheduler.notify([NodeRemoved("0")], 1).valid_until_ns
        assert until_ns is not None
        assert not scheduler.decide(until_ns).decisions

    def test_a_job_waits_for_ever_for_more_than_its_queue_may_hold(self, tmp_path: Path):
        experiment = """\
name: waits
engine: sim
overheads: none
cluster: {node_groups: [{count: 1, resources: {cpu: 16}}]}
scheduler:
  mechanism: kill
  allocation:
    name: yarn-capacity
    queues: {production: {capacity: 0.25, maximum: 0.25}, research: {capacity: 0.75}}
workload:
  jobs:
  - {name: large, queue: production, reduces: 1, reduce_s: 5, resources: {cpu: 4}}
  - {name: other, queue: research, reduces: 2, reduce_s: 5, resources: {cpu: 4}}
"""
        (tmp_path / "e.yaml").write_text(experiment)
        with pytest.raises(RunError, match="no task runs, and large wait for containers that they cannot get"):
            simulated_history(resolve(load_experiment(tmp_path / "e.yaml")))


ADMITS = """\
name: admits
engine: sim
overheads: none
cluster: {node_groups: [{count: 2, resources: {cpu: 8}}]}
scheduler:
  mechanism: wait
  allocation:
    name: yarn-capacity
    queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}
    settings: SETTINGS
workload:
  jobs:
  - {name: large, queue: research, reduces: 2, reduce_s: 50, resources: {cpu: 8}}
  - {name: small, queue: production, submit_s: 20, reduces: 1, reduce_s: 5}
"""


@pytest.mark.parametrize(("queues", "is_in_time"), [(("production", "research"), True), (("production",), False)])
def test_who_limits_application_masters_has_yarns_admission(
    queues: tuple[str, ...], is_in_time: bool, tmp_path: Path
) -> None:
    """Else a job waits whose ApplicationMaster would leave no node for a task of eight cores."""
    settings = ", ".join(f"{queue}: {{maximum_am_resource_percent: 1}}" for queue in queues)
    (tmp_path / "e.yaml").write_text(ADMITS.replace("SETTINGS", f"{{{settings}}}"))
    history = simulated_history(resolve(load_experiment(tmp_path / "e.yaml")))
    small_ns, large_ns = (
        next(job.finish_ns or 0 for job in history.jobs if job.name == name) for name in ("small", "large")
    )
    assert (small_ns < large_ns) == is_in_time


class TestTrees:
    """p has x and y, each a quarter of 96 containers; z has half of them."""

    PARENTS: ClassVar = {"p": YarnParent(("x", "y"))}
    QUEUES: ClassVar = {"x": YarnQueue(0.25), "y": YarnQueue(0.25), "z": YarnQueue(0.5)}

    def taken(self, held: dict[str, int], pending: dict[str, int], **options: Any) -> dict[str, int]:
        """What a round takes of the one job of each queue."""
        queues = tree_of(YarnOptions(queues=self.QUEUES, **options))
        scheduler = CapacityScheduler(queues["root"], (UNIT,), 100)
        for node in range(2):
            scheduler.add_node(str(node), (48 * UNIT,))
        for name in self.QUEUES:
            application = scheduler.submit(f"j{name}", queues[name], 0)
            for number in range(held[name]):
                scheduler.ask(Request(application, str(number), (UNIT,), 1, number))
        for node in (*scheduler.nodes, *scheduler.nodes):
            scheduler.heartbeat(node)
        for name, count in pending.items():
            for number in range(100, 100 + count):
                scheduler.ask(Request(queues[name].applications[0], str(number), (UNIT,), 1, number))
        monitor = PreemptionMonitor(scheduler, TUNED)
        monitor.round(0)
        return dict(Counter(request.application.name for request in monitor.round(10**9).killed))

    def test_what_a_queue_leaves_goes_to_those_in_its_parent_first(self):
        held = {"x": 48, "y": 0, "z": 48}
        assert self.taken(held, {"z": 10}, parents=self.PARENTS) == {}, "p has its guarantee: y leaves x its part"
        assert self.taken({"x": 8, "y": 40, "z": 48}, {"x": 16}, parents=self.PARENTS) == {"jy": 16}

    def test_nothing_is_taken_where_it_is_disabled(self):
        held, pending = {"x": 60, "y": 0, "z": 36}, {"z": 12}
        assert self.taken(held, pending, parents=self.PARENTS) == {"jx": 12}
        assert self.taken(held, pending, parents=self.PARENTS, disable_preemption=("x",)) == {}
        settings = {"p": YarnQueueSettings(disable_preemption=True)}
        assert self.taken(held, pending, parents=self.PARENTS, settings=settings) == {}, "inherited"

    @pytest.mark.parametrize(("settings", "first"), [({}, "z"), ({"p": YarnQueueSettings(priority=1)}, "p")])
    def test_the_order_of_queues(self, settings: dict[str, YarnQueueSettings], first: str):
        by_priority = YarnQueueSettings(ordering_policy=OrderingPolicy.PRIORITY_UTILIZATION)
        options = YarnOptions(queues=self.QUEUES, parents=self.PARENTS, settings={"root": by_priority, **settings})
        queues = tree_of(options)
        scheduler = CapacityScheduler(queues["root"], (UNIT,), 1)
        scheduler.add_node("0", (96 * UNIT,))
        held = scheduler.submit("held", queues["x"], 0)
        scheduler.ask(Request(held, "1", (UNIT,), 1, 1))
        scheduler.heartbeat("0")
        for name in ("y", "z"):
            scheduler.ask(Request(scheduler.submit(name, queues[name], 0), "1", (UNIT,), 1, 1))
        (step,) = scheduler.heartbeat("0")
        assert step.request.application.name == ("y" if first == "p" else "z")

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"disable_preemption": ["w"]}, "there is no queue 'w'"),
            ({"settings": {"w": {"priority": 1}}}, "there is no queue 'w'"),
            ({"parents": {"p": {"queues": ["w"]}}}, "there is no queue 'w'"),
            ({"parents": {"x": {"queues": ["y"]}}}, "is a queue with jobs as well"),
            ({"parents": {"p": {"queues": ["x"]}, "q": {"queues": ["x"]}}}, "is in p as well"),
            ({"parents": {"p": {"queues": ["q"]}, "q": {"queues": ["p"]}}}, "is in itself"),
        ],
    )
    def test_what_cannot_be(self, options: dict, says: str, tmp_path: Path):
        queues = {name: {"capacity": 0.5} for name in "xy"}
        jobs = [{"name": "j", "queue": "x", "submit_s": 0.0, "reduces": 1, "reduce_s": 1.0, "key_s": 1.0}]
        experiment = {
            "name": "tree",
            "engine": "sim",
            "scheduler": {"allocation": {"name": "yarn-capacity", "queues": queues, **options}},
            "workload": {"jobs": jobs},
        }
        path = tmp_path / "tree.yaml"
        path.write_text(dump_yaml(experiment))
        with pytest.raises(ConfigError, match=says):
            load_experiment(path)
