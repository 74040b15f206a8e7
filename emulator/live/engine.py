"""The live engine as ``natjam run`` calls it: a session, its output verified."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import psutil

from analysis.verify import verify_output
from emulator.config import Experiment
from emulator.core.job import JobSpec
from emulator.engine import EngineResult, OnStatus, OpenRecords
from emulator.errors import RunError
from emulator.journal import decode_record, merge
from emulator.live.session import LiveSession
from emulator.progress import RunStatus
from emulator.rundir import RunDirectory
from emulator.storage.local import PARTIAL_DIRECTORY

_VERIFIERS = 2
_SMALL_OUTPUT_KEYS = 20_000
"""Below this, one process verifies faster than two have started."""


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
    last: list[RunStatus] = []

    def keep(status: RunStatus) -> None:
        last[:] = [status]
        on_status(status)

    swapped_bytes = psutil.swap_memory().sout
    live = LiveSession(experiment, experiment.seed, jobs, output_dir.absolute(), keep, started_real_s).run()
    swapped_bytes = psutil.swap_memory().sout - swapped_bytes
    on_status(replace(last[0], phase="verifying the output", journal=()))
    _remove_empty(output_dir / PARTIAL_DIRECTORY)
    many = sum(sum(job.reduce_keys) for job in jobs) > _SMALL_OUTPUT_KEYS
    output = verify_output(jobs, experiment.seed, output_dir, _VERIFIERS if many else 1).to_summary()
    with open_records() as write:
        for record in merge(decode_record(line) for line in live.journal):
            write(record)
    return EngineResult(
        machines=live.machines,
        real_s=time.monotonic() - started_real_s,
        lag=live.lag,
        output=output,
        swap_bytes=swapped_bytes,
        facts={"shuffle_http_bytes": live.shuffle_bytes, "startup_real_s": live.startup_real_s},
    )


def _remove_empty(directory: Path) -> None:
    """Remove a directory of directories, as far as nothing is in them."""
    for path in sorted(directory.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
    with contextlib.suppress(OSError):
        directory.rmdir()
