"""The command play."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.display.console import results_console, say
from emulator.display.tables import names, new_table, numbers, or_dash
from emulator.errors import ConfigError
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from emulator.display.tables import FittedTable
    from emulator.policies.slurm.outcome import JobsOutcome
    from emulator.policies.slurm.player import Stay
    from emulator.sites.slurm import Cluster, Job

AS_CONFIGURED = "as configured"
_COLUMNS = ("variant", "job", "start_s", "end_s", "end", "nodes", "stopped_s", "preempted_by")
_LOOK_DECISIONS = 100


def play(
    file: Annotated[Path, typer.Argument(help="From natjam import slurm or kubernetes.", show_default=False)],
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION=MODE", help="Play it also with this PreemptMode of a partition or QOS; repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Table of all starts and ends to write (CSV).")] = None,
) -> None:
    """Play the jobs of an imported Slurm site, or the pods of an imported Kubernetes cluster, in virtual time.

    Slurm: shows for each partition how long jobs waited and took, how many were preempted, and the work that was lost.
    With --mode the same jobs are played again under another PreemptMode: OFF, CANCEL, REQUEUE or SUSPEND. SUSPEND means
    SUSPEND,GANG. A job that is preempted and requeued starts from the beginning.

    Kubernetes: shows for each priority how many pods were placed, how long they waited, how many were evicted, and the
    pod-hours that were lost. An evicted pod comes back as its owner (Deployment, Job, ...) would make it again, and
    starts from the beginning.

    \b
    Examples:
      natjam import slurm --conf /etc/slurm/slurm.conf --sacct jobs.txt --out mine.yaml
      natjam play mine.yaml
      natjam play mine.yaml --mode low=SUSPEND --mode low=REQUEUE --out stays.csv
      natjam import kubernetes cluster.json --draw 500 --out mine.yaml
      natjam play mine.yaml --out pods.csv
    """
    from workloads.saved import system_of

    system = system_of(file)
    if system == "kubernetes":
        from emulator.cli.play_kubernetes import play_kubernetes

        if mode:
            raise ConfigError("--mode: is for a Slurm site; a Kubernetes cluster has no partitions")
        play_kubernetes(file, out)
        return
    if system == "kueue":
        raise ConfigError(
            f"{file}: natjam play is for Slurm and Kubernetes; 'natjam run {file}' runs Kueue's workloads"
        )
    _play_slurm(file, mode or (), out)


def _play_slurm(file: Path, mode: Sequence[str], out: Path | None) -> None:
    """Play a site, as it is configured and with other modes."""
    from emulator.files.whole_files import write_csv
    from emulator.policies.slurm.outcome import outcomes
    from emulator.sites.slurm import Slurm
    from workloads.saved import read_saved

    site = read_saved(file, Slurm)
    if not site.jobs:
        raise ConfigError(f"{file}: slurm.jobs: there are none; give natjam import slurm a table with --sacct")
    played: dict[str, Mapping[str, Sequence[Stay]]] = {}
    found: dict[str, list[JobsOutcome]] = {}
    for name, cluster in _variants(site.cluster, mode).items():
        say(f"playing {counted(len(site.jobs), 'job')}, {name}")
        played[name] = _stays(cluster, site.jobs)
        found[name] = list(outcomes(cluster, site.jobs, played[name]))
    results_console().print(outcome_table(found))
    if out is not None:
        write_csv(out, _COLUMNS, _rows(played))
        say(f"{out}: every start and end")


def _stays(cluster: Cluster, jobs: Sequence[Job]) -> dict[str, list[Stay]]:
    """Play the jobs, and show how many of them have started."""
    from emulator.display.work_display import WorkDisplay, WorkStatus
    from emulator.policies.slurm.decisions import Decision, Outcome
    from emulator.policies.slurm.player import Player

    started, looked = set[str](), itertools.count(1)
    with WorkDisplay(results_console(stderr=True)) as display:

        def show(_: int, decision: Decision) -> None:
            if decision.outcome is Outcome.STARTS:
                started.add(decision.job)
            if next(looked) % _LOOK_DECISIONS == 0:
                display.update(WorkStatus("playing", len(started) / len(jobs), None))

        return Player(cluster, jobs, on_decision=show).play()


def outcome_table(found: Mapping[str, Sequence[JobsOutcome]]) -> FittedTable:
    """What each variant meant for the jobs of each partition."""
    figures = numbers("jobs", "wait s", "longest wait s", "completion s", "preempted", "lost node-h")
    table = new_table("", [*names("PreemptMode", "partition"), *figures])
    for name, outcomes in found.items():
        for outcome in outcomes:
            table.add_row(name, *_cells(outcome))
    return table


def _variants(cluster: Cluster, modes: Sequence[str]) -> dict[str, Cluster]:
    from msgspec.structs import replace

    from emulator.sites.slurm import Mode

    found = {AS_CONFIGURED: cluster}
    what, choices = ("QOS", cluster.qos) if cluster.qos else ("partition", cluster.partitions)
    for given in modes:
        name, _, text = given.partition("=")
        if name not in {each.name for each in choices}:
            known = ", ".join(each.name for each in choices)
            raise ConfigError(f"--mode {given}: there is no {what} '{name}' ({known})")
        with contextlib.suppress(ValueError):
            chosen = Mode(text.upper())
            changed = tuple(replace(each, mode=chosen) if each.name == name else each for each in choices)
            settings = replace(cluster.settings, preempts=True, gang=cluster.settings.gang or chosen is Mode.SUSPEND)
            of_these: dict[str, Any] = {"qos" if cluster.qos else "partitions": changed}
            found[f"{name}={chosen}"] = replace(cluster, settings=settings, **of_these)
            continue
        raise ConfigError(f"--mode {given}: the mode must be one of {', '.join(Mode)}")
    return found


def _cells(outcome: JobsOutcome) -> tuple[str, ...]:
    times = (outcome.wait_s, outcome.longest_wait_s, outcome.completion_s)
    return (
        outcome.name,
        f"{outcome.jobs:,}",
        *(or_dash(time_s, ",.0f") for time_s in times),
        f"{outcome.preempted:,}",
        f"{outcome.lost_node_h:,.2f}",
    )


def _rows(played: Mapping[str, Mapping[str, Sequence[Stay]]]) -> Iterator[tuple[object, ...]]:
    for name, stays in played.items():
        for job, each in stays.items():
            for stay in each:
                stopped_s = sum(until - since for since, until in stay.stopped) / 1e9
                times = (stay.start_ns / 1e9, "" if stay.end_ns is None else stay.end_ns / 1e9)
                yield (name, job, *times, stay.end or "", " ".join(stay.nodes), stopped_s, stay.by or "")
