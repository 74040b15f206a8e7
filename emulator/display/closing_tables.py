"""The tables at the end of a run, from its ``summary.json``, and why it counts as failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from emulator.display.grids import (
    figure,
    groups_grid,
    jobs_grid,
    on_terminal,
    overheads_grid,
    percent,
    queues_grid,
    waits_grid,
)
from emulator.display.tables import ALWAYS, names, new_facts, new_table, numbers
from emulator.records.measures import ended_well, shown_state
from emulator.records.summary import what_was_checked, what_was_not_checked, wrong_files
from emulator.vocabulary import counted

MAX_JOBS = 30
"""If a run has more jobs, its queues are shown, and only this many jobs."""
_FILE = "summary.json"
WAITS = "waited although they may run"


def closing_tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    """The results of a finished run, from its ``summary.json``: jobs, overheads, work, output, lag."""
    if "metrics" in summary:
        return [_metrics_table(summary)]
    title, jobs = _to_show(summary["jobs"])
    tables: list[RenderableType] = [on_terminal(title, jobs_grid(jobs), _FILE)]
    if len(summary["jobs"]) > MAX_JOBS:
        tables.insert(0, on_terminal("queues", queues_grid(summary["jobs"]), _FILE))
    shown = {job["name"] for job in jobs}
    if groups := [group for group in summary.get("groups", ()) if group["job"] in shown]:
        tables.append(on_terminal("groups of tasks", groups_grid(groups), _FILE))
    if waits := summary.get("waits"):
        tables.append(on_terminal(WAITS, waits_grid(waits), _FILE, MAX_JOBS))
    if summary["overheads"]:
        tables.append(on_terminal("overheads", overheads_grid(summary), _FILE))
    work, output, lag = summary["work"], summary["output"], summary["lag"]
    facts = new_facts()
    if ended := Counter(job["reason"] for job in summary["jobs"] if shown_state(job) == "cancelled"):
        said = "; ".join(f"{count:,} by its scheduler: {why}" for why, count in ended.items())
        facts.add_row("cancelled", Text(said, "yellow"))
    facts.add_row("output", "none: simulated" if output is None else _output_text(output))
    facts.add_row(
        "work",
        f"useful {figure(work['useful_s'])} s, lost {figure(work['lost_s'])} s{_imaging_text(work)}"
        f" ({percent(work['wasted_fraction'])} wasted), utilization {percent(work['utilization'])}",
    )
    if summary.get("transactional") is not None:
        facts.add_row("transactional", _transactional_text(summary["transactional"]))
    if "web" in summary:
        facts.add_row("web service", _web_text(summary["web"]))
    facts.add_row(
        "time",
        f"makespan {figure(summary['makespan_s'])} s emulated (first submission to last end),"
        f" in {figure(summary['real_s'])} s real at time scale {summary['time_scale']:g}",
    )
    if output is not None:
        facts.add_row("lag", _lag_text(lag))
    if "calibration" in summary:
        facts.add_row("costs", _calibration_text(summary["calibration"]))
    if "too_large" in summary:
        jobs = list(summary["too_large"])
        shown = ", ".join([*jobs[:MAX_JOBS], "..."] if len(jobs) > MAX_JOBS else jobs)
        facts.add_row("left out", Text(f"{len(jobs):,} that no node is large enough for: {shown}"))
    if "left_out" in summary:
        facts.add_row("note", Text(summary["left_out"]))
    return [*tables, facts]


def _transactional_text(facts: Mapping[str, float]) -> str:
    return (
        f"short of {figure(facts['shortfall_container_s'])} container seconds,"
        f" of {figure(facts['withheld_container_s'])} withheld for it"
    )


def _web_text(facts: Mapping[str, Any]) -> str:
    parts = {"latency": facts, "while jobs give way": facts["preempting"]}
    found = (
        f"{what} p50 {figure(part['p50_real_ms'])}, p99 {figure(part['p99_real_ms'])} ms real"
        for what, part in parts.items()
        if part["p99_real_ms"] is not None
    )
    return "; ".join([f"{facts['requests']} requests, {facts['failed']} failed", *found])


def _to_show(jobs: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """A title, and the jobs below it."""
    if len(jobs) <= MAX_JOBS:
        return "jobs", jobs
    ranked = sorted(jobs, key=lambda job: (ended_well(job), -(job["completion_s"] or 0)))
    title = f"{MAX_JOBS} of {len(jobs):,} jobs: those that did not succeed, then the longest"
    return title, ranked[:MAX_JOBS]


def _metrics_table(summary: Mapping[str, Any]) -> Table:
    metrics = summary["metrics"]
    title = f"{summary['repeats']} repeats"
    if sum(name.startswith("jobs.") and name.endswith(".completion_s") for name in metrics) > MAX_JOBS:
        metrics = {name: metric for name, metric in metrics.items() if not name.startswith("jobs.")}
        title += "; metrics of jobs are in summary.json"
    columns = [
        *names("metric"),
        *numbers("n", "mean", importance=ALWAYS),
        *numbers("sd"),
        *numbers("95% from", "to", importance=3),
    ]
    table = new_table(title, columns, also_in=_FILE)
    for name, metric in metrics.items():
        figures = (figure(metric[column]).text for column in ("mean", "sd", "ci95_low", "ci95_high"))
        table.add_row(Text(name), str(metric["n"]), *figures)
    return table


def _imaging_text(work: Mapping[str, Any]) -> str:
    """The time of dumps and restores, if there were any."""
    overhead_s = work.get("overhead_s")
    return f", dumps and restores {figure(overhead_s)} s" if overhead_s else ""


def _output_text(output: Mapping[str, Any]) -> Text:
    if output["verified"]:
        checked, unchecked = what_was_checked(output), what_was_not_checked(output)
        lines = [Text(f"verified: {checked}", "green")] if checked else []
        lines += [Text(f"not checked: {unchecked}", "yellow")] if unchecked else []
        return Text("\n").join(lines)
    return Text(
        f"NOT VERIFIED: {output['keys_written']} of {output['keys_expected']} keys written, {output['keys_lost']} lost,"
        f" {wrong_files(output)}",
        "bold red",
    )


def _lag_text(lag: Mapping[str, Any]) -> str:
    longest = lag.get("gaps", ())[:1]
    still = "".join(f"; {gap['process']} stood still for {figure(gap['emulated_s'])} s emulated" for gap in longest)
    return (
        f"p50 {figure(lag['p50_real_ms'])} ms, p99 {figure(lag['p99_real_ms'])} ms real"
        f" ({figure(lag['p99_emulated_s'])} s emulated), worst {figure(lag['max_real_ms'])} ms{still}"
    )


def _calibration_text(calibration: Mapping[str, Any]) -> Text:
    """The machine and age of the calibration that a simulation used."""
    machine, days = calibration["machine"], calibration["age_days"]
    age = "" if days is None else " (today)" if days < 1 else f" ({days} days ago)"
    text = (
        f"measured {calibration['measured_at']}{age} on {counted(machine['cores'], 'core')} of {machine['cpu_model']}"
    )
    warning = calibration["warning"]
    return Text(f"{text}; {warning}", "yellow") if warning else Text(f"{text}: {calibration['path']}")
