"""One ApplicationMaster fed reports and answers in any order, repeated, late or never; its job must still end.

The model is the rest of the cluster: a ResourceManager that gives and takes containers and repeats its answer until it
is acknowledged, and containers whose every change makes a report that may arrive whenever it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from simulated import NO_TRACE, SECOND_NS, freeze, make_job, make_settings

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import TaskState
from emulator.core.completions import FirstKey, RealCost
from emulator.core.effects import Effect, ExitApplication, ReadProgress, Send, SetTimer
from emulator.core.machine import IllegalTransition
from emulator.core.messages import (
    AllocatedContainer,
    AllocateResponse,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    ContainerReport,
    ContainerReported,
    ContainerState,
    EndReceived,
    JobState,
    KillContainer,
    MapOutputs,
    MapOutputsReceived,
    Message,
    NodeHeartbeatResponse,
    NodeLost,
    Outcome,
    ProgressSamples,
    ResumeContainer,
    Start,
    StartContainer,
    SuspendContainer,
    Tick,
    TimerFired,
)
from emulator.core.resource_manager.applications import Application
from emulator.core.resource_manager.measured import CostLedger
from emulator.vocabulary import JobFacts, KeyCheckpoint, Mechanism, Work, map_reduce
from tests.examples import examples_of

RUNNING, SUSPENDED, DONE = ContainerState.RUNNING, ContainerState.SUSPENDED, ContainerState.DONE
COMMITTING = ContainerState.COMMITTING
REVISION = frozenset({"ApplicationMaster.revision"})
RECENT = st.integers(1, 4)
NODES = st.sampled_from(("node-1", "node-2"))


@dataclass
class Place:
    """A container at its node: its newest report, all reports so far, and what its NodeManager has been told."""

    allocation: AllocatedContainer
    report: ContainerReport
    reports: list[ContainerReport] = field(default_factory=list)
    start: StartContainer | None = None
    command: SuspendContainer | ResumeContainer | KillContainer | None = None
    told_free: bool = False

    def change(self, **news: object) -> None:
        self.report = replace(self.report, revision=self.report.revision + 1, **news)  # type: ignore
        self.reports.append(self.report)


class ApplicationMasterAlone(RuleBasedStateMachine):
    """The rules are what the rest of the cluster may do."""

    @initialize(mechanism=st.sampled_from(("suspend", "checkpoint", "kill")), maps=st.integers(0, 2))
    def begin(self, mechanism: str, maps: int) -> None:
        job = make_job("a", maps_s=(1.0,) * maps, reduces_s=(10.0,) * 3)
        cluster = make_settings(nodes=2, containers=4, mechanism=mechanism, slow_start_ppm=0, task_attempts_max=1000)
        self.machine = ApplicationMaster(job, cluster)
        self.at_manager = Application(JobFacts("a", "research", map_reduce(maps, 3)), 0, 0)
        self.now_ns = 0
        self.timers: dict[str, SetTimer] = {}
        self.places: dict[str, Place] = {}
        self.heartbeats: list[ApplicationHeartbeat] = []
        self.answers: list[AllocateResponse] = []
        self.lost: set[str] = set()
        self.ended = self.gone = False
        self.tell(Start("c0"))

    # ---- delivery ----

    def tell(self, message: Message) -> None:
        self.now_ns += SECOND_NS // 4
        over = self.machine.state is not JobState.RUNNING
        for effect in self.machine.handle(message, self.now_ns):
            self.note(effect, over and not isinstance(message, Start))
        self.machine.validate_state()

    def note(self, effect: Effect, over: bool) -> None:
        if isinstance(effect, SetTimer):
            self.timers[effect.name] = effect
        elif isinstance(effect, ReadProgress):
            readings = tuple((container, ((self.now_ns, 1),)) for container in effect.containers)
            self.tell(ProgressSamples(readings))
        elif isinstance(effect, ExitApplication):
            assert effect.container == "c0"
            self.gone = True
        elif isinstance(effect, Send):
            self.sent(effect.message, over)

    def sent(self, message: Message, over: bool) -> None:
        if isinstance(message, ApplicationHeartbeat):
            self.heartbeats.append(message)
        elif isinstance(message, StartContainer | SuspendContainer | ResumeContainer):
            assert not over, f"{message} after the end of the job"
            place = self.places[message.container]
            if isinstance(message, StartContainer):
                self.check_start(message)
                place.start = message
            else:
                assert place.start is not None
                assert place.start.work is Work.KEYS
                on_its_way = place.report.state in (SUSPENDED, RUNNING, COMMITTING, DONE)
                assert isinstance(message, SuspendContainer) or on_its_way
                place.command = message
        elif isinstance(message, KillContainer):
            self.places[message.container].command = message
        elif isinstance(message, EndReceived):
            assert self.places[message.container].report.state is DONE
        else:
            assert isinstance(message, MapOutputs)

    def check_start(self, start: StartContainer) -> None:
        """No other container of the task may be alive, and it goes on from the last checkpoint that was taken."""
        same = (start.group, start.task)
        for place in self.places.values():
            if place.start is None or (place.start.group, place.start.task) != same:
                continue
            ours = place.start.container == start.container
            assert ours or place.report.state is DONE, f"{start.attempt} runs in {place.start.container} already"
        past = start.saved.past_containers if start.saved else ()
        assert all(self.places[container].report.outcome is Outcome.CHECKPOINTED for container in past)

    def place(self, recent: int) -> Place | None:
        places = list(self.places.values())
        return places[-recent] if recent <= len(places) else None

    # ---- the ResourceManager ----

    @rule()
    def heartbeat(self) -> None:
        revision, before = self.machine.revision, freeze(self.machine, NO_TRACE)
        assert self.machine.heartbeat is not None
        self.now_ns = self.machine.heartbeat.after(self.now_ns)
        self.tell(Tick(self.now_ns))
        assert self.machine.revision != revision or freeze(self.machine, NO_TRACE) == before

    @precondition(lambda self: self.heartbeats)
    @rule(recent=RECENT)
    def manager_hears(self, recent: int) -> None:
        """A heartbeat arrives, late or again; its response arrives at once."""
        message = self.heartbeats[-min(recent, len(self.heartbeats))]
        response = self.respond(message)
        self.tell(response)
        before = freeze(self.machine, REVISION)
        self.tell(response)
        assert freeze(self.machine, REVISION) == before, "a repeated response has changed something"

    def respond(self, message: ApplicationHeartbeat) -> ApplicationHeartbeatResponse:
        manager = self.at_manager
        if self.ended or message.final_state is not None:
            self.ended = True
            return ApplicationHeartbeatResponse(message.id, ended=True)
        if message.ask is not None and message.id > manager.last_heartbeat_id:
            manager.last_heartbeat_id = message.id
            manager.requests.replace(message, manager.news.undelivered(message.answer_id), self.now_ns)
        answer = manager.news.answer(message.answer_id, CostLedger().measured)
        if answer is not None:
            self.answers.append(answer)
        return ApplicationHeartbeatResponse(message.id, answer)

    @precondition(lambda self: self.answers)
    @rule(recent=RECENT)
    def an_old_answer_comes_again(self, recent: int) -> None:
        answer = self.answers[-min(recent, len(self.answers))]
        self.tell(ApplicationHeartbeatResponse(self.heartbeats[0].id, answer))

    @rule(node=NODES)
    def allocate(self, node: str) -> None:
        requests, ready_ns = self.at_manager.requests, self.now_ns
        if node in self.lost or self.ended:
            return
        for task, (ask, _) in requests.resumes.items():
            if ask.container is not None:
                place = self.places[ask.container]
                if place.report.state is SUSPENDED and place.told_free:
                    del requests.resumes[task]
                    place.told_free = False
                    self.give(replace(place.allocation, ready_ns=ready_ns, task=task))
                    return
                continue
            del requests.resumes[task]
            self.give(AllocatedContainer(f"c{len(self.places) + 1}", task.group, node, ready_ns, task))
            return
        for group in requests.since:
            if requests.since[group]:
                requests.since[group].popleft()
                self.give(AllocatedContainer(f"c{len(self.places) + 1}", group, node, ready_ns))
                return

    def give(self, allocation: AllocatedContainer) -> None:
        self.at_manager.news.allocate(allocation)
        if allocation.container not in self.places:
            report = ContainerReport(
                allocation.container, "a", allocation.group, allocation.node, 1, ContainerState.LAUNCHING
            )
            self.places[allocation.container] = Place(allocation, report)

    @rule()
    def reclaim(self) -> None:
        self.at_manager.news.request_reclaim()

    @rule(recent=RECENT)
    def manager_learns_that_it_is_free(self, recent: int) -> None:
        place = self.place(recent)
        if place is not None and not place.told_free and place.report.state in (SUSPENDED, DONE):
            place.told_free = True
            if place.report.state is DONE:
                self.at_manager.news.ended(place.report)

    @rule(node=NODES, rarely=st.integers(0, 5))
    def node_lost(self, node: str, rarely: int) -> None:
        if rarely or self.lost:
            return
        self.lost.add(node)
        for place in self.places.values():
            if place.allocation.node == node and not (place.told_free and place.report.state is DONE):
                place.report = replace(place.report, revision=1 << 62, state=DONE, outcome=Outcome.LOST)
                place.told_free = True
                self.at_manager.news.ended(place.report)
        self.at_manager.news.node_lost(node)

    # ---- containers ----

    @rule(recent=RECENT, failed=st.sampled_from((False, False, False, True)))
    def launches(self, recent: int, failed: bool) -> None:
        place = self.place(recent)
        if place is not None and place.start is not None and place.report.state is ContainerState.LAUNCHING:
            if failed:
                place.change(state=DONE, outcome=Outcome.LAUNCH_FAILED)
            else:
                place.change(state=RUNNING)

    @rule(recent=RECENT, refuses=st.booleans())
    def obeys(self, recent: int, refuses: bool) -> None:
        """The newest command is carried out, or a suspend refused."""
        place = self.place(recent)
        if place is None or place.command is None or place.report.state is DONE:
            return
        command, place.command = place.command, None
        if isinstance(command, KillContainer):
            place.change(state=DONE, outcome=Outcome.KILLED)
        elif isinstance(command, ResumeContainer):
            if place.report.state is SUSPENDED:
                place.change(state=RUNNING)
        elif place.report.state is RUNNING:
            if refuses:
                place.change(refusals=place.report.refusals + 1)
            elif command.mechanism is Mechanism.SUSPEND:
                place.told_free = False
                place.change(state=SUSPENDED)
            else:
                assert place.start is not None
                before = place.start.saved.past_containers if place.start.saved else ()
                name, node = command.container, place.allocation.node
                saved = KeyCheckpoint((*before, name), len(before) + 1, "input", node)
                place.change(state=DONE, outcome=Outcome.CHECKPOINTED, saved=saved)

    @rule(recent=RECENT)
    def commits(self, recent: int) -> None:
        place = self.place(recent)
        if place is not None and place.report.state is RUNNING:
            place.change(state=COMMITTING)

    @rule(
        recent=RECENT, outcome=st.sampled_from((Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.CRASHED, Outcome.KILLED))
    )
    def ends(self, recent: int, outcome: Outcome) -> None:
        place = self.place(recent)
        if place is not None and place.report.state in (RUNNING, COMMITTING, SUSPENDED):
            place.told_free = False
            place.change(state=DONE, outcome=outcome)

    @rule(recent=RECENT, data=st.data())
    def reported(self, recent: int, data: st.DataObject) -> None:
        """Any report of a container arrives, and arrives again."""
        place = self.place(recent)
        if place is None or not place.reports or place.allocation.node in self.lost:
            return
        message = ContainerReported(data.draw(st.sampled_from(place.reports[-2:])))
        self.tell(message)
        before = freeze(self.machine, REVISION)
        self.tell(message)
        assert freeze(self.machine, REVISION) == before, "a repeated report has changed something"

    @precondition(lambda self: any(name.startswith("ask") for name in self.timers))
    @rule(data=st.data(), stale=st.booleans())
    def task_heartbeat(self, data: st.DataObject, stale: bool) -> None:
        timer = self.timers[data.draw(st.sampled_from(sorted(self.timers)))]
        self.now_ns = max(self.now_ns, timer.at_ns)
        self.tell(TimerFired(timer.name, timer.generation - stale, timer.at_ns))

    @rule(node=NODES, version=st.integers(0, 3))
    def outputs_received(self, node: str, version: int) -> None:
        self.tell(MapOutputsReceived(node, version))

    @rule(
        message=st.sampled_from(
            (
                NodeLost("node-1"),
                FirstKey("c1", 1, 1, RealCost(0)),
                NodeHeartbeatResponse(1),
                KillContainer("c", "a", ""),
            )
        )
    )
    def an_illegal_message_changes_nothing(self, message: Message) -> None:
        before = freeze(self.machine)
        with pytest.raises(IllegalTransition):
            self.machine.handle(message, self.now_ns)
        assert freeze(self.machine) == before

    @rule(rarely=st.integers(0, 3))
    def dies_and_starts_again(self, rarely: int) -> None:
        """Restored from its journal: its timers must be set anew."""
        if not rarely:
            self.timers.clear()
            self.tell(Start("c0"))

    # ---- longer ways at once, to get far ----

    @rule(node=NODES)
    def a_container_comes_into_use(self, node: str) -> None:
        self.round_trip()
        self.allocate(node)
        self.round_trip()
        for recent in (1, 2, 3):
            self.launches(recent, False)
            self.newest_report(recent)

    @rule(recent=RECENT)
    def one_is_asked_back(self, recent: int) -> None:
        self.reclaim()
        self.round_trip()
        for name in sorted(self.timers):
            self.tell(TimerFired(name, self.timers[name].generation, self.timers[name].at_ns))
        self.obeys(recent, False)

    def round_trip(self) -> None:
        self.heartbeat()
        if self.heartbeats:
            self.tell(self.respond(self.heartbeats[-1]))

    def newest_report(self, recent: int) -> None:
        place = self.place(recent)
        if place is not None and place.reports and place.allocation.node not in self.lost:
            self.tell(ContainerReported(place.reports[-1]))

    @invariant()
    def every_open_task_waits_or_runs(self) -> None:
        master = getattr(self, "machine", None)
        if master is None or master.state is not JobState.RUNNING:
            return
        for task in (*master.tasks.maps, *master.tasks.walkers):
            if task.state in (TaskState.SCHEDULED, TaskState.RUNNING):
                attempt = task.attempt
                waits = any(waiting is attempt for waiting in master.tasks.asks)
                has_container = master.tasks.live.get(attempt.container or "") is attempt
                assert waits or has_container, f"{attempt.name} is forgotten"

    def teardown(self) -> None:
        """From wherever it has come to, the job ends once the cluster behaves."""
        if not hasattr(self, "machine"):
            return
        node = next(node for node in ("node-1", "node-2") if node not in self.lost)
        for _ in range(80):
            if self.gone:
                return
            self.round_trip()
            for _ in range(6):
                self.allocate(node)
            self.each_place(self.launches, False)
            self.each_place(self.obeys, False)
            self.each_place(self.manager_learns_that_it_is_free)
            self.each_place(self.newest_report)
            self.each_place(self.ends, Outcome.SUCCEEDED)
        raise AssertionError(f"the job has not ended: {self.machine.state}")

    def each_place(self, rule: Callable[..., None], *arguments: object) -> None:
        for recent in range(1, len(self.places) + 1):
            rule(recent, *arguments)


TestApplicationMasterAlone = ApplicationMasterAlone.TestCase
TestApplicationMasterAlone.settings = settings(
    max_examples=examples_of(ApplicationMasterAlone),
    stateful_step_count=40,
    derandomize=True,
)
