"""The command chaos."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Out, Set, claimed, overrides_of
from emulator.display.console import results_console
from emulator.display.tables import names, new_table, numbers
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from rich.table import Table

    from emulator.chaos.runner import Judged, Tally
    from emulator.chaos.schedule import FaultKind


def chaos(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="Experiment file (YAML), or catalog:NAME.", show_default=False)
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10**7, help="How many seeds; each draws its own faults.")] = 100,
    first: Annotated[
        int | None, typer.Option("--from", min=0, max=10**9, help="The first seed [default: drawn, and printed]")
    ] = None,
    faults: Annotated[
        str | None, typer.Option(help="Kinds of faults to draw from, with commas between them [default: all]")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run the faults of a violation again.", show_default=False)
    ] = None,
    set_: Set = None,
    out: Out = None,
) -> None:
    """Simulate an experiment with faults, and check the results.

    Each seed draws its own faults: processes, nodes and hosts die, machines pause, messages are lost, doubled or
    late, nodes are cut off or taken for dead, map outputs and checkpoints are lost, disks are full or slow, clocks
    step.

    Checked: every key is done once; no node runs more than it has room for; every job ends in bounded time, or fails
    with a reason; nothing is left; the journal replays. A violation is printed with its seed and the shortest list of
    faults that still causes it, and saved; the exit status is then 1.

    A run whose tasks are preempted without end is given up. Where jobs may take turns (MLF), or the cluster takes
    containers back (cluster.availability), it is counted and is no violation.

    The table says what each kind of fault costs: by how much runs with only that one took longer, and how much work
    they lost, on average.

    \b
    Examples:
      natjam chaos catalog:natjam-fig4 --seeds 1000
      natjam chaos mine.yaml --seeds 200 --from 1 --set scheduler.mechanism=suspend
      natjam chaos mine.yaml --faults partition,pause,bad-network
      natjam chaos --replay runs/chaos-mine/seed-17/faults.json
    """
    from emulator.chaos.runner import FAULTS_NAME, replay_faults, run_chaos
    from emulator.display.work_display import WorkDisplay
    from emulator.errors import ConfigError, RunError
    from emulator.experiment.load import load_experiment

    console = results_console()
    if (file is None) == (replay is None):
        raise ConfigError("give either an experiment file, or --replay and the file of a violation")
    if replay is not None:
        judged = replay_faults(replay)
        if judged.violation is not None:
            raise RunError(_told(judged))
        console.print(f"seed {judged.seed}: no violation", highlight=False)
        return
    assert file is not None
    sys.path.append(str(file.parent.absolute()))  # so that every process finds the user's own policies
    experiment = load_experiment(file, overrides_of(set_, engine="sim"))
    kinds = _kinds(faults)
    first = random.randrange(10**9) if first is None else first
    directory = claimed(context, f"chaos-{experiment.name}", out)
    console.print(f"seeds {first} to {first + seeds - 1}", highlight=False)
    with WorkDisplay(console) as display:
        tally = run_chaos(experiment, range(first, first + seeds), kinds, directory, display.update)
    console.print(_table(tally))
    if tally.violations:
        found = [
            f"{_told(judged)}\nsaved in {directory / f'seed-{judged.seed}' / FAULTS_NAME}"
            for judged in tally.violations
        ]
        raise RunError("\n".join(found))
    console.print(f"{counted(tally.seeds, 'seed')}: no violation", highlight=False)


def _kinds(names: str | None) -> list[FaultKind]:
    from emulator.chaos.schedule import FaultKind
    from emulator.errors import ConfigError

    by_name = {kind.value: kind for kind in FaultKind}
    wanted = [name.strip() for name in names.split(",")] if names is not None else list(by_name)
    if unknown := [name for name in wanted if name not in by_name]:
        raise ConfigError(f"--faults {unknown[0]!r}: no kind of fault; there are {', '.join(by_name)}")
    return [by_name[name] for name in wanted]


def _told(judged: Judged) -> str:
    """A violation in words: its seed, the rule that was broken, and the faults."""
    faults = [f"  {fault}" for fault in judged.faults] or ["  without any fault"]
    return "\n".join([f"seed {judged.seed}: {judged.violation}", *faults])


def _table(tally: Tally) -> Table:
    from emulator.chaos.schedule import FaultKind

    title = f"{counted(tally.seeds, 'seed')}, {counted(sum(tally.jobs.values()), 'job')}"
    table = new_table(title, [*names("what happened"), *numbers("times", "alone", "time added", "work lost")])
    for kind in FaultKind:
        if tally.happened[kind]:
            costs = tally.costs.get(kind, [])
            means = (f"{fmean(of) / 1e9:,.1f} s" for of in zip(*costs, strict=True))
            table.add_row(kind.value, f"{tally.happened[kind]:,}", f"{len(costs):,}", *means)
    table.add_section()
    for state, count in tally.jobs.items():
        table.add_row(f"jobs {state.value}", f"{count:,}")
    if tally.endless:
        table.add_row("given up: preempted without end", f"{tally.endless:,}")
    return table
