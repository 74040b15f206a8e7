"""The report: one HTML file that needs nothing else, for one run or several."""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import orjson
import pyarrow
from markupsafe import Markup

from analysis.load import cluster_of, read_configuration, read_table
from analysis.report import facts
from analysis.report.payload import RunTables, last_instant_s, make_payload
from analysis.report.variants import (
    difference_charts,
    differences_grid,
    differences_of,
    find_variants,
    interval_charts,
    variants_grid,
)
from analysis.run_paths import RunPath, find_runs, read_summary
from emulator.core.settings import NodeSettings
from emulator.display import grids
from emulator.display.basis import basis_lines, basis_of_run
from emulator.errors import ConfigError
from emulator.experiment.availability import Availability, capacity_of
from emulator.policies.capacity import Capacity
from emulator.records.run_directory import EXPERIMENT_NAME
from emulator.resolved import nodes_of
from emulator.vocabulary import Frozen

WEB = Path(__file__).parent / "web"
_SCRIPTS = ("payload.js", "states.js", "timeline_drawing.js", "timeline.js", "charts.js", "describe.js")
_COMPRESSION_LEVEL = 6
MAX_TOGETHER = 6
"""Most runs drawn over one another: the number of kinds of curves."""


class ReportRun(Frozen):
    """One run of a report."""

    label: str
    variant: str
    """The same for runs that differ only by their seed."""
    summary: Mapping[str, Any]
    configuration: str
    """``experiment.yaml`` as text."""
    payload: bytes | None
    """From ``analysis.report.payload``; None if the run is not shown in detail."""


def render_report(runs: Sequence[ReportRun], baseline: str | None = None) -> str:
    """The report's HTML; it opens with the first run.  Variants are compared with ``baseline``, or with the first.

    Raises ConfigError: there is no such variant.
    """
    shown = [run for run in runs if run.payload is not None]
    variants = find_variants([run.variant for run in runs], [run.summary for run in runs])
    if baseline is not None and len(variants) < 2:
        raise ConfigError(f"--baseline {baseline}: needs several variants, each with several seeds")
    differences = differences_of(variants, baseline) if len(variants) > 1 else None
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            runs=runs,
            shown=shown,
            facts=facts,
            results=grids,
            variants=variants_grid(variants) if variants else None,
            differences=differences,
            differences_grid=differences_grid(differences) if differences else None,
            interval_charts=interval_charts(variants) if variants else [],
            difference_charts=difference_charts(differences) if differences else [],
            most_together=MAX_TOGETHER,
            overview=facts.overview([run.label for run in runs], [run.summary for run in runs]),
            style=style(),
            scripts=scripts("report.js"),
            basis_lines=lambda summary: basis_lines(basis_of_run(summary), None),
            packed=_packed,
        )
    )


@cache
def environment() -> jinja2.Environment:
    """The templates of the pages; inserted values are escaped."""
    loader = jinja2.FileSystemLoader(WEB)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def style() -> Markup:
    """The pages' style sheet."""
    return _source("style.css")


def scripts(*names: str) -> list[Markup]:
    """Our own scripts, unchanged: the timeline's, and ``names``."""
    return [_source(name) for name in (*_SCRIPTS, *names)]


@cache
def _source(name: str) -> Markup:
    return Markup((WEB / name).read_text())


def _packed(payload: bytes) -> Markup:
    compressed = gzip.compress(payload, _COMPRESSION_LEVEL, mtime=0)
    return Markup(base64.b64encode(compressed).decode())


# ---- reports of run directories, for ``natjam report`` ----


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
