"""Backfill leaves out what decides nothing: every start is that of a play that leaves nothing out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.policies.schedulers.play import Execution
from emulator.policies.slurm import backfill, controller
from emulator.policies.slurm.main_scheduler import Decision, Outcome, decide
from emulator.policies.slurm.scheduler import jobs_player
from emulator.policies.slurm.snapshot import FreeTimes, Running, Snapshot, Waiting
from emulator.sites.slurm import MINUTE_NS, SECOND_NS, Cluster, Job, Mode, Node, Partition, Settings
from tests.unit.test_slurm_machines import sites

HOUR_NS = 60 * MINUTE_NS
Stay = tuple[int, int | None, Sequence[str]]


class PlainPlan(backfill.Plan):
    """A plan that is a list of what is kept, and tries a job from every time on at which some of that is free again."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        super().__init__(snapshot, now_ns)
        self.all_kept: list[tuple[int, int, int]] = []

    def _keep(self, nodes: int, start_ns: int, until_ns: int) -> None:
        self.all_kept.append((start_ns, until_ns, nodes))

    def taken(self, start_ns: int, until_ns: int) -> int:
        """The nodes that are kept for others at some time of these."""
        found = 0
        for kept_ns, again_ns, nodes in self.all_kept:
            if kept_ns < self._rounded_up(until_ns) and again_ns > start_ns:
                found |= nodes
        return found

    def free_now(self, job: Waiting) -> int:
        """See ``Plan``."""
        return self._snapshot.nodes_for(job) & ~self.taken(self._now_ns, self._now_ns + job.limit_ns)

    def _beginnings(self, job: Waiting, room: FreeTimes) -> Iterator[tuple[int, int, int | None]]:
        ends_ns = sorted({again_ns for _, again_ns, _ in self.all_kept})
        for begin_ns, next_ns in pairwise([self._now_ns, *ends_ns, None]):
            if begin_ns is None or begin_ns > self._now_ns + self._settings.bf_window_ns:
                return
            yield begin_ns, self._snapshot.nodes_for(job) & ~self.taken(begin_ns, begin_ns + job.limit_ns), next_ns

    def _taken(self, start_ns: int, end_ns: int) -> int:
        before = (again_ns for _, again_ns, _ in self.all_kept if again_ns <= start_ns)
        return self.taken(max(before, default=self._now_ns), end_ns)


def plain_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """A pass that looks at every job, and plans every one that does not start."""
    plan = PlainPlan(snapshot, now_ns)
    for job in snapshot.pending(now_ns, snapshot.cluster.settings.bf_max_job_test):
        why = snapshot.limits.why_waits(job.job)
        if plan.may_start_now(job) and not why:
            where = plan.where_now(job)
            yield (decision := decide(snapshot, job, plan.free_now(job), now_ns))
            if decision.outcome in (Outcome.PREEMPTS, Outcome.AWAITS_VICTIMS):
                plan.keep(snapshot.mask(where), now_ns, now_ns + job.limit_ns)
        elif not plan.may_start_now(job) and not why.startswith(("Partition", "JobArray")):
            plan.add(job)


def stays(of: Cluster, jobs: Sequence[Job]) -> dict[str, list[Stay]]:
    def stay(each: Execution) -> Stay:
        return each.start_ns, each.end_ns, each.nodes

    return {name: [*map(stay, each)] for name, each in jobs_player(of, jobs).finish().items()}


def hold(of: Cluster, jobs: Sequence[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every start and end is that of the plain form."""
    found = stays(of, jobs)
    with monkeypatch.context() as patched:
        patched.setattr(controller, "backfill_pass", plain_pass)
        assert found == stays(of, jobs)


def drawn_jobs(random: Random, count: int, hours: float, longest: int) -> list[Job]:
    """Jobs of all shapes, of which one in four may preempt the others."""

    def one(number: int) -> Job:
        length_ns = round(random.lognormvariate(0, 1) * 1500) * SECOND_NS
        submit_ns, limit_ns = round(random.uniform(0, hours) * HOUR_NS), random.choice((30, 60, 120, 480)) * MINUTE_NS
        partition = random.choice(("low", "low", "low", "high"))
        shape = random.randint(1, longest), random.choice((1, 2, 4, 8))
        return Job(f"j{number}", partition, *shape, length_ns, submit_ns, limit_ns)

    return [one(number) for number in range(count)]


def drawn_cluster(nodes: int, mode: Mode, **changed: Any) -> Cluster:
    names = {f"n{number}": Node(8) for number in range(nodes)}
    partitions = Partition("low", tuple(names), 1, mode), Partition("high", tuple(names)[nodes // 4 :], 10)
    is_gang = mode is Mode.SUSPEND
    return Cluster(names, partitions, Settings(preempts=mode is not Mode.OFF, gang=is_gang, **changed))


@pytest.mark.parametrize("mode", Mode)
def test_every_start_of_a_day_is_that_of_a_play_that_leaves_nothing_out(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(drawn_cluster(6, mode), drawn_jobs(Random(f"slurm-day-{mode}"), 150, 24, 4), monkeypatch)


@pytest.mark.parametrize("seed", range(25))
def test_so_is_that_of_small_sites_that_are_full(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"slurm-plans-{seed}")
    of = drawn_cluster(
        random.randint(2, 12),
        random.choice([*Mode]),
        bf_resolution_ns=random.choice((1, 60, 600)) * SECOND_NS,
        bf_window_ns=random.choice((2, 24)) * HOUR_NS,
        bf_max_job_test=random.choice((5, 2000)),
    )
    hold(of, drawn_jobs(random, 60, 3, len(of.nodes) // 2), monkeypatch)


@given(site=sites(), resolution_s=st.sampled_from((1, 15, 60)))
@settings(deadline=None)
def test_so_is_that_of_sites_of_all_kinds(site: tuple[Cluster, list[Job]], resolution_s: int) -> None:
    of, jobs = site
    changed = replace(of.settings, backfills=True, bf_resolution_ns=resolution_s * SECOND_NS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        hold(replace(of, settings=changed), jobs, monkeypatch)


@pytest.mark.parametrize("seed", range(10))
def test_many_jobs_are_planned_as_by_one_look_at_each_time(seed: int) -> None:
    random = Random(f"slurm-many-plans-{seed}")
    of = drawn_cluster(16, Mode.OFF)
    state = Snapshot(of)
    for number, job in enumerate(drawn_jobs(random, 100, 0, 4)):
        state.submit(waiting := Waiting(job, of.partition(job.partition), number))
        free = state.names(state.free_times(waiting.amounts).now & state.nodes_for(waiting))
        if number < 16 and len(free) >= job.nodes:
            state.start(Running(waiting, tuple(free[: job.nodes]), 0, random.randint(1, 480) * MINUTE_NS))
    plan, plain = backfill.Plan(state, SECOND_NS), PlainPlan(state, SECOND_NS)
    found = [(plan.add(each), plain.add(each)) for each in state.pending(SECOND_NS, None)]
    assert len({ours[1] for ours, _ in found if ours is not None}) > 20
    for ours, theirs in found:
        assert ours == theirs
