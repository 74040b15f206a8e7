"""One NodeManager fed every legal message in any order, repeated at any time, and every completion out of place.

The model is the executor: what it has been asked to do, and what it may answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from simulated import SECOND_NS, freeze, make_settings

from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Killed,
    KillFailed,
    Launched,
    LaunchFailed,
    RealCost,
    Resumed,
    ResumeFailed,
    Suspended,
    SuspendFailed,
)
from emulator.core.effects import Checkpoint, Effect, Kill, Launch, Resume, Send, SetTimer, Suspend
from emulator.core.machine import IllegalTransition
from emulator.core.messages import (
    ContainerReported,
    ContainerState,
    KillContainer,
    MapOutputs,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    ResumeContainer,
    Start,
    StartContainer,
    SuspendContainer,
    Tick,
    TimerFired,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.settings import OverheadSettings
from emulator.vocabulary import REDUCE, KeyCheckpoint, Mechanism
from tests.examples import examples_of

FREE = RealCost(0)
JOBS = st.sampled_from(("a", "b"))
RECENT = st.integers(1, 3)
"""Which container: the last one started, the one before, ..."""
FAILED = {Launch: LaunchFailed, Suspend: SuspendFailed, Resume: ResumeFailed, Checkpoint: CheckpointFailed}
IDENTITY = frozenset({"NodeManager.revision"})
"""What a repeated message may change: the count of changes itself."""


@dataclass
class Process:
    """The model of one process, and what has been ordered about it."""

    job: str
    operation: type | None = Launch
    """Under way: to be answered before anything else but a kill."""
    kill: bool = False
    stopped: bool = False
    committing: bool = False
    """It has said so, and can neither stop nor be saved any more."""
    ended: bool = False
    carried_out: dict[type, int] = field(default_factory=dict)
    """By command: the instant in the newest one that has been carried out or refused."""


class NodeManagerAlone(RuleBasedStateMachine):
    """The rules are what ApplicationMasters, the ResourceManager and the executor may do."""

    def __init__(self) -> None:
        super().__init__()
        profile = OverheadSettings(suspend_ns=2 * SECOND_NS, resume_ns=SECOND_NS)
        cluster = make_settings(containers=2, max_suspended=1, overheads=profile)
        self.machine = NodeManager(cluster.nodes[0], cluster)
        self.now_ns = 0
        self.processes: dict[str, Process] = {}
        self.started: list[str] = []
        self.timers: dict[str, SetTimer] = {}
        self.commands: list[Message] = []
        self.heartbeats: list[NodeHeartbeat] = []
        self.slots = 0
        self.tell(Start())

    def tell(self, message: Message) -> list[Effect]:
        """Deliver a message; a suspend or resume that shows an effect must be newer than all that had one before."""
        if not isinstance(message, SuspendContainer | ResumeContainer):
            return self.deliver(message)
        before = self.shown(message.container)
        effects = self.deliver(message)
        if self.shown(message.container) != before:
            at_ns = message.asked_ns if isinstance(message, SuspendContainer) else message.ready_ns
            carried_out = self.processes[message.container].carried_out
            assert at_ns > carried_out.get(type(message), -1), f"{message} has been carried out twice"
            carried_out[type(message)] = at_ns
        return effects

    def shown(self, container: str) -> tuple[ContainerState, int] | None:
        known = self.machine.containers.get(container)
        return (known.state, known.refusals) if known else None

    def deliver(self, message: Message) -> list[Effect]:
        self.now_ns += SECOND_NS // 4
        effects = self.machine.handle(message, self.now_ns)
        self.machine.validate_state()
        for effect in effects:
            self.note(effect)
        return effects

    def note(self, effect: Effect) -> None:
        """Check an effect against the executor's contract, and take it on."""
        if isinstance(effect, SetTimer):
            self.timers[effect.name] = effect
        elif isinstance(effect, Send) and isinstance(effect.message, NodeHeartbeat):
            self.heartbeats.append(effect.message)
        elif isinstance(effect, Launch):
            assert effect.container not in self.processes, "launched twice"
            self.processes[effect.container] = Process(effect.job)
        elif isinstance(effect, Kill):
            process = self.processes[effect.container]
            assert not process.ended
            assert not process.kill, "killed twice"
            process.kill = True
        elif isinstance(effect, Suspend | Resume | Checkpoint):
            process = self.processes[effect.container]
            assert not process.ended
            assert not process.kill
            assert process.operation is None, f"{process.operation} is under way"
            assert process.stopped == isinstance(effect, Resume)
            process.operation = type(effect)

    def command(self, message: Message) -> None:
        """Deliver a command, and the same once more, which must change nothing."""
        self.tell(message)
        self.commands.append(message)
        before = freeze(self.machine, IDENTITY)
        again = self.tell(message)
        assert freeze(self.machine, IDENTITY) == before
        assert all(isinstance(effect, Send) for effect in again)

    def alive(self, *operations: type | None) -> list[str]:
        """Processes with one of these operations (None: no operation) under way."""
        return sorted(n for n, p in self.processes.items() if not p.ended and p.operation in operations)

    # ---- commands ----

    def recent(self, recent: int) -> str:
        """The container started before ``recent - 1`` others; one never started where there have been fewer."""
        return self.started[-recent] if recent <= len(self.started) else "none"

    @rule(job=JOBS)
    def start_container(self, job: str) -> None:
        if self.machine.ledger.used < 2:
            container = f"c{len(self.started)}"
            self.started.append(container)
            self.command(StartContainer(container, job, REDUCE, 0, f"{job}/r000.0", self.now_ns))

    @rule(recent=RECENT, mechanism=st.sampled_from((Mechanism.SUSPEND, Mechanism.CHECKPOINT)))
    def suspend(self, recent: int, mechanism: Mechanism) -> None:
        self.command(SuspendContainer(self.recent(recent), mechanism, self.now_ns))

    @rule(recent=RECENT)
    def resume(self, recent: int) -> None:
        """Only what has stopped (it may have ended since), and with a container free: so they are given out."""
        known = self.machine.containers.get(self.recent(recent))
        stopped = (ContainerState.SUSPENDED, ContainerState.KILLING, ContainerState.DONE)
        if self.machine.ledger.used < 2 and known is not None and known.state in stopped:
            self.command(ResumeContainer(known.id, self.now_ns))

    @rule(recent=RECENT, rarely=st.integers(0, 3))
    def kill(self, recent: int, rarely: int) -> None:
        known = self.machine.containers.get(self.recent(recent))
        if known is not None and not rarely:
            self.command(KillContainer(known.id, known.job, "test"))

    @rule(job=JOBS, rarely=st.integers(0, 3))
    def kill_overtakes_its_start(self, job: str, rarely: int) -> None:
        if not rarely:
            container = f"c{len(self.started)}"
            self.started.append(container)
            self.command(KillContainer(container, job, "test"))
            assert container not in self.processes
            self.tell(StartContainer(container, job, REDUCE, 0, f"{job}/r000.0", self.now_ns))
            assert container not in self.processes

    @rule(job=JOBS, version=st.integers(1, 3))
    def map_outputs(self, job: str, version: int) -> None:
        self.command(MapOutputs(job, version, ("node-1",)))

    @precondition(lambda self: self.commands)
    @rule(data=st.data())
    def an_old_command_comes_again(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.commands))
        start = isinstance(message, StartContainer) and message.container not in self.machine.containers
        if start and self.machine.ledger.used >= 2:
            return
        if isinstance(message, ResumeContainer) and self.machine.ledger.used >= 2:
            before = self.shown(message.container)
            newest = self.processes[message.container].carried_out if message.container in self.processes else {}
            if message.ready_ns <= newest.get(ResumeContainer, -1):
                self.tell(message)
                assert self.shown(message.container) == before
            return  # a newer one would come with a container of its own
        self.tell(message)

    @rule(recent=RECENT)
    def stops_again_and_the_old_resume_comes_again(self, recent: int) -> None:
        self.go_on(recent)
        self.stop(recent)
        container = self.recent(recent)
        if container not in self.processes:
            return
        for message in [command for command in self.commands if getattr(command, "container", "") == container]:
            if isinstance(message, ResumeContainer):
                before = self.shown(container)
                carried_out = self.processes[container].carried_out.get(ResumeContainer, -1)
                if message.ready_ns <= carried_out:
                    self.tell(message)
                    assert self.shown(container) == before

    @rule()
    def the_job_ends_and_everything_comes_again(self) -> None:
        """All that runs ends, the job is over and forgotten; then every command is repeated."""
        for container in self.alive(None):
            if not self.processes[container].kill:
                self.end(container, None, 11)
        if self.alive(Launch, Suspend, Resume, Checkpoint) or any(not p.ended for p in self.processes.values()):
            return
        self.heartbeat()
        self.tell(NodeHeartbeatResponse(self.heartbeats[-1].id, ("a", "b")))
        for message in self.commands:
            self.tell(message)
        assert not self.machine.ledger.used

    # ---- longer ways at once, to get far ----

    @rule(job=JOBS)
    def run(self, job: str) -> None:
        self.start_container(job)
        container = self.recent(1)
        if container in self.alive(Launch):
            self.answer(container)

    @rule(recent=RECENT)
    def stop(self, recent: int) -> None:
        self.suspend(recent, Mechanism.SUSPEND)
        container = self.recent(recent)
        if container in self.alive(Suspend):
            self.answer(container)

    @rule(recent=RECENT)
    def go_on(self, recent: int) -> None:
        self.resume(recent)
        container = self.recent(recent)
        timer = self.timers.get(f"resume {container}")
        if timer is not None:
            self.now_ns = max(self.now_ns, timer.at_ns)
            self.tell(TimerFired(timer.name, timer.generation, timer.at_ns))
        if container in self.alive(Resume):
            self.answer(container)

    @rule(recent=RECENT)
    def end_and_hear_of_it(self, recent: int) -> None:
        container = self.recent(recent)
        if container in self.alive(None) and not self.processes[container].kill:
            self.end(container, None, 11)
        self.heartbeat()
        self.tell(NodeHeartbeatResponse(self.heartbeats[-1].id))

    # ---- heartbeats and timers ----

    @rule()
    def heartbeat(self) -> None:
        before, revision = freeze(self.machine), self.machine.revision
        self.tell(Tick(self.now_ns))
        assert self.machine.revision != revision or freeze(self.machine) == before

    @precondition(lambda self: self.heartbeats)
    @rule(data=st.data(), finished=st.sampled_from(((), (), ("a",))))
    def response(self, data: st.DataObject, finished: tuple[str, ...]) -> None:
        """To any heartbeat ever sent: late, repeated, overtaken."""
        heartbeat = data.draw(st.sampled_from(self.heartbeats))
        busy = any(process.job in finished and not process.ended for process in self.processes.values())
        self.tell(NodeHeartbeatResponse(heartbeat.id, () if busy else finished))

    @precondition(lambda self: self.timers)
    @rule(data=st.data(), stale=st.booleans())
    def timer(self, data: st.DataObject, stale: bool) -> None:
        timer = data.draw(st.sampled_from(list(self.timers.values())))
        self.now_ns = max(self.now_ns, timer.at_ns)
        self.tell(TimerFired(timer.name, timer.generation - stale, timer.at_ns))

    # ---- the executor ----

    @precondition(lambda self: self.alive(Launch))
    @rule(data=st.data())
    def launched(self, data: st.DataObject) -> None:
        self.answer(data.draw(st.sampled_from(self.alive(Launch))))

    @precondition(lambda self: self.alive(Suspend, Resume, Checkpoint))
    @rule(data=st.data(), well=st.booleans())
    def operation_done(self, data: st.DataObject, well: bool) -> None:
        container = data.draw(st.sampled_from(self.alive(Suspend, Resume, Checkpoint)))
        process = self.processes[container]
        if well and (process.operation is Resume or not process.committing):
            self.answer(container)
        else:
            failed = FAILED[process.operation]  # type: ignore
            process.operation = None
            self.tell(failed(container, "test"))

    def answer(self, container: str) -> None:
        """The operation under way succeeds."""
        process = self.processes[container]
        operation, process.operation = process.operation, None
        if operation is Launch:
            self.tell(Launched(container, FREE))
        elif operation is Suspend:
            process.stopped = True
            self.tell(Suspended(container, 3, FREE))
        elif operation is Resume:
            process.stopped = False
            self.tell(Resumed(container, FREE))
        else:
            self.tell(Checkpointed(container, KeyCheckpoint((container,), 3, "input", "node-1", 9), FREE))
            self.end(container, 75, None)

    @precondition(lambda self: self.alive(None, Launch, Suspend, Resume, Checkpoint))
    @rule(data=st.data(), crash=st.booleans())
    def exits(self, data: st.DataObject, crash: bool) -> None:
        """By itself or not; what is under way fails first."""
        container = data.draw(st.sampled_from(self.alive(None, Launch, Suspend, Resume, Checkpoint)))
        process = self.processes[container]
        crash = crash or process.stopped or process.operation is Launch
        if process.operation is not None:
            failed, process.operation = FAILED[process.operation], None
            self.tell(failed(container, "the process has ended"))
        if process.kill:
            self.tell(KillFailed(container, "the process has ended"))
        self.end(container, None if crash else 0, 11 if crash else None)

    @precondition(lambda self: any(process.kill and not process.ended for process in self.processes.values()))
    @rule(data=st.data())
    def killed(self, data: st.DataObject) -> None:
        dying = sorted(name for name, process in self.processes.items() if process.kill and not process.ended)
        container = data.draw(st.sampled_from(dying))
        self.tell(Killed(container, FREE))
        self.end(container, None, 9)

    def end(self, container: str, code: int | None, signal: int | None) -> None:
        process = self.processes[container]
        process.ended, process.operation = True, None
        effects = self.tell(Exited(container, code, signal, 3))
        reports = [
            e.message.report for e in effects if isinstance(e, Send) and isinstance(e.message, ContainerReported)
        ]
        assert all(report.state is ContainerState.DONE for report in reports)

    @precondition(lambda self: self.alive(None))
    @rule(data=st.data())
    def begins_its_first_key(self, data: st.DataObject) -> None:
        container = data.draw(st.sampled_from(self.alive(None)))
        if not self.processes[container].stopped:
            self.tell(FirstKey(container, self.now_ns, 0, FREE))

    @precondition(lambda self: self.alive(None, Suspend, Resume, Checkpoint))
    @rule(data=st.data())
    def commits(self, data: st.DataObject) -> None:
        """It may have been asked to stop, or its word may overtake that of its going on."""
        process = self.processes[container := data.draw(st.sampled_from(self.alive(None, Suspend, Resume, Checkpoint)))]
        if (process.operation is Resume or not process.stopped) and not process.committing:
            process.committing, process.stopped = True, False
            effects = self.tell(Committing(container))
            reported = [effect for effect in effects if isinstance(effect, Send)]
            assert bool(reported) != process.kill, "said at once, unless it is being killed"

    @rule(
        recent=RECENT,
        make=st.sampled_from(
            (
                (Launch, lambda c: Launched(c, FREE)),
                (Launch, lambda c: LaunchFailed(c, "test")),
                (Suspend, lambda c: Suspended(c, 3, FREE)),
                (Suspend, lambda c: SuspendFailed(c, "test")),
                (Resume, lambda c: Resumed(c, FREE)),
                (Resume, lambda c: ResumeFailed(c, "test")),
                (Checkpoint, lambda c: CheckpointFailed(c, "test")),
            )
        ),
    )
    def a_completion_nobody_asked_for(self, recent: int, make: tuple[type, object]) -> None:
        """It is refused and changes nothing; while a kill is on its way it is let pass and changes nothing."""
        container = self.recent(recent)
        operation, message = make[0], make[1](container)  # type: ignore
        process = self.processes.get(container)
        if process is not None and process.operation is operation and not process.ended:
            return
        commits = process is not None and process.committing and not process.kill and not process.ended
        if commits and isinstance(message, Resumed | ResumeFailed | SuspendFailed | CheckpointFailed):
            assert self.machine.handle(message, self.now_ns) == []  # it may have been asked so before
            assert self.machine.containers[container].state is ContainerState.COMMITTING
            return
        before = freeze(self.machine, IDENTITY)
        if process is not None and process.kill and not process.ended:
            if not isinstance(message, LaunchFailed):
                assert self.machine.handle(message, self.now_ns) == []
        else:
            revision = self.machine.revision
            with pytest.raises(IllegalTransition):
                self.machine.handle(message, self.now_ns)
            assert self.machine.revision == revision
        assert freeze(self.machine, IDENTITY) == before

    # ---- always ----

    @invariant()
    def slots_are_those_of_processes_that_run(self) -> None:
        going = {name for name, process in self.processes.items() if not process.ended and not process.stopped}
        held = {
            container.id
            for container in self.machine.containers.values()
            if self.machine.ledger.in_container(container.id)
        }
        assert going <= held
        for name in held - going:
            state = self.machine.containers[name].state
            assert state in (ContainerState.RESUMING, ContainerState.KILLING), f"{name} holds a container: {state}"

    @invariant()
    def stopped_processes_fit_into_memory(self) -> None:
        stopped = [name for name, process in self.processes.items() if process.stopped and not process.ended]
        waiting = [n for n in stopped if self.machine.containers[n].state is not ContainerState.RESUMING]
        assert len(waiting) <= 1, f"{waiting} are stopped"

    @invariant()
    def every_end_is_told_until_it_is_heard(self) -> None:
        for name, process in self.processes.items():
            container = self.machine.containers.get(name)
            if process.ended and container is not None:
                assert container.state is ContainerState.DONE


TestNodeManagerAlone = NodeManagerAlone.TestCase
TestNodeManagerAlone.settings = settings(
    max_examples=examples_of(NodeManagerAlone), stateful_step_count=50, derandomize=True
)
