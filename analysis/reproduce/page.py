"""The page of a reproduction: one HTML file that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from matplotlib.figure import Figure

from analysis.reproduce.record import Results
from analysis.reproduce.reproduced import Reproduced, Reproduction
from analysis.reproduce.scores import HEADS, WORST, papers_of, scores, summary_lines, worst
from analysis.reproduce.tables import closing_lines, columns, rows
from analysis.reproduce.values import PaperValues

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, th:nth-last-child(-n+2), td:nth-last-child(-n+2) { text-align: left; }
.values td { white-space: nowrap; } .values td:nth-child(2) { white-space: normal; min-width: 9rem; }
.values :is(th, td):nth-child(2), .text :is(th, td) { text-align: left; }
.values :is(th, td):nth-child(7) { text-align: right; } .text td { vertical-align: top; }
.no { color: #a00; font-weight: 600; } .source { color: #555; } svg { max-width: 100%; height: auto; }
"""
_TEXT_HEADS = ("", "what it shows", "", "how, or why not")


def page(reproduction: Reproduction, results: Results, drawings: dict[str, Figure]) -> str:
    """The page; ``drawings`` by the figures' ids."""
    titles = ", ".join(figure.definition.id for figure in reproduction.figures)
    papers = papers_of([figure.definition for figure in reproduction.figures])
    body = "".join(_values(paper, results, reproduction.engine) for paper in papers)
    body += "".join(_section(figure, drawings[figure.definition.id]) for figure in reproduction.figures)
    closing = "".join(f"<li>{escape(line)}</li>" for line in closing_lines(reproduction))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(titles)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>Published and measured</h1>"
        f"<p>{escape(titles)}, by the {escape(reproduction.engine)} engine: {len(reproduction.campaign.runs)} runs.  "
        "Times are emulated seconds; diamonds are the paper's values, whiskers one standard deviation.</p>"
        f"<ul>{closing}</ul>{body}</body></html>\n"
    )


def _values(paper: PaperValues, results: Results, engine: str) -> str:
    """What the paper prints, beside what was measured."""
    found = scores(paper, results, engine)
    lines = "".join(f"<li>{escape(line)}</li>" for line in summary_lines(paper, found))
    tables = [("", found), (f"<h3>The {WORST} farthest away</h3>", worst(found))]
    text = [(figure.name, figure.shows, figure.state, figure.how()) for figure in paper.figures]
    return (
        f"<h2>{escape(paper.paper)}: figures and tables of the text</h2>{_table('text', _TEXT_HEADS, text)}"
        f"<h2>{escape(paper.paper)}: printed values</h2><ul>{lines}</ul>"
        + "".join(head + _table("values", HEADS, [score.texts for score in rows]) for head, rows in tables if rows)
    )


def _table(kind: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{_cells("th", heads)}</tr></thead><tbody>{body}</tbody></table>'


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


def _section(figure: Reproduced, drawing: Figure) -> str:
    definition = figure.definition
    return (
        f"<h2>{escape(definition.id)}: {escape(definition.title)}</h2>"
        f'<p class="source">{escape(definition.source)}. {escape(definition.about)}</p>'
        f"{_svg(drawing)}<table><thead><tr>{_cells('th', columns(figure))}</tr></thead>"
        f"<tbody>{''.join(_lines(figure))}</tbody></table>"
    )


def _lines(figure: Reproduced) -> Iterator[str]:
    for row in rows(figure):
        yield f"<tr{' class=no' if row.ok is False else ''}>{_cells('td', row.texts)}</tr>"


def _svg(drawing: Figure) -> str:
    text = io.StringIO()
    drawing.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
