"""A run: its repeats, its engine, its run directory, and what it leaves beside its journal.

In: an experiment, and what is made of a run after its engine has ended (``emulator.engine.Aftermath``).
Out: the run directory with tables and pictures, then ``summary.json``; also after a failed run.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from emulator import __version__
from emulator.core.job import JobSpec
from emulator.display.status import RunStatus
from emulator.engine import Aftermath, Engine, EngineResult, OnStatus, Records
from emulator.errors import ConfigError, NatjamError, RunError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.experiment.warnings import TOO_LARGE, too_large
from emulator.records.gaps import gap_bound_ns, worst_gaps
from emulator.records.history import History, HistoryBuilder, JobRow, OverheadTimes, joined
from emulator.records.journal import JournalError, JournalHeader
from emulator.records.lag import LagRecorder
from emulator.records.replay import whole_records
from emulator.records.run_directory import EXPERIMENT_NAME, RunDirectory
from emulator.records.summary import FAILED, FINISHED, build_summary, failures, summarise_repeats
from emulator.resolved import Resolved, resolve

_VERSIONS_OF = ("natjam", "ray", "numpy", "pandas", "pyarrow")
LAG_BOUND_HEARTBEATS = 0.5
"""A run whose timers are later than this share of a heartbeat (p99) is not reliable: it is marked."""


def run_experiment(experiment: Experiment, out_dir: Path, on_status: OnStatus, aftermath: Aftermath) -> dict[str, Any]:
    """Run all repeats of an experiment and write its run directory; returns the content of ``summary.json``.

    Raises:
        ConfigError: the run directory cannot be used, or the workload cannot be read.
        RunError: a run did not finish, or one of several repeats failed.
    """
    with RunDirectory.claimed(out_dir, experiment.name) as directory:
        if experiment.repeats == 1:
            return _run_once(experiment, experiment.seed, directory, on_status, aftermath)
        directory.write_experiment(experiment)
        summaries: list[dict[str, Any]] = []
        failed: list[str] = []
        for number in range(1, experiment.repeats + 1):
            title = f"repeat {number} of {experiment.repeats}"
            seed = experiment.seed + number - 1
            with RunDirectory.claimed(out_dir / f"repeat-{number}") as repeat:
                summary = _run_once(experiment, seed, repeat, _titled(on_status, title, number), aftermath)
            failed += [f"{title}: {failure}" for failure in failures(summary)]
            summaries.append(summary)
        together = directory.write_summary(summarise_repeats(summaries))
    if failed:
        raise RunError("; ".join(failed))
    return together


def _titled(on_status: OnStatus, title: str, repeat: int) -> OnStatus:
    return lambda status: on_status(replace(status, phase=f"{title}: {status.phase}", repeat=repeat))


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Switch off the garbage collector: a simulation makes millions of objects and no cycles, so searching for cycles
    would cost a third of the time for nothing."""
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
    quick = without_collector() if experiment.engine == "sim" else contextlib.nullcontext()
    with quick:
        return _run_and_write(experiment, seed, directory, on_status, aftermath)


def _run_and_write(
    experiment: Experiment, seed: int, directory: RunDirectory, on_status: OnStatus, aftermath: Aftermath
) -> dict[str, Any]:
    jobs = expand(experiment, seed)
    run = resolve(_as_it_can_be(experiment.model_copy(update={"seed": seed, "repeats": 1}), jobs), jobs)
    sha256 = directory.write_experiment(run.experiment)
    history = HistoryBuilder(jobs, run.own_evictions, bounded=not run.detects_endless_preemption)

    @contextlib.contextmanager
    def open_records() -> Iterator[Records]:
        if experiment.journal == "off":
            yield Records(history.follow)
            return
        header = JournalHeader(
            run.experiment.engine, seed, run.experiment.time_scale, sha256, {"natjam": __version__}, experiment.journal
        )
        with directory.journal(header) as journal:
            yield Records(history.follow, journal)

    last: list[RunStatus] = []

    def keep(status: RunStatus) -> None:
        last[:] = [status]
        on_status(status)

    began_real_s = time.monotonic()
    try:
        result = _engine(run.experiment.engine)(run, directory, keep, open_records)
    except BaseException as error:
        has_failed = isinstance(error, NatjamError)
        if not history.attempts and not (has_failed and history.submitted):
            directory.clear()  # nothing had happened
        elif has_failed and history.attempts:
            with contextlib.suppress(NatjamError):  # report the first error, not this one
                write_failed(directory, run, history, error.message, time.monotonic() - began_real_s, aftermath)
        raise
    with contextlib.ExitStack() as ending:
        ending.callback(result.end)
        output = None
        if result.output is not None:
            on_status(replace(last[0], phase="verifying the output", journal=()))
            output = aftermath.verify(jobs, seed, result.output, history.program_digests, history.cancelled)
        return write_results(directory, run, history, result, output, aftermath)


def _as_it_can_be(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> Experiment:
    if experiment.engine != "live":
        return experiment
    from emulator.live.memory.fitting import fitted_to_machine

    return fitted_to_machine(experiment, jobs)


def _engine(name: str) -> Engine:
    """The engine called ``name``; imported here so that a run pays only for the imports of its own engine."""
    if name == "sim":
        from emulator.sim.session import run_simulation

        return run_simulation
    if name == "fluid":
        from emulator.fluid.session import run_fluid

        return run_fluid
    from emulator.live.session.session import run_live

    return run_live


def run_briefly(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Simulate ``experiment`` and write its summary; half of the time of a short run is for its other files.

    Of shares over time (engine ``fluid``) only ``summary.json`` is written; of other simulations also
    ``experiment.yaml``, from which ``natjam run`` makes the same run with all files.

    Raises:
        ConfigError: the directory cannot be used, or the workload cannot be read.
        RunError: the run did not finish; nothing is written then.
    """
    if experiment.engine == "fluid":
        summary = _shares_over_time(experiment)
        with RunDirectory.claimed(out_dir) as directory:
            return directory.write_summary(summary)
    with without_collector():
        summary = _simulated(experiment, out_dir, on_status)
    left_out = f"only the summary was kept; 'natjam run {out_dir / EXPERIMENT_NAME}' makes the run with all its files"
    with RunDirectory.claimed(out_dir) as directory:
        directory.write_experiment(experiment)
        return directory.write_summary(summary | {"left_out": left_out, "files": directory.digests()})


def _simulated(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    from emulator.sim.session import run_simulation  # here, so that each engine pays only for its own imports

    run = resolve(experiment)
    history = HistoryBuilder(run.jobs, run.own_evictions, bounded=not run.detects_endless_preemption)

    records = contextlib.nullcontext(Records(history.follow))
    result = run_simulation(run, RunDirectory(out_dir), on_status, lambda: records)
    return summary_of(run, history.finish(), result, None)


def _shares_over_time(experiment: Experiment) -> dict[str, Any]:
    """The summary of a fluid run, with what every job held over time; for runs with many jobs neither that nor the
    jobs."""
    from emulator.fluid.session import MAX_PENALISED, simulated

    run = resolve(experiment)
    jobs = run.jobs
    history = HistoryBuilder(list(map(_without_tasks, jobs)))  # nothing happens to tasks here
    result, outcome = simulated(run, history.follow)
    summary = summary_of(run, history.finish(), result, None)
    if len(jobs) > MAX_PENALISED:
        return summary | {"jobs": [], "left_out": f"{len(jobs)} jobs"}
    summary["shares"] = [
        {
            "start_s": step.start_ns / 1e9,
            "end_s": step.end_ns / 1e9,
            "available": step.containers,
            "containers": dict(step.shares),
        }
        for step in outcome.steps
    ]
    return summary


def _without_tasks(job: JobSpec) -> JobSpec:
    facts = replace(job.facts, groups=())
    return replace(job, facts=facts, map_ns=(), reduce_ns=(), reduce_keys=())


# ---- what a run leaves ----


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
    from emulator.records.parquet_tables import write_tables  # here, because of what it imports

    tables = write_tables(directory.path, noted, keep=left_out is None)
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
    left_out, basis = too_large(run.experiment), run.experiment.basis
    facts = {TOO_LARGE: dict(left_out)} if left_out else {}
    facts |= {"basis": msgspec.to_builtins(basis)} if basis else {}
    return summary | facts | result.facts


def _noted(
    parts: Iterable[History], summed: list[History], times: OverheadTimes, with_attempts: bool
) -> Iterator[History]:
    """Pass on the parts of a history; add to ``summed`` and ``times`` what the summary needs of each."""
    for part in parts:
        yield part
        times.add(part.operations)
        sums = (part.checkpoint_bytes, part.swapped_bytes)
        attempts = part.attempts if with_attempts else []
        summed.append(
            History(part.jobs, [], attempts, [], *sums, images=part.images, groups=part.groups, waits=part.waits)
        )


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
    p99_emulated_s = lag.p99_real_ns / 1e9 * run.experiment.time_scale
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
