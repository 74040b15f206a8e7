"""The Preemptor's lists (natjam, section 3.2): what is asked back, how often, for how long, and what ends it."""

from __future__ import annotations

from collections import Counter

import pytest
from manager_bench import Bench, sent
from simulated import SECOND_NS, make_settings

from emulator.core.messages import (
    ApplicationHeartbeat,
    Ask,
    ContainerReport,
    ContainerState,
    JobState,
    KillContainer,
    Outcome,
)
from emulator.core.resource_manager.contracts import Preemptor
from emulator.vocabulary import REDUCE


def full_cluster(research: dict[str, int], **options: object) -> Bench:
    """Jobs that hold so many reduces each, and the production job p's master, fill node-1."""
    containers = sum(research.values()) + len(research) + 1
    bench = Bench(make_settings(containers=containers, **options))  # type: ignore
    for job, reduces in research.items():
        bench.running_job(job, Ask(((REDUCE, reduces),)))
    bench.submit("p", "production")
    bench.node()
    assert bench.free == 0
    return bench


def victims(bench: Bench, requester: str = "p") -> list[str]:
    return [entry.victim for entry in bench.machine.preemptor.reclaims.get(requester, [])]


def given_up(bench: Bench, job: str) -> ContainerReport:
    """The report of some reduce of ``job`` that has been suspended by a checkpoint."""
    held = next(c for c in bench.machine.state.containers.values() if c.job == job and c.group.name == REDUCE)
    return ContainerReport(held.id, job, REDUCE, "node-1", 5, ContainerState.DONE, outcome=Outcome.CHECKPOINTED)


def kills(bench: Bench, ticks: int) -> list[str]:
    return [kill.container for _ in range(ticks) for kill in sent(bench.tick(), KillContainer)]


def test_it_runs_again_when_what_it_looks_at_has_changed_and_not_with_every_revision() -> None:
    bench = full_cluster({"a": 4})
    bench.ask("p", Ask(((REDUCE, 2),)))
    bench.tick()
    patient_until_ns = bench.machine.heartbeat_due_ns(bench.now_ns)
    assert patient_until_ns is not None
    assert patient_until_ns > bench.now_ns + SECOND_NS
    revision = bench.machine.revision
    assert bench.ask("a", Ask()) is not None  # a is told of the request
    assert bench.machine.revision > revision
    assert bench.machine.heartbeat_due_ns(bench.now_ns) == patient_until_ns
    bench.ask("p", Ask(((REDUCE, 3),)))
    assert bench.machine.heartbeat_due_ns(bench.now_ns) == bench.now_ns


def test_it_does_not_run_while_only_the_least_urgent_queue_waits() -> None:
    bench = full_cluster({"a": 4})
    bench.ask("p", Ask(((REDUCE, 1),)))
    assert bench.machine.heartbeat_due_ns(bench.now_ns) == bench.now_ns
    bench.ask("p", Ask())
    bench.ask("a", Ask(((REDUCE, 2),)))
    due_ns = bench.machine.heartbeat_due_ns(bench.now_ns)
    assert due_ns is None or due_ns > bench.now_ns, "research may take nothing back"


def test_a_container_wanted_is_asked_back_once() -> None:
    bench = full_cluster({"a": 4})
    bench.ask("p", Ask(((REDUCE, 2),)))
    assert victims(bench) == []
    bench.tick()
    assert victims(bench) == ["a", "a"]
    for _ in range(5):
        bench.tick()
    assert victims(bench) == ["a", "a"]
    answer = bench.told("a", Ask())
    assert answer.reclaim == 2
    bench.tick()
    assert bench.ask("a", Ask()) is None
    bench.ask("p", Ask(((REDUCE, 3),)))
    bench.tick()
    assert victims(bench) == ["a", "a", "a"]


def test_the_entry_goes_when_the_container_is_allocated() -> None:
    bench = full_cluster({"a": 4})
    bench.ask("p", Ask(((REDUCE, 2),)))
    bench.tick()
    bench.node("node-1", given_up(bench, "a"))
    assert victims(bench) == ["a"]
    bench.tick()
    assert victims(bench) == ["a"]
    bench.node("node-1", given_up(bench, "a"))
    assert victims(bench) == []


def test_an_allocation_fulfils_the_entry_of_the_job_that_gave_way() -> None:
    bench = full_cluster({"a": 2, "b": 2})
    bench.ask("p", Ask(((REDUCE, 2),)))
    bench.tick()
    assert sorted(victims(bench)) == ["a", "b"]
    bench.node("node-1", given_up(bench, "b"))
    assert victims(bench) == ["a"]


def test_nothing_is_asked_back_while_a_container_is_free() -> None:
    bench = full_cluster({"a": 4})
    bench.node("node-1", given_up(bench, "a"))
    assert bench.free == 1
    bench.ask("p", Ask(((REDUCE, 3),)))
    bench.tick()
    assert victims(bench) == []
    bench.node()  # the free one is given out: now the cluster is full, and two are wanting
    bench.tick()
    assert victims(bench) == ["a", "a"]


@pytest.mark.parametrize("policy", ["mr", "pr"])
def test_what_is_asked_back_already_weighs_no_more(policy: str) -> None:
    """Else one of two equal jobs would lose all."""
    bench = full_cluster({"a": 8, "b": 8}, job_eviction=policy)
    bench.ask("p", Ask(((REDUCE, 8),)))
    bench.tick()
    lost = Counter(victims(bench))
    assert lost == {"a": 4, "b": 4} if policy == "mr" else min(lost["a"], lost["b"]) >= 2


def test_fewer_wanted_are_fewer_asked_back() -> None:
    bench = full_cluster({"a": 4})
    bench.ask("p", Ask(((REDUCE, 3),)))
    bench.tick()
    bench.ask("p", Ask(((REDUCE, 1),)))
    assert victims(bench) == ["a"]
    answer = bench.told("a", Ask())
    assert answer.reclaim == 1
    bench.ask("p", Ask())
    assert victims(bench) == []


def test_nothing_is_asked_back_for_or_from_a_job_that_has_ended() -> None:
    bench = full_cluster({"a": 2, "b": 2})
    bench.ask("p", Ask(((REDUCE, 4),)))
    bench.tick()
    bench(ApplicationHeartbeat("a", bench.now_ns, 1, Ask(), JobState.FAILED, 5))
    assert set(victims(bench)) == {"b"}
    bench(ApplicationHeartbeat("p", bench.now_ns, 1, Ask(), JobState.SUCCEEDED, 5))
    assert not bench.machine.preemptor.reclaims
    assert not bench.machine.preemptor.expired


def test_after_twelve_seconds_a_container_is_killed_and_for_two_more_nothing_is_asked_in_its_place() -> None:
    bench = full_cluster({"a": 2})
    bench.ask("p", Ask(((REDUCE, 1),)))
    bench.tick()
    asked_ns = bench.now_ns
    assert kills(bench, 11) == []
    assert victims(bench) == ["a"]
    (killed,) = kills(bench, 1)
    assert bench.now_ns == asked_ns + 12 * SECOND_NS
    assert bench.machine.state.containers[killed].job == "a"
    assert [until_ns for until_ns, _ in bench.machine.preemptor.expired] == [bench.now_ns + 2 * SECOND_NS]
    assert victims(bench) == []
    bench.tick()
    assert victims(bench) == []
    bench.tick()  # two seconds later it is taken for dead
    assert bench.machine.preemptor.expired == []
    assert victims(bench) == ["a"]


def test_a_victim_that_gives_its_container_to_somebody_else_is_not_late() -> None:
    """Entries of two jobs name it: the more urgent one gets what it gives, and that answers the other one's too."""
    preemptor = Preemptor(make_settings())

    def ask(requester: str, at_s: int) -> None:
        preemptor.ask(requester, "victim", at_s * SECOND_NS)

    def killed(at_s: int) -> list[str]:
        kills: list[str] = []
        preemptor.expire(at_s * SECOND_NS, lambda entry: kills.append(entry.victim) or True)
        return kills

    ask("patient", 0)
    ask("patient", 2)
    ask("urgent", 5)
    preemptor.allocated("urgent", "victim", 0)
    assert list(preemptor.reclaims) == ["patient"]
    assert [killed(at_s) for at_s in (12, 13, 14, 16, 17)] == [[], [], ["victim"], [], ["victim"]]


def test_the_kill_takes_what_the_task_eviction_order_puts_first() -> None:
    """No progress is known here: the reduce that has run longest counts as the one with the least time left."""
    for policy, place in (("srt", 0), ("lrt", -1)):
        bench = Bench(make_settings(containers=5, task_eviction=policy))
        bench.submit("a")
        bench.node()
        reduces = []
        for _ in range(3):
            bench.ask("a", Ask(((REDUCE, 1),)))
            bench.node()
            answer = bench.told("a", Ask())
            reduces.append(answer.allocated[0].container)
        bench.submit("p", "production")
        bench.node()
        bench.ask("p", Ask(((REDUCE, 1),)))
        assert kills(bench, 13) == [reduces[place]]


def test_no_more_is_asked_back_than_there_is_to_give() -> None:
    bench = full_cluster({"a": 2, "b": 1})
    bench.ask("p", Ask(((REDUCE, 9),)))
    bench.tick()
    assert Counter(victims(bench)) == {"a": 2, "b": 1}


def test_a_container_is_not_killed_twice_for_two_requests() -> None:
    bench = full_cluster({"a": 2})
    bench.ask("p", Ask(((REDUCE, 2),)))
    bench.tick()
    assert len(set(kills(bench, 12))) == 2
