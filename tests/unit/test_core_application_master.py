"""The ApplicationMaster on its own: what comes late, twice or never."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manager_bench import MachineBench, sent
from msgspec import structs
from simulated import SECOND_NS, CheckedCluster, freeze, make_job, make_settings, run_checked

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import AttemptState, TaskAttempt
from emulator.core.completions import Launched, RealCost
from emulator.core.effects import Effect, ExitApplication, ReadProgress, SetTimer
from emulator.core.machine import IllegalTransition
from emulator.core.messages import (
    AllocatedContainer,
    AllocateResponse,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    ContainerReported,
    ContainerState,
    EndReceived,
    FetchFailed,
    JobState,
    KillContainer,
    MapOutputs,
    MapOutputsReceived,
    Message,
    NodeLost,
    Outcome,
    ProgressSamples,
    ResumeContainer,
    Start,
    StartContainer,
    SuspendContainer,
    TaskOrder,
    Tick,
    TimerFired,
)
from emulator.vocabulary import MAP, REDUCE, KeyCheckpoint, Order, ProcessImage, Saved, TaskId, Work

RUNNING, SUSPENDED, DONE = ContainerState.RUNNING, ContainerState.SUSPENDED, ContainerState.DONE


class Bench(MachineBench[ApplicationMaster]):
    """The ApplicationMaster of a job of reduces."""

    def __init__(
        self, mechanism: str = "suspend", reduces: int = 2, maps: int = 0, heeds_refusals: bool = False
    ) -> None:
        job = make_job("a", maps_s=(1.0,) * maps, reduces_s=(10.0,) * reduces)
        settings = make_settings(mechanism=mechanism, slow_start_ppm=0)
        policy = structs.replace(settings.scheduler.mechanism, heeds_refusals=heeds_refusals)
        settings = replace(settings, scheduler=replace(settings.scheduler, mechanism=policy))
        self.machine = ApplicationMaster(job, settings)
        self.timers: dict[str, SetTimer] = {}
        self.answers = 0
        self.said_id = 0
        """Of the last heartbeat that was looked at."""
        self(Start("c0"))

    def __call__(self, message: Message) -> list[Effect]:
        effects = super().__call__(message)
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[effect.name] = effect
            if isinstance(effect, ReadProgress):  # the driver answers at once
                return [*effects, *self(ProgressSamples(()))]
        return effects

    def answer(self, **news: object) -> list[Effect]:
        self.answers += 1
        news_of = AllocateResponse(self.answers, **news)  # type: ignore
        return self(ApplicationHeartbeatResponse(max(self.now_ns, self.said_id), news_of))

    def heartbeat(self) -> list[Effect]:
        return self(Tick(self.now_ns))

    def ask(self) -> Ask | None:
        (message,) = sent(self.heartbeat(), ApplicationHeartbeat)
        self.said_id = message.id
        return message.ask

    def new_ask(self) -> Ask:
        """The same, where it has something to ask."""
        ask = self.ask()
        assert ask is not None
        return ask

    def give(self, container: str, task: int | None = None, kind: str = REDUCE) -> list[Effect]:
        resumed = None if task is None else TaskId(kind, task)
        return self.answer(allocated=(AllocatedContainer(container, kind, "node-1", self.now_ns, resumed),))

    def report(self, container: str, state: ContainerState, revision: int, **more: object) -> list[Effect]:
        return self(ContainerReported(report(container, state, revision, **more)))

    def run(self, container: str) -> None:
        assert len(sent(self.give(container), StartContainer)) == 1
        self.report(container, RUNNING, 2)

    def run_map(self, container: str) -> list[Effect]:
        """Have a map run to its end in ``container``; returns what its end leads to."""
        self.give(container, kind=MAP)
        self.report(container, RUNNING, 2)
        return self.report(container, DONE, 3, outcome=Outcome.SUCCEEDED)

    def suspend(self, container: str) -> SuspendContainer:
        """Have ``container`` asked to suspend."""
        self.answer(reclaim=1)
        timer = self.timers[f"ask {container}"]
        (command,) = sent(self(TimerFired(timer.name, timer.generation, timer.at_ns)), SuspendContainer)
        return command

    def attempt(self, task: int = 0, number: int = -1) -> TaskAttempt:
        return self.machine.tasks.walkers[task].attempts[number]


def report(container: str, state: ContainerState, revision: int, **more: object) -> ContainerReport:
    return ContainerReport(container, "a", REDUCE, "node-1", revision, state, **more)  # type: ignore


def stopped_reduce() -> Bench:
    """A job of one reduce, which has been stopped in container c1."""
    bench = Bench(reduces=1)
    bench.run("c1")
    bench.suspend("c1")
    bench.report("c1", SUSPENDED, 4)
    return bench


def test_a_resume_is_repeated_although_an_old_report_says_running() -> None:
    bench = stopped_reduce()
    (resume,) = sent(bench.give("c1", task=0), ResumeContainer)
    bench.report("c1", RUNNING, 2)  # of before the stop
    assert [command for _ in range(5) for command in sent(bench.heartbeat(), ResumeContainer)] == [resume]
    bench.report("c1", RUNNING, 6)
    assert bench.attempt().state is AttemptState.RUNNING
    assert [command for _ in range(9) for command in sent(bench.heartbeat(), ResumeContainer)] == []


def test_a_container_lost_before_it_is_heard_of_is_asked_for_again() -> None:
    bench = Bench(reduces=1)
    lost = report("c1", DONE, 1 << 62, outcome=Outcome.LOST)
    given = (AllocatedContainer("c1", REDUCE, "node-1", 5),)
    bench.answer(allocated=given, finished=(lost,), lost_nodes=("node-1",))
    assert [a.state for a in bench.machine.tasks.walkers[0].attempts] == [AttemptState.KILLED, AttemptState.UNASSIGNED]
    ask = bench.new_ask()
    assert ask.new == ((REDUCE, 1),)


def test_an_ask_is_repeated_until_it_is_acknowledged() -> None:
    bench = stopped_reduce()
    bench.ask()
    bench(ApplicationHeartbeatResponse(bench.said_id))
    bench.report("c1", DONE, 6, outcome=Outcome.KILLED)  # now a fresh attempt waits
    fresh = bench.new_ask()
    assert (fresh.new, fresh.resumes) == (((REDUCE, 1),), ())
    assert bench.ask() == fresh
    bench(ApplicationHeartbeatResponse(bench.said_id))
    assert bench.ask() is None


def test_what_an_answer_gives_leaves_nothing_to_say() -> None:
    bench = Bench(reduces=2)
    bench.ask()
    bench.give("c1")  # with what acknowledges the ask
    bench.report("c1", RUNNING, 2)
    assert bench.machine.heartbeat_due_ns(bench.now_ns) is None
    (heartbeat,) = sent(bench.heartbeat(), ApplicationHeartbeat)
    assert heartbeat.is_empty
    assert heartbeat.answer_id == 1
    bench.report("c1", DONE, 3, outcome=Outcome.KILLED)
    assert bench.machine.heartbeat_due_ns(bench.now_ns) == bench.now_ns
    ask = bench.new_ask()
    assert ask.new == ((REDUCE, 2),)


def test_a_request_that_a_kill_has_paid_is_withdrawn() -> None:
    bench = Bench(reduces=2)
    bench.answer(reclaim=2)
    assert bench.machine.tasks.releaser.open_contracts == 2
    bench.answer(withdrawn=1)
    assert bench.machine.tasks.releaser.open_contracts == 1


def test_a_container_that_is_asked_back_by_name_after_its_end_is_owed_no_more() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    bench.report("c1", DONE, 3, outcome=Outcome.SUCCEEDED)
    bench.answer(named=("c1",))
    bench.heartbeat()
    assert not bench.machine.tasks.releaser.has_open_contract


def test_a_kill_does_not_pay_a_request_that_was_made_after_it() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    bench.run("c2")
    bench.answer(reclaim=1, finished=(report("c1", DONE, 5, outcome=Outcome.KILLED),))
    assert any(name.startswith("ask") for name in bench.timers)


def test_outputs_are_told_to_a_node_until_it_has_received_them() -> None:
    bench = Bench(reduces=1, maps=1)
    bench.run_map("m1")
    (told,) = sent(bench.give("c1"), MapOutputs)
    assert {again for _ in range(5) for again in sent(bench.heartbeat(), MapOutputs)} == {told}
    bench(MapOutputsReceived("node-1", told.version))
    assert [again for _ in range(9) for again in sent(bench.heartbeat(), MapOutputs)] == []


def test_outputs_of_which_a_map_runs_again_are_told_to_nobody_until_it_has() -> None:
    bench = Bench(reduces=2, maps=1)
    bench.run_map("m1")
    (told,) = sent(bench.give("c1"), MapOutputs)
    bench(FetchFailed("c1", 0, told.version, "test"))
    elsewhere = bench.answer(allocated=(AllocatedContainer("c2", REDUCE, "node-2", bench.now_ns),))
    assert sent(elsewhere, MapOutputs) == []
    anew = sent(bench.run_map("m2"), MapOutputs)
    assert [message.version for message in anew] == [told.version + 1] * 2
    before = bench.new_ask()
    bench(FetchFailed("c1", 0, told.version, "of what has been replaced"))
    assert bench.ask() == before


def test_a_map_that_ran_again_does_not_run_once_more_for_what_is_said_of_its_lost_output() -> None:
    """Two outputs are lost; a reduce says so again after one of the maps is done: both ran for ever, in turn."""
    bench = Bench(reduces=1, maps=2)
    for container in ("m1", "m2"):
        bench.run_map(container)
    (told,) = sent(bench.give("c1"), MapOutputs)
    for map_index in (0, 1):
        bench(FetchFailed("c1", map_index, told.version, "test"))
    for container in ("m3", "m4"):
        anew = sent(bench.run_map(container), MapOutputs)
        bench(FetchFailed("c1", 0, told.version, "test"))
    assert [message.version for message in anew] == [told.version + 1]
    bench(FetchFailed("c1", 0, told.version + 1, "test"))
    ask = bench.new_ask()
    assert ask.new == ((MAP, 1),), "what is said of the new outputs counts"


def test_an_answer_to_an_earlier_heartbeat_of_the_same_instant_is_not_this_ones() -> None:
    """After a pause many are sent at once; what the second said was never said again."""
    bench = Bench(reduces=2)
    bench.run("c1")
    (first,) = sent(bench.heartbeat(), ApplicationHeartbeat)
    bench.machine.handle(ContainerReported(report("c1", DONE, 5, outcome=Outcome.KILLED)), bench.now_ns)
    (second,) = sent(bench.machine.handle(Tick(bench.now_ns), bench.now_ns), ApplicationHeartbeat)
    assert first.ask is not None
    assert second.ask is not None
    assert dict(first.ask.new).get(REDUCE, 0) < dict(second.ask.new)[REDUCE]
    bench(ApplicationHeartbeatResponse(first.id))
    assert bench.ask() == second.ask


def test_a_refused_suspend_is_owed_still_and_another_victim_is_asked() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    bench.suspend("c1")
    bench.run("c2")
    bench.report("c1", RUNNING, 3, refusals=1)
    assert bench.attempt(task=0).state is AttemptState.RUNNING
    assert bench.attempt(task=1).state is AttemptState.CHOSEN
    assert "ask c2" in bench.timers
    assert [command for _ in range(9) for command in sent(bench.heartbeat(), SuspendContainer)] == []


@pytest.mark.parametrize(
    ("mechanism", "heeds_refusals", "then"),
    [
        ("suspend", True, AttemptState.CHOSEN),
        ("suspend", False, AttemptState.RUNNING),
        ("checkpoint", True, AttemptState.RUNNING),
    ],
)
def test_only_a_task_that_gets_another_mechanism_is_chosen_again_at_once(
    mechanism: str, heeds_refusals: bool, then: AttemptState
) -> None:
    bench = Bench(mechanism, reduces=1, heeds_refusals=heeds_refusals)
    bench.run("c1")
    bench.suspend("c1")
    bench.report("c1", RUNNING, 3, refusals=1)
    assert bench.attempt().state is then


def test_a_resume_that_fails_is_asked_for_again() -> None:
    bench = stopped_reduce()
    bench.give("c1", task=0)
    assert bench.attempt().state is AttemptState.RESUMING
    assert bench.ask() == Ask()
    bench.report("c1", SUSPENDED, 6)
    assert bench.attempt().state is AttemptState.SUSPENDED
    ask = bench.new_ask()
    assert [resume.container for resume in ask.resumes] == ["c1"]


def test_a_job_of_which_two_tasks_fail_for_good_in_one_answer_fails_once() -> None:
    bench = Bench(reduces=2)
    crashed = {"state": DONE, "revision": 5, "outcome": Outcome.CRASHED, "reason": "test"}
    effects: list[Effect] = []
    while bench.machine.state is JobState.RUNNING:
        bench.run(f"c{bench.now_ns}")
        bench.run(f"c{bench.now_ns}")
        effects = bench.answer(finished=tuple(report(container, **crashed) for container in bench.machine.tasks.live))
    assert bench.machine.state is JobState.FAILED
    assert bench.machine.reason == "a/r000.3 failed 4 times, at last: test"
    assert len(sent(effects, ApplicationHeartbeat)) == 1


def test_a_checkpoint_is_what_the_next_attempt_and_a_retry_start_from() -> None:
    bench = Bench("checkpoint", reduces=1)
    bench.run("c1")
    bench.suspend("c1")
    saved = KeyCheckpoint(("c1",), 4, "input", "node-1")
    bench.report("c1", DONE, 5, outcome=Outcome.CHECKPOINTED, saved=saved)
    assert bench.attempt(number=0).state is AttemptState.SUSPENDED
    (start,) = sent(bench.give("c2", task=0), StartContainer)
    assert start.saved == saved
    bench.report("c2", DONE, 5, outcome=Outcome.CRASHED)
    (start,) = sent(bench.give("c3", task=0), StartContainer)
    assert start.saved == saved


KEYS = KeyCheckpoint(("c1",), 4, "input", "node-1")
IMAGE = ProcessImage(("c1",), 4, "image", "node-1", 1 << 30, "")


@pytest.mark.parametrize("saved", [KEYS, IMAGE])
def test_a_victim_that_is_still_being_restored_is_killed_and_what_was_saved_stays(saved: Saved) -> None:
    bench = Bench("checkpoint", reduces=1)
    bench.run("c1")
    bench.suspend("c1")
    bench.report("c1", DONE, 5, outcome=Outcome.CHECKPOINTED, saved=saved)
    bench.give("c2", task=0)
    (kill,) = sent(bench.answer(reclaim=1), KillContainer)
    assert (kill.container, bench.attempt().state) == ("c2", AttemptState.CHOSEN)
    bench.report("c2", RUNNING, 2)  # it has crossed the kill
    assert bench.attempt().state is AttemptState.CHOSEN
    bench.report("c2", DONE, 4, outcome=Outcome.KILLED)
    (start,) = sent(bench.give("c3", task=0), StartContainer)
    assert start.saved == saved
    bench.report("c3", RUNNING, 2)
    assert bench.suspend("c3").container == "c3"  # it has worked


def test_a_victim_that_is_launched_for_the_first_time_is_not_broken_off() -> None:
    bench = Bench("checkpoint", reduces=1)
    bench.give("c1")
    assert sent(bench.answer(reclaim=1), KillContainer) == []
    assert bench.attempt().state is AttemptState.ASSIGNED


def test_a_held_task_that_is_being_restored_is_suspended_when_it_runs() -> None:
    bench = Bench("checkpoint", reduces=1)
    bench.run("c1")
    bench.suspend("c1")
    bench.report("c1", DONE, 5, outcome=Outcome.CHECKPOINTED, saved=IMAGE)
    bench.give("c2", task=0)
    bench.answer(orders=(TaskOrder(TaskId(REDUCE, 0), Order.SUSPEND),))
    assert bench.attempt().state is AttemptState.ASSIGNED
    bench.report("c2", RUNNING, 2)
    assert bench.attempt().state is AttemptState.CHOSEN


def test_a_second_attempt_says_everything_and_sets_the_timers_of_the_first_again() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    bench.answer(reclaim=1)
    bench.ask()
    bench(ApplicationHeartbeatResponse(bench.said_id))
    assert bench.ask() is None
    effects = bench(Start("c9"))
    (heartbeat,) = sent(effects, ApplicationHeartbeat)
    assert heartbeat.ask is not None
    assert heartbeat.ask.new == ((REDUCE, 1),)
    assert [(effect.name, effect.at_ns) for effect in effects if isinstance(effect, SetTimer)] == [
        ("ask c1", bench.now_ns)
    ], "its instant has passed"


def test_a_timer_that_was_set_again_since_asks_nobody() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    bench.answer(reclaim=1)
    timer = bench.timers["ask c1"]
    assert bench(TimerFired(timer.name, timer.generation - 1, timer.at_ns)) == []
    assert len(sent(bench(TimerFired(timer.name, timer.generation, timer.at_ns)), SuspendContainer)) == 1


def test_an_attempt_that_starts_after_the_one_before_has_left_leaves_too() -> None:
    bench = Bench(reduces=1)
    bench.run("c1")
    (told,) = sent(bench.report("c1", DONE, 3, outcome=Outcome.SUCCEEDED), ApplicationHeartbeat)
    bench(ApplicationHeartbeatResponse(told.id, ended=True))
    (again,) = sent(bench(Start("c9")), ApplicationHeartbeat)
    assert again.final_state is JobState.SUCCEEDED
    assert bench(ApplicationHeartbeatResponse(again.id, ended=True)) == [ExitApplication("c9")]


@pytest.mark.parametrize("message", [NodeLost("node-1"), Launched("c1", RealCost(0))])
def test_an_illegal_message_is_refused_and_changes_nothing(message: Message) -> None:
    bench = Bench()
    revision = bench.machine.revision
    with pytest.raises(IllegalTransition):
        bench(message)
    assert bench.machine.revision == revision


def test_a_map_that_must_run_again_gets_a_container_from_the_reduces_that_wait_for_it() -> None:
    """The reduces have taken the crashed map's container before its request arrived: none could ever go on."""
    settings = make_settings(containers=4, mechanism="wait", slow_start_ppm=0)
    job = make_job("a", maps_s=(2.0, 30.0), reduces_s=(5.0,) * 4)

    def disturb(cluster: CheckedCluster) -> None:
        def crash() -> None:
            maps = [name for name, task in cluster.processes.tasks.items() if task.launch.work is Work.SHUFFLE]
            cluster.processes.crash(maps[0], 11, "segmentation fault")

        cluster.kernel.at(20 * SECOND_NS, crash)

    cluster = run_checked(settings, (job,), disturb=disturb, limit_s=200)
    assert cluster.finished_jobs == {"a": JobState.SUCCEEDED}
    kills = [kill for record in cluster.records for kill in sent(list(record.effects), KillContainer)]
    assert [kill.why for kill in kills if kill.why != "the job has ended"] == ["room for a map whose output is missing"]


def test_a_job_whose_maps_are_all_stopped_sends_nothing_however_long_that_lasts() -> None:
    def events(stopped_s: float) -> int:
        settings = make_settings(containers=2, mechanism="suspend", victims="all", unmanaged_masters=True)
        stopped = make_job("stopped", "research", 0.0, (50.0, 50.0))
        urgent = make_job("urgent", "production", 5.0, (), (stopped_s,) * 2)
        return run_checked(settings, (stopped, urgent)).kernel.events

    assert events(4_000.0) == events(400.0)


def test_a_resumed_reduce_may_end_before_it_is_heard_that_it_was_resumed() -> None:
    bench = stopped_reduce()
    bench.give("c1", task=0)
    bench.report("c1", DONE, 7, outcome=Outcome.SUCCEEDED)
    assert bench.attempt().state is AttemptState.SUCCEEDED
    assert bench.machine.state is JobState.SUCCEEDED


def test_an_allocation_nobody_waits_for_is_given_back() -> None:
    bench = Bench(reduces=1)
    bench.run("c1")
    (kill,) = sent(bench.give("c2"), KillContainer)
    assert kill.container == "c2"
    (kill,) = sent(bench.give("c3", task=0), KillContainer)
    assert kill.container == "c3"
    assert [k.container for _ in range(5) for k in sent(bench.heartbeat(), KillContainer)] == ["c2", "c3"]
    bench.report("c2", DONE, 1, outcome=Outcome.KILLED)
    bench.report("c3", DONE, 1, outcome=Outcome.KILLED)
    assert [k for _ in range(9) for k in sent(bench.heartbeat(), KillContainer)] == []


def test_the_end_of_a_container_is_acknowledged_each_time_it_is_reported() -> None:
    bench = Bench(reduces=2)
    bench.run("c1")
    for _ in range(2):
        effects = bench.report("c1", DONE, 3, outcome=Outcome.SUCCEEDED)
        assert sent(effects, EndReceived) == [EndReceived("c1")]


def test_it_leaves_once_when_the_resource_manager_knows_that_its_job_has_ended() -> None:
    bench = Bench(reduces=1)
    bench.run("c1")
    bench.report("c1", DONE, 3, outcome=Outcome.SUCCEEDED)
    (told,) = sent(bench.heartbeat(), ApplicationHeartbeat)
    assert told.final_state is JobState.SUCCEEDED
    assert bench(ApplicationHeartbeatResponse(told.id, ended=True)) == [ExitApplication("c0")]
    assert bench(ApplicationHeartbeatResponse(told.id, ended=True)) == []
    assert bench.heartbeat() == []


def test_what_its_containers_report_after_its_failure_changes_nothing() -> None:
    bench = Bench(reduces=2)
    for container in ("c1", "alive", "c2", "c3", "c4"):
        bench.run(container)
        if container != "alive" and bench.machine.state is JobState.RUNNING:
            bench.report(container, DONE, 5, outcome=Outcome.CRASHED)
    assert bench.machine.state is JobState.FAILED
    before = freeze(bench.machine, frozenset({"ApplicationMaster.revision"}))
    assert bench.report("alive", DONE, 5, outcome=Outcome.SUCCEEDED) == []
    assert freeze(bench.machine, frozenset({"ApplicationMaster.revision"})) == before
