"""``natjam import``: make experiments from other systems' configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.display.console import results_console, say
from emulator.display.tables import new_table, words
from emulator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from workloads.yarn.settings import LeftOut


group = typer.Typer(help="Make an experiment from another system's own files.", rich_markup_mode=None)


@group.callback(no_args_is_help=True)
def _import() -> None:
    """Make an experiment from another system's own files."""


@group.command()
def yarn(
    out: Annotated[Path, typer.Option(help="Experiment file to write (YAML).", show_default=False)],
    site: Annotated[Path | None, typer.Option(help="yarn-site.xml: nodes, heartbeats, preemption.")] = None,
    scheduler: Annotated[Path | None, typer.Option(help="capacity-scheduler.xml: queues.")] = None,
    fair: Annotated[Path | None, typer.Option(help="fair-scheduler.xml: queues of the FairScheduler.")] = None,
    apps: Annotated[
        Path | None,
        typer.Option(help="Applications: the ResourceManager's answer (/ws/v1/cluster/apps), or a Rumen trace."),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes; it is in none of the files.", min=1)] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken applications.")] = False,
) -> None:
    """Make an experiment from YARN's configuration files.

    It takes over queues, preemption, nodes, heartbeats and applications.

    Settings that could not be carried over are listed, on the terminal and at the head of the written file.
    Applications are written beside it, as FILE.jobs.jsonl.

    \b
    Examples:
      natjam import yarn --site yarn-site.xml --scheduler capacity-scheduler.xml --nodes 40 --out mine.yaml
      curl -s http://rm:8088/ws/v1/cluster/apps > apps.json
      natjam import yarn --site yarn-site.xml --scheduler capacity-scheduler.xml --apps apps.json --out mine.yaml
    """
    from emulator.cli.workload import reading
    from workloads.yarn.experiment import Sources, import_yarn, write_import

    if scheduler is None and fair is None:
        raise ConfigError("name the queues' file: --scheduler capacity-scheduler.xml or --fair fair-scheduler.xml")
    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--out {out}: must be a file ending in .yaml")
    sources = Sources(site, scheduler, fair, apps, nodes, lenient)
    name = "".join(c if c.isalnum() and c.isascii() else "-" for c in out.stem).strip("-")[:100] or "yarn"
    if apps is None:
        imported = import_yarn(sources, name)
    else:
        with reading(apps) as on_bytes:
            imported = import_yarn(sources, name, on_bytes)
    write_import(imported, sources, out)
    for title, notes in (("assumed", imported.assumed), ("not carried over", imported.left_out)):
        if notes:
            results_console().print(_notes_table(title, notes))
    jobs = f"{len(imported.applications.jobs):,} jobs" if imported.applications else "an example job for each queue"
    say(f"{out}: {jobs}, {len(imported.left_out)} settings not carried over")


def _notes_table(title: str, notes: Sequence[LeftOut]) -> Table:
    table = new_table(title, words("setting", "value", "why", "where"))
    for note in notes:
        table.add_row(*note.shown())
    return table
