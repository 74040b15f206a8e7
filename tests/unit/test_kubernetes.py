"""kube-scheduler's decisions: held against what its own code answered, and asked one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.policies.kubernetes.cycle import Decision, run_cycle
from emulator.policies.kubernetes.filters import Filter
from emulator.policies.kubernetes.gangs import Gang, GangOutcome, place_gang
from emulator.policies.kubernetes.preemption import Criterion, Verdict
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.scheduler import pods_of, pods_player
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Terms, Victims, first_of_best
from emulator.policies.kubernetes.why import why, why_gang, why_placement, why_preemption
from emulator.sites.kubernetes import (
    Arrival,
    Bound,
    BudgetSpec,
    Effect,
    Group,
    Kubernetes,
    Node,
    Pending,
    Pod,
    Policy,
    PriorityClass,
    Replacement,
    State,
    Taint,
)
from emulator.sites.labels import Selector
from emulator.vocabulary import SECOND_NS
from tests.kubernetes_questions import cycle, flush, leave, place, victims
from tests.peers import kube as peer
from tests.peers.holding import records

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests/data/kubernetes"


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        ("cases", "cases.jsonl.gz", 152 + 120),
        ("cases", "own-tests.jsonl.gz", 29),
        ("days", "days.jsonl.gz", 3),
        ("days", "site-day.json", 1),
        ("rules", "site-day.json", 1),
        ("gangs", "gangs.jsonl.gz", 40),
    ],
)
def test_kube_schedulers_own_answers(kind: str, name: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert peer.main([kind, str(RECORDS / name)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{count} of {count} equal"]


def test_a_recorded_day_by_the_rules_in_the_whole_machines() -> None:
    day = list(records(RECORDS / "days.jsonl.gz"))[1]
    assert peer.differs_by_rules(day) is None
    day["workloads"][0]["duration"] += 1
    assert str(peer.differs_by_rules(day)).startswith(day["workloads"][0]["name"])


@pytest.mark.slow
def test_all_recorded_days_by_the_rules_in_the_whole_machines() -> None:
    assert peer.main(["rules", str(RECORDS / "days.jsonl.gz")]) == 0


def _preempted(by: Victims, *bound: Bound) -> tuple[str, ...]:
    """Whom a pod of priority 9 that needs 2 cpu evicts from the nodes a and b of 4 cpu, at 100 s."""
    nodes = tuple(Node(name, {"cpu": 4000, "memory": 64}) for name in "ab")
    snapshot, queue = (
        Snapshot(State(nodes, bound), Terms(by)),
        Queue([Pending(Pod("urgent", 9, requests={"cpu": 2000}))]),
    )
    decision = run_cycle(snapshot, queue, 100 * SECOND_NS, first_of_best)
    assert isinstance(decision, Decision)
    return decision.victims


def _runs(name: str, node: str, since_s: int, memory: int, **more: Any) -> Bound:
    return Bound(Pod(name, requests={"cpu": 2000, "memory": memory}, **more), node, since_s * SECOND_NS)


def test_victims_of_one_priority_by_what_they_lose() -> None:
    pods = (_runs("old", "a", 10, 1), _runs("new", "a", 90, 9), _runs("big", "b", 20, 30), _runs("mid", "b", 50, 20))
    assert _preempted(Victims.IMPORTANCE, *pods) == ("new",)
    assert _preempted(Victims.LEAST_WORK_LOST, *pods) == ("new",)
    assert _preempted(Victims.LEAST_RESTORE_TIME, *pods) == ("old",)
    saves = (*pods[:2], *(replace(each, pod=replace(each.pod, saves_ns=81 * SECOND_NS)) for each in pods[2:]))
    assert _preempted(Victims.IMPORTANCE, *saves) == ("new",)
    assert _preempted(Victims.LEAST_WORK_LOST, *saves) == ("new",)
    often = (*pods[:3], replace(pods[3], pod=replace(pods[3].pod, saves_ns=7 * SECOND_NS)))
    assert _preempted(Victims.LEAST_WORK_LOST, *often) == ("mid",), "it saved 1 s ago"


def test_priorities_come_before_what_is_lost() -> None:
    pods = (
        _runs("old", "a", 10, 60),
        _runs("low", "a", 10, 2, priority=-1),
        _runs("x", "b", 99, 1),
        _runs("y", "b", 99, 1),
    )
    for by in Victims:
        assert _preempted(by, *pods) == ("low",)


# ---- one by one ----


def node(name: str, cpu: int = 4, **more: Any) -> Node:
    return Node(name, {"cpu": cpu}, **more)


def pod(name: str, cpu: int = 1, priority: int = 0, **more: Any) -> Pod:
    return Pod(name, priority, requests={"cpu": cpu}, **more)


def bound(name: str, where: str, cpu: int = 1, priority: int = 0, start: int = 0, **more: Any) -> Bound:
    return Bound(pod(name, cpu, priority, **more), where, start * SECOND_NS)


def names(found: tuple[Bound, ...]) -> list[str]:
    return [each.pod.name for each in found]


def test_a_pod_goes_to_the_emptiest_node_and_says_why() -> None:
    dedicated = (Taint("dedicated", Effect.NO_SCHEDULE, "db"),)
    state = State(
        (
            node("cordoned", unschedulable=True),
            node("tainted", taints=dedicated),
            node("slow", labels={"disk": "hdd"}),
            node("small", 1, labels={"disk": "ssd"}),
            node("full", labels={"disk": "ssd"}),
            node("used", labels={"disk": "ssd"}),
            node("empty", labels={"disk": "ssd"}),
        ),
        (bound("a", "full", 3), bound("b", "used", 1)),
    )
    placement = place(state, pod("in", 2, selector={"disk": "ssd"}), first_of_best)
    assert placement.node == "empty"
    assert {name: each.total for name, each in placement.scores.items()} == {
        "used": 25 + 75 + 300,
        "empty": 50 + 75 + 300,
    }
    assert {name: (each.filter, each.is_hard) for name, each in placement.fit_errors.items()} == {
        "cordoned": (Filter.UNSCHEDULABLE, True),
        "tainted": (Filter.TAINT, True),
        "slow": (Filter.SELECTOR, True),
        "small": (Filter.RESOURCES, True),
        "full": (Filter.RESOURCES, False),
    }
    lines = list(why_placement(placement))
    assert lines[0] == "in (priority 0) goes to empty"
    assert "full: 0.002 cpu asked, 0.001 cpu left" in lines
    assert "slow: it has no label disk=ssd, which the pod's node selector wants" in lines


def test_the_least_important_that_are_needed_go_and_the_node_says_why() -> None:
    state = State(
        (node("n0"), node("n1"), node("high"), node("small", 1)),
        (
            *(bound("old", "n0", 2, 0, 1), bound("new", "n0", 2, 0, 9)),
            *(bound("low", "n1", 2, -5, 1), bound("mid", "n1", 2, 5, 1)),
            *(bound("top", "high", 4, 9), bound("tiny", "small", 1)),
        ),
    )
    preemption = victims(state, pod("in", 2, 9), first_of_best)
    assert preemption.node == "n1"
    assert preemption.chosen is not None
    assert (names(preemption.chosen.victims), preemption.chosen.spared) == (["low"], ("mid",))
    assert preemption.lost_by("n0") is Criterion.HIGHEST_PRIORITY
    assert list(why_preemption(preemption)) == [
        "in (priority 9) preempts on n1, and waits for its victims to go",
        "n1: low (priority -5) would go; mid may stay; taken",
        "n0: new (priority 0) would go; old may stay; n1 is better: lowest priority of its most important victim",
        "high: 0.002 cpu asked, 0 cpu left; nobody there is of lower priority",
        "small: 0.002 cpu asked, it has 0.001 cpu in all; nobody's leaving helps",
    ]


def test_who_may_not_preempt_or_need_not() -> None:
    state = State((node("n"),), (bound("a", "n", 4),))
    never = PriorityClass("calm", 9, Policy.NEVER).of(pod("in", 4))
    assert victims(state, never, first_of_best).verdict is Verdict.NEVER
    assert victims(state, pod("in", 4), first_of_best).verdict is Verdict.NO_CANDIDATE


def _cluster(grace_s: int, replacement: Replacement) -> Kubernetes:
    low = [
        Arrival(pod(f"low-{number}", 2, labels={"app": "web"}), 0, 100 * SECOND_NS, grace_s * SECOND_NS, replacement)
        for number in (0, 1)
    ]
    high = Arrival(pod("high", 2, 9), 10 * SECOND_NS, 50 * SECOND_NS)
    budgets = (BudgetSpec("web", Selector({"app": "web"}), 0),)
    return Kubernetes(State((node("n"),)), budgets=budgets, arrivals=(*low, high))


def test_pods_that_are_there_already_and_one_that_never_ends() -> None:
    here = Arrival(pod("here", 2), -30 * SECOND_NS, 100 * SECOND_NS, node="n")
    service = Arrival(pod("service", 1), 0)
    waits = Arrival(pod("waits", 2), 5 * SECOND_NS, 10 * SECOND_NS)
    executions = pods_player(Kubernetes(State((node("n"),)), arrivals=(here, service, waits))).finish()
    times_ns = {name: [(one.start_ns, one.end_ns) for one in each] for name, each in executions.items()}
    assert times_ns == {
        "here": [(-30 * SECOND_NS, 70 * SECOND_NS)],
        "service": [(0, None)],
        "waits": [(70 * SECOND_NS, 80 * SECOND_NS)],
    }


@pytest.mark.parametrize(
    ("replacement", "runs"),
    [
        (Replacement.NEVER, {}),
        (Replacement.TERMINATING, {"low-1.1": (10, 65, 165)}),
        (Replacement.GONE, {"low-1.1": (15, 65, 165)}),
    ],
)
def test_a_victim_holds_its_room_for_its_grace_and_its_replacement_starts_anew(
    replacement: Replacement, runs: dict[str, tuple[int, int, int]]
) -> None:
    cluster = _cluster(5, replacement)
    pods = pods_of(cluster.arrivals, pods_player(cluster).finish())
    (victim,) = [one for _, _, one in pods if one is not None and one.was_ended]
    assert (victim.by, victim.lost_ns, victim.gone_ns) == ("high", 10 * SECOND_NS, 15 * SECOND_NS)
    seconds = {
        name: tuple(at // SECOND_NS for at in (created_ns, one.start_ns, one.end_ns) if at is not None)
        for name, created_ns, one in pods
        if one is not None
    }
    assert seconds == {"low-0": (0, 0, 100), "low-1": (0, 0, 10), "high": (10, 15, 65), **runs}


def test_a_gang_starts_together_or_takes_whole_units_or_nothing() -> None:
    members = tuple(pod(f"g-{number}", 2, 9, group="g") for number in range(3))
    gang, nodes = Gang("g", members, 3, 9), (node("n0"), node("n1"))
    assert place_gang(State(nodes), gang, first_of_best).bound == {"g-0": "n0", "g-1": "n1", "g-2": "n0"}
    few = Gang("g", members[:2], 3, 9)
    assert place_gang(State(nodes), few, first_of_best).outcome is GangOutcome.TOO_FEW
    placed = (
        *(bound("lone", "n0", 2, start=1), bound("w0", "n0", 2, group="w")),
        *(bound("w1", "n1", 2, group="w"), bound("late", "n1", 2, start=9)),
    )
    for is_whole, taken in ((True, [("lone",), ("late",)]), (False, [("w1",), ("lone",), ("late",)])):
        wanted = replace(gang, min_count=2 if is_whole else 3)
        decision = place_gang(State(nodes, placed, groups=(Group("w", 0, is_whole),)), wanted, first_of_best)
        assert (decision.outcome, [unit.names for unit in decision.victims]) == (GangOutcome.PREEMPTS, taken)
    state = State(nodes, placed, groups=(Group("w", 0, True),))
    whole = place_gang(state, gang, first_of_best)
    assert [unit.names for unit in whole.victims] == [("w0", "w1"), ("late",)], (
        "with w in place there is no room for three"
    )
    assert list(why_gang(whole)) == [
        "g (priority 9, 3 pods, 3 of them together) preempts",
        "w0, w1 (priority 0) would go",
        "late (priority 0) would go",
        "lone (priority 0) may stay",
    ]
    top = replace(gang, priority=0)
    assert place_gang(state, top, first_of_best).outcome is GangOutcome.NO_LOWER


def test_a_pod_made_room_waits_and_gets_its_node_whatever_the_scores() -> None:
    state = State((node("n0"), node("n1")), (bound("a", "n0", 4), bound("b", "n1", 4, 9)), (Pending(pod("in", 4, 5)),))
    decision, state = cycle(state, 10 * SECOND_NS, first_of_best)
    assert isinstance(decision, Decision)
    assert (decision.bound, decision.node, decision.evicted) == ({}, "n0", ("a",))
    assert list(why(decision)) == [
        "in (priority 5) preempts on n0, and waits for its victims to go",
        "n0: a (priority 0) would go; taken",
        "n1: 0.004 cpu asked, 0 cpu left; nobody there is of lower priority",
    ]
    (going,) = (each for each in state.bound if each.pod.name == "a")
    assert (going.terminating, going.preempted) == (True, True)
    assert state.waiting == (Pending(pod("in", 4, 5), "n0", 1, 10 * SECOND_NS, aside=True, refused=("resources",)),)
    assert cycle(state, 11 * SECOND_NS, first_of_best)[0] is None, "nothing has changed"
    assert place(state, pod("other", 1, 4), first_of_best).node is None, "the room is spoken for"
    assert victims(state, pod("in", 4, 5), first_of_best).verdict is Verdict.WAITS
    freed = leave(state, ["a", "b"])
    assert place(freed, pod("other", 1, 4), first_of_best).node == "n1"
    decision, state = cycle(freed, 12 * SECOND_NS, first_of_best)
    assert isinstance(decision, Decision)
    assert (decision.bound, decision.placement.was_nominated) == ({"in": "n0"}, True)
    assert (names(state.bound), state.waiting) == (["in"], ())


def test_what_makes_one_that_is_set_aside_ready_again() -> None:
    """A pod leaves, for those that would fit without others; or five minutes pass, for all."""
    tainted = node("tainted", taints=(Taint("dedicated", Effect.NO_SCHEDULE),))
    for nodes, wakes in (((tainted, node("n")), True), ((tainted,), False)):
        placed = (bound("a", nodes[-1].name, 4),)
        decision, state = cycle(State(nodes, placed, (Pending(pod("in", 4)),)), SECOND_NS, first_of_best)
        assert isinstance(decision, Decision)
        assert decision.node is None
        assert [each.aside for each in leave(state, ["a"]).waiting] == [not wakes]
        assert [each.aside for each in flush(state, 301 * SECOND_NS).waiting] == [True]
        assert [each.aside for each in flush(state, 301 * SECOND_NS + 1).waiting] == [False]
