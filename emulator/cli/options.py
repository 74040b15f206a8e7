"""What several commands ask for in the same way, and the new directory that their results go to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="Set any key of the experiment; may be repeated.")
]
Out = Annotated[Path | None, typer.Option(help="New or empty directory for the results [default: runs/NAME-TIME]")]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="VARIANT", help="The variant that others are compared with [default: the first]"),
]


def new_directory(name: str, out: Path | None) -> Path:
    """Create ``out``, or a directory of this name and the time in ``runs``, for the results of a command.

    Raises ConfigError: it is not empty, or cannot be written.
    """
    from emulator.records.run_directory import RunDirectory

    if out is None:
        stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        names = [stem.name, *(f"{stem.name}-{number}" for number in range(2, 100))]
        out = next(path for path in map(stem.with_name, names) if not path.exists())
    return RunDirectory.create(out).path
