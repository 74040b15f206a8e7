"""Writes what the pages say of reproductions, from ``docs/claims``: python docs/reproductions.py [CLAIMS_JSON ...]

Given the ``claims.json`` of runs of ``natjam reproduce``, it first takes their figures into
``docs/claims/<paper>.json``, which keeps for each figure the newest run by each engine, with the command, date, version
and seeds that made it.

It writes whole pages, ``docs/values-<paper>.md`` and ``docs/choices.md``, and the parts of other pages that stand
between ``<!-- made: NAME -->`` and ``<!-- end -->``.  A test compares all of them with what this file makes.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from choices import Moved, moves_of, read_choices

from analysis.reproduce.claims import ClaimFile, all_claims, claim_files
from analysis.reproduce.definitions import FigureDefinition, all_figures
from analysis.reproduce.record import CellResult, ClaimResult, Results, judged_again, read_results
from analysis.reproduce.scores import WORST, Score, heads, scores, summary_lines, worst
from analysis.reproduce.tables import accepted, counts, interval, number, reason
from analysis.reproduce.values import (
    Constant,
    PaperValues,
    all_values,
    cells_of_part,
    fitted_claims,
    source_of,
)
from analysis.reproduce.verdict import TIE_OF_SINGLE_RUNS, WORDS, finding

DOCS = Path(__file__).parent
CLAIMS = DOCS / "claims"
MARKED = re.compile(r"(<!-- made: (\S+)(?: (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)
NOTE = "This page is made by `python docs/reproductions.py` from `docs/claims` and `analysis/values`.\n"
ENGINES = {"sim": "simulated", "live": "live"}
_MOST_PARTS = 4


class Paper(NamedTuple):
    """A paper: its name in tables, its page, and what it is about."""

    title: str
    page: str
    about: str


PAPERS = {
    "natjam": Paper("Natjam", "natjam", "urgent jobs take containers back, and evicted tasks save a counter"),
    "os-assisted-preemption": Paper(
        "OS-assisted preemption", "os-assisted", "tasks are stopped by a signal and swapped"
    ),
    "adaptive-checkpointing": Paper(
        "Adaptive checkpointing", "adaptive-checkpointing", "each victim is killed or saved, whichever costs less"
    ),
    "flex": Paper("FLEX", "flex", "shares are chosen for the least mean response time"),
    "reverse-adaptive": Paper(
        "Reverse-Adaptive", "reverse-adaptive", "jobs with deadlines are planned from the last one back"
    ),
    "yarn": Paper("A real YARN", "yarn", "recorded runs of Hadoop 3.4.1 that preempt"),
    "slurm": Paper("A real Slurm", "slurm", "recorded runs of Slurm 22.05 that preempt"),
}


def results_of(paper: str) -> Results:
    """What is kept of a paper; nothing where no run was taken."""
    path = CLAIMS / f"{paper}.json"
    return read_results(path) if path.exists() else Results(figures=())


def values_of(paper: str) -> PaperValues:
    """What a paper prints; nothing where it is not listed yet."""
    return all_values().get(paper) or PaperValues(paper=paper, figures=(), values=())


def take(path: Path) -> None:
    """Take the figures of a run, and judge all that are kept by today's claims."""
    newer = read_results(path)
    for paper, (_, page, _) in PAPERS.items():
        mine = [figure for figure in newer.figures if figure.id.partition("/")[0] in (paper, page)]
        if mine:
            whole = results_of(paper).merged(Results(figures=tuple(mine)))
            order = list(all_figures())
            figures = sorted(judged_again(whole).figures, key=lambda made: (made.engine, order.index(made.id)))
            CLAIMS.mkdir(exist_ok=True)
            text = Results(figures=tuple(figures)).model_dump_json(indent=1, exclude_defaults=True)
            (CLAIMS / f"{paper}.json").write_text(text + "\n")


# ---- whole pages ----


def pages() -> dict[Path, str]:
    """Every page, whole or in parts, by its path."""
    found = {DOCS / f"values-{PAPERS[paper].page}.md": values_page(values_of(paper)) for paper in PAPERS}
    found[DOCS / "choices.md"] = choices_page()
    for path in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        if path not in found and MARKED.search(text := path.read_text()):
            found[path] = MARKED.sub(_part, text)
    return found


def values_page(paper: PaperValues) -> str:
    """The figures and tables of a paper's text, its claims, its values, and the runs that measured them."""
    title, page, _ = PAPERS[paper.paper]
    results = results_of(paper.paper)
    lines = [f"# {title}: every figure, claim and value\n", f"What they mean is said on [its page]({page}.md). {NOTE}"]
    lines += ["## Figures and tables of the text\n", *table(_TEXT_HEADS, _text(paper, results))]
    lines += ["\n## Claims\n", *table(_CLAIM_HEADS, _claim_rows(paper.paper, results))]
    for engine, word in ENGINES.items():
        if found := scores(paper, results, engine):
            lines += [
                f"\n## Values that it prints, {word}\n",
                *(f"- {line}" for line in summary_lines(paper, found)),
                "",
            ]
            lines += table(heads(engine), [score.texts for score in found])
            lines += [f"\nThe {WORST} predicted values that are farthest away:\n", *_causes(worst(found))]
            if beyond := [score for score in found if score.holds is False and score.value.cause]:
                lines += ["\nPrinted limits that do not hold, where the cause is known:\n", *_causes(beyond)]
    unmeasured = list(_unmeasured(paper, results))
    if unmeasured:
        lines += ["\n## Values that are not measured\n", *table(("value", "where", "it says", "why not"), unmeasured)]
    if results.figures:
        lines += ["\n## The runs\n", *table(("figure", "engine", "seeds", "made by", "on", "natjam"), _runs(results))]
    return "\n".join(lines) + "\n"


def _causes(found: Iterable[Score]) -> Iterator[str]:
    for score in found:
        _, _, published, measured, *_ = score.texts
        yield f"- {score.value.id}: {measured} for {published}. {score.why_far}"


def _unmeasured(paper: PaperValues, results: Results) -> Iterator[Sequence[str]]:
    """The values that no kept run has measured, and why, or how to."""
    measured = {score.value.id for engine in ENGINES for score in scores(paper, results, engine)}
    claims, figures = all_claims(), all_figures()
    for value in paper.printed:
        if value.id not in measured:
            by = [figures[source.figure] for source in source_of(value, claims, figures)]
            yield value.id, value.where, value.says, value.unmeasured or _not_run(by, "sim")


_TEXT_HEADS = ("", "what it shows", "", "how, or why not")


def _text(paper: PaperValues, results: Results) -> Iterator[Sequence[str]]:
    run = {made.id for made in results.figures}
    for figure in paper.figures:
        how, state = figure.how(command="`{}`"), figure.state_in(run, "no run is kept")
        yield figure.name, figure.shows, state, re.sub(r"docs/(\S+\.md)", r"[docs/\1](\1)", how)


def _runs(results: Results) -> Iterator[Sequence[str]]:
    for made in results.figures:
        yield made.id, made.engine, str(made.seeds), f"`{made.command}`", made.date, made.natjam


# ---- claims ----

_CLAIM_HEADS = ("claim", "published", "accepted", *ENGINES.values(), "verdict")


def _claims_of(paper: str) -> ClaimFile:
    return next(file for file in claim_files() if file.paper == paper)


def _judged(results: Results, engine: str) -> dict[str, ClaimResult]:
    return {claim.id: claim for made in results.figures if made.engine == engine for claim in made.claims}


def _claim_rows(paper: str, results: Results) -> Iterator[Sequence[str]]:
    judged = {engine: _judged(results, engine) for engine in ENGINES}
    for claim in _claims_of(paper).with_published():
        found = {engine: of.get(claim.id) for engine, of in judged.items()}
        holds = "; ".join(
            f"{ENGINES[engine]}: {WORDS[one.ok]}{': ' if one.why else ''}{_reason(one, results, engine)}"
            for engine, one in found.items()
            if one
        )
        measured = [_with_intervals(one, results, engine) if one else "" for engine, one in found.items()]
        by = [figure for figure in all_figures().values() if claim.id in figure.claims]
        holds = holds or _not_run(by, "live" if claim.engine == "live" else "sim")
        basis = " (fitted)" if claim.id in fitted_claims() else ""
        yield f"`{claim.id}`{basis}", _figures(claim.published), _accepted(claim.accept), *measured, holds


def _reason(one: ClaimResult, results: Results, engine: str) -> str:
    made = next(made for made in results.figures if made.engine == engine and one in made.claims)
    return reason(one, made.id, engine)


def _with_intervals(one: ClaimResult, results: Results, engine: str) -> str:
    """What was measured, of how many seeds, with the 95% interval of each number that is that of one cell."""
    made = next(made for made in results.figures if made.engine == engine and one in made.claims)
    definition, parts = all_figures()[made.id], one.measured if isinstance(one.measured, dict) else {None: one.measured}
    seeds = f"; {_counted_seeds(made.seeds)}"
    if len(parts) > _MOST_PARTS:
        return _figures(one.measured) + seeds
    texts = []
    for part, measured in parts.items():
        names = cells_of_part(definition, one.id, part)
        cell = made.cells.get(names[0]) if len(names) == 1 else None
        text = f"{(part or '').replace('_', ' ')} {number(measured)}".strip()
        if cell is not None and cell.low is not None and cell.high is not None:
            text += f" ({interval((cell.low, cell.high))})"
        texts.append(text)
    return "; ".join(texts) + seeds


def _not_run(figures: Sequence[FigureDefinition], engine: str) -> str:
    """How to measure what no kept run has measured."""
    if not figures:
        return "nothing measures it yet"
    figure = next((one for one in figures if engine in one.engines), figures[0])
    on = engine if engine in figure.engines else figure.engines[0]
    words = ", on a machine that does nothing else" if on == "live" else ""
    return f"not run: `natjam reproduce {figure.id} --engine {on}`{words}"


def _figures(value: Any, place: str = ", below") -> str:
    """A figure, or several by name; many are only counted, and ``place`` says where they are."""
    if isinstance(value, dict):
        if len(value) > _MOST_PARTS:
            return f"{len(value)} values{place}"
        return "; ".join(f"{name.replace('_', ' ')} {_figures(inner)}" for name, inner in value.items())
    return value if isinstance(value, str) else number(value)


def _accepted(accept: dict[str, Any]) -> str:
    words = []
    for kind, limit in accept.items():
        name, _, side = kind.rpartition("_")
        if kind == "order":
            words.append(" < ".join(limit))
        else:
            of_part = "" if kind == "within_absolute" else name.replace("_", " ")
            words.append(f"{of_part} {accepted({side if of_part else kind: limit}, None)}".strip())
    return "; ".join(words)


# ---- parts of pages ----


def _part(match: re.Match[str]) -> str:
    begin, name, paper, end = match.groups()
    lines = PARTS[name](paper) if paper else PARTS[name]()
    return "\n".join([begin, *lines, "", end])


def _counts() -> Iterator[str]:
    """How many claims of each paper held, failed and are undecided, by engine; and how near its values are."""
    rows = []
    for paper, (title, page, _) in PAPERS.items():
        results, total = results_of(paper), len(_claims_of(paper).claims)
        judged = [_judged(results, engine) for engine in ENGINES]
        cells = [_counts_in_words(of_engine) if of_engine else "" for of_engine in judged]
        values = values_of(paper)
        near = next((line for line in summary_lines(values, scores(values, results, "sim"))), "")
        if near.startswith("fitted"):
            near = "none is predicted"
        rows.append((f"[{title}]({page}.md)", str(total), *cells, near))
    found = ("compared with", "claims", *ENGINES.values(), "printed values against ours, simulated")
    return table(found, rows)


def _counts_for_readers() -> Iterator[str]:
    """What each paper is about, and how many claims that are predictions held, failed and are undecided; one that was
    both simulated and measured counts by the worse of the two."""
    rows = []
    for paper, (title, page, about) in PAPERS.items():
        verdicts: dict[str, list[bool | None]] = {}
        for engine in ENGINES:
            for id, one in _judged(results_of(paper), engine).items():
                if id not in fitted_claims():
                    verdicts.setdefault(id, []).append(one.ok)
        found = Counter(min(of_claim, key=_WORST_FIRST.index) for of_claim in verdicts.values())
        rows.append((f"[{title}](docs/{page}.md)", about, *(str(found[verdict]) for verdict in WORDS)))
    return table(("compared with", "what it is about", *WORDS.values()), rows)


_WORST_FIRST = [False, None, True]


def _failing(*papers: str) -> Iterator[str]:
    """The claims that failed, and by how much; then those that are undecided, and what would decide them."""
    rows = []
    for paper in papers or PAPERS:
        results = results_of(paper)
        for engine, word in ENGINES.items():
            for one in _judged(results, engine).values():
                if not one.ok:
                    name, found = f"`{one.id}`, {word}", _figures(one.measured, "")
                    why = _reason(one, results, engine)
                    rows.append((name, WORDS[one.ok], _accepted(one.accept), found, why))
    if not rows:
        was_run = any(results_of(paper).figures for paper in papers or PAPERS)
        return iter(["Of the claims that were run, all held." if was_run else "No run is kept."])
    rows.sort(key=lambda row: row[1] == WORDS[None])
    return table(("claim", "verdict", "accepted", "found", "what it misses, or what would decide it"), rows)


def _summary(paper: str) -> Iterator[str]:
    """What holds of a paper, and how near its values are."""
    results, values = results_of(paper), values_of(paper)
    for engine, word in ENGINES.items():
        if judged := _judged(results, engine):
            yield f"- {word}: {_counts_in_words(judged)} ({_seeds(results, engine)})"
            if found := scores(values, results, engine):
                yield from (f"- {word}, {line}" for line in summary_lines(values, found))
    yield f"- [every figure, claim and value](values-{PAPERS[paper].page}.md)"


def _counts_in_words(judged: Mapping[str, ClaimResult]) -> str:
    return counts({id: one.ok for id, one in judged.items()})


def _seeds(results: Results, engine: str) -> str:
    seeds = sorted({made.seeds for made in results.figures if made.engine == engine and made.claims})
    return f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else _counted_seeds(seeds[0])


def _counted_seeds(seeds: int) -> str:
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _gives_up() -> Iterator[str]:
    """Deadlines missed in percent at each load, by what becomes of late jobs: Adaptive's, then Reverse-Adaptive's."""
    figure = all_figures()["reverse-adaptive/gives-up"]
    cells = results_of(figure.paper).cells(figure.id, "sim")
    rules, schedulers = ("never", "by-deadline", "by-forecast"), ("adaptive", "reverse-adaptive")
    points = _points(figure.id)
    columns = ["fifo", *(f"{scheduler}, {rule}" for rule in rules for scheduler in schedulers)]
    missed = {point: [cells[f"missed: {column}, {point}"].measured or 0.0 for column in columns] for point in points}
    rows = [(*point.split("x-"), *_in_pairs(of_point)) for point, of_point in missed.items()]
    rows.append(("mean", "", *_in_pairs([fmean(of_column) for of_column in zip(*missed.values(), strict=True)])))
    return table(("factors", "load", "FIFO", *(f"`{rule}`" for rule in rules)), rows)


_SCHEDULERS = {"`s_req`": "adaptive", "stable": "stable"}
_SIZES = ("printed", "tailed")


def _readings() -> Iterator[str]:
    """The claims of Reverse-Adaptive's experiments under two readings of Adaptive, and of the sizes of its jobs."""
    kept = results_of("reverse-adaptive")
    parts = [(kept.cells(f"reverse-adaptive/readings-exp{place}", "sim"), part) for place, part in _EXPERIMENTS.items()]
    columns: list[dict[str, Judged]] = []
    for size in _SIZES:
        for scheduler in _SCHEDULERS.values():
            columns.append({})
            for cells, part in parts:
                columns[-1] |= part(cells, scheduler, size) if cells else {}
    rows = [(f"`{name}`", *(f"{WORDS[of[name][0]]}: {of[name][1]}" for of in columns)) for name in columns[0]]
    rows.append(("held", *(f"{sum(ok is True for ok, _ in of.values())} of {len(of)}" for of in columns)))
    return table(("", *(f"{name}, {size}" for size in _SIZES for name in _SCHEDULERS)), rows)


Judged = tuple[bool | None, str]
"""Whether a claim holds, and what it is about."""


def _alone(cells: Mapping[str, CellResult], scheduler: str, size: str) -> dict[str, Judged]:
    """Experiment 1.  With a stable forecast Adaptive is the same algorithm there, and so the same runs."""
    is_same = scheduler == "stable"
    ratio, other = f"reverse-adaptive over adaptive, {size}", "reverse-adaptive" if is_same else scheduler
    same = (True, "1, the same runs") if is_same else _number_holds("exp1.same_as_adaptive", cells[ratio])
    return {
        "exp1.same_as_adaptive": same,
        "exp1.fifo_misses_more": _at_points(cells, other, "fifo", f"fifo more than {other}", size),
    }


def _beside(cells: Mapping[str, CellResult], scheduler: str, size: str) -> dict[str, Judged]:
    """Experiment 2."""
    first, second = f"{scheduler} more than reverse-adaptive", f"fifo more than {scheduler}"
    in_order = not any(_is_reversed(cells[f"{one}, {size}"]) for one in (first, second))
    means = (cells[f"missed by {one}, {size}"].measured for one in ("reverse-adaptive", scheduler, "fifo"))
    found: dict[str, Judged] = {
        "exp2.missed_order": (in_order, " / ".join(map(number, means))),
        "exp2.always_below_adaptive": _at_points(cells, "reverse-adaptive", scheduler, first, size),
        "exp2.always_below_fifo": _at_points(
            cells, "reverse-adaptive", "fifo", "fifo more than reverse-adaptive", size
        ),
    }
    for claim, what in (("exp2.no_harm", "time beyond"), ("exp2.same_distance", "distance")):
        found[claim] = _number_holds(claim, cells[f"{what}, reverse-adaptive over {scheduler}, {size}"])
    return found


def _gains(cells: Mapping[str, CellResult], scheduler: str, size: str) -> dict[str, Judged]:
    """Experiment 3: how much fewer Reverse-Adaptive misses at each level, and whether that grows."""
    of = f"gain over {scheduler}"
    grows = not any(_is_reversed(cells[f"{of}, level{level} less level{level - 1}, {size}"]) for level in (2, 3))
    gains = ", ".join(number(cells[f"{of} at level{level}, {size}"].measured) for level in (1, 2, 3))
    return {"exp3.gain_grows_with_burstiness": (grows, gains)}


def _number_holds(claim: str, cell: CellResult) -> Judged:
    return finding(all_claims()[f"reverse.{claim}"], None, cell.spread).ok, number(cell.measured)


def _at_points(cells: Mapping[str, CellResult], low: str, high: str, more: str, size: str) -> Judged:
    """Whether one scheduler misses no more than another at every point, and at how many it misses fewer and more."""
    points = [name.rpartition(", ")[2] for name in cells if name.startswith(f"{more}, {size}-")]
    both = {point: [cells[f"missed: {one}, {point}"].measured or 0.0 for one in (low, high)] for point in points}
    fewer = sum((cells[f"{more}, {point}"].low or 0.0) > 0 for point in points)
    ties = {point: TIE_OF_SINGLE_RUNS * max(of_both) for point, of_both in both.items()}
    reversed_at = sum(_is_reversed(cells[f"{more}, {point}"], ties[point]) for point in points)
    return not reversed_at, f"fewer at {fewer} of {len(points)}, more at {reversed_at}"


def _is_reversed(difference: CellResult, tie: float = 0.0) -> bool:
    """Whether what should not be below 0 is, by more than noise, as claims on an order are judged."""
    assert None not in (difference.measured, difference.low, difference.high)
    noise = ((difference.high or 0.0) - (difference.low or 0.0)) / 2
    return -(difference.measured or 0.0) > max(noise, tie)


def _sizes() -> Iterator[str]:
    """What is missed by the deviation of the sizes of jobs, and how much more FIFO misses than the others."""
    cells = results_of("reverse-adaptive").cells("reverse-adaptive/sizes", "sim")
    if not cells:
        return iter(["Not run: `natjam reproduce reverse-adaptive/sizes`."])
    rows = []
    for point in _points("reverse-adaptive/sizes"):
        where, _, deviation = point.partition("-")
        missed = [number(cells[f"missed: {one}, {point}"].measured) for one in ("fifo", "adaptive", "reverse-adaptive")]
        more = (cells[f"fifo more than {one}, {point}"] for one in ("adaptive", "reverse-adaptive"))
        rows.append((_WHERE[where], deviation, *missed, *(f"{number(one.measured)} ({_ends(one)})" for one in more)))
    heads = ("", "deviation", "FIFO", "Adaptive", "Reverse-Adaptive")
    return table((*heads, "FIFO more than Adaptive", "FIFO more than Reverse-Adaptive"), rows)


def _points(figure: str) -> list[str]:
    grid = all_figures()[figure].grid
    return [] if grid is None else list(grid.points)


_WHERE = {"alone": "without f(t)", "beside": "with f(t)"}


def _ends(cell: CellResult) -> str:
    return interval(None if cell.low is None or cell.high is None else (cell.low, cell.high))


_EXPERIMENTS = {1: _alone, 2: _beside, 3: _gains}


def _loads() -> Iterator[str]:
    """Fig. 12 of Natjam at each load: what holds where."""
    figure, claim = all_figures()["natjam/fig12"], all_claims()["natjam.trace.fig12.margin_better_pct"]
    cells, points = results_of("natjam").cells(figure.id, "sim"), _points(figure.id)
    names = ("margin_better_pct", "largest_improvement_s", "second_worst_s", "worst_s")
    rows: list[Sequence[str]] = []
    for point in points:
        better, *others = (cells[f"{name}, {point}"] for name in names)
        found = finding(claim, None, better.spread)
        shown = f"{number(better.measured)} ({_ends(better)})"
        rows.append((point.removeprefix("load-"), shown, *(number(one.measured) for one in others), WORDS[found.ok]))
    published = (cells[name].published for name in names)
    rows.append(("published", *map(number, published), ""))
    of_all = ("load", "better margin, %", "largest improvement, s", "second worst, s", "worst, s", f"`{claim.id}`")
    return table(of_all, rows)


def _in_pairs(missed: Sequence[float]) -> Iterator[str]:
    """The first alone, the others two by two."""
    first, *others = (f"{one:.1f}" for one in missed)
    yield first
    yield from (f"{one} / {other}" for one, other in zip(others[::2], others[1::2], strict=True))


PARTS: dict[str, Any] = {
    "gives-up": _gives_up,
    "loads": _loads,
    "readings": _readings,
    "sizes": _sizes,
    "counts": _counts,
    "counts-for-readers": _counts_for_readers,
    "failing": _failing,
    "summary": _summary,
}


# ---- choices ----


def choices_page() -> str:
    """Every constant that the papers leave open."""
    kept = read_choices()
    why_not = {(one.paper, one.constant): one.why for one in kept.refused}
    lines = ["# What the papers leave open\n", NOTE]
    lines += [
        "Every constant that a paper does not print and that we had to choose: what we chose, and where it is from.\n",
        "The last column shows how much the choice matters. We ran a small figure that uses the constant three times,",
        "with few seeds: with our value, with half of it, and with twice as much. `makespan: 225; 122, 407` means that",
        "the figure's `makespan` was 225 with ours, 122 with half, and 407 with twice. Of many such results, those are",
        "shown that differ most. *In its live form*: the figure of live runs, simulated. *Feeds none*: no result",
        "depends on the constant. *Not run*: not tried. *Cannot be*: the constant is not a number.",
        "`python docs/choices.py PAPER` runs them.\n",
    ]
    for paper, values in all_values().items():
        if values.constants:
            fed = [constant for constant in values.constants if constant.feeds]
            tried = sum(bool(moves_of(kept.moved, paper, constant)) for constant in fed)
            refused = sum((paper, constant.name) in why_not for constant in fed)
            lines += [f"## {PAPERS[paper].title}\n"]
            lines += [
                f"Results depend on {len(fed)} of these constants. Of these, {tried} were tried, {refused} cannot be"
                f" and {len(fed) - tried - refused} not.\n"
            ]
            rows = [
                _choice(constant, moves_of(kept.moved, paper, constant), why_not.get((paper, constant.name)))
                for constant in values.constants
            ]
            lines += [*table(("constant", "where", "ours", "source or reason", "halved, doubled"), rows), ""]
    return "\n".join(lines)


def _choice(constant: Constant, moved: Sequence[Moved], why_not: str | None) -> Sequence[str]:
    setting = f" (`{constant.setting}`)" if constant.setting else ""
    moves = _moves(constant, moved) if moved or why_not is None else f"cannot be: {why_not}"
    return constant.name, constant.where, str(constant.ours) + setting, constant.source, moves


def _moves(constant: Constant, moved: Sequence[Moved]) -> str:
    """The results that differ most, of all that were tried."""
    if not moved:
        return "not run" if constant.feeds else "feeds none"
    most = sorted(moved, key=lambda one: -one.most)[:_MOST_PARTS]
    texts = [f"{one.fed}: {number(one.base)}; {_or_why(one.halved)}, {_or_why(one.doubled)}" for one in most]
    seeds = f", with {_counted_seeds(moved[0].seeds)}" if moved[0].seeds else ""
    small = all_figures()[moved[0].figure].small
    form = {"live": " in its live form", "small": f" ({small.about})" if small else ""}.get(moved[0].form or "", "")
    first = f"{moved[0].figure}{form}{seeds}, " + (
        f"of {len(moved)} results the {len(most)} that differ most: " if len(most) < len(moved) else ""
    )
    return first + "<br>".join(texts)


def _or_why(figure: float | None) -> str:
    return "no result" if figure is None else number(figure)


def table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    columns = list(columns)
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        take(Path(given))
    for path, text in pages().items():
        path.write_text(text)
