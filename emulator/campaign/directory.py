"""The plan of a campaign, variants of experiments that are run once for every seed, and the directory of its runs.

``campaign.json`` holds the plan, ``runs/<variant>/seed-<n>/`` the runs, ``campaign.parquet`` a row for each run and
job, and ``.set-aside`` runs that are not as the campaign has made them.  ``digests.jsonl`` says how it has: the SHA-256
of each summary, and of what its experiment reads (``emulator.experiment.inputs``); a summary has those of its run's
other files.  The table of all runs has a line, too.  A run without a line there is not taken: the campaign was killed
at that moment, or somebody else put the run there.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError
from emulator.experiment.inputs import Inputs
from emulator.experiment.model import Experiment
from emulator.files.whole_files import claimed_directory, write_json, writing
from emulator.records.run_directory import SUMMARY_NAME, RunDirectory, has_sha256
from emulator.vocabulary import Frozen, counted

SET_ASIDE_NAME, WHY_NAME = ".set-aside", "why.txt"
PLAN_NAME, TABLE_NAME, RUNS_NAME = "campaign.json", "campaign.parquet", "runs"
_FORMAT_VERSION = 1


class Variant(Frozen):
    """One experiment of a campaign."""

    name: str
    """Unique in the campaign, and a relative path: its runs are ``runs/<name>/seed-<n>``."""
    experiment: Experiment
    seeds: tuple[int, ...]
    factors: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Its values from the campaign's grid, by key."""


class PlannedRun(Frozen):
    """One run of a campaign."""

    variant: str
    experiment: Experiment
    """With the run's own seed and a single repeat."""
    factors: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The run's directory below ``runs/``."""
        return f"{self.variant}/seed-{self.experiment.seed}"

    @property
    def sha256(self) -> str:
        """Equal for runs of the same experiment with the same seed."""
        return hashlib.sha256(self.experiment.model_dump_json(fallback=msgspec.to_builtins).encode()).hexdigest()


def planned_runs(variants: Sequence[Variant]) -> list[PlannedRun]:
    """All runs, ordered by seed: the first seed of every variant comes before any second seed.

    So a campaign that is stopped early has results for every variant.
    """
    most = max((len(variant.seeds) for variant in variants), default=0)
    return [
        PlannedRun(
            variant.name,
            variant.experiment.model_copy(update={"seed": variant.seeds[place], "repeats": 1}),
            variant.factors,
        )
        for place in range(most)
        for variant in variants
        if place < len(variant.seeds)
    ]


def names_given_twice(variants: Iterable[Variant]) -> list[str]:
    """Names that several variants have."""
    seen: set[str] = set()
    return [variant.name for variant in variants if variant.name in seen or seen.add(variant.name)]


# ---- the directory ----


class CampaignDirectory:
    """A campaign's directory, new or of a campaign to continue."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_aside: dict[str, str] = {}
        """Runs that were found and not taken, and why."""

    @cached_property
    def inputs(self) -> Inputs:
        """The digests of what its experiments read, as it is when the campaign begins or goes on."""
        return Inputs()

    @cached_property
    def kept(self) -> KeptRuns:
        """The digests of its runs."""
        return KeptRuns(self.path)

    @contextlib.contextmanager
    def held(self) -> Iterator[CampaignDirectory]:
        """Create the directory if needed, and keep other campaigns out of it; the value is this object.

        Raises:
            ConfigError: it cannot be written, holds something else, or another process uses it.
        """
        with claimed_directory(self.path, "a campaign", (self.path / PLAN_NAME).exists):
            yield self

    def run_path(self, run: PlannedRun) -> Path:
        """The directory of one run."""
        return self.path / RUNS_NAME / run.name

    def summary(self, run: PlannedRun) -> dict[str, Any] | None:
        """The contents of a run's ``summary.json``; None if the run has not finished."""
        return RunDirectory(self.run_path(run)).finished_summary()

    def take_plan(self, name: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Store the plan, and return the runs that are still to be made.

        A finished run that is not as this campaign has made it, or whose experiment has read other files, is set aside:
        it is moved, and made again.

        Raises:
            ConfigError: an existing run was planned for another experiment, or cannot be moved.
        """
        known = self._known()
        entries = {
            run.name: {"variant": run.variant, "seed": run.experiment.seed, "sha256": run.sha256} for run in runs
        }
        done = set()
        for run in runs:
            if (summary := self.summary(run)) is None:
                continue
            before, entry = known.get(run.name), entries[run.name]
            if before is None or before["sha256"] != entry["sha256"]:
                raise ConfigError(
                    f"{self.run_path(run)}: was made from a different experiment;"
                    f" name another directory, or remove {self.path}"
                )
            why = self.kept.changed(run.name, self.run_path(run), summary, self.inputs.sha256(run.experiment))
            if why is None:
                done.add(run.name)
            else:
                self._set_aside(run, why)
        plan = {"natjam_campaign": _FORMAT_VERSION, "name": name, "runs": {**known, **entries}}
        write_json(self.path / PLAN_NAME, plan)
        return [run for run in runs if run.name not in done]

    def _set_aside(self, run: PlannedRun, why: str) -> None:
        names = (f"{run.name}-{number}" for number in itertools.count(1))
        place = next(path for name in names if not (path := self.path / SET_ASIDE_NAME / name).exists())
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            self.run_path(run).rename(place)
            (place / WHY_NAME).write_text(f"{why}\n")
        except OSError as error:
            raise ConfigError(f"{self.run_path(run)}: {why}; it cannot be set aside ({error.strerror})") from None
        self.set_aside[run.name] = f"{why}; it is now in {place}, and is made anew"

    def refuse_others(self, runs: Sequence[PlannedRun]) -> None:
        """Raises ConfigError: it has finished runs that are not among these, so they are of another campaign."""
        others = self._known().keys() - {run.name for run in runs}
        made = [one for one in others if RunDirectory(self.path / RUNS_NAME / one).finished_summary() is not None]
        if made:
            raise ConfigError(
                f"{self.path}: has {counted(len(made), 'run')} that this campaign does not make, such as"
                f" {min(made)}; name another directory"
            )

    def made(self) -> dict[str, str]:
        """The variant of each run in the plan, by the SHA-256 of its experiment.

        Raises:
            ConfigError: the plan cannot be read.
        """
        known = self._known() if self.path.is_dir() else {}
        return {
            entry["sha256"]: entry["variant"]
            for name, entry in known.items()
            if RunDirectory(self.path / RUNS_NAME / name).finished_summary() is not None
        }

    @property
    def is_one(self) -> bool:
        """Whether a campaign has left anything of its own there."""
        return any((self.path / name).exists() for name in (PLAN_NAME, TABLE_NAME))

    def planned(self) -> list[str]:
        """The names of the runs in the plan.  Raises ConfigError: it is missing or cannot be read."""
        if not (self.path / PLAN_NAME).exists():
            raise ConfigError(f"{self.path / PLAN_NAME}: is missing")
        return list(self._known())

    def _known(self) -> dict[str, Any]:
        path = self.path / PLAN_NAME
        try:
            plan = json.loads(path.read_text())
            if plan["natjam_campaign"] != _FORMAT_VERSION:
                raise ConfigError(f"{path}: is of another version of natjam; name another directory")
            texts = ("variant", "sha256")
            return {name: {**entry, **{of: str(entry[of]) for of in texts}} for name, entry in plan["runs"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ConfigError(f"{path}: cannot be read as a campaign's plan; name another directory") from None


# ---- whether its runs are those that it has made ----

DIGESTS_NAME = "digests.jsonl"


class KeptRuns:
    """The digests of one campaign."""

    def __init__(self, path: Path) -> None:
        """``path``: of the campaign."""
        self._digests = _read(path / DIGESTS_NAME)

    def of(self, name: str) -> str | None:
        """The SHA-256 of a run's summary, or of the table, as it was made; None: it is not known."""
        return self._digests[name][0] if name in self._digests else None

    def changed(self, name: str, directory: Path, summary: Mapping[str, Any], inputs_sha256: str) -> str | None:
        """What of a finished run is not as it was made; None: nothing."""
        if (kept := self._digests.get(name)) is None:
            return f"{DIGESTS_NAME} has no digest of it"
        if (replaced := self.replaced(name, directory)) is not None:
            return replaced
        if inputs_sha256 != kept[1]:
            return "a file that its experiment reads has changed, or was moved: a module, a trace, costs or a program"
        return _changed_file(directory, summary)

    def replaced(self, name: str, directory: Path) -> str | None:
        """What is wrong with the summary of a run; None: nothing, or it is not known how it was made."""
        kept = self._digests.get(name)
        if kept is None or has_sha256(directory / SUMMARY_NAME, kept[0]):
            return None
        return f"{SUMMARY_NAME} was changed or replaced"


def keep_digest(path: Path, name: str, summary_sha256: str, inputs_sha256: str) -> None:
    """Add the line of a run that was made to the file of the campaign at ``path``; in one write, as others add, too.

    Raises:
        RunError: it cannot be written.
    """
    file = path / DIGESTS_NAME
    with writing(file), file.open("a") as opened:
        opened.write(json.dumps([name, summary_sha256, inputs_sha256]) + "\n")


def _read(file: Path) -> Mapping[str, tuple[str, str]]:
    """Digests by run; lines that cannot be read, as the last one of a killed campaign, are left out."""
    found: dict[str, tuple[str, str]] = {}
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            name, summary_sha256, inputs_sha256 = json.loads(line)
            found[str(name)] = str(summary_sha256), str(inputs_sha256)
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def _changed_file(directory: Path, summary: Mapping[str, Any]) -> str | None:
    files = summary.get("files")
    for name, sha256 in files.items() if isinstance(files, dict) else ():
        if not has_sha256(directory / Path(name).name, sha256):
            return f"{name} was changed or is missing"
    return None
