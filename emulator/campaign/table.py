"""``campaign.parquet``: all results of a campaign in one table, one row for each run and job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from emulator.campaign.directory import TABLE_NAME, CampaignDirectory
from emulator.campaign.kept_runs import keep_digest
from emulator.campaign.plan import PlannedRun
from emulator.display.closing_tables import failures as failures_of
from emulator.files.whole_files import written_whole
from emulator.records.parquet_tables import type_of
from emulator.records.run_directory import sha256_of
from emulator.records.summary import JOB_COLUMNS

_STRING, _COUNT, _SECONDS, _SHARE = pyarrow.string(), pyarrow.int64(), pyarrow.float64(), pyarrow.float64()

_Summary = Mapping[str, Any]
_RUN_COLUMNS: list[tuple[str, pyarrow.DataType, Callable[[PlannedRun, _Summary], Any]]] = [
    ("run", _STRING, lambda run, _: run.name),
    ("variant", _STRING, lambda run, _: run.variant),
    ("seed", _COUNT, lambda run, _: run.experiment.seed),
    ("engine", _STRING, lambda run, _: run.experiment.engine),
    ("time_scale", pyarrow.float64(), lambda run, _: run.experiment.time_scale),
    ("makespan_s", _SECONDS, lambda _, summary: summary.get("makespan_s")),
    ("useful_s", _SECONDS, lambda _, summary: summary.get("work", {}).get("useful_s")),
    ("lost_s", _SECONDS, lambda _, summary: summary.get("work", {}).get("lost_s")),
    ("overhead_s", _SECONDS, lambda _, summary: summary.get("work", {}).get("overhead_s")),
    ("energy_j", pyarrow.float64(), lambda _, summary: summary.get("energy_j")),
    ("wasted_fraction", _SHARE, lambda _, summary: summary.get("work", {}).get("wasted_fraction")),
    ("utilization", _SHARE, lambda _, summary: summary.get("work", {}).get("utilization")),
    ("disturbed", pyarrow.bool_(), lambda _, summary: summary.get("disturbed")),
    ("lag_p99_emulated_s", _SECONDS, lambda _, summary: summary.get("lag", {}).get("p99_emulated_s")),
]
_JOB_COLUMNS = [("job" if column.name == "name" else column.name, column) for column in JOB_COLUMNS]


def write_table(directory: CampaignDirectory, runs: Sequence[PlannedRun], failed: Mapping[str, str]) -> dict[str, str]:
    """Write the table.  Returns, by name, why runs count as failed, including runs made before.

    Columns are those above, one for each key of the grid, and ``failure``.  A run that did not finish has one
    row, without a job.

    Args:
        directory: of the campaign.
        runs: all runs of the campaign.
        failed: by name, why runs failed that were made by this call.

    Raises:
        RunError: the table cannot be written.
    """
    failures = dict(failed)
    factors = list(dict.fromkeys(key for run in runs for key in run.factors))
    kinds = {name: kind for name, kind, _ in _RUN_COLUMNS}
    kinds |= {key: _factor_kind([run.factors.get(key) for run in runs]) for key in factors}
    kinds |= {name: type_of(column) for name, column in _JOB_COLUMNS}
    kinds["failure"] = _STRING
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for run in sorted(runs, key=lambda run: (run.variant, run.experiment.seed)):
        summary = directory.summary(run) or {}
        if summary and run.name not in failures and (found := failures_of(summary)):
            failures[run.name] = "; ".join(found)
        cells = {name: value(run, summary) for name, _, value in _RUN_COLUMNS}
        cells |= {key: _factor(run.factors.get(key), kinds[key]) for key in factors}
        cells["failure"] = failures.get(run.name)
        for job in _jobs(summary):
            for name, value in {**cells, **job}.items():
                columns[name].append(value)
    schema = pyarrow.schema(list(kinds.items()))
    with written_whole(directory.path / TABLE_NAME) as unfinished:
        pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), unfinished)
    keep_digest(directory.path, TABLE_NAME, sha256_of(directory.path / TABLE_NAME), "")
    return failures


def _jobs(summary: _Summary) -> Iterator[dict[str, Any]]:
    for job in summary.get("jobs") or [{}]:
        yield {name: job.get(column.name) for name, column in _JOB_COLUMNS}


def _factor_kind(values: Sequence[Any]) -> pyarrow.DataType:
    """The column type of a grid's key: numbers stay numbers, everything else is text."""
    found = {type(value) for value in values if value is not None}
    if found and found <= {bool}:
        return pyarrow.bool_()
    if found and found <= {int, float}:
        return pyarrow.int64() if found == {int} else pyarrow.float64()
    return _STRING


def _factor(value: Any, kind: pyarrow.DataType) -> Any:
    if value is None or isinstance(value, str) or kind != _STRING:
        return value
    return json.dumps(value)
