"""The command ``natjam advise``: for experiments and traces, and for imported sites of Slurm and Kueue."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from emulator.cli.options import Columns, Set, Strict, columns_of
from emulator.display.basis import head_answer
from emulator.display.console import results_console, say, warn
from emulator.display.tables import names, new_table, numbers, or_dash
from emulator.errors import ConfigError, RunError
from emulator.vocabulary import Frozen, counted

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.advise.answers import Pace
    from analysis.advise.candidates import Question
    from analysis.advise.outcomes import CandidateResults
    from analysis.advise.results import Candidate, CandidateResult
    from analysis.advise.sites import SiteQuestion
    from analysis.advise.verdict import Verdict
    from emulator.campaign.directory import PlannedRun
    from emulator.campaign.runner import CampaignResult, GoesOn

_SIMULATED, _LIVE = "simulated", "live"


class _Trace(Frozen):
    """Options for a trace without an experiment."""

    format: str | None
    columns: dict[str, str]
    production: str | None
    seeds: int
    again: str
    """The command that gives the same advice with the experiment that is made."""


_OF_A_SITE = ("file", "out", "as_json", "strict", "seconds")
"""What can be said for a file of ``natjam import slurm`` or ``kueue``."""


def advise(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_TRACE",
            help="Experiment (YAML), catalog:NAME, a trace, or a file of natjam import slurm or kueue.",
            show_default=False,
        ),
    ],
    production: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE", help="The queue whose jobs are urgent [default: production, else the first of the file]"
        ),
    ] = None,
    overheads: Annotated[
        str | None,
        typer.Option(help="What operations cost: a profile, native (this machine), or a file [default: the file's]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Simulations of each choice.")] = 10,
    set_: Set = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Format of a trace [default: by its name and content]")
    ] = None,
    columns: Columns = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AXIS=MODULE:FUNCTION", help="Compare this policy of yours too, as in task_eviction=mine:newest."
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Run the two best on real processes too.")] = False,
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second, with --live.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Directory for the results [default: runs/advise-NAME]")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1, max=86400, help="Answer after so many real seconds, with what is known then [default: with all]"
        ),
    ] = None,
    strict: Strict = False,
) -> None:
    """Say which way to preempt suits a workload.

    The same jobs are simulated under every mechanism (wait, kill, suspend, checkpoint, image, adaptive) and the main
    policies, several times. The tables show what each does to production jobs and to all others; the last lines say
    which to choose, why, and how sure that is, or that there is no preference. One percent of production's time counts
    as much as three percent of the others' time.

    For a trace, the command makes an experiment from the first hour, on a small cluster that this work overloads. What
    was assumed is printed first. The experiment is kept, so that you can change it. To continue after a stop, give the
    same command again. The results are advise.json, advise.png and all runs.

    Where it takes longer, a first answer from fewer choices and seeds is shown after some 10 seconds, and better ones
    later, until all is simulated or --seconds are over.

    For a Slurm site, its jobs are played once by Slurm's rules under each PreemptMode, with PreemptExemptTime and
    GraceTime from 0 to 24 h, and with programs that save what they have done. For Kueue, days of its workloads are
    played without preemption and with minimum runtimes from 0 to 1 h. For Kubernetes, use natjam compare.

    \b
    Examples:
      natjam advise catalog:facebook-50 --set cluster.containers_per_node=3
      natjam advise mine.yaml --overheads native --seeds 20          # this machine's costs: natjam measure
      natjam advise mine.yaml --overheads probe/probe.yaml --set storage.tier=probe/probe.yaml
      natjam advise jobs.trace.json.gz --set cluster.nodes=40 --set workload.trace.deadline_factor=1
      natjam advise google-2011 --set workload.trace.production_priority=2        # to be had: docs/traces.md
      natjam advise jobs.csv --columns submit=Submit,length=Elapsed,tasks=NCPUS,queue=Partition --production short
      natjam advise mine.yaml --also task_eviction=my_policies:newest
      natjam advise mine.yaml --live --time-scale 20
      natjam import slurm --conf /etc/slurm/slurm.conf --sacct jobs.txt --out site.yaml; natjam advise site.yaml
    """
    from analysis.advise.answers import Pace
    from analysis.advise.candidates import assumptions, make_question
    from analysis.advise.report import advice_json
    from emulator.experiment.warnings import trace_caution
    from emulator.files.whole_files import write_json
    from workloads.saved import system_of

    system = system_of(file)
    if system in ("slurm", "kueue"):
        _refuse_options(context, file)
        _advise_site(file, system, _made(context, out, file), as_json, strict, Pace(seconds))
        return
    if system == "kubernetes":
        raise ConfigError(
            f"{file}: is an imported Kubernetes cluster: 'natjam compare {file} OTHER.yaml' says what another priority,"
            " mechanism or policy would change"
        )
    progress, overrides = results_console(stderr=as_json), list(set_ or ())
    overrides += [f"{key}={value}" for key, value in (("overheads", overheads), ("time_scale", time_scale)) if value]
    sys.path.append(str(file.parent.absolute()))  # so that every process finds the user's own policies
    notes: list[str] = []
    again = ["natjam", "advise", "experiment.yaml", "--seeds", str(seeds)]
    again += ["--production", production] if production else []
    again += [word for each in also or () for word in ("--also", each)]
    options = _Trace(format, columns_of(columns), production, seeds, shlex.join(again))
    out, path, overrides = _prepared(context, file, options, overrides, out, notes)
    question = make_question(path, overrides, production, also or ())
    head_answer(question.experiment.basis, strict, error=as_json)
    if caution := trace_caution(question.experiment):
        progress.print(Text(f"note: {caution}"), soft_wrap=True)
    assumed = [*assumptions(question, notes)]
    if not as_json:
        _show_assumed(question, assumed)
    first = question.experiment.seed
    seeds_used = range(first, first + seeds)
    answer = _answer(question, _simulated(question, overrides, seeds_used, out, progress, Pace(seconds)), seeds_used)
    assert answer is not None
    found, verdict = answer
    facts = advice_json(question, found, verdict, assumed)
    if verdict is not None:
        _draw(found, verdict, out)
        if live:
            facts["live"] = _live_facts(question, found, verdict, overrides, out, progress)
    write_json(out / "advise.json", facts)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        _show(question, found, verdict, facts.get("live", []), out)
    if verdict is None:
        raise RunError("every choice had a failed run; see the column 'failure' of campaign.parquet, below " + str(out))
    if failed := [fact["name"] for fact in facts.get("live", []) if fact["failed"]]:
        raise RunError(f"live runs failed: {', '.join(failed)}; see failure.txt and the reports below {out / _LIVE}")


def _refuse_options(context: typer.Context, file: Path) -> None:
    """An imported site is played as it is: what would be set for an experiment is refused."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name not in _OF_A_SITE and given is not None and given.name != "DEFAULT":
            option = parameter.opts[0]
            raise ConfigError(f"{option}: {file} is an imported site, which is played as it is; remove {option}")


def _prepared(
    context: typer.Context,
    file: Path,
    trace_options: _Trace,
    overrides: list[str],
    out: Path | None,
    notes: list[str],
) -> tuple[Path, Path, list[str]]:
    """The results directory, the experiment file, and the overrides; some make its trace quick to read again.

    Says in ``notes`` which part of a trace is used, and what was assumed about it.
    """
    from analysis.advise.traces import experiment_of_trace, with_window_kept
    from emulator.cli.options import format_of, reading
    from emulator.experiment.catalog import PREFIX, located
    from emulator.experiment.load import load_experiment
    from emulator.files.progress import ignore

    if str(file).startswith(PREFIX) or file.suffix in (".yaml", ".yml"):
        path = located(file)
        experiment = load_experiment(path, [*overrides, "engine=sim"])
        out, trace = _made(context, out, path), experiment.workload.trace
        with contextlib.nullcontext(ignore) if trace is None else reading(Path(trace.path)) as on_bytes:
            return out, path, [*overrides, *with_window_kept(experiment, out, on_bytes, notes)]
    known, out = format_of(file, trace_options.format), _made(context, out, file)
    seeds, production = range(1, trace_options.seeds + 1), trace_options.production
    with reading(file) as on_bytes, _nothing_left_of_a_bad_trace(out):
        path, problems, assumed = experiment_of_trace(
            file, known, trace_options.columns, overrides, seeds, out, on_bytes, production, trace_options.again
        )
    notes += assumed
    if problems.count:
        say(f"natjam: {file}: {problems.count:,} broken rows skipped", error=True)
    return out, path, []  # the file has them


@contextlib.contextmanager
def _nothing_left_of_a_bad_trace(out: Path) -> Iterator[None]:
    """If the experiment cannot be made of the trace, what was written of it is removed."""
    from analysis.advise.traces import EXPERIMENT_NAME, TRACE_NAME

    try:
        yield
    except BaseException:
        for name in (EXPERIMENT_NAME, TRACE_NAME):
            (out / name).unlink(missing_ok=True)
        raise


def _made(context: typer.Context, out: Path | None, file: Path) -> Path:
    """The results directory, created where it is missing, and held until the command ends.  Raises ConfigError."""
    from analysis.advise.traces import TRACE_NAME
    from emulator.files.whole_files import claimed_directory

    path = out or Path("runs") / f"advise-{file.name.partition('.')[0]}"
    ours = ("advise.json", TRACE_NAME, _SIMULATED)
    context.with_resource(
        claimed_directory(path, "natjam advise", lambda: any((path / name).exists() for name in ours))
    )
    return path


def _simulated(
    question: Question, overrides: Sequence[str], seeds: Sequence[int], out: Path, console: Console, pace: Pace
) -> CampaignResult:
    """All runs, or those that were made before the time was over; answers are shown meanwhile."""
    from emulator.sim.session import calibration_warning

    if warning := calibration_warning(question.experiment):
        warn(warning)
    options = [*overrides, "engine=sim", "sim.journal=off"]
    goes_on = partial(_goes_on, question, seeds, out / _SIMULATED, console, pace)
    return _campaign(question, question.candidates, options, seeds, out / _SIMULATED, console, goes_on)


def _goes_on(
    question: Question,
    seeds: Sequence[int],
    directory: Path,
    console: Console,
    pace: Pace,
    runs: Sequence[PlannedRun],
    failed: Mapping[str, str],
) -> bool:
    """Show an answer if one is due and can be given; whether more runs are to be made."""
    from emulator.campaign.directory import CampaignDirectory
    from emulator.campaign.runner import CampaignResult, write_table

    if not (pace.is_due or pace.is_over) or not _comparable(question, runs, seeds, pace.is_hurried):
        return True
    if pace.is_over:
        return False
    campaign = CampaignDirectory(directory)
    result = CampaignResult(campaign, tuple(runs), 0, {}, write_table(campaign, runs, failed))
    if answer := _answer(question, result, seeds):
        console.print(Text(pace.shown()))
        _show_answer(question, *answer, console)
    return True


def _comparable(
    question: Question, runs: Sequence[PlannedRun], seeds: Sequence[int], hurried: bool = True
) -> tuple[PlannedRun, ...]:
    """Those of the runs that can be compared (``analysis.advise.answers``)."""
    from analysis.advise.answers import comparable

    made = {(run.variant, run.experiment.seed): run for run in runs}
    names, used = comparable(made.keys(), [one.name for one in question.candidates], question.first, seeds, hurried)
    return tuple(made[name, seed] for seed in used for name in names)


def _answer(
    question: Question, result: CampaignResult, seeds: Sequence[int]
) -> tuple[CandidateResults, Verdict | None] | None:
    """The results of the runs that can be compared, and the verdict; None: there are none so far."""
    from analysis.advise.outcomes import outcomes_of
    from analysis.advise.verdict import judge

    runs = _comparable(question, result.runs, seeds)
    if not runs:
        return None
    asked = len(question.candidates), len(seeds)
    found = replace(outcomes_of(question, replace(result, runs=runs)), asked=asked)
    return found, judge(found, len({run.experiment.seed for run in runs}))


def _campaign(
    question: Question,
    candidates: Sequence[Candidate],
    overrides: Sequence[str],
    seeds: Sequence[int],
    directory: Path,
    console: Console,
    goes_on: GoesOn = lambda runs, failed: True,
) -> CampaignResult:
    from analysis.advise.answers import LEAST_DRAWS
    from analysis.whole_run import run_experiment
    from emulator.campaign.directory import CampaignDirectory, planned_runs
    from emulator.campaign.runner import run_campaign
    from emulator.display.work_display import WorkDisplay

    runs = planned_runs(question.variants(candidates, overrides, seeds))
    early = seeds[:LEAST_DRAWS]
    runs.sort(
        key=lambda run: (run.variant not in question.first or run.experiment.seed not in early, run.experiment.seed)
    )
    with CampaignDirectory(directory).held() as held, WorkDisplay(console) as display:
        name = f"advise-{question.experiment.name}"
        return run_campaign(name, runs, held, run_experiment, display.update, goes_on=goes_on)


def _draw(found: CandidateResults, verdict: Verdict, out: Path) -> None:
    from analysis.advise.report import advice_figure
    from analysis.figures import style

    style.save(advice_figure(found, verdict), [out / "advise.png"])


def _show_assumed(question: Question, assumed: Sequence[str]) -> None:
    """What the answer rests on, before anything is simulated."""
    from analysis.advise.candidates import mechanisms_in_words

    parts = {"what is compared, and what was assumed:": assumed, "what mechanisms do:": mechanisms_in_words(question)}
    for title, lines in parts.items():
        say(title)
        for line in lines:
            say(f"  {line}")


def _show(
    question: Question, found: CandidateResults, verdict: Verdict | None, live: Sequence[dict[str, Any]], out: Path
) -> None:
    console = results_console()
    _show_answer(question, found, verdict, console)
    if live:
        console.print(_live_table(live))
    console.print(Text(f"results in {out}; the picture: {out / 'advise.png'}"), soft_wrap=True)


def _show_answer(question: Question, found: CandidateResults, verdict: Verdict | None, console: Console) -> None:
    from analysis.advise.report import advice_table, decision_table
    from analysis.advise.verdict import advice as advice_in_words

    console.print(advice_table(question, found, verdict))
    if verdict is not None:
        console.print(decision_table(verdict))
        for line in advice_in_words(found, verdict):
            console.print(Text(line), soft_wrap=True)


# ---- the two best on real processes ----


def _live_facts(
    question: Question, found: CandidateResults, verdict: Verdict, overrides: Sequence[str], out: Path, console: Console
) -> list[dict[str, Any]]:
    """One live run each of the chosen candidate and of the best rival that can run live, beside its simulation."""
    from analysis.advise.outcomes import outcomes_of

    seed, options = question.experiment.seed, [*overrides, "engine=live"]
    candidates: list[Candidate] = []
    for row in (verdict.chosen, *(rival.outcome for rival in verdict.rivals)):
        with contextlib.suppress(ConfigError):  # some candidates, such as images, may only be simulated
            question.variants([row.candidate], options, [seed])
            candidates.append(row.candidate)
        if len(candidates) == 2:
            break
    result = _campaign(question, candidates, options, [seed], out / _LIVE, console)
    lived = outcomes_of(question, result)
    facts = []
    for row in lived.rows:
        name = row.candidate.name
        fact: dict[str, Any] = {"name": name, "failed": bool(row.number("failed"))}
        for label, jobs in (("live", lived.jobs), ("simulated", found.jobs)):
            mine = jobs[(jobs["candidate"] == name) & (jobs["seed"] == seed)]
            for kind, chosen in (("production", mine[mine["is_production"]]), ("others", mine[~mine["is_production"]])):
                fact[f"{kind}_{label}_s"] = float(chosen["completion_s"].mean()) if len(chosen) else None
        facts.append(fact)
    return facts


def _live_table(facts: Sequence[dict[str, Any]]) -> Table:
    kinds = [
        kind for kind in ("production", "others") if any(fact[f"{kind}_simulated_s"] is not None for fact in facts)
    ]
    title = "on real processes, one run each: mean completion, emulated seconds"
    heads = (f"{kind},\n{engine}" for kind in kinds for engine in (_LIVE, _SIMULATED))
    table = new_table(title, [*names("choice"), *numbers(*heads)], also_in="advise.json")
    for fact in facts:
        cells = [fact[f"{kind}_{label}_s"] for kind in kinds for label in ("live", "simulated")]
        table.add_row(fact["name"], *(or_dash(value, ",.1f") for value in cells))
    return table


# ---- an imported site, played by its own scheduler's rules ----


def _advise_site(file: Path, system: str, out: Path, as_json: bool, strict: bool, pace: Pace) -> None:
    """Play the site in each way: a table, ``advise.json``, and of Slurm a picture.  Raises ConfigError, RunError."""
    from analysis.advise.sites import kueue_question, slurm_question, ways_figure
    from analysis.figures import style
    from emulator.display.work_display import WorkDisplay, WorkStatus
    from emulator.files.whole_files import write_json
    from emulator.sites.kueue import Kueue
    from emulator.sites.slurm import Slurm
    from workloads.saved import read_saved

    if system == "kueue":
        question = kueue_question(file, read_saved(file, Kueue))
    else:
        question = slurm_question(file, read_saved(file, Slurm))
    head_answer(question.basis, strict, error=as_json)
    progress, total = results_console(stderr=as_json), question.plays
    shown = 0, 0
    with WorkDisplay(progress) as display:
        display.update(WorkStatus("starting workers", 0.0, None))
        for played in question.played():
            done = len(played) / total
            counts = f"{len(played)} of {counted(total, 'play')}"
            display.update(WorkStatus("playing", done, pace.left_real_s(done), counts))
            found, days = question.results(played)
            if done < 1 and found and pace.is_over:
                break
            if done < 1 and found and pace.is_due and shown != (len(found), days):
                shown = len(found), days
                progress.print(Text(pace.shown()))
                _show_site(question, found, days, progress)
    found, days = question.results(played)
    ways = [msgspec.to_builtins(each.to_json()) for each in found]
    said = [*question.text(found, days)]
    facts = {"basis": msgspec.to_builtins(question.basis), **question.facts, "ways": ways, "text": said}
    where = f"results in {out}"
    if question.has_figure:
        style.save(ways_figure(found), [out / "advise.png"])
        where += f"; the picture: {out / 'advise.png'}"
    write_json(out / "advise.json", facts)
    if as_json:
        typer.echo(msgspec.json.encode(facts).decode())
        return
    console = results_console()
    for line in question.heads:
        console.print(Text(line), soft_wrap=True)
    _show_site(question, found, days, console)
    console.print(Text(where), soft_wrap=True)


def _show_site(question: SiteQuestion, found: Sequence[CandidateResult], days: int, console: Console) -> None:
    from analysis.advise.results import results_table

    console.print(results_table(question.title.format(days=days), question.columns, found))
    for line in question.text(found, days):
        console.print(Text(line), soft_wrap=True)
