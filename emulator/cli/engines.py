"""Commands about the engines: measure and replay."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from emulator.cli import detached
from emulator.display.console import results_console, say, warn
from emulator.display.tables import names, new_table, numbers
from emulator.display.work_display import WorkDisplay
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from emulator.costs.calibration import Calibration, Distribution


def measure(
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute: fewer samples and sizes.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results [default: where simulations look for them]")
    ] = None,
    detach: detached.Detach = False,
    cluster: detached.RunOnCluster = None,
) -> None:
    """Measure what each operation costs on this machine.

    Simulations use the figures (overheads: native).  With RAY_ADDRESS set, the cluster there is measured.  Close other
    programs first: they make the figures worse, and a warning says so.  If you stop it, the next call continues.
    It writes calibration.yaml, the samples and a plot.

    \b
    Examples:
      natjam measure
      natjam measure --quick --out calibration
      natjam run catalog:natjam-fig4 --engine sim --set overheads=calibration/calibration.yaml
      natjam measure --cluster cluster.yaml --out of-the-cluster
    """
    from emulator.costs.calibration import busy_warning
    from emulator.costs.calibration_file import default_path
    from emulator.live.memory.nodes import why_no_swap
    from emulator.measure.campaign import CALIBRATION_NAME, run_campaign

    if detach or cluster is not None:
        out = out or Path("runs") / f"measure-{datetime.now():%Y%m%d-%H%M%S}"  # it must not replace this machine's own
        detached.start("measure", None, out, ["--quick"] if quick else [], cluster, detach)
        return
    if warning := busy_warning():
        warn(warning)
    out_dir = default_path().parent if out is None else out
    console = results_console()
    with WorkDisplay(console) as display:
        calibration = run_campaign(out_dir, quick, display.update)
    console.print(_operations_table(calibration))
    console.print(_bandwidths(calibration), highlight=False)
    if calibration.memory is not None and calibration.memory.swap_out_bytes_s is None and (why := why_no_swap()):
        console.print(f"the part 'swap' was left out: {why}", highlight=False)
    console.print(f"results in {out_dir}; simulations with 'overheads: native' use ", end="", soft_wrap=True)
    console.print("them" if out is None else f"this machine's: 'overheads: {out_dir / CALIBRATION_NAME}' uses these")


def replay(
    path: Annotated[Path, typer.Argument(help="Journal file or run directory.", show_default=False)],
) -> None:
    """Feed a run's journal to fresh state machines.

    They must do the same as in the run. If not, the first difference is printed and the exit status is 1.

    \b
    Examples:
      natjam replay runs/fig4
      natjam replay runs/fig4/journal.jsonl.zst
    """
    from emulator.errors import RunError
    from emulator.records.replay import journals_of, replay_journal

    differing = []
    for journal in journals_of(path):
        replayed = replay_journal(journal)
        if replayed.difference is None:
            machines = counted(replayed.machines, "machine")
            say(f"{journal}: {counted(replayed.records, 'record')} of {machines} replayed, every effect the same")
        else:
            differing.append(f"{journal}: {replayed.difference}")
    if differing:
        raise RunError("\n".join(differing))


_SWAP = (("swap_out", "paged out"), ("swap_in", "paged in"))


def _operations_table(calibration: Calibration) -> Table:
    from emulator.measure.campaign import CALIBRATION_NAME

    title = "real milliseconds; the mean with its 95% interval"
    columns = [
        *names("operation", "at"),
        *numbers("n", "mean", importance=4),
        *numbers("p50", "p95"),
        *numbers("p99", importance=3),
    ]
    table = new_table(title, [*columns, *numbers("max")], also_in=CALIBRATION_NAME)
    for group in (calibration.operations, calibration.observations):
        for name, distribution in group:
            table.add_row(name, "", *_cells(distribution))
        table.add_section()
    for name, series in calibration.series:
        for point in series.points if series else ():
            table.add_row(name, f"{point.at:,} {series.by}", *_cells(point.distribution))
    return table


def _bandwidths(calibration: Calibration) -> str:
    """What each further byte costs, as megabytes a second."""
    found = []
    for name, series in (
        ("map output", calibration.series.map_by_bytes),
        ("shuffle", calibration.series.fetch_by_bytes),
        ("storage", calibration.series.storage_write),
    ):
        first, last = series.points[0], series.points[-1]
        took_real_ns = last.distribution.mean_real_ns - first.distribution.mean_real_ns
        found.append(f"{name} {1e3 * (last.at - first.at) / took_real_ns:.0f} MB/s" if took_real_ns > 0 else "")
    speeds = calibration.memory.model_dump() if calibration.memory else {}
    for name, what in (("memory_write", "memory written"), ("memory_read", "read back"), *_SWAP):
        if bytes_s := speeds.get(f"{name}_bytes_s"):
            found.append(f"{what} {bytes_s / 1e6:.0f} MB/s")
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
