"""What the records say about one container, and the rows that follow from that alone: its stops, its overheads."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from emulator.core.application_master.speculation import BEATEN
from emulator.core.completions import RealCost
from emulator.core.job import JobSpec
from emulator.core.messages import ContainerState, Outcome, StartContainer
from emulator.records.history.columns import Mark, computed
from emulator.vocabulary import Frozen, ProcessImage, Work

LOST_OUTCOMES = frozenset({Outcome.KILLED, Outcome.CRASHED, Outcome.LOST})
"""Ends after which an attempt's work since the checkpoint it started from must be done again."""

OperationName: TypeAlias = Literal["schedule", "suspend", "resume", "kill", "application_master_start"]
"""What has an overhead that is measured."""


class SuspendedSpan(Frozen):
    """A span in which the process of an attempt was stopped (mechanism *suspend*)."""

    stopped_ns: int
    """When it stopped."""
    resumed_ns: int | None
    """When it continued.  None: it was not resumed."""
    asked_ns: int | None
    """When it was asked to stop.  None: unknown."""
    freed_ns: int | None
    """When the ResourceManager knew that its container was free.  None: it continued, or was lost, before that."""
    resume_ready_ns: int | None
    """The later of the request for a container to resume in and that container being free: start of the overhead.
    None: it was not resumed."""


class PagingSpan(Frozen):
    """A time in which an attempt wrote its memory or read it back, and pages went to swap or came back for it."""

    began_ns: int
    """When it began."""
    ended_ns: int
    """When it ended."""
    out_bytes: int
    """Emulated, of others on its node."""
    in_bytes: int
    """Emulated, of its own."""


class Operation(Frozen):
    """One measured overhead; the real parts have no value if the driver did not report them."""

    operation: OperationName
    """What was done."""
    container: str
    """To which container."""
    begin_ns: int
    """When it was wanted."""
    end_ns: int
    """When it had its effect."""
    cost: Annotated[RealCost | None, Mark.HIDDEN]
    """The machine's own time for it; None if the driver did not report it."""
    swapped_bytes: int = 0
    """For a resume: emulated bytes of the process's memory that were in swap when it began."""

    @computed(after="end_ns")
    def total_ns(self) -> int:
        """From begin to end."""
        return self.end_ns - self.begin_ns

    @computed(after="total_ns")
    def mechanism_real_ms(self) -> float | None:
        """Real milliseconds that this machine needed for the operation itself.  None: not reported."""
        return None if self.cost is None else self.cost.mechanism_real_ns / 1e6

    @computed(after="mechanism_real_ms")
    def key_real_ms(self) -> float | None:
        """Real milliseconds of the key in progress that a checkpoint finishes first.  None: not reported."""
        return None if self.cost is None else self.cost.key_real_ns / 1e6


class Stop(msgspec.Struct, array_like=True):
    """One stop of the process, perhaps followed by a resume."""

    stopped_ns: int
    revision: int
    """Revision of the container's report that said so."""
    asked_ns: int | None
    cost: RealCost | None
    resumed_ns: int | None = None
    resumed_revision: int | None = None
    resume_ready_ns: int | None = None
    resume_cost: RealCost | None = None
    swapped_bytes: int = 0


class ReportedFree(NamedTuple):
    """The ResourceManager was notified that the container is free."""

    revision: int
    state: ContainerState
    t_ns: int


class ContainerStory(msgspec.Struct, array_like=True):
    """Everything known about one container; None or empty until a record says it."""

    container: str
    start: StartContainer | None = None
    node: str = ""
    launch_ns: int | None = None
    """When its NodeManager ordered the launch."""
    launched_ns: int | None = None
    first_key_ns: int | None = None
    input_ready_ns: int | None = None
    suspend_asked_ns: int | None = None
    resume_ready_ns: int | None = None
    kill_sent_ns: int | None = None
    terminated_ns: int | None = None
    """When SIGTERM was sent to it."""
    saved_ns: int | None = None
    """When its task last saved by itself."""
    dump_ns: int | None = None
    """When its NodeManager ordered the image with which it ended, or during which it was killed."""
    image: ProcessImage | None = None
    ended_ns: int | None = None
    keys_done: int | None = None
    not_found: tuple[str, ...] = ()
    """Containers whose work it was to go on from and did not find."""
    keys_left: int = 0
    """If there are any: the keys that it did not do again."""
    was_lost: bool = False
    """Whether a later attempt did not find its work."""
    outcome: Outcome | None = None
    reason: str = ""
    checkpoint_bytes: int = 0
    resume_swapped_bytes: int = 0
    """For the last resume; its cost is below."""
    swapped_bytes: int = 0
    """Sum over all its stops."""
    paging_spans: tuple[PagingSpan, ...] = ()
    stops: tuple[Stop, ...] = ()
    told_free: tuple[ReportedFree, ...] = ()
    """In the order of revisions."""
    launch_cost: RealCost | None = None
    first_key_cost: RealCost | None = None
    suspend_cost: RealCost | None = None
    """Cost of the last suspend or checkpoint."""
    resume_cost: RealCost | None = None
    kill_cost: RealCost | None = None

    @property
    def open_stop(self) -> Stop | None:
        """The stop that has not been followed by a resume."""
        return self.stops[-1] if self.stops and self.stops[-1].resumed_ns is None else None

    @property
    def suspended_spans(self) -> tuple[SuspendedSpan, ...]:
        """The spans in which the process was stopped."""
        return tuple(
            SuspendedSpan(
                stop.stopped_ns, stop.resumed_ns, stop.asked_ns, self.stop_told_ns(stop), stop.resume_ready_ns
            )
            for stop in self.stops
        )

    @property
    def suspensions(self) -> int:
        """How often it gave back its slot with its work kept."""
        return len(self.stops) + (self.outcome is Outcome.CHECKPOINTED)

    @property
    def slot_freed_ns(self) -> int | None:
        """When the ResourceManager last learned that the slot was free."""
        if self.open_stop is not None:
            return self.stop_told_ns(self.open_stop)
        if self.outcome is Outcome.LOST:
            return self.ended_ns
        return next((told.t_ns for told in self.told_free if told.state is ContainerState.DONE), None)

    def stop_told_ns(self, stop: Stop) -> int | None:
        """When the ResourceManager was notified of a stop; None if the process continued, or was lost, before that."""
        for told in self.told_free:
            if told.revision >= stop.revision:
                return told.t_ns if stop.resumed_revision is None or told.revision < stop.resumed_revision else None
        return None

    def lose(self, lost_ns: int, reason: str) -> None:
        """Its node was declared lost: an attempt still running is lost, and later reports of the node are ignored."""
        if self.outcome is None or (self.ended_ns is not None and self.ended_ns > lost_ns):
            self.outcome, self.reason, self.keys_done = Outcome.LOST, reason, None
            self.ended_ns = lost_ns if self.ended_ns is None else min(self.ended_ns, lost_ns)

    def running_ns(self, since_ns: int | None, until_ns: int | None = None) -> int:
        """How long the process ran without being stopped, from ``since_ns`` to its end or to its image; ``until_ns``:
        or to then."""
        if since_ns is None or self.ended_ns is None:
            return 0
        ended_ns = min(at_ns for at_ns in (self.ended_ns, self.dump_ns, until_ns) if at_ns is not None)
        stopped_ns = 0
        for stop in self.stops:
            resumed_ns = ended_ns if stop.resumed_ns is None else stop.resumed_ns
            stopped_ns += max(0, resumed_ns - max(stop.stopped_ns, since_ns))
        return max(0, ended_ns - since_ns - stopped_ns)

    def kept_ns(self, spec: JobSpec) -> int:
        """Active time that it has saved by itself; of a program, as often as its job says."""
        period_ns = spec.facts.checkpoint_period_ns
        if period_ns is None or self.first_key_ns is None:
            return 0
        if spec.program is not None:
            return self.running_ns(self.first_key_ns) // period_ns * period_ns
        return 0 if self.saved_ns is None else self.running_ns(self.first_key_ns, self.saved_ns)

    @property
    def imaging_ns(self) -> int:
        """How long a restore and a dump held its container, including their waits for the device."""
        if self.ended_ns is None:
            return 0
        found_ns = 0 if self.dump_ns is None else self.ended_ns - self.dump_ns
        if self.launch_ns is not None and self.start is not None and isinstance(self.start.saved, ProcessImage):
            found_ns += (self.ended_ns if self.launched_ns is None else self.launched_ns) - self.launch_ns
        return max(0, found_ns)

    def was_preempted_by_kill(self, job_finish_ns: int | None) -> bool:
        """Whether it was killed while its job continued, and not because another attempt at its task was ahead."""
        if self.outcome is not Outcome.KILLED or self.reason == BEATEN:
            return False
        return self.kill_sent_ns is None or job_finish_ns is None or self.kill_sent_ns < job_finish_ns

    def operations(self, job_finish_ns: int | None) -> list[Operation]:
        """The overheads measured for it."""
        assert self.start is not None
        found: list[Operation] = []

        def add(
            name: OperationName, begin_ns: int | None, end_ns: int | None, cost: RealCost | None, swapped_bytes: int = 0
        ) -> None:
            if begin_ns is not None and end_ns is not None:
                found.append(Operation(name, self.container, begin_ns, end_ns, cost, swapped_bytes))

        ready_ns = max(self.start.ready_ns, self.input_ready_ns or 0)
        if self.start.work is Work.MASTER:
            add("schedule", ready_ns, self.first_key_ns, self.launch_cost)
            add("application_master_start", self.launch_ns, self.first_key_ns, self.launch_cost)
            return found
        name = "schedule" if self.start.saved is None else "resume"
        add(name, ready_ns, self.first_key_ns, self.first_key_cost)
        for stop in self.stops:
            add("suspend", stop.asked_ns, self.stop_told_ns(stop), stop.cost)
            add("resume", stop.resume_ready_ns, stop.resumed_ns, stop.resume_cost, stop.swapped_bytes)
        if self.outcome is Outcome.CHECKPOINTED:
            add("suspend", self.suspend_asked_ns, self.slot_freed_ns, self.suspend_cost)
        if self.was_preempted_by_kill(job_finish_ns) and self.open_stop is None and self.launched_ns is not None:
            add("kill", self.kill_sent_ns, self.slot_freed_ns, self.kill_cost)
        return found
