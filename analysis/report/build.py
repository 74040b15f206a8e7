"""Reports of run directories, for ``natjam report``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow

from analysis.load import cluster_of, read_configuration, read_table
from analysis.report.page import ReportRun, render_report
from analysis.report.payload import RunTables, last_instant_s, make_payload
from analysis.run_paths import RunPath, find_runs, read_summary
from emulator.core.settings import NodeSettings
from emulator.errors import ConfigError
from emulator.experiment.availability import Availability, capacity_of
from emulator.policies.capacity import Capacity
from emulator.records.run_directory import EXPERIMENT_NAME
from emulator.resolved import nodes_of

REPORT_TABLES = ("jobs", "attempts", "operations", "decisions")
DETAILED_RUNS = 12
"""Most runs shown in detail; further runs are only in the overview."""


def report_of(paths: Sequence[Path], baseline: str | None = None) -> str:
    """The report of the runs at ``paths``, as HTML; ``baseline`` is the variant that the others are compared with.

    Raises:
        ConfigError: a path has no finished run, a file of a run is missing or broken, or there is no such variant.
    """
    runs = find_runs(paths)
    several = len({run.run for run in runs}) < len(runs)
    detailed = to_detail(runs)
    return render_report([_report_run(run, several, run.path in detailed) for run in runs], baseline)


def to_detail(runs: Sequence[RunPath]) -> set[Path]:
    """The runs to show in detail: the first of each variant, then the second of each, up to the limit."""
    before: Counter[str] = Counter()
    rounds: list[tuple[int, int]] = []
    for place, run in enumerate(runs):
        rounds.append((before[run.run], place))
        before[run.run] += 1
    return {runs[place].path for _, place in sorted(rounds)[:DETAILED_RUNS]}


def _report_run(run: RunPath, numbered: bool, detailed: bool) -> ReportRun:
    summary, configuration = read_summary(run.path), read_configuration(run.path)
    payload = None
    if detailed:
        cluster = configuration["cluster"]
        read = {name: read_table(run.path, name) for name in REPORT_TABLES}
        tables = run_tables(read, nodes_of(cluster_of(cluster)), available_of(cluster))
        payload = make_payload(tables, tables.timeline())
    try:
        text = (run.path / EXPERIMENT_NAME).read_text()
    except OSError as error:
        raise ConfigError(f"{run.path / EXPERIMENT_NAME}: cannot be read: {error.strerror}") from None
    return ReportRun(f"{run.run} {run.repeat}" if numbered else run.run, run.run, summary, text, payload)


def run_tables(
    tables: Mapping[str, pyarrow.Table], nodes: Sequence[NodeSettings], available: Capacity | None
) -> RunTables:
    """The tables of a finished run, from ``REPORT_TABLES`` by name; ``available``: to jobs; None: everything."""
    jobs, attempts, operations, decisions = (tables[name] for name in REPORT_TABLES)
    end_s = last_instant_s(jobs, attempts)
    return RunTables(jobs, attempts, operations, decisions, nodes, end_s, available)


def available_of(cluster: Mapping[str, Any]) -> Capacity | None:
    """What a transactional workload leaves, from the section ``cluster`` of an experiment; None: everything, or nobody
    can tell any more, because it was in a file that is gone."""
    if cluster.get("availability") is None:
        return None
    containers = cluster_of(cluster).containers
    availability = Availability.model_validate_json(orjson.dumps(cluster["availability"]))  # its lists are tuples
    try:
        return capacity_of(availability, containers)
    except ConfigError:
        return None
