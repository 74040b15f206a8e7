"""The command play."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.cli.options import Strict
from emulator.display.basis import head_answer
from emulator.display.console import results_console, say, warn
from emulator.display.tables import names, new_table, numbers, or_dash
from emulator.errors import ConfigError, RunError
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from emulator.display.tables import Column, FittedTable
    from emulator.policies.schedulers.play import Execution, Player
    from emulator.records.measures import Job
    from emulator.sites.kubernetes import Kubernetes
    from emulator.sites.slurm import Cluster

AS_CONFIGURED = "as configured"
_JOB_COLUMNS = ("variant", "job", "start_s", "end_s", "end", "nodes", "stopped_s", "preempted_by")
_POD_COLUMNS = ("pod", "created_s", "start_s", "end_s", "node", "evicted_by", "lost_s")
_CYCLES_BETWEEN_UPDATES = 20


def play(
    file: Annotated[Path, typer.Argument(help="From natjam import slurm or kubernetes.", show_default=False)],
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION=MODE", help="Play it also with this PreemptMode of a partition or QOS; repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Table of all starts and ends to write (CSV).")] = None,
    strict: Strict = False,
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
        if mode:
            raise ConfigError("--mode: is for a Slurm site; a Kubernetes cluster has no partitions")
        _play_kubernetes(file, out, strict)
        return
    if system == "kueue":
        raise ConfigError(
            f"{file}: natjam play is for Slurm and Kubernetes; 'natjam run {file}' runs Kueue's workloads"
        )
    _play_slurm(file, mode or (), out, strict)


def _play_slurm(file: Path, mode: Sequence[str], out: Path | None, strict: bool) -> None:
    """Play the jobs of a site, as it is configured and with other modes.  Raises ConfigError, RunError."""
    from emulator.files.whole_files import write_csv
    from emulator.policies.schedulers.play import job_row
    from emulator.policies.slurm.scheduler import jobs_player
    from emulator.sites.slurm import TURNS, Slurm, turn_takers
    from workloads.saved import read_saved

    site = read_saved(file, Slurm)
    if not site.jobs:
        raise ConfigError(f"{file}: slurm.jobs: there are none; give natjam import slurm a table with --sacct")
    head_answer(site.basis, strict)
    played: dict[str, Mapping[str, Sequence[Execution]]] = {}
    groups: dict[tuple[str, ...], list[Job]] = {}
    for variant, cluster in _variants(site.cluster, mode).items():
        takers = len(turn_takers(cluster, site.jobs)) if variant != AS_CONFIGURED else 0
        if takers:
            warn(f"{variant}: {takers:,} of {counted(len(site.jobs), 'job')}: {TURNS}")
        say(f"playing {counted(len(site.jobs), 'job')}, {variant}")
        executions = played[variant] = _play(file, jobs_player(cluster, site.jobs))
        if never := sum(not each for each in executions.values()):
            of = counted(len(site.jobs), "job")
            warn(f"{variant}: {never:,} of {of} never start: they are over a limit of the site")
        groups |= {(variant, partition.name): [] for partition in cluster.partitions}
        for job in site.jobs:
            groups[variant, job.partition].append(job_row(job.since_ns, executions[job.name]))
    results_console().print(_table(names("PreemptMode", "partition"), groups, of_pods=False))
    if out is not None:
        write_csv(out, _JOB_COLUMNS, _job_rows(played))
        say(f"{out}: every start and end")


def _play_kubernetes(file: Path, out: Path | None, strict: bool) -> None:
    """Play the pods of a cluster.  Raises ConfigError, RunError."""
    from emulator.files.whole_files import write_csv
    from emulator.policies.kubernetes.scheduler import pods_player
    from emulator.policies.schedulers.play import job_row
    from emulator.records.measures import evictions
    from emulator.sites.kubernetes import Kubernetes
    from workloads.saved import read_saved

    cluster = read_saved(file, Kubernetes)
    arrivals = cluster.arrivals
    if not arrivals:
        raise ConfigError(f"{file}: kubernetes.arrivals: there are none; import the pods, or give --arrivals or --draw")
    head_answer(cluster.basis, strict)
    say(f"playing {counted(len(arrivals), 'pod')} on {counted(len(cluster.state.nodes), 'node')}")
    player, began_s = pods_player(cluster), time.monotonic()
    executions = _play(file, player)
    took_s = max(time.monotonic() - began_s, 1e-3)
    groups: dict[tuple[str, ...], list[Job]] = {}
    for each in sorted(arrivals, key=lambda each: -each.pod.priority):
        classes = ", ".join(of.name for of in cluster.classes if of.value == each.pod.priority)
        submit_ns = each.submit_ns if each.node is None else None
        row = job_row(submit_ns, executions[each.pod.name])
        groups.setdefault((classes or "-", f"{each.pod.priority:,}"), []).append(row)
    results_console().print(_table([*names("class"), *numbers("priority")], groups, of_pods=True))
    cycles, evicted = player.decisions, sum(map(evictions, groups.values()))
    counts = f"{counted(cycles, 'scheduling cycle')}, {counted(evicted, 'eviction')}"
    say(f"{counts}; {cycles / took_s:,.0f} cycles a second")
    for note in _notes(cluster):
        say(note)
    if out is not None:
        write_csv(out, _POD_COLUMNS, _pod_rows(cluster, executions))
        say(f"{out}: every pod's node, start and end")


def _notes(cluster: Kubernetes) -> Iterator[str]:
    """What the figures of a cluster count, and what chance would decide there."""
    from emulator.policies.kubernetes.placement import enough_nodes

    nodes = len(cluster.state.nodes)
    if any(each.node is not None for each in cluster.arrivals):
        yield "lost work counts from the start of a pod, also of one that ran before the snapshot"
    if (enough := enough_nodes(nodes)) < nodes:
        yield (
            f"kube-scheduler looks for a place until {enough:,} of {nodes:,} nodes fit, from a start that moves on with"
            " each pod, and of many candidates for preemption it compares some, by chance; natjam starts at the first"
            " node and compares all candidates, so pods may be on other nodes there"
        )


def _play(file: Path, player: Player) -> Mapping[str, Sequence[Execution]]:
    """Play to the end, and show how many of the jobs have started.  Raises RunError."""
    from emulator.display.work_display import WorkDisplay, WorkStatus
    from emulator.policies.schedulers.protocol import SchedulerError

    started = set[str]()
    try:
        with WorkDisplay(results_console(stderr=True)) as display:
            for number, cycle in enumerate(player.play(), start=1):
                started.update(cycle.starts)
                if number % _CYCLES_BETWEEN_UPDATES == 0:
                    display.update(WorkStatus("playing", len(started) / len(player.executions), None))
    except SchedulerError as error:
        raise RunError(f"{file}: {error}") from None
    return player.executions


def _table(called: Sequence[Column], groups: Mapping[tuple[str, ...], Sequence[Job]], of_pods: bool) -> FittedTable:
    """What a play meant for each group of jobs that has any; ``called`` are the columns of what it is called by."""
    from emulator.records.measures import evictions, known, mean, not_started, total, waits_s

    figures: dict[str, Callable[[Sequence[Job]], str]] = {
        "pods" if of_pods else "jobs": lambda jobs: f"{len(jobs):,}",
        **({"placed": lambda jobs: f"{len(jobs) - not_started(jobs):,}"} if of_pods else {}),
        "wait s": lambda jobs: or_dash(mean(waits_s(jobs)), ",.0f"),
        "longest wait s": lambda jobs: or_dash(max(waits_s(jobs), default=None), ",.0f"),
        **({} if of_pods else {"completion s": lambda jobs: or_dash(mean(known(jobs, "completion_s")), ",.0f")}),
        "evictions" if of_pods else "preempted": lambda jobs: f"{evictions(jobs):,}",
        "lost pod-h" if of_pods else "lost node-h": lambda jobs: f"{total(jobs, 'lost_work_s') / 3600:,.2f}",
    }
    table = new_table("", [*called, *numbers(*figures)])
    for name, jobs in groups.items():
        if jobs:
            table.add_row(*name, *(cell(jobs) for cell in figures.values()))
    return table


def _variants(cluster: Cluster, modes: Sequence[str]) -> dict[str, Cluster]:
    from msgspec.structs import replace

    from emulator.sites.slurm import Mode

    found = {AS_CONFIGURED: cluster}
    what, choices = ("QOS", cluster.qos) if cluster.by_qos else ("partition", cluster.partitions)
    for given in modes:
        name, _, text = given.partition("=")
        if name not in {each.name for each in choices}:
            known = ", ".join(each.name for each in choices)
            raise ConfigError(f"--mode {given}: there is no {what} '{name}' ({known})")
        with contextlib.suppress(ValueError):
            chosen = Mode(text.upper())
            changed = tuple(replace(each, mode=chosen) if each.name == name else each for each in choices)
            settings = replace(cluster.settings, preempts=True, gang=cluster.settings.gang or chosen is Mode.SUSPEND)
            of_these: dict[str, Any] = {"qos" if cluster.by_qos else "partitions": changed}
            found[f"{name}={chosen}"] = replace(cluster, settings=settings, **of_these)
            continue
        raise ConfigError(f"--mode {given}: the mode must be one of {', '.join(Mode)}")
    return found


def _job_rows(played: Mapping[str, Mapping[str, Sequence[Execution]]]) -> Iterator[tuple[object, ...]]:
    for name, executions in played.items():
        for job, each in executions.items():
            for one in each:
                stopped_s = sum(until - since for since, until in one.stopped) / 1e9
                times = (one.start_ns / 1e9, "" if one.end_ns is None else one.end_ns / 1e9)
                yield (name, job, *times, one.end or "", " ".join(one.nodes), stopped_s, one.by or "")


def _pod_rows(cluster: Kubernetes, executions: Mapping[str, Sequence[Execution]]) -> Iterator[tuple[object, ...]]:
    from emulator.policies.kubernetes.scheduler import pods_of

    for pod, created_ns, one in pods_of(cluster.arrivals, executions):
        if one is None:
            yield (pod, created_ns / 1e9, "", "", "", "", 0.0)
            continue
        times = ("" if at_ns is None else at_ns / 1e9 for at_ns in (created_ns, one.start_ns, one.end_ns))
        yield (pod, *times, one.nodes[0], one.by or "", one.lost_ns / 1e9)
