"""The progress of work that takes minutes: on a terminal a bar, elsewhere a line of text every few seconds."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from emulator.display.run_display import PLAIN_PERIOD_S
from emulator.vocabulary import Frozen

_SILENT_S = 1.0
_BAR_CELLS = 30


class WorkStatus(Frozen):
    """The state of the work at one time."""

    part: str
    """What is being done."""
    done: float
    """From 0 to 1."""
    left_real_s: float | None
    """None if not known."""


def progress_bar(console: Console, before: str, after: str) -> Progress:
    """A bar between two texts, which wrap where the terminal is narrow."""
    first, last = (TextColumn(text, table_column=Column(overflow="fold")) for text in (before, after))
    return Progress(first, BarColumn(_BAR_CELLS), last, console=console, transient=True)


class WorkDisplay:
    """A context manager around the work."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_line_s = float("-inf")
        self._last_part = ""
        self._bar = (
            progress_bar(console, "{task.description:<12}", "{task.fields[left]}") if console.is_terminal else None
        )
        self._task = None if self._bar is None else self._bar.add_task("", total=1.0, left="")

    def __enter__(self) -> WorkDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, status: WorkStatus) -> None:
        """Show a newer status."""
        left = "" if status.done >= 1 or status.left_real_s is None else f"{in_words(status.left_real_s)} left"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=status.done, description=status.part, left=left)
        elif status.part != self._last_part or time.monotonic() - self._last_line_s >= PLAIN_PERIOD_S:
            self._last_part, self._last_line_s = status.part, time.monotonic()
            self._console.print(f"{100 * status.done:3.0f}% | {status.part} | {left}", highlight=False)


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
