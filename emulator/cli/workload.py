"""Commands about workloads: inspect, validate, convert, scale, generate, compare."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.cli.options import Columns, Format, columns_of, format_of, reading
from emulator.display.console import results_console, say
from emulator.errors import ConfigError
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from emulator.files.yaml_positions import Document
    from workloads.errors import Problems
    from workloads.record import Header, Trace

File = Annotated[
    Path,
    typer.Argument(help="The trace; for Google's, the directory of its tables (docs/traces.md).", show_default=False),
]
Out = Annotated[
    Path, typer.Argument(help="File to write: .parquet, .jsonl, .jsonl.gz, or .json for SLS.", show_default=False)
]
Lenient = Annotated[bool, typer.Option("--lenient", help="Skip broken rows and count them.")]
Unfinished = Annotated[
    str | None, typer.Option(help="Length of tasks that did not finish in the trace: median, observed or drop.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=C", help="Any other parameter; may be repeated.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


group = typer.Typer(
    help="Look at, check, convert, scale and generate workloads.", no_args_is_help=True, rich_markup_mode=None
)


@group.command()
def inspect(
    file: Annotated[
        Path, typer.Argument(help="A trace, or an experiment (.yaml, or catalog:NAME).", show_default=False)
    ],
    format: Format = None,
    lenient: Lenient = False,
    unfinished: Unfinished = None,
    columns: Columns = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write all results as JSON too.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write a figure too (.png, .svg or .pdf).")] = None,
) -> None:
    """Say what a trace holds, or what the jobs of an experiment ask of its cluster.

    Of a trace it prints counts, time spans, burstiness and distributions, and which columns are measured or
    modelled. Of an experiment it prints what tasks and gangs request, how much of that the cluster has, and how it
    packs the most that is wanted at a time.

    \b
    Examples:
      natjam workload inspect FB-2009_samples_24_times_1hr_0.tsv
      natjam workload inspect 19-jobs.trace.json.gz --format rumen --png 19-jobs.png
      natjam workload inspect google-2011 --format google --json slice.json
      natjam workload inspect catalog:gangs
    """
    if str(file).startswith("catalog:") or (format is None and file.suffix in (".yaml", ".yml")):
        _inspect_experiment(file)
        return
    from analysis.workload_report import report
    from workloads.errors import Problems
    from workloads.inspection import inspect_trace

    problems, console = Problems(lenient), results_console()
    with _opened(file, format, problems, unfinished, columns) as trace:
        inspection = inspect_trace(trace)
    _say_caution(trace.header)
    for part in report(inspection, trace):
        console.print(part)
    if json is not None:
        from emulator.files.whole_files import write_json

        write_json(json, inspection.as_data(trace))
    if png is not None:
        from analysis.figures.style import save_as
        from analysis.figures.workload import workload_figure

        save_as(workload_figure(inspection), png)
    _say_skipped(file, problems)


@group.command()
def validate(
    file: File,
    format: Format = None,
    lenient: Lenient = False,
    columns: Columns = None,
    show: Annotated[int, typer.Option(help="Print at most this many broken rows.", min=1)] = 100,
) -> None:
    """Report each broken row of a trace.

    Each is printed with file, line, column and reason. The exit status is 2 if there are any, unless --lenient is set.

    \b
    Examples:
      natjam workload validate FB-2009_samples_24_times_1hr_0.tsv
      natjam workload validate google-2011 --format google --lenient --show 5
    """
    from workloads.errors import Problems

    problems, jobs, tasks = Problems(lenient=True, most_kept=show), 0, 0
    with _opened(file, format, problems, columns=columns) as trace:
        for job in trace.jobs:
            jobs, tasks = jobs + 1, tasks + len(job.tasks or ())
    for problem in problems.kept:
        say(problem.message, error=True)
    if problems.count > len(problems.kept):
        say(f"... and {problems.count - len(problems.kept):,} more; see --show", error=True)
    others = f"{counted(jobs, 'job')} and {counted(tasks, 'task')} in the others"
    say(f"{file}: {counted(problems.count, 'broken row')}, {others}")
    if problems.count and not lenient:
        raise ConfigError(f"{file}: has {problems.count:,} broken rows; correct them, or skip them with --lenient")


@group.command()
def convert(
    file: File,
    out: Out,
    format: Format = None,
    lenient: Lenient = False,
    unfinished: Unfinished = None,
    columns: Columns = None,
) -> None:
    """Convert a trace to Parquet, JSON lines or SLS.

    docs/traces.md describes the workload schema in full.

    \b
    Examples:
      natjam workload convert 19-jobs.trace.json.gz 19-jobs.parquet --format rumen
      natjam workload convert 19-jobs.parquet 19-jobs.json          # for YARN's Scheduler Load Simulator
      natjam workload convert sacct.csv mine.parquet --columns submit=Submit,length=Elapsed,tasks=NCPUS,queue=Partition
    """
    from workloads.errors import Problems

    problems = Problems(lenient)
    with _opened(file, format, problems, unfinished, columns) as trace:
        count = _write(out, trace)
    _say_caution(trace.header)
    _say_skipped(file, problems)
    say(f"{out}: {counted(count, 'job')}")


@group.command()
def scale(
    file: File,
    out: Out,
    format: Format = None,
    nodes: Annotated[int, typer.Option(help="Nodes of the target cluster.", min=1)] = 6,
    containers_per_node: Annotated[int, typer.Option(help="Containers of each node.", min=1)] = 12,
    window_s: Annotated[
        str | None,
        typer.Option("--window-s", metavar="S", help="Submissions kept: the first S seconds, or '[FROM,TO]'."),
    ] = None,
    load: Annotated[float | None, typer.Option(help="Work offered, as a multiple of what the cluster can do.")] = None,
    data_scale: Annotated[float | None, typer.Option(help="Share of the bytes really shuffled and written.")] = None,
    production_fraction: Annotated[float | None, typer.Option(help="Chance that a job is production.")] = None,
    production_priority: Annotated[int | None, typer.Option(help="Least priority of production jobs.")] = None,
    deadline_factor: Annotated[
        str | None,
        typer.Option(metavar="E", help="Epsilon of the deadlines: a number, or '{uniform: [0, 2]}'."),
    ] = None,
    overheads: Annotated[str, typer.Option(help="Profile with the cost of a launch, for deadlines.")] = "hadoop-0.23",
    seed: Seed = 1,
    lenient: Lenient = False,
    columns: Columns = None,
    set_: Set = None,
) -> None:
    """Fit a trace to a cluster.

    It takes a window of the trace and sets queues, numbers of tasks, bytes and deadlines, in the same way as
    workload.trace in an experiment. docs/traces.md has the rules.

    \b
    Examples:
      natjam workload scale FB-2009_samples_24_times_1hr_0.tsv small.parquet --nodes 6 --containers-per-node 12 \\
        --window-s 3600 --production-fraction 0.3 --load 1.3
      natjam workload scale 19-jobs.parquet tight.parquet --deadline-factor '{uniform: [0, 2]}' --seed 7 \\
        --production-fraction 1 --set rates.key_s=2
    """
    from emulator.costs.overheads import load_overheads
    from workloads.adapt import Target, adapt
    from workloads.errors import Problems
    from workloads.importers import open_entry
    from workloads.record import Trace
    from workloads.schema import TraceEntry

    given = {
        "window_s": window_s,
        "load": load,
        "data_scale": data_scale,
        "production_fraction": production_fraction,
        "production_priority": production_priority,
        "deadline_factor": deadline_factor,
        "lenient": str(lenient).lower(),
    }
    base = {"format": format_of(file, format), "path": str(file), "columns": columns_of(columns)}
    entry = _validated(base, given, set_, TraceEntry)
    target = Target(nodes, nodes * containers_per_node, schedule_ns=load_overheads(overheads, Path.cwd()).schedule_ns)
    problems: list[Problems] = []

    with reading(file) as on_bytes:

        def opened() -> Trace:
            problems.append(Problems(lenient))
            return open_entry(entry, problems[-1], on_bytes)

        adapted = adapt(opened, entry, target, seed)
    count = _write(out, Trace(adapted.header, iter(adapted.jobs)))
    _say_caution(adapted.header)
    _say_skipped(file, problems[-1])
    say(adapted.header.history[-1])
    say(f"{out}: {counted(count, 'job')}, {counted(sum(len(job.tasks or ()) for job in adapted.jobs), 'task')}")


@group.command()
def generate(
    out: Out,
    jobs: Annotated[int | None, typer.Option(help="Number of jobs [default: 400]")] = None,
    span_s: Annotated[
        float | None, typer.Option("--span-s", help="All submissions fall within it [default: 3600]")
    ] = None,
    arrivals: Annotated[str | None, typer.Option(help="poisson or bursty [default: poisson]")] = None,
    burst_ratio: Annotated[
        float | None, typer.Option(help="Ratio of the highest to the lowest rate of a period [default: 30]")
    ] = None,
    map_only_fraction: Annotated[
        float | None, typer.Option(help="Share of jobs without reduces [default: 0.5]")
    ] = None,
    seed: Seed = 1,
    set_: Set = None,
) -> None:
    """Make a synthetic workload.

    Sizes and lengths are lognormal (medians of the lengths: 19 s and 231 s), arrivals Poisson or bursty.

    \b
    Examples:
      natjam workload generate synthetic.parquet --jobs 1000 --span-s 7200 --seed 3
      natjam workload generate bursty.jsonl --arrivals bursty --span-s 86400 --set reduces_median=8 --set reduce_s=60
    """
    from workloads.generate import Parameters
    from workloads.generate import generate as generated

    given = {
        "jobs": jobs,
        "span_s": span_s,
        "arrivals": arrivals,
        "burst_ratio": burst_ratio,
        "map_only_fraction": map_only_fraction,
    }
    count = _write(out, generated(_validated({}, given, set_, Parameters), seed))
    say(f"{out}: {counted(count, 'job')}")


@group.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs of one trace.", show_default=False)],
    json: Annotated[Path | None, typer.Option("--json", help="Write all results, job by job, as JSON too.")] = None,
) -> None:
    """Compare runs of a trace with the times that the trace recorded.

    The tables have completion times, evictions and lost work, by priority.

    \b
    Examples:
      natjam run google.yaml --engine sim --set scheduler.mechanism=kill --out runs/kill
      natjam run google.yaml --engine sim --out runs/checkpoint
      natjam workload compare runs/kill runs/checkpoint
    """
    from analysis.trace_outcomes import tables, trace_outcomes

    outcomes = trace_outcomes(runs)
    console = results_console()
    for table in tables(outcomes):
        console.print(table)
    if outcomes.is_scaled:
        console.print("the number of tasks was scaled (load): compare the runs with each other, not with the trace")
    if json is not None:
        from emulator.files.whole_files import write_json

        write_json(json, outcomes.to_json())


# ---- helpers ----


def _inspect_experiment(file: Path) -> None:
    """Print what the jobs of an experiment ask for, and how its cluster packs that.  Raises ConfigError."""
    from analysis.cluster_packing import packing_of, tables
    from emulator.experiment.expand import expand
    from emulator.experiment.load import load_experiment
    from emulator.resolved import nodes_of

    experiment, console = load_experiment(file), results_console()
    for part in tables(packing_of(expand(experiment, experiment.seed), nodes_of(experiment.cluster))):
        console.print(part, soft_wrap=isinstance(part, str), highlight=False, markup=False)


@contextlib.contextmanager
def _opened(
    file: Path,
    format: str | None,
    problems: Problems,
    unfinished: str | None = None,
    columns: list[str] | None = None,
) -> Iterator[Trace]:
    from workloads.importers import open_entry
    from workloads.schema import TraceEntry

    base = {"format": format_of(file, format), "path": str(file), "columns": columns_of(columns)}
    entry = _validated(base, {"rates.unfinished": unfinished}, None, TraceEntry)
    with reading(file) as on_bytes:
        yield open_entry(entry, problems, on_bytes)


def _validated(base: dict[str, Any], given: dict[str, Any], set_: list[str] | None, model: Any) -> Any:
    """The model made from options and overrides.  Raises ConfigError, which names the bad ones."""
    from emulator.files.problems import validated
    from emulator.files.yaml_positions import Document

    document: Document = Document(Path("options"), dict(base))
    for text in (*(f"{name}={value}" for name, value in given.items() if value is not None), *(set_ or ())):
        document.override(text)
    return validated(document, model)


def _write(out: Path, trace: Trace) -> int:
    from workloads.importers.sls import export_sls
    from workloads.store import SUFFIXES, write_workload

    if out.name.endswith(SUFFIXES):
        return write_workload(out, trace)
    if out.suffix == ".json":
        return export_sls(out, trace)
    raise ConfigError(f"{out}: must end in {', '.join(SUFFIXES)}, or .json for SLS")


def _say_caution(header: Header) -> None:
    if header.caution is not None:
        say(f"note: {header.caution}")


def _say_skipped(file: Path, problems: Problems) -> None:
    if problems.count:
        first = f"; the first: {problems.kept[0].message}" if problems.kept else ""
        say(f"natjam: {file}: {problems.count:,} broken rows skipped{first}", error=True)
