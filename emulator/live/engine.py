"""The live engine for ``natjam run``: a session and its records."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from emulator.core.job import JobSpec
from emulator.engine import EngineResult, OnStatus, OpenRecords
from emulator.errors import RunError
from emulator.experiment.model import Experiment
from emulator.live.node_images import IMAGES_DIRECTORY
from emulator.live.session import LiveSession
from emulator.records.run_directory import RunDirectory
from emulator.storage.local import PARTIAL_DIRECTORY


def run_live(
    experiment: Experiment,
    jobs: tuple[JobSpec, ...],
    directory: RunDirectory,
    on_status: OnStatus,
    open_records: OpenRecords,
) -> EngineResult:
    """Run ``experiment`` on real processes; see ``emulator.engine.Engine``."""
    started_real_s = time.monotonic()
    storage = experiment.storage.url
    output_dir = Path(storage, directory.path.name) if storage else directory.output_path
    try:
        output_dir.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"{output_dir}: cannot be made ({error.strerror}); storage.url must be writable") from None
    with open_records() as records:
        live = LiveSession(
            experiment, jobs, directory.path, output_dir.absolute(), records, on_status, started_real_s
        ).run()
    _remove_empty(output_dir / PARTIAL_DIRECTORY)
    shutil.rmtree(output_dir / IMAGES_DIRECTORY, ignore_errors=True)
    return EngineResult(
        machines=live.machines,
        real_s=time.monotonic() - started_real_s,
        lag=live.lag,
        output_path=output_dir,
        facts={
            "shuffle_http_bytes": live.shuffle_bytes,
            "startup_real_s": live.startup_real_s,
            **({"web": live.web} if live.web else {}),
        },
    )


def _remove_empty(directory: Path) -> None:
    """Remove a tree of directories, except those that hold files."""
    for path in sorted(directory.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
    with contextlib.suppress(OSError):
        directory.rmdir()
