"""Commands of natjam in this process, as a user would give them."""

from __future__ import annotations

import sys

from typer.testing import CliRunner, Result

from emulator.cli.main import app


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
