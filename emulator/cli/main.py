"""The command line.  Heavy imports happen inside the commands, so that help and bad input answer at once."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text
from typer.core import TyperGroup

from emulator import __version__
from emulator.cli import (
    advise,
    campaign,
    chaos,
    detached,
    engines,
    fidelity,
    imports,
    loops,
    machine,
    play,
    results,
    who,
    workload,
)
from emulator.cli.options import Command, Out, Set, claimed, overrides_of, results_path
from emulator.display.console import results_console, say, warn
from emulator.display.tables import names, new_table, words
from emulator.errors import ConfigError, NatjamError, RunError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

    from emulator.display.status import RunStatus
    from emulator.engine import OnStatus
    from emulator.experiment.model import Experiment
    from emulator.live.session.watch_page import WatchPage


_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])
"""What is wrong in a command line."""


_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}
    | {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}
)
"""What the machine says where the user may not, or where there is no room left: no fault of natjam."""


_LARGE_FILE_BYTES = 1 << 20
"""Of an experiment file above which it takes so long to read that this is said."""


class _Commands(TyperGroup):
    """Turns our errors, and what the machine refuses, into one message on stderr and an exit status.

    ``NATJAM_DEBUG=1`` shows the traceback.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Paths that are no UTF-8 can be written neither into files of results nor to the terminal.
        if foreign := [each for each in args if os.fsencode(each).decode(errors="ignore") != each]:
            say(f"natjam: '{foreign[0]}': is not UTF-8; name another path", error=True)
            raise typer.Exit(ConfigError.exit_code)
        with _escaped():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _escaped():
                return super().invoke(ctx)
        except NatjamError as error:
            if os.environ.get("NATJAM_DEBUG"):
                raise
            for line in error.message.splitlines():
                say(f"natjam: {line}", error=True)
            raise typer.Exit(error.exit_code) from None
        except OSError as error:
            if error.errno not in _REFUSALS or os.environ.get("NATJAM_DEBUG"):
                raise
            what = "" if error.filename is None else f"{error.filename}: "
            say(f"natjam: {what}{error.strerror}", error=True)
            raise typer.Exit(RunError.exit_code) from None


@contextlib.contextmanager
def _escaped() -> Iterator[None]:
    """What is said of the command line quotes it."""
    try:
        yield
    except _UsageError as error:
        error.message = printable(error.message)
        raise


app = typer.Typer(
    cls=_Commands,
    help="A laboratory for preemption in shared clusters: on real processes, or simulated.",
    epilog="Start with 'natjam init mine'. Exit status: 0 done; 1 ran and failed; 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"natjam {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML), or catalog:NAME.", show_default=False)],
    engine: Annotated[
        str | None, typer.Option(help="live (real processes), sim or fluid [default: the file's]")
    ] = None,
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything drawn at random.")] = None,
    repeats: Annotated[int | None, typer.Option(help="How many runs: with this seed, the next one, and so on.")] = None,
    set_: Set = None,
    out: Out = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail (exit status 1) if the machine did not keep up, or what decides at the site is not modelled.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show a live run while it runs, on a page in your browser.")
    ] = False,
    detach: detached.Detach = False,
    cluster: detached.RunOnCluster = None,
) -> None:
    """Run an experiment and say what it did to every job.

    \b
    Examples:
      natjam run catalog:natjam-fig4 --time-scale 20 --out fig4
      natjam run catalog:natjam-fig4 --set scheduler.mechanism=suspend --set overheads=native
      natjam run catalog:natjam-fig4 --time-scale 20 --watch     # open the address it prints
      natjam run catalog:natjam-fig4 --cluster cluster.yaml --set storage.url=/mnt/shared
      natjam run mine.yaml --seed 7 --set cluster.nodes=12 --set workload.jobs.0.submit_s=30
      natjam run site.yaml                    # a cluster or site that natjam import has written
    """
    from emulator.display.basis import head_answer
    from emulator.display.closing_tables import MAX_JOBS, closing_tables
    from emulator.display.work_display import RunDisplay
    from emulator.experiment.load import load_experiment
    from emulator.experiment.warnings import trace_caution, warnings
    from emulator.records.gaps import disturbed_text
    from emulator.records.run_directory import RunDirectory
    from emulator.records.summary import failures

    settings = overrides_of(set_, engine=engine, time_scale=time_scale, seed=seed, repeats=repeats)
    sys.path.append(str(file.parent.absolute()))  # so that every process of the run finds the user's own policies
    if file.is_file() and file.stat().st_size > _LARGE_FILE_BYTES:
        say(f"reading {file.name}, {file.stat().st_size >> 20} MiB", error=True)
    experiment = load_experiment(file, settings)
    head_answer(experiment.basis, strict)
    for warning in warnings(experiment):
        warn(warning)
    if caution := trace_caution(experiment):
        say(f"note: {caution}", error=True)
    if experiment.engine == "live":
        from emulator.live.memory.fitting import memory_warnings

        for warning in memory_warnings(experiment):
            warn(warning)
    if experiment.engine == "sim":
        from emulator.sim.session import calibration_warning

        if warning := calibration_warning(experiment):
            warn(warning)
    out_dir = results_path(experiment.name, out)
    with RunDirectory.claimed(out_dir, experiment.name):
        pass  # if it cannot be used, this is said before anything is started
    console = results_console()
    try:
        if detach or cluster is not None:
            again = [f"--set={setting}" for setting in settings]
            again += [name for name, is_given in (("--strict", strict), ("--watch", watch)) if is_given]
            detached.start("run", file, out_dir, again, cluster, detach)
            return
        from analysis.whole_run import REPORT_NAME, run_experiment

        with _watch_page(experiment, watch, console, out_dir) as page, RunDisplay(console) as display:
            summary = run_experiment(experiment, out_dir, _both(display.update, page))
            if page is not None:
                report = out_dir / REPORT_NAME
                page.end(f"the run has ended; results in {out_dir}", report if report.exists() else None)
    except BaseException:
        _say_what_is_left(out_dir)
        raise
    for table in closing_tables(summary):
        console.print(table)
    console.print(Text(f"results in {out_dir}"), soft_wrap=True)
    found = failures(summary)
    if disturbed := disturbed_text(summary):
        if strict:
            found.append(disturbed)
        else:
            console.print(Text(disturbed, "bold yellow"), soft_wrap=True)
    if found:
        more = f"; and {len(found) - MAX_JOBS:,} more" if len(found) > MAX_JOBS else ""
        raise RunError("; ".join(found[:MAX_JOBS]) + more)


def _say_what_is_left(out_dir: Path) -> None:
    """Show the figures of a run that did not finish, up to its end, and say where they are."""
    from analysis.run_paths import read_summary
    from emulator.display.closing_tables import closing_tables
    from emulator.records.run_directory import RunDirectory
    from emulator.vocabulary import counted

    with contextlib.suppress(ConfigError):  # it left none
        for table in closing_tables(read_summary(out_dir)):
            results_console().print(table)
    if (out_dir / "report.html").exists():
        say(f"natjam: the results so far are in {out_dir}", error=True)
    elif RunDirectory(out_dir).found_journal() is not None:
        say(f"natjam: 'natjam report {out_dir}' shows the run as far as it got, if a task had begun", error=True)
    elif ended := len([*out_dir.glob("repeat-*/summary.json")]):
        say(f"natjam: {counted(ended, 'repeat')} ended; 'natjam report {out_dir}' shows them", error=True)


@contextlib.contextmanager
def _watch_page(experiment: Experiment, wanted: bool, console: Console, out_dir: Path) -> Iterator[WatchPage | None]:
    """The page of ``--watch``, after saying where it is; None where no page is wanted."""
    if not wanted:
        yield None
        return
    if experiment.engine != "live":
        raise ConfigError("--watch is for live runs; a simulation leaves its report.html when it has ended")
    from emulator.live.session.detached import page_kept
    from emulator.live.session.watch_page import WatchPage

    with WatchPage(experiment) as page, page_kept(out_dir, page.address) as is_kept:
        at = f"it with 'natjam attach {out_dir}'" if is_kept else f"it at {page.address}"
        console.print(f"watch {at}", soft_wrap=True, highlight=False, markup=False)
        yield page


def _both(display: OnStatus, page: WatchPage | None) -> OnStatus:
    """Updates the terminal and, if there is one, the page."""

    def tell(status: RunStatus) -> None:
        display(status)
        if page is not None:
            page.update(status)

    return tell


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Experiment files (YAML).", show_default=False)],
) -> None:
    """Check experiment files without running them.

    Every problem is printed with file, line and field.

    \b
    Examples:
      natjam validate mine.yaml
      natjam validate catalog:natjam-fig4
    """
    from emulator.core.job import counted_tasks
    from emulator.experiment.expand import expand
    from emulator.experiment.load import load_experiment
    from emulator.experiment.warnings import warnings
    from emulator.vocabulary import counted

    problems = []
    for file in files:
        try:
            experiment = load_experiment(file)
            jobs = expand(experiment, experiment.seed)
        except ConfigError as error:
            problems.append(error.message)
            continue
        say(f"{file}: valid: {counted_tasks(jobs)} on {counted(experiment.cluster.containers, 'container')}")
        for warning in warnings(experiment):
            warn(f"{file}: {warning}")
    if problems:
        raise ConfigError("\n".join(problems))


@app.command()
def policies() -> None:
    """List the policies for every axis of a scheduler.

    \b
    Example:
      natjam policies
    """
    results_console().print(_policies_table())


def _policies_table() -> Table:
    table = new_table(None, [*names("axis", "name"), *words("what it does", "source")])
    last_axis = ""
    for axis, name, description, source in list_policies():
        if axis != last_axis and last_axis:
            table.add_section()
        table.add_row(axis if axis != last_axis else "", name, description, source)
        last_axis = axis
    return table


@app.command()
def demo(
    context: typer.Context,
    out: Out = None,
) -> None:
    """Run figure 4 of the Natjam paper on real processes.

    It runs under four ways to make room, prints the published figures beside the measured ones, and says in one line
    what they show. It leaves a report and a picture. On a busy machine it runs slower; what is disturbed nevertheless
    is not compared with the paper.

    \b
    Examples:
      natjam demo
      natjam demo --out mydemo
    """
    from analysis.demo.run import run_demo

    out_dir = claimed(context, "demo", out)
    try:
        run_demo(results_console(), out_dir)
    except BaseException:
        _say_what_is_left(out_dir)
        raise


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or existing directory.", show_default=False)],
    program: Annotated[
        bool, typer.Option("--program", help="An experiment whose tasks are a program of yours.")
    ] = False,
) -> None:
    """Make a directory with a first experiment, a campaign of it, and an example of your own policy.

    With --program, the experiment preempts a training loop of a few lines, which you replace by your own program.

    \b
    Examples:
      natjam init mine
      cd mine; natjam run experiment.yaml
      natjam init training --program
    """
    from importlib import resources

    from emulator.files.whole_files import NAME_ANOTHER, replaced_whole, writing

    folder = "starter_program" if program else "starter"
    files = {file.name: file for file in (resources.files("workloads") / folder).iterdir()}
    contents = {name: files[name].read_bytes() for name in sorted(files) if name.endswith((".yaml", ".py"))}
    if there := [name for name in contents if (directory / name).exists()]:
        raise ConfigError(f"{directory / there[0]}: exists already; name another directory")
    with writing(directory, ConfigError, NAME_ANOTHER):
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            with replaced_whole(directory / name) as file:
                file.write_bytes(data)
    for name in contents:
        say(str(directory / name))
    say("")
    say(f"Next: cd {shlex.quote(str(directory))} && natjam run experiment.yaml")


def examples() -> None:
    """List the experiments that come with natjam; each runs as catalog:NAME.

    \b
    Examples:
      natjam examples
      natjam run catalog:natjam-fig4
      natjam run catalog:facebook-50 --engine sim
    """
    results_console().print(_examples_table())


def _examples_table() -> Table:
    from emulator.experiment.catalog import examples as found

    table = new_table(None, [*names("name"), *words("what it is")])
    for example in found():
        table.add_row(example.name, example.summary)
    return table


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="experiment or campaign.")] = "experiment",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of printing it.")] = None,
) -> None:
    """Print the JSON schema of experiment or campaign files, for editors.

    An editor with a YAML language server then completes keys, says what they mean and marks typos. It finds the schema
    by a first line in the file: # yaml-language-server: $schema=natjam.schema.json

    \b
    Examples:
      natjam schema --out natjam.schema.json
      natjam schema campaign --out campaign.schema.json
    """
    import json

    from emulator.campaign.definition import CampaignFile
    from emulator.experiment.editor_schema import editor_schema, experiment_schema
    from emulator.files.whole_files import write_json

    if kind not in ("experiment", "campaign"):
        raise ConfigError(f"{kind}: must be experiment or campaign")
    found = experiment_schema() if kind == "experiment" else editor_schema(CampaignFile)
    if out is None:
        typer.echo(json.dumps(found, indent=1))
    else:
        write_json(out, found)
        typer.echo(f"{out}: begin a file with '# yaml-language-server: $schema={out.name}', in the same directory")


app.command(short_help="Make a directory with a first experiment.")(init)
app.command(short_help="List the experiments that come with natjam.")(examples)
app.command(short_help="Print the JSON schema of experiment files, for editors.")(schema)
app.command(short_help="Say which way to preempt suits a workload.")(advise.advise)
for command in (
    *(engines.measure, engines.replay),
    *(detached.attach, detached.status, detached.stop),
    *(detached.suspend, detached.resume, detached.kill),
    fidelity.fidelity,
    *(results.compare, results.explain, results.report, results.verify),
    *(campaign.campaign, campaign.reproduce),
    chaos.chaos,
    loops.loops,
    play.play,
    who.who,
    *(machine.doctor, machine.probe, machine.hosts),
):
    app.command()(command)
app.add_typer(workload.group, name="workload")
app.add_typer(imports.group, name="import")
for each in (app, workload.group, imports.group):
    for info in each.registered_commands:
        info.cls = Command


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line with only the command that ``arguments`` ask for: to build all takes a tenth of a short run."""
    asked = arguments[:1]
    commands = [one for one in app.registered_commands if one.callback and [one.callback.__name__] == asked]
    groups = [one for one in app.registered_groups if [one.name] == asked]
    if not commands and not groups:
        return app
    only = copy(app)
    only.registered_commands, only.registered_groups = commands, groups
    return only


def list_policies() -> list[tuple[str, str, str, str]]:
    """Axis, name, description and source of every policy, from the registry."""
    from emulator.policies.axes import AXES

    return [
        (axis.name, policy.name, policy.summary, policy.source) for axis in AXES.values() for policy in axis.policies
    ]
