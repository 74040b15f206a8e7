"""The progress of a run, or of other work that takes minutes: on a terminal drawn in place, elsewhere a line of text
every few seconds."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from emulator.display.run_display import render_status, status_line
from emulator.display.status import RunStatus
from emulator.vocabulary import Frozen

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
