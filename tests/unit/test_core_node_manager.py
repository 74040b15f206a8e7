"""The NodeManager on its own: late, repeated and illegal messages."""

from __future__ import annotations

import copy

import pytest
from manager_bench import MachineBench, sent
from simulated import SECOND_NS, make_settings

from emulator.core.completions import (
    Checkpointed,
    Committing,
    Exited,
    FirstKey,
    Launched,
    RealCost,
    Resumed,
    ResumeFailed,
    SavedByItself,
    Suspended,
    SuspendFailed,
    Terminated,
)
from emulator.core.effects import (
    Checkpoint,
    Effect,
    Kill,
    Launch,
    ProvideInput,
    Resume,
    Send,
    SetTimer,
    Suspend,
    Terminate,
)
from emulator.core.machine import IllegalTransition
from emulator.core.messages import (
    ContainerReport,
    ContainerReported,
    ContainerState,
    EndReceived,
    KillContainer,
    MapOutputs,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    Outcome,
    ResumeContainer,
    Start,
    StartContainer,
    SubmitJob,
    SuspendContainer,
    Tick,
    TimerFired,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.settings import OverheadSettings
from emulator.vocabulary import REDUCE, JobFacts, KeyCheckpoint, Mechanism, map_reduce

FREE = RealCost(0)
CHECKPOINT = KeyCheckpoint(("c1",), 3, "input", "node-1")


class Bench(MachineBench[NodeManager]):
    """A NodeManager."""

    def __init__(self, containers: int = 2, max_suspended: int = 2, cleanup_s: int = 0, resume_s: int = 0) -> None:
        overheads = OverheadSettings(cleanup_ns=cleanup_s * SECOND_NS, resume_ns=resume_s * SECOND_NS)
        settings = make_settings(containers=containers, max_suspended=max_suspended, overheads=overheads)
        self.machine = NodeManager(settings.nodes[0], settings)
        self(Start())

    def run(self, container: str = "c1") -> None:
        """Have a reduce running in ``container``."""
        self(StartContainer(container, "a", REDUCE, 0, "a/r000.0", 0))
        self(Launched(container, FREE))

    def suspend(self, asked_ns: int, mechanism: Mechanism = Mechanism.SUSPEND) -> list[Effect]:
        return self(SuspendContainer("c1", mechanism, asked_ns))

    def stop(self) -> None:
        """Have the process of ``c1`` stopped."""
        self.suspend(asked_ns=100)
        self(Suspended("c1", 1, FREE))

    def heartbeat(self) -> NodeHeartbeat:
        (message,) = sent(self(Tick(0)), NodeHeartbeat)
        return message


def report_of(effects: list[Effect]) -> ContainerReport:
    (message,) = sent(effects, ContainerReported)
    return message.report


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_repeated_suspend_after_a_refusal_is_refused_again_even_where_there_is_room_now() -> None:
    bench = Bench(max_suspended=0)
    bench.run()
    refused = report_of(bench.suspend(asked_ns=100))
    assert refused.refusals == 1
    assert "the most it may" in refused.reason
    assert report_of(bench.suspend(asked_ns=100)) == refused
    assert report_of(bench.suspend(asked_ns=101)).refusals == 2


def test_a_suspend_that_failed_is_answered_with_the_failure_when_it_is_repeated(bench: Bench) -> None:
    bench.run()
    bench.suspend(asked_ns=100)
    failed = report_of(bench(SuspendFailed("c1", "busy")))
    assert (failed.state, failed.refusals, failed.reason) == (ContainerState.RUNNING, 1, "busy")
    assert report_of(bench.suspend(asked_ns=100)) == failed


def test_a_process_that_commits_refuses_to_stop_and_its_word_may_come_before_the_answer(bench: Bench) -> None:
    bench.run()
    bench.suspend(asked_ns=100)
    assert report_of(bench(Committing("c1"))).state is ContainerState.COMMITTING
    assert bench.machine.ledger.stopped == 0, "no room is set aside for it any more"
    assert bench(SuspendFailed("c1", "it commits")) == []
    with pytest.raises(IllegalTransition, match="no arc for Suspended in committing"):
        bench(Suspended("c1", 1, FREE))
    ended = report_of(bench(Exited("c1", 0, None, 9)))
    assert (ended.outcome, ended.reason) == (Outcome.SUCCEEDED, "it commits")


def test_a_kill_of_a_container_never_started_frees_it_even_after_the_end_of_its_job(bench: Bench) -> None:
    bench(NodeHeartbeatResponse(bench.heartbeat().id, ("a",)))
    bench(KillContainer("c1", "a", "the job has ended"))
    told = bench.heartbeat()
    assert [report.container for report in told.freed] == ["c1"]
    bench(NodeHeartbeatResponse(told.id))
    assert not bench.machine.containers


def test_map_outputs_are_provided_once_a_version(bench: Bench) -> None:
    assert ProvideInput("a", 2, ("node-2",)) in bench(MapOutputs("a", 2, ("node-2",)))
    for version in (1, 2):
        (received,) = bench(MapOutputs("a", version, ("node-2",)))
        assert isinstance(received, Send)
    assert ProvideInput("a", 3, ("node-3",)) in bench(MapOutputs("a", 3, ("node-3",)))


def test_what_is_freed_is_told_until_it_is_acknowledged(bench: Bench) -> None:
    bench.run()
    bench(Exited("c1", 0, None, 3))
    first, second = bench.heartbeat(), bench.heartbeat()
    assert first.freed == second.freed != ()
    bench(NodeHeartbeatResponse(first.id - 1))
    assert bench.heartbeat().freed == first.freed
    bench(NodeHeartbeatResponse(first.id))
    assert bench.heartbeat().freed == ()


def test_what_is_freed_is_told_with_whether_its_job_knows(bench: Bench) -> None:
    bench.run()
    bench(Exited("c1", 0, None, 3))
    assert [report.job_knows for report in bench.heartbeat().freed] == [False]
    assert bench(EndReceived("c1")) == []
    assert [report.job_knows for report in bench.heartbeat().freed] == [True]


def test_the_answer_to_an_empty_heartbeat_acknowledges_nothing_told_at_the_same_instant(bench: Bench) -> None:
    bench.run()
    empty = bench.heartbeat()
    bench.now_ns = empty.id - SECOND_NS
    bench(Exited("c1", 0, None, 3))
    bench.now_ns = empty.id - SECOND_NS
    told = bench.heartbeat()
    assert told.freed
    assert not empty.freed
    bench(NodeHeartbeatResponse(empty.id))
    assert bench.heartbeat().freed == told.freed


def test_the_cost_of_a_resume_is_measured_from_the_resume(bench: Bench) -> None:
    bench.run()
    bench(FirstKey("c1", 5, 4, FREE))
    bench.suspend(asked_ns=100)
    bench(Suspended("c1", 1, FREE))
    bench(ResumeContainer("c1", 200))
    bench(Resumed("c1", FREE))
    resumed_ns = bench.now_ns
    bench(Exited("c1", 0, None, 3))
    (report,) = bench.heartbeat().freed
    assert (report.ready_ns, report.first_key_ns, report.input_ready_ns) == (200, resumed_ns, None)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("none", Exited("c1", 0, None, 0)),
        ("none", SubmitJob(JobFacts("a", "research", map_reduce(1, 1)))),
        ("running", Launched("c1", FREE)),
        ("running", Checkpointed("c1", CHECKPOINT, FREE)),
        ("checkpointing", Suspended("c1", 1, FREE)),
        ("done", Committing("c1")),
        ("done", FirstKey("c1", 1, 1, FREE)),
    ],
)
def test_an_illegal_message_is_refused_and_changes_nothing(bench: Bench, state: str, message: Message) -> None:
    if state != "none":
        bench.run()
    if state == "checkpointing":
        assert bench.suspend(100, Mechanism.CHECKPOINT) == [Checkpoint("c1")]
    elif state == "done":
        bench(Exited("c1", 0, None, 3))
    before = snapshot(bench.machine)
    with pytest.raises(IllegalTransition):
        bench(message)
    assert snapshot(bench.machine) == before


def test_a_process_that_cannot_go_on_gives_its_container_back(bench: Bench) -> None:
    bench.run()
    bench.stop()
    bench(NodeHeartbeatResponse(bench.heartbeat().id))
    bench(ResumeContainer("c1", 200))
    failed = report_of(bench(ResumeFailed("c1", "gone")))
    assert (failed.state, failed.refusals, failed.reason) == (ContainerState.SUSPENDED, 1, "gone")
    assert bench.machine.ledger.used == 0
    assert [report.container for report in bench.heartbeat().freed] == ["c1"]
    assert bench(ResumeContainer("c1", 300)) == [Resume("c1")]


def test_a_process_goes_on_at_its_instant_if_it_is_still_to_and_by_no_earlier_timer() -> None:
    bench = Bench(resume_s=100)
    bench.run()
    bench.stop()
    at_ns = bench.now_ns + 100 * SECOND_NS
    (timer,) = bench(ResumeContainer("c1", bench.now_ns))
    assert isinstance(timer, SetTimer)
    assert timer.at_ns == at_ns
    assert bench(TimerFired(timer.name, timer.generation - 1, timer.at_ns)) == []
    assert bench(TimerFired(timer.name, timer.generation, timer.at_ns)) == [Resume("c1")]
    bench(Resumed("c1", FREE))
    bench.suspend(asked_ns=300)
    bench(Suspended("c1", 1, FREE))
    (timer,) = bench(ResumeContainer("c1", bench.now_ns))
    bench(KillContainer("c1", "a", "test"))
    assert isinstance(timer, SetTimer)
    assert bench(TimerFired(timer.name, timer.generation, timer.at_ns)) == []


def test_an_end_is_told_although_its_job_has_ended_meanwhile(bench: Bench) -> None:
    bench.run()
    empty = bench.heartbeat()
    bench(Exited("c1", 0, None, 3))
    bench(NodeHeartbeatResponse(empty.id, ("a",)))
    told = bench.heartbeat()
    assert [report.container for report in told.freed] == ["c1"]
    bench(NodeHeartbeatResponse(told.id))
    assert not bench.machine.containers


def test_a_stopped_process_that_is_being_killed_is_in_memory_until_its_exit() -> None:
    bench = Bench(max_suspended=1)
    bench.run()
    bench.suspend(asked_ns=100)
    bench(Suspended("c1", 1, FREE))
    bench(KillContainer("c1", "a", "test"))
    bench.run("c2")
    suspend = SuspendContainer("c2", Mechanism.SUSPEND, 200)
    assert report_of(bench(suspend)).refusals == 1
    bench(Exited("c1", None, 9, 1))
    assert bench(SuspendContainer("c2", Mechanism.SUSPEND, 300)) == [Suspend("c2")]


def test_a_launch_carries_the_checkpoint_and_the_padding_of_a_resume() -> None:
    settings = make_settings(overheads=OverheadSettings(schedule_ns=7, suspend_ns=0, resume_ns=5))
    machine = NodeManager(settings.nodes[0], settings)
    fresh = machine.handle(StartContainer("c1", "a", REDUCE, 0, "a/r000.0", 100), 150)
    resumed = machine.handle(StartContainer("c2", "a", REDUCE, 1, "a/r001.1", 100, CHECKPOINT), 150)
    assert fresh == [Launch("c1", "a", REDUCE, 0, "a/r000.0", 107)]
    assert resumed == [Launch("c2", "a", REDUCE, 1, "a/r001.1", 105, CHECKPOINT)]


@pytest.mark.parametrize(
    ("began", "stopped", "waits"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_the_container_of_a_killed_task_is_free_when_it_has_been_cleaned_up(
    began: bool, stopped: bool, waits: bool
) -> None:
    """Only of a task that may have written something, and only if it still held its container."""
    bench = Bench(cleanup_s=10)
    bench.run()
    if began:
        bench(FirstKey("c1", bench.now_ns, bench.now_ns, FREE))
    if stopped:
        bench.suspend(asked_ns=100)
        bench(Suspended("c1", 1, FREE))
        assert [report.container for report in bench.heartbeat().freed] == ["c1"]
    bench(KillContainer("c1", "a", "test"))
    assert report_of(bench(Exited("c1", None, 9, 1))).outcome is Outcome.KILLED, "its job knows at once"
    heartbeats = [bench.heartbeat() for _ in range(10)]
    told = [number for number, heartbeat in enumerate(heartbeats, 1) if heartbeat.freed]
    assert told == ([10] if waits else list(range(1, 11)))


def snapshot(machine: NodeManager) -> dict[str, object]:
    return copy.deepcopy({name: value for name, value in vars(machine).items() if name not in ("_timers", "heartbeat")})


def test_a_kill_with_a_grace_is_a_sigterm_and_then_a_kill(bench: Bench) -> None:
    bench.run()
    told, timer = bench(KillContainer("c1", "a", "preempted", grace_ns=5 * SECOND_NS))
    assert told == Terminate("c1")
    assert isinstance(timer, SetTimer)
    assert timer.at_ns == bench.now_ns + 5 * SECOND_NS
    again = bench(KillContainer("c1", "a", "preempted", grace_ns=5 * SECOND_NS))
    assert report_of(again).state is ContainerState.KILLING
    bench(Terminated("c1", FREE))
    assert bench(TimerFired(timer.name, timer.generation, timer.at_ns)) == [Kill("c1")]
    assert report_of(bench(Exited("c1", None, 9, 2))).outcome is Outcome.KILLED
    assert bench(TimerFired(timer.name, timer.generation, timer.at_ns)) == []


def test_a_kill_without_a_grace_ends_one_that_has_begun(bench: Bench) -> None:
    bench.run()
    bench(KillContainer("c1", "a", "preempted", grace_ns=5 * SECOND_NS))
    assert bench(KillContainer("c1", "a", "the job has ended"))[0] == Kill("c1")
    assert Kill("c1") not in bench(KillContainer("c1", "a", "the job has ended"))


def test_what_ends_well_in_its_grace_has_succeeded_and_what_obeys_sigterm_is_killed(bench: Bench) -> None:
    for container, code, number, outcome in (("c1", 0, None, Outcome.SUCCEEDED), ("c2", None, 15, Outcome.KILLED)):
        bench.run(container)
        _, timer = bench(KillContainer(container, "a", "preempted", grace_ns=5 * SECOND_NS))
        assert isinstance(timer, SetTimer)
        assert report_of(bench(Exited(container, code, number, 2))).outcome is outcome
        assert bench(TimerFired(timer.name, timer.generation, timer.at_ns)) == []


def test_a_stopped_process_has_no_grace(bench: Bench) -> None:
    bench.run()
    bench.stop()
    assert bench(KillContainer("c1", "a", "preempted", grace_ns=5 * SECOND_NS)) == [Kill("c1")]


def test_what_a_task_has_saved_by_itself_is_told_at_once_and_with_its_end(bench: Bench) -> None:
    bench.run()
    assert report_of(bench(SavedByItself("c1", CHECKPOINT))).saved == CHECKPOINT
    crashed = report_of(bench(Exited("c1", 1, None, 5, "broken")))
    assert (crashed.outcome, crashed.saved) == (Outcome.CRASHED, CHECKPOINT)


def test_a_kill_of_a_container_that_has_ended_and_been_forgotten_tells_of_no_second_end(bench: Bench) -> None:
    bench.run()
    bench(Exited("c1", 0, None, 3))
    bench(NodeHeartbeatResponse(bench.heartbeat().id, ("a",)))
    assert bench(KillContainer("c1", "a", "the job has ended")) == []
    assert bench.heartbeat().freed == ()


def test_map_outputs_of_a_job_that_has_ended_are_received_and_not_kept(bench: Bench) -> None:
    bench(NodeHeartbeatResponse(bench.heartbeat().id, ("a",)))
    effects = bench(MapOutputs("a", 1, ("node-1",)))
    assert not any(isinstance(effect, ProvideInput) for effect in effects)
    assert len(effects) == 1
