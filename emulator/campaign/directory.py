"""The directory of a campaign: its plan and the run directories.

``campaign.json`` holds the plan, ``runs/<variant>/seed-<n>/`` the runs, ``campaign.parquet`` a row for each run and
job, ``digests.jsonl`` what the runs were when they were made, and ``.set-aside`` runs that were something else later.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from emulator.campaign.kept_runs import KeptRuns
from emulator.campaign.plan import PlannedRun
from emulator.errors import ConfigError
from emulator.experiment.inputs import Inputs
from emulator.files.whole_files import held_directory, write_json
from emulator.records.run_directory import RunDirectory

SET_ASIDE_NAME, WHY_NAME = ".set-aside", "why.txt"
PLAN_NAME, TABLE_NAME, RUNS_NAME = "campaign.json", "campaign.parquet", "runs"
_FORMAT_VERSION = 1


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
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / PLAN_NAME).exists() and any(self.path.iterdir()):
                raise ConfigError(f"{self.path}: is neither empty nor a campaign's directory; name another one")
        except FileExistsError:
            raise ConfigError(f"{self.path}: is a file; name a directory") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror}); name another directory") from None
        with held_directory(self.path, "another campaign is running there; name another directory"):
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
        it is moved, and made anew.

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
