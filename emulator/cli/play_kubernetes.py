"""``natjam play`` of an imported Kubernetes cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.display.console import results_console, say
from emulator.display.tables import names, new_table, numbers, or_dash
from emulator.display.work_display import WorkDisplay, WorkStatus
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import write_csv
from emulator.policies.kubernetes.outcome import PriorityOutcome, outcomes
from emulator.policies.kubernetes.player import Day, Player
from emulator.policies.kubernetes.terms import first_of_best
from emulator.policies.schedulers.protocol import CannotGoOnError
from emulator.sites.kubernetes import Kubernetes
from emulator.vocabulary import counted
from workloads.saved import read_saved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from emulator.display.tables import FittedTable
    from emulator.policies.kubernetes.player import Run
    from emulator.sites.kubernetes import PriorityClass

_LOOK_CYCLES = 500
_COLUMNS = ("pod", "created_s", "start_s", "end_s", "node", "evicted_by", "lost_s")


def play_kubernetes(file: Path, out: Path | None) -> None:
    """Play the pods of a file, and print what became of each priority.  Raises ConfigError, RunError."""
    cluster = read_saved(file, Kubernetes)
    if not cluster.arrivals:
        raise ConfigError(f"{file}: kubernetes.arrivals: there are none; import the pods, or give --arrivals or --draw")
    say(f"playing {counted(len(cluster.arrivals), 'pod')} on {counted(len(cluster.state.nodes), 'node')}")
    began_s = time.monotonic()
    try:
        day = _play(cluster)
    except CannotGoOnError as error:
        raise RunError(f"{file}: {error}") from None
    took_s = max(time.monotonic() - began_s, 1e-3)
    results_console().print(outcome_table(outcomes(cluster.arrivals, day.runs), cluster.classes))
    counts = f"{counted(day.cycles, 'scheduling cycle')}, {counted(day.evictions, 'eviction')}"
    say(f"{counts}; {day.cycles / took_s:,.0f} cycles a second")
    if out is not None:
        write_csv(out, _COLUMNS, _rows(day.runs))
        say(f"{out}: every pod's node, start and end")


def outcome_table(found: Iterable[PriorityOutcome], classes: Sequence[PriorityClass]) -> FittedTable:
    """A row for each priority, with the classes that have it."""
    figures = numbers("priority", "pods", "placed", "wait s", "longest wait s", "evictions", "lost pod-h")
    table = new_table("", [*names("class"), *figures])
    for each in found:
        of = ", ".join(one.name for one in classes if one.value == each.priority)
        waits = (or_dash(wait_s, ",.0f") for wait_s in (each.wait_s, each.longest_wait_s))
        counts = (f"{each.priority:,}", f"{each.pods:,}", f"{each.placed:,}")
        table.add_row(of or "-", *counts, *waits, f"{each.evictions:,}", f"{each.lost_pod_h:,.2f}")
    return table


def _play(cluster: Kubernetes) -> Day:
    last_ns, cycles = max(1, *(each.submit_ns for each in cluster.arrivals)), 0
    with WorkDisplay(results_console(stderr=True)) as display:

        def show(at_ns: int, _: object) -> None:
            nonlocal cycles
            cycles += 1
            if cycles % _LOOK_CYCLES == 0:
                display.update(WorkStatus("playing", max(0.0, min(1.0, at_ns / last_ns)), None))

        state = cluster.state
        return Player(state.nodes, cluster.arrivals, first_of_best, cluster.budgets, show, state.groups).play()


def _rows(runs: Mapping[str, Run]) -> Iterator[tuple[object, ...]]:
    for name, run in runs.items():
        times = ("" if at_ns is None else at_ns / 1e9 for at_ns in (run.submit_ns, run.start_ns, run.end_ns))
        yield (name, *times, run.node or "", run.by or "", run.lost_ns / 1e9)
