"""The results of a reproduction: figures, claims and a page, beside the campaign's runs."""

from __future__ import annotations

from pathlib import Path

from analysis.figures import style
from analysis.reproduce.page import page
from analysis.reproduce.plots import plot
from analysis.reproduce.record import Results
from analysis.reproduce.reproduced import Reproduction
from emulator.files.whole_files import write_json, written_whole

CLAIMS_NAME, PAGE_NAME = "claims.json", "index.html"


def write_results(reproduction: Reproduction, results: Results, path: Path) -> None:
    """Write ``claims.json``, PNG and SVG of every figure, and the page.  Raises RunError if they cannot be written."""
    drawings = {}
    for figure in reproduction.figures:
        drawings[figure.definition.id] = drawing = plot(figure, reproduction)
        for suffix in (".png", ".svg"):
            name = figure.definition.id.replace("/", "-") + suffix
            with written_whole(path / name) as unfinished:
                drawn = unfinished.with_suffix(f".unfinished{suffix}")
                style.save(drawing, [drawn])
                drawn.replace(unfinished)
    write_json(path / CLAIMS_NAME, results.model_dump())
    with written_whole(path / PAGE_NAME) as unfinished:
        unfinished.write_text(page(reproduction, results, drawings))
