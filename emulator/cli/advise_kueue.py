"""``natjam advise`` for an imported cluster with Kueue."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer
from rich.text import Text

from emulator.display.console import results_console
from emulator.errors import ConfigError


def advise_kueue(file: Path, out: Path, as_json: bool) -> None:
    """Play days like the cluster's with each minimum runtime; the results are a table and ``advise.json``.

    Raises ConfigError.
    """
    from analysis.advise.kueue import PLAYS, RELEASE_NS, results_of, results_table, words
    from emulator.display.work_display import progress_bar
    from emulator.files.whole_files import write_json
    from workloads.kueue.saved import read_saved

    kueue = read_saved(file)
    if len({arrival.workload.priority for arrival in kueue.arrivals}) < 2:
        raise ConfigError(
            f"{file}: kueue.arrivals: all workloads have one priority, so none is urgent; give natjam import kueue"
            " Workloads, or a table with --arrivals, of several priorities"
        )
    console = results_console(stderr=as_json)
    with progress_bar(console, "playing days", "{task.completed} of {task.total}") as bar:
        task = bar.add_task("", total=PLAYS)
        found = list(results_of(kueue.cluster, kueue.arrivals, lambda: bar.advance(task)))
    lines = [*words(found)]
    facts = {"release_s": RELEASE_NS / 1e9, "ways": msgspec.to_builtins(found), "text": lines}
    write_json(out / "advise.json", facts)
    if as_json:
        typer.echo(msgspec.json.encode(facts).decode())
        return
    console.print(results_table(found))
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"results in {out}"), soft_wrap=True)
