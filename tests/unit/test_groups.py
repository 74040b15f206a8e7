"""Jobs of groups with names of their own: from the file to the tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from experiment_files import refusal, write
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from simulated import make_job, make_settings, run_checked

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.application_master.task import task_named
from emulator.core.job import JobSpec
from emulator.display.closing_tables import closing_tables
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.history import History
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import SECOND_NS, StartsAfter, TaskGroup, TaskId
from tests.commands import displayed
from tests.examples import drawn
from tests.histories import fold
from tests.report_pages import Page
from tests.run_results import RunResults
from tests.simulated_runs import simulate

THREE = """\
name: training
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 2, containers_per_node: 4}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 1.0}, research: {capacity: 0.0}}}
workload:
  jobs:
    - name: train
      queue: research
      groups:
        - {name: launcher, length_s: 5, may_be_victim: false}
        - {name: workers, count: 4, length_s: [60, 60, 60, 20], starts_after: {group: launcher}}
        - {name: evaluator, length_s: 60, may_be_victim: false, starts_after: {group: workers, share: 0.25}}
    - {name: urgent, queue: production, submit_s: 60, maps: 6, map_s: 10, reduces: 2, reduce_s: 10}
"""


def history_of(text: str, tmp_path: Path) -> History:
    experiment = load_experiment(write(tmp_path, text))
    return simulated_history(resolve(experiment, expand(experiment, 1)))


def test_three_groups_run_in_their_order_and_only_those_that_may_be_are_victims(tmp_path: Path) -> None:
    history = history_of(THREE, tmp_path)
    rows = [row for row in history.tasks if row.job == "train"]
    assert [(row.kind, row.task) for row in rows] == [
        ("launcher", 0),
        *(("workers", number) for number in range(4)),
        ("evaluator", 0),
    ]
    assert [row.length_ns // SECOND_NS for row in rows] == [5, 60, 60, 60, 20, 60]
    launcher, *workers, evaluator = rows
    assert all((row.start_ns or 0) > (launcher.finish_ns or 0) for row in workers)
    ends_ns = sorted(row.finish_ns or 0 for row in workers)
    assert ends_ns[0] < (evaluator.start_ns or 0) < ends_ns[1]
    assert sum(row.suspensions for row in workers) > 0
    assert (launcher.suspensions, evaluator.suspensions) == (0, 0)
    names = {row.attempt for row in history.attempts if row.job == "train"}
    assert {"train/am", "train/launcher-000.0", "train/workers-003.0", "train/evaluator-000.0"} <= names


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("group: launcher}", "group: luncher}", "groups.1.starts_after.group: 'train' has no group 'luncher'; did you"),
        ("length_s: 5,", "length_s: 5, starts_after: {group: evaluator},", "'launcher' waits for itself"),
        ("name: evaluator", "name: workers", "groups.2.name: 'workers' is the name of an earlier group"),
        ("name: evaluator", "name: reduce", "groups.2: name: 'reduce' has a meaning of its own"),
        ("name: evaluator", "name: e", "groups.2.name: "),
        ("count: 4", "count: 4, memory_gb: [0.5, 9]", "groups.1.memory_gb: a task that holds 9 GB does not fit"),
        ("      groups:", "      maps: 3\n      groups:", "jobs.0: groups replaces maps"),
        ("name: training", "name: training\nprotocol: {x: 1}", "protocol.x"),
        ("allocation: {", "triggers: [{when: {job: urgent, progress: 0}, do: kill, task: train/workers-4}]\n"
         "  allocation: {", "'train' has 4 tasks in its group 'workers', counted from 0"),
    ],
)  # fmt: skip
def test_what_groups_must_be(tmp_path: Path, text: str, change: str, words: str) -> None:
    assert words in refusal(write(tmp_path, THREE.replace(text, change)))


def test_a_task_of_a_group_is_named_with_its_group() -> None:
    assert task_named("a/b/workers-12") == ("a/b", TaskId("workers", 12))
    assert task_named("a/map-3") == task_named("a/m3")
    for name in ("a/workers", "a/workers-", "a/-3", "a/workers-1234567", "a/workers-x"):
        with pytest.raises(ValueError, match="JOB/GROUP-0"):
            task_named(name)


def test_a_trigger_orders_about_one_task_of_a_group(tmp_path: Path) -> None:
    trigger = "{when: {job: urgent, progress: 0}, do: kill, task: train/workers-2}"
    trigger = f"mechanism: wait\n  triggers: [{trigger}]\n  allocation: {{"
    history = history_of(THREE.replace("allocation: {", trigger), tmp_path)
    killed = {row.attempt for row in history.attempts if row.outcome == "killed"}
    assert killed == {"train/workers-002.0"}


def test_the_memory_of_a_group_is_its_own(tmp_path: Path) -> None:
    text = THREE.replace("count: 4,", "count: 4, memory_gb: [0.5, 1],")
    (facts, _) = [job.facts for job in expand(load_experiment(write(tmp_path, text)), 1)]
    assert [facts.held_by("workers", number) for number in range(3)] == [1 << 29, 1 << 30, 1 << 29]
    assert facts.held_by("launcher", 0) is None
    assert [facts.index_of(group, 0) for group in ("launcher", "workers", "evaluator")] == [0, 1, 5]


# ---- any groups, any faults ----


@st.composite
def grouped_jobs(draw: st.DrawFn) -> JobSpec:
    """A job whose tasks are in one to four groups, each of which may wait for an earlier one."""
    groups: list[TaskGroup] = []
    for number in range(draw(st.integers(1, 4))):
        earlier = draw(st.sampled_from([None, *(group.name for group in groups)]))
        share_ppm = draw(st.sampled_from((0, 300_000, 1_000_000)))
        after = None if earlier is None else StartsAfter(earlier, share_ppm)
        may_be_victim = draw(st.sampled_from((None, True, False)))
        groups.append(TaskGroup(f"g{number}", draw(st.integers(1, 3)), may_be_victim=may_be_victim, starts_after=after))
    count = sum(group.count for group in groups)
    job = make_job("grouped", "research", 0.0, (), tuple(float(draw(st.integers(3, 20))) for _ in range(count)))
    return structs.replace(job, facts=structs.replace(job.facts, groups=tuple(groups)))


@drawn
@given(grouped_jobs(), st.sampled_from(("checkpoint", "suspend", "kill")), st.integers(0, 10**6), st.booleans())
def test_groups_start_when_they_may_and_are_spared_when_they_must(
    job: JobSpec, mechanism: str, seed: int, faulty: bool
) -> None:
    jobs = (job, make_job("urgent", "production", 12.0, (), (5.0, 5.0, 5.0, 5.0)))
    made = make_settings(nodes=2, containers=3, mechanism=mechanism, seed=seed)
    network = BadNetwork(seed, 15, 15, 4 * SECOND_NS) if faulty else None
    cluster = run_checked(made, jobs, bad_network=network, may_be_endless=mechanism == "kill")
    history = fold(cluster.records, jobs)
    rows = [row for row in history.tasks if row.job == "grouped"]
    assert Counter(row.kind for row in rows) == {group.name: group.count for group in job.facts.groups}
    for group in job.facts.groups:
        mine = [row for row in rows if row.kind == group.name]
        if group.may_be_victim is False:
            assert not any(row.suspensions or row.kills for row in mine)
        if group.starts_after is None:
            continue
        before = [row for row in rows if row.kind == group.starts_after.group]
        for row in mine:
            done = sum((other.finish_ns or 10**18) < (row.start_ns or 0) for other in before)
            assert done * 1_000_000 >= len(before) * (group.starts_after.share_ppm or 0)


def test_the_tables_of_a_run_have_its_groups_and_those_of_maps_and_reduces_none(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run", file=write(tmp_path, THREE))
    summary = RunResults(run).summary
    rows = [row for row in RunResults(run).table("tasks") if row["job"] == "train"]
    assert [(each["job"], each["group"], each["tasks"], each["succeeded"]) for each in summary["groups"]] == [
        ("train", "launcher", 1, 1),
        ("train", "workers", 4, 4),
        ("train", "evaluator", 1, 1),
    ]
    for each in summary["groups"]:
        mine = [row for row in rows if row["kind"] == each["group"]]
        for name in ("attempts", "suspensions", "kills", "useful_s"):
            assert each[name] == pytest.approx(sum(row[name] for row in mine))
        assert (each["start_s"], each["finish_s"]) == (
            min(row["start_s"] for row in mine),
            max(row["finish_s"] for row in mine),
        )
    assert re.search(r"train\W+workers\W+4\W+4\W", displayed(*closing_tables(summary), width=160))
    assert "evaluator" in str(Page((run / "report.html").read_text()).tables["groups"])
    del summary["groups"]
    assert "groups of tasks" not in "".join(str(getattr(table, "title", "")) for table in closing_tables(summary))
