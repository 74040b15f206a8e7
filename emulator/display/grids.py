"""Tables that the terminal and the pages of ``natjam report`` both show: figures, each with its text, in columns.

Those of a run's queues, jobs, groups of tasks and operations are made from its ``summary.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from rich.text import Text

from emulator.display.tables import ALWAYS, Column, FittedTable, Kind, names, new_table, number, numbers, words
from emulator.records import measures
from emulator.records.history import percentiles
from emulator.records.measures import Job, by_queue, ended_well, has_missed, known, mean, shown_state, total
from emulator.vocabulary import Frozen

ONLY_ON_PAGES = -1
"""The importance of columns that the terminal never shows."""
_REASON_CHARACTERS = 48
"""So much of the reason for a job's state stands beside it; ``summary.json`` and the message at the end have all."""
_COLOURS = {"good": "green", "bad": "red"}


class Cell(Frozen):
    """One figure: its exact value, and the text to show."""

    value: float | int | str | None
    text: str
    tone: str = ""
    """``good``, ``bad`` or nothing."""

    def __str__(self) -> str:
        return self.text

    @property
    def is_text(self) -> bool:
        """Whether it is left-aligned, as words are."""
        return isinstance(self.value, str)


class Grid(Frozen):
    """A table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def heads(self) -> list[str]:
        """The heads of all columns."""
        return [str(column.head) for column in self.columns]

    def is_text(self, column: int) -> bool:
        """Whether a column has words."""
        return self.columns[column].kind is not Kind.NUMBER


def text(value: object, tone: str = "") -> Cell:
    """A cell with text."""
    return Cell(str(value), str(value), tone)


def figure(value: float | None, unit: str = "", tone: str = "") -> Cell:
    """A number with three or four significant digits, or a dash for None."""
    if isinstance(value, int):
        return Cell(value, f"{value:,}{unit}", tone)
    return Cell(value, number(value) + (unit if value is not None else ""), tone)


def percent(value: float | None) -> Cell:
    """A share as percent."""
    return Cell(value, "-" if value is None else f"{100 * value:.1f}%")


def on_terminal(title: str, grid: Grid, also_in: str, most: int | None = None) -> FittedTable:
    """The table for the terminal, with ``most`` rows; ``also_in`` is the file or page that has all."""
    shown = [place for place, column in enumerate(grid.columns) if column.importance != ONLY_ON_PAGES]
    table = new_table(title, [grid.columns[place] for place in shown], also_in=also_in)
    for row in grid.rows[:most]:
        table.add_row(*(_coloured(row[place]) for place in shown))
    if most is not None and len(grid.rows) > most:
        table.caption = f"... and {len(grid.rows) - most} more"
    return table


def in_columns(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Grid:
    """The grid of these rows."""
    return Grid(tuple(columns), tuple(map(tuple, rows)))


def _coloured(cell: Cell) -> Text:
    return Text(cell.text, _COLOURS.get(cell.tone, ""))


_OPERATIONS = {"suspend_s": "suspend or save"}
WORK_KEPT = "preempted,\nwork kept"
"""Head of ``suspensions``: evictions that keep the work, by any mechanism (suspend, checkpoint, image)."""
_ATTEMPTS = {"attempts": Column("attempts", Kind.NUMBER, 1)}
_EVICTIONS = {
    "suspensions": Column(WORK_KEPT, Kind.NUMBER, 3),
    "kills": Column("kills", Kind.NUMBER, 3),
    "lost_work_s": Column("lost work, s", Kind.NUMBER, 3),
}
_DEADLINES = {"deadline_s": Column("deadline\nat, s", Kind.NUMBER, 2), "margin_s": Column("margin, s", Kind.NUMBER, 4)}
_OF_JOBS = {
    "name": Column("job", Kind.NAME, ALWAYS),
    "queue": Column("queue", Kind.NAME, 5),
    "state": Column("state", Kind.NAME, ALWAYS),
    "submit_s": Column("submitted\nat, s", Kind.NUMBER, 2),
    "start_s": Column("started\nat, s", Kind.NUMBER, ONLY_ON_PAGES),
    "finish_s": Column("finished\nat, s", Kind.NUMBER, ONLY_ON_PAGES),
    "completion_s": Column("completion, s", Kind.NUMBER, ALWAYS),
    **_DEADLINES,
    **_ATTEMPTS,
    **_EVICTIONS,
}
_OF_GROUPS = {
    "job": Column("job", Kind.NAME, ALWAYS),
    "group": Column("group", Kind.NAME, ALWAYS),
    "tasks": Column("tasks", Kind.NUMBER, 2),
    "succeeded": Column("succeeded", Kind.NUMBER, 2),
    "start_s": Column("begins\nat, s", Kind.NUMBER, 4),
    "finish_s": Column("ends\nat, s", Kind.NUMBER, 4),
    **_ATTEMPTS,
    **_EVICTIONS,
}


def queues_grid(jobs: Sequence[Job]) -> Grid:
    """One row for each queue."""
    columns = [*names("queue"), *numbers("jobs", "failed", "mean completion, s", importance=4)]
    columns += [*numbers("p50", "p95", importance=ONLY_ON_PAGES), *numbers("longest")]
    columns += numbers("deadlines\nmissed", importance=4) if have_deadlines(jobs) else []
    rows = []
    for queue, mine in by_queue(jobs).items():
        completions_s = known(mine, "completion_s")
        row = [text(queue), figure(len(mine)), failed(mine), figure(mean(completions_s))]
        row += map(figure, percentiles(completions_s, (50, 95, 100)))
        row += [missed(mine)] if have_deadlines(jobs) else []
        rows.append([*row, *(figure(total(mine, key)) for key in _EVICTIONS)])
    return in_columns([*columns, *_EVICTIONS.values()], rows)


def jobs_grid(jobs: Sequence[Job]) -> Grid:
    """One row for each job, in this order; deadlines only if one has any."""
    keys = [key for key in _OF_JOBS if key not in _DEADLINES or have_deadlines(jobs)]
    return in_columns([_OF_JOBS[key] for key in keys], [[_job_cell(job, key) for key in keys] for job in jobs])


def _job_cell(job: Job, key: str) -> Cell:
    if key == "state":
        reason = f": {shorten(job['reason'], _REASON_CHARACTERS, placeholder=' ...')}" if job["reason"] else ""
        return Cell(job[key], shown_state(job) + reason, "" if ended_well(job) else "bad")
    if key == "margin_s" and has_missed(job):
        return Cell(None, "missed", "bad") if job[key] is None else figure(job[key], tone="bad")
    return _cell(job[key])


def groups_grid(groups: Sequence[Mapping[str, Any]]) -> Grid:
    """One row for each group of tasks."""
    return in_columns([*_OF_GROUPS.values()], [[_cell(group[key]) for key in _OF_GROUPS] for group in groups])


def waits_grid(waits: Sequence[Mapping[str, Any]]) -> Grid:
    """One row for each time in which a job waited for a reason that its scheduler has named."""
    columns = [*names("job"), *numbers("since, s", "until, s", "waited, s", importance=4), *words("why")]
    rows = []
    for wait in waits:
        until_s = wait["until_s"]
        waited_s = None if until_s is None else until_s - wait["since_s"]
        why = wait["why"].removeprefix(f"{wait['job']}: ")
        rows.append([text(wait["job"]), *map(figure, (wait["since_s"], until_s, waited_s)), text(why)])
    return in_columns(columns, rows)


def _cell(value: Any) -> Cell:
    return text(value) if isinstance(value, str) else figure(value)


def overheads_grid(summary: Mapping[str, Any]) -> Grid:
    """One row for each operation; of a live run with its parts in real time.

    To save a checkpoint or an image is the operation ``suspend`` too (natjam, section 3.1).  ApplicationMasters that
    start in no time have no row: most clusters have none.
    """
    figures, is_live = ("mean", "p50", "p95", "p99"), summary["engine"] == "live"
    columns = [*names("operation"), *numbers("n", "mean, s", importance=4), *numbers("p50", "p95")]
    columns += numbers("p99", importance=3) + (numbers("overruns", importance=3) if is_live else [])
    real = [(part, which) for part in ("heartbeat", "key", "mechanism", "total") for which in ("p50", "p99") if is_live]
    for part, which in real:
        columns += numbers(f"{part}\n{which}, ms", importance=1 if part == "mechanism" else ONLY_ON_PAGES)
    rows = []
    for name, cost in summary["overheads"].items():
        if name == "application_master_start_s" and not cost["mean"]:
            continue
        row = [
            text(_OPERATIONS.get(name, name.removesuffix("_s").replace("_", " "))),
            *(figure(cost[key]) for key in ("n", *figures)),
        ]
        row += [figure(cost["overruns"])] if is_live else []
        rows.append([*row, *(figure(cost["real_ms"][part][which]) for part, which in real)])
    return in_columns(columns, rows)


# ---- figures of several jobs ----


def failed(jobs: Sequence[Job]) -> Cell:
    """How many jobs did not end as they were to."""
    count = measures.failed(jobs)
    return figure(count, tone="bad" if count else "")


def missed(jobs: Sequence[Job]) -> Cell:
    """How many of the jobs with a deadline missed it, as "2 of 5"."""
    count, of = sum(map(has_missed, jobs)), len(known(jobs, "deadline_s"))
    return Cell(count, f"{count:,} of {of:,}") if of else figure(None)


def have_deadlines(jobs: Sequence[Job]) -> bool:
    """Whether any of the jobs has one."""
    return bool(known(jobs, "deadline_s"))
