"""The tables at the end of a run, from its ``summary.json``, and why it counts as failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from emulator.display.grids import figure, groups_grid, jobs_grid, on_terminal, overheads_grid, percent, queues_grid
from emulator.display.tables import ALWAYS, names, new_facts, new_table, numbers
from emulator.records.checked_output import what_was_checked, what_was_not_checked
from emulator.records.summary import ended_well, shown_state
from emulator.vocabulary import counted

MOST_JOBS = 30
"""If a run has more jobs, its queues are shown, and only this many jobs."""
_FILE = "summary.json"


def closing_tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    """The results of a finished run, from its ``summary.json``: jobs, overheads, work, output, lag."""
    if "metrics" in summary:
        return [_metrics_table(summary)]
    title, jobs = _to_show(summary["jobs"])
    tables: list[RenderableType] = [on_terminal(title, jobs_grid(jobs), _FILE)]
    if len(summary["jobs"]) > MOST_JOBS:
        tables.insert(0, on_terminal("queues", queues_grid(summary["jobs"]), _FILE))
    shown = {job["name"] for job in jobs}
    if groups := [group for group in summary.get("groups", ()) if group["job"] in shown]:
        tables.append(on_terminal("groups of tasks", groups_grid(groups), _FILE))
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
        f"useful {_number(work['useful_s'])} s, lost {_number(work['lost_s'])} s{_imaging_text(work)}"
        f" ({_percent(work['wasted_fraction'])} wasted), utilization {_percent(work['utilization'])}",
    )
    if summary.get("transactional") is not None:
        facts.add_row("transactional", _transactional_text(summary["transactional"]))
    if "web" in summary:
        facts.add_row("web service", _web_text(summary["web"]))
    facts.add_row(
        "time",
        f"makespan {_number(summary['makespan_s'])} s emulated (first submission to last end),"
        f" in {_number(summary['real_s'])} s real at time scale {summary['time_scale']:g}",
    )
    if output is not None:
        facts.add_row("lag", _lag_text(lag))
    if "calibration" in summary:
        facts.add_row("costs", _calibration_text(summary["calibration"]))
    if "too_large" in summary:
        jobs = list(summary["too_large"])
        shown = ", ".join([*jobs[:MOST_JOBS], "..."] if len(jobs) > MOST_JOBS else jobs)
        facts.add_row("left out", Text(f"{len(jobs):,} that no node is large enough for: {shown}"))
    if "left_out" in summary:
        facts.add_row("note", Text(summary["left_out"]))
    return [*tables, facts]


def _transactional_text(facts: Mapping[str, float]) -> str:
    return (
        f"short of {_number(facts['shortfall_container_s'])} container seconds,"
        f" of {_number(facts['withheld_container_s'])} withheld for it"
    )


def _web_text(facts: Mapping[str, Any]) -> str:
    parts = {"latency": facts, "while jobs give way": facts["preempting"]}
    found = (
        f"{what} p50 {_number(part['p50_real_ms'])}, p99 {_number(part['p99_real_ms'])} ms real"
        for what, part in parts.items()
        if part["p99_real_ms"] is not None
    )
    return "; ".join([f"{facts['requests']} requests, {facts['failed']} failed", *found])


def failures(summary: Mapping[str, Any]) -> list[str]:
    """Why a finished run counts as failed: jobs that did not succeed, output that differs.  Empty: it succeeded."""
    found = [
        f"job {job['name']} {job['state']}{': ' + job['reason'] if job['reason'] else ''}"
        for job in summary.get("jobs", ())
        if not ended_well(job)
    ]
    output = summary.get("output")
    if output is not None and not output["verified"]:
        found.append(f"the output is not as it should be: {output['keys_lost']} keys lost, {_wrong_files(output)}")
    return found


def _wrong_files(output: Mapping[str, Any]) -> str:
    """What is wrong with the files of an output, with the first of those that should not be there."""
    extra = f" ({output['extra'][0]})" if output["extra"] else ""
    return (
        f"{output['keys_duplicated']} duplicated, {_count(output['files_differing'])} files differ,"
        f" {_count(output['files_missing'])} missing, {_count(output['files_extra'])} too many{extra}"
    )


def _to_show(jobs: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """A title, and the jobs below it."""
    if len(jobs) <= MOST_JOBS:
        return "jobs", jobs
    ranked = sorted(jobs, key=lambda job: (ended_well(job), -(job["completion_s"] or 0)))
    title = f"{MOST_JOBS} of {len(jobs):,} jobs: those that did not succeed, then the longest"
    return title, ranked[:MOST_JOBS]


def _metrics_table(summary: Mapping[str, Any]) -> Table:
    metrics = summary["metrics"]
    title = f"{summary['repeats']} repeats"
    if sum(name.startswith("jobs.") and name.endswith(".completion_s") for name in metrics) > MOST_JOBS:
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
        figures = (_number(metric[column]) for column in ("mean", "sd", "ci95_low", "ci95_high"))
        table.add_row(Text(name), str(metric["n"]), *figures)
    return table


def _imaging_text(work: Mapping[str, Any]) -> str:
    """The time of dumps and restores, if there were any."""
    overhead_s = work.get("overhead_s")
    return f", dumps and restores {_number(overhead_s)} s" if overhead_s else ""


def _output_text(output: Mapping[str, Any]) -> Text:
    if output["verified"]:
        checked, unchecked = what_was_checked(output), what_was_not_checked(output)
        lines = [Text(f"verified: {checked}", "green")] if checked else []
        lines += [Text(f"not checked: {unchecked}", "yellow")] if unchecked else []
        return Text("\n").join(lines)
    return Text(
        f"NOT VERIFIED: {output['keys_written']} of {output['keys_expected']} keys written, {output['keys_lost']} lost,"
        f" {_wrong_files(output)}",
        "bold red",
    )


def _lag_text(lag: Mapping[str, Any]) -> str:
    longest = lag.get("gaps", ())[:1]
    still = "".join(f"; {gap['process']} stood still for {_number(gap['emulated_s'])} s emulated" for gap in longest)
    return (
        f"p50 {_number(lag['p50_real_ms'])} ms, p99 {_number(lag['p99_real_ms'])} ms real"
        f" ({_number(lag['p99_emulated_s'])} s emulated), worst {_number(lag['max_real_ms'])} ms{still}"
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


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else value


def _number(value: float | None) -> str:
    return figure(value).text


def _percent(value: float | None) -> str:
    return percent(value).text
