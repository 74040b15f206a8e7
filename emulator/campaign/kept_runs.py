"""Whether the runs that lie in a campaign's directory are those that it has made.

``digests.jsonl`` has the SHA-256 of each summary as it was made; a summary has those of its run's other files.  A run
whose digest was not written any more, because the campaign was killed, must fit its plan instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.campaign.plan import PlannedRun
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.records.run_directory import EXPERIMENT_NAME, SUMMARY_NAME, sha256_of

DIGESTS_NAME = "digests.jsonl"
_PLANNED = ("name", "engine", "time_scale", "seed")


class KeptRuns:
    """The digests of one campaign."""

    def __init__(self, path: Path) -> None:
        """``path``: of the campaign."""
        self._file = path / DIGESTS_NAME
        self._digests = dict(_read(self._file))

    def record(self, name: str, summary_sha256: str | None) -> None:
        """Keep the digest of a run that was made; None: it left no summary.  Raises RunError."""
        if summary_sha256 is None:
            return
        self._digests[name] = summary_sha256
        try:
            with self._file.open("a") as file:
                file.write(json.dumps([name, summary_sha256]) + "\n")
        except OSError as error:
            raise RunError(f"{self._file}: cannot be written: {error.strerror}") from None

    def problem(self, run: PlannedRun, directory: Path, summary: Mapping[str, Any]) -> str | None:
        """Why a finished run is not the one that was planned, or not as it was made; None: it is."""
        found = None if run.name in self._digests else _unlike_its_plan(run, directory, summary)
        return found or self.changed(run.name, directory, summary)

    def changed(self, name: str, directory: Path, summary: Mapping[str, Any]) -> str | None:
        """What of a finished run is not as it was made; None: nothing that is known."""
        kept = self._digests.get(name)
        if kept is not None and sha256_of(directory / SUMMARY_NAME) != kept:
            return f"{SUMMARY_NAME} was changed or replaced"
        return _changed_file(directory, summary)


def _read(file: Path) -> Mapping[str, str]:
    """Digests by run; lines that cannot be read, as the last one of a killed campaign, are left out."""
    found: dict[str, str] = {}
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            name, sha256 = json.loads(line)
            found[str(name)] = str(sha256)
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def _unlike_its_plan(run: PlannedRun, directory: Path, summary: Mapping[str, Any]) -> str | None:
    planned = run.experiment.model_dump()
    for name in _PLANNED:
        if summary.get(name) != planned[name]:
            return f"its {name} is {summary.get(name)!r:.80}, and {planned[name]!r:.80} is planned"
    if not (directory / EXPERIMENT_NAME).exists():
        return None  # of some runs only the summary is kept
    try:
        made = load_experiment(directory / EXPERIMENT_NAME).model_dump()
    except ConfigError as error:
        return f"its experiment cannot be read: {error.message.splitlines()[0]}"
    # A live run may have fitted the memory of the cluster to its machine.
    other = next((name for name in planned if name != "cluster" and made[name] != planned[name]), None)
    return None if other is None else f"its {other} is not as planned"


def _changed_file(directory: Path, summary: Mapping[str, Any]) -> str | None:
    files = summary.get("files")
    for name, sha256 in files.items() if isinstance(files, dict) else ():
        file = directory / Path(name).name
        if not file.is_file() or sha256_of(file) != sha256:
            return f"{name} was changed or is missing"
    return None
