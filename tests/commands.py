"""Commands of natjam in this process, as a user would give them."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

from rich.console import Console, RenderableType
from typer.testing import CliRunner, Result

from emulator.cli.main import app
from emulator.files.whole_files import is_held


def displayed(*parts: RenderableType, width: int = 120, terminal: bool = True) -> str:
    """What a terminal of this width shows of them."""
    console = Console(file=io.StringIO(), width=width, record=True, force_terminal=terminal, _environ={})
    for part in parts:
        console.print(part)
    return console.export_text()


def invoked(*arguments: object) -> Result:
    """How the command ends.  What it adds to the import path, such as the experiment's folder, is taken off again."""
    path = [*sys.path]
    try:
        return CliRunner().invoke(app, [str(each) for each in arguments])
    finally:
        sys.path[:] = path


def run_natjam(*arguments: object, status: int = 0) -> Result:
    """The same of a command that must end with this exit status."""
    done = invoked(*arguments)
    assert done.exit_code == status, done.output
    return done


def held_while_told(directory: Path, *arguments: object) -> list[bool]:
    """Runs a command that ends well; whether it held its directory, at each time when it wrote to standard output."""
    found: list[bool] = []

    class Told(io.StringIO):
        def write(self, text: str, /) -> int:
            found.append(is_held(directory))
            return super().write(text)

    path = [*sys.path]
    try:
        with contextlib.redirect_stdout(Told()):
            app([str(each) for each in arguments], standalone_mode=False)
    finally:
        sys.path[:] = path
    return found
