"""The page of a reproduction: one HTML file that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape

from matplotlib.figure import Figure

from analysis.reproduce.run import Reproduced, Reproduction
from analysis.reproduce.tables import closing_lines, columns, rows

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, th:nth-last-child(-n+2), td:nth-last-child(-n+2) { text-align: left; }
.no { color: #a00; font-weight: 600; } .source { color: #555; } svg { max-width: 100%; height: auto; }
"""


def page(reproduction: Reproduction, drawings: dict[str, Figure]) -> str:
    """The page; ``drawings`` by the figures' ids."""
    titles = ", ".join(figure.definition.id for figure in reproduction.figures)
    body = "".join(_section(figure, drawings[figure.definition.id]) for figure in reproduction.figures)
    closing = "".join(f"<li>{escape(line)}</li>" for line in closing_lines(reproduction))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(titles)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>Published and measured</h1>"
        f"<p>{escape(titles)}, by the {escape(reproduction.engine)} engine: {len(reproduction.campaign.runs)} runs.  "
        "Times are emulated seconds; diamonds are the paper's values, whiskers one standard deviation.</p>"
        f"<ul>{closing}</ul>{body}</body></html>\n"
    )


def _section(figure: Reproduced, drawing: Figure) -> str:
    definition = figure.definition
    head = "".join(f"<th>{column}</th>" for column in columns(figure))
    return (
        f"<h2>{escape(definition.id)}: {escape(definition.title)}</h2>"
        f'<p class="source">{escape(definition.source)}. {escape(definition.about)}</p>'
        f"{_svg(drawing)}<table><thead><tr>{head}</tr></thead><tbody>{''.join(_lines(figure))}</tbody></table>"
    )


def _lines(figure: Reproduced) -> Iterator[str]:
    for row in rows(figure):
        cells = "".join(f"<td>{escape(text)}</td>" for text in row.texts)
        yield f"<tr{' class=no' if row.ok is False else ''}>{cells}</tr>"


def _svg(drawing: Figure) -> str:
    text = io.StringIO()
    drawing.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
