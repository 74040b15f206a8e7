"""What goes to the terminal: tables and lines, in which nothing can disturb it, whatever names and paths hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from emulator.errors import printable


class _SafeConsole(Console):
    """Escapes what is not printable in all that it is given; its own colours and movements stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable_lines(text), style)


_NO_TERMINAL_WIDTH = 1000


def results_console(stderr: bool = False) -> Console:
    """Standard output, or standard error.  If it is not a terminal, every table fits with all its columns."""
    stream = sys.stderr if stderr else sys.stdout
    return _SafeConsole(stderr=stderr, width=None if stream.isatty() else _NO_TERMINAL_WIDTH)


def say(text: str, *, error: bool = False) -> None:
    """Print one line to standard output, or standard error; the end of a line in a name is escaped, too."""
    typer.echo(printable(text), err=error)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"natjam: warning: {text}", error=True)


def printable_lines(text: str) -> str:
    """The text with all unprintable characters escaped, but for the ends of its lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
