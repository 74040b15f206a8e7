"""Commands about the results of runs: compare, explain, report, verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from emulator.cli.options import Baseline, Out, Strict, claimed, results_path
from emulator.display.console import results_console, say, warn

_RUNS_HELP = "the directory of a run, of repeats, or of a campaign"


def compare(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(help=f"Side A: {_RUNS_HELP}, or a file to run.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="Side B.", show_default=False)],
    quantity: Annotated[
        str, typer.Option("--by", help="What is compared: completion_s, margin_s, start_s or lost_work_s.")
    ] = "completion_s",
    baseline: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The side that is subtracted: A or B [default: B]")
    ] = None,
    out: Out = None,
    strict: Strict = False,
) -> None:
    """Compare two runs job by job; two experiments are run first.

    The difference of a job is its time under A minus its time under B: negative is sooner under A. The table has
    percentiles for each queue; compare.png draws the differences (of many jobs their CDF), compare.json has them all.
    A second table has what the whole runs took: CPU time wasted, energy, and storage where images were saved. If jobs
    were evicted, further tables have the evictions before (A) and after (B) for each queue, and the jobs that are
    evicted only before or only after, for which job and when. Of an imported Kubernetes cluster a table has the pods
    that are on another node in the end, or on none.

    Runs are paired by seed, and what has no partner counts nowhere. The interval of a mean is over the seeds, so it
    needs several of them: give repeats or campaigns. A run and a campaign: the run against each of its variants.

    \b
    Examples:
      natjam compare runs/checkpoint runs/kill
      natjam compare runs/wait runs/checkpoint --baseline wait
      natjam compare campaign/runs/checkpoint campaign/runs/kill --out compared
      natjam compare runs/mdf runs/soft-cap --by margin_s
      natjam compare before.yaml after.yaml --out compared
    """
    from analysis import compare as comparisons
    from analysis.run_paths import find_runs, read_summary
    from emulator.display.basis import basis_of_run, head_answer
    from emulator.files.whole_files import write_json

    directory = claimed(context, "compare", out) if a.is_file() and b.is_file() else None
    if directory is not None:
        a, b = comparisons.run_both(a, b, directory, say)
    sides = comparisons.in_order(a, b, baseline)
    try:
        comparison = comparisons.compare_runs(*sides, quantity)
    except comparisons.NothingInCommonError as error:  # pods of a cluster as it stands may never end
        comparison, evicted = None, [*map(comparisons.evicted_side, (a, b))]
        if not comparisons.differ(*evicted):
            raise
        warn(str(error).partition(",")[0] + "; who is evicted is compared all the same")
    directory = directory or claimed(context, "compare", out)
    for basis in dict.fromkeys(basis_of_run(read_summary(find_runs([side])[0].path)) for side in (a, b)):
        head_answer(basis, strict)
    if comparison is None:
        write_json(directory / "compare.json", {"evictions": comparisons.evictions_json(*evicted)})
        for table in (comparisons.evictions_table(*evicted), *comparisons.changes_tables(*evicted)):
            results_console().print(table)
        say(f"results in {directory}")
        return
    pair = comparison.pair
    evicted = None if pair is None else [*map(comparisons.evicted_side, pair if sides == (a, b) else pair[::-1])]
    more = {} if evicted is None else {"evictions": comparisons.evictions_json(*evicted)}
    comparisons.write_comparison(comparison, directory, more)
    console = results_console()
    if evicted is not None and comparisons.differ(*evicted):
        for table in (comparisons.evictions_table(*evicted), *comparisons.changes_tables(*evicted)):
            console.print(table)
    console.print(comparisons.comparison_table(comparison))
    if comparison.totals:
        console.print(comparisons.totals_table(comparison))
    for note in comparisons.comparison_notes(comparison):
        console.print(note, soft_wrap=True, highlight=False, markup=False)
    console.print(f"results in {directory}", soft_wrap=True, highlight=False, markup=False)


def explain(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run's directory.", show_default=False)],
    job: Annotated[
        str | None, typer.Option(help="Only evictions of this job, and its scheduler's own words about it.")
    ] = None,
    attempt: Annotated[
        str | None, typer.Option(help="Only this attempt, with every candidate of the choices about it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything known as JSON.")] = False,
) -> None:
    """Say which attempts were evicted, when and why.

    It also says what each eviction cost, and where the work was resumed. WHY names the policy that chose, the number it
    compared and the attempt's rank among the candidates. FOR is the job that wanted containers.

    \b
    Examples:
      natjam explain runs/fig4
      natjam explain runs/fig4 --job research-XL
      natjam explain runs/mine --job db/postgres-1
      natjam explain runs/fig4 --attempt research-XL/r011.0
      natjam explain runs/fig4 --json | jq '.evictions[] | select(.outcome == "killed") | .lost_s'
    """
    from analysis import explain as explanations

    found = explanations.explain(directory, job, attempt)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1, allow_nan=False))
        return
    console = results_console()
    if found.evictions:
        console.print(explanations.evictions_table(found))
    if attempt is not None:
        for title, table in explanations.choices(found):
            console.print(title, soft_wrap=True, highlight=False, markup=False)
            console.print(table)
    for text in (*explanations.said(found), *explanations.waits(found), *explanations.notes(found)):
        console.print(text, soft_wrap=True, highlight=False, markup=False)


def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Any number of directories of runs, repeats or campaigns.")
    ],
    baseline: Baseline = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write; an existing one is replaced [default: report.html in the directory; of several"
            " directories runs/report-TIME.html]"
        ),
    ] = None,
) -> None:
    """Make one HTML file of one or several runs.

    It has figures, tables and a timeline of the containers. Every run already has its own report. Use this command for
    several runs, or for a run that was killed: its tables, pictures and summary are then made from its journal.

    \b
    Examples:
      natjam report runs/fig4
      natjam report runs/checkpoint runs/kill --out both.html
      natjam report mycampaign --baseline mechanism=kill --out mycampaign.html
    """
    from analysis.report.page import report_of
    from analysis.run_paths import ended_without_results
    from analysis.whole_run import REPORT_NAME, salvage
    from emulator.files.whole_files import writing, written_whole
    from emulator.records.run_directory import RunDirectory

    console = results_console()
    with console.status("reading runs"):
        for path in ended_without_results(paths):
            salvage(path)
    if out is None and len(paths) == 1:
        out = paths[0] / REPORT_NAME
        if out.exists() and REPORT_NAME in (RunDirectory(paths[0]).summary() or {}).get("files", ()):
            console.print(f"report in {out}: the run's own", soft_wrap=True, highlight=False, markup=False)
            return
    out = out or results_path("report", None).with_suffix(".html")
    with console.status("reading runs"):
        page = report_of(paths, baseline)
    with writing(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out) as unfinished:
        unfinished.write_text(page)
    size = len(page.encode()) / 2**20
    console.print(f"report in {out} ({size:.1f} MiB)", soft_wrap=True, highlight=False, markup=False)


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=f"One of: {_RUNS_HELP}.", show_default=False)],
) -> None:
    """Check a run's journal, tables, output and summary.

    The journal must be complete, and its replay must agree. The tables, the summary and every committed file are
    computed again and compared. Each difference is printed as one line; the exit status is then 1.

    \b
    Examples:
      natjam verify runs/fig4
      natjam verify mycampaign
    """
    from analysis.verify_run import verify_runs
    from emulator.errors import RunError

    console = results_console()
    findings: list[str] = []
    with console.status("verifying"):
        for checked in verify_runs(directory):
            findings += checked.findings
            many = len(checked.findings)
            found = f"{many} finding{'s' if many > 1 else ''}" if many else f"verified: {', '.join(checked.said)}"
            console.print(f"{checked.path}: {found}", soft_wrap=True, highlight=False, markup=False)
    if findings:
        raise RunError("\n".join(findings))
