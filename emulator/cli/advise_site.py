"""``natjam advise`` for a site of Slurm."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer
from rich.text import Text

from emulator.display.console import results_console
from emulator.errors import ConfigError


def advise_site(file: Path, out: Path, as_json: bool) -> None:
    """Play the site's jobs under each way to preempt; the results are a table, ``advise.json`` and ``advise.png``.

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
    from emulator.display.work_display import progress_bar
    from emulator.files.whole_files import write_json
    from workloads.slurm.saved import read_saved

    site = read_saved(file)
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
    console = results_console(stderr=as_json)
    found = []
    with progress_bar(console, "playing {task.description}", "{task.completed} of {task.total} ways") as bar:
        task = bar.add_task("", total=len(chosen))
        for candidate in chosen:
            bar.update(task, description=f"{len(site.jobs):,} jobs, {candidate.mode}")
            found.append(result_of(candidate, site.jobs))
            bar.advance(task)
    lines = [*words(found)]
    facts = {"urgent": sorted(urgent), "ways": msgspec.to_builtins(found), "text": lines}
    write_json(out / "advise.json", facts)
    style.save(results_figure(found), [out / "advise.png"])
    if as_json:
        typer.echo(msgspec.json.encode(facts).decode())
        return
    console.print(Text(f"urgent: the jobs of {called}"), soft_wrap=True)
    console.print(results_table(found))
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"results in {out}; the picture: {out / 'advise.png'}"), soft_wrap=True)
