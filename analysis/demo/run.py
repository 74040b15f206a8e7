"""Runs the demonstration and shows it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path

import pyarrow.parquet
from rich.console import Console
from rich.markup import escape

from analysis.demo.rows import KILL, NATJAM, VARIANTS, Done, Way, busy_text, cells, not_comparable, verdict
from analysis.demo.scale import (
    choose_scale,
    expected_end,
    expected_real_s,
    measure_load,
    most_real_s,
    scale_text,
    slower,
)
from analysis.whole_run import run_experiment
from emulator.core.settings import OverheadSettings
from emulator.costs.overheads import load_overheads
from emulator.display.tables import ALWAYS, FittedTable, names, new_table, numbers, words
from emulator.display.work_display import RunDisplay
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.whole_files import written_whole
from emulator.live.session.ray_runtime import ray_for_runs
from emulator.records.summary import failures

REPORT_NAME, PICTURE_NAME = "report.html", "demo.png"


def run_demo(console: Console, out_dir: Path) -> None:
    """Run Fig. 4 under every variant; print the table and a verdict; leave a report, a picture and the runs in
    ``out_dir``.  Raises RunError if an output is wrong."""
    console.print(
        "natjam, Fig. 4: research-XL (47 reduces) has the cluster's 48 containers; at 50 s production-S arrives.\n"
        "Real processes, real signals and files, overheads of Hadoop 0.23."
    )
    with console.status("measuring how fast this machine launches tasks"):
        load = measure_load()
    experiment = _experiment()
    profile = load_overheads(experiment.overheads, Path())
    scale = choose_scale(load, profile.schedule_ns / 1e9, experiment.heartbeat_s)
    console.print(scale_text(load, scale, datetime.now()), soft_wrap=True, highlight=False)

    def run(variant: Way, scale: float, directory: Path) -> Done:
        number = VARIANTS.index(variant)
        end = expected_end(datetime.now(), scale, len(VARIANTS) - number)
        console.print(
            f"[bold]{variant.name}[/], {number + 1} of {len(VARIANTS)}, time scale {scale:g}; all end at about {end}",
            highlight=False,
        )
        with RunDisplay(console) as display:
            made = _experiment(f"time_scale={scale}", *variant.overrides)
            summary = run_experiment(made, directory, display.update)
        return Done(variant, summary, directory, latest_move_s(directory, profile), load.idle_cores)

    runs: list[Done] = []
    with ray_for_runs():
        for done in run_all(run, scale, out_dir, time.monotonic):
            runs.append(done)
            if done.variant is KILL:
                _say_verdict(console, runs)
                console.print("Two more ways for comparison, then the table:", highlight=False)
    _show(console, runs)
    _draw(console, runs, out_dir)
    _say_verdict(console, runs)
    if broken := [f"{done.variant.name}: {failure}" for done in runs for failure in failures(done.summary)]:
        raise RunError("; ".join(broken))


def _say_verdict(console: Console, runs: Sequence[Done]) -> None:
    by_variant = {done.variant: done for done in runs}
    console.print(f"[bold]{verdict(by_variant[NATJAM], by_variant[KILL])}[/]", soft_wrap=True, highlight=False)


def _experiment(*overrides: str) -> Experiment:
    catalog = resources.files("workloads") / "catalog" / "natjam-fig4.yaml"
    with resources.as_file(catalog) as path:
        return load_experiment(path, overrides)


def run_all(
    run: Callable[[Way, float, Path], Done], scale: float, out_dir: Path, now_real_s: Callable[[], float]
) -> Iterator[Done]:
    """Run every variant at ``scale``.  One that is disturbed is run again, once and slower, and the next ones are as
    slow, because they would be disturbed too; but not if that would take longer than ``most_real_s``."""
    until_real_s = now_real_s() + most_real_s(scale)
    for number, variant in enumerate(VARIANTS):
        done = run(variant, scale, out_dir / variant.directory)
        rest_real_s = expected_real_s(slower(scale), len(VARIANTS) - number)
        if done.disturbances() and now_real_s() + rest_real_s <= until_real_s:
            scale = slower(scale)
            done = run(variant, scale, out_dir / f"{variant.directory}-slower")
        yield done


def _show(console: Console, runs: Sequence[Done]) -> None:
    table = _table()
    for done in runs:
        table.add_row(*cells(done))
    console.print(table)
    console.print(
        "[dim]Emulated seconds; in brackets the difference from the paper's figure (natjam, section 5), if it has "
        "one.\nLate launches, which took longer than the paper's, can have moved an end by no more than is said.\n"
        "Alone on the cluster: research 192.3 s, production 70.4 s (natjam, Fig. 3).[/]"
    )
    for said in (busy_text(runs[0].idle_cores), *map(not_comparable, runs)):
        if said is not None:
            console.print(f"[yellow]{escape(said)}[/]", soft_wrap=True, highlight=False)


def _table() -> FittedTable:
    times = ("production-S\nmeasured s", "production-S\npaper s", "research-XL\nmeasured s", "research-XL\npaper s")
    columns = [
        *names("room is made by"),
        *numbers(*times, importance=ALWAYS),
        *numbers("moved by late\nlaunches, at most s", importance=ALWAYS),
        *numbers("preempted", "work lost s"),
    ]
    return new_table("Completion times, measured and published", [*columns, *words("output")])


def _draw(console: Console, runs: Sequence[Done], out_dir: Path) -> None:
    from analysis.demo.picture import draw
    from analysis.report.page import report_of

    with console.status("making the report and the picture"):
        with written_whole(out_dir / REPORT_NAME) as unfinished:
            unfinished.write_text(report_of([done.directory for done in runs]))
        draw(runs, out_dir / PICTURE_NAME)
    for what, name in (("report", REPORT_NAME), ("picture", PICTURE_NAME)):
        console.print(f"{what} in {out_dir / name}", soft_wrap=True, highlight=False, markup=False)


# ---- how far operations that took longer than published can have moved the ends of a run's jobs ----
#
# One operation's delay delays another only if it ended before the other began.  So the delays that add up are those of
# operations one after the other, and no end can be later by more than the sum along the worst such chain.  The bound is
# one for all jobs of a run, because a job may wait for a container that another job held.  It leaves out that a delay
# can change which task is chosen: that moves ends as another seed does.


_COLUMNS = ("operation", "begin_s", "end_s")


def latest_move_s(directory: Path, profile: OverheadSettings) -> float:
    """The bound for the run in ``directory``, in emulated seconds.  Raises OSError."""
    table = pyarrow.parquet.read_table(directory / "operations.parquet", columns=list(_COLUMNS))
    published_s = {
        "schedule": profile.schedule_ns / 1e9,
        "suspend": profile.suspend_ns / 1e9,
        "resume": profile.resume_ns / 1e9,
    }
    return worst_chain_s(zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True), published_s)


def worst_chain_s(operations: Iterable[tuple[str, float, float]], published_s: Mapping[str, float]) -> float:
    """The largest sum of delays of operations of which each began after the one before had ended.

    Args:
        operations: what was done, when it began and when it ended, in emulated seconds.
        published_s: how long each takes; the time above it is its delay.  Others have none.
    """
    late = sorted(
        (end_s, begin_s, end_s - begin_s - published_s[operation])
        for operation, begin_s, end_s in operations
        if operation in published_s and end_s - begin_s > published_s[operation]
    )
    ends_s, worst_s = [end_s for end_s, _, _ in late], [0.0]
    for number, (_, begin_s, delay_s) in enumerate(late):
        before = bisect_right(ends_s, begin_s, hi=number)
        worst_s.append(max(worst_s[-1], worst_s[before] + delay_s))
    return worst_s[-1]
