"""The ApplicationMaster: one job, its tasks and their attempts.

Theory of operation
-------------------
The job goes NEW -> RUNNING -> SUCCEEDED or FAILED; suspend and resume both happen while it is RUNNING.  A later attempt
of the ApplicationMaster itself continues where its journal ends (``emulator.core.resource_manager.recovery``).  Each
heartbeat asks the ResourceManager for containers and carries the whole ask.  Maps come first, then reduces once
``slow_start`` of the maps are done.  Each suspended reduce has its own request with its old node, in the order of
suspension.  The ApplicationMaster gives each container to a task and tells the NodeManager to launch it (natjam, Fig.
1, steps 11 and 12).

When it must give containers back (step 4), its Releaser chooses victims (step 5).  It asks each victim at the victim's
own next heartbeat (step 6).  The result is a checkpoint (step 8; a new attempt will resume it), a stopped process, a
refusal (then another victim is chosen) or a kill.  Checkpoints are kept here; a retry starts from the last accepted.

Each command to a NodeManager is repeated until the container's report shows that it was carried out.  Every report
carries the container's whole state and a rising revision, and one that is not newer than the last is ignored, so
nothing here depends on the order in which messages arrive.  A report settles the command that it answers and moves the
attempt along Fig. 2.  If the attempt has ended, its task is done, another attempt follows, or the job has failed.

A task that a trigger or a user orders to suspend (os-assisted-preemption, section III-B) is *held* until it is ordered
to resume, or killed.  Whenever an attempt at it runs, the attempt becomes a victim: it is stopped (SIGTSTP) and does
not ask for a container.  If its node has no capacity and refuses, it is asked again.  A killed task starts again as
soon as it gets a container.  A kill, like a suspension, happens at the task's own next heartbeat.  An order about a
task that has ended has no effect.
"""

from __future__ import annotations

from bisect import bisect_right

from emulator.core.application_master.job_progress import progress_ppm, work_ppm
from emulator.core.application_master.job_tasks import Gang, JobTasks
from emulator.core.application_master.map_reruns import MapReruns
from emulator.core.application_master.speculation import SpeculativeAttempts
from emulator.core.application_master.task import (
    AT_WORK,
    VICTIM,
    AttemptEvent,
    AttemptState,
    Task,
    TaskAttempt,
    TaskEvent,
    TaskState,
)
from emulator.core.effects import Effect, ExitApplication, ReadProgress, Send
from emulator.core.job import JobSpec
from emulator.core.machine import Arc, Phase, Stateful, StateMachine, Symbol
from emulator.core.messages import (
    RESOURCE_MANAGER,
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
    MapOutputsReceived,
    Message,
    Outcome,
    ProgressSamples,
    Start,
    TaskOrder,
    Tick,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.settings import Settings
from emulator.policies.mechanism import HELD_BY, TRAITS
from emulator.policies.resources import WHOLE_PPM
from emulator.vocabulary import Mechanism, Order, Saved, TaskId, Work

_GOES_ON = frozenset({ContainerState.RUNNING, ContainerState.COMMITTING})


class JobEvent(Symbol):
    """Events that change a job's state."""

    START = "started"
    SUCCEED = "all tasks committed"
    FAIL = "a task failed"


class ApplicationMaster(StateMachine, Stateful):
    """The machine of one job; see the module's theory of operation."""

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        super().__init__(job_address(spec.name))
        self.job = spec.name
        self.container = ""
        self.state = JobState.NEW
        self.reason = ""
        self.finish_ns: int | None = None
        self.tasks = JobTasks(spec, settings)
        self._rivals = SpeculativeAttempts(self.tasks, settings.protocol.speculation)
        self._reruns = MapReruns(self.tasks, settings)
        self._kill_reasons: dict[str, str] = {}
        """By container, of ordered kills that wait for their tasks' heartbeats."""
        may_take = settings.scheduler.may_take
        self._victims = frozenset(group.name for group in spec.facts.groups if may_take(group))
        self._spare_after = settings.scheduler.spare_after
        self._grace_ns = spec.facts.grace_ns
        self._registers_at_once = settings.overheads.amrm_client
        self._updates_immediately = settings.protocol.has_immediate_updates
        self._protocol = settings.protocol
        self._heeds_refusals = settings.scheduler.mechanism.heeds_refusals
        self._spec = spec
        self.heartbeat = Phase(settings.seed, self.address, "heartbeat", settings.protocol.heartbeat_ns)
        self._reports_progress = settings.scheduler.reports_progress
        self._marks = settings.marks.get(spec.name, ())
        self._marks_passed = 0
        self._final_acknowledged = False

    def __str__(self) -> str:
        return self.job

    @property
    def _reads_progress(self) -> bool:
        return self._reports_progress or self._protocol.speculation is not None or self._marks_passed < len(self._marks)

    # ---- messages ----

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message; see ``emulator.core.machine.Machine``."""
        if not self._updates_immediately:
            return super().handle(message, now_ns)
        asks = self.tasks.asks
        answer_id = asks.answer_id
        effects = super().handle(message, now_ns)
        if self.state is JobState.RUNNING and (asks.is_new or asks.answer_id > answer_id):
            effects += self._heartbeat(now_ns)
        return effects

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        container = message.container or ""
        if container and (len(container), container) < (len(self.container), self.container):
            return []  # containers are numbered: an earlier attempt, whose node was taken for dead, begins too late
        self.container = container
        self.tasks.asks.register(self.container)
        if self.state is not JobState.NEW:
            return self._recover(now_ns)
        return self.take(JobEvent.START, now_ns)

    def _begin(self, now_ns: int) -> list[Effect]:
        self.tasks.request_groups_if_due()
        effects = self._end_if_due(now_ns)
        return self._heartbeat(now_ns) if self._registers_at_once and not effects else effects

    def _recover(self, now_ns: int) -> list[Effect]:
        """A later attempt with the restored state of the one before: it registers, and sets that one's timers again.

        If its job has ended meanwhile, it says so again, and leaves when that is known.
        """
        self._final_acknowledged = False
        return [*self._heartbeat(now_ns), *self.tasks.timers.again(now_ns)]

    @property
    def has_left(self) -> bool:
        """Whether its job has ended and the ResourceManager knows it."""
        return self._final_acknowledged

    def _timer(self, message: TimerFired, now_ns: int) -> list[Effect]:
        if not self.tasks.timers.take(message) or self.state is not JobState.RUNNING:
            return []
        verb, _, container = message.name.partition(" ")
        attempt = self.tasks.live.get(container)
        if attempt is None:
            return []
        return [self._kill_as_ordered(attempt, now_ns)] if verb == "kill" else self._ask_to_suspend(attempt, now_ns)

    def _tick(self, message: Tick, now_ns: int) -> list[Effect]:
        if self._final_acknowledged:
            self.skip_journal()
            return []
        tasks, tells = self.tasks, self.tasks.asks.must_send
        effects = self._heartbeat(now_ns)
        owes = self.state is JobState.RUNNING and self._has_open_contract
        if self.state is JobState.RUNNING:
            effects += [*tasks.commands.repeat(now_ns), *tasks.outputs.repeat(now_ns)]
        if owes:
            effects += self._release(now_ns)
        if self._reads_progress and self.state is JobState.RUNNING:
            effects += self._read_progress()
        starve_ns = self._reruns.starve_ns()
        if starve_ns is not None and starve_ns <= now_ns and self.state is JobState.RUNNING:
            effects += self._reruns.kill_newest_reduce(now_ns)
        if len(effects) == 1 and not (owes or tells or tasks.asks.has_unacknowledged):
            self.skip_journal()
        return effects

    @property
    def received_id(self) -> int:
        """See ``emulator.core.machine.StateMachine``."""
        return self.tasks.asks.answer_id

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """See ``emulator.core.machine.StateMachine``."""
        if self._final_acknowledged:
            return None
        tasks = self.tasks
        if tasks.asks.must_send or self.state is not JobState.RUNNING:
            return now_ns
        if self._has_open_contract or self._reads_progress:
            return now_ns
        due_ns = self._reruns.starve_ns() if tasks.live else None
        for at_ns in (tasks.commands.due_ns, tasks.outputs.due_ns):
            if at_ns is not None and (due_ns is None or at_ns < due_ns):
                due_ns = at_ns
        return due_ns

    @property
    def _has_open_contract(self) -> bool:
        return self.tasks.releaser.has_open_contract or self._must_stop or self._is_evicted_whole

    def _response(self, message: ApplicationHeartbeatResponse, now_ns: int) -> list[Effect]:
        acknowledged, answer = self.tasks.asks.acknowledge(message.id), message.answer
        if message.ended and not self._final_acknowledged:
            self._final_acknowledged = True
            return [ExitApplication(self.container)]
        if answer is not None and self.state is JobState.RUNNING and self.tasks.asks.apply_response(answer):
            return self._apply(answer, now_ns)
        if not acknowledged:
            self.skip_journal()
        return []

    def _apply(self, answer: AllocateResponse, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        self.tasks.releaser.apply_response(answer)
        at_once = self.tasks.at_once
        is_of_use = at_once is not None and len(answer.allocated) >= at_once
        for allocation in answer.allocated:  # before the ended ones: a container may be given and lost in one answer
            effects += self._assign(allocation, now_ns) if is_of_use else self._release_unused(allocation, now_ns)
        if not is_of_use and answer.allocated:
            self.tasks.asks.mark_changed()
        if answer.reclaim or answer.named:
            self.tasks.lost_to_gang()
        for report in sorted(answer.finished, key=lambda each: (len(each.container), each.container)):
            effects += self._apply_report(report, now_ns)
        for node in answer.lost_nodes:
            effects += self._reruns.node_lost(node, now_ns)
        for order in answer.orders:
            effects += self._obey(order, now_ns)
        return effects + self._release(now_ns)

    # ---- asking for containers ----

    def _heartbeat(self, now_ns: int) -> list[Effect]:
        if self.state in (JobState.SUCCEEDED, JobState.FAILED):
            return self._final_heartbeat(now_ns)
        progress = progress_ppm(self.tasks.maps, self.tasks.walkers) if self._reports_progress else None
        if self._marks_passed < len(self._marks):
            done_ppm = work_ppm((*self.tasks.maps, *self.tasks.walkers))
            self._marks_passed = max(self._marks_passed, bisect_right(self._marks, min(done_ppm, WHOLE_PPM - 1)))
        asks, at_once = self.tasks.asks, self.tasks.at_once
        return [Send(RESOURCE_MANAGER, asks.heartbeat(now_ns, progress, self._marks_passed, at_once))]

    def _read_progress(self) -> list[Effect]:
        """Read progress for the next heartbeat, so a heartbeat reports progress that is one period old."""
        walking = [a.container for a in self.tasks.live_reduces if a.state in AT_WORK and a.container is not None]
        return [ReadProgress(tuple(walking))] if walking else []

    def _final_heartbeat(self, now_ns: int) -> list[Effect]:
        answer_id, container = self.tasks.asks.answer_id, self.container
        message = ApplicationHeartbeat(
            self.job, now_ns, answer_id, Ask(), self.state, self.finish_ns, self.reason, container=container
        )
        return [Send(RESOURCE_MANAGER, message)]

    def _assign(self, allocation: AllocatedContainer, now_ns: int) -> list[Effect]:
        tasks = self.tasks
        attempt = tasks.asks.take(allocation, self._rivals.avoiding(allocation.node))
        if attempt is None:
            return self._release_unused(allocation, now_ns)
        if attempt.work is Work.SHUFFLE:
            tasks.map_news_ns = now_ns
        command = attempt.take(AttemptEvent.ASSIGN, allocation, self._spec)
        sent = tasks.commands.send(allocation.container, allocation.node, command, now_ns)
        if attempt.state is AttemptState.RESUMING:
            return [sent]
        tasks.live[allocation.container] = attempt
        tasks.outputs.registered(allocation.node, allocation.registration)
        tasks.blacklist.node_is_there(allocation.node)
        outputs = tasks.outputs.notify(allocation.node, now_ns) if attempt.work is Work.KEYS else []
        return [*outputs, sent]

    def _release_unused(self, allocation: AllocatedContainer, now_ns: int) -> list[Effect]:
        """No attempt waits for it any more (its task has ended), or its gang has no use for so few: the kill frees it
        at the NodeManager."""
        self.tasks.lost_to_gang()
        command = KillContainer(allocation.container, self.job, "not needed any more")
        return [self.tasks.commands.send(allocation.container, allocation.node, command, now_ns)]

    # ---- news from nodes ----

    def _outputs_received(self, message: MapOutputsReceived, now_ns: int) -> list[Effect]:
        self.tasks.outputs.received(message.node, message.version, message.registration)
        return []

    def _reported(self, message: ContainerReported, now_ns: int) -> list[Effect]:
        if self.state is not JobState.RUNNING:
            return []
        report = message.report
        effects = [*self._apply_report(report, now_ns), *self._release(now_ns)]
        if report.state is ContainerState.DONE and self.state is JobState.RUNNING:
            effects.append(Send(node_address(report.node), EndReceived(report.container)))
        return effects

    def _apply_report(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        return [*self._move_attempt(report, now_ns), *self._end_if_due(now_ns)]

    def _move_attempt(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        """Settle the command that the report answers, and move the attempt along Fig. 2."""
        tasks, attempt = self.tasks, self.tasks.live.get(report.container)
        if attempt is not None and report.revision <= attempt.revision:
            return []  # an old report: it must not settle a command sent since
        tasks.commands.acknowledge(report)
        if attempt is None:
            return []
        attempt.revision = report.revision
        if report.saved is not None and report.outcome is not Outcome.CHECKPOINTED:
            self._saved_by_itself(attempt, report.saved, now_ns)
        if report.state is ContainerState.LAUNCHING:
            return []
        if not attempt.was_launched and report.outcome is not Outcome.LAUNCH_FAILED:
            attempt.take(AttemptEvent.LAUNCH, now_ns)
            tasks.of(attempt).take(TaskEvent.LAUNCHED)
        has_gone_on = report.state in _GOES_ON or report.outcome is Outcome.SUCCEEDED
        if attempt.state is AttemptState.RESUMING and has_gone_on:
            attempt.take(AttemptEvent.RESUME, now_ns)
        if report.state is ContainerState.DONE:
            return self._ended(attempt, report, now_ns)
        if report.state is ContainerState.SUSPENDED:
            return self._stopped(attempt, now_ns)
        if report.state is ContainerState.COMMITTING and attempt.state in AT_WORK:
            attempt.take(AttemptEvent.COMMIT)  # a victim that commits frees its container too: the debt is paid
            tasks.withdraw_suspend(attempt)
        if report.refusals > attempt.refusals:
            attempt.refusals = report.refusals
            self._refused(attempt, now_ns)
        return []

    def _fetch_failed(self, message: FetchFailed, now_ns: int) -> list[Effect]:
        if self.state is JobState.RUNNING:
            self._reruns.fetch_failed(message, now_ns)
        return []

    def _saved_by_itself(self, attempt: TaskAttempt, saved: Saved, now_ns: int) -> None:
        """What it has done until then is not lost, however it ends."""
        task = self.tasks.of(attempt)
        if saved != task.saved:
            attempt.saved_by_itself_ns = now_ns
            task.accept(saved, attempt.saved)

    def _refused(self, attempt: TaskAttempt, now_ns: int) -> None:
        if attempt.state is not AttemptState.SUSPEND_PENDING:
            return
        gets_another = self._heeds_refusals and not TRAITS[attempt.mechanism].ends_process
        # Do not choose the same victim again at once: another node may have room.
        is_spared = not gets_another or attempt.task in self.tasks.held
        attempt.take(AttemptEvent.REFUSED, now_ns + self._protocol.retry_ns if is_spared else attempt.spared_until_ns)
        self.tasks.withdraw_suspend(attempt)
        self._add_contract(attempt)

    def _add_contract(self, victim: TaskAttempt) -> None:
        """A victim's container has not become free: if it was to pay a debt, another victim must."""
        self.tasks.releaser.open_contracts += victim.fulfils_contract

    def _stopped(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        if attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.take(AttemptEvent.SAVED, now_ns)
            self.tasks.of(attempt).suspended(now_ns)
            return self._ask_to_resume(attempt, now_ns)
        if attempt.state is AttemptState.RESUMING:
            attempt.take(AttemptEvent.RESUME_FAILED)
            return self._ask_to_resume(attempt, now_ns)
        return []

    def _ask_to_resume(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        """An attempt was stopped and asks to resume.  If two attempts at a task are stopped, only the one with more
        keys done may resume; the other is killed."""
        tasks = self.tasks
        tasks.lost_to_gang()
        if tasks.of(attempt).state is TaskState.SUCCEEDED:
            return []  # another attempt has succeeded: this one will be killed
        if attempt.task in tasks.held:
            return []
        other = tasks.asks.to_resume(attempt.task)
        further = attempt
        effects: list[Effect] = []
        if other is not None and other is not attempt:
            further = max(other, attempt, key=lambda stopped: stopped.estimate.keys_done)
            effects = [self._rivals.kill(attempt if further is other else other, now_ns)]
        tasks.asks.add(further)
        self._rivals.withdraw_waiting(attempt)
        return effects

    # ---- ends ----

    def _ended(self, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        tasks = self.tasks
        del tasks.live[report.container]
        if tasks.asks.to_resume(attempt.task) is attempt:
            tasks.asks.withdraw_resume(attempt.task)
        was_victim = attempt.state in VICTIM
        tasks.withdraw_suspend(attempt)
        task = tasks.of(attempt)
        if task.state is TaskState.SUCCEEDED:
            attempt.take(AttemptEvent.KILL)  # another attempt has succeeded: the outcome of this one does not count
        elif report.outcome is Outcome.SUCCEEDED:
            return self._succeeded(task, attempt, report, now_ns)
        elif report.outcome is Outcome.CHECKPOINTED and attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.take(AttemptEvent.SAVED, now_ns)
            task.suspended(now_ns)
            if report.saved is not None:
                task.accept(report.saved, attempt.saved)
            self._retry(task, now_ns)
        elif report.outcome in (Outcome.KILLED, Outcome.LOST):
            attempt.take(AttemptEvent.KILL)
            self._retry(task, now_ns)
            if report.outcome is Outcome.LOST and was_victim:
                self._add_contract(attempt)  # the node is gone
        else:
            self._failed(task, attempt, report, now_ns)
        return []

    def _failed(self, task: Task, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> None:
        attempt.take(AttemptEvent.FAIL)
        self.tasks.blacklist.failed(report.node)
        if task.failures + 1 < self._protocol.task_attempts_max:
            self._retry(task, now_ns, failed=True)
            return
        task.take(TaskEvent.FAIL)
        self.tasks.failure = f"{attempt.name} failed {task.failures} times, at last: {report.reason}"

    def _retry(self, task: Task, now_ns: int, failed: bool = False) -> None:
        """An attempt has ended, or given way for good: start another, unless a speculative rival is still running."""
        tasks = self.tasks
        tasks.lost_to_gang()
        if not task.keys_total:
            tasks.map_news_ns = now_ns
        has_rival = task.speculative and any(tasks.has_container(attempt) for attempt in task.attempts)
        self._rivals.withdraw_waiting(task.attempt)
        another = task.take(TaskEvent.RETRY, now_ns, has_rival, failed)
        if another is not None:
            tasks.request(another)

    def _succeeded(self, task: Task, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        tasks = self.tasks
        attempt.take(AttemptEvent.SUCCEED)
        task.take(TaskEvent.SUCCEED, report.node)
        tasks.groups.count(task, 1)
        tasks.request_groups_if_due()
        if task.keys_total:
            return self._rivals.beaten_by(attempt, now_ns)
        return self._maps_complete(now_ns) if tasks.groups.maps_are_done else []

    def _maps_complete(self, now_ns: int) -> list[Effect]:
        outputs = self.tasks.outputs
        outputs.complete(tuple(task.output_node or "" for task in self.tasks.maps))
        nodes = [attempt.node for attempt in self.tasks.live_reduces if attempt.node is not None]
        return [effect for node in nodes for effect in outputs.notify(node, now_ns)]

    # ---- giving containers back ----

    def _release(self, now_ns: int) -> list[Effect]:
        """Evict held tasks; read progress if containers are owed and there are candidates."""
        if self.state is not JobState.RUNNING:
            return []
        effects = [] if self.tasks.gang is None else self._keep_whole(self.tasks.gang, now_ns)
        if not (self.tasks.held or self.tasks.releaser.has_open_contract or self._is_evicted_whole):
            return effects
        effects += self._evict(self._held_victims(now_ns), now_ns)
        return effects + self._read_to_release(now_ns)

    def _keep_whole(self, gang: Gang, now_ns: int) -> list[Effect]:
        """Let the gang disband if too few of it are left, and kill what of it is being launched then."""
        tasks, is_in = self.tasks, gang.is_in(self.tasks.live)
        if gang.was_in and not is_in:
            gang.disbands = False
            tasks.releaser.open_contracts = 0
            tasks.releaser.named.clear()
            tasks.asks.mark_changed()
        gang.was_in = is_in
        if gang.has_lost and is_in and not gang.disbands:
            to_give = tasks.releaser.open_contracts + len(tasks.releaser.named.keys() & tasks.live.keys())
            gang.disbands = gang.retained(tasks.live) - to_give < tasks.needed
            tasks.asks.mark_changed()
        gang.has_lost = False
        launched = gang.being_launched(tasks.live) if gang.disbands else []
        for attempt in launched:
            attempt.take(AttemptEvent.CHOOSE, Mechanism.KILL)
        return self._evict(launched, now_ns)

    @property
    def _is_evicted_whole(self) -> bool:
        return self.tasks.gang is not None and self.tasks.gang.disbands

    def _candidates(self, now_ns: int) -> list[TaskAttempt]:
        """Tasks that may give their containers back now."""
        if self.tasks.gang is not None and self.tasks.gang.disbands:
            return self.tasks.gang.to_evict(self.tasks.live)
        return self.tasks.releaser.victims(self._possible_victims(now_ns), now_ns)

    def _read_to_release(self, now_ns: int) -> list[Effect]:
        self.tasks.releaser.forget_ended(self.tasks.live)
        if not (self.tasks.releaser.has_open_contract or self._is_evicted_whole):
            return []
        candidates = self._candidates(now_ns)
        if not candidates:
            return []
        return [ReadProgress(tuple(a.container for a in candidates if a.container is not None and a.keys_total))]

    def _progress(self, message: ProgressSamples, now_ns: int) -> list[Effect]:
        if self.state is not JobState.RUNNING:
            return []
        self.tasks.releaser.read(message, self.tasks.live, now_ns)
        choice = self.tasks.releaser.choose(self._candidates(now_ns), now_ns, self._is_evicted_whole)
        self._rivals.speculate(now_ns)
        if choice is None:
            return []
        return [choice.why, *self._evict(choice.victims, now_ns)]

    def _evict(self, victims: list[TaskAttempt], now_ns: int) -> list[Effect]:
        """Ask each victim at its own heartbeat, or kill it."""
        effects: list[Effect] = []
        for victim in victims:
            container, node = victim.place
            if TRAITS[victim.mechanism].asks_first:
                effects.append(self.tasks.at_heartbeat("ask", victim, now_ns))
            else:
                kill = KillContainer(container, self.job, "preempted", grace_ns=self._grace_ns)
                effects.append(self.tasks.commands.send(container, node, kill, now_ns))
        return effects

    def _ask_to_suspend(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        """The victim's own heartbeat has come (natjam, step 6)."""
        if attempt.state is not AttemptState.CHOSEN:
            return []
        return [self.tasks.commands.send(*attempt.place, attempt.take(AttemptEvent.SUSPEND, now_ns), now_ns)]

    def _possible_victims(self, now_ns: int) -> list[TaskAttempt]:
        possible = [attempt for attempt in self.tasks.live.values() if attempt.task.group in self._victims]
        if (spare := self._spare_after) is None:
            return possible
        return [attempt for attempt in possible if not spare.spares(self.tasks.of(attempt).suspended_ns, now_ns)]

    # ---- orders about single tasks ----

    @property
    def _must_stop(self) -> bool:
        """Whether a task is held that is not suspended yet."""
        return bool(self.tasks.held) and any(
            attempt.state is not AttemptState.SUSPENDED
            for task in self.tasks.held
            for attempt in self._open_attempts(task)
        )

    def _obey(self, ordered: TaskOrder, now_ns: int) -> list[Effect]:
        """Handle an order.  A suspension starts when ``_held_victims`` is called."""
        tasks, meant_task = self.tasks, TaskId(self._spec.facts.meant(ordered.task.group), ordered.task.number)
        attempts = self._open_attempts(meant_task)
        if ordered.order is Order.SUSPEND:
            tasks.held[meant_task] = None
            for attempt in attempts:
                tasks.asks.withdraw_stopped(attempt)
            return []
        meant = ordered.container
        if meant is None:
            tasks.held.pop(meant_task, None)
        mine = [a for a in attempts if tasks.has_container(a) and meant in (None, a.container)]
        if ordered.order is Order.KILL:
            self._kill_reasons.update((attempt.container or "", ordered.why) for attempt in mine)
            return [self.tasks.at_heartbeat("kill", attempt, now_ns) for attempt in mine]
        for attempt in mine:
            if attempt.state is AttemptState.SUSPENDED:
                tasks.asks.add(attempt)
        return []

    def _held_victims(self, now_ns: int) -> list[TaskAttempt]:
        """Running attempts at held tasks; they become victims."""
        held = [attempt for task in self.tasks.held for attempt in self._open_attempts(task)]
        running = [attempt for attempt in held if not attempt.is_being_restored]
        chosen = self.tasks.releaser.candidates(running, now_ns)
        for attempt in chosen:
            attempt.take(AttemptEvent.CHOOSE, HELD_BY)
        return chosen

    def _open_attempts(self, task: TaskId) -> list[TaskAttempt]:
        of_group = self.tasks.groups.tasks.get(task.group, ())
        if task.number >= len(of_group) or of_group[task.number].state in (TaskState.SUCCEEDED, TaskState.FAILED):
            return []
        return of_group[task.number].open_attempts if of_group[task.number].attempts else []

    def _kill_as_ordered(self, attempt: TaskAttempt, now_ns: int) -> Effect:
        """Kill an attempt whose heartbeat has come."""
        container, node = attempt.place
        kill = KillContainer(container, self.job, self._kill_reasons.pop(container, ""))
        return self.tasks.commands.send(container, node, kill, now_ns)

    # ---- the end ----

    def _end_if_due(self, now_ns: int) -> list[Effect]:
        if self.state is not JobState.RUNNING or not (self.tasks.failure or self.tasks.groups.done):
            return []
        return self.take(JobEvent.FAIL if self.tasks.failure else JobEvent.SUCCEED, now_ns)

    def _end(self, now_ns: int) -> list[Effect]:
        self.finish_ns, self.reason = now_ns, self.tasks.failure
        effects: list[Effect] = []
        for attempt in self.tasks.live.values():
            if attempt.container is not None and attempt.node is not None:
                kill = KillContainer(attempt.container, self.job, "the job has ended")
                effects.append(Send(node_address(attempt.node), kill))
        return [*effects, *self._final_heartbeat(now_ns)]

    arcs = {  # noqa: RUF012
        (JobState.NEW, JobEvent.START): Arc(JobState.RUNNING, _begin),
        (JobState.RUNNING, JobEvent.SUCCEED): Arc(JobState.SUCCEEDED, _end),
        (JobState.RUNNING, JobEvent.FAIL): Arc(JobState.FAILED, _end),
    }

    def validate_state(self) -> None:
        """See ``JobTasks.validate``."""
        self.tasks.validate()

    handlers = {  # noqa: RUF012
        Start: _start,
        Tick: _tick,
        TimerFired: _timer,
        ApplicationHeartbeatResponse: _response,
        ContainerReported: _reported,
        MapOutputsReceived: _outputs_received,
        ProgressSamples: _progress,
        FetchFailed: _fetch_failed,
    }
