"""Commands about the machine at hand: doctor and probe."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Out, new_directory
from emulator.display.console import results_console
from emulator.display.tables import names, new_table, words
from emulator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from emulator.live.session.doctor import Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what this machine lacks, and what does not work without it.

    \b
    Examples:
      natjam doctor
      natjam doctor --json
    """
    from emulator.live.session.doctor import examine

    findings = examine()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
        return
    results_console().print(_findings_table(findings))


def _findings_table(findings: Sequence[Finding]) -> Table:
    from rich.text import Text

    table = new_table(None, [*names("what", ""), *words("found", "without it")])
    for finding in findings:
        mark = Text("yes", "green") if finding.works else Text("no", "yellow")
        table.add_row(finding.name, mark, finding.found, finding.without)
    return table


def probe(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The program and its arguments.", show_default=False)
    ],
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="Where to save images; may be repeated [default: the working directory]"),
    ] = None,
    after: Annotated[float, typer.Option(help="Let the program run for this many seconds first.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    out: Out = None,
) -> None:
    """Measure what preempting a program costs here.

    It starts the program, stops it, lets it go on, saves an image of it on each store, restores it, and ends it.

    The table says from which progress on an image is cheaper than killing. probe.json has all figures. Experiments use
    probe.yaml as 'overheads' and 'storage.tier'.

    \b
    Examples:
      natjam probe -- sleep 30
      natjam probe --after 5 -- python workloads/programs/kmeans.py --memory-mb 200 --iterations 1000
      natjam probe --store ssd=/mnt/ssd --store share=/mnt/nfs --json -- ./simulate --input day.bin
    """
    from emulator.display.probe_table import probe_tables
    from emulator.display.work_display import WorkDisplay, WorkStatus
    from emulator.files.whole_files import write_json, written_whole
    from emulator.live.probe.measure import probe as measure

    stores = _stores(store)
    if not 0 < after <= 3600:
        raise ConfigError(f"--after {after:g}: must be above 0 and at most 3600 seconds")
    console = results_console()
    directory = new_directory("probe", out)
    try:
        with WorkDisplay(results_console(stderr=as_json)) as display:
            probed = measure(command, stores, after, lambda part, done: display.update(WorkStatus(part, done, None)))
    except BaseException:
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise
    write_json(directory / "probe.json", probed.to_json())
    with written_whole(directory / "probe.yaml") as unfinished:
        unfinished.write_text(probed.profile())
    if as_json:
        typer.echo(json.dumps(probed.to_json(), indent=1))
        return
    for part in probe_tables(probed):
        console.print(part, soft_wrap=True, highlight=False)
    console.print(f"results in {directory}", soft_wrap=True, highlight=False, markup=False)


def _stores(given: list[str] | None) -> dict[str, Path]:
    stores = {}
    for text in given or ["here=."]:
        name, equals, directory = text.partition("=")
        if not (name and equals and directory):
            raise ConfigError(f"--store {text}: write it as NAME=DIR, for example ssd=/mnt/ssd")
        if name in stores:
            raise ConfigError(f"--store {text}: two stores have the name '{name}'")
        stores[name] = Path(directory)
    return stores
