"""The workers of a campaign on an existing Ray cluster: one task for each core, on any of its machines.

The machines need natjam, and the files that experiments name at the same paths.  They need no shared file system: a
task sends back the files of its runs.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator.campaign.directory import keep_digest
from emulator.campaign.worker import MadeRun, RunTask, run_batch
from emulator.errors import RunError
from emulator.files.whole_files import replaced_whole, writing
from emulator.live.session.ray_runtime import check_reachable, ray_variables
from emulator.records.run_directory import SUMMARY_NAME

_Files = dict[str, bytes]
"""The files of one run: contents by path relative to its directory."""


class RayWorkers:
    """Implements ``emulator.campaign.spread.Workers``; a context manager."""

    def __init__(self, address: str) -> None:
        """Connect to the cluster.  Raises RunError."""
        check_reachable(address)
        os.environ.update(ray_variables(address))
        import ray

        self._ray = ray
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except Exception as error:
            raise RunError(
                f"cannot reach the cluster at RAY_ADDRESS={address}: {type(error).__name__}: {error}"
            ) from error
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._import_paths = [*(path for path in sys.path if path), os.getcwd()]
        self._run = ray.remote(num_cpus=1)(_run_elsewhere)
        from ray.util.metrics import Gauge

        self._ended = {"succeeded": 0, "failed": 0}
        self._gauge = Gauge("natjam_campaign_runs", description="Runs of a campaign made so far.", tag_keys=("state",))
        """A Prometheus gauge, served by Ray's own endpoint."""
        self._tasks: dict[Any, list[RunTask]] = {}
        """Batches under way, by the reference to their result."""

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def submit(self, batch: Sequence[RunTask]) -> None:
        """See ``Workers``."""
        self._tasks[self._run.remote(list(batch), self._import_paths)] = list(batch)

    def wait(self, timeout_real_s: float) -> list[MadeRun]:
        """See ``Workers``."""
        from ray.exceptions import RayError

        done, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=timeout_real_s)
        outcomes = []
        for reference in done:
            batch = self._tasks.pop(reference)
            try:
                results = self._ray.get(reference)
            except RayError as error:
                raise RunError(f"the Ray cluster has lost a task of the campaign: {error}") from error
            for task, (outcome, files) in zip(batch, results, strict=True):
                _put(files, task.directory)
                if task.campaign is not None and outcome.summary_sha256 is not None:
                    keep_digest(task.campaign, task.name, outcome.summary_sha256, task.inputs_sha256)
                outcomes.append(outcome)
                self._ended["failed" if outcome.failure else "succeeded"] += 1
        for state, count in self._ended.items():
            self._gauge.set(count, {"state": state})
        return outcomes


def _run_elsewhere(batch: list[RunTask], import_paths: list[str]) -> list[tuple[MadeRun, _Files]]:
    """Make some runs in a temporary directory of this machine, and return their outcomes and files."""
    sys.path += [path for path in import_paths if path not in sys.path]
    with tempfile.TemporaryDirectory(prefix="natjam-campaign-") as temporary:
        here = [replace(task, directory=Path(temporary, str(place)), campaign=None) for place, task in enumerate(batch)]
        return [(outcome, _taken(task.directory)) for task, outcome in zip(here, run_batch(here), strict=True)]


def _taken(directory: Path) -> _Files:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def _put(files: _Files, directory: Path) -> None:
    """Write the files, the summary last: if it exists, all files do."""
    with writing(directory):
        for name in sorted(files, key=SUMMARY_NAME.__eq__):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_whole(path) as unfinished:
                unfinished.write_bytes(files[name])
