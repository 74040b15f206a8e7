"""The command ``natjam fidelity``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Set, overrides_of
from emulator.display.console import results_console, warn
from emulator.display.work_display import WorkDisplay, in_words
from emulator.errors import ConfigError, RunError

if TYPE_CHECKING:
    from analysis.fidelity.campaign import Case
    from emulator.experiment.model import Experiment


def fidelity(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="Experiment files (YAML).", show_default=False)] = None,
    figures: Annotated[
        list[str] | None,
        typer.Option("--figure", metavar="ID", help="The experiments of a figure, as natjam/fig4; may be repeated."),
    ] = None,
    random: Annotated[int, typer.Option(min=0, max=1000, help="Add this many experiments drawn at random.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the experiments drawn at random.")] = 1,
    time_scale: Annotated[
        float | None, typer.Option(help="Emulated seconds per real second [default: the files'; 10 for random ones].")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Live runs of each experiment: with one seed, or with a new seed each where a policy draws at random "
            "[default: 1; 5 where a policy draws].",
        ),
    ] = None,
    time_scales: Annotated[
        str | None, typer.Option(help="Several, as in 1,5,20: show how results drift as time is compressed.")
    ] = None,
    set_: Set = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if the two are further apart than the limits allow.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="New or empty directory, or one of an earlier comparison to continue [default: runs/fidelity-TIME]"
        ),
    ] = None,
) -> None:
    """Run experiments live and simulated and compare the results.

    It also says how far live runs differ from each other.

    Simulations use this machine's calibration: run 'natjam measure' first.  To continue a comparison that was stopped,
    give its directory again.

    \b
    Examples:
      natjam fidelity mine.yaml --time-scale 10
      natjam fidelity --figure natjam/fig4 --figure natjam/fig5 --random 10 --time-scale 10 --out fidelity
      natjam fidelity mine.yaml --time-scales 1,5,20,50,100
    """
    from analysis.fidelity import report
    from analysis.fidelity.campaign import comparison, noise, run_live, simulate
    from analysis.fidelity.figures import Fidelity, drifts
    from emulator.campaign.directory import CampaignDirectory
    from emulator.sim.session import calibration_warning

    began_real_s = time.monotonic()
    scales = _time_scales(time_scale, time_scales)
    named = _experiments(files or [], overrides_of(set_, time_scale=time_scale))
    named += experiments_of_figures(figures or [], time_scale) + _random_experiments(random, seed, time_scale)
    cases = _cases(unlike(named), scales, repeats)
    directory = out or Path("runs") / f"fidelity-{datetime.now():%Y%m%d-%H%M%S}"
    for warning in sorted({warning for case in cases if (warning := calibration_warning(case.experiment))}):
        warn(warning)
    console = results_console()
    held = context.with_resource(CampaignDirectory(directory).held())
    with WorkDisplay(console) as display:
        live = run_live(cases, held, display.update)
    with WorkDisplay(console) as display:
        simulated = simulate(cases, display.update)
    found = []
    for case, lived, summaries in zip(cases, live, simulated, strict=True):
        if disturbed := noise(case, lived):
            warn(disturbed)
        found.append(comparison(case, lived, summaries))
        console.print(report.file_table(found[-1]))
    whole = Fidelity(tuple(found))
    drift = drifts(found) if scales else []
    report.write_report(whole, drift, directory)
    console.print(report.choices_table(whole))
    for part in [*report.closing_lines(whole), *(report.drift_tables(drift) if drift else [])]:
        console.print(part, soft_wrap=True, highlight=False)
    took = in_words(time.monotonic() - began_real_s)
    console.print(f"took {took}; results in {directory}", soft_wrap=True, highlight=False)
    if strict and whole.missed:
        raise RunError("the engines are further apart than the limits allow: " + "; ".join(whole.missed))


def _experiments(files: list[Path], settings: list[str]) -> list[tuple[str, Experiment]]:
    """Name and experiment of each file."""
    from emulator.experiment.load import load_experiment

    found = [(file.stem, load_experiment(file, settings)) for file in files]
    for file in files:
        sys.path.append(str(file.parent.absolute()))  # the user's own policies are found here
    return found


def experiments_of_figures(ids: list[str], time_scale: float | None) -> list[tuple[str, Experiment]]:
    """Name and experiment of each variant of the papers' figures.  Raises ConfigError: there is no such figure."""
    from analysis.reproduce.definitions import chosen_figures
    from analysis.reproduce.run import planned

    figures = [figure.by("live") for figure in chosen_figures(ids)]
    variants = planned(figures, "live", time_scale, quick=True).values()
    return [(variant.name, variant.experiment) for of_figure in variants for variant in of_figure]


def _random_experiments(random: int, seed: int, time_scale: float | None) -> list[tuple[str, Experiment]]:
    from analysis.fidelity.random_experiments import random_experiments

    update = {} if time_scale is None else {"time_scale": time_scale}
    return [(drawn.name, drawn.model_copy(update=update)) for drawn in random_experiments(random, seed)]


def unlike(named: list[tuple[str, Experiment]]) -> list[tuple[str, Experiment]]:
    """The experiments without duplicates: figures can share one.  Raises ConfigError: none, or two of one name."""
    from emulator.experiment.model import dump_experiment

    if not named:
        raise ConfigError("nothing to compare: name experiment files or a --figure, or say how many to draw --random")
    found: dict[str, tuple[str, Experiment]] = {}
    for name, experiment in named:
        found.setdefault(dump_experiment(experiment), (name, experiment))
    names = [name for name, _ in found.values()]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two experiments are called {twice}: rename a file")
    return list(found.values())


def _cases(named: Iterable[tuple[str, Experiment]], scales: list[float], repeats: int | None) -> list[Case]:
    from analysis.fidelity.campaign import make_case

    cases = []
    for name, experiment in named:
        for scale in scales or [experiment.time_scale]:
            label = f"{name}-{scale:g}x" if scales else name
            cases.append(make_case(name, label, experiment.model_copy(update={"time_scale": scale}), repeats))
    return cases


def _time_scales(time_scale: float | None, several: str | None) -> list[float]:
    if several is None:
        return []
    if time_scale is not None:
        raise ConfigError("--time-scale and --time-scales: give one of them")
    try:
        scales = sorted({float(part) for part in several.split(",")})
    except ValueError:
        scales = []
    if len(scales) < 2 or not all(0 < scale <= 1e6 for scale in scales):
        raise ConfigError(f"--time-scales {several}: give two or more numbers above 0, as in 1,5,20")
    return scales
