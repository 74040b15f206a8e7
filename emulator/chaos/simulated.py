"""Simulates one run with faults and judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.invariants import may_be_endless, require
from emulator.chaos.schedule import DESTRUCTIVE, Fault, FaultKind, draw_faults
from emulator.core.messages import JobState
from emulator.errors import EndlessPreemptionError
from emulator.experiment.model import Experiment
from emulator.records.history import History, HistoryBuilder
from emulator.records.journal import Record
from emulator.records.replay import replay
from emulator.records.summary import makespan_of
from emulator.resolved import Resolved, make_machine, resolve
from emulator.run.run import without_collector
from emulator.shrink import shortest
from emulator.sim.session import simulate, simulated_history

_TIMES_AS_LONG = 20
_AND_NS = 3_600_000_000_000


class Cost(NamedTuple):
    """What a run with a fault has more than the same run without."""

    added_ns: int
    """From the first submission to the last end."""
    lost_ns: int
    """Work that was for nothing."""


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
    """How the jobs have ended."""
    cost: Cost | None = None
    """Of a fault that has met somebody alone; None where there were several, or none, or a job has failed, or the run
    without the fault has no end."""
    is_endless: bool = False
    """Whether the run was given up because tasks were preempted without end."""


def undisturbed_ns(experiment: Experiment) -> int:
    """How long a run takes without faults.  Raises ConfigError, RunError."""
    run = resolve(experiment)
    return simulate(run, HistoryBuilder(run.jobs).follow).kernel.now_ns


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
    """Simulate ``experiment`` with ``seed`` and ``faults``; any exception is a violation, unless tasks are
    preempted without end where that may happen (``may_be_endless``)."""
    run = resolve(experiment.model_copy(update={"seed": seed, "repeats": 1}))
    try:
        with without_collector():
            cluster, history = _run(run, faults, _TIMES_AS_LONG * span_ns + _AND_NS)
    except Exception as error:
        if isinstance(error, EndlessPreemptionError) and may_be_endless(run.settings):
            return Judged(seed, tuple(faults), None, is_endless=True)
        return Judged(seed, tuple(faults), f"{type(error).__name__}: {error}")
    jobs = Counter(finished.state for finished in cluster.invariants.finished.values())
    is_alone = len(cluster.happened) == 1 and not jobs[JobState.FAILED]
    cost = _cost(run, history) if is_alone else None
    return Judged(seed, tuple(faults), None, tuple(cluster.happened), jobs, cost)


def _cost(run: Resolved, history: History) -> Cost | None:
    try:
        with without_collector():
            undisturbed = simulated_history(run)
    except EndlessPreemptionError:
        return None
    (with_ns, lost_ns), (without_ns, lost_anyway_ns) = map(_totals, (history, undisturbed))
    return Cost(with_ns - without_ns, lost_ns - lost_anyway_ns)


def _totals(history: History) -> tuple[int, int]:
    return makespan_of(history.jobs) or 0, sum(job.lost_work_ns for job in history.jobs)


def _run(run: Resolved, faults: Sequence[Fault], limit_ns: int) -> tuple[FaultyCluster, History]:
    records: list[Record] = []
    history = HistoryBuilder(run.jobs)

    def take(news: Sequence[Record]) -> None:
        records.extend(news)
        history.follow(news)

    cluster = simulate(run, take, make_cluster=partial(FaultyCluster, faults=faults, limit_ns=limit_ns))
    assert isinstance(cluster, FaultyCluster)
    for job, finished in cluster.invariants.finished.items():
        harmless = DESTRUCTIVE.isdisjoint(cluster.happened)
        require(
            finished.state is JobState.SUCCEEDED or not harmless,
            f"{job} has {finished.state.value} and nothing was destroyed: {finished.reason}",
        )
    by_name = run.jobs_by_name
    difference = replay(records, lambda address: make_machine(address, run.settings, by_name))
    require(difference is None, f"the journal does not replay: {difference}")
    return cluster, history.finish()
