"""The history of a run: small journals written by hand, and every number that must come of them."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

import msgspec
import pytest

from emulator.core import completions as cs
from emulator.core import effects as fx
from emulator.core import messages as ms
from emulator.core.completions import RealCost
from emulator.core.job import JobSpec
from emulator.core.messages import ContainerState, JobState, Outcome
from emulator.core.settings import OverheadSettings
from emulator.records.history import History, ImageRow, Operation, OverheadTimes, PagingSpan, SuspendedSpan
from emulator.records.history.attempt_names import AttemptNames, compressed, decompress
from emulator.records.history.containers import OperationName
from emulator.records.history.kept import KeptChoices
from emulator.records.journal import JournalError, Record, merge
from emulator.vocabulary import MAP, MASTER, REDUCE, JobFacts, KeyCheckpoint, Mechanism, ProcessImage, Work, map_reduce
from tests.histories import fold

NATIVE = OverheadSettings()
MS = 1_000_000


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def job(maps: int = 0, reduces: int = 1, deadline_s: float | None = None) -> JobSpec:
    return JobSpec(
        JobFacts(
            "j", "research", map_reduce(maps, reduces), None if deadline_s is None else ns(deadline_s), 0, 1 << 30
        ),
        ns(5),
        (ns(2),) * maps,
        (ns(100),) * reduces,
        (100,) * reduces,
    )


@dataclass
class Script:
    """Writes records as the machines of one job, on nodes n1 and n2, would have; times are seconds."""

    records: list[Record] = field(default_factory=list)
    revisions: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)

    def at(self, t_s: float, actor: str, message: ms.Message, *effects: fx.Effect) -> None:
        seq = sum(record.actor == actor for record in self.records)
        self.records.append(Record(ns(t_s), seq, actor, message, effects))

    def history(self, spec: JobSpec) -> History:
        return fold(merge(self.records), [spec])

    def report(
        self, container: str, state: ContainerState, outcome: Outcome | None = None, keys: int = 0, why: str = ""
    ):
        kind, node = self.kinds[container]
        self.revisions[container] = self.revisions.get(container, 0) + 1
        return ms.ContainerReport(
            container, "j", kind, node, self.revisions[container], state, outcome=outcome, keys_done=keys, reason=why
        )

    def submit(self) -> None:
        self.at(
            5,
            "client",
            ms.TimerFired("submit", 1, ns(5)),
            fx.Send("rm", ms.SubmitJob(JobFacts("j", "research", map_reduce(1, 1)))),
        )
        self.at(5, "rm", ms.SubmitJob(JobFacts("j", "research", map_reduce(1, 1))))

    def start(
        self,
        t_s: float,
        container: str,
        attempt: str,
        node: str = "n1",
        kind: str = REDUCE,
        checkpoint: KeyCheckpoint | ProcessImage | None = None,
        ready_s: float | None = None,
        launched: bool = True,
    ) -> None:
        """Sent at ``t_s``, ordered 0.1 s and running 0.2 s later."""
        self.kinds[container] = (kind, node)
        task = int(attempt[1:4]) if kind is not MASTER else 0
        ready_ns = ns(t_s if ready_s is None else ready_s)
        work = {MAP: Work.SHUFFLE, MASTER: Work.MASTER}.get(kind, Work.KEYS)
        start = ms.StartContainer(container, "j", kind, task, attempt, ready_ns, checkpoint, work=work)
        sender = "rm" if kind is MASTER else "am:j"
        self.at(t_s, sender, ms.ApplicationHeartbeatResponse(1), fx.Send(f"nm:{node}", start))
        if not launched:
            return
        self.at(
            t_s + 0.1, f"nm:{node}", start, fx.Launch(container, "j", kind, task, attempt, 0, checkpoint, work=work)
        )
        self.nm(t_s + 0.2, container, cs.Launched(container, RealCost(2 * MS)), ContainerState.RUNNING)

    def nm(self, t_s: float, container: str, message: ms.Message, state: ContainerState, *more, **report) -> None:
        kind, node = self.kinds[container]
        self.last = self.report(container, state, **report)
        told = [] if kind is MASTER else [fx.Send("am:j", ms.ContainerReported(self.last))]
        self.at(t_s, f"nm:{node}", message, *told, *more)

    def first_key(self, at_s: float, container: str, input_ready_s: float = 0, cost: int = 10 * MS) -> None:
        message = cs.FirstKey(container, ns(at_s), ns(input_ready_s), RealCost(cost))
        self.at(at_s + 0.01, f"nm:{self.kinds[container][1]}", message)

    def ask_to_suspend(self, t_s: float, container: str, mechanism: Mechanism) -> None:
        suspend = ms.SuspendContainer(container, mechanism, ns(t_s))
        node = self.kinds[container][1]
        self.at(t_s, "am:j", ms.TimerFired(f"ask {container}", 1, ns(t_s)), fx.Send(f"nm:{node}", suspend))
        effect = fx.Checkpoint if mechanism is Mechanism.CHECKPOINT else fx.Suspend
        self.at(t_s + 0.05, f"nm:{node}", suspend, effect(container))

    def exit(self, t_s: float, container: str, outcome: Outcome, keys: int, code: int | None = None) -> None:
        exited = cs.Exited(container, code, None if code is not None else 9, keys, "boom")
        self.nm(
            t_s, container, exited, ContainerState.DONE, outcome=outcome, keys=keys, why="boom" if code == 1 else ""
        )

    def succeed(self, t_s: float, container: str, keys: int = 100) -> None:
        self.exit(t_s, container, Outcome.SUCCEEDED, keys, code=0)

    def told(self, t_s: float) -> None:
        """The ResourceManager learns of what was reported last; a second telling changes nothing."""
        node = self.kinds[self.last.container][1]
        for later_s in (0, 1):
            heartbeat = ms.NodeHeartbeat(node, ns(t_s + later_s), (self.last,))
            self.at(t_s + later_s, "rm", heartbeat, fx.Send(f"nm:{node}", ms.NodeHeartbeatResponse(heartbeat.id)))

    def kill(self, t_s: float, container: str, sender: str = "am:j") -> None:
        kill = ms.KillContainer(container, "j", "preempted")
        node = self.kinds[container][1]
        self.at(t_s, sender, ms.ProgressSamples(()), fx.Send(f"nm:{node}", kill))
        self.at(t_s + 0.01, f"nm:{node}", kill, fx.Kill(container))

    def finish(self, t_s: float, finish_s: float, state: JobState = JobState.SUCCEEDED) -> None:
        self.at(t_s, "client", ms.JobFinished("j", state, ns(finish_s)))


def checkpointed(script: Script, t_s: float = 40.7) -> KeyCheckpoint:
    """Reduce 0 on c1: fresh at 10, first key at 11.5, checkpoint at 30 keys, known free at 41.35."""
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11.5, "c1", input_ready_s=11)
    script.ask_to_suspend(40, "c1", Mechanism.CHECKPOINT)
    checkpoint = KeyCheckpoint(("c1",), 30, "/in", "n1", 321)
    script.at(t_s, "nm:n1", cs.Checkpointed("c1", checkpoint, RealCost(4 * MS, 20 * MS)))
    script.exit(t_s, "c1", Outcome.CHECKPOINTED, 30, code=75)
    script.told(41.35)
    return checkpoint


def operations(history: History) -> set[tuple[str, str, float, float, RealCost | None]]:
    return {(o.operation, o.container, o.begin_ns / 1e9, o.end_ns / 1e9, o.cost) for o in history.operations}


def test_checkpoint_and_resume() -> None:
    script = Script()
    checkpoint = checkpointed(script)
    script.start(50.5, "c2", "r000.1", "n2", checkpoint=checkpoint, ready_s=50)
    script.first_key(53.88, "c2", cost=12 * MS)
    script.succeed(123.9, "c2")
    script.told(124)
    script.finish(125, 124.5)
    history = script.history(job(deadline_s=130))

    one, two = history.attempts
    assert (one.job, one.queue, one.kind, one.task, one.attempt) == ("j", "research", REDUCE, 0, "r000.0")
    assert (one.container, one.node, one.outcome) == ("c1", "n1", Outcome.CHECKPOINTED)
    assert (one.ready_ns, one.launched_ns, one.first_key_ns) == (ns(10), ns(10.2), ns(11.5))
    assert (one.input_ready_ns, one.suspend_asked_ns) == (ns(11), ns(40))
    assert (one.ended_ns, one.slot_freed_ns) == (ns(40.7), ns(41.35))
    assert (one.keys_start, one.keys_done, one.keys_total) == (0, 30, 100)
    assert (one.busy_ns, one.active_ns, one.useful_ns, one.lost_ns) == (ns(30.5), ns(29.2), ns(29.2), 0)
    assert (one.resumed_from, one.suspended_spans) == (None, ())

    assert (two.attempt, two.node, two.outcome, two.resumed_from) == ("r000.1", "n2", Outcome.SUCCEEDED, "r000.0")
    assert (two.keys_start, two.keys_done, two.ready_ns, two.input_ready_ns) == (30, 100, ns(50), None)
    assert (two.useful_ns, two.slot_freed_ns) == (ns(123.9) - ns(53.88), ns(124))

    assert operations(history) == {
        ("schedule", "c1", 11, 11.5, RealCost(10 * MS)),
        ("suspend", "c1", 40, 41.35, RealCost(4 * MS, 20 * MS)),
        ("resume", "c2", 50, 53.88, RealCost(12 * MS)),
    }
    assert history.checkpoint_bytes == 321

    (task,) = history.tasks
    assert (task.outcome, task.length_ns, task.keys_total) == (Outcome.SUCCEEDED, ns(100), 100)
    assert (task.attempts, task.suspensions, task.kills) == (2, 1, 0)
    assert (task.start_ns, task.finish_ns) == (ns(11.5), ns(123.9))

    (row,) = history.jobs
    assert (row.name, row.queue, row.state, row.submit_ns) == ("j", "research", JobState.SUCCEEDED, ns(5))
    assert (row.start_ns, row.finish_ns, row.completion_ns) == (ns(11.5), ns(124.5), ns(119.5))
    assert (row.deadline_ns, row.margin_ns) == (ns(130), ns(5.5))
    assert (row.attempts, row.suspensions, row.kills, row.lost_work_ns) == (2, 1, 0, 0)


def test_images_are_neither_work_nor_lost_work() -> None:
    """Stopped for an image at 40, written at 50; restored from 60 to 64; killed in the middle of the next."""
    script = Script()
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    suspend = ms.SuspendContainer("c1", Mechanism.IMAGE, ns(39))
    script.at(40, "nm:n1", suspend, fx.Dump("c1"))
    image = ProcessImage(("c1",), 29, "/image", "n1", 4000, "")
    script.at(50, "nm:n1", cs.Checkpointed("c1", image, RealCost(MS)))
    script.exit(50, "c1", Outcome.CHECKPOINTED, 29, code=75)
    script.start(60, "c2", "r000.1", checkpoint=image, launched=False)
    script.at(
        60,
        "nm:n1",
        ms.StartContainer("c2", "j", REDUCE, 0, "r000.1", ns(60), image),
        fx.Launch("c2", "j", REDUCE, 0, "r000.1", 0, image),
    )
    script.nm(64, "c2", cs.Launched("c2", RealCost(MS)), ContainerState.RUNNING)
    script.first_key(65, "c2")
    script.at(70, "nm:n1", ms.SuspendContainer("c2", Mechanism.IMAGE, ns(69)), fx.Dump("c2"))
    script.kill(72, "c2")
    script.exit(72, "c2", Outcome.KILLED, 34)
    script.finish(100, 100)
    history = script.history(job())

    one, two = history.attempts
    assert (one.useful_ns, one.busy_ns, one.overhead_ns, one.lost_ns) == (ns(29), ns(29.8), ns(10), 0)
    assert (two.lost_ns, two.useful_ns, two.overhead_ns) == (ns(5), 0, ns(4 + 2))
    assert history.jobs[0].overhead_ns == ns(16)
    assert history.images == [ImageRow("c1", "n1", 4000, 4000, ns(50), ns(100))]


def test_an_incremental_image_keeps_those_before_it() -> None:
    script = Script()
    script.submit()
    images = [
        ProcessImage(("c1",), 10, "/1", "n1", 4000, ""),
        ProcessImage(("c1", "c2"), 20, "/2", "n1", 4000, "", written_bytes=400),
        ProcessImage(("c1", "c2", "c3"), 30, "/3", "n1", 4000, "", written_bytes=3900, whole=True),
    ]
    for number, image in enumerate(images):
        container, begin_s = f"c{number + 1}", 10 + 20 * number
        script.start(begin_s, container, f"r000.{number}", checkpoint=images[number - 1] if number else None)
        script.first_key(begin_s + 1, container)
        script.at(begin_s + 5, "nm:n1", ms.SuspendContainer(container, Mechanism.IMAGE, 0), fx.Dump(container))
        script.at(begin_s + 9, "nm:n1", cs.Checkpointed(container, image, RealCost(MS)))
        script.exit(begin_s + 9, container, Outcome.CHECKPOINTED, image.keys_done, code=75)
    history = script.history(job())
    assert [(row.written_bytes, row.gone_ns) for row in history.images] == [(4000, ns(59)), (400, ns(59)), (3900, None)]
    assert history.checkpoint_bytes == 8300, "what was written, of whole images too"


def test_a_crash_loses_the_work_since_the_checkpoint_it_started_from() -> None:
    script = Script()
    checkpoint = checkpointed(script)
    script.start(50, "c2", "r000.1", checkpoint=checkpoint)
    script.first_key(51, "c2")
    script.exit(61, "c2", Outcome.CRASHED, 40, code=1)
    script.told(61.5)
    script.start(62, "c3", "r000.2", checkpoint=checkpoint)
    script.first_key(63, "c3")
    script.succeed(133, "c3")
    script.finish(134, 133)
    history = script.history(job())

    crashed, last = history.attempts[1:]
    assert (crashed.outcome, crashed.reason) == (Outcome.CRASHED, "boom")
    assert (crashed.keys_start, crashed.keys_done) == (30, 40)
    assert (crashed.active_ns, crashed.lost_ns, crashed.useful_ns) == (ns(10), ns(10), 0)
    assert (last.resumed_from, last.keys_start, last.useful_ns) == ("r000.0", 30, ns(70))
    row = history.jobs[0]
    assert (row.attempts, row.suspensions, row.kills) == (3, 1, 0)
    assert (row.useful_ns, row.lost_work_ns) == (ns(29.2 + 70), ns(10))


def stop(script: Script) -> None:
    """Reduce 0 on c1: fresh at 10, first key at 11, stopped from 40.1, known free at 41; ready to go on at 50."""
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    script.ask_to_suspend(40, "c1", Mechanism.SUSPEND)
    script.nm(40.1, "c1", cs.Suspended("c1", 29, RealCost(MS)), ContainerState.SUSPENDED, keys=29)
    script.told(41)


def go_on(script: Script) -> None:
    resume = ms.ResumeContainer("c1", ns(50))
    script.at(50.5, "nm:n1", resume, fx.Resume("c1"))
    script.nm(50.6, "c1", cs.Resumed("c1", RealCost(MS // 2), swapped_bytes=700), ContainerState.RUNNING)


def test_a_stopped_process_keeps_its_attempt_and_loses_nothing() -> None:
    script = Script()
    stop(script)
    go_on(script)
    script.at(121.5, "nm:n1", cs.Paged("c1", ns(120.5), ns(121.5), out_bytes=0, in_bytes=700))
    script.succeed(121.6, "c1")
    script.told(122)
    script.finish(123, 121.6)
    history = script.history(job())

    (row,) = history.attempts
    assert row.paging_spans == (PagingSpan(ns(120.5), ns(121.5), 0, 700),)
    assert row.suspended_spans == (SuspendedSpan(ns(40.1), ns(50.6), ns(40), ns(41), ns(50)),)
    assert (row.ended_ns, row.slot_freed_ns, row.keys_done) == (ns(121.6), ns(122), 100)
    assert row.active_ns == row.useful_ns == ns(121.6 - 11) - ns(10.5)
    assert row.busy_ns == ns(121.6 - 10.2) - ns(10.5)
    assert operations(history) == {
        ("schedule", "c1", 10, 11, RealCost(10 * MS)),
        ("suspend", "c1", 40, 41, RealCost(MS)),
        ("resume", "c1", 50, 50.6, RealCost(MS // 2)),
    }
    assert (history.tasks[0].attempts, history.tasks[0].suspensions) == (1, 1)
    assert [operation.swapped_bytes for operation in history.operations if operation.operation == "resume"] == [700]
    assert row.swapped_bytes == history.swapped_bytes == 700


def test_a_stop_the_resource_manager_never_heard_of_is_no_sample() -> None:
    script = Script()
    stop(script)
    script.records = [r for r in script.records if not isinstance(r.message, ms.NodeHeartbeat)]
    go_on(script)
    script.succeed(121.6, "c1")
    script.told(122)
    assert [o.operation for o in script.history(job()).operations] == ["schedule", "resume"]


def test_a_stopped_process_that_is_killed_loses_all_its_work_and_frees_nothing_more() -> None:
    script = Script()
    stop(script)
    script.kill(60, "c1")
    script.at(60.1, "nm:n1", cs.Killed("c1", RealCost(MS), swapped_bytes=900))
    script.exit(60.2, "c1", Outcome.KILLED, 29)
    script.told(61)
    script.finish(100, 100, JobState.FAILED)
    history = script.history(job())
    (row,) = history.attempts
    assert (row.outcome, row.slot_freed_ns) == (Outcome.KILLED, ns(41))
    assert row.suspended_spans == (SuspendedSpan(ns(40.1), None, ns(40), ns(41), None),)
    assert row.active_ns == row.lost_ns == ns(29.1)
    assert row.busy_ns == ns(29.9)
    assert [o.operation for o in history.operations] == ["schedule", "suspend"]
    assert (history.jobs[0].kills, history.jobs[0].suspensions, history.jobs[0].state) == (1, 1, JobState.FAILED)
    assert row.swapped_bytes == history.swapped_bytes == 900


def test_a_kill_loses_the_whole_attempt() -> None:
    script = Script()
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    script.kill(40, "c1")
    script.kill(44, "c1")  # repeated: the first command counts
    script.at(44.1, "nm:n1", cs.Killed("c1", RealCost(3 * MS)))
    script.exit(44.1, "c1", Outcome.KILLED, 33)
    script.told(45)
    script.finish(100, 100)
    history = script.history(job())
    (row,) = history.attempts
    assert (row.outcome, row.keys_done, row.lost_ns, row.useful_ns) == (Outcome.KILLED, 33, ns(33.1), 0)
    assert ("kill", "c1", 40, 45, RealCost(3 * MS)) in operations(history)
    assert history.jobs[0].kills == 1


def test_what_is_killed_because_its_job_is_over_is_no_kill() -> None:
    script = Script()
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    script.kill(40, "c1", sender="rm")
    script.exit(40.2, "c1", Outcome.KILLED, 29)
    script.told(41)
    script.finish(40.5, 40, JobState.FAILED)
    history = script.history(job())
    assert (history.jobs[0].kills, history.jobs[0].lost_work_ns) == (0, ns(29.2))
    assert [o.operation for o in history.operations] == ["schedule"]


def test_a_launch_that_fails_has_done_nothing() -> None:
    script = Script()
    script.start(10, "c1", "r000.0", checkpoint=KeyCheckpoint(("gone",), 30, "/in", "n1"), launched=False)
    failed = cs.LaunchFailed("c1", "no room")
    script.nm(10.5, "c1", failed, ContainerState.DONE, outcome=Outcome.LAUNCH_FAILED, why="no room")
    history = script.history(job())
    (row,) = history.attempts
    assert (row.outcome, row.reason, row.ended_ns) == (Outcome.LAUNCH_FAILED, "no room", ns(10.5))
    assert (row.launched_ns, row.first_key_ns, row.busy_ns, row.lost_ns) == (None, None, 0, 0)
    assert (row.keys_start, row.keys_done, row.resumed_from) == (30, 30, None)
    assert history.operations == []


def test_a_lost_node_takes_its_attempts_and_the_maps_whose_output_it_held() -> None:
    script = Script()
    script.submit()
    script.start(6, "c1", "m000.0", "n2", MAP)
    script.first_key(7, "c1")
    script.succeed(9, "c1", keys=0)
    script.start(10, "c2", "r000.0", "n2")
    script.first_key(11, "c2")
    script.at(31, "rm", ms.NodeLost("n2", "its host has died"))
    script.start(31.2, "c3", "r001.0", "n2", launched=False)  # its ApplicationMaster did not know yet
    script.exit(31.5, "c2", Outcome.CRASHED, 20)  # too late to matter
    script.start(32, "c4", "m000.1", "n1", MAP)
    script.first_key(33, "c4")
    script.succeed(35, "c4", keys=0)
    history = script.history(job(maps=1, reduces=2))

    first_map, second_map, reduce_0, reduce_1 = history.attempts
    assert (first_map.outcome, first_map.useful_ns, first_map.lost_ns) == (Outcome.SUCCEEDED, 0, ns(2))
    assert (second_map.outcome, second_map.useful_ns, second_map.lost_ns) == (Outcome.SUCCEEDED, ns(2), 0)
    assert (reduce_0.outcome, reduce_0.reason, reduce_0.node) == (Outcome.LOST, "its host has died", "n2")
    assert (reduce_0.ended_ns, reduce_0.slot_freed_ns, reduce_0.keys_done) == (ns(31), ns(31), None)
    assert (reduce_0.lost_ns, reduce_0.keys_total) == (ns(20), 100)
    assert (reduce_1.outcome, reduce_1.node, reduce_1.lost_ns) == (Outcome.LOST, "n2", 0)
    assert (first_map.keys_done, first_map.keys_total) == (0, 0)
    assert history.jobs[0].lost_work_ns == ns(22)
    assert [(t.kind, t.task, t.attempts, t.finish_ns) for t in history.tasks] == [
        (MAP, 0, 2, ns(35)),
        (REDUCE, 0, 1, None),
        (REDUCE, 1, 1, None),
    ]


def test_what_a_lost_node_tells_later_is_not_heard() -> None:
    script = Script()
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    script.ask_to_suspend(40, "c1", Mechanism.SUSPEND)
    script.nm(40.1, "c1", cs.Suspended("c1", 29, RealCost(MS)), ContainerState.SUSPENDED, keys=29)
    script.at(600, "rm", ms.NodeLost("n1", "silent"))
    script.told(700)
    history = script.history(job())
    (row,) = history.attempts
    assert (row.outcome, row.slot_freed_ns, row.lost_ns) == (Outcome.LOST, None, ns(29.1))
    assert [o.operation for o in history.operations] == ["schedule"]


def test_an_application_master_pays_schedule_and_does_no_work() -> None:
    script = Script()
    script.submit()
    script.start(6, "c0", "j/am", kind=MASTER, ready_s=5)
    script.at(7.63, "am:j", ms.Start("c0"))
    script.at(90, "nm:n1", cs.Exited("c0", 0, None, 0))
    script.kinds["c0"] = (MASTER, "n1")
    script.last = script.report("c0", ContainerState.DONE, Outcome.SUCCEEDED)
    script.told(91)
    history = script.history(job())
    (row,) = history.attempts
    assert (row.kind, row.attempt, row.outcome) == (MASTER, "j/am", Outcome.SUCCEEDED)
    assert (row.first_key_ns, row.ended_ns, row.slot_freed_ns) == (ns(7.63), ns(90), ns(91))
    assert (row.busy_ns, row.active_ns, row.useful_ns) == (ns(90 - 6.2), 0, 0)
    assert operations(history) == {
        ("schedule", "c0", 5, 7.63, RealCost(2 * MS)),
        ("application_master_start", "c0", 6.1, 7.63, RealCost(2 * MS)),
    }
    assert history.jobs[0].attempts == 0
    assert history.jobs[0].start_ns is None


def test_a_journal_that_ends_early() -> None:
    assert Script().history(job()).jobs[0].state is JobState.NEW
    script = Script()
    script.submit()
    script.start(10, "c1", "r000.0")
    script.first_key(11, "c1")
    history = script.history(job(reduces=2))
    assert history.jobs[0].state is JobState.RUNNING
    assert (history.jobs[0].finish_ns, history.jobs[0].completion_ns, history.jobs[0].margin_ns) == (None, None, None)
    (row,) = history.attempts
    assert (row.outcome, row.ended_ns, row.keys_done, row.active_ns) == (None, None, None, 0)
    assert (history.tasks[1].attempts, history.tasks[1].outcome) == (0, None)


def test_a_kill_that_overtook_its_start_makes_no_attempt() -> None:
    script = Script()
    script.kinds["c9"] = (REDUCE, "n1")
    kill = ms.KillContainer("c9", "j", "not needed any more")
    script.nm(10, "c9", kill, ContainerState.DONE, outcome=Outcome.KILLED)
    script.told(11)
    assert script.history(job()).attempts == []


def test_a_journal_of_another_workload_is_refused() -> None:
    script = Script()
    script.start(10, "c1", "r000.0")
    with pytest.raises(JournalError, match="has a job 'j' that the workload does not have"):
        fold(script.records, [])


def test_clocks_that_differ_a_little_change_nothing() -> None:
    """The NodeManager's clock is behind: its records come before those of who gave the orders."""
    script = Script()
    stop(script)
    go_on(script)
    script.succeed(121.6, "c1")
    script.told(122)
    expected = script.history(job())
    by_actor = sorted(script.records, key=lambda record: ("rm", "am:j", "client", "nm:n1").index(record.actor))
    assert fold(by_actor, [job()]) == expected

    nodes_first = sorted(script.records, key=lambda record: not record.actor.startswith("nm:"))
    assert fold(nodes_first, [job()]) == expected


# ---- statistics ----


def operation(name: OperationName, total_s: float, cost: RealCost | None = None) -> Operation:
    return Operation(name, "c", ns(7), ns(7 + total_s), cost)


def test_statistics_of_overheads() -> None:
    found = [operation("suspend", total_s, RealCost(4 * MS, 10 * MS)) for total_s in (1, 2, 3, 4)]
    statistics = OverheadTimes(found).statistics(NATIVE, time_scale=20)
    assert set(statistics) == {"schedule_s", "suspend_s", "resume_s", "kill_s", "application_master_start_s"}
    suspend = statistics["suspend_s"]
    real_ms = suspend.pop("real_ms")
    assert suspend == {
        "n": 4,
        "mean": 2.5,
        "p50": 2.5,
        "p95": pytest.approx(3.85),
        "p99": pytest.approx(3.97),
        "overruns": 0,
    }
    assert real_ms["total"] == {"mean": 125, "p50": 125, "p99": pytest.approx(198.5)}
    assert real_ms["mechanism"] == {"mean": 4, "p50": 4, "p99": 4}
    assert real_ms["key"] == {"mean": 10, "p50": 10, "p99": 10}
    assert real_ms["heartbeat"] == {"mean": 111, "p50": 111, "p99": pytest.approx(184.5)}


def test_without_samples_there_are_no_figures() -> None:
    nothing = {"mean": None, "p50": None, "p99": None}
    assert OverheadTimes([]).statistics(NATIVE, 1)["kill_s"] == {
        "n": 0,
        "mean": None,
        "p50": None,
        "p95": None,
        "p99": None,
        "overruns": 0,
        "real_ms": dict.fromkeys(("heartbeat", "key", "mechanism", "total"), nothing),
    }


def test_a_sample_without_a_cost_has_a_total_only_and_a_wait_is_never_negative() -> None:
    found = [operation("kill", 1), operation("kill", 1, RealCost(2_000 * MS))]
    real_ms = OverheadTimes(found).statistics(NATIVE, 1)["kill_s"]["real_ms"]
    assert real_ms["total"] == {"mean": 1000, "p50": 1000, "p99": 1000}
    assert real_ms["mechanism"] == {"mean": 2000, "p50": 2000, "p99": 2000}
    assert real_ms["heartbeat"] == {"mean": 0, "p50": 0, "p99": 0}


def test_overruns_are_counted_beyond_the_profile_and_five_real_milliseconds() -> None:
    profile = OverheadSettings(ns(2.63), ns(1.35), ns(3.88))
    found = [
        *(operation("schedule", s) for s in (2.63, 2.72, 2.74, 9)),  # 5 ms real are 0.1 s at this scale
        *(operation("suspend", s) for s in (1.35, 1.46)),
        operation("resume", 3.9),
        operation("kill", 9),
    ]
    statistics = OverheadTimes(found).statistics(profile, time_scale=20)
    overruns = {name: figures["overruns"] for name, figures in statistics.items()}
    assert overruns == {
        "schedule_s": 2,
        "suspend_s": 1,
        "resume_s": 0,
        "kill_s": 0,
        "application_master_start_s": 0,
    }


# ---- what is kept ----


def test_what_is_kept_compressed_takes_no_more_memory_than_it_is_long() -> None:
    value = ["container"] * 100_000
    compressed(value)
    tracemalloc.start()
    try:
        kept = compressed(value)
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert msgspec.msgpack.decode(decompress(kept)) == value
    assert taken_bytes < len(kept) + 5_000


def test_choices_of_victims_are_kept_in_their_order() -> None:
    kept = KeptChoices()
    added = [(ns(n), "rm", fx.ExplainTaskEviction(f"j{n}", "srt", 1, (), n)) for n in range(600)]
    for choice in added:
        kept.add(choice)
    assert list(kept.in_order()) == added
    kept.add(late := (ns(300), "am:j", added[0][2]))
    assert list(kept.in_order()) == [*added[:300], late, *added[300:]]


def test_the_attempts_of_a_job_that_is_added_later_are_found() -> None:
    script = Script()
    checkpointed(script)
    attempts = fold(script.records, [job()]).attempts
    names = AttemptNames()
    assert names.of("j") == {}
    names.add(attempts)
    assert names.of("j") == {row.container: row.attempt for row in attempts} != {}
