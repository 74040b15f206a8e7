"""The output of advice: a table, a picture of the trade-off, and ``advise.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from analysis.advise.candidates import NO_POLICIES, WAIT, Question
from analysis.advise.outcomes import Outcome, Outcomes
from analysis.advise.verdict import Ratio, Rival, Verdict, ratio_of, sentences
from analysis.figures import style
from emulator.display.tables import names, new_table, numbers

_AMOUNTS = {"swap_gb": "swap GB", "checkpoint_gb": "saved GB", "storage_gb": "storage GB", "energy_mj": "energy MJ"}


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def advice_table(question: Question, found: Outcomes, verdict: Verdict | None) -> Table:
    """One row for each candidate; the chosen one is marked."""
    has_others, has_deadlines = len(question.queues) > 1, any(row.deadlines for row in found.rows)
    shown = [name for name in _AMOUNTS if any(row.amounts.get(name) for row in found.rows)]
    runs = max((row.runs for row in found.rows), default=0)
    title = f"{question.experiment.name}: production jobs are those of '{question.production}'; {_seeds(runs)} each"
    columns = [*names("", "mechanism"), *names("policies", importance=5)]
    columns += [*numbers("production\np50 s", importance=4), *numbers("production\np95 s")]
    columns += numbers("others'\nslowdown", importance=4) if has_others else []
    columns += numbers("deadlines\nmissed", importance=4) if has_deadlines else []
    columns += [*numbers("work\nlost s"), *numbers("work\nlost %", importance=3)]
    columns += numbers(*(_AMOUNTS[name].replace(" ", "\n") for name in shown), importance=1)
    table = new_table(title, columns, also_in="advise.json")
    last = ""
    for row in found.rows:
        one = row.candidate
        if last and one.mechanism != last:
            table.add_section()
        last = one.mechanism
        is_chosen = verdict is not None and row is verdict.chosen
        cells = [_number(row.production_p50_s), _number(row.production_p95_s)]
        cells += [_number(row.other_slowdown)] if has_others else []
        cells += [f"{row.missed} of {row.deadlines}"] if has_deadlines else []
        cells += [_number(row.lost_s), f"{row.lost_share:.1%}", *(_number(row.amounts.get(name)) for name in shown)]
        if row.failed:
            cells = [f"{row.failed} of {row.runs} runs failed", *[""] * (len(cells) - 1)]
        style_ = "bold green" if is_chosen else "red" if row.failed else ""
        table.add_row(">" if is_chosen else "", one.mechanism, one.policies, *cells, style=style_)
    return table


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def advice_json(question: Question, found: Outcomes, verdict: Verdict | None) -> dict[str, Any]:
    """The contents of ``advise.json``; ratios are of a candidate to the chosen one."""
    return {
        "name": question.experiment.name,
        "production": question.production,
        "queues": list(question.queues),
        "assumed": list(question.assumed),
        "candidates": [_row_json(row) for row in found.rows],
        "chosen": None if verdict is None else verdict.chosen.candidate.name,
        "rivals": [] if verdict is None else [_rival_json(rival) for rival in verdict.rivals],
        "policies": [] if verdict is None else [_rival_json(rival) for rival in verdict.policies],
        "text": [] if verdict is None else [line.strip() for line in sentences(verdict)],
    }


def _row_json(row: Outcome) -> dict[str, Any]:
    found = asdict(row)
    one = found.pop("candidate")
    amounts = found.pop("amounts")
    return {"name": one["name"], "mechanism": one["mechanism"], "policies": one["policies"], **found, **amounts}


def _rival_json(rival: Rival) -> dict[str, Any]:
    return {
        "name": rival.outcome.candidate.name,
        "production": _ratio_json(rival.production),
        "others": _ratio_json(rival.others),
        "reason": rival.reason,
        "sure": rival.is_sure,
    }


def _ratio_json(ratio: Ratio | None) -> Mapping[str, float | None] | None:
    return None if ratio is None else asdict(ratio)


def advice_figure(found: Outcomes, verdict: Verdict) -> Figure:
    """The trade-off: how much longer other jobs take, against how much shorter production jobs take, than with *wait*.

    Each mechanism has a colour and each policy a marker.  Bars are the 95% interval over the seeds.  The chosen one has
    a ring.
    """
    figure, (panel,) = style.new_figure(width=7, height=4.4)
    sound = [row for row in found.rows if not row.failed]
    base = WAIT if any(row.candidate.mechanism == WAIT for row in sound) else sound[0].candidate.name
    mechanisms = list(dict.fromkeys(row.candidate.mechanism for row in sound))
    policies = list(dict.fromkeys(row.candidate.policies for row in sound if row.candidate.policies != NO_POLICIES))
    labelled: set[str] = set()
    for row in sound:
        one = row.candidate
        sides = [ratio_of(found.log_ratios(one.name, base, which)) for which in (True, False)]
        (x, x_bars), (y, y_bars) = map(_point, sides)
        colour = style.LINES[mechanisms.index(one.mechanism) % len(style.LINES)]["color"]
        marker = "*" if one.policies == NO_POLICIES else style.marker(policies.index(one.policies))
        label = None if one.mechanism in labelled else one.mechanism
        labelled.add(one.mechanism)
        panel.errorbar([x], [y], xerr=x_bars, yerr=y_bars, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.4)
        panel.plot([x], [y], marker, color=colour, markersize=7, label=label)
        if row is verdict.chosen:
            panel.plot([x], [y], "o", markersize=17, fillstyle="none", color=style.BLACK)
    for index, name in enumerate(policies):
        panel.plot([], [], style.marker(index), color=style.GREY, label=name)
    panel.plot([], [], "o", markersize=9, fillstyle="none", color=style.BLACK, label="chosen")
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.axvline(0, color=style.GREY, linewidth=0.8)
    x_label, y_label = (f"completion of {which} jobs against {base}, %" for which in ("production", "other"))
    style.finish(panel, x_label, y_label)
    panel.legend(fontsize=style.FONT_POINTS - 1, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _point(ratio: Ratio | None) -> tuple[float, list[list[float]] | None]:
    """A ratio in percent, with the lengths of its error bars."""
    if ratio is None:
        return 0.0, None
    at = 100 * (ratio.mean - 1)
    if ratio.low is None or ratio.high is None:
        return at, None
    return at, [[100 * (ratio.mean - ratio.low)], [100 * (ratio.high - ratio.mean)]]
