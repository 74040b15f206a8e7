"""Folds a journal's records into the tables of ``emulator.records.history.rows``.

Theory of operation
-------------------
What a container did is in its NodeManager's records (launch, first key, stops, end).  What it was ordered to do is in
the records of its ApplicationMaster and the ResourceManager (start, kill).  When its slot was known free is in the
ResourceManager's records (the first handled heartbeat that says so).  Each record adds to the container's entry, and
``tables`` makes the rows at the end.  Nothing depends on the order of records of different machines, whose clocks may
differ a little: a report of a free slot is matched to a stop or an end by the report's revision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

from msgspec.structs import replace

from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Exited,
    FirstKey,
    Killed,
    Launched,
    LaunchFailed,
    Paged,
    Resumed,
    SavedByItself,
    Suspended,
    Terminated,
)
from emulator.core.effects import (
    Checkpoint,
    Dump,
    Effect,
    ExplainJobEviction,
    ExplainScheduler,
    ExplainTaskEviction,
    ExplainWait,
    Launch,
    Send,
    Suspend,
)
from emulator.core.job import JobSpec
from emulator.core.messages import (
    ContainerReport,
    ContainerReported,
    ContainerState,
    JobFinished,
    JobState,
    KillContainer,
    Message,
    NodeHeartbeat,
    NodeLost,
    Outcome,
    ResumeContainer,
    Start,
    StartContainer,
    SubmitJob,
    SuspendContainer,
)
from emulator.core.node_manager.status_updater import RESTARTED
from emulator.errors import EndlessPreemptionError
from emulator.policies.job_eviction import JOB_EVICTION
from emulator.policies.policy import Policy
from emulator.policies.task_eviction import TASK_EVICTION
from emulator.records.history.containers import ContainerStory, PagingSpan, ReportedFree, Stop
from emulator.records.history.decisions import Decision, Explained
from emulator.records.history.kept import Choice, KeptChoices, KeptStories
from emulator.records.history.rows import WaitRow
from emulator.records.history.tables import History, joined, tables_by_job
from emulator.records.journal import JournalError, Record
from emulator.vocabulary import ProcessImage

_DECISIONS_A_PART = 64
"""A choice of victims may have some hundred candidates."""
_KILLS_IN_VAIN = 200
"""Kills of a task, on average over the tasks that were killed since one last succeeded."""


class HistoryBuilder:
    """Takes the records of one run one by one; see the module's theory of operation."""

    def __init__(
        self, jobs: Iterable[JobSpec], own: Mapping[str, Policy[Any]] | None = None, bounded: bool = True
    ) -> None:
        """``own``: the user's own evictions by their names in the journal; without them, their scores are not known.
        ``bounded``: whether ``follow`` ends a run in which tasks are killed without end; False if its allocation does.
        """
        self._bounded = bounded
        self._job_evictions = {**JOB_EVICTION.by_name, **(own or {})}
        self._task_evictions = {**TASK_EVICTION.by_name, **(own or {})}
        self._jobs = {job.name: job for job in jobs}
        self._kept = KeptStories(self._jobs)
        self._submitted: dict[str, int] = {}
        self._finished: dict[str, JobFinished] = {}
        self._registrations: dict[str, int] = {}
        """The last registration of nodes that have resynced."""
        self._losses: dict[tuple[str, int], tuple[int, str]] = {}
        """When and why a node was given up, as it was under one registration."""
        self._choices = KeptChoices()
        self._waits: list[WaitRow] = []
        self._waiting: dict[str, WaitRow] = {}
        """By job, what it waits for now."""
        self._kills = 0
        """How many attempts were killed since a task last succeeded."""
        self._most_kills: float = math.inf
        """How many may be; infinity: none was, or any number."""
        self._killed_tasks: set[tuple[str, str, int]] = set()
        """Their tasks."""
        self._committed: dict[str, str] = {}
        """By container, the digest of what its program left."""

    def add(self, record: Record) -> None:
        """Add one record; the records of each actor must come in order."""
        handler = _ON_MESSAGE.get(type(record.message))
        if handler is not None:
            handler(self, record.message, record)
        for effect in record.effects:
            handler = _ON_EFFECT.get(type(effect.message) if type(effect) is Send else type(effect))
            if handler is not None:
                handler(self, effect, record)

    @property
    def submitted(self) -> int:
        """Number of jobs submitted so far."""
        return len(self._submitted)

    @property
    def attempts(self) -> int:
        """Number of attempts so far."""
        return self._kept.started

    @property
    def program_digests(self) -> dict[tuple[str, int], str]:
        """The digest of what each program had written when it was committed, by job and task; of a run that has not
        been made into tables yet."""
        starts = {container: self._kept.of(container).start for container in self._committed}
        return {
            (start.job, start.task): self._committed[container]
            for container, start in starts.items()
            if start is not None
        }

    @property
    def cancelled(self) -> frozenset[str]:
        """The jobs that their scheduler has ended as they were to end."""
        return frozenset(name for name, end in self._finished.items() if end.state is JobState.KILLED)

    def follow(self, records: Iterable[Record]) -> None:
        """Add records of a run that is still running.

        Raises EndlessPreemptionError if, since a task last succeeded, tasks were killed ``_KILLS_IN_VAIN`` times each.
        """
        for record in records:
            self.add(record)
            if self._kills > self._most_kills:
                raise EndlessPreemptionError(
                    "tasks are preempted without end: since one last succeeded, others were killed "
                    f"{_KILLS_IN_VAIN} times each by {record.t_ns / 1e9:.0f} s; choose a mechanism that keeps work, "
                    "another job_eviction, or a cluster.availability that leaves tasks more time"
                )

    def tables(self) -> History:
        """The tables of the records so far."""
        return joined(self._parts())

    def finish(self) -> History:
        """The tables of all records; the records' data is freed on the way."""
        return joined(self.parts())

    def parts(self) -> Iterator[History]:
        """The same, one job after the other, because a large run has no memory for all.  The decisions come last."""
        return self._parts(self._kept.forget)

    def _parts(self, done: Callable[[str], object] = lambda job: None) -> Iterator[History]:
        """``done``: called with each job when it is known.  Raises JournalError: a job is not in the workload."""
        for job in self._kept.jobs - self._jobs.keys():
            raise JournalError(f"the journal has a job '{job}' that the workload does not have")

        def stories_of(job: str) -> list[ContainerStory]:
            found = self._kept.all_of(job)
            done(job)
            for story in found:
                registration = 0 if story.start is None else story.start.registration
                if (story.node, registration) in self._losses:
                    story.lose(*self._losses[story.node, registration])
            return found

        yield from tables_by_job(list(self._jobs.values()), stories_of, self._submitted, self._finished)
        waits = sorted([*self._waits, *self._waiting.values()], key=lambda wait: (wait.since_ns, wait.job))
        yield History([], [], [], [], waits=waits)
        decisions = map(self._decision, count(1), self._choices.in_order())
        while some := list(islice(decisions, _DECISIONS_A_PART)):
            yield History([], [], [], [], decisions=some)

    def _decision(self, number: int, choice: Choice) -> Decision:
        t_ns, actor, why = choice
        known = self._job_evictions if isinstance(why, ExplainJobEviction) else self._task_evictions
        return Decision(number, t_ns, actor, why, known.get(why.rule))

    # ---- jobs ----

    def _submit(self, message: SubmitJob, record: Record) -> None:
        self._submitted.setdefault(message.job, record.t_ns)

    def _finish(self, message: JobFinished, record: Record) -> None:
        self._finished.setdefault(message.job, message)
        self._wait_ended(message.job, record)
        spec = self._jobs.get(message.job)
        if spec is not None and spec.program is None:  # what programs have committed is asked for at the end
            self._kept.end(message.job)

    # ---- orders to a container ----

    def _start_sent(self, effect: Send, record: Record) -> None:
        start = effect.message
        assert isinstance(start, StartContainer)
        story = self._kept.of(start.container)
        if story.start is None:
            self._kept.start(start.job, start.container)
        story.start, story.node = start, effect.to.partition(":")[2]

    def _launch(self, effect: Launch, record: Record) -> None:
        self._kept.of(effect.container).launch_ns = record.t_ns

    def _suspend_container(self, message: SuspendContainer, record: Record) -> None:
        if any(type(effect) in (Suspend, Checkpoint, Dump) for effect in record.effects):
            story = self._kept.of(message.container)
            story.suspend_asked_ns = message.asked_ns
            story.dump_ns = record.t_ns if any(type(effect) is Dump for effect in record.effects) else None

    def _resume_container(self, message: ResumeContainer, record: Record) -> None:
        self._kept.of(message.container).resume_ready_ns = message.ready_ns

    def _kill_sent(self, effect: Send, record: Record) -> None:
        kill = effect.message
        assert isinstance(kill, KillContainer)
        story = self._kept.of(kill.container)
        if story.kill_sent_ns is None:
            story.kill_sent_ns = record.t_ns

    def _explained(self, effect: Explained, record: Record) -> None:
        self._choices.add((record.t_ns, record.actor, effect))

    def _wait_explained(self, effect: ExplainWait, record: Record) -> None:
        self._wait_ended(effect.job, record)
        if effect.why:
            self._waiting[effect.job] = WaitRow(effect.job, record.t_ns, None, effect.why)

    def _wait_ended(self, job: str, record: Record) -> None:
        waited = self._waiting.pop(job, None)
        if waited is not None:
            self._waits.append(replace(waited, until_ns=record.t_ns))

    # ---- messages from its driver ----

    def _launched(self, message: Launched, record: Record) -> None:
        story = self._kept.of(message.container)
        story.launched_ns, story.launch_cost = record.t_ns, message.cost

    def _machine_start(self, message: Start, record: Record) -> None:
        if message.container is not None:
            self._kept.of(message.container).first_key_ns = record.t_ns

    def _first_key(self, message: FirstKey, record: Record) -> None:
        story = self._kept.of(message.container)
        story.first_key_ns, story.input_ready_ns = message.at_ns, message.input_ready_ns or None
        story.first_key_cost = message.cost
        story.not_found, story.keys_left = message.lost, message.keys_left
        for container in message.lost:
            self._kept.of(container).was_lost = True

    def _paged(self, message: Paged, record: Record) -> None:
        span = PagingSpan(message.began_ns, message.ended_ns, message.out_bytes, message.in_bytes)
        self._kept.of(message.container).paging_spans += (span,)

    def _suspended(self, message: Suspended, record: Record) -> None:
        self._kept.of(message.container).suspend_cost = message.cost

    def _resumed(self, message: Resumed, record: Record) -> None:
        story = self._kept.of(message.container)
        story.resume_cost, story.resume_swapped_bytes = message.cost, message.swapped_bytes
        story.swapped_bytes += message.swapped_bytes

    def _checkpointed(self, message: Checkpointed, record: Record) -> None:
        story = self._kept.of(message.container)
        story.suspend_cost = message.cost
        if isinstance(message.saved, ProcessImage):
            story.image = message.saved
            story.checkpoint_bytes += message.saved.bytes_written
        else:
            story.checkpoint_bytes += message.saved.size_bytes

    def _saved_by_itself(self, message: SavedByItself, record: Record) -> None:
        story = self._kept.of(message.container)
        story.saved_ns = record.t_ns
        story.checkpoint_bytes += message.saved.size_bytes

    def _terminated(self, message: Terminated, record: Record) -> None:
        self._kept.of(message.container).terminated_ns = record.t_ns

    def _checkpoint_failed(self, message: CheckpointFailed, record: Record) -> None:
        story = self._kept.of(message.container)
        if story.ended_ns is None:
            story.dump_ns = None  # the process continues

    def _killed(self, message: Killed, record: Record) -> None:
        story = self._kept.of(message.container)
        story.kill_cost = message.cost
        story.swapped_bytes += message.swapped_bytes

    def _launch_failed(self, message: LaunchFailed, record: Record) -> None:
        self._kept.of(message.container).ended_ns = record.t_ns

    def _exited(self, message: Exited, record: Record) -> None:
        story = self._kept.of(message.container)
        if story.ended_ns is None:
            story.ended_ns = record.t_ns
        if message.output_sha256:
            self._committed[message.container] = message.output_sha256

    # ---- reports of its NodeManager ----

    def _report_sent(self, effect: Send, record: Record) -> None:
        assert isinstance(effect.message, ContainerReported)
        report = effect.message.report
        story = self._kept.of(report.container)
        stop = story.open_stop
        if report.state is ContainerState.SUSPENDED and stop is None:
            story.stops += (Stop(record.t_ns, report.revision, story.suspend_asked_ns, story.suspend_cost),)
        elif report.state in (ContainerState.RUNNING, ContainerState.COMMITTING) and stop is not None:
            stop.resumed_ns, stop.resumed_revision = record.t_ns, report.revision
            stop.resume_ready_ns, stop.resume_cost = story.resume_ready_ns, story.resume_cost
            stop.swapped_bytes = story.resume_swapped_bytes
        elif report.state is ContainerState.DONE:
            self._done(story, report)
            if story.ended_ns is None:
                story.ended_ns = record.t_ns

    def _done(self, story: ContainerStory, report: ContainerReport) -> None:
        story.outcome, story.reason, story.keys_done = report.outcome, report.reason, report.keys_done
        if report.outcome is Outcome.SUCCEEDED:
            self._kills = 0
            self._killed_tasks.clear()
        elif report.outcome is Outcome.KILLED and story.start is not None:
            self._kills += 1
            self._killed_tasks.add((story.start.job, story.start.group, story.start.task))
            if self._bounded:
                self._most_kills = _KILLS_IN_VAIN * len(self._killed_tasks)

    # ---- messages to the ResourceManager ----

    def _node_heartbeat(self, message: NodeHeartbeat, record: Record) -> None:
        if message.registration > self._registrations.get(message.node, 0):
            self._lose(message.node, record.t_ns, RESTARTED)
            self._registrations[message.node] = message.registration
        if (message.node, message.registration) in self._losses:
            return  # the ResourceManager ignores a node that it has declared lost
        for report in message.freed:
            if self._kept.is_over(report.job):
                continue  # it is notified once more
            story = self._kept.of(report.container)
            if not story.told_free or story.told_free[-1].revision < report.revision:
                story.told_free += (ReportedFree(report.revision, report.state, record.t_ns),)
            if report.state is ContainerState.DONE:
                if story.outcome is None:
                    self._done(
                        story, report
                    )  # only the ResourceManager was notified: an ApplicationMaster, or by profile
                self._kept.close(story)

    def _node_lost(self, message: NodeLost, record: Record) -> None:
        self._lose(message.node, record.t_ns, message.reason)

    def _lose(self, node: str, lost_ns: int, reason: str) -> None:
        """What was there until now is gone, unless that is known."""
        self._losses.setdefault((node, self._registrations.get(node, 0)), (lost_ns, reason))


_Handler = Callable[[HistoryBuilder, Any, Record], None]

_ON_MESSAGE: dict[type[Message], _Handler] = {
    SubmitJob: HistoryBuilder._submit,
    JobFinished: HistoryBuilder._finish,
    NodeLost: HistoryBuilder._node_lost,
    NodeHeartbeat: HistoryBuilder._node_heartbeat,
    Start: HistoryBuilder._machine_start,
    SuspendContainer: HistoryBuilder._suspend_container,
    ResumeContainer: HistoryBuilder._resume_container,
    Launched: HistoryBuilder._launched,
    LaunchFailed: HistoryBuilder._launch_failed,
    FirstKey: HistoryBuilder._first_key,
    Paged: HistoryBuilder._paged,
    Suspended: HistoryBuilder._suspended,
    Resumed: HistoryBuilder._resumed,
    Checkpointed: HistoryBuilder._checkpointed,
    CheckpointFailed: HistoryBuilder._checkpoint_failed,
    SavedByItself: HistoryBuilder._saved_by_itself,
    Terminated: HistoryBuilder._terminated,
    Killed: HistoryBuilder._killed,
    Exited: HistoryBuilder._exited,
}

_ON_EFFECT: dict[type[Message | Effect], _Handler] = {
    StartContainer: HistoryBuilder._start_sent,
    KillContainer: HistoryBuilder._kill_sent,
    ContainerReported: HistoryBuilder._report_sent,
    Launch: HistoryBuilder._launch,
    ExplainJobEviction: HistoryBuilder._explained,
    ExplainTaskEviction: HistoryBuilder._explained,
    ExplainScheduler: HistoryBuilder._explained,
    ExplainWait: HistoryBuilder._wait_explained,
}
"""By the type of the effect; for a Send, by the type of its message."""
