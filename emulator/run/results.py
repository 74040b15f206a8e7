"""Writes what a run leaves beside its journal: tables, pictures, then ``summary.json``; also after a failed run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from emulator.engine import Aftermath, EngineResult
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.warnings import TOO_LARGE, too_large
from emulator.records.gaps import gap_bound_ns, worst_gaps
from emulator.records.history import History, HistoryBuilder, JobRow, OverheadTimes, joined
from emulator.records.journal import JournalError
from emulator.records.lag import LagRecorder
from emulator.records.replay import whole_records
from emulator.records.run_directory import EXPERIMENT_NAME, RunDirectory
from emulator.records.summary import FAILED, FINISHED, build_summary
from emulator.resolved import Resolved, resolve

_VERSIONS_OF = ("natjam", "ray", "numpy", "pandas", "pyarrow")
LAG_BOUND_HEARTBEATS = 0.5
"""A run whose timers are later than this share of a heartbeat (p99) is not reliable: it is marked."""


def write_results(
    directory: RunDirectory,
    run: Resolved,
    history: HistoryBuilder,
    result: EngineResult,
    output: dict[str, Any] | None,
    aftermath: Aftermath,
    state: str = FINISHED,
) -> dict[str, Any]:
    """Write tables, pictures and summary of one run; returns the content of ``summary.json``.

    ``output`` is the result of verifying its output.

    Raises:
        RunError: a file cannot be written.
    """
    left_out = aftermath.why_no_pictures(history.attempts)
    summed: list[History] = []
    needs_attempts = run.settings.availability is not None or run.settings.has_sizes
    times = OverheadTimes()
    noted = _noted(history.parts(), summed, times, needs_attempts)
    tables = directory.write_tables(noted, keep=left_out is None)
    summary = summary_of(run, joined(summed), result, output, state, times)
    if left_out is None:
        aftermath.write_pictures(directory.path, tables, run, summary)
    else:
        summary["left_out"] = left_out
    summary["files"] = directory.digests()
    return directory.write_summary(summary)


def summary_of(
    run: Resolved,
    rows: History,
    result: EngineResult,
    output: dict[str, Any] | None,
    state: str = FINISHED,
    times: OverheadTimes | None = None,
) -> dict[str, Any]:
    """The content of ``summary.json`` for a run; arguments as for ``write_results`` and ``build_summary``."""
    summary = build_summary(
        rows,
        run,
        state=state,
        versions=_versions(),
        machines=result.machines,
        real_s=result.real_s,
        lag=_lag_summary(result, run, rows.jobs),
        output=output,
        times=times,
    )
    left_out = too_large(run.experiment)
    return summary | ({TOO_LARGE: dict(left_out)} if left_out else {}) | result.facts


def _noted(
    parts: Iterable[History], summed: list[History], times: OverheadTimes, with_attempts: bool
) -> Iterator[History]:
    """Pass on the parts of a history; add to ``summed`` and ``times`` what the summary needs of each."""
    for part in parts:
        yield part
        times.add(part.operations)
        sums = (part.checkpoint_bytes, part.swapped_bytes)
        attempts = part.attempts if with_attempts else []
        summed.append(History(part.jobs, [], attempts, [], *sums, images=part.images, groups=part.groups))


def write_failed(
    directory: RunDirectory,
    run: Resolved,
    history: HistoryBuilder,
    reason: str,
    real_s: float | None,
    aftermath: Aftermath,
) -> bool:
    """Write the results of a run that did not finish, because of ``reason``; False: no attempt had started.

    Raises:
        RunError: a file cannot be written.
    """
    if not history.attempts:
        return False
    unmeasured = EngineResult([], real_s, None, None, {"reason": reason, "lag": None})
    write_results(directory, run, history, unmeasured, None, aftermath, FAILED)
    return True


def salvage(path: Path, aftermath: Aftermath) -> None:
    """Make tables, pictures and summary of a run whose driver could not: it was killed, or its disk was full.

    Raises:
        ConfigError: the run is still going on, or left too little to report.
        RunError: a file cannot be written.
    """
    directory = RunDirectory(path)
    with directory.held():
        journal = directory.found_journal()
        if journal is None:
            raise ConfigError(f"{path}: has no journal; name the directory of a run")
        run = resolve(load_experiment(path / EXPERIMENT_NAME))
        try:
            records = whole_records(journal, run)
        except JournalError as error:
            raise ConfigError(error.message) from None
        history = HistoryBuilder(run.jobs, run.own_evictions)
        last_ns = 0
        try:
            for record in records:
                history.add(record)
                last_ns = record.t_ns
        except JournalError:
            pass  # the journal of a killed run may end in the middle of a record
        reason = f"the run did not come to its end; its journal goes up to {last_ns / 1e9:.1f} s"
        if not write_failed(directory, run, history, reason, None, aftermath):
            raise ConfigError(f"{path}: nothing had happened when the run ended: there is nothing to report")


@cache
def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _VERSIONS_OF}


def _lag_summary(result: EngineResult, run: Resolved, jobs: Sequence[JobRow]) -> dict[str, Any]:
    lag = result.lag or LagRecorder()
    p99_emulated_s = lag.p99_real_ns / 1e9 * run.time_scale
    bound_s = LAG_BOUND_HEARTBEATS * run.settings.protocol.heartbeat_ns / 1e9
    return {
        "p50_real_ms": lag.p50_real_ns / 1e6,
        "p99_real_ms": lag.p99_real_ns / 1e6,
        "max_real_ms": lag.max_real_ns / 1e6,
        "p99_emulated_s": p99_emulated_s,
        "bound_emulated_s": bound_s,
        "within_bound": p99_emulated_s <= bound_s,
        "gaps": [
            {"process": gap.process, "emulated_s": gap.length_ns / 1e9, "until_s": gap.ended_ns / 1e9}
            for gap in worst_gaps(result.gaps, jobs)
        ],
        "gap_bound_emulated_s": gap_bound_ns(run.settings.protocol.heartbeat_ns, jobs) / 1e9,
    }
