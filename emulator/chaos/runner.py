"""Runs with faults, simulated and judged: one of them, or many seeds on all cores.

Of each violation the experiment and the fewest faults that still cause it are kept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from emulator.campaign.spread import ProcessWorkers, spread
from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.invariants import may_be_endless, require
from emulator.chaos.schedule import DESTRUCTIVE, Fault, FaultKind, draw_faults
from emulator.core.messages import JobState
from emulator.display.work_display import WorkStatus
from emulator.errors import ConfigError, EndlessPreemptionError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.json_values import decoded
from emulator.files.whole_files import written_whole
from emulator.records.history import History, HistoryBuilder
from emulator.records.journal import Record
from emulator.records.replay import replay
from emulator.records.run_directory import EXPERIMENT_NAME, RunDirectory
from emulator.records.summary import makespan_of
from emulator.resolved import Resolved, make_machine, resolve
from emulator.run import without_collector
from emulator.shrink import shortest
from emulator.sim.session import simulate, simulated_history
from emulator.vocabulary import counted

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
    """The cost of a fault that has met somebody alone; None where there were several, or none, or a job has failed, or
    the run without the fault has no end."""
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


FAULTS_NAME = "faults.json"


class SavedFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``faults.json``; the experiment is beside it."""

    seed: int
    span_ns: int
    """How long the run takes without faults."""
    faults: tuple[Fault, ...]
    violation: str
    """The violation as it was found."""


@dataclass(slots=True)
class Tally:
    """The results of all seeds."""

    seeds: int = 0
    happened: Counter[FaultKind] = field(default_factory=Counter)
    jobs: Counter[JobState] = field(default_factory=Counter)
    costs: dict[FaultKind, list[Cost]] = field(default_factory=dict)
    """The costs of faults that have met somebody alone."""
    endless: int = 0
    """Runs that were given up because tasks were preempted without end."""
    violations: list[Judged] = field(default_factory=list)

    def add(self, judged: Judged) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.happened.update(judged.happened)
        self.jobs.update(judged.jobs or {})
        self.endless += judged.is_endless
        if judged.cost is not None:
            self.costs.setdefault(judged.happened[0], []).append(judged.cost)
        if judged.violation is not None:
            self.violations.append(judged)


def run_chaos(
    experiment: Experiment,
    seeds: Sequence[int],
    kinds: Sequence[FaultKind],
    directory: Path,
    on_status: Callable[[WorkStatus], None],
) -> Tally:
    """Simulate ``experiment`` under faults once for each seed; save each violation below ``directory``.

    Raises ConfigError, RunError: it cannot be simulated, or the workers have died.
    """
    span_ns, tally, began_real_s = undisturbed_ns(experiment), Tally(), time.monotonic()
    with ProcessWorkers(partial(judge_seeds, experiment, span_ns, kinds), preloaded=[judge.__module__]) as workers:
        for found in spread(seeds, workers):
            for judged in found:
                tally.add(judged)
                if judged.violation is not None:
                    save(directory / f"seed-{judged.seed}", experiment, span_ns, judged)
            on_status(_status(tally, len(seeds), time.monotonic() - began_real_s))
    return tally


def _status(tally: Tally, total: int, real_s: float) -> WorkStatus:
    done = tally.seeds / total
    found = f", {counted(len(tally.violations), 'violation')}" if tally.violations else ""
    left_real_s = real_s * (1 - done) / done if tally.seeds else None
    return WorkStatus(f"{counted(total, 'seed')}{found}", done, left_real_s)


def save(path: Path, experiment: Experiment, span_ns: int, judged: Judged) -> None:
    """Save a violation in its own directory, which must be new or empty.  Raises ConfigError, RunError."""
    saved = SavedFaults(judged.seed, span_ns, judged.faults, judged.violation or "")
    with RunDirectory.claimed(path) as directory, written_whole(path / FAULTS_NAME) as unfinished:
        directory.write_experiment(experiment.model_copy(update={"seed": judged.seed, "repeats": 1}))
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")


def replay_faults(path: Path) -> Judged:
    """Run a saved violation again.  Raises ConfigError, RunError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        saved = decoded(raw, msgspec.json.Decoder(SavedFaults).decode, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from None
    experiment = load_experiment(path.parent / EXPERIMENT_NAME)
    return judge(experiment, saved.span_ns, saved.seed, saved.faults)
