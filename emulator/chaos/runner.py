"""Chaos over many seeds on all cores; of each violation it keeps the experiment and the fewest faults."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from emulator.campaign.spread import ProcessWorkers, spread
from emulator.chaos.schedule import Fault, FaultKind
from emulator.chaos.simulated import Cost, Judged, judge, judge_seeds, undisturbed_ns
from emulator.core.messages import JobState
from emulator.display.work_display import WorkStatus
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.json_values import decoded
from emulator.files.whole_files import written_whole
from emulator.records.run_directory import EXPERIMENT_NAME, RunDirectory
from emulator.vocabulary import counted

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
    """Of faults that have met somebody alone."""
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
    directory = RunDirectory.create(path)
    directory.write_experiment(experiment.model_copy(update={"seed": judged.seed, "repeats": 1}))
    saved = SavedFaults(judged.seed, span_ns, judged.faults, judged.violation or "")
    with written_whole(path / FAULTS_NAME) as unfinished:
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
