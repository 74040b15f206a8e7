"""The ResourceManager on its own: what comes late, twice or never, and jobs beyond what the cluster can hold."""

from __future__ import annotations

import pytest
from manager_bench import Bench, sent
from msgspec.structs import replace
from simulated import SECOND_NS, make_settings

from emulator.core.messages import (
    AllocatedContainer,
    AllocateResponse,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    ContainerState,
    JobFinished,
    JobState,
    KillContainer,
    NodeHeartbeatResponse,
    NodeLost,
    Outcome,
    ResumeAsk,
    StartContainer,
    SubmitJob,
)
from emulator.core.resource_manager.admission import Admission
from emulator.core.resource_manager.applications import Application, Node, Requests
from emulator.core.settings import QueueSettings
from emulator.policies import axes as policies
from emulator.policies.views import ClusterView, NodeView, PlacementDecision, SuspendedView
from emulator.vocabulary import MAP, REDUCE, JobFacts, TaskId, map_reduce

REDUCE_0 = TaskId(REDUCE, 0)


def report(container: str, state: ContainerState, revision: int, outcome: Outcome | None = None) -> ContainerReport:
    return ContainerReport(container, "a", REDUCE, "node-1", revision, state, outcome=outcome)


STOPPED = ContainerState.SUSPENDED
DONE = ContainerState.DONE


def test_a_stop_told_again_after_the_container_was_given_back_frees_nothing() -> None:
    bench = Bench(make_settings(containers=3, mechanism="suspend"))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    stopped = report(given.container, STOPPED, 4)
    bench.node("node-1", stopped)
    assert bench.free == 2
    bench.ask("a", Ask(resumes=(ResumeAsk(REDUCE_0, "node-1", 1, given.container),)))
    bench.node("node-1", stopped)
    assert bench.free == 1
    bench.node("node-1", stopped)
    assert bench.free == 1
    answer = bench.told("a", Ask())
    assert [(a.container, a.task) for a in answer.allocated] == [(given.container, REDUCE_0)]
    bench.node("node-1", report(given.container, DONE, 9, Outcome.SUCCEEDED))
    assert bench.free == 2


def test_a_container_that_comes_free_is_a_change_although_nobody_waits_for_one() -> None:
    bench = Bench(make_settings(containers=3))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    ended = report(given.container, DONE, 9, Outcome.SUCCEEDED)
    before = bench.machine.revision
    bench.node("node-1", ended)
    assert bench.machine.revision > before, "a record of it must be written, and whoever was refused may have it now"
    assert bench.free == 2
    bench.node("node-1", ended)
    assert bench.free == 2


def answer_to(bench: Bench, answer_id: int) -> AllocateResponse | None:
    """The answer to a heartbeat of job a that says nothing but that it has applied ``answer_id``."""
    effects = bench(ApplicationHeartbeat("a", bench.now_ns + SECOND_NS, answer_id))
    (response,) = sent(effects, ApplicationHeartbeatResponse)
    return response.answer


def test_an_answer_is_repeated_until_it_is_acknowledged_and_that_changes_nothing() -> None:
    bench = Bench(make_settings(containers=3))
    answer = bench.running_job("a", Ask(((REDUCE, 1),)))
    revision = bench.machine.revision
    assert bench.machine.awaits("am:a", answer.id - 1)
    assert not bench.machine.awaits("am:a", answer.id)
    assert answer_to(bench, answer.id - 1) == answer
    assert bench.machine.revision > revision
    revision = bench.machine.revision
    assert answer_to(bench, answer.id) is None
    assert bench.machine.revision == revision


def test_news_waits_while_a_late_heartbeat_is_answered_again() -> None:
    bench = Bench(make_settings(containers=3))
    answer = bench.running_job("a", Ask(((REDUCE, 1),)))
    (given,) = answer.allocated
    bench.node("node-1", report(given.container, DONE, 9, Outcome.CRASHED))
    assert answer_to(bench, answer.id - 1) == answer
    assert bench.machine.awaits("am:a", answer.id)
    new = answer_to(bench, answer.id)
    assert new is not None
    assert [ended.container for ended in new.finished] == [given.container]


def test_a_job_is_not_told_of_an_end_that_it_knows() -> None:
    bench = Bench(make_settings(containers=3))
    answer = bench.running_job("a", Ask(((REDUCE, 1),)))
    (given,) = answer.allocated
    ended = report(given.container, DONE, 9, Outcome.SUCCEEDED)
    bench.node("node-1", replace(ended, job_knows=True))
    assert bench.free == 2
    assert not bench.machine.awaits("am:a", answer.id)
    assert answer_to(bench, answer.id) is None


def test_overhead_begins_once_both_the_request_and_the_container_are_there() -> None:
    bench = Bench(make_settings(containers=3))
    bench.submit("a")
    bench.node()
    bench.ask("a", Ask(((REDUCE, 3),)))
    asked_ns = bench.now_ns
    bench.node()
    answer = bench.told("a", Ask(((REDUCE, 3),)))
    assert [given.ready_ns for given in answer.allocated] == [asked_ns, asked_ns], "free before"
    bench.ask("a", Ask(((REDUCE, 1),)))
    bench.node("node-1", report(answer.allocated[0].container, DONE, 9, Outcome.SUCCEEDED))
    freed_ns = bench.now_ns
    answer = bench.told("a", Ask(((REDUCE, 1),)))
    assert [given.ready_ns for given in answer.allocated] == [freed_ns], "asked for before"


def test_a_stopped_process_is_given_a_container_only_once_its_node_has_said_that_it_stopped() -> None:
    bench = Bench(make_settings(containers=3, mechanism="suspend"))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    resume = Ask(resumes=(ResumeAsk(REDUCE_0, "node-1", 1, given.container),))
    bench.ask("a", resume)  # the master has heard of it first
    bench.node()
    assert bench.ask("a", resume) is None
    bench.node("node-1", report(given.container, STOPPED, 4))
    answer = bench.told("a", Ask())
    assert [a.container for a in answer.allocated] == [given.container]


def test_a_stopped_process_being_killed_has_freed_its_container_and_not_ended() -> None:
    bench = Bench(make_settings(containers=3, mechanism="suspend"))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    bench.node("node-1", report(given.container, ContainerState.KILLING, 5))
    assert bench.free == 2
    assert bench.ask("a", Ask()) is None
    bench.node("node-1", report(given.container, DONE, 6, Outcome.KILLED))
    assert bench.free == 2
    answer = bench.told("a", Ask())
    assert [(ended.container, ended.outcome) for ended in answer.finished] == [(given.container, Outcome.KILLED)]


def test_a_kill_is_repeated_until_the_container_is_known_to_have_ended() -> None:
    bench = Bench(make_settings(containers=3))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    ended = bench(ApplicationHeartbeat("a", bench.now_ns + SECOND_NS, 1, Ask(), JobState.FAILED, 5))
    assert {kill.container for kill in sent(ended, KillContainer)} == {"container-000001", given.container}
    repeated = [kill.container for _ in range(9) for kill in sent(bench.tick(), KillContainer)]
    assert repeated.count(given.container) == 2
    bench.node("node-1", report(given.container, DONE, 9, Outcome.KILLED))
    bench.node("node-1", report("container-000001", DONE, 9, Outcome.KILLED))
    assert [kill for _ in range(9) for kill in sent(bench.tick(), KillContainer)] == []
    assert bench.free == 3


def test_the_launch_of_a_master_is_repeated_until_it_is_heard_of() -> None:
    bench = Bench(make_settings(containers=3))
    bench.submit("a")
    (start,) = sent(bench.node(), StartContainer)
    assert [s for _ in range(9) for s in sent(bench.tick(), StartContainer)] == [start, start]
    bench.ask("a", Ask())
    assert [s for _ in range(9) for s in sent(bench.tick(), StartContainer)] == []


def test_a_master_whose_node_was_taken_for_dead_does_not_pass_for_the_next() -> None:
    bench = Bench(make_settings(nodes=2, containers=3))
    bench.submit("a")
    (first,) = sent(bench.node("node-1"), StartContainer)
    bench.ask_from(first.container, "a", Ask(((REDUCE, 1),)))
    bench(NodeLost("node-1", "taken for dead"))
    (second,) = sent(bench.node("node-2"), StartContainer)
    bench.ask_from(first.container, "a", Ask(((REDUCE, 2),)))
    assert second in [s for _ in range(9) for s in sent(bench.tick(), StartContainer)]
    bench.ask_from(second.container, "a", Ask(((REDUCE, 2),)))
    assert [s for _ in range(9) for s in sent(bench.tick(), StartContainer)] == []


def test_a_saved_task_of_a_gang_does_not_resume_on_a_node_that_its_job_avoids() -> None:
    bench = Bench(make_settings(nodes=2, containers=3))
    bench(SubmitJob(JobFacts("a", "research", map_reduce(0, 2), gang=2)))
    bench.node()
    bench.node("node-2")
    saved = ResumeAsk(TaskId("reduce", 0), "node-1", 0)
    bench.ask("a", Ask(((REDUCE, 1),), resumes=(saved,), avoided=("node-1",), at_once=2))
    bench.node("node-2")
    given = bench.told("a", Ask()).allocated
    assert [(each.task, each.node) for each in given] == [(saved.task, "node-2"), (None, "node-2")]


def test_what_a_gang_asks_for_beyond_its_minimum_it_gets_one_by_one() -> None:
    bench = Bench(make_settings(containers=4))
    bench(SubmitJob(JobFacts("a", "research", map_reduce(0, 4), gang=2)))
    bench.node()
    bench.ask("a", Ask(((REDUCE, 4),), at_once=2))
    for _ in range(3):
        bench.node()
    assert bench.free == 0, "one for its ApplicationMaster, and three"
    application = bench.machine.state.applications["a"]
    assert (application.requests.pending, application.requests.at_once) == (1, 0)
    assert not bench.machine.state.queues.gangs


def test_a_kill_in_place_of_a_request_not_yet_told_makes_that_request_void() -> None:
    bench = Bench(make_settings(containers=4))
    bench.running_job("a", Ask(((REDUCE, 2),)))
    bench.submit("p", "production")
    bench.node()
    bench.ask("p", Ask(((REDUCE, 1),)))
    kills = [kill for _ in range(14) for kill in sent(bench.tick(), KillContainer)]
    assert len(kills) == 1
    assert bench.machine.state.applications["a"].news.reclaim == 0


def test_a_request_not_yet_told_is_void_when_it_is_not_wanted_any_more() -> None:
    bench = Bench(make_settings(containers=4))
    bench.running_job("a", Ask(((REDUCE, 2),)))
    bench.submit("p", "production")
    bench.node()
    bench.ask("p", Ask(((REDUCE, 1),)))
    bench.tick()
    assert bench.machine.state.applications["a"].news.reclaim == 1
    bench(ApplicationHeartbeat("p", bench.now_ns + SECOND_NS, 0, Ask(), JobState.SUCCEEDED, 5))
    assert bench.ask("a", Ask()) is None


def test_a_burst_of_jobs_leaves_a_container_for_tasks() -> None:
    bench = Bench(make_settings(containers=4))
    for number in range(6):
        bench.submit(f"r{number}")
    assert [start.job for start in sent(bench.node(), StartContainer)] == ["r0", "r1"]
    bench.submit("p", "production")
    assert [start.job for start in sent(bench.node(), StartContainer)] == ["p"]
    assert bench.free == 1
    bench(ApplicationHeartbeat("r1", bench.now_ns, 0, Ask(), JobState.SUCCEEDED, 5))
    assert [start.job for start in sent(bench.node(), StartContainer)] == []  # two are left: p and r0
    bench(ApplicationHeartbeat("p", bench.now_ns, 0, Ask(), JobState.SUCCEEDED, 5))
    assert [start.job for start in sent(bench.node(), StartContainer)] == ["r2"]


def test_jobs_for_which_lost_nodes_leave_no_room_fail_with_the_reason() -> None:
    bench = Bench(make_settings(nodes=3, containers=1))
    bench.submit("r")
    bench.node("node-1")
    bench.submit("p", "production")
    bench.node("node-2")
    effects = bench(NodeLost("node-3", "test"))
    (finished,) = sent(effects, JobFinished)
    assert (finished.job, finished.state) == ("r", JobState.FAILED)
    assert "2 containers are left" in finished.reason
    assert bench(NodeLost("node-3", "test")) == []
    assert [f.job for f in sent(bench(NodeLost("node-2", "test")), JobFinished)] == ["p"]


def test_a_job_submitted_after_the_loss_of_every_node_fails_at_once() -> None:
    bench = Bench(make_settings(containers=2))
    bench(NodeLost("node-1", "test"))
    (finished,) = sent(bench.submit("a"), JobFinished)
    assert (finished.job, finished.state) == ("a", JobState.FAILED)


def test_a_submission_repeated_is_one_job() -> None:
    bench = Bench(make_settings())
    bench.submit("a")
    applications = dict(bench.machine.state.applications)
    assert bench.submit("a") == []
    assert bench.machine.state.applications == applications


def test_a_node_is_told_of_an_ended_job_when_it_next_reports_something() -> None:
    """Until then nobody waits for its heartbeats, because files can wait to be removed."""
    bench = Bench(make_settings(containers=3))
    (given,) = bench.running_job("a", Ask(((REDUCE, 1),))).allocated
    bench(ApplicationHeartbeat("a", bench.now_ns, 1, Ask(), JobState.SUCCEEDED, bench.now_ns))
    assert not bench.machine.awaits("nm:node-1", -1)
    (nothing,) = sent(bench.node(), NodeHeartbeatResponse)
    assert nothing.is_empty
    (news,) = sent(bench.node("node-1", report(given.container, DONE, 9, Outcome.KILLED)), NodeHeartbeatResponse)
    assert news.finished_jobs == ("a",)


def test_a_late_heartbeat_is_not_told_of_an_end_under_a_number_that_has_been_heard() -> None:
    settings = make_settings().nodes[0]
    node = Node(settings, finished_jobs=["a"])
    assert node.ended_jobs_for(received_id=-1, heartbeat_id=10) == ("a",)
    assert node.ended_jobs_for(received_id=-1, heartbeat_id=30) == ("a",)
    assert node.ended_jobs_for(received_id=30, heartbeat_id=31) == ()
    node.finished_jobs.append("b")
    assert node.ended_jobs_for(received_id=10, heartbeat_id=20) == ()
    assert node.ended_jobs_for(received_id=-1, heartbeat_id=20) == ("a",)  # as sent before it had heard anything
    assert node.ended_jobs_for(received_id=30, heartbeat_id=32) == ("b",)


# ---- admission ----

QUEUES = (QueueSettings("production", 0, 4, 16), QueueSettings("research", 1, 12, 16))


def admission(*jobs: tuple[str, str]) -> tuple[Admission, dict[str, Application]]:
    """Jobs submitted in this order, each with its queue."""
    found = Admission(QUEUES)
    applications = {name: Application(JobFacts(name, queue), n, 0) for n, (name, queue) in enumerate(jobs)}
    for application in applications.values():
        found.submit(application)
    return found, applications


def admit_all(waiting: Admission, containers: int) -> list[str]:
    names = []
    while (admitted := waiting.admit_next(lambda _: containers)) is not None:
        assert admitted.admitted
        names.append(admitted.name)
    return names


def test_the_most_urgent_then_the_oldest_is_admitted_next() -> None:
    waiting, _ = admission(("r0", "research"), ("r1", "research"), ("p2", "production"), ("p3", "production"))
    assert admit_all(waiting, 16) == ["p2", "p3", "r0", "r1"]


def test_jobs_without_a_master_make_room_for_those_of_a_more_urgent_queue() -> None:
    names = [(f"r{number}", "research") for number in range(3)]
    waiting, applications = admission(*names)
    assert admit_all(waiting, 5) == ["r0", "r1", "r2"]
    applications["r1"].requests.application_master = applications["r2"].requests.application_master = (
        0  # r0 has its own
    )
    later = [Application(JobFacts(f"p{number}", "production"), number, 0) for number in range(3, 7)]
    for job in later:
        waiting.submit(job)
    assert admit_all(waiting, 5) == ["p3"], "one place was kept"
    assert waiting.displace_next(lambda _: 5) is applications["r2"], "the youngest"
    assert not applications["r2"].admitted
    assert admit_all(waiting, 5) == ["p4"]
    assert waiting.displace_next(lambda _: 5) is applications["r1"]
    assert admit_all(waiting, 5) == ["p5"]
    assert waiting.displace_next(lambda _: 5) is None, "r0 has its master"
    for job in later[:3]:
        waiting.end(job)
    assert admit_all(waiting, 5) == ["p6", "r1"], "in the order of submission"
    assert waiting.displace_next(lambda _: 5) is None


@pytest.mark.parametrize(("containers", "masters"), [(2, 1), (3, 1), (4, 2), (16, 14), (100, 15)])
def test_masters_of_one_queue_leave_room(containers: int, masters: int) -> None:
    waiting, applications = admission(*[(f"r{number}", "research") for number in range(masters + 2)])
    assert admit_all(waiting, containers) == [f"r{number}" for number in range(masters)]
    waiting.end(applications["r0"])
    assert admit_all(waiting, containers) == [f"r{masters}"]


def test_nobody_is_given_up_while_a_container_is_left_for_tasks() -> None:
    jobs, applications = admission(("p", "production"), ("r", "research"))
    assert admit_all(jobs, 16) == ["p", "r"]
    assert jobs.next_to_fail(3) is None
    assert jobs.next_to_fail(2) is applications["r"]
    waiting, applications = admission(("w", "research"))
    assert waiting.next_to_fail(2) is None
    assert waiting.next_to_fail(1) is applications["w"]


# ---- placement ----


def test_a_task_of_the_node_goes_before_those_from_elsewhere_which_are_not_all_asked_about() -> None:
    asked: list[int] = []

    def at_home_or_anywhere(view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
        asked.append(suspended.task)
        return PlacementDecision(True, rank=int(suspended.node != node.name))

    bench = Bench(make_settings(containers=3, placement=policies.PLACEMENT.own("mine:home", at_home_or_anywhere)))
    bench.running_job("a", Ask(((REDUCE, 1),)))
    nodes = ("node-8", "node-9", "node-1", "node-9")
    bench.ask("a", Ask(resumes=tuple(ResumeAsk(TaskId(REDUCE, n), node, n) for n, node in enumerate(nodes))))
    bench.node()
    answer = bench.told("a", Ask())
    assert [given.task and given.task.number for given in answer.allocated] == [2]
    assert asked == [0, 2]


def by_number(view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
    """A user's own: the higher the number of a task, the better it likes any node; task 3 likes none."""
    return PlacementDecision(suspended.task != 3, rank=9 - suspended.task)


def test_of_suspended_tasks_the_one_that_placement_likes_best_goes_on_first() -> None:
    settings = make_settings(containers=5, placement=policies.PLACEMENT.own("mine:by_number", by_number))
    bench = Bench(settings)
    bench.running_job("a", Ask(((REDUCE, 1),)))
    suspended = tuple(ResumeAsk(TaskId(REDUCE, number), "node-9", number) for number in range(4))
    bench.ask("a", Ask(resumes=suspended))
    bench.node()
    answer = bench.told("a", Ask(resumes=suspended))
    assert [given.task and given.task.number for given in answer.allocated] == [2, 1, 0]


@pytest.mark.parametrize(("undelivered", "maps_left"), [(2, 1), (3, 0)])
def test_a_gang_that_will_give_back_what_it_is_still_to_receive_has_its_whole_ask(
    undelivered: int, maps_left: int
) -> None:
    """Else it would be put together of reduces only, which wait for the output of the map that is left out."""
    given = [AllocatedContainer(f"c-{i}", MAP if i == 0 else REDUCE, "node-1", 0) for i in range(undelivered)]
    requests = Requests(map_reduce(1, 4))
    requests.replace(ApplicationHeartbeat("a", 1, 0, Ask(((MAP, 1), (REDUCE, 4)), at_once=3)), given, 0)
    assert requests.wanted(MAP) == maps_left
    assert requests.at_once == (3 if maps_left else 0)
