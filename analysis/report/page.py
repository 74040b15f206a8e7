"""The report: one HTML file that needs nothing else, for one run or several."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from analysis.report import facts
from analysis.report.variants import (
    difference_charts,
    differences_grid,
    differences_of,
    find_variants,
    interval_charts,
    variants_grid,
)
from emulator.display import grids
from emulator.display.basis import basis_lines, basis_of_run
from emulator.errors import ConfigError
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
