"""What a campaign shows while it runs, and at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.console import Console, Group
from rich.text import Text

from emulator.campaign.directory import TABLE_NAME
from emulator.campaign.runner import CampaignResult, CampaignStatus
from emulator.display.run_display import render_status, status_line
from emulator.display.work_display import LiveDisplay, in_words, progress_bar
from emulator.vocabulary import counted

_FAILURES_SHOWN = 10
_BAR_LINES = 2


class CampaignDisplay(LiveDisplay):
    """On a terminal a bar, with the current live run below it; elsewhere a line of text every few seconds."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._bar = progress_bar(console, "{task.description}", "{task.fields[told]}")
        self._task = self._bar.add_task("", total=1, told="")

    def update(self, status: CampaignStatus) -> None:
        """Show a newer status."""
        told = f"{status.done} of {counted(status.total, 'run')}"
        if status.failed:
            told += f", {status.failed} failed"
        if status.left_real_s is not None and status.done < status.total:
            told += f", {in_words(status.left_real_s)} left"
        if self._live is not None:
            self._bar.update(self._task, completed=status.done, total=status.total, description=status.phase, told=told)
            rows = [] if status.live is None else [render_status(status.live, self.console.size.height - _BAR_LINES)]
            self._live.update(Group(self._bar, *rows))
        elif self._line_is_due(status.phase, time.monotonic()):
            line = f"{told} | {status.phase}" + (f" | {status_line(status.live)}" if status.live else "")
            self.console.print(line, soft_wrap=True, highlight=False, markup=False)


def closing_lines(result: CampaignResult) -> Iterator[Text]:
    """The last lines of a finished campaign."""
    found = f"; {result.found_done} of them were made before" if result.found_done else ""
    yield Text(f"{counted(len(result.runs), 'run')}{found}")
    for name, why in list(result.set_aside.items())[:_FAILURES_SHOWN]:
        yield Text(f"set aside: {name}: {why}", "bold yellow")
    if len(result.set_aside) > _FAILURES_SHOWN:
        yield Text(f"... and {len(result.set_aside) - _FAILURES_SHOWN} more were set aside", "bold yellow")
    yield from failure_lines(result)
    yield from _disturbed_lines(result)
    yield Text(f"results in {result.directory.path}; a table of all runs: {result.directory.path / TABLE_NAME}")


def failure_lines(result: CampaignResult) -> Iterator[Text]:
    """The runs that failed, up to a limit, and why."""
    for name in list(result.failures)[:_FAILURES_SHOWN]:
        yield Text(f"failed: {name}: {result.failures[name]}", "red")
    if len(result.failures) > _FAILURES_SHOWN:
        yield Text(f"... and {len(result.failures) - _FAILURES_SHOWN} more failed; see the column 'failure'", "red")


def _disturbed_lines(result: CampaignResult) -> Iterator[Text]:
    found = [run.name for run in result.runs if (result.summary(run) or {}).get("disturbed")]
    if found:
        shown = ", ".join(found[:_FAILURES_SHOWN]) + (", ..." if len(found) > _FAILURES_SHOWN else "")
        yield Text(f"disturbed: the machine did not keep up with {len(found)} of them: {shown}", "bold yellow")
