"""``natjam advise`` for an imported cluster: a site of Slurm, or a cluster with Kueue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich.text import Text

from emulator.display.console import results_console
from emulator.display.work_display import progress_bar
from emulator.errors import ConfigError
from emulator.files.whole_files import write_json
from emulator.vocabulary import counted
from workloads.saved import read_saved

if TYPE_CHECKING:
    from emulator.display.tables import FittedTable


def advise_slurm(file: Path, out: Path, as_json: bool) -> None:
    """Play a site's jobs under each way to preempt; the results are a table, ``advise.json`` and a picture.

    Raises ConfigError.
    """
    from analysis.advise.slurm import (
        is_urgent,
        result_of,
        results_figure,
        results_table,
        site_candidates,
        urgent_names,
        words,
    )
    from analysis.figures import style
    from emulator.sites.slurm import Slurm

    site = read_saved(file, Slurm)
    urgent = urgent_names(site.cluster)
    why = "may preempt others, and nobody them" if site.cluster.qos else "the highest PriorityTier"
    called = f"{', '.join(sorted(urgent))} ({why})"
    sides = {is_urgent(job, site.cluster) for job in site.jobs}
    if sides != {True, False}:
        missing = "urgent" if True not in sides else "other"
        raise ConfigError(
            f"{file}: slurm.jobs: there are no {missing} jobs (urgent: those of {called}); give natjam import slurm a"
            " table with --sacct that has both"
        )
    chosen = [*site_candidates(site.cluster)]
    found = []
    with progress_bar(
        results_console(stderr=as_json), "playing {task.description}", "{task.completed} of {task.total} ways"
    ) as bar:
        task = bar.add_task("", total=len(chosen))
        for candidate in chosen:
            bar.update(task, description=f"{counted(len(site.jobs), 'job')}, {candidate.mode}")
            found.append(result_of(candidate, site.jobs))
            bar.advance(task)
    facts = {"urgent": sorted(urgent), "ways": msgspec.to_builtins(found), "text": [*words(found)]}
    style.save(results_figure(found), [out / "advise.png"])
    heads = [f"urgent: the jobs of {called}"]
    _tell(out, as_json, facts, heads, results_table(found), f"; the picture: {out / 'advise.png'}")


def advise_kueue(file: Path, out: Path, as_json: bool) -> None:
    """Play days like the cluster's with each minimum runtime; the results are a table and ``advise.json``.

    Raises ConfigError.
    """
    from analysis.advise.kueue import PLAYS, RELEASE_NS, results_of, results_table, words
    from emulator.sites.kueue import Kueue

    kueue = read_saved(file, Kueue)
    if len({arrival.workload.priority for arrival in kueue.arrivals}) < 2:
        raise ConfigError(
            f"{file}: kueue.arrivals: all workloads have one priority, so none is urgent; give natjam import kueue"
            " Workloads, or a table with --arrivals, of several priorities"
        )
    with progress_bar(results_console(stderr=as_json), "playing days", "{task.completed} of {task.total}") as bar:
        task = bar.add_task("", total=PLAYS)
        found = list(results_of(kueue.cluster, kueue.arrivals, lambda: bar.advance(task)))
    facts = {"release_s": RELEASE_NS / 1e9, "ways": msgspec.to_builtins(found), "text": [*words(found)]}
    _tell(out, as_json, facts, [], results_table(found))


def _tell(
    out: Path, as_json: bool, facts: dict[str, Any], heads: Sequence[str], table: FittedTable, and_where: str = ""
) -> None:
    """Write ``advise.json``; print it, or the table between lines."""
    write_json(out / "advise.json", facts)
    if as_json:
        typer.echo(msgspec.json.encode(facts).decode())
        return
    console = results_console()
    for line in heads:
        console.print(Text(line), soft_wrap=True)
    console.print(table)
    for line in (*facts["text"], f"results in {out}{and_where}"):
        console.print(Text(line), soft_wrap=True)
