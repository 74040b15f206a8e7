"""Simulates one run with faults and judges it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from emulator.assemble import make_machine, make_settings
from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.invariants import require
from emulator.chaos.schedule import DESTRUCTIVE, Fault, FaultKind, draw_faults
from emulator.chaos.shrink import shortest
from emulator.core.job import JobSpec
from emulator.core.messages import JobState
from emulator.experiment.model import Experiment
from emulator.records.history import fold
from emulator.records.journal import Record
from emulator.records.replay import replay
from emulator.run import without_collector
from emulator.sim.session import simulate
from workloads.expand import expand

_TIMES_AS_LONG = 20
_AND_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of one seed."""

    seed: int
    faults: tuple[Fault, ...]
    """The faults drawn; after a violation, the fewest that still cause one."""
    violation: str | None
    happened: tuple[FaultKind, ...] = ()
    """The kinds of the faults that have affected something; unknown after a violation."""
    jobs: Counter[JobState] | None = None
    """How they have ended."""
    makespan_ns: int = 0
    real_s: float = 0.0


def undisturbed_ns(experiment: Experiment) -> int:
    """How long a run takes without faults.  Raises ConfigError, RunError."""
    cluster = simulate(experiment, expand(experiment, experiment.seed), lambda record: None)
    return cluster.kernel.now_ns


def judge_seeds(experiment: Experiment, span_ns: int, kinds: Sequence[FaultKind], seeds: Sequence[int]) -> list[Judged]:
    """Simulate some seeds, each with its own faults over ``span_ns``; for a violation, find the fewest faults."""
    return [_judge_and_shrink(experiment, span_ns, seed, draw_faults(seed, span_ns, kinds)) for seed in seeds]


def _judge_and_shrink(experiment: Experiment, span_ns: int, seed: int, faults: tuple[Fault, ...]) -> Judged:
    judged = judge(experiment, span_ns, seed, faults)
    if judged.violation is None:
        return judged
    fewest = shortest(faults, lambda some: judge(experiment, span_ns, seed, some).violation is not None)
    return judge(experiment, span_ns, seed, fewest)


def judge(experiment: Experiment, span_ns: int, seed: int, faults: Sequence[Fault]) -> Judged:
    """Simulate ``experiment`` with ``seed`` while ``faults`` happen; whatever is raised is a violation."""
    began_real_s = time.monotonic()
    once = experiment.model_copy(update={"seed": seed, "repeats": 1})
    try:
        with without_collector():
            cluster = _run(once, faults, _TIMES_AS_LONG * span_ns + _AND_NS)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        return Judged(seed, tuple(faults), said, real_s=time.monotonic() - began_real_s)
    jobs = Counter(finished.state for finished in cluster.invariants.finished.values())
    real_s = time.monotonic() - began_real_s
    return Judged(seed, tuple(faults), None, tuple(cluster.happened), jobs, cluster.kernel.now_ns, real_s)


def _run(experiment: Experiment, faults: Sequence[Fault], limit_ns: int) -> FaultyCluster:
    jobs = expand(experiment, experiment.seed)
    records: list[Record] = []
    make_cluster = partial(FaultyCluster, faults=faults, limit_ns=limit_ns)
    cluster = simulate(experiment, jobs, records.append, make_cluster=make_cluster)
    assert isinstance(cluster, FaultyCluster)
    for job, finished in cluster.invariants.finished.items():
        harmless = DESTRUCTIVE.isdisjoint(cluster.happened)
        require(
            finished.state is JobState.SUCCEEDED or not harmless,
            f"{job} has {finished.state.value} and nothing was destroyed: {finished.reason}",
        )
    _check_journal(experiment, jobs, records)
    return cluster


def _check_journal(experiment: Experiment, jobs: tuple[JobSpec, ...], records: list[Record]) -> None:
    """Fresh machines do the same again, and tables can be made of it."""
    settings, by_name = make_settings(experiment, experiment.seed), {job.name: job for job in jobs}
    difference = replay(records, lambda address: make_machine(address, settings, by_name))
    require(difference is None, f"the journal does not replay: {difference}")
    fold(records, jobs)
