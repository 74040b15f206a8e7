"""Commands of many runs: campaign, reproduce."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from emulator.campaign.plan import Variant


def add_commands(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(campaign)


def campaign(
    file: Annotated[Path, typer.Argument(help="Campaign file (YAML).", show_default=False)],
    engine: Annotated[str | None, typer.Option(help="live or sim; for every run.")] = None,
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second; for every run.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Set any key of the experiments; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for the results [default: runs/NAME]")] = None,
) -> None:
    """Run many experiments: variants and grids of settings, each with several seeds.

    Simulations run on all cores of this machine, or of the Ray cluster at RAY_ADDRESS; live runs one at a time.  A
    campaign that was stopped goes on where it was.  Every run's directory is kept below runs/, and campaign.parquet
    has a row for each run and job.

    \b
    A campaign file:
      name: task-eviction
      experiment: natjam-fig4.yaml           # relative to the campaign's file
      set: {engine: sim}
      grid: {scheduler.task_eviction: [srt, lrt, random], scheduler.mechanism: [checkpoint, kill]}
      variants:                              # beside the grid, or in its place
        - {name: early}
        - {name: late, set: {workload.jobs.1.submit_s: 100}}
      seeds: 50                              # 1 to 50; or a list

    \b
    Examples:
      natjam campaign task-eviction.yaml
      natjam campaign task-eviction.yaml --engine live --time-scale 20 --out live
    """
    from emulator.campaign.definition import load_campaign
    from emulator.campaign.display import CampaignDisplay, closing_lines
    from emulator.campaign.plan import planned_runs
    from emulator.campaign.runner import run_campaign
    from emulator.errors import RunError

    given = {"engine": engine, "time_scale": time_scale}
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    wanted = load_campaign(file, [*(set_ or ()), *options])
    sys.path += map(str, wanted.import_dirs)  # where a user's own policies lie, for every process of the campaign
    _warn_of_calibrations(wanted.variants)
    out = out or Path("runs") / wanted.name
    console = _console()
    with CampaignDisplay(console) as display:
        result = run_campaign(wanted.name, planned_runs(wanted.variants), out, display.update)
    for line in closing_lines(result):
        console.print(line, soft_wrap=True, highlight=False)
    if result.failures:
        raise RunError(f"{len(result.failures)} of {len(result.runs)} runs failed")


def _warn_of_calibrations(variants: tuple[Variant, ...]) -> None:
    """Say what is to be known of the calibrations simulations rest on.  Raises ConfigError where one is missing."""
    from emulator.sim.session import calibration_warning

    rests_on = {
        (variant.experiment.overheads, variant.experiment.calibration): variant.experiment
        for variant in variants
        if variant.experiment.engine == "sim"
    }
    for warning in dict.fromkeys(filter(None, map(calibration_warning, rests_on.values()))):
        typer.echo(f"natjam: warning: {warning}", err=True)


def _console() -> Console:
    """The console on standard output; wide enough for the tables where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=140)
