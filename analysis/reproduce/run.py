"""Makes the runs for figures, as one campaign, and compares the results with the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from analysis.fidelity.figures import Fidelity, compare
from analysis.papers.cells import own_cells
from analysis.reproduce.claims import all_claims
from analysis.reproduce.counted import COUNTED
from analysis.reproduce.definitions import FigureDefinition, catalog_path
from analysis.reproduce.measure import measure
from analysis.reproduce.reproduced import Reproduced, Reproduction
from analysis.reproduce.verdict import judge
from analysis.whole_run import run_experiment
from emulator.campaign.definition import as_overrides
from emulator.campaign.directory import CampaignDirectory, PlannedRun, Variant, planned_runs
from emulator.campaign.runner import run_campaign
from emulator.costs.calibration_file import chosen_path
from emulator.display.work_display import WorkStatus
from emulator.engine import OnStatus
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment

LIVE_REPEATS = 5
ROUNDS = {"sim": (2, 5, 20), "live": (1, 3)}
"""How many seeds of each figure the first rounds of a reproduction have, by engine; the last one has all."""
LONG_WORK_REAL_S = 60.0
"""Work that takes less is done in one round."""
_SIMULATED = "-simulated"


def planned(
    figures: Sequence[FigureDefinition], engine: str, time_scale: float | None, quick: bool
) -> dict[str, list[Variant]]:
    """The variants of every figure, with their experiments.  Raises ConfigError."""
    found = {}
    for figure in figures:
        scale = figure.time_scale or time_scale
        options = [f"engine={engine}", *([] if scale is None else [f"time_scale={scale}"])]
        seeds = tuple(range(1, _repeats(figure, engine, quick) + 1))
        found[figure.id] = [
            Variant(
                f"{figure.id.replace('/', '-')}-{name}",
                load_experiment(path, [*options, *as_overrides(settings)]),
                seeds,
            )
            for path in ([] if figure.experiment is None else [catalog_path(figure)])
            for name, settings in figure.settings.items()
        ]
    return found


def at_most_seeds(variants: Mapping[str, Sequence[Variant]], seeds: int | None) -> dict[str, list[Variant]]:
    """The variants with the first ``seeds`` of each one's seeds; null: all of them."""
    return {figure: [replace(one, seeds=one.seeds[:seeds]) for one in found] for figure, found in variants.items()}


def rounds_of(variants: Mapping[str, Sequence[Variant]], engine: str, real_s: float) -> list[int]:
    """How many seeds of each figure every round has, in order.

    A reproduction that takes long goes in rounds, so that there is a whole page early; each makes only the runs that
    the one before has not made.

    Args:
        variants: of all figures, with all their seeds.
        engine: sim or live.
        real_s: about how long all runs take, in real seconds.
    """
    most = max((len(variant.seeds) for found in variants.values() for variant in found), default=1)
    return [seeds for seeds in (ROUNDS[engine] if real_s > LONG_WORK_REAL_S else ()) if seeds < most] + [most]


def run_counts(figures: Sequence[FigureDefinition], engine: str, quick: bool) -> dict[str, int]:
    """How many runs each figure needs."""
    return {
        figure.id: 0 if figure.counted else len(figure.settings) * _repeats(figure, engine, quick) for figure in figures
    }


def _repeats(figure: FigureDefinition, engine: str, quick: bool) -> int:
    if engine == "sim":
        repeats = figure.sim_repeats or 0
        return min(repeats, ROUNDS["sim"][0]) if quick else repeats
    if quick:
        repeats = None if figure.quick is None else figure.quick.live_repeats
        return repeats or ROUNDS["live"][0]
    return figure.live_repeats or LIVE_REPEATS


def reproduce(
    figures: Sequence[FigureDefinition],
    variants: Mapping[str, Sequence[Variant]],
    engine: str,
    directory: CampaignDirectory,
    on_status: Callable[[WorkStatus], None],
) -> Reproduction:
    """Make the missing runs and measure every cell.

    Args:
        figures: figures that ``engine`` can run.
        variants: from ``planned``.
        engine: sim or live.
        directory: held by the caller; see ``run_campaign``.
        on_status: as for ``run_campaign``.

    Raises:
        ConfigError, RunError: as ``run_campaign``.
    """
    runs = {figure.id: planned_runs(variants[figure.id]) for figure in figures}
    simulated = {
        figure.id: [_as_simulation(run) for run in runs[figure.id] if _can_be_simulated(run)]
        for figure in figures
        if "sim" in figure.engines
    }
    made = directory.made()
    first: dict[str, PlannedRun] = {}
    """The same run may serve several figures: it is made once, by the name it has in the first, now or before."""
    for run in (run for found in [*runs.values(), *simulated.values()] for run in found):
        first.setdefault(run.sha256, replace(run, variant=made.get(run.sha256, run.variant)))
    campaign = run_campaign("reproduce", list(first.values()), directory, run_one, on_status)
    summaries = {sha256: campaign.summary(run) for sha256, run in first.items()}
    found = []
    for figure in figures:
        made = _counted(figure) if figure.counted else _made(figure, runs[figure.id], first, summaries)
        beside = _made(figure, simulated.get(figure.id, ()), first, summaries)
        found.append(_reproduced(figure, made, beside, engine))
    return Reproduction(engine, tuple(found), campaign)


def run_one(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Make one run.  Of a simulation only the summary is kept, because figures need thousands of them; one that fails
    is made once more, with all files that show why."""
    if experiment.engine == "live":
        return run_experiment(experiment, out_dir, on_status)
    from emulator.run import run_briefly

    try:
        return run_briefly(experiment, out_dir, on_status)
    except RunError:
        return run_experiment(experiment, out_dir, on_status)


def _can_be_simulated(run: PlannedRun) -> bool:
    """Whether it is live, and this machine has been measured if its overheads are the machine's own."""
    if run.experiment.engine != "live":
        return False
    try:
        chosen_path(run.experiment.overheads, run.experiment.calibration)
    except ConfigError:
        return False
    return True


def _as_simulation(run: PlannedRun) -> PlannedRun:
    return replace(
        run, variant=run.variant + _SIMULATED, experiment=run.experiment.model_copy(update={"engine": "sim"})
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """Existing runs of a figure and their summaries, by variant and seed."""

    runs: dict[str, dict[int, PlannedRun]]
    summaries: dict[str, dict[int, Mapping[str, Any]]]


def _made(
    figure: FigureDefinition,
    runs: Sequence[PlannedRun],
    first: Mapping[str, PlannedRun],
    summaries: Mapping[str, Mapping[str, Any] | None],
) -> _Made:
    made = _Made({}, {})
    for run in runs:
        variant, seed = run.variant[len(figure.id) + 1 :].removesuffix(_SIMULATED), run.experiment.seed
        summary = summaries[run.sha256]
        if summary is not None:
            made.runs.setdefault(variant, {})[seed] = first[run.sha256]
            made.summaries.setdefault(variant, {})[seed] = summary
    return made


def _counted(figure: FigureDefinition) -> _Made:
    assert figure.counted is not None
    return _Made({}, {variant: dict(COUNTED[figure.counted]()) for variant in figure.variants})


def _reproduced(figure: FigureDefinition, made: _Made, simulated: _Made, engine: str) -> Reproduced:
    claims = all_claims()
    cells = measure(figure, made.summaries, claims, own_cells(figure, made.summaries))
    beside = measure(figure, simulated.summaries, claims, own_cells(figure, simulated.summaries))
    verdicts = judge(figure, cells, claims, engine)
    return Reproduced(
        definition=figure,
        engine=engine,
        cells=cells,
        verdicts=verdicts,
        runs=made.runs,
        summaries=made.summaries,
        simulated=beside if simulated.runs else {},
        fidelity=_fidelity(made, simulated),
    )


def _fidelity(made: _Made, simulated: _Made) -> Fidelity:
    files = []
    for variant, live in made.summaries.items():
        beside = simulated.summaries.get(variant, {})
        if seeds := [seed for seed in live if seed in beside]:
            experiment = made.runs[variant][seeds[0]].experiment
            files.append(compare(variant, experiment, [live[n] for n in seeds], [[beside[n]] for n in seeds]))
    return Fidelity(tuple(files))
