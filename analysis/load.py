"""Run directories as tidy pandas frames.

    from analysis.load import load
    results = load("runs/fig4", "runs/fig4-kill")
    results.jobs.groupby(["run", "queue"]).completion_s.describe()

Every frame has the columns ``run`` (the directory's name) and ``repeat`` (from 1).  A column's name ends with its unit:
``_s`` emulated seconds, ``_real_s`` and ``_real_ms`` real ones.  A missing figure is NaN or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow

from analysis.frames import DataFrame, pandas
from analysis.run_paths import RunPath, find_runs, read_summary
from analysis.run_schema import check_table
from emulator.errors import ConfigError, printable
from emulator.experiment.jobs_file import include_jobs
from emulator.experiment.model import Cluster, Experiment
from emulator.files.parquet_files import TooLargeError, parquet_file
from emulator.files.problems import validated
from emulator.files.yaml_positions import read_document
from emulator.records.history import SuspendedSpan, columns_of
from emulator.records.measures import RUN_FIGURES, figure_of
from emulator.records.run_directory import EXPERIMENT_NAME
from emulator.vocabulary import Frozen

SPAN_COLUMNS = [column.name for column in columns_of(SuspendedSpan)]
TABLES = ("jobs", "tasks", "attempts", "operations")


class Results(Frozen):
    """The results of some runs."""

    runs: DataFrame
    """One row for each run: name, engine, seed, time_scale, settings (nodes, containers, allocation, job_eviction,
    task_eviction, mechanism, overheads), makespan_s, real_s, useful_s, lost_s, overhead_s, wasted_fraction,
    utilization, peak_bytes, io_fraction, energy_j, swap_bytes, checkpoint_bytes, lag_p99_real_ms, lag_p99_emulated_s,
    verified, path."""
    jobs: DataFrame
    """``jobs.parquet``: one row for each job, whose name is ``job``, as in the other frames."""
    tasks: DataFrame
    """``tasks.parquet``: one row for each map or reduce."""
    attempts: DataFrame
    """``attempts.parquet`` without the spans, but with ``suspended_s``, how long its process was stopped."""
    suspensions: DataFrame
    """One row for each stop of a process: job, attempt, container, stopped_s, resumed_s, asked_s, freed_s,
    resume_ready_s."""
    operations: DataFrame
    """``operations.parquet``: one row for each measured overhead, with its job, queue and attempt."""


def load(*paths: str | Path) -> Results:
    """Load run directories, directories of repeats, or directories that contain some of these.

    Raises:
        ConfigError: a path has no finished run, or a file of a run is missing or broken.
    """
    if not paths:
        raise ConfigError("name at least one run directory")
    return load_runs(find_runs(paths))


def load_runs(runs: Sequence[RunPath]) -> Results:
    """Load the runs at these paths.  Raises ConfigError."""
    frames = {name: _frame(runs, name) for name in TABLES}
    attempts, suspensions = _without_spans(frames["attempts"])
    of_attempt = attempts[["run", "repeat", "container", "job", "queue", "attempt"]]
    return Results(
        runs=pandas.DataFrame([_run_row(run) for run in runs]),
        jobs=frames["jobs"].rename(columns={"name": "job"}),
        tasks=frames["tasks"],
        attempts=attempts,
        suspensions=suspensions,
        operations=frames["operations"].merge(of_attempt, on=["run", "repeat", "container"], how="left"),
    )


def load_decisions(*paths: str | Path) -> DataFrame:
    """Why containers were taken: ``decisions.parquet``, one row for each candidate of a choice, the next victim first.

    ``docs/columns.md`` says what its columns mean.

    Raises:
        ConfigError: as ``load``.
    """
    return _frame(find_runs(paths), "decisions")


def read_table(path: Path, name: str) -> pyarrow.Table:
    """One Parquet file of a run directory.  Raises ConfigError."""
    file = path / f"{name}.parquet"
    try:
        table = parquet_file(file, whole=True).read()
        table.validate(full=True)
    except FileNotFoundError:
        raise ConfigError(
            f"{file}: is missing: the run has failed, kept only its summary ('natjam run' makes it again from its"
            f" {EXPERIMENT_NAME}) or was made by another release"
        ) from None
    except TooLargeError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:  # ValueError: a name that is not UTF-8
        raise ConfigError(f"{file}: cannot be read: {printable(str(error))}") from None
    check_table(file, name, table)
    return table


def rows_of(path: Path, name: str) -> list[dict[str, Any]]:
    """The rows of one Parquet file of a run directory; None where there is no value.  Raises ConfigError."""
    return read_table(path, name).to_pylist()


def read_configuration(path: Path) -> dict[str, Any]:
    """``experiment.yaml`` of a run directory, with all jobs.  Raises ConfigError: it is not a complete experiment."""
    document = read_document(path / EXPERIMENT_NAME)
    include_jobs(document)
    validated(document, Experiment)
    return document.data


def cluster_of(section: Mapping[str, Any]) -> Cluster:
    """The cluster of an experiment, from its section, without its ``availability``."""
    return Cluster.model_validate({**section, "availability": None})


def _frame(runs: Sequence[RunPath], name: str) -> DataFrame:
    frames = []
    for run in runs:
        frame = read_table(run.path, name).to_pandas()
        frame.insert(0, "run", run.run)
        frame.insert(1, "repeat", run.repeat)
        frames.append(frame)
    whole = [frame for frame in frames if len(frame)] or frames[:1]
    return pandas.concat(whole, ignore_index=True)


def _without_spans(attempts: DataFrame) -> tuple[DataFrame, DataFrame]:
    keys = ["run", "repeat", "job", "queue", "attempt", "container"]
    exploded = attempts[[*keys, "suspended_spans"]].explode("suspended_spans").dropna(subset="suspended_spans")
    spans = pandas.DataFrame(exploded.pop("suspended_spans").tolist(), exploded.index, SPAN_COLUMNS, dtype=float)
    suspensions = exploded.join(spans).reset_index(drop=True)
    attempts = attempts.drop(columns=["suspended_spans", "paging_spans"])
    ended_s = attempts["ended_s"].loc[spans.index]
    stopped_s = (spans["resumed_s"].fillna(ended_s) - spans["stopped_s"]).groupby(level=0).sum()
    return attempts.assign(suspended_s=stopped_s.reindex(attempts.index, fill_value=0.0)), suspensions


# ---- one row for each run ----


def mechanism_of(configuration: Mapping[str, Any]) -> Any:
    """The name of the mechanism that an experiment has."""
    mechanism = configuration["scheduler"].get("mechanism")
    return mechanism.get("name") if isinstance(mechanism, Mapping) else mechanism


def _run_row(run: RunPath) -> dict[str, Any]:
    summary, experiment = read_summary(run.path), read_configuration(run.path)
    scheduler = experiment["scheduler"]
    row: dict[str, Any] = {"run": run.run, "repeat": run.repeat}
    row |= {name: summary[name] for name in ("name", "engine", "seed", "time_scale")}
    row |= {name: figure_of(summary, name) for name in RUN_FIGURES if name != "disturbed"}
    row |= {name: scheduler.get(name) for name in ("job_selection", "job_eviction", "task_eviction")}
    row |= {"allocation": scheduler["allocation"].get("name"), "mechanism": mechanism_of(experiment)}
    cluster = cluster_of(experiment["cluster"])
    row |= {"nodes": experiment["cluster"].get("nodes"), "containers": cluster.containers}
    return {**row, "overheads": experiment.get("overheads"), "path": str(run.path)}
