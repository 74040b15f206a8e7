"""What a run shows while it runs, and the tables it closes with.

On a terminal one bar for each job and one for the cluster's containers, drawn in place; elsewhere a line of
text every few seconds.  The bars' segments differ in shape, not only in colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_PERIOD_S = 5.0
"""Real seconds between two lines of text where there is no terminal."""
BAR_CELLS = 40
_DONE, _RUNNING, _SUSPENDED, _WAITING = ("█", "green"), ("▓", "cyan"), ("▒", "yellow"), ("░", "bright_black")
_QUEUE_STYLES = ("magenta", "blue", "cyan", "green")


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job's tasks, maps and reduces together; ``done + running + suspended + waiting == total``."""

    name: str
    queue: str
    state: str
    """``submitted`` (or not yet), ``running``, ``succeeded``, ``failed`` or ``killed``."""
    done: int
    running: int
    suspended: int
    waiting: int
    total: int

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "killed")


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one instant."""

    emulated_ns: int
    real_s: float
    """Since the command was given."""
    time_scale: float
    phase: str
    """What the run is doing, in words: ``starting Ray``, ``running``, ``verifying the output`` ..."""
    jobs: tuple[JobStatus, ...]
    containers_total: int
    containers_used_by_queue: Mapping[str, int]
    containers_suspended: int
    """Stopped processes: they hold memory, but no container."""
    lag_p99_real_ms: float | None
    journal: Sequence[bytes] = ()
    """Encoded records that have come since the status before, under the live engine."""
    repeat: int = 1
    """Which one of the experiment."""


class RunDisplay:
    """Shows a run's status while it lasts; a context manager, updated from any one thread."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last_line_s = float("-inf")
        self._last_phase = ""

    def __enter__(self) -> RunDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, status: RunStatus) -> None:
        """Show a newer status."""
        if self._live is not None:
            self._live.update(render_status(status, self.console.size.height))
        elif status.phase != self._last_phase or status.real_s - self._last_line_s >= PLAIN_PERIOD_S:
            self._last_phase, self._last_line_s = status.phase, status.real_s
            self.console.print(status_line(status), soft_wrap=True, highlight=False, markup=False)


def status_line(status: RunStatus) -> str:
    """A status as one line of text."""
    parts = [f"{status.real_s:6.1f} s", f"{status.emulated_ns / 1e9:8.1f} s emulated", status.phase]
    active = [job for job in status.jobs if not job.ended and job.waiting < job.total]
    for job in active[:4]:
        suspended = f", {job.suspended} suspended" if job.suspended else ""
        parts.append(f"{job.name} {job.done}/{job.total} done, {job.running} running{suspended}")
    if len(active) > 4:
        parts.append(f"{len(active) - 4} more jobs running")
    ended = sum(job.ended for job in status.jobs)
    if ended:
        parts.append(f"{ended} of {len(status.jobs)} jobs ended")
    if status.containers_total:
        used = sum(status.containers_used_by_queue.values())
        parts.append(f"containers {used}/{status.containers_total}")
    return " | ".join(parts)


def render_status(status: RunStatus, height: int) -> RenderableType:
    """A status for a terminal of a given height in lines: jobs that do not fit are counted, not shown."""
    lag = "" if status.lag_p99_real_ms is None else f"   lag p99 {status.lag_p99_real_ms:.1f} ms"
    head = Text.assemble(
        (status.phase, "bold"),
        f"   {status.emulated_ns / 1e9:.1f} s emulated at {status.time_scale:g}x   {status.real_s:.1f} s real{lag}",
    )
    shown = _jobs_to_show(status.jobs, max(1, height - 6))
    grid = Table.grid(padding=(0, 1))
    for column in range(4):
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=24 if column == 0 else None)
    for job in shown:
        grid.add_row(Text(job.name), Text(job.queue, "bright_black"), _job_bar(job), Text(_job_counts(job)))
    hidden = len(status.jobs) - len(shown)
    if hidden:
        ended = sum(job.ended for job in status.jobs)
        grid.add_row("", "", Text(f"... and {hidden} more jobs; {ended} of {len(status.jobs)} ended"), "")
    if status.containers_total:
        grid.add_row("containers", "", _container_bar(status), Text(_container_counts(status)))
    legend = Text.assemble(
        *(part for (cell, style), word in _LEGEND for part in ((cell, style), f" {word}   ")),
        style="bright_black",
    )
    return Group(head, grid, legend)


def closing_tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    """What a finished run has to say, from its ``summary.json``: jobs, overheads, work, output, lag."""
    if "metrics" in summary:
        return [_metrics_table(summary)]
    tables: list[RenderableType] = [_jobs_table(summary["jobs"])]
    if summary["overheads"]:
        tables.append(_overheads_table(summary["overheads"]))
    work, output, lag = summary["work"], summary["output"], summary["lag"]
    facts = Table.grid(padding=(0, 2))
    facts.add_row("output", "none: simulated" if output is None else _output_text(output))
    facts.add_row(
        "work",
        f"useful {_number(work['useful_s'])} s, lost {_number(work['lost_s'])} s"
        f" ({_percent(work['wasted_fraction'])} wasted), utilization {_percent(work['utilization'])}",
    )
    facts.add_row(
        "time",
        f"makespan {_number(summary['makespan_s'])} s emulated in {_number(summary['real_s'])} s real"
        f" at time scale {summary['time_scale']:g}",
    )
    if output is not None:
        facts.add_row("lag", _lag_text(lag))
    if "left_out" in summary:
        facts.add_row("note", Text(summary["left_out"]))
    return [*tables, facts]


def failures(summary: Mapping[str, Any]) -> list[str]:
    """Why a finished run counts as failed, empty if it does not: jobs that did not succeed, output not verified."""
    found = [
        f"job {job['name']} {job['state']}{': ' + job['reason'] if job['reason'] else ''}"
        for job in summary.get("jobs", ())
        if job["state"] != "succeeded"
    ]
    output = summary.get("output")
    if output is not None and not output["verified"]:
        found.append(
            f"the output is not what an undisturbed run writes: {output['keys_lost']} keys lost,"
            f" {output['keys_duplicated']} duplicated, {_count(output['files_differing'])} files differ"
        )
    return found


def _jobs_to_show(jobs: tuple[JobStatus, ...], room: int) -> list[JobStatus]:
    """All jobs if they fit, else those at work, then those to come, then those that ended; in their own order."""
    if len(jobs) <= room:
        return list(jobs)

    def rank(index: int) -> tuple[int, int]:
        job = jobs[index]
        if job.ended:
            return 2, -index
        return (1, index) if job.waiting == job.total else (0, index)

    return [jobs[index] for index in sorted(sorted(range(len(jobs)), key=rank)[: room - 1])]


def _job_bar(job: JobStatus) -> Text:
    style = "red" if job.state in ("failed", "killed") else _DONE[1]
    return _bar(
        [
            (job.done, _DONE[0], style),
            (job.running, *_RUNNING),
            (job.suspended, *_SUSPENDED),
            (job.waiting, *_WAITING),
        ],
        job.total,
    )


def _job_counts(job: JobStatus) -> str:
    if job.ended:
        return job.state
    suspended = f"  {job.suspended} suspended" if job.suspended else ""
    return f"{job.done}/{job.total} done  {job.running} running{suspended}"


def _container_bar(status: RunStatus) -> Text:
    segments = [
        (used, "█▓▒"[index % 3], _QUEUE_STYLES[index % len(_QUEUE_STYLES)])
        for index, (_, used) in enumerate(sorted(status.containers_used_by_queue.items()))
    ]
    free = max(0, status.containers_total - sum(status.containers_used_by_queue.values()))
    return _bar([*segments, (free, "·", "bright_black")], status.containers_total)


def _container_counts(status: RunStatus) -> str:
    queues = "  ".join(f"{name} {used}" for name, used in sorted(status.containers_used_by_queue.items()))
    used = sum(status.containers_used_by_queue.values())
    stopped = f"  suspended {status.containers_suspended}" if status.containers_suspended else ""
    return f"{used}/{status.containers_total}  {queues}{stopped}"


def _bar(segments: list[tuple[int, str, str]], total: int) -> Text:
    """Segments as cells; rounded on the running sum, so that the lengths always add up to the bar's."""
    bar, before, end = Text(), 0, 0
    for count, cell, style in segments:
        before += count
        start, end = end, round(BAR_CELLS * min(before, total) / total) if total else 0
        bar.append(cell * (end - start), style)
    return bar


def _jobs_table(jobs: list[Mapping[str, Any]]) -> Table:
    table = Table(title="jobs (emulated seconds)", title_justify="left")
    table.add_column("job")
    table.add_column("queue")
    table.add_column("state")
    for name in ("submit", "completion", "attempts", "suspensions", "kills", "lost work"):
        table.add_column(name, justify="right")
    for job in jobs:
        table.add_row(
            Text(job["name"]),
            Text(job["queue"]),
            Text(job["state"], "green" if job["state"] == "succeeded" else "red"),
            _number(job["submit_s"]),
            _number(job["completion_s"]),
            *(str(job[name]) for name in ("attempts", "suspensions", "kills")),
            _number(job["lost_work_s"]),
        )
    return table


def _overheads_table(overheads: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title="overheads (emulated seconds; mechanism alone in real milliseconds)", title_justify="left")
    table.add_column("operation")
    for name in ("n", "mean", "p50", "p95", "p99", "overruns", "mechanism p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    for name, cost in overheads.items():
        mechanism = cost.get("real_ms", {}).get("mechanism", {})
        table.add_row(
            name.removesuffix("_s"),
            str(cost["n"]),
            *(_number(cost[column]) for column in ("mean", "p50", "p95", "p99")),
            str(cost["overruns"]),
            _number(mechanism.get("p50")),
            _number(mechanism.get("p99")),
        )
    return table


def _metrics_table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=f"{summary['repeats']} repeats", title_justify="left")
    table.add_column("metric")
    for name in ("n", "mean", "sd", "95% from", "to"):
        table.add_column(name, justify="right")
    for name, metric in summary["metrics"].items():
        figures = (_number(metric[column]) for column in ("mean", "sd", "ci95_low", "ci95_high"))
        table.add_row(Text(name), str(metric["n"]), *figures)
    return table


def _output_text(output: Mapping[str, Any]) -> Text:
    if output["verified"]:
        return Text(f"verified: {output['keys_written']} keys, the same to the byte as undisturbed", "green")
    return Text(
        f"NOT VERIFIED: {output['keys_written']} of {output['keys_expected']} keys written, {output['keys_lost']} lost,"
        f" {output['keys_duplicated']} duplicated, {_count(output['files_differing'])} files differ",
        "bold red",
    )


def _lag_text(lag: Mapping[str, Any]) -> str:
    return (
        f"p50 {_number(lag['p50_real_ms'])} ms, p99 {_number(lag['p99_real_ms'])} ms real"
        f" ({_number(lag['p99_emulated_s'])} s emulated), worst {_number(lag['max_real_ms'])} ms"
    )


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else value


def _number(value: float | None) -> str:
    """A figure with three or four significant digits, a dash for none."""
    if value is None:
        return "-"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:.{decimals}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


_LEGEND = ((_DONE, "done"), (_RUNNING, "running"), (_SUSPENDED, "suspended"), (_WAITING, "waiting"))
