"""The paper's dummy scheduler: one slot, a low task that gives way to a high one (os-assisted-preemption, Fig. 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from experiment_files import refusal, write
from msgspec import structs
from simulated import CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.task import task_named
from emulator.core.client import Client
from emulator.core.effects import Effect, Send
from emulator.core.job import JobSpec
from emulator.core.messages import OrderTask, ProgressReached, Start, SubmitJob, TaskOrder
from emulator.core.settings import Settings, Trigger
from emulator.experiment.load import load_experiment
from emulator.records.history import JobRow
from emulator.vocabulary import MAP, REDUCE, SECOND_NS, Order, TaskId
from tests.histories import fold

R0 = TaskId(REDUCE, 0)
LOW = make_job("low", reduces_s=(80.0,))
HIGH = structs.replace(make_job("high", "production", reduces_s=(80.0,)), submit_when=("low", 500_000))
SUSPEND = Trigger("high", 0, "low", TaskOrder(R0, Order.SUSPEND))
RESUME = Trigger("high", 1_000_000, "low", TaskOrder(R0, Order.RESUME))
KILL = Trigger("high", 0, "low", TaskOrder(R0, Order.KILL))
MARKS = {"low": (500_000,), "high": (0, 1_000_000)}


def dummy(*triggers: Trigger, max_suspended: int = 8) -> Settings:
    made = make_settings(containers=1, max_suspended=max_suspended, mechanism="wait", unmanaged_masters=True)
    return replace(made, scheduler=replace(made.scheduler, triggers=triggers), marks=MARKS)


def rows(cluster: CheckedCluster, jobs: tuple[JobSpec, ...] = (LOW, HIGH)) -> Mapping[str, JobRow]:
    return {row.name: row for row in fold(cluster.records, jobs).jobs}


def test_a_job_is_submitted_when_another_has_come_so_far() -> None:
    found = rows(run_checked(dummy(), (LOW, HIGH)))
    start_ns, submit_ns = found["low"].start_ns, found["high"].submit_ns
    assert start_ns is not None
    assert 40 * SECOND_NS < submit_ns - start_ns < 43 * SECOND_NS
    assert (found["high"].start_ns or 0) > (found["low"].finish_ns or 0)


def test_a_suspended_task_waits_until_it_is_resumed_although_the_slot_is_free() -> None:
    found = rows(run_checked(dummy(SUSPEND, RESUME), (LOW, HIGH)))
    low, high = found["low"], found["high"]
    assert (low.suspensions, low.kills, low.lost_work_ns) == (1, 0, 0)
    assert (high.completion_ns or 0) < 85 * SECOND_NS
    assert (low.finish_ns or 0) > (high.finish_ns or 0) + 35 * SECOND_NS


def test_a_killed_task_begins_anew_when_the_slot_is_free() -> None:
    found = rows(run_checked(dummy(KILL), (LOW, HIGH)))
    low, high = found["low"], found["high"]
    assert (low.suspensions, low.kills) == (0, 1)
    assert 40 * SECOND_NS < low.lost_work_ns < 46 * SECOND_NS
    assert (low.finish_ns or 0) > (high.finish_ns or 0) + 80 * SECOND_NS


def test_a_user_orders_the_same_while_the_run_is_on() -> None:
    job = make_job("low", reduces_s=(30.0,))

    def disturb(cluster: CheckedCluster) -> None:
        for at_s, order in ((10, Order.SUSPEND), (20, Order.RESUME), (25, Order.KILL)):
            message = OrderTask("low", TaskOrder(R0, order))
            cluster.kernel.at(at_s * SECOND_NS, partial(cluster.tell, "rm", message))

    found = rows(run_checked(dummy(), (job,), disturb=disturb), (job,))["low"]
    assert (found.suspensions, found.kills) == (1, 1)
    assert 10 * SECOND_NS < found.lost_work_ns < 18 * SECOND_NS


def test_a_task_that_its_node_has_no_room_to_stop_goes_on() -> None:
    found = rows(run_checked(dummy(SUSPEND, RESUME, max_suspended=0), (LOW, HIGH)))
    assert found["low"].suspensions == 0
    assert (found["high"].start_ns or 0) > (found["low"].finish_ns or 0)


@pytest.mark.parametrize("name", ["low", "low/x0", "low/r", "/r0", "low/r0x", "low/r1234567", "low/m-1"])
def test_what_is_no_task_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no task; write JOB/m0"):
        task_named(name)
    assert task_named("a/b/m012") == ("a/b", TaskId(MAP, 12))


FILE = """\
name: dummy
overheads: hadoop-0.23
cluster: {nodes: 1, containers_per_node: 1, application_masters: outside}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 1.0}, research: {capacity: 0.0}}}
  mechanism: wait
  triggers:
    - {when: {job: high, progress: 0}, do: suspend, task: low/r0}
workload:
  jobs:
    - {name: low, queue: research, reduces: 1, reduce_s: 80}
    - {name: high, queue: production, reduces: 1, reduce_s: 80, submit_when: {job: low, progress: 0.5}}
"""


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("task: low/r0", "task: low/r1", "triggers.0.task: 'low' has 1 reduces, counted from 0"),
        ("task: low/r0", "task: lo/r0", "triggers.0.task: there is no job 'lo'; did you mean 'low'?"),
        ("task: low/r0", "task: low", "triggers.0.task: 'low' is no task"),
        ("job: high, progress: 0}", "job: hihg, progress: 0}", "triggers.0.when.job: there is no job 'hihg'"),
        ("job: low, progress", "job: high, progress", "jobs.1.submit_when.job: 'high' waits for itself"),
        ("job: low, progress", "job: none, progress", "jobs.1.submit_when.job: there is no job 'none'"),
        ("submit_when", "submit_s: 3, submit_when", "jobs.1.submit_when: submit_s 3 also sets the time"),
        ("progress: 0.5", "progress: 50", "jobs.1.submit_when.progress"),
        ("do: suspend", "do: stop", "triggers.0.do"),
    ],
)
def test_what_a_trigger_must_be(tmp_path: Path, text: str, change: str, words: str) -> None:
    assert words in refusal(write(tmp_path, FILE.replace(text, change)))


PROGRAMS = FILE.replace("reduces: 1, reduce_s: 80", 'tasks: {command: ["true"], count: 2, length_s: 80}').replace(
    "submit_when: {job: low, progress: 0.5}", "submit_s: 41"
)


def test_a_program_is_ordered_about_as_a_reduce_is(tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAMS)
    assert [trigger.task for trigger in load_experiment(path).scheduler.triggers] == ["low/r0"]
    refused = refusal(write(tmp_path, PROGRAMS.replace("low/r0", "low/r2")))
    assert "triggers.0.task: 'low' has 2 tasks, counted from 0" in refused


def test_the_last_submission_says_so_and_again_when_the_manager_has_restarted() -> None:
    def submitted(effects: list[Effect]) -> dict[str, bool]:
        sent = [effect.message for effect in effects if isinstance(effect, Send)]
        return {message.job: message.is_last for message in sent if isinstance(message, SubmitJob)}

    client = Client((make_job("low", reduces_s=(9.0,)), make_job("other", reduces_s=(9.0,)), HIGH))
    assert submitted(client.handle(Start(), 0)) == {"low": False, "other": False}
    assert submitted(client.handle(ProgressReached("low", 500_000), SECOND_NS)) == {"high": True}
    assert submitted(client.handle(Start(), 2 * SECOND_NS)) == {"low": False, "other": False, "high": True}
