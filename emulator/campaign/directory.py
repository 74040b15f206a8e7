"""The directory of a campaign: its plan and the run directories.

``campaign.json`` holds the plan, ``runs/<variant>/seed-<n>/`` the runs, ``campaign.parquet`` a row for each run and
job.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emulator.campaign.plan import PlannedRun
from emulator.errors import ConfigError
from emulator.files.whole_files import held_directory, write_json
from emulator.records.run_directory import RunDirectory

PLAN_NAME, TABLE_NAME, RUNS_NAME = "campaign.json", "campaign.parquet", "runs"
_FORMAT_VERSION = 1


class CampaignDirectory:
    """A campaign's directory, new or of a campaign to continue."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Create the directory if needed, and keep other campaigns out of it.

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
            yield

    def run_path(self, run: PlannedRun) -> Path:
        """The directory of one run."""
        return self.path / RUNS_NAME / run.name

    def summary(self, run: PlannedRun) -> dict[str, Any] | None:
        """The contents of a run's ``summary.json``; None if the run has not finished."""
        return RunDirectory(self.run_path(run)).finished_summary()

    def take_plan(self, name: str, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Store the plan, and return the runs that are still to be made.

        Raises:
            ConfigError: an existing run was made from another experiment.
        """
        known = self._known()
        entries = {
            run.name: {"variant": run.variant, "seed": run.experiment.seed, "sha256": run.sha256} for run in runs
        }
        done = {run.name for run in runs if self.summary(run) is not None}
        for run in runs:
            before = known.get(run.name)
            if run.name in done and (before is None or before["sha256"] != entries[run.name]["sha256"]):
                raise ConfigError(
                    f"{self.run_path(run)}: was made from a different experiment;"
                    f" name another directory, or remove {self.path}"
                )
        plan = {"natjam_campaign": _FORMAT_VERSION, "name": name, "runs": {**known, **entries}}
        write_json(self.path / PLAN_NAME, plan)
        return [run for run in runs if run.name not in done]

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
