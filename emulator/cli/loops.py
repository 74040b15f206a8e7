"""The command loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Out, Strict, claimed
from emulator.display.basis import head_answer
from emulator.display.console import results_console, say
from emulator.display.work_display import WorkDisplay, WorkStatus
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from rich.console import Console

    from emulator.loops.draw import Plan
    from emulator.loops.fixes import Fixes
    from emulator.loops.search import Search
    from emulator.sites.kueue import Kueue

_LOOK_REAL_S = 0.25
_FIXES_PART = 0.5
"""The part of the time that is kept for trying fixes."""


def loops(
    context: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(help="Kueue's objects (YAML, JSON, folders), or an imported file.", show_default=False),
    ],
    seconds: Annotated[float, typer.Option(min=1, max=86400, help="How long to search, in real seconds.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the drawn workloads.")] = 1,
    out: Out = None,
    strict: Strict = False,
) -> None:
    """Search a configuration of Kueue for preemption in a circle.

    Small workloads are drawn, half of them like those of the files if there are any, and played through Kueue's
    decisions in virtual time. If a state comes back with evictions between, and nobody arrived or ended, the same
    goes on for ever. What is found is shrunk until no workload can be left out, told step by step with the reason
    of each decision, and written as an experiment and as YAML that kubectl can apply.

    Then changes that end it are told: those after which no circle is possible, and single fields, with each of which
    it is searched again. Exit status 1 if a loop was found. If none was, that proves nothing: the output says how much
    was searched.

    \b
    Examples:
      kubectl get clusterqueues,cohorts -o yaml > queues.yaml
      natjam loops queues.yaml
      natjam loops queues.yaml kueue-config.yaml --seconds 300 --seed 2
    """
    from emulator.cli.options import reading
    from emulator.errors import RunError
    from emulator.loops.fixes import fixes
    from emulator.loops.search import search, shrunk
    from emulator.sites.kueue import Kueue
    from workloads.kueue.state import read_kueue
    from workloads.saved import read_saved, system_of

    with reading(*paths) as on_bytes:
        is_imported = len(paths) == 1 and system_of(paths[0]) is not None
        kueue = read_saved(paths[0], Kueue) if is_imported else read_kueue(paths, on_bytes)[0]
    console = results_console()
    head_answer(kueue.basis, strict)
    for line in _assumed(kueue):
        say(line)
    priorities = sorted(set(kueue.priorities.values()))
    directory = claimed(context, f"loops-{paths[0].stem}", out)
    with WorkDisplay(console) as display:
        timer, like = _Timer(display), [each.workload for each in kueue.arrivals]
        searched = search(kueue.cluster, priorities, str(seed), timer.part("searching", seconds), like)
    if searched.found is None:
        _say_nothing_found(console, searched, seconds)
        return
    found = shrunk(searched.found)
    _write(directory, found)
    _draw(directory, found)
    _tell(console, directory, _story(found, searched.plays))
    with WorkDisplay(console) as display:
        left_s = max(seconds - timer.passed_s, _FIXES_PART * seconds)
        tried = fixes(found, priorities, str(seed), _Timer(display).part("trying changes", left_s), like)
    _tell(console, directory, _changes(tried, len(kueue.cluster.queues) - len(found.cluster.queues)))
    raise RunError(f"this configuration preempts in a circle; written to {directory}")


def _assumed(kueue: Kueue) -> Iterator[str]:
    """What of a cluster the search does not play."""
    if kueue.cluster.checks:
        names = ", ".join(each.name for each in kueue.cluster.checks)
        yield f"in this search admission checks pass at once: {names}"
    if kueue.cluster.pods_ready is not None:
        yield "in this search pods are ready at once: nobody waits for them, or is evicted for it"
    if kueue.nodes:
        yield "in this search nodes have no part: a workload starts when it has its quota"


class _Timer:
    """Bounds the parts of the work in time, and shows how much is left."""

    def __init__(self, display: WorkDisplay) -> None:
        self._display = display
        self._began_s = time.monotonic()
        self._last_s = 0.0

    @property
    def passed_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began_s

    def part(self, name: str, seconds: float) -> Callable[[], bool]:
        """A question that is answered with no once this part has taken so long."""
        end_s = time.monotonic() + seconds

        def goes_on() -> bool:
            now_s = time.monotonic()
            if now_s - self._last_s >= _LOOK_REAL_S:
                self._last_s = now_s
                left_s = max(0.0, end_s - now_s)
                self._display.update(WorkStatus(name, 1 - left_s / seconds, left_s))
            return now_s < end_s

        return goes_on


def _say_nothing_found(console: Console, searched: Search, seconds: float) -> None:
    counts = f"{counted(searched.cycles, 'cycle')}, {counted(searched.evictions, 'eviction')}, {seconds:g} s"
    console.print(
        f"no loop found in {searched.plays:,} plays of 3 to 12 workloads ({counts}); "
        "this does not prove that there is none",
        highlight=False,
        soft_wrap=True,
    )


def _story(found: Plan, plays: int) -> Iterator[str]:
    from emulator.loops.draw import SECOND_NS
    from emulator.loops.search import cast, story, told

    loop, log = told(found)
    assert loop is not None
    released = f"; quota is free {found.release_ns / SECOND_NS:g} s after an eviction" if found.release_ns else ""
    yield f"found after {counted(plays, 'play')}, shrunk to {counted(len(found.arrivals), 'workload')}{released}:"
    yield from (f"  {line}" for line in cast(found))
    yield "round and round:"
    yield from (f"  {line}" for line in story(loop, log))


def _changes(found: Fixes, others: int) -> Iterator[str]:
    """``others``: queues that are in other trees of cohorts."""
    from emulator.loops.fixes import LEAST_PLAYS

    yield "changes after which no circle is possible, by argument:"
    yield from (f"  {fix.text}  ({fix.argument})" for fix in found.argued)
    others_known = f" and {found.loops - 1} other{'s'[: found.loops > 2]}" if found.loops > 1 else ""
    ended = f"this circle{others_known}"
    if found.searched:
        yield f"changes of one field that end {ended}; a search with each found no other (no proof):"
        yield from (f"  {fix.text}  ({fix.plays:,} plays found none)" for fix in found.searched)
    if found.refuted:
        yield f"changes of one field that end {ended}, but leave another:"
        yield from (f"  {fix.text}  (found after {fix.plays:,} plays)" for fix in found.refuted)
    if found.dropped:
        yield (
            f"{len(found.dropped)} more changes of one field end {ended}, but were searched in fewer than"
            f" {LEAST_PLAYS:,} plays; they are not named"
        )
    if others:
        yield f"{others:,} queues do not share quota with these; circles among them were not searched after the first"


def _tell(console: Console, directory: Path, lines: Iterable[str]) -> None:
    """Print lines, and add them to the text in the directory."""
    with (directory / "loop.txt").open("a") as file:
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
            file.write(f"{line}\n")


def _write(directory: Path, found: Plan) -> None:
    """Write an experiment, and what kubectl can apply."""
    from emulator.files.yaml_values import dump_yaml
    from emulator.loops.draw import SECOND_NS
    from emulator.sites.kueue import Kueue
    from workloads.kueue.manifests import cluster_manifests, job_manifests
    from workloads.saved import write_saved

    write_saved(directory / "site.yaml", Kueue(found.cluster, arrivals=found.arrivals), ["Made by natjam loops."])
    scheduler = {"allocation": {"release_s": found.release_ns / SECOND_NS}}
    experiment = {"name": "loop", "site": "site.yaml", "scheduler": scheduler}
    (directory / "experiment.yaml").write_text(dump_yaml(experiment))
    (directory / "00-queues.yaml").write_text(cluster_manifests(found.cluster))
    for number, (arrival, manifest) in enumerate(zip(found.arrivals, job_manifests(found.arrivals), strict=True), 1):
        (directory / f"{number:02d}-{arrival.workload.name}.yaml").write_text(manifest)
    (directory / "apply.sh").write_text(_APPLY)


def _draw(directory: Path, found: Plan) -> None:
    """Draw some rounds of the loop."""
    from analysis.figures import style
    from analysis.figures.loop import loop_figure
    from emulator.loops.search import told

    loop, log = told(found)
    if loop is None or not loop.period_ns:
        return  # all of it happens at one instant
    style.save(loop_figure([arrival.workload for arrival in found.arrivals], loop, log), [directory / "loop.png"])


_APPLY = """#!/bin/sh
# Applies the queues, then one workload after another, so that each is a second older than the next.
# It needs a test cluster with Kueue whose nodes have room for all quotas; then watch: kubectl get workloads -A -w
set -e
cd "$(dirname "$0")"
for file in [0-9]*.yaml; do
  kubectl apply -f "$file"
  sleep 2
done
"""
