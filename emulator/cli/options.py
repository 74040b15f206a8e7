"""What several commands ask for in the same way, such as a trace and its form, and how they show that it is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from emulator.display.console import results_console
from emulator.display.work_display import ReadingDisplay
from emulator.errors import ConfigError

if TYPE_CHECKING:
    from emulator.files.progress import OnBytes

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="Set any key of the experiment; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Fail (exit status 1) if something that decides at the site is not modelled.")
]
Out = Annotated[Path | None, typer.Option(help="New or empty directory for the results [default: runs/NAME-TIME]")]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="VARIANT", help="The variant that others are compared with [default: the first]"),
]


def overrides_of(set_: list[str] | None, **given: object) -> list[str]:
    """All ``--set``, and after them the keys that have options of their own, as ``key=value``; None: not given."""
    return [*(set_ or ()), *(f"{name}={value}" for name, value in given.items() if value is not None)]


def results_path(name: str, out: Path | None) -> Path:
    """``out``, or a new path of this name and the time in ``runs``, for the results of a command."""
    if out is not None:
        return out
    stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    names = [stem.name, *(f"{stem.name}-{number}" for number in range(2, 100))]
    return next(path for path in map(stem.with_name, names) if not path.exists())


def claimed(context: typer.Context, name: str, out: Path | None) -> Path:
    """As ``results_path``, a directory that is new or empty and held until the command ends.

    Raises ConfigError: it is not empty, cannot be written, or another process uses it.
    """
    from emulator.files.whole_files import claimed_directory

    path = results_path(name, out)
    context.with_resource(claimed_directory(path))
    return path


_OUTPUTS = ("out", "json", "png", "write")
"""Parameters of commands that name what is written; all other paths are read."""


class Command(TyperCommand):
    """A command that refuses to write over what it reads, before it does anything."""

    def invoke(self, ctx: Any) -> Any:
        given = {name: value if isinstance(value, list | tuple) else [value] for name, value in ctx.params.items()}
        paths = [(name, path) for name, values in given.items() for path in values if isinstance(path, Path)]
        inputs = [path for name, path in paths if name not in _OUTPUTS]
        for name, out in paths:
            if name in _OUTPUTS and (read := next((path for path in inputs if _is_read(path, out)), None)) is not None:
                where = f"is in {read}, which" if read.is_dir() else "is a file that"
                raise ConfigError(f"{out}: {where} the command reads; write to another file")
        return super().invoke(ctx)


def _is_read(path: Path, out: Path) -> bool:
    """Whether ``out`` is the file ``path``, under any name, or a file in the directory ``path``."""
    try:
        return out.is_file() and (
            out.samefile(path) or (path.is_dir() and out.resolve().is_relative_to(path.resolve()))
        )
    except OSError:
        return False


_FORMATS = "swim, rumen, sls, synth, swf, google, yarn, table (CSV, Parquet) or natjam"

Format = Annotated[str | None, typer.Option("--format", help=f"{_FORMATS} [default: by its name and content]")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=COLUMN,...",
        help="Of CSV or Parquet: where submit, length, tasks ... are; may be repeated.",
    ),
]


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Column by field, of ``--columns submit=Submit,length=Elapsed``.  Raises ConfigError."""
    from workloads.columns import field_and_unit

    found: dict[str, str] = {}
    for text in ",".join(given or ()).split(","):
        field, equals, column = text.partition("=")
        if not text:
            continue
        if not equals or not column:
            raise ConfigError(f"--columns {text}: write FIELD=COLUMN, as in submit=Submit")
        try:
            field_and_unit(field.strip())
        except ValueError as error:
            raise ConfigError(f"--columns {text}: {error}") from None
        if field.strip() in found:
            raise ConfigError(f"--columns {text}: {field.strip()} is given twice; keep one")
        found[field.strip()] = column.strip()
    return found


@contextlib.contextmanager
def reading(file: Path, *others: Path) -> Iterator[OnBytes]:
    """Shows the progress of reading files, in bytes, on standard error."""
    parts = [part for path in (file, *others) for part in (path.rglob("*") if path.is_dir() else [path])]
    total = sum(path.stat().st_size for path in parts if path.is_file())
    with ReadingDisplay(results_console(stderr=True), f"reading {file.name}", total) as display:
        yield display.add


def format_of(file: Path, given: str | None) -> Any:
    """The format of a trace, as given or guessed.  Raises ConfigError."""
    from typing import get_args

    from emulator.files.problems import suggestion
    from workloads.importers import guess_format
    from workloads.schema import Format as Known

    if not file.exists():
        raise ConfigError(f"{file}: there is no such file")
    known = get_args(Known)
    name = given or guess_format(file)
    if name is None:
        raise ConfigError(f"{file}: its format is not clear from name or content; give --format: {_FORMATS}")
    if name not in known:
        raise ConfigError(f"--format {name}: must be {_FORMATS}{suggestion(name, known)}")
    return name
