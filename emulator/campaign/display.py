"""What a campaign shows at its end."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from emulator.campaign.directory import TABLE_NAME
from emulator.campaign.runner import CampaignResult
from emulator.vocabulary import counted

_FAILURES_SHOWN = 10


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
