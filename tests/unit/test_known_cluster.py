"""What schedulers know of the cluster: when containers are given, and when they are reclaimed."""

from __future__ import annotations

from functools import partial

from emulator.policies.schedulers.cluster import JobPlacement, KnownCluster
from emulator.policies.schedulers.protocol import (
    Amounts,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    GrantContainer,
    GroupFacts,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    ReclaimContainer,
    SchedulerDecision,
    Suspended,
)


def cluster(**nodes: Amounts) -> KnownCluster:
    made = KnownCluster()
    happened(made, *(NodeAdded(node, "", 9, has) for node, has in nodes.items()))
    return made


def happened(of: KnownCluster, *events: Event) -> list[SchedulerDecision]:
    """Events of one instant, and what can be done then."""
    of.begin()
    for event in events:
        of.take(event)
    return [*of.carry_out()]


def comes(job: str, **groups: Amounts) -> list[Event]:
    """A job of one task in each group, all of which wait."""
    facts = tuple(GroupFacts(name, 1, True, asks) for name, asks in groups.items())
    return [JobSubmitted(job, "q", 0, facts, None, 0), JobRequests(job, 0, dict.fromkeys(groups, 1), (), (), 0)]


def placed(of: KnownCluster, job: str, least: int = 1, **places: str) -> tuple[JobPlacement, list[SchedulerDecision]]:
    stay = JobPlacement(job, [*places.items()], least=least)
    of.start(stay)
    return stay, [*of.carry_out()]


def test_tasks_get_their_containers_together_or_not_at_all() -> None:
    known = cluster(a={"cpu": 4000}, b={"cpu": 2000})
    happened(
        known, *comes("large", x={"cpu": 4000}, y={"cpu": 3000}), *comes("whole", x={"cpu": 4000}, y={"cpu": 2000})
    )
    happened(known, *comes("small", x={"cpu": 1}))
    assert placed(known, "large", x="a", y="b")[1] == []
    assert placed(known, "whole", x="a", y="b")[1] == [
        GrantContainer("whole", "a", "x"),
        GrantContainer("whole", "b", "y"),
    ]
    assert placed(known, "small", x="b")[1] == [], "what is being given counts at once"


def test_what_is_given_counts_once_when_it_is_known() -> None:
    known = cluster(a={"cpu": 4000})
    jobs = {"one": 3000, "two": 2000, "three": 1000}
    happened(known, *(event for job, cpu in jobs.items() for event in comes(job, x={"cpu": cpu})))
    assert placed(known, "one", x="a")[1]
    assert happened(known, ContainerStarted("c1", "one", "x", "a", None)) == []
    assert placed(known, "two", x="a")[1] == []
    assert placed(known, "three", x="a")[1] == [GrantContainer("three", "a", "x")]
    ended = happened(known, ContainerStarted("c2", "three", "x", "a", None), ContainerEnded("c1", "one", "a"))
    assert ended == [GrantContainer("two", "a", "x")]


def test_a_stopped_job_goes_on_in_what_it_holds() -> None:
    known, whole = cluster(a={"cpu": 4000, "memory_gb": 8000}), {"cpu": 4000, "memory_gb": 6000}
    happened(known, *comes("mine", x=whole), *comes("other", x=whole))
    stay, _ = placed(known, "mine", x="a")
    happened(known, ContainerStarted("c1", "mine", "x", "a", None))
    known.leave(stay, partial(ReclaimContainer, requester="other"))
    assert [*known.carry_out()] == [ReclaimContainer("c1", requester="other")]
    assert not stay.has_left
    waits = JobRequests("mine", 0, {}, (Suspended("x", 0, "a", True),), (), 0)
    happened(known, ContainerStopped("c1", "mine", "a", {"memory_gb": 6000}), waits)
    assert stay.has_left
    assert known.stopped("mine") == {"x": 1}
    assert placed(known, "other", x="a")[1] == [], "another job finds too little memory"
    assert placed(known, "mine", x="a")[1] == [GrantContainer("mine", "a", "x", 0)]


def test_a_container_is_reclaimed_when_it_is_known() -> None:
    known = cluster(a={"cpu": 1000})
    happened(known, *comes("mine", x={"cpu": 1000}))
    stay, _ = placed(known, "mine", x="a")
    known.leave(stay, ReclaimContainer)
    assert [*known.carry_out()] == []
    assert not stay.has_left
    assert happened(known, ContainerStarted("c1", "mine", "x", "a", None)) == [ReclaimContainer("c1")]
    known.leave(stay, ReclaimContainer)
    assert [*known.carry_out()] == [], "it is reclaimed already"
    happened(known, ContainerEnded("c1", "mine", "a"))
    assert stay.has_left


def test_a_stay_waits_for_its_node_and_for_all_its_tasks() -> None:
    known = cluster(a={"cpu": 4000})
    happened(known, *comes("mine", x={"cpu": 1000}), *comes("whole", x={"cpu": 1000}, y={"cpu": 1000}))
    assert placed(known, "mine", x="b")[1] == []
    assert [stay.job for stay in known.to_start] == ["mine"]
    happened(known, JobRequests("whole", 0, {"x": 1}, (), (), 0))
    assert placed(known, "whole", 2, x="a", y="a")[1] == []
    both = JobRequests("whole", 0, {"x": 1, "y": 1}, (), (), 0)
    given = happened(known, NodeAdded("b", "", 9, {"cpu": 1000}), both)
    assert given == [
        GrantContainer("mine", "b", "x"),
        GrantContainer("whole", "a", "x"),
        GrantContainer("whole", "a", "y"),
    ]


def test_the_container_of_a_job_that_has_ended_takes_its_room_until_it_has_ended() -> None:
    known = cluster(a={"cpu": 1000})
    happened(known, *comes("mine", x={"cpu": 1000}), *comes("next", x={"cpu": 1000}))
    stay, _ = placed(known, "mine", x="a")
    assert happened(known, JobEnded("mine"), ContainerStarted("c1", "mine", "x", "a", None)) == []
    assert not stay.has_left
    assert placed(known, "next", x="a")[1] == []
    assert happened(known, ContainerEnded("c1", "mine", "a")) == [GrantContainer("next", "a", "x")]
    assert stay.has_left


def test_a_node_that_is_lost_has_no_room() -> None:
    known = cluster(a={"cpu": 1000})
    happened(known, *comes("mine", x={"cpu": 1000}), NodeRemoved("a"))
    assert placed(known, "mine", x="a")[1] == []
    assert happened(known, NodeAdded("a", "", 9, {"cpu": 1000})) == [GrantContainer("mine", "a", "x")]
