"""The output of ``natjam workload inspect``: tables, and distributions as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from emulator.display.tables import ALWAYS, names, new_table, numbers, words
from workloads.inspection import DISTRIBUTIONS, NOT_IN_IT, SHARES, Inspection
from workloads.record import Trace

_BAR_WIDTH = 40
_BARS = [*numbers("", "", importance=ALWAYS), *words("")]
_MAX_HOURS = 48
_SOURCE_STYLE = {"measured": "green", "modelled": "yellow", "mixed": "yellow"}


def report(inspection: Inspection, trace: Trace) -> Iterator[RenderableType]:
    """The parts of the report, from the counts to what is measured."""
    yield _counts(inspection, trace)
    if inspection.jobs:
        yield _distributions(inspection)
        yield _hours(inspection)
        yield from _bars(inspection)
        if inspection.evictions:
            yield _evictions(inspection)
    yield _columns(inspection, trace)


def _counts(inspection: Inspection, trace: Trace) -> Table:
    title = f"{trace.header.format}: {'; '.join(trace.header.history)}"
    table = new_table(title, [*words(""), *numbers("", importance=ALWAYS)], plain=True)
    rows: dict[str, Any] = {"jobs": inspection.jobs, "maps": inspection.maps, "reduces": inspection.reduces}
    if inspection.without_tasks:
        rows["jobs without recorded tasks (workload scale makes them from the bytes)"] = inspection.without_tasks
    if inspection.modelled_lengths:
        rows["tasks with a modelled length"] = inspection.modelled_lengths
    rows["from the first submission to the last, s"] = f"{inspection.span_s:,.1f}"
    if inspection.last_finish_ns is not None and inspection.first_submit_ns is not None:
        last_s = (inspection.last_finish_ns - inspection.first_submit_ns) / 1e9
        rows["from the first submission to the last finish, s"] = f"{last_s:,.1f}"
    if inspection.burstiness is not None:
        rows["submissions an hour, most divided by fewest"] = f"{inspection.burstiness:.1f}"
    for kind, found in (("queue", inspection.by_queue), ("priority", inspection.by_priority)):
        if len(found) > 1 or (found and "none" not in found):
            rows |= {f"jobs of {kind} {name}": count for name, count in sorted(found.items(), key=str)}
    rows |= {f"jobs that {name}": count for name, count in sorted(inspection.by_outcome.items())}
    rows |= trace.facts
    for name, value in rows.items():
        table.add_row(str(name), f"{value:,}" if isinstance(value, int) else str(value))
    return table


def _distributions(inspection: Inspection) -> Table:
    columns = [
        *names(""),
        *numbers("n", "mean", importance=3),
        *numbers(*(f"p{100 * share:g}" for share in SHARES), "max"),
    ]
    table = new_table(None, columns)
    for name, unit in DISTRIBUTIONS.items():
        of = inspection.distributions[name]
        if of.count:
            values = [of.total / of.count, *(of.quantile(share) for share in SHARES), of.most]
            label = name if unit == "tasks" else f"{name}, {unit}"
            table.add_row(label, f"{of.count:,}", *(_short(value) for value in values))
    return table


def _hours(inspection: Inspection) -> Table:
    counts = inspection.hourly
    table = new_table("submissions in each hour", _BARS, plain=True)
    highest = max(counts)
    for hour, count in enumerate(counts[:_MAX_HOURS]):
        table.add_row(str(hour), f"{count:,}", _bar(count, highest))
    if len(counts) > _MAX_HOURS:
        table.add_row("", "", f"and {len(counts) - _MAX_HOURS} hours more")
    return table


def _bars(inspection: Inspection) -> Iterator[Table]:
    for name in ("tasks a job", "map length", "reduce length", "shuffle a job"):
        of, unit = inspection.distributions[name], DISTRIBUTIONS[name]
        if not of.count:
            continue
        table = new_table(f"{name}, {unit}", _BARS, plain=True)
        bins = of.per_decade(1 if unit == "bytes" else 4)
        highest = max(count for _, _, count in bins)
        for low, high, count in bins:
            table.add_row(f"{_short(low)} to {_short(high)}" if high else "0", f"{count:,}", _bar(count, highest))
        yield table


def _evictions(inspection: Inspection) -> Table:
    title = f"evictions in the trace; {inspection.lost_ns / 3.6e12:,.1f} container hours lost"
    table = new_table(title, numbers("priority", "evictions", importance=ALWAYS))
    for priority, count in sorted(inspection.evictions_by_priority.items()):
        table.add_row(str(priority), f"{count:,}")
    return table


def _columns(inspection: Inspection, trace: Trace) -> Table:
    table = new_table("what is measured and what is modelled", [*names("column", ""), *words("from")])
    missing = []
    for name, source, rule in inspection.columns(trace.header):
        if source == NOT_IN_IT:
            missing.append(name)
        else:
            table.add_row(name, Text(source, _SOURCE_STYLE[source]), rule)
    table.add_row("not in it", "", ", ".join(missing))
    return table


def _bar(count: int, highest: int) -> str:
    return "█" * max(1 if count else 0, round(_BAR_WIDTH * count / highest))


def _short(value: float) -> str:
    """A number of any size, in a few characters."""
    for factor, suffix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= factor:
            return f"{value / (1e3 if suffix == 'k' else factor):.3g}{suffix}"
    return f"{value:.4g}"
