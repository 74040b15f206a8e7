"""The ApplicationMaster: one job, its tasks and their attempts.

Theory of operation
-------------------
The job goes NEW -> RUNNING -> SUCCEEDED, FAILED or KILLED; suspend and resume both happen while it is RUNNING.  It asks
the ResourceManager for containers in each heartbeat with its whole ask: maps first, reduces once ``slow_start`` of the
maps are done, and one request for each suspended reduce, in the order of suspension and with the old host's name.  It
gives each container it gets to a task and has the NodeManager launch it (natjam, Fig. 1, steps 11 and 12).

Asked to give containers back (step 4), it has its Releaser choose victims (step 5), asks each at the victim's own next
heartbeat (step 6), and takes what comes back: a checkpoint (step 8; a new attempt will resume it), a stopped process,
a refusal (another victim is chosen) or a kill.  Checkpoints live here: the one last accepted is what a retry starts
from.

Everything a NodeManager must do is repeated until the container's report shows it done, and every report carries the
container's whole state, so that nothing here depends on which message came first.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from emulator.core.asks import Asks
from emulator.core.command_ledger import CommandLedger, MapOutputLedger
from emulator.core.effects import Effect, ExitApplication, ReadProgress, Send, SetTimer
from emulator.core.explanation import LAST_LAUNCHED, explain_tasks
from emulator.core.job import JobSpec
from emulator.core.job_progress import progress_ppm
from emulator.core.machine import HEARTBEAT, IllegalTransition, Phase, Timers, TransitionTable
from emulator.core.mechanisms import TRAITS, applied_to
from emulator.core.messages import (
    RESOURCE_MANAGER,
    Allocation,
    Answer,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    ContainerReported,
    ContainerState,
    FetchFailed,
    JobState,
    KillContainer,
    MapOutputsReceived,
    Message,
    Outcome,
    ProgressSamples,
    ResumeContainer,
    Start,
    StartContainer,
    SuspendContainer,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.releaser import Releaser, view_of
from emulator.core.resuming import Resuming
from emulator.core.settings import Settings
from emulator.core.speculation import BEATEN, stragglers
from emulator.core.task import Task, TaskEvent, TaskState
from emulator.core.task_attempt import ENDED, AttemptEvent, AttemptState, TaskAttempt
from emulator.vocabulary import Kind


class JobEvent(Enum):
    """What moves a job."""

    START = "started"
    SUCCEED = "all tasks committed"
    FAIL = "a task failed"


JOB_TABLE: TransitionTable[JobState, JobEvent] = TransitionTable(
    "job",
    {
        (JobState.NEW, JobEvent.START): JobState.RUNNING,
        (JobState.RUNNING, JobEvent.SUCCEED): JobState.SUCCEEDED,
        (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
    },
)


_NEVER_NS = 1 << 62
_WALKING = frozenset({AttemptState.RUNNING, AttemptState.SUSPEND_PENDING})


class ApplicationMaster:
    """The machine of one job; see the module's theory of operation."""

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        self.job = spec.name
        self.address = job_address(spec.name)
        self.container = ""
        self.state = JobState.NEW
        self.maps = [Task(spec.name, Kind.MAP, i) for i in range(len(spec.map_ns))]
        self.reduces = [Task(spec.name, Kind.REDUCE, i, keys) for i, keys in enumerate(spec.reduce_keys)]
        self.reason = ""
        self.finish_ns: int | None = None
        self.releaser = Releaser(spec.name, spec.facts.memory_bytes, settings)
        self._mechanisms = settings.scheduler.mechanism.among
        self._victims = settings.scheduler.victims
        self._names_victims = settings.scheduler.allocation.paced is not None
        self._registers_at_once = settings.overheads.amrm_client
        self._protocol = settings.protocol
        self._starts_measured = spec.starts_measured
        self._timers = Timers()
        self.heartbeat = Phase(settings.seed, self.address, HEARTBEAT, settings.protocol.heartbeat_ns)
        self._seed = settings.seed
        self._asks = Asks(spec.name, Resuming(settings.scheduler.resume_order, self.releaser, spec.reduce_keys))
        self._live: dict[str, TaskAttempt] = {}
        """Attempts that have a container, by container."""
        self._commands = CommandLedger(settings.protocol.retry_ns)
        self._outputs = MapOutputLedger(spec.name, settings.protocol.retry_ns)
        self._map_news_ns = 0
        """When a map was last given a container, or was last in need of another, or room was last made for one."""
        self._maps_done = 0
        self._reduces_done = 0
        self._reduces_asked = False
        self._reports_progress = settings.scheduler.reports_progress
        self._speculation = settings.protocol.speculation
        self._reads_progress = self._reports_progress or self._speculation is not None
        self._final_acknowledged = False
        self.revision = 0
        """Grows with every change of state; an empty heartbeat and its empty response make none."""

    # ---- messages ----

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message; see ``emulator.core.machine.Machine``."""
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise IllegalTransition(f"{self.address}: {type(message).__name__} is not for an ApplicationMaster")
        effects = handler(self, message, now_ns)
        if handler not in _COUNT_THEMSELVES:
            self.revision += 1
        return effects

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        self.state = JOB_TABLE.next(self.state, JobEvent.START, self.job)
        self.container = message.container or ""
        for task in self.maps:
            task.move(TaskEvent.SCHEDULE)
            self._request(task.new_attempt())
        self._ask_for_reduces_if_due()
        effects = self._finish_if_done(now_ns)
        if self._registers_at_once and not effects:
            effects = self._heartbeat(now_ns)
        return [*effects, SetTimer(HEARTBEAT, self.heartbeat.after(now_ns), 0)]

    def _timer(self, message: TimerFired, now_ns: int) -> list[Effect]:
        if message.name == HEARTBEAT:
            return self._heartbeat_due(now_ns)
        self.revision += 1
        if not self._timers.take(message) or self.state is not JobState.RUNNING:
            return []
        _, _, container = message.name.partition(" ")
        attempt = self._live.get(container)
        return self._ask_to_suspend(attempt, now_ns) if attempt is not None else []

    def _heartbeat_due(self, now_ns: int) -> list[Effect]:
        if self._final_acknowledged:
            return []
        effects: list[Effect] = [*self._heartbeat(now_ns)]
        if self.state is JobState.RUNNING and (self._commands or self._outputs or self.releaser.owes):
            self.revision += 1
            effects += [*self._commands.repeat(now_ns), *self._outputs.repeat(now_ns), *self._release(now_ns)]
        if self._reads_progress and self.state is JobState.RUNNING:
            effects += self._read_for_the_next_heartbeat()
        starve_ns = self._maps_starve_ns()
        if starve_ns is not None and starve_ns <= now_ns and self.state is JobState.RUNNING:
            effects += self._make_room_for_maps(now_ns)
        return [*effects, SetTimer(HEARTBEAT, self.heartbeat.after(now_ns), 0)]

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """See ``emulator.core.machine.PeriodicMachine``."""
        if self._final_acknowledged:
            return None
        if self._asks.to_tell or self.state is not JobState.RUNNING:
            return now_ns
        if self._commands or self._outputs or self.releaser.owes or self._reads_progress:
            return now_ns
        return self._maps_starve_ns() if self._live else None

    def _response(self, message: ApplicationHeartbeatResponse, now_ns: int) -> list[Effect]:
        if self._asks.acknowledge(message.id):
            self.revision += 1
        if message.ended and not self._final_acknowledged:
            self.revision += 1
            self._final_acknowledged = True
            return [ExitApplication(self.container)]
        answer = message.answer
        if answer is None or self.state is not JobState.RUNNING or not self._asks.take_answer(answer):
            return []
        self.revision += 1
        return self._apply(answer, now_ns)

    def _apply(self, answer: Answer, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        if answer.costs is not None:
            self.releaser.costs = answer.costs
        self.releaser.debt = max(0, self.releaser.debt - answer.withdrawn) + answer.reclaim
        self.releaser.named.update(dict.fromkeys(answer.named))
        for allocation in answer.allocated:  # before what has ended: a container may have been lost since it was given
            effects += self._assign(allocation, now_ns)
        for report in answer.finished:
            effects += self._on_report(report, now_ns)
        for node in answer.lost_nodes:
            effects += self._node_lost(node, now_ns)
        return effects + self._release(now_ns)

    # ---- asking for containers ----

    def _request(self, attempt: TaskAttempt) -> None:
        attempt.move(AttemptEvent.REQUEST)
        self._asks.add(attempt)

    def _ask_for_reduces_if_due(self) -> None:
        """Slow-start: reduces are asked for once this share of the maps is done."""
        if self._reduces_asked or self._maps_done * 1_000_000 < len(self.maps) * self._protocol.slow_start_ppm:
            return
        self._reduces_asked = True
        for task in self.reduces:
            task.move(TaskEvent.SCHEDULE)
            self._request(task.new_attempt())

    def _heartbeat(self, now_ns: int) -> list[Effect]:
        if self.state in (JobState.SUCCEEDED, JobState.FAILED):
            return self._final_heartbeat(now_ns)
        progress = progress_ppm(self.maps, self.reduces) if self._reports_progress else None
        heartbeat, says_something = self._asks.heartbeat(now_ns, progress)
        self.revision += says_something
        return [Send(RESOURCE_MANAGER, heartbeat)]

    def _read_for_the_next_heartbeat(self) -> list[Effect]:
        """A heartbeat reports what had been read by the one before: its progress is a period old, as an estimate is."""
        walking = [a.container for a in self._live_reduces() if a.state in _WALKING and a.container is not None]
        if not walking:
            return []
        self.revision += 1
        return [ReadProgress(tuple(walking))]

    def _final_heartbeat(self, now_ns: int) -> list[Effect]:
        message = ApplicationHeartbeat(
            self.job, now_ns, self._asks.answer_id, Ask(), self.state, self.finish_ns, self.reason
        )
        return [Send(RESOURCE_MANAGER, message)]

    def _assign(self, allocation: Allocation, now_ns: int) -> list[Effect]:
        attempt = self._asks.take(allocation, self._prefers(allocation.node))
        if attempt is None:
            return self._give_back(allocation, now_ns)
        attempt.ready_ns = allocation.ready_ns
        if attempt.kind is Kind.MAP:
            self._map_news_ns = now_ns
        if attempt.state is AttemptState.SUSPENDED:
            attempt.resuming = True
            command: Message = ResumeContainer(allocation.container, allocation.ready_ns)
            return [self._commands.send(allocation.container, allocation.node, command, now_ns)]
        attempt.move(AttemptEvent.ASSIGN)
        attempt.container, attempt.node = allocation.container, allocation.node
        self._live[allocation.container] = attempt
        command = StartContainer(
            container=allocation.container,
            job=self.job,
            kind=attempt.kind,
            task=attempt.task.number,
            attempt=attempt.name,
            ready_ns=allocation.ready_ns,
            saved=attempt.saved,
            start_measured=self._starts_measured,
        )
        outputs = self._outputs.tell(allocation.node, now_ns) if attempt.kind is Kind.REDUCE else []
        return [*outputs, self._commands.send(allocation.container, allocation.node, command, now_ns)]

    def _prefers(self, node: str) -> Callable[[TaskAttempt], bool] | None:
        """Which attempt a container there should be for, if it matters: none whose rival runs there, which is slow."""
        if self._speculation is None:
            return None
        return lambda attempt: all(rival.node != node for rival in self._rivals(attempt))

    def _give_back(self, allocation: Allocation, now_ns: int) -> list[Effect]:
        """Nothing waits for it any more (its task has ended meanwhile): the kill frees it at the NodeManager."""
        command = KillContainer(allocation.container, self.job, "not needed any more")
        return [self._commands.send(allocation.container, allocation.node, command, now_ns)]

    # ---- map outputs ----

    def _maps_complete(self, now_ns: int) -> list[Effect]:
        self._outputs.complete(tuple(task.output_node or "" for task in self.maps))
        effects: list[Effect] = []
        for attempt in self._live.values():
            if attempt.kind is Kind.REDUCE and attempt.node is not None:
                effects += self._outputs.tell(attempt.node, now_ns)
        return effects

    def _outputs_received(self, message: MapOutputsReceived, now_ns: int) -> list[Effect]:
        self._outputs.received(message.node, message.version)
        return []

    # ---- reports ----

    def _reported(self, message: ContainerReported, now_ns: int) -> list[Effect]:
        if self.state is not JobState.RUNNING:
            return []
        effects = self._on_report(message.report, now_ns)
        return effects + self._release(now_ns)

    def _on_report(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        attempt = self._live.get(report.container)
        if attempt is not None and report.revision <= attempt.revision:
            return []  # old news: it must not settle a command sent since
        self._commands.settle(report)
        if attempt is None:
            return []
        attempt.revision = report.revision
        if report.state is ContainerState.LAUNCHING:
            return []
        if attempt.state is AttemptState.ASSIGNED and report.outcome is not Outcome.LAUNCH_FAILED:
            self._launched(attempt, now_ns)
        if attempt.resuming and (report.state is ContainerState.RUNNING or report.outcome is Outcome.SUCCEEDED):
            self._resumed(attempt, now_ns)
        if report.state is ContainerState.DONE:
            return self._ended(attempt, report, now_ns)
        if report.state is ContainerState.SUSPENDED:
            return self._stopped(attempt, now_ns)
        if report.committing and attempt.state in (AttemptState.RUNNING, AttemptState.SUSPEND_PENDING):
            attempt.move(AttemptEvent.COMMIT)
            self._spare(attempt)
        if report.refusals > attempt.refusals:
            attempt.refusals = report.refusals
            self._refused(attempt, now_ns)
        return []

    def _resumed(self, attempt: TaskAttempt, now_ns: int) -> None:
        attempt.resuming = False
        attempt.move(AttemptEvent.RESUME)
        attempt.running_ns = now_ns
        attempt.estimate = attempt.estimate.unanchored()

    def _launched(self, attempt: TaskAttempt, now_ns: int) -> None:
        attempt.move(AttemptEvent.LAUNCH)
        attempt.running_ns = now_ns
        self._task(attempt).move(TaskEvent.LAUNCHED)

    def _spare(self, attempt: TaskAttempt) -> None:
        """It is a victim no more.  One that ends by itself has paid the debt: its container comes free all the same."""
        attempt.victim = False
        if attempt.container is not None:
            self._timers.forget(f"ask {attempt.container}")
            self._commands.withdraw_suspend(attempt.container)

    def _refused(self, attempt: TaskAttempt, now_ns: int) -> None:
        if attempt.state is not AttemptState.SUSPEND_PENDING:
            return
        attempt.move(AttemptEvent.REFUSED)
        self._spare(attempt)
        self.releaser.debt += not self._names_victims
        # Not the same one again at once: another node may have room.
        attempt.spared_until_ns = now_ns + self._protocol.retry_ns

    def _stopped(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        if attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.move(AttemptEvent.SAVED)
            attempt.victim = False
            attempt.suspended_ns = now_ns
            return self._ask_to_resume(attempt, now_ns)
        if attempt.resuming:  # the resume has failed: ask again
            attempt.resuming = False
            return self._ask_to_resume(attempt, now_ns)
        return []

    def _ask_to_resume(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        """It has been stopped.  Of two attempts at a task that are, only the one that has come further goes on."""
        if self._task(attempt).state is TaskState.SUCCEEDED:
            return []  # beaten: its end is on the way
        other = self._asks.to_resume(attempt.task)
        further = attempt
        effects: list[Effect] = []
        if other is not None and other is not attempt:
            further = max(other, attempt, key=lambda stopped: stopped.estimate.keys_done)
            effects = self._kill_rival(attempt if further is other else other, now_ns)
        self._asks.add(further)
        self._withdraw_waiting(attempt)
        return effects

    def _ended(self, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        assert attempt.container is not None
        del self._live[attempt.container]
        if self._asks.to_resume(attempt.task) is attempt:
            self._asks.withdraw_resume(attempt.task)
        was_victim = attempt.victim
        self._spare(attempt)
        task = self._task(attempt)
        if task.state is TaskState.SUCCEEDED:
            attempt.move(AttemptEvent.KILL)  # beaten: however it has ended, nothing is made of it
            return []
        if report.outcome is Outcome.SUCCEEDED:
            return self._succeeded(task, attempt, report, now_ns)
        if report.outcome is Outcome.CHECKPOINTED and attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.move(AttemptEvent.SAVED)
            if report.saved is not None:
                task.accept(report.saved, attempt.saved)
            self._retry(task, now_ns)
            return []
        if report.outcome in (Outcome.KILLED, Outcome.LOST):
            attempt.move(AttemptEvent.KILL)
            self._retry(task, now_ns)
            if report.outcome is Outcome.LOST and was_victim:
                self.releaser.debt += not self._names_victims  # its container has not come free: the node is gone
            return []
        attempt.move(AttemptEvent.FAIL)
        task.failures += 1
        if task.failures >= self._protocol.task_attempts_max:
            task.move(TaskEvent.FAIL)
            return self._fail(f"{attempt.name} failed {task.failures} times, at last: {report.reason}", now_ns)
        self._retry(task, now_ns)
        return []

    def _retry(self, task: Task, now_ns: int) -> None:
        """An attempt has ended, or given way for good: another follows, unless a rival goes on."""
        task.move(TaskEvent.RETRY)
        if task.kind is Kind.MAP:
            self._map_news_ns = now_ns
        if task.speculative:
            self._withdraw_waiting(task.attempt)
            task.speculative = False
            if any(self._live.get(attempt.container or "") is attempt for attempt in task.attempts):
                return
        self._request(task.new_attempt(suspended_ns=now_ns if task.saved else None))

    def _succeeded(self, task: Task, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        attempt.move(AttemptEvent.SUCCEED)
        task.move(TaskEvent.SUCCEED)
        effects: list[Effect] = []
        if task.kind is Kind.MAP:
            task.output_node = report.node
            self._maps_done += 1
            self._ask_for_reduces_if_due()
            if self._maps_done == len(self.maps):
                effects += self._maps_complete(now_ns)
        else:
            self._reduces_done += 1
            effects += self._win(task, attempt, now_ns)
        return effects + self._finish_if_done(now_ns)

    # ---- speculative execution ----

    def _speculate(self, now_ns: int) -> None:
        """Second attempts for stragglers; while others wait for a container they would only wait behind them."""
        if self._speculation is None or not self._asks.empty:
            return
        for task in stragglers(self._speculation, self.reduces, self._live_reduces(), now_ns):
            self._request(task.rival_attempt())

    def _rivals(self, attempt: TaskAttempt) -> list[TaskAttempt]:
        """Other attempts at its task that have a container."""
        others = self._task(attempt).attempts
        return [a for a in others if a is not attempt and self._live.get(a.container or "") is a]

    def _win(self, task: Task, winner: TaskAttempt, now_ns: int) -> list[Effect]:
        """The first to succeed; whoever else is at the task is not wanted any more."""
        if not task.speculative:
            return []
        self._withdraw_waiting(winner)
        task.speculative = False
        self._asks.withdraw_resume(winner.task)
        return [effect for rival in self._rivals(winner) for effect in self._kill_rival(rival, now_ns)]

    def _kill_rival(self, rival: TaskAttempt, now_ns: int) -> list[Effect]:
        container, node = rival.place
        self._spare(rival)
        rival.spared_until_ns = _NEVER_NS
        return [self._commands.send(container, node, KillContainer(container, self.job, BEATEN), now_ns)]

    def _withdraw_waiting(self, attempt: TaskAttempt) -> None:
        """A second attempt that still waits when the first wins or gives way is of no use."""
        if not self._task(attempt).speculative:
            return
        for rival in self._asks.withdraw_new(attempt.task):
            rival.move(AttemptEvent.KILL)
            self._task(rival).speculative = False

    # ---- giving containers back ----

    def _release(self, now_ns: int) -> list[Effect]:
        """Read progress when there is a debt and somebody to pay it."""
        if not self.releaser.owes or self.state is not JobState.RUNNING:
            return []
        candidates = self.releaser.candidates(self._possible_victims(), now_ns)
        if not candidates:
            return []
        return [ReadProgress(tuple(a.container for a in candidates if a.container is not None and a.keys_total))]

    def _progress(self, message: ProgressSamples, now_ns: int) -> list[Effect]:
        if self.state is not JobState.RUNNING:
            return []
        self.releaser.read(message, self._live, now_ns)
        choice = self.releaser.choose(self.releaser.candidates(self._possible_victims(), now_ns), now_ns)
        self._speculate(now_ns)
        if choice is None:
            return []
        effects: list[Effect] = [choice.why]
        for victim in choice.victims:
            container, node = victim.place
            if TRAITS[victim.mechanism].asks_first:
                heartbeat = Phase(self._seed, victim.name, "task heartbeat", self._protocol.task_heartbeat_ns)
                effects.append(self._timers.set(f"ask {container}", heartbeat.after(now_ns)))
            else:
                kill = KillContainer(container, self.job, "preempted")
                effects.append(self._commands.send(container, node, kill, now_ns))
        return effects

    def _ask_to_suspend(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        """The victim's own heartbeat has come (natjam, step 6)."""
        if attempt.state is not AttemptState.RUNNING or not attempt.victim:
            return []
        container, node = attempt.place
        attempt.move(AttemptEvent.SUSPEND)
        command = SuspendContainer(container, attempt.mechanism, now_ns)
        return [self._commands.send(container, node, command, now_ns)]

    def _possible_victims(self) -> list[TaskAttempt]:
        return [attempt for attempt in self._live.values() if attempt.kind in self._victims]

    def _live_reduces(self) -> list[TaskAttempt]:
        return [attempt for attempt in self._live.values() if attempt.kind is Kind.REDUCE]

    # ---- faults ----

    def _node_lost(self, node: str, now_ns: int) -> list[Effect]:
        """Maps whose output lay there run again while reduces may still need it."""
        self._outputs.forget_node(node)
        if not self.reduces or self._reduces_done == len(self.reduces):
            return []
        lost = [task for task in self.maps if task.state is TaskState.SUCCEEDED and task.output_node == node]
        for task in lost:
            self._run_again(task, now_ns)
        return self._make_room_for_maps(now_ns) if lost else []

    def _run_again(self, map_task: Task, now_ns: int) -> None:
        """Its output is lost; reduces wait for it, and need not fail."""
        map_task.move(TaskEvent.OUTPUT_LOST)
        map_task.output_node = None
        self._maps_done -= 1
        self._map_news_ns = now_ns
        self._request(map_task.new_attempt())
        self._outputs.incomplete()

    def _fetch_failed(self, message: FetchFailed, now_ns: int) -> list[Effect]:
        """A reduce has asked for a map's output several times, in vain."""
        task = self.maps[message.map]
        known = message.version == self._outputs.version  # else other outputs are on their way to it
        if known and task.state is TaskState.SUCCEEDED and self.state is JobState.RUNNING:
            self._run_again(task, now_ns)
        return []

    def _maps_starve_ns(self) -> int | None:
        """When maps that must run again or go on have waited long, and no other will end and leave its container."""
        if not self._asks.has_new(Kind.MAP) and self._asks.first_map_to_resume is None:
            return None
        stopped = AttemptState.SUSPENDED
        if any(a.kind is Kind.MAP and (a.state is not stopped or a.resuming) for a in self._live.values()):
            return None
        return self._map_news_ns + self._protocol.kill_timeout_ns

    def _make_room_for_maps(self, now_ns: int) -> list[Effect]:
        """Reduces that wait for a map's output would hold every container for ever: the last one launched goes.

        For a stopped map only a container of its own node will do; others are given back too, since those who hold
        that one may wait for them.
        """
        running = [a for a in self._live_reduces() if a.state is AttemptState.RUNNING and not a.victim]
        if not running:
            return []
        self.revision += 1
        self._map_news_ns = now_ns
        stopped = None if self._asks.has_new(Kind.MAP) else self._asks.first_map_to_resume
        needed = None if stopped is None else stopped.node
        running.sort(key=lambda a: (a.node == needed, a.running_ns, a.task.number), reverse=True)
        last = running[0]
        container, node = last.place
        last.victim = True
        kill = KillContainer(container, self.job, "room for a map whose output is missing")
        views = tuple(view_of(self.job, attempt, now_ns) for attempt in running)
        why = explain_tasks(LAST_LAUNCHED, self.job, views, [task.container for task in views], victims=1)
        return [why, self._commands.send(container, node, kill, now_ns)]

    # ---- the end ----

    def _finish_if_done(self, now_ns: int) -> list[Effect]:
        open_tasks = len(self.reduces) - self._reduces_done if self.reduces else len(self.maps) - self._maps_done
        if open_tasks or self.state is not JobState.RUNNING:
            return []
        self.state = JOB_TABLE.next(self.state, JobEvent.SUCCEED, self.job)
        return self._end(now_ns)

    def _fail(self, reason: str, now_ns: int) -> list[Effect]:
        self.state = JOB_TABLE.next(self.state, JobEvent.FAIL, self.job)
        self.reason = reason
        return self._end(now_ns)

    def _end(self, now_ns: int) -> list[Effect]:
        self.finish_ns = now_ns
        effects: list[Effect] = []
        for attempt in self._live.values():
            if attempt.container is not None and attempt.node is not None:
                kill = KillContainer(attempt.container, self.job, "the job has ended")
                effects.append(Send(node_address(attempt.node), kill))
        return [*effects, *self._final_heartbeat(now_ns)]

    def _task(self, attempt: TaskAttempt) -> Task:
        return (self.maps if attempt.kind is Kind.MAP else self.reduces)[attempt.task.number]

    def validate_state(self) -> None:
        """One unfinished attempt a task, with speculation two; counters agree with states; whoever has a container has
        not ended."""
        at_most = 1 if self._speculation is None else 2
        for task in (*self.maps, *self.reduces):
            open_attempts = [a for a in task.attempts if a.state not in ENDED]
            if any(TRAITS[applied_to(mechanism, task.kind)].ends_process for mechanism in self._mechanisms):
                open_attempts = [a for a in open_attempts if a.state is not AttemptState.SUSPENDED]
            assert len(open_attempts) <= at_most, f"{self.job}: {task.kind.value} {task.index} runs twice"
        assert self._maps_done == sum(task.state is TaskState.SUCCEEDED for task in self.maps)
        assert self._reduces_done == sum(task.state is TaskState.SUCCEEDED for task in self.reduces)
        for container, attempt in self._live.items():
            assert attempt.container == container, attempt.name
            assert attempt.state not in ENDED, attempt.name
        for attempt in self._asks:
            assert self._task(attempt).state is not TaskState.SUCCEEDED, attempt.name
        assert self.releaser.debt >= 0


_HANDLERS = {
    Start: ApplicationMaster._start,
    TimerFired: ApplicationMaster._timer,
    ApplicationHeartbeatResponse: ApplicationMaster._response,
    ContainerReported: ApplicationMaster._reported,
    MapOutputsReceived: ApplicationMaster._outputs_received,
    ProgressSamples: ApplicationMaster._progress,
    FetchFailed: ApplicationMaster._fetch_failed,
}

_COUNT_THEMSELVES = frozenset({ApplicationMaster._timer, ApplicationMaster._response})
