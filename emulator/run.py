"""Running an experiment: its repeats, its engine, its run directory; what ``natjam run`` calls."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from emulator import __version__
from emulator.costs.overheads import load_overheads
from emulator.display.closing_tables import failures
from emulator.display.status import RunStatus
from emulator.engine import Aftermath, Engine, OnStatus
from emulator.errors import RunError
from emulator.experiment.model import Experiment
from emulator.records.history import HistoryBuilder
from emulator.records.journal import JournalHeader, Record
from emulator.records.lag import LagRecorder
from emulator.records.run_directory import RunDirectory
from emulator.records.summary import build_summary, summarise_repeats
from workloads.expand import expand

_VERSIONS_OF = ("natjam", "ray", "numpy", "pandas", "pyarrow")
LAG_BOUND_HEARTBEATS = 0.5
"""A run whose timers are later than this share of a heartbeat (p99) does not say much: it is marked."""


def run_experiment(experiment: Experiment, out_dir: Path, on_status: OnStatus, aftermath: Aftermath) -> dict[str, Any]:
    """Run all repeats of an experiment and write its run directory; returns what ``summary.json`` holds.

    Raises:
        ConfigError: the run directory cannot be had, or the workload cannot be read.
        RunError: a run could not be carried through; of several repeats, also when one of them failed.
    """
    directory = RunDirectory.create(out_dir)
    if experiment.repeats == 1:
        return _run_once(experiment, experiment.seed, directory, on_status, aftermath)
    directory.write_experiment(experiment)
    summaries: list[dict[str, Any]] = []
    failed: list[str] = []
    for number in range(1, experiment.repeats + 1):
        repeat = RunDirectory.create(out_dir / f"repeat-{number}")
        title = f"repeat {number} of {experiment.repeats}"
        seed = experiment.seed + number - 1
        summary = _run_once(experiment, seed, repeat, _titled(on_status, title, number), aftermath)
        failed += [f"{title}: {failure}" for failure in failures(summary)]
        summaries.append(summary)
    together = summarise_repeats(summaries)
    directory.write_summary(together)
    if failed:
        raise RunError("; ".join(failed))
    return together


def _titled(on_status: OnStatus, title: str, repeat: int) -> OnStatus:
    return lambda status: on_status(replace(status, phase=f"{title}: {status.phase}", repeat=repeat))


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """A simulation and its tables make millions of objects and no cycles; to look for some is a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _run_once(
    experiment: Experiment, seed: int, directory: RunDirectory, on_status: OnStatus, aftermath: Aftermath
) -> dict[str, Any]:
    with _without_collector() if experiment.engine == "sim" else contextlib.nullcontext():
        return _run_and_write(experiment, seed, directory, on_status, aftermath)


def _run_and_write(
    experiment: Experiment, seed: int, directory: RunDirectory, on_status: OnStatus, aftermath: Aftermath
) -> dict[str, Any]:
    jobs = expand(experiment, seed)
    once = experiment.model_copy(update={"seed": seed, "repeats": 1})
    sha256 = directory.write_experiment(once)
    header = JournalHeader(experiment.engine, seed, experiment.time_scale, sha256, {"natjam": __version__})
    history = HistoryBuilder(jobs)

    @contextlib.contextmanager
    def open_records() -> Iterator[Callable[[Record], None]]:
        with directory.journal(header) as journal:

            def write(record: Record) -> None:
                journal.write(record)
                history.add(record)

            yield write

    last: list[RunStatus] = []

    def keep(status: RunStatus) -> None:
        last[:] = [status]
        on_status(status)

    result = _engine(experiment.engine)(once, jobs, directory, keep, open_records)
    output = None
    if result.output_path is not None:
        on_status(replace(last[0], phase="verifying the output", journal=()))
        output = aftermath.verify(jobs, seed, result.output_path)
    rows = history.finish()
    left_out = aftermath.why_no_pictures(len(rows.attempts))
    tables = directory.write_tables(rows, keep=left_out is None)
    summary = build_summary(
        rows,
        once,
        seed=seed,
        profile=load_overheads(experiment.overheads, Path.cwd()),
        versions=_versions(),
        machines=result.machines,
        real_s=result.real_s,
        lag=_lag_summary(result.lag or LagRecorder(), once),
        output=output,
        swap_bytes=result.swap_bytes,
    )
    summary |= result.facts
    if left_out is None:
        aftermath.write_pictures(directory.path, tables, once.model_dump(mode="json")["cluster"], summary)
    else:
        summary["left_out"] = left_out
    directory.write_summary(summary)
    return summary


@cache
def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _VERSIONS_OF}


def _engine(name: str) -> Engine:
    """The engine called ``name``; imported here because one need not pay for the other's imports."""
    if name == "sim":
        from emulator.sim.session import run_simulation

        return run_simulation
    from emulator.live.engine import run_live

    return run_live


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
