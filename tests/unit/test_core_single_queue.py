"""Natjam-R's single queue (natjam, section 4): who takes containers from whom, how fast, and what an inconsistent job
selection does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from manager_bench import Bench
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings

from emulator.core.job import JobSpec
from emulator.core.messages import Ask, Message
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.history.rows import JobRow
from emulator.resolved import resolve
from emulator.sim.session import simulate
from emulator.vocabulary import REDUCE
from tests.histories import fold


@dataclass
class _Watched(CheckedCluster):
    """Notes who has asked whose containers back, and when."""

    reclaims: dict[int, tuple[str, str]] = field(default_factory=dict)

    def tell(self, address: str, message: Message) -> None:
        super().tell(address, message)
        for entries in self.machine_of_rm().preemptor.reclaims.values():
            for entry in entries:
                self.reclaims.setdefault(entry.since_ns, (entry.requester, entry.victim))


def levels(*submits_s: float) -> tuple[JobSpec, ...]:
    """Jobs j0, j1, ..., each more urgent than the one before it, by priority and by deadline."""
    return tuple(
        make_job(
            f"j{level}",
            submit_s=submit_s,
            maps_s=(1.0,),
            reduces_s=(24.0, 20.0, 16.0, 18.0, 22.0),
            deadline_s=200 + 10 * (len(submits_s) - level),
            priority=level,
        )
        for level, submit_s in enumerate(submits_s)
    )


def run(jobs: tuple[JobSpec, ...], **settings: object) -> tuple[_Watched, dict[str, JobRow]]:
    cluster = _Watched(
        make_settings(nodes=2, containers=4, allocation="single-queue", **settings),  # type: ignore
        {job.name: job for job in jobs},
    )
    cluster.run_to_end(3000)
    cluster.check_end()
    return cluster, {row.name: row for row in fold(cluster.records, jobs).jobs}


@pytest.mark.parametrize("eviction", ["priority", "mdf"])
@pytest.mark.parametrize("mechanism", ["checkpoint", "suspend", "kill"])
def test_any_number_of_levels_each_taking_from_those_below(eviction: str, mechanism: str) -> None:
    cluster, rows = run(levels(0, 6, 9, 12), job_eviction=eviction, mechanism=mechanism)
    taken = set(cluster.reclaims.values())
    assert len(taken) > 2
    assert all(victim < requester for requester, victim in taken)
    assert min(rows.values(), key=lambda row: row.finish_ns or 0).name == "j3"


def test_one_container_a_run_of_the_preemptor() -> None:
    cluster, _ = run(levels(0, 8, 12), job_eviction="mdf")
    instants_ns = sorted(cluster.reclaims)
    assert len(instants_ns) > 4
    assert all(later - sooner >= SECOND_NS for sooner, later in pairwise(instants_ns))


def test_wait_takes_nothing_back() -> None:
    cluster, rows = run(levels(0, 8, 12), job_eviction="mdf", mechanism="wait")
    assert not cluster.reclaims
    assert sum(row.suspensions for row in rows.values()) == 0


def test_mr_takes_from_the_largest_of_those_that_come_after() -> None:
    """Job selection by priority goes with MR: the requester comes first, whoever is taken from."""
    bench = Bench(make_settings(containers=11, allocation="single-queue", job_selection="priority"))
    for name, priority, reduces in (("top", 9, 3), ("small", 0, 1), ("large", 0, 2)):
        bench.submit(name, priority=priority)
        bench.node()
        bench.ask(name, Ask(((REDUCE, reduces),)))
        bench.node()
        bench.ask(name, Ask())
    bench.submit("urgent", priority=5)
    bench.node()
    bench.ask("urgent", Ask(((REDUCE, 4),)))
    bench.node()
    while bench.free:
        bench.node()
    for _ in range(9):
        bench.tick()
    victims = [entry.victim for entry in bench.machine.preemptor.reclaims["urgent"]]
    assert victims[0] == "large"
    assert set(victims) == {"large", "small"}


def test_a_new_urgent_job_goes_before_the_suspended_reduces_of_others() -> None:
    """Under two queues suspended reduces come first (R1); here that would give the container back to the victim."""
    _, rows = run((*levels(0)[:1], make_job("urgent", submit_s=8, reduces_s=(5.0,) * 7, priority=9)))
    _, by_priority = run(
        (*levels(0)[:1], make_job("urgent", submit_s=8, reduces_s=(5.0,) * 7, priority=9)), job_eviction="priority"
    )
    assert (by_priority["urgent"].finish_ns or 0) < (rows["urgent"].finish_ns or 0)
    assert by_priority["j0"].suspensions > 0
    assert rows["j0"].suspensions == 0


def fig10(eviction: str, selection: str = "auto") -> list[JobRow]:
    """Three equal jobs, of which the one submitted last has the earliest deadline (natjam, Fig. 10)."""
    file = Path(__file__).parents[2] / "workloads" / "catalog" / "natjam-fig10.yaml"
    pair = [f"scheduler.job_eviction={eviction}", f"scheduler.job_selection={selection}"]
    experiment = load_experiment(file, [*pair, "scheduler.allow_inconsistent=true", "engine=sim"])
    jobs, records = expand(experiment, 1), []
    simulate(resolve(experiment, jobs), records.extend)
    return list(fold(records, jobs).jobs)


def met(rows: list[JobRow]) -> int:
    return sum(row.margin_ns is not None and row.margin_ns >= 0 for row in rows)


def suspensions(rows: list[JobRow]) -> int:
    return sum(row.suspensions for row in rows)


def makespan_ns(rows: list[JobRow]) -> int:
    return max(row.finish_ns or 0 for row in rows)


def test_mdf_meets_the_deadlines_that_mlf_misses_in_lockstep() -> None:
    mdf, mlf = fig10("mdf"), fig10("mlf")
    assert (met(mdf), met(mlf)) == (3, 0)
    assert makespan_ns(mlf) > 1.15 * makespan_ns(mdf)
    spreads_ns = [max(ends) - min(ends) for ends in ([row.finish_ns or 0 for row in rows] for rows in (mdf, mlf))]
    assert spreads_ns[0] > 2 * spreads_ns[1]
    assert suspensions(mlf) > 5 * suspensions(mdf)


def test_an_inconsistent_job_selection_suspends_and_resumes_the_same_job_over_and_over() -> None:
    """A job that MDF takes a container from is soon given it back by LLF (natjam, section 4)."""
    consistent, thrashing = fig10("mdf"), fig10("mdf", "llf")
    assert suspensions(thrashing) > 5 * suspensions(consistent)
    assert makespan_ns(thrashing) > 1.1 * makespan_ns(consistent)
    assert met(thrashing) < met(consistent)
