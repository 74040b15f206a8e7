"""Commands about the engines themselves: measure, replay, fidelity."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

if TYPE_CHECKING:
    from emulator.calibration import Calibration, Distribution
    from emulator.measure.campaign import CampaignStatus

_PLAIN_PERIOD_S = 5.0


def add_commands(app: typer.Typer) -> None:
    """Register the commands of this module."""
    for command in (measure, replay, fidelity):
        app.command()(command)


def measure(
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute: fewer samples and sizes.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results [default: where simulations look for them]")
    ] = None,
) -> None:
    """Measure what each operation costs on this machine (or the Ray cluster at RAY_ADDRESS), for simulations.

    A campaign that was stopped goes on where it was.  It leaves calibration.yaml, the samples and a plot.

    \b
    Examples:
      natjam measure
      natjam measure --quick --out calibration
      natjam run workloads/catalog/natjam-fig4.yaml --engine sim --set overheads=calibration/calibration.yaml
    """
    from emulator.calibration import default_path
    from emulator.measure.campaign import CALIBRATION_NAME, run_campaign

    out_dir = default_path().parent if out is None else out
    console = _console()
    with _CampaignDisplay(console) as display:
        calibration = run_campaign(out_dir, quick, display.update)
    console.print(_operations_table(calibration))
    console.print(_bandwidths(calibration), highlight=False)
    console.print(f"results in {out_dir}; simulations with 'overheads: native' use ", end="", soft_wrap=True)
    console.print("them" if out is None else f"this machine's: 'overheads: {out_dir / CALIBRATION_NAME}' uses these")


def replay(
    path: Annotated[Path, typer.Argument(help="Journal file or run directory.", show_default=False)],
) -> None:
    """Feed the journal of a live or simulated run to fresh machines; say where they first do something else.

    Exit status 1 where they do.

    \b
    Examples:
      natjam replay runs/fig4
      natjam replay runs/fig4/journal.jsonl.zst
    """
    from emulator.errors import RunError
    from emulator.replay_run import journals_of, replay_journal

    differing = []
    for journal in journals_of(path):
        replayed = replay_journal(journal)
        if replayed.difference is None:
            machines = f"{replayed.machines} machines"
            typer.echo(f"{journal}: {replayed.records} records of {machines} replayed, every effect the same")
        else:
            differing.append(f"{journal}: {replayed.difference}")
    if differing:
        raise RunError("\n".join(differing))


def fidelity(
    files: Annotated[list[Path], typer.Argument(help="Experiment files (YAML).", show_default=False)],
    time_scale: Annotated[float | None, typer.Option(help="Emulated seconds per real second.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each file by each engine, all of the same seed.")] = 3,
    time_scales: Annotated[
        str | None, typer.Option(help="Several, as in 1,5,20: how results drift as time is compressed.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Set any key of the files; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New or empty directory [default: runs/fidelity-TIME]")] = None,
) -> None:
    """Run experiments with both engines and say how far apart they are, beside how far live runs are from each other.

    Simulations use this machine's calibration: run 'natjam measure' first.

    \b
    Examples:
      natjam fidelity workloads/catalog/natjam-fig4.yaml --time-scale 10
      natjam fidelity workloads/catalog/*.yaml --repeats 5 --out fidelity
      natjam fidelity workloads/catalog/natjam-fig4.yaml --time-scales 1,5,20,50,100
    """
    from analysis import fidelity_report
    from analysis.fidelity import Fidelity, calibrated, compare, drifts
    from emulator.config import load_experiment
    from emulator.rundir import RunDirectory

    scales = _time_scales(time_scale, time_scales)
    options = [*(set_ or ()), *([] if time_scale is None else [f"time_scale={time_scale}"])]
    experiments = [calibrated(load_experiment(file, options)) for file in files]
    for file in files:
        sys.path.append(str(file.parent.absolute()))  # where a user's own policies lie
    directory = RunDirectory.create(out or Path("runs") / f"fidelity-{datetime.now():%Y%m%d-%H%M%S}").path
    console = _console()
    display = _PhaseDisplay(console)
    found = []
    for file, experiment in zip(files, experiments, strict=True):
        for scale in scales or [experiment.time_scale]:
            label = file.stem if not scales else f"{file.stem}-{scale:g}x"
            scaled = experiment.model_copy(update={"time_scale": scale})
            found.append(replace(compare(scaled, label, repeats, directory, display.update), name=file.stem))
            console.print(fidelity_report.file_table(found[-1]))
    whole = Fidelity(tuple(found))
    drift = drifts(found) if scales else []
    fidelity_report.write_report(whole, drift, directory)
    for part in [*fidelity_report.closing_lines(whole), *(fidelity_report.drift_tables(drift) if drift else [])]:
        console.print(part, soft_wrap=True, highlight=False)
    console.print(f"results in {directory}", soft_wrap=True, highlight=False)


def _time_scales(time_scale: float | None, several: str | None) -> list[float]:
    from emulator.errors import ConfigError

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


class _PhaseDisplay:
    """What is being done, a line for each new phase."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def update(self, phase: str) -> None:
        """Show a phase, if it is a new one."""
        if phase != self._last:
            self._last = phase
            self._console.print(phase, style="bright_black", soft_wrap=True, highlight=False)


class _CampaignDisplay:
    """A bar on a terminal, elsewhere a line of text every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_line_s = float("-inf")
        self._last_part = ""
        columns = (TextColumn("{task.description:<12}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task("", total=1.0, left="")

    def __enter__(self) -> _CampaignDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, status: CampaignStatus) -> None:
        """Show a newer status."""
        left = f"{status.left_real_s:.0f} s left" if status.done < 1 else ""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=status.done, description=status.part, left=left)
        elif status.part != self._last_part or time.monotonic() - self._last_line_s >= _PLAIN_PERIOD_S:
            self._last_part, self._last_line_s = status.part, time.monotonic()
            self._console.print(f"{100 * status.done:3.0f}% | {status.part} | {left}", highlight=False)


def _operations_table(calibration: Calibration) -> Table:
    table = Table(title="real milliseconds; the mean with its 95% interval", title_justify="left")
    for name in ("operation", "at"):
        table.add_column(name)
    for name in ("n", "mean", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right")
    for group in (calibration.operations, calibration.observations):
        for name, distribution in group:
            table.add_row(name, "", *_cells(distribution))
        table.add_section()
    for name, series in calibration.series:
        for point in series.points:
            table.add_row(name, f"{point.at:,} {series.by}", *_cells(point.distribution))
    return table


def _bandwidths(calibration: Calibration) -> str:
    """What a byte more costs, as megabytes a second."""
    found = []
    for name, series in (
        ("map output", calibration.series.map_by_bytes),
        ("shuffle", calibration.series.fetch_by_bytes),
        ("storage", calibration.series.storage_write),
    ):
        first, last = series.points[0], series.points[-1]
        took_real_ns = last.distribution.mean_real_ns - first.distribution.mean_real_ns
        found.append(f"{name} {1e3 * (last.at - first.at) / took_real_ns:.0f} MB/s" if took_real_ns > 0 else "")
    return "bandwidth, start-up not counted: " + ", ".join(filter(None, found))


def _cells(distribution: Distribution) -> list[str]:
    low, high = distribution.mean_ci95_real_ns
    percentiles = (distribution.p50_real_ns, distribution.p95_real_ns, distribution.p99_real_ns)
    return [
        str(distribution.n),
        f"{distribution.mean_real_ns / 1e6:.3f} ± {(high - low) / 2e6:.3f}",
        *(f"{value / 1e6:.3f}" for value, _, _ in percentiles),
        f"{distribution.quantiles_real_ns[-1] / 1e6:.1f}",
    ]


def _console() -> Console:
    """The console on standard output; wide enough for the tables where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=140)
