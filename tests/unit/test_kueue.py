"""Kueue's decisions: held against what its own code answered, and asked one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import first_name
from emulator.policies.kueue.scheduler import workloads_player
from emulator.policies.kueue.why import why
from emulator.sites.kueue import (
    DEFAULT_STRATEGIES,
    Arrival,
    Cluster,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    ShareStrategy,
    Workload,
)
from emulator.vocabulary import SECOND_NS
from tests.kueue_questions import Admitted, Incoming, Pending, State, assign, cycle, victims
from tests.peers import kueue as peer
from tests.peers.holding import records

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests/data/kueue"


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        ("cases", "cases", 150 + 120),
        ("cases", "own-tests", 86),
        ("days", "days", 2 + 4),
        ("loops", "loops", 10),
        ("loops", "preemptor", 1),
    ],
)
def test_kueues_own_answers(kind: str, name: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert peer.main([kind, str(RECORDS / f"{name}.jsonl.gz")]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{count} of {count} equal"]


def test_a_day_in_the_whole_machines() -> None:
    """As a file that was imported; five of its workloads are never admitted."""
    assert peer.differs_by_rules(next(records(RECORDS / "days.jsonl.gz"))) is None


@pytest.mark.slow
def test_ten_days_in_the_whole_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert peer.main(["rules", str(RECORDS / "ten-days.jsonl.gz")]) == 0
    assert capsys.readouterr().out.splitlines() == ["10 of 10 equal"]


# ---- one by one ----


NONE = Preemption()


def queue(name: str, nominal: int, preemption: Preemption = NONE, **more: object) -> ClusterQueue:
    """A queue of the cohort ``all`` with so many cpus of one flavor, unless told otherwise."""
    group = ResourceGroup(("cpu",), (FlavorQuotas("default", {"cpu": Quota(nominal)}),))
    settings = {"cohort": "all", "groups": (group,), "preemption": preemption, **more}
    return ClusterQueue(name, **settings)  # type: ignore[arg-type]


def workload(name: str, of: str, cpus: int, priority: int = 0, created_s: int = 0) -> Workload:
    return Workload(name, of, (PodSet("main", 1, {"cpu": cpus}),), priority, created_s * SECOND_NS)


def admitted(of: Workload, reserved_s: int = 0) -> Admitted:
    return Admitted(of, ({"cpu": "default"},), reserved_s * SECOND_NS)


RECLAIM = Preemption(reclaim_within_cohort=Policy.ANY)


def test_a_queue_takes_back_what_it_lent_and_says_why() -> None:
    cluster = Cluster((queue("a", 4, RECLAIM), queue("b", 4)))
    state = State(
        cluster,
        (admitted(workload("b1", "b", 4), 1), admitted(workload("b2", "b", 2), 2), admitted(workload("b3", "b", 2), 3)),
        (Pending(workload("a1", "a", 3)),),
    )
    (decision,), after = cycle(state, 9, first_name)
    assert decision.outcome is Outcome.PREEMPTS
    assert [victim.name for victim in decision.victims] == ["b3", "b2"]
    assert decision.evicted == ("b3", "b2")
    lines = list(why(decision))
    assert lines[0] == "a1 (queue a, priority 0) preempts, and waits for its victims to go"
    assert lines[1].startswith("b3 (queue b, priority 0) goes: ")
    assert lines[3].startswith("main in default: needs preemption in other queues (0.003 cpu asked, 0 cpu left")
    assert {each.workload.name for each in after.admitted if each.evicted} == {"b2", "b3"}
    assert after.pending == (Pending(workload("a1", "a", 3), expects_victims=True, last_cycle=1),)
    (again,), after = cycle(after, 10, first_name)
    assert again.outcome is Outcome.PREEMPTS
    assert again.evicted == (), "their eviction is under way"
    gone = State(cluster, tuple(each for each in after.admitted if not each.evicted), after.pending, after.cycles)
    (last,), after = cycle(gone, 11, first_name)
    assert last.outcome is Outcome.ADMITTED
    assert after.pending == ()
    assert {each.workload.name for each in after.admitted} == {"a1", "b1"}


def test_shares_that_are_equal_in_thousandths_are_equal() -> None:
    """3 of 5 cpus at a weight of 3, and 2 at a weight of 2: as parts of one they differ in the last bit."""
    queues = (queue("a", 2, weight=3.0), queue("b", 1, weight=2.0), queue("lender", 2))
    waiting = (Pending(workload("a1", "a", 5, 0)), Pending(workload("b1", "b", 3, 2, 1)))
    decisions, _ = cycle(State(Cluster(queues, (), DEFAULT_STRATEGIES), (), waiting), 2, first_name)
    assert [(each.workload.name, each.outcome) for each in decisions] == [
        ("b1", Outcome.ADMITTED),
        ("a1", Outcome.ROOM_TAKEN),
    ]


def test_of_equal_cohorts_the_caller_chooses() -> None:
    cohorts = (Cohort("all"), Cohort("left", "all"), Cohort("right", "all"))
    queues = (
        queue("a", 0, RECLAIM),
        queue("l", 0, cohort="left"),
        queue("r", 0, cohort="right"),
        queue("lender", 4),
    )
    held = tuple(admitted(workload(f"{of}{number}", of, 1)) for of in "lr" for number in range(2))
    state = State(Cluster(queues, cohorts, (ShareStrategy.FINAL_SHARE,)), held)
    incoming = Incoming(workload("a1", "a", 1), ({"cpu": "default"},), (("default", "cpu"),))
    asked: list[list[str]] = []

    def last(names: object) -> str:
        asked.append(list(names))  # type: ignore[call-overload]
        return asked[-1][-1]

    assert [each.name for each in victims(state, incoming, last)] == ["r0"]
    assert [each.name for each in victims(state, incoming, first_name)] == ["l0"]
    assert asked == [["left", "right"]]


def test_a_state_is_not_changed_by_a_question() -> None:
    for case in list(records(RECORDS / "cases.jsonl.gz"))[:40]:
        state, incoming = peer.state_of(case), peer.workload_of(case["incoming"])
        before = repr(state)
        first = assign(state, incoming, first_name)
        assert assign(state, incoming, first_name) == first
        assert repr(state) == before


def test_a_day_is_the_same_in_single_cycles() -> None:
    """The player keeps one tree and what it nominated; from plain values, cycle by cycle, it is the same."""
    record = next(each for each in records(RECORDS / "loops.jsonl.gz") if not each["release"])
    arrivals = [Arrival(each.workload, each.duration_ns) for each in peer.arrivals_of(record)]
    told: list[tuple[int, Outcome, str]] = []
    player = workloads_player(peer.cluster_of(record), arrivals)
    for each in (each for played in player.play() for each in played.decisions):
        assert isinstance(each, Decision)
        told.append((player.now_ns, each.outcome, each.workload.name))
        if each.outcome is Outcome.PREEMPTS:
            break
    state, alone = State(peer.cluster_of(record)), []
    end_ns = next(now_ns for now_ns, outcome, _ in told if outcome is Outcome.PREEMPTS)
    for arrival in sorted(arrivals, key=lambda each: each.workload.created_ns):
        now_ns = arrival.workload.created_ns
        if now_ns >= end_ns:
            break
        state = State(state.cluster, state.admitted, (*state.pending, Pending(arrival.workload)), state.cycles)
        while any(not each.aside for each in state.pending):
            decisions, state = cycle(state, now_ns, first_name)
            alone += [(now_ns, each.outcome, each.workload.name) for each in decisions]
            if len(alone) > 1000:
                pytest.fail("no end")
            if not any(each.aside or each.outcome is Outcome.ADMITTED for each in decisions):
                break
    heads = [each for each in told if each[0] < end_ns]
    assert list(dict.fromkeys(alone)) == list(dict.fromkeys(heads))
    assert len(dict.fromkeys(alone)) > 3
