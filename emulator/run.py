"""Running an experiment: its repeats, its engine, its run directory; what ``natjam run`` calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from analysis.verify import verify_output
from emulator.config import Experiment
from emulator.core.job import JobSpec
from emulator.errors import RunError
from emulator.history import HistoryBuilder
from emulator.journal import JournalHeader, Record, decode_record, merge
from emulator.live.clock import LagRecorder
from emulator.live.session import LiveSession
from emulator.overheads import load_overheads
from emulator.progress import RunStatus, failures
from emulator.rundir import RunDirectory, experiment_sha256
from emulator.storage.local import PARTIAL_DIRECTORY
from emulator.summary import build_summary, summarise_repeats
from workloads.expand import expand

OnStatus = Callable[[RunStatus], None]

_VERSIONS_OF = ("natjam", "ray", "numpy", "pandas", "pyarrow")
_VERIFIERS = 2
_SMALL_OUTPUT_KEYS = 20_000
"""Below this, one process verifies faster than two have started."""
LAG_BOUND_HEARTBEATS = 0.5
"""A run whose timers are later than this share of a heartbeat (p99) does not say much: it is marked."""


def run_experiment(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Run all repeats of an experiment and write its run directory; returns what ``summary.json`` holds.

    Raises:
        ConfigError: the run directory cannot be had, or the workload cannot be read.
        RunError: a run could not be carried through; of several repeats, also when one of them failed.
    """
    directory = RunDirectory.create(out_dir)
    if experiment.repeats == 1:
        return _run_once(experiment, experiment.seed, directory, on_status)
    directory.write_experiment(experiment)
    summaries: list[dict[str, Any]] = []
    failed: list[str] = []
    for number in range(1, experiment.repeats + 1):
        repeat = RunDirectory.create(out_dir / f"repeat-{number}")
        title = f"repeat {number} of {experiment.repeats}"
        seed = experiment.seed + number - 1
        summary = _run_once(experiment, seed, repeat, _titled(on_status, title))
        failed += [f"{title}: {failure}" for failure in failures(summary)]
        summaries.append(summary)
    together = summarise_repeats(summaries)
    directory.write_summary(together)
    if failed:
        raise RunError("; ".join(failed))
    return together


def _titled(on_status: OnStatus, title: str) -> OnStatus:
    return lambda status: on_status(replace(status, phase=f"{title}: {status.phase}"))


def _run_once(experiment: Experiment, seed: int, directory: RunDirectory, on_status: OnStatus) -> dict[str, Any]:
    jobs = expand(experiment, seed)
    once = experiment.model_copy(update={"seed": seed, "repeats": 1})
    directory.write_experiment(once)
    result = _ENGINES[experiment.engine](once, jobs, directory, on_status)
    versions = _versions()
    header = JournalHeader(experiment.engine, seed, experiment.time_scale, experiment_sha256(once), versions)
    history = HistoryBuilder(jobs)
    with directory.journal(header) as journal:
        for record in result.records:
            journal.write(record)
            history.add(record)
    tables = history.tables()
    directory.write_tables(tables)
    summary = build_summary(
        tables,
        once,
        seed=seed,
        profile=load_overheads(experiment.overheads, Path.cwd()),
        versions=versions,
        machines=result.machines,
        real_s=result.real_s,
        lag=_lag_summary(result.lag, once),
        output=result.output,
        swap_bytes=result.swap_bytes,
    )
    summary |= result.facts
    directory.write_summary(summary)
    return summary


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine gives back."""

    records: list[Record]
    """In the order of time."""
    machines: list[dict[str, Any]]
    real_s: float
    lag: LagRecorder
    output: dict[str, Any] | None
    swap_bytes: int
    facts: dict[str, Any]
    """More for the summary."""


def _run_live(
    experiment: Experiment, jobs: tuple[JobSpec, ...], directory: RunDirectory, on_status: OnStatus
) -> EngineResult:
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
    on_status(replace(last[0], phase="verifying the output"))
    _remove_empty(output_dir / PARTIAL_DIRECTORY)
    many = sum(sum(job.reduce_keys) for job in jobs) > _SMALL_OUTPUT_KEYS
    output = verify_output(jobs, experiment.seed, output_dir, _VERIFIERS if many else 1).to_summary()
    return EngineResult(
        records=merge(decode_record(line) for line in live.journal),
        machines=live.machines,
        real_s=time.monotonic() - started_real_s,
        lag=live.lag,
        output=output,
        swap_bytes=swapped_bytes,
        facts={"shuffle_http_bytes": live.shuffle_bytes, "startup_real_s": live.startup_real_s},
    )


_ENGINES: dict[str, Callable[..., EngineResult]] = {"live": _run_live}


def _remove_empty(directory: Path) -> None:
    """Remove a directory of directories, as far as nothing is in them."""
    for path in sorted(directory.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
    with contextlib.suppress(OSError):
        directory.rmdir()


def _lag_summary(lag: LagRecorder, experiment: Experiment) -> dict[str, Any]:
    p99_emulated_s = lag.p99_real_ns / 1e9 * experiment.time_scale
    bound_s = LAG_BOUND_HEARTBEATS * experiment.heartbeat_s
    return {
        "p50_real_ms": lag.p50_real_ns / 1e6,
        "p99_real_ms": lag.p99_real_ns / 1e6,
        "max_real_ms": lag.max_real_ns / 1e6,
        "p99_emulated_s": p99_emulated_s,
        "bound_emulated_s": bound_s,
        "within_bound": p99_emulated_s <= bound_s,
    }


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _VERSIONS_OF}
