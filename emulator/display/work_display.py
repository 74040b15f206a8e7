"""The progress of a run, or of other work that takes minutes: on a terminal drawn in place, elsewhere a line of text
every few seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from emulator.display.status import JobStatus, RunStatus
from emulator.vocabulary import Frozen, counted

PLAIN_PERIOD_S = 5.0
"""Real seconds between two lines of text, if there is no terminal."""
_SILENT_S = 1.0
_BAR_CELLS, _BAR_LINES = 30, 2


class LiveDisplay:
    """Something that is drawn in place on a terminal; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last_line_s = float("-inf")
        self._last_phase = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _line_is_due(self, phase: str, now_s: float) -> bool:
        """Whether to print a line, where there is no terminal: the phase is new, or the last line was long before."""
        if phase == self._last_phase and now_s - self._last_line_s < PLAIN_PERIOD_S:
            return False
        self._last_phase, self._last_line_s = phase, now_s
        return True


class WorkStatus(Frozen):
    """The state of the work at one time."""

    part: str
    """What is being done."""
    done: float
    """From 0 to 1."""
    left_real_s: float | None
    """None if not known."""
    counts: str = ""
    """How much is done in numbers, for example "2 of 6 runs"; empty: only the share is known."""
    live: RunStatus | None = None
    """The live run that is under way."""


def progress_bar(console: Console, before: str, after: str) -> Progress:
    """A bar between two texts, which wrap where the terminal is narrow."""
    first, last = (TextColumn(text, table_column=Column(overflow="fold")) for text in (before, after))
    return Progress(first, BarColumn(_BAR_CELLS), last, console=console, transient=True)


class WorkDisplay(LiveDisplay):
    """A context manager around the work: a bar, and below it the live run that is under way."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._bar = progress_bar(console, "{task.description:<12}", "{task.fields[after]}")
        self._task = self._bar.add_task("", total=1.0, after="")

    def update(self, status: WorkStatus) -> None:
        """Show a newer status."""
        left = "" if status.done >= 1 or status.left_real_s is None else f"{in_words(status.left_real_s)} left"
        after = ", ".join(filter(None, (status.counts, left)))
        if self._live is not None:
            self._bar.update(self._task, completed=status.done, description=status.part, after=after)
            rows = [] if status.live is None else [render_status(status.live, self.console.size.height - _BAR_LINES)]
            self._live.update(Group(self._bar, *rows))
        elif self._line_is_due(status.part, time.monotonic()):
            parts = [after, status.part] if status.counts else [f"{100 * status.done:3.0f}%", status.part, left]
            parts += [status_line(status.live)] if status.live else []
            self.console.print(" | ".join(parts), soft_wrap=True, highlight=False, markup=False)


class RunDisplay(LiveDisplay):
    """Shows a run's status.  It may be updated from any one thread."""

    def update(self, status: RunStatus) -> None:
        """Show a newer status."""
        if self._live is not None:
            self._live.update(render_status(status, self.console.size.height))
        elif self._line_is_due(status.phase, status.real_s):
            self.console.print(status_line(status), soft_wrap=True, highlight=False, markup=False)


class ReadingDisplay:
    """Shows how much of some files has been read, after the first second.  A context manager around the reading."""

    def __init__(self, console: Console, part: str, total_bytes: int) -> None:
        self._display = WorkDisplay(console)
        self._part, self._total_bytes = part, total_bytes
        self._read_bytes = 0
        self._start_s = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> ReadingDisplay:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_shown:
            self._display.__exit__(*exception)

    def add(self, count: int) -> None:
        """``count`` more bytes were read."""
        self._read_bytes += count
        passed_s = time.monotonic() - self._start_s
        if passed_s < _SILENT_S or not self._read_bytes:
            return
        if not self._is_shown:
            self._is_shown = True
            self._display.__enter__()
        done = min(1.0, self._read_bytes / max(1, self._total_bytes))
        self._display.update(WorkStatus(self._part, done, passed_s * (1 - done) / done))


def in_words(real_s: float) -> str:
    """A rough duration in words."""
    if real_s < 90:
        return f"{real_s:.0f} s"
    return f"{real_s / 60:.0f} min" if real_s < 5400 else f"{real_s / 3600:.1f} h"


# A run in progress, as a line of text or for a terminal: one bar for each job and one for the cluster's containers.
#
# The bars' segments differ in shape, not only in colour.


BAR_CELLS = 40
"""The length of a bar where there is room for it."""
_FEWEST_CELLS = 12
_Segment = tuple[int, str, str]
"""How many tasks or containers, and the character and style of their cells."""
_DONE, _RUNNING, _SUSPENDED, _WAITING = ("█", "green"), ("▓", "cyan"), ("▒", "yellow"), ("░", "bright_black")
_QUEUE_STYLES = ("magenta", "blue", "cyan", "green")


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
        parts.append(f"{ended} of {counted(len(status.jobs), 'job')} ended")
    parts.append(f"containers {_used(status)}")
    return " | ".join(parts)


def render_status(status: RunStatus, height: int) -> RenderableType:
    """A status for a terminal of ``height`` lines; jobs that do not fit are only counted."""
    lag = "" if status.lag_p99_real_ms is None else f"   lag p99 {status.lag_p99_real_ms:.1f} ms"
    head = Text.assemble(
        (status.phase, "bold"),
        f"   {status.emulated_ns / 1e9:.1f} s emulated at {status.time_scale:g}x   {status.real_s:.1f} s real{lag}",
    )
    shown = _jobs_to_show(status.jobs, max(1, height - 6))
    rows = [_Row(job.name, job.queue, _job_segments(job), job.total, _job_counts(job)) for job in shown]
    if status.containers_total:
        segments, counts = _container_segments(status), _container_counts(status)
        rows.append(_Row("containers", "", segments, status.containers_total, counts))
    hidden, ended = len(status.jobs) - len(shown), sum(job.ended for job in status.jobs)
    more = [] if status.containers_total else [Text(f"containers  {_container_counts(status)}")]
    more += [Text(f"... and {hidden} more jobs; {ended} of {len(status.jobs)} ended")] if hidden else []
    legend = Text.assemble(
        *(part for (cell, style), word in _LEGEND for part in ((cell, style), f" {word}   ")),
        style="bright_black",
    )
    return Group(head, _Bars(rows), *more, legend)


def _jobs_to_show(jobs: tuple[JobStatus, ...], room: int) -> list[JobStatus]:
    """The jobs to show, in their own order.  If not all fit: first running ones, then those to come, then ended."""
    if len(jobs) <= room:
        return list(jobs)

    def rank(index: int) -> tuple[int, int]:
        job = jobs[index]
        if job.ended:
            return 2, -index
        return (1, index) if job.waiting == job.total else (0, index)

    return [jobs[index] for index in sorted(sorted(range(len(jobs)), key=rank)[: room - 1])]


class _Row(Frozen):
    """A bar with its names and figures."""

    name: str
    queue: str
    segments: list[_Segment]
    total: int
    counts: str


class _Bars(Frozen):
    """Rows below each other.  Where they are too wide, first the bars get shorter, then the queues are left out."""

    rows: list[_Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        queues = _widest([row.queue for row in self.rows])
        names, counts = _widest([row.name for row in self.rows]), _widest([row.counts for row in self.rows])
        room = options.max_width - names - counts
        has_queues = room - queues >= _FEWEST_CELLS
        bar_cells = max(_FEWEST_CELLS, min(BAR_CELLS, room - (queues if has_queues else 0)))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=names < options.max_width // 2, overflow="fold")
        for _ in range(3 if has_queues else 2):
            grid.add_column(overflow="fold")
        for row in self.rows:
            queue = [Text(row.queue, "bright_black")] if has_queues else []
            grid.add_row(Text(row.name), *queue, _bar(row.segments, row.total, bar_cells), Text(row.counts))
        yield grid


def _widest(texts: Sequence[str]) -> int:
    """The width of a column, with its padding."""
    return 1 + max((cell_len(text) for text in texts), default=0)


def _job_segments(job: JobStatus) -> list[_Segment]:
    style = {"failed": "red", "killed": "yellow"}.get(job.state, _DONE[1])
    done = (job.done, _DONE[0], style)
    return [done, (job.running, *_RUNNING), (job.suspended, *_SUSPENDED), (job.waiting, *_WAITING)]


def _job_counts(job: JobStatus) -> str:
    if job.ended:
        return "cancelled" if job.state == "killed" else job.state
    suspended = f"  {job.suspended} suspended" if job.suspended else ""
    return f"{job.done}/{job.total} done  {job.running} running{suspended}"


def _container_segments(status: RunStatus) -> list[_Segment]:
    segments = [
        (used, "█▓▒"[index % 3], _QUEUE_STYLES[index % len(_QUEUE_STYLES)])
        for index, (_, used) in enumerate(sorted(status.containers_used_by_queue.items()))
    ]
    free = max(0, status.containers_total - sum(status.containers_used_by_queue.values()))
    return [*segments, (free, "·", "bright_black")]


def _container_counts(status: RunStatus) -> str:
    queues = "  ".join(f"{name} {used}" for name, used in sorted(status.containers_used_by_queue.items()))
    stopped = f"  suspended {status.containers_suspended}" if status.containers_suspended else ""
    return f"{_used(status)}  {queues}{stopped}"


def _used(status: RunStatus) -> str:
    used = sum(status.containers_used_by_queue.values())
    return f"{used}/{status.containers_total}" if status.containers_total else f"{used}"


def _bar(segments: list[_Segment], total: int, bar_cells: int) -> Text:
    """Segments as cells; running sums are rounded, so that the lengths always add up to the bar's."""
    bar, before, end = Text(), 0, 0
    for count, cell, style in segments:
        before += count
        start, end = end, round(bar_cells * min(before, total) / total) if total else 0
        bar.append(cell * (end - start), style)
    return bar


_LEGEND = ((_DONE, "done"), (_RUNNING, "running"), (_SUSPENDED, "suspended"), (_WAITING, "waiting"))
