"""Commands of many runs: campaign, reproduce."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace
from rich.text import Text

from emulator.cli import detached
from emulator.cli.options import Baseline, Set, overrides_of
from emulator.display.console import results_console, say, warn
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.report.variants import VariantRuns
    from analysis.reproduce.definitions import FigureDefinition
    from analysis.reproduce.record import Results
    from analysis.reproduce.reproduced import Reproduction
    from emulator.campaign.directory import Variant
    from emulator.campaign.runner import CampaignResult
    from emulator.display.work_display import WorkDisplay, WorkStatus

_FAILURES_SHOWN = 10


def campaign(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Campaign file (YAML).", show_default=False)],
    engine: Annotated[str | None, typer.Option(help="live or sim; for every run.")] = None,
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second; for every run.")] = None,
    set_: Set = None,
    baseline: Baseline = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Make all runs of a variant, also after one that did not finish.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Directory for the results [default: runs/NAME]")] = None,
    detach: detached.Detach = False,
    cluster: detached.RunOnCluster = None,
) -> None:
    """Run variants and grids of an experiment with several seeds.

    Simulations run on all cores of this machine, or of the Ray cluster at RAY_ADDRESS.  Live runs run one at a time.
    To continue a campaign that was stopped, give the same command again.  Every run's directory is kept below runs/,
    and campaign.parquet has a row for each run and job.  Once a run did not finish, as with a policy that raises an
    error, no further run of its variant is made.

    \b
    A campaign file:
      name: task-eviction
      experiment: natjam-fig4.yaml           # relative to the campaign's file
      set: {engine: sim}
      grid: {scheduler.task_eviction: [srt, lrt, random], scheduler.mechanism: [checkpoint, kill]}
      variants:                              # with the grid, or without one
        - {name: early}
        - {name: late, set: {workload.jobs.1.submit_s: 100}}
      seeds: 50                              # 1 to 50; or a list

    \b
    Examples:
      natjam campaign task-eviction.yaml
      natjam campaign task-eviction.yaml --baseline kill      # the others minus this one, seed by seed
      natjam campaign task-eviction.yaml --engine live --time-scale 20 --out live
      natjam campaign task-eviction.yaml --cluster cluster.yaml
    """
    from analysis.report.variants import baseline_among
    from analysis.whole_run import run_experiment
    from emulator.campaign.definition import load_campaign
    from emulator.campaign.directory import CampaignDirectory, planned_runs
    from emulator.campaign.runner import run_campaign
    from emulator.display.work_display import WorkDisplay
    from emulator.errors import RunError

    settings = overrides_of(set_, engine=engine, time_scale=time_scale)
    sys.path.append(str(file.parent.absolute()))  # so that every process of the campaign finds the user's own policies
    wanted = load_campaign(file, settings)
    sys.path += map(str, wanted.import_dirs)
    if baseline is not None:
        baseline_among(baseline, [variant.name for variant in wanted.variants])
    out = out or Path("runs") / wanted.name
    if detach or cluster is not None:
        again = [f"--set={setting}" for setting in settings]
        again += [] if baseline is None else [f"--baseline={baseline}"]
        again += ["--keep-going"] if keep_going else []
        detached.start("campaign", file, out, again, cluster, detach)
        return
    _warn(wanted.variants)
    console = results_console()
    directory, runs = context.with_resource(CampaignDirectory(out).held()), planned_runs(wanted.variants)
    directory.refuse_others(runs)
    with WorkDisplay(console) as display:
        result = run_campaign(wanted.name, runs, directory, run_experiment, display.update, keep_going=keep_going)
    _print_variants(console, _with_summaries(result), baseline)
    for line in _closing_lines(result):
        console.print(line, soft_wrap=True, highlight=False)
    if result.failures:
        raise RunError(f"{len(result.failures)} of {len(result.runs)} runs failed")


def reproduce(
    context: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Figures, as in natjam/fig4; papers; or all.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="sim or live [default: sim where a figure can be simulated]", show_default=False)
    ] = None,
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second, of live runs.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first round alone: 2 seeds simulated, one live (os-assisted: 3).")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="At most this many seeds of each figure.", show_default=False)
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="As large as the paper's, where figures are smaller.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results [default: runs/reproduce-ENGINE[-TIMESCALE]]")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 1 when a claim failed.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List what can be reproduced.")] = False,
) -> None:
    """Run the papers' figures again, with the published values beside the simulated or measured ones.

    The results are tables, plots, claims.json, and one page with all of them, index.html. A claim held, failed, or is
    undecided: then the 95% interval over the seeds has both accepted and refused values, and the results say how many
    seeds would decide it, and what they cost.

    Work of more than a minute goes in rounds: first every figure with 2 seeds (live: one), then with more, and last
    with all. The page is whole after each round, and stays after Ctrl-C. To continue after a stop, give the same
    command again. Finished runs are not repeated, and figures share runs that are equal.

    \b
    Examples:
      natjam reproduce --list
      natjam reproduce natjam/fig4
      natjam reproduce natjam --engine live --time-scale 20
      natjam reproduce natjam/overhead                  # live: what operations take on this machine
      natjam reproduce slurm                            # twelve recorded runs of a real Slurm, played again
      natjam reproduce all --quick --strict
    """
    from analysis.reproduce.cells import ALL
    from analysis.reproduce.definitions import chosen_figures
    from analysis.reproduce.needs import work_of
    from analysis.reproduce.run import at_most_seeds, planned, rounds_of, run_counts
    from analysis.reproduce.run import reproduce as run_figures
    from analysis.reproduce.tables import claims_without_figure, closing_lines, figure_table, list_table
    from emulator.campaign.directory import CampaignDirectory
    from emulator.errors import ConfigError, RunError

    console = results_console()
    if list_:
        figures = [figure.quickly() if quick else figure for figure in chosen_figures([ALL])]
        counts = {name: run_counts([figure.by(name) for figure in figures], name, quick) for name in ("sim", "live")}
        console.print(list_table(figures, counts))
        if unmeasured := claims_without_figure(figures):
            console.print(Text(f"nothing measures the claims of {unmeasured} yet"))
        return
    if not ids:
        raise ConfigError("name what to reproduce, as in 'natjam reproduce natjam/fig4'; --list shows all figures")
    if engine not in ("sim", "live", None):
        raise ConfigError(f"--engine {engine}: must be sim or live")
    chosen = [figure.quickly() if quick else figure for figure in chosen_figures(ids)]
    if full:
        chosen = [figure.fully() for figure in chosen]
    engine = engine or ("sim" if any("sim" in figure.engines for figure in chosen) else "live")
    figures = [figure.by(engine) for figure in chosen if engine in figure.engines]
    if not figures:
        raise ConfigError(f"{', '.join(ids)}: not for --engine {engine}; see 'natjam reproduce --list'")
    variants = at_most_seeds(planned(figures, engine, time_scale, quick), seeds)
    out = out or Path("runs") / f"reproduce-{engine}{'' if time_scale is None else f'-{time_scale:g}x'}"
    figures = _possible(figures, variants)
    variants = {figure.id: variants[figure.id] for figure in figures}
    work = work_of(variants, CampaignDirectory(out).made())
    say(f"{work}, into {out}")
    from analysis.reproduce.page import PAGE_NAME, write_results
    from analysis.reproduce.record import results_of
    from analysis.reproduce.scores import papers_of, score_table, scores, summary_lines
    from emulator.display.work_display import WorkDisplay

    directory = context.with_resource(CampaignDirectory(out).held())

    def make(number: int, of_round: int, asked: int | None) -> tuple[Reproduction, Results]:
        """Make one round, and write its results."""
        which = "" if len(rounds) == 1 else f", round {number} of {len(rounds)}"
        with WorkDisplay(console) as display:
            show = partial(_show, display, which)
            found = run_figures(figures, at_most_seeds(variants, of_round), engine, directory, show)
        written = results_of(found, _command(ids, engine, time_scale, quick, asked, full))
        write_results(found, written, out)
        return found, written

    rounds = rounds_of(variants, engine, work.real_s)
    for number, of_round in enumerate(rounds[:-1], 1):
        make(number, of_round, of_round)
        said = f"round {number} of {len(rounds)} is done, with {counted(of_round, 'seed')} of each figure"
        say(f"{said}; the page: {out / PAGE_NAME}")
    result, results = make(len(rounds), rounds[-1], seeds)
    for figure in result.figures:
        console.print(figure_table(figure))
    for paper in papers_of(figures):
        if found := scores(paper, results, engine):
            console.print(score_table(paper, found, engine))
            for text in summary_lines(paper, found):
                console.print(f"{paper.paper}, {text}", soft_wrap=True, highlight=False)
    for line in [*_failure_lines(result.campaign), *closing_lines(result)]:
        console.print(line, soft_wrap=True, highlight=False)
    if left_out := ", ".join(figure.id for figure in chosen if engine not in figure.engines):
        console.print(f"not for --engine {engine}: {left_out}", soft_wrap=True, highlight=False)
    console.print(f"results in {out}; the page: {out / PAGE_NAME}", soft_wrap=True, highlight=False)
    if result.campaign.failures:
        raise RunError(f"{len(result.campaign.failures)} of {len(result.campaign.runs)} runs failed")
    failed = sum(verdict.ok is False for verdict in result.verdicts)
    if strict and failed:
        raise RunError(f"{failed} of {len(result.verdicts)} claims failed")


def _show(display: WorkDisplay, of_part: str, status: WorkStatus) -> None:
    """Show a status whose part of the work is said more closely."""
    display.update(replace(status, part=status.part + of_part))


def _possible(figures: Sequence[FigureDefinition], variants: Mapping[str, Sequence[Variant]]) -> list[FigureDefinition]:
    """Those that can be made on this machine as it is; warns of the others.  Raises ConfigError if none can."""
    from analysis.reproduce.needs import lacking
    from emulator.errors import ConfigError

    lacks = lacking(variants)
    texts = [
        f"{', '.join(figure for figure, its in lacks.items() if its == why)}: {why}"
        for why in dict.fromkeys(lacks.values())
    ]
    if len(lacks) == len(figures):
        raise ConfigError("\n".join(texts))
    for text in texts:
        warn(f"left out: {text}")
    return [figure for figure in figures if figure.id not in lacks]


def _command(
    ids: Sequence[str], engine: str, time_scale: float | None, quick: bool, seeds: int | None, full: bool
) -> str:
    """The call that makes these results again."""
    options = {
        f"--engine {engine}": True,
        f"--time-scale {time_scale or 0:g}": time_scale is not None,
        "--quick": quick,
        f"--seeds {seeds}": seeds is not None,
        "--full": full,
    }
    return " ".join(["natjam reproduce", *ids, *(option for option, is_given in options.items() if is_given)])


def _closing_lines(result: CampaignResult) -> Iterator[Text]:
    """The last lines of a finished campaign."""
    from emulator.campaign.directory import TABLE_NAME

    found = f"; {result.found_done} of them were made before" if result.found_done else ""
    yield Text(f"{counted(len(result.runs), 'run')}{found}")
    for name, why in list(result.set_aside.items())[:_FAILURES_SHOWN]:
        yield Text(f"set aside: {name}: {why}", "bold yellow")
    if len(result.set_aside) > _FAILURES_SHOWN:
        yield Text(f"... and {len(result.set_aside) - _FAILURES_SHOWN} more were set aside", "bold yellow")
    yield from _failure_lines(result)
    yield from _disturbed_lines(result)
    yield Text(f"results in {result.directory.path}; a table of all runs: {result.directory.path / TABLE_NAME}")


def _failure_lines(result: CampaignResult) -> Iterator[Text]:
    """Why runs failed, up to a limit, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for name, why in sorted(result.failures.items()):
        by_reason.setdefault(why, []).append(name)
    for why, failed in list(by_reason.items())[:_FAILURES_SHOWN]:
        variants = counted(len({name.rpartition("/")[0] for name in failed}), "variant")
        which = failed[0] if len(failed) == 1 else f"{len(failed)} runs of {variants}, such as {failed[0]}"
        yield Text(f"failed: {which}: {why}", "red")
    if len(by_reason) > _FAILURES_SHOWN:
        more = len(by_reason) - _FAILURES_SHOWN
        yield Text(f"... and for {counted(more, 'more reason')}; see the column 'failure'", "red")
    if result.left_out:
        yield Text(
            f"not made: {counted(result.left_out, 'more run')} of these variants; --keep-going makes them", "red"
        )


def _disturbed_lines(result: CampaignResult) -> Iterator[Text]:
    found = [run.name for run in result.runs if (result.summary(run) or {}).get("disturbed")]
    if found:
        shown = ", ".join(found[:_FAILURES_SHOWN]) + (", ..." if len(found) > _FAILURES_SHOWN else "")
        yield Text(f"disturbed: the machine did not keep up with {len(found)} of them: {shown}", "bold yellow")


def _print_variants(console: Console, variants: Sequence[VariantRuns], baseline: str | None) -> None:
    """What each variant took, and how it differs from the baseline under the same seeds."""
    from analysis.report.variants import campaign_table, differences_of, differences_table

    if not variants:
        return
    console.print(campaign_table(variants))
    if len(variants) > 1 and (found := differences_of(variants, baseline)):
        console.print(differences_table(found))
        console.print(Text(found.in_words()), soft_wrap=True)


def _with_summaries(result: CampaignResult) -> list[VariantRuns]:
    """The variants of a campaign, each with the summaries of its finished runs."""
    from analysis.report.variants import VariantRuns

    found: dict[str, list[Mapping[str, Any]]] = {run.variant: [] for run in result.runs}
    for run in sorted(result.runs, key=lambda run: run.experiment.seed):
        if summary := result.summary(run):
            found[run.variant].append(summary)
    broken = Counter(run.variant for run in result.runs if result.summary(run) is None)
    return [VariantRuns(name, tuple(summaries), broken[name]) for name, summaries in found.items()]


def _warn(variants: tuple[Variant, ...]) -> None:
    """Print what is to be known of the traces and calibrations that the runs use.

    Raises ConfigError where a calibration is missing, TraceError where a trace cannot be read.
    """
    from emulator.experiment.warnings import trace_caution
    from emulator.sim.session import calibration_warning

    experiments = [variant.experiment for variant in variants]
    traces = {entry.path: one for one in experiments if (entry := one.workload.trace) is not None}
    for caution in dict.fromkeys(filter(None, map(trace_caution, traces.values()))):
        say(f"note: {caution}", error=True)
    rests_on = {(one.overheads, one.calibration): one for one in experiments if one.engine == "sim"}
    for warning in dict.fromkeys(filter(None, map(calibration_warning, rests_on.values()))):
        warn(warning)
