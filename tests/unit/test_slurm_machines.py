"""Slurm's rules through the whole machines: as they are played in virtual time, and what only the machines can do."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from analysis.evictions import evictions
from analysis.papers.slurm_runs import recorded_costs, recorded_runs, simulated
from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.schedule import Fault, FaultKind
from emulator.core.messages import JobState
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.policy import LEAST_WAIT_NS
from emulator.policies.schedulers.play import NO_COSTS
from emulator.policies.schedulers.protocol import (
    Answer,
    ContainerEnded,
    ContainerStarted,
    Event,
    GrantContainer,
    GroupFacts,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    ReclaimContainer,
    SchedulerDecision,
)
from emulator.policies.slurm.scheduler import SlurmRules, SlurmScheduler, jobs_player
from emulator.records.history import HistoryBuilder
from emulator.resolved import resolve
from emulator.sim.session import simulate, simulated_history
from emulator.sites.slurm import (
    SECOND_NS,
    Cluster,
    Job,
    Limits,
    Mode,
    Node,
    Partition,
    Qos,
    Settings,
    Slurm,
    SlurmDetails,
    Weights,
)
from tests.commands import run_natjam
from tests.examples import drawn
from tests.experiment_files import refusal
from tests.peers.slurm import differences, in_machines, played, run_in_machines
from tests.unit.test_slurm import NODES, cluster, job
from workloads.saved import write_saved

NOTHING_COSTS: dict[str, Any] = {"overheads": "none"}
GPUS = "gpu", "gpu:a100"
RUNS = [run for run in recorded_runs() if run["seed"] == 1]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["config"])
def test_recorded_runs_go_through_the_machines_as_they_are_played(run: dict[str, Any], tmp_path: Path) -> None:
    assert [*differences(run_in_machines(run, tmp_path), played(simulated(run)))] == []


@st.composite
def sites(draw: st.DrawFn) -> tuple[Cluster, list[Job]]:
    """A few nodes, partitions of different tiers, modes and grace over some of them, and jobs that come within 75 s."""
    sizes = draw(st.lists(st.sampled_from((2, 4, 8)), min_size=1, max_size=5))
    holds = draw(st.booleans())
    gpus = [draw(st.sampled_from((0, 2))) if holds else 0 for _ in sizes]
    nodes = {
        f"n{place}": Node(size, 1000 * size * holds, dict.fromkeys(GPUS, gpus[place]) if gpus[place] else {})
        for place, size in enumerate(sizes)
    }
    some = st.lists(st.sampled_from(sorted(nodes)), min_size=1, unique=True).map(lambda names: tuple(sorted(names)))
    seconds, graces = st.integers(0, 10**10), st.sampled_from((0, 0, 7_500_000_000))
    tiers = draw(st.lists(st.sampled_from((1, 2, 3, 5)), min_size=1, max_size=4, unique=True))
    partitions = tuple(
        Partition(f"p{tier}", draw(some), tier, draw(st.sampled_from(Mode)), draw(graces)) for tier in tiers
    )
    settings = Settings(
        preempts=draw(st.booleans()) or len(tiers) > 1,
        gang=any(each.mode is Mode.SUSPEND for each in partitions),
        exempt_ns=draw(st.sampled_from((0, 5 * SECOND_NS))),
        time_slice_ns=5 * SECOND_NS,
        cred_expire_ns=draw(st.sampled_from((0, 5, 20))) * SECOND_NS,
        sched_interval_ns=draw(st.sampled_from((1, 10, 60))) * SECOND_NS,
        sched_min_interval_ns=draw(st.sampled_from((0, 2))) * SECOND_NS,
        batch_sched_delay_ns=draw(st.sampled_from((0, 3))) * SECOND_NS,
        default_queue_depth=draw(st.sampled_from((3, 100))),
        backfills=draw(st.booleans()),
        bf_interval_ns=draw(st.sampled_from((1, 30))) * SECOND_NS,
        bf_max_job_test=draw(st.sampled_from((3, 500))),
        youngest_first=draw(st.booleans()),
        strict_order=draw(st.booleans()),
        reorder_count=draw(st.integers(0, 2)),
        weights=draw(st.sampled_from((None, Weights(age=1000, job_size=500, qos=100, calc_period_ns=7 * SECOND_NS)))),
        enforces_limits=draw(st.booleans()),
    )
    qos: tuple[Qos, ...] = ()
    if draw(st.booleans()):
        names = ("a", "b", "c")
        behind = [st.lists(st.sampled_from(names[:place] or ("",)), unique=True) for place in range(len(names))]
        mode = st.sampled_from(Mode if settings.gang else (Mode.CANCEL, Mode.REQUEUE))
        qos = tuple(
            Qos(name, tuple(draw(others)), draw(mode), draw(graces), limits=Limits(user_tres={"cpu": 8}))
            for name, others in zip(names, behind, strict=True)
        )
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 20))):
        partition = draw(st.sampled_from(partitions))
        cpus = draw(st.sampled_from((1, 2, 4, 8)))
        room = sum(nodes[name].cpus >= cpus for name in partition.nodes)
        if room:
            count, limit_s = draw(st.integers(1, min(3, room))), draw(st.sampled_from((None, 30, 90)))
            length_ns, submit_ns = SECOND_NS + 6 * draw(seconds), 7 * draw(seconds)
            limit_ns = None if limit_s is None else limit_s * SECOND_NS
            of_qos = draw(st.sampled_from(qos)).name if qos else ""
            with_gpus = sum(nodes[name].cpus >= cpus and bool(nodes[name].gres) for name in partition.nodes)
            more: dict[str, Any] = {
                "qos": of_qos,
                "memory_mb": draw(st.sampled_from((0, 700, 1000))) * cpus * holds,
                "gres": dict.fromkeys(GPUS, draw(st.sampled_from((0, 1, 2)))) if with_gpus >= count else {},
                "exclusive": draw(st.integers(0, 5)) == 0,
                "nice": draw(st.sampled_from((0, 0, 500))),
                "eligible_ns": draw(st.sampled_from((0, 0, submit_ns + 30 * SECOND_NS))),
                "user": draw(st.sampled_from("uv")),
            }
            one = Job(f"j{number}", partition.name, count, cpus, length_ns, submit_ns, limit_ns, **more)
            jobs.append(one)
    assume(jobs)
    return Cluster(nodes, partitions, settings, qos), jobs


@given(site=sites(), has_costs=st.booleans())
@drawn
def test_drawn_sites_do_too(site: tuple[Cluster, list[Job]], has_costs: bool) -> None:
    of, jobs = site
    with tempfile.TemporaryDirectory(prefix="natjam-slurm-") as folder:
        ours = in_machines(of, jobs, Path(folder), **({} if has_costs else NOTHING_COSTS))
    theirs = jobs_player(of, jobs, recorded_costs() if has_costs else NO_COSTS).finish()
    assert [*differences(ours, played(theirs))] == []


@pytest.mark.parametrize(("mechanism", "gone_s", "again_s"), [("kill", 20, 60), ("checkpoint", 21, 39)])
def test_each_victim_is_taken_as_its_partition_says(mechanism: str, gone_s: int, again_s: int, tmp_path: Path) -> None:
    modes = {"low": Mode.SUSPEND, "mid": Mode.REQUEUE, "cheap": Mode.CANCEL, "high": Mode.OFF}
    partitions = tuple(Partition(name, tuple(NODES), tier, modes[name]) for tier, name in enumerate(modes, 1))
    settings = replace(cluster().settings, gang=True)
    jobs = [Job(name, name, 1, 8, 60 * SECOND_NS) for name in ("low", "mid", "cheap")]
    jobs += [Job("top", "high", 4, 8, 10 * SECOND_NS, 20 * SECOND_NS)]
    of = Cluster(NODES, partitions, settings)
    stays = in_machines(of, jobs, tmp_path, scheduler={"mechanism": mechanism}, **NOTHING_COSTS)
    at_s = {name: [(a / SECOND_NS, b / SECOND_NS) for a, b in each] for name, each in stays.items()}
    assert at_s == {
        "low": [(0, 70)],  # stopped on its node as long as the job runs that is put over it
        "mid": [(0, gone_s), (gone_s + 10, gone_s + 10 + again_s)],
        "cheap": [(0, 20)],
        "top": [(gone_s, gone_s + 10)],
    }


def test_each_victim_is_explained(tmp_path: Path) -> None:
    modes = {"low": Mode.SUSPEND, "mid": Mode.REQUEUE, "cheap": Mode.CANCEL, "high": Mode.OFF}
    partitions = tuple(Partition(name, tuple(NODES), tier, modes[name]) for tier, name in enumerate(modes, 1))
    jobs = [Job(name, name, nodes, 8, 60 * SECOND_NS) for name, nodes in (("low", 2), ("mid", 1), ("cheap", 1))]
    jobs += [Job("top", "high", 4, 8, 10 * SECOND_NS, 20 * SECOND_NS)]
    site = Slurm(Cluster(NODES, partitions, replace(cluster().settings, gang=True)), tuple(jobs))
    write_saved(tmp_path / "site.yaml", site, ())
    run_natjam("run", tmp_path / "site.yaml", "--set", "overheads=none", "--out", tmp_path / "run")
    found = evictions(tmp_path / "run")
    assert sorted((each.attempt, each.outcome, *each.requesters) for each in found) == [
        ("low/task-000.0", "suspended", "top"),
        ("low/task-001.0", "suspended", "top"),
        ("mid/task-000.0", "killed", "top"),
    ]
    assert {each.why_job for each in found if each.outcome == "suspended"} == {
        "slurm: makes room for top of high (they share CPUs)"
    }
    assert "cancelled for other jobs: cheap" in run_natjam("explain", tmp_path / "run").output


def test_what_a_job_has_done_that_is_cancelled_for_another_is_lost(tmp_path: Path) -> None:
    write_saved(
        tmp_path / "site.yaml", Slurm(cluster(Mode.CANCEL), (job("low", 4, 8, 60), job("high", 4, 8, 5, 20))), ()
    )
    history = simulated_history(resolve(load_experiment(tmp_path / "site.yaml", ["overheads=none"])))
    found = {row.name: (row.state, row.useful_ns, row.lost_work_ns) for row in history.jobs}
    assert found["low"] == (JobState.KILLED, 0, 4 * 20 * SECOND_NS)
    assert found["high"] == (JobState.SUCCEEDED, 4 * 5 * SECOND_NS, 0)


def test_work_can_be_saved_in_place_of_a_requeue(tmp_path: Path) -> None:
    jobs = [job("low", 4, 8, 60), job("high", 4, 8, 5, 20.5)]
    stays = in_machines(cluster(), jobs, tmp_path, scheduler={"mechanism": "checkpoint"}, **NOTHING_COSTS)
    first, second = stays["low"]
    saved_ns = first[1]  # at the end of the key that it was at
    assert 21 * SECOND_NS <= saved_ns <= 22 * SECOND_NS
    assert stays["high"] == [(saved_ns, saved_ns + 5 * SECOND_NS)]
    again_ns = 28_005_000_000  # cred_expire after it has gone, by the main scheduler
    assert second == (again_ns, again_ns + 60 * SECOND_NS - saved_ns)


@pytest.mark.parametrize("kind", [FaultKind.NODE_DEATH, FaultKind.CRASH])
@pytest.mark.parametrize("at_s", [10, 25, 35])
def test_a_gang_that_loses_a_node_or_a_process_goes_on_where_it_is_stopped(
    kind: FaultKind, at_s: int, tmp_path: Path
) -> None:
    """``low`` runs, is stopped, and runs again at these times."""
    of = replace(cluster(Mode.SUSPEND), settings=replace(cluster().settings, gang=True))
    jobs = [job("low", 2, 8, 60), job("high", 2, 8, 10, 20), job("low1", 1, 4, 30, 1)]
    write_saved(tmp_path / "site.yaml", Slurm(of, tuple(jobs)), ())
    run = resolve(load_experiment(tmp_path / "site.yaml", ["overheads=none"]))
    history = HistoryBuilder(run.jobs)
    faults = [Fault(kind, at_s * SECOND_NS, 0, 1)]
    simulate(run, history.follow, make_cluster=partial(FaultyCluster, faults=faults, limit_ns=900 * SECOND_NS))
    assert {row.name: row.state for row in history.finish().jobs} == dict.fromkeys(
        ("low", "high", "low1"), JobState.SUCCEEDED
    )


def test_a_job_whose_node_is_lost_is_requeued() -> None:
    scheduler = SlurmScheduler(SlurmRules(cluster()))

    def answer(now_s: int, *events: Event) -> list[SchedulerDecision]:
        notified = scheduler.notify(events, now_s * SECOND_NS)
        decides = notified.valid_until_ns == now_s * SECOND_NS
        return [*notified.decisions, *(scheduler.decide(now_s * SECOND_NS).decisions if decides else ())]

    def waits(new: int, at_once: int) -> JobRequests:
        return JobRequests("low", 0, {"task": new} if new else {}, (), (), at_once)

    groups = (GroupFacts("task", 2, True, {"cpu": 8000}),)
    submitted = JobSubmitted("low", "low", 0, groups, None, 0, details=SlurmDetails())
    first = answer(0, *(NodeAdded(node, "", 8, {"cpu": 8000}) for node in NODES), submitted, waits(2, 2))
    assert first == [GrantContainer("low", "n0", "task"), GrantContainer("low", "n1", "task")]
    started = [ContainerStarted(f"c{number}", "low", "task", f"n{number}", None) for number in range(2)]
    assert answer(1, *started, waits(0, 0)) == []
    assert answer(2, ContainerEnded("c1", "low", "n1"), NodeRemoved("n1"), waits(1, 0)) == [ReclaimContainer("c0")]
    assert answer(3, ContainerEnded("c0", "low", "n0"), waits(2, 2)) == []
    assert answer(9) == [GrantContainer("low", "n2", "task"), GrantContainer("low", "n3", "task")]  # after cred_expire


class AlwaysDue(SlurmScheduler):
    """Slurm that wants to be asked again at once, whatever it has decided; its own time is in ``kept_ns``."""

    asked = 0

    def __init__(self, options: SlurmRules) -> None:
        super().__init__(options)
        self.kept_ns: int | None = None

    def _hurried(self, answer: Answer, now_ns: int) -> Answer:
        self.kept_ns = answer.valid_until_ns
        return answer._replace(valid_until_ns=now_ns)

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer:
        return self._hurried(super().notify(events, now_ns), now_ns)

    def decide(self, now_ns: int) -> Answer:
        AlwaysDue.asked += 1
        is_due = self.kept_ns is not None and self.kept_ns <= now_ns
        return self._hurried(super().decide(now_ns), now_ns) if is_due else Answer((), now_ns)


def test_a_scheduler_that_always_wants_to_be_asked_at_once_stops_no_time(tmp_path: Path) -> None:
    write_saved(tmp_path / "site.yaml", Slurm(cluster(), (job("low", 4, 8, 5),)), ())
    run = resolve(load_experiment(tmp_path / "site.yaml", ["overheads=none"]))
    scheduler = run.settings.scheduler
    hurried = replace(scheduler.allocation, function=partial(AlwaysDue, options=SlurmRules(cluster())))
    history = HistoryBuilder(run.jobs)
    settings = dataclasses.replace(run.settings, scheduler=dataclasses.replace(scheduler, allocation=hurried))
    simulate(replace(run, settings=settings), history.follow)
    assert [row.state for row in history.finish().jobs] == [JobState.SUCCEEDED]
    assert 100 < AlwaysDue.asked < 2 * 6 * SECOND_NS / LEAST_WAIT_NS


def test_what_the_site_decides_cannot_be_given(tmp_path: Path) -> None:
    def said(of: Cluster, **keys: Any) -> str:
        write_saved(tmp_path / "site.yaml", Slurm(of, (job("low", 4, 8),)), ())
        (tmp_path / "mine.yaml").write_text(dump_yaml({"name": "mine", "site": "site.yaml", **keys}))
        return refusal(tmp_path / "mine.yaml")

    assert "one of kill, checkpoint, image" in said(cluster(), scheduler={"mechanism": "suspend"})
    assert "decides it" in said(cluster(), scheduler={"task_eviction": "srt"})
    spared = {"allocation": {"queues": {"low": {"minimum_runtime_s": 60}}}}
    assert "spares nobody because of it" in said(cluster(), scheduler=spared)
    adaptive = {"mechanism": {"name": "adaptive", "among": ["kill", "suspend"]}}
    assert "one of kill, checkpoint, image" in said(cluster(), scheduler=adaptive)
    stopped = {"allocation": {"queues": {"low": {"mechanism": "suspend"}}}}
    assert "one of kill, checkpoint, image" in said(cluster(), scheduler=stopped)
