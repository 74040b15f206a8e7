"""The page of a reproduction: one HTML file that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.papers.drawings import DRAWINGS
from analysis.reproduce.plots import FORMS
from analysis.reproduce.record import Results
from analysis.reproduce.reproduced import FOUND_IN_FULL, Reproduced, Reproduction
from analysis.reproduce.scores import WORST, heads, papers_of, scores, summary_lines, worst
from analysis.reproduce.tables import closing_lines, columns, rows
from analysis.reproduce.values import PaperValues
from emulator.files.whole_files import write_json, written_whole
from emulator.vocabulary import counted

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, th:nth-last-child(-n+2), td:nth-last-child(-n+2) { text-align: left; }
.values td { white-space: nowrap; } .values td:nth-child(2) { white-space: normal; min-width: 9rem; }
.values :is(th, td):nth-child(2), .text :is(th, td) { text-align: left; }
.values :is(th, td):nth-child(7) { text-align: right; } .text td { vertical-align: top; }
.failed { color: #a00; font-weight: 600; } .undecided { color: #750; }
.source { color: #555; } svg { max-width: 100%; height: auto; }
"""
_TEXT_HEADS = ("", "what it shows", "", "how, or why not")
_CAUSE_HEAD = "what a run shows of the cause"


def page(reproduction: Reproduction, results: Results, drawings: dict[str, Figure]) -> str:
    """The page, paper by paper; ``drawings`` by the figures' ids."""
    by_paper: dict[str, list[Reproduced]] = {}
    for figure in reproduction.figures:
        by_paper.setdefault(figure.definition.paper, []).append(figure)
    printed = {paper.figures_of: paper for paper in papers_of([figure.definition for figure in reproduction.figures])}
    body = ""
    for name, figures in by_paper.items():
        body += f'<h2 id="{escape(name)}">{escape(name)}</h2>'
        body += _values(printed[name], results, reproduction.engine) if name in printed else ""
        body += "".join(_section(figure, drawings[figure.definition.id]) for figure in figures)
    closing = "".join(f"<li>{escape(line)}</li>" for line in closing_lines(reproduction))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(", ".join(by_paper))}</title>'
        f"<style>{_STYLE}</style></head><body><h1>Published and {FOUND_IN_FULL[reproduction.engine]}</h1>"
        f"<p>By the {escape(reproduction.engine)} engine: {counted(len(reproduction.campaign.runs), 'run')}.  "
        "Times are emulated seconds, and each figure has its unit beside it; diamonds are the paper's values, whiskers "
        "one standard deviation.</p>"
        f"<ul>{_contents(by_paper)}</ul><ul>{closing}</ul>{body}</body></html>\n"
    )


def _contents(by_paper: Mapping[str, Sequence[Reproduced]]) -> str:
    """A line for each paper, with its figures."""
    return "".join(
        f"<li>{_link(name, name)}: "
        + ", ".join(_link(figure.definition.id, figure.definition.id.partition("/")[2]) for figure in figures)
        + "</li>"
        for name, figures in by_paper.items()
    )


def _link(id: str, text: str) -> str:
    return f'<a href="#{escape(id)}">{escape(text)}</a>'


def _values(paper: PaperValues, results: Results, engine: str) -> str:
    """What the paper prints, beside what was found."""
    found = scores(paper, results, engine)
    lines = "".join(f"<li>{escape(line)}</li>" for line in summary_lines(paper, found))
    run = {made.id for made in results.figures}
    text = [(one.name, one.shows, one.state_in(run, "not run in this call"), one.how()) for one in paper.figures]
    farthest = [(*score.texts[:4], score.why_far) for score in worst(found)]
    return (
        f"<h3>Figures and tables of the text</h3>{_table('text', _TEXT_HEADS, text)}"
        f"<h3>Printed values</h3><ul>{lines}</ul>"
        + (_table("values", heads(engine), [score.texts for score in found]) if found else "")
        + (
            f"<h3>The {WORST} farthest away</h3>{_table('text', (*heads(engine)[:4], _CAUSE_HEAD), farthest)}"
            if farthest
            else ""
        )
    )


def _table(kind: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{_cells("th", heads)}</tr></thead><tbody>{body}</tbody></table>'


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


def _section(figure: Reproduced, drawing: Figure) -> str:
    definition = figure.definition
    return (
        f'<h3 id="{escape(definition.id)}">{escape(definition.id)}: {escape(definition.title)}</h3>'
        f'<p class="source">{escape(definition.source)}. {escape(definition.about)}</p>'
        f"{_svg(drawing)}<table><thead><tr>{_cells('th', columns(figure))}</tr></thead>"
        f"<tbody>{''.join(_lines(figure))}</tbody></table>"
    )


def _lines(figure: Reproduced) -> Iterator[str]:
    for row in rows(figure):
        yield f"<tr{f' class={row.verdict}' if row.verdict else ''}>{_cells('td', row.texts)}</tr>"


def _svg(drawing: Figure) -> str:
    text = io.StringIO()
    drawing.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


CLAIMS_NAME, PAGE_NAME = "claims.json", "index.html"


def plot(figure: Reproduced, reproduction: Reproduction) -> Figure:
    """The figure, by the function of its paper's module, or of the form in the definition's ``plot``."""
    if figure.definition.plot is None:
        return DRAWINGS[figure.definition.id](figure, reproduction)
    return FORMS[figure.definition.plot.form](figure)


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
