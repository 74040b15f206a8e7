"""``natjam import``: make experiments from other systems' configuration."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.display.console import say, warn
from emulator.errors import ConfigError
from emulator.vocabulary import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.sites.basis import Basis
    from emulator.sites.kubernetes import Kubernetes
    from emulator.sites.kueue import Kueue
    from emulator.sites.slurm import Slurm
    from workloads.setting_effects import Loss

_Out = Annotated[Path, typer.Option(help="File to write (YAML).", show_default=False)]
_Objects = Annotated[
    list[Path], typer.Argument(help="Files or folders with the cluster's objects (YAML or JSON).", show_default=False)
]
_OverH = Annotated[float, typer.Option(min=0.001, max=8760, help="Time over which those that are drawn arrive.")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of those that are drawn.")]
_All = Annotated[bool, typer.Option("--all", help="Show each thing that is not carried over, not only their reasons.")]

group = typer.Typer(help="Make an experiment from another system's own files.", rich_markup_mode=None)


@group.callback(no_args_is_help=True)
def _import() -> None:
    """Make an experiment from another system's own files."""


@group.command()
def yarn(
    out: Annotated[Path, typer.Option(help="Experiment file to write (YAML).", show_default=False)],
    site: Annotated[Path | None, typer.Option(help="yarn-site.xml: nodes, heartbeats, preemption.")] = None,
    scheduler: Annotated[Path | None, typer.Option(help="capacity-scheduler.xml: queues.")] = None,
    fair: Annotated[Path | None, typer.Option(help="fair-scheduler.xml: queues of the FairScheduler.")] = None,
    apps: Annotated[
        Path | None,
        typer.Option(help="Applications: the ResourceManager's answer (/ws/v1/cluster/apps), or a Rumen trace."),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes; it is in none of the files.", min=1)] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken applications.")] = False,
    show_all: _All = False,
) -> None:
    """Make an experiment from YARN's configuration files.

    It takes over queues, preemption, nodes, heartbeats and applications.

    What decides there and is not modelled is shown, and which applications were left out; the written file carries it.
    Applications are written beside it, as FILE.jobs.jsonl.

    \b
    Examples:
      natjam import yarn --site yarn-site.xml --scheduler capacity-scheduler.xml --nodes 40 --out mine.yaml
      curl -s http://rm:8088/ws/v1/cluster/apps > apps.json
      natjam import yarn --site yarn-site.xml --scheduler capacity-scheduler.xml --apps apps.json --out mine.yaml
    """
    from emulator.cli.options import reading
    from workloads.yarn.experiment import Sources, import_yarn, write_import

    if scheduler is None and fair is None:
        raise ConfigError("name the queues' file: --scheduler capacity-scheduler.xml or --fair fair-scheduler.xml")
    _check_out(out)
    sources = Sources(site, scheduler, fair, apps, nodes, lenient)
    name = "".join(c if c.isalnum() and c.isascii() else "-" for c in out.stem).strip("-")[:100] or "yarn"
    if apps is None:
        imported = import_yarn(sources, name)
    else:
        with reading(apps) as on_bytes:
            imported = import_yarn(sources, name, on_bytes)
    write_import(imported, sources, out)
    _show(imported.basis, imported.losses, show_all)
    for each in imported.assumed:
        say(f"assumed: {each.what}: {each.why}")
    jobs = counted(len(imported.applications.jobs), "job") if imported.applications else "an example job for each queue"
    say(f"{out}: {jobs}")


@group.command()
def kueue(
    paths: _Objects,
    out: _Out,
    arrivals: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Workloads from a table, instead of the Workloads among the objects."),
    ] = None,
    draw: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="So many workloads arrive, drawn from those with a known length."),
    ] = None,
    over_h: _OverH = 24,
    seed: _Seed = 1,
    show_all: _All = False,
) -> None:
    """Take over Kueue's queues, cohorts, priority classes and workloads.

    Reads ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, PriorityClass, Workload, Node and
    Kueue's Configuration, also in lists as kubectl writes them, and in folders beside other files. With nodes, it warns
    of flavors whose quotas are above what the nodes with their labels have. Only named fields are read: environment,
    arguments and annotations appear nowhere. What is not carried over is listed with its line.

    The table of --arrivals has the columns queue (a ClusterQueue), submit_s and, if wanted, name, priority, duration_s
    and count (pods). Each other column is a resource, with what one pod requests: 500m, 4, 16Gi.

    The written file is for natjam loops, and with workloads for natjam run, compare and advise.

    \b
    Examples:
      kubectl get clusterqueues,cohorts,workloadpriorityclasses,resourceflavors,nodes -o yaml > queues.yaml
      kubectl get localqueues,workloads.kueue.x-k8s.io -A -o yaml > workloads.yaml
      natjam import kueue queues.yaml workloads.yaml --out mine.yaml
      natjam import kueue queues.yaml workloads.yaml --draw 500 --over-h 12 --out drawn.yaml
    """
    from msgspec.structs import replace

    from emulator.cli.options import reading
    from workloads.arrivals import drawn_workloads, read_workloads
    from workloads.kueue.state import read_kueue, shortages, uncovered

    _check_out(out)
    with reading(*paths) as on_bytes:
        imported, losses = read_kueue(paths, on_bytes)
    if arrivals is not None:
        imported = replace(imported, arrivals=read_workloads(arrivals, imported.cluster))
    if draw is not None:
        imported = replace(
            imported, arrivals=drawn_workloads(imported.arrivals, draw, round(over_h * 3600 * 10**9), seed)
        )
    _write(out, imported, paths, losses, show_all)
    short = shortages(imported.cluster, imported.nodes) if imported.nodes else ()
    for line in (*short, *uncovered(imported.cluster, imported.arrivals)):
        warn(line)
    counts = f"{counted(len(imported.cluster.queues), 'queue')}, {counted(len(imported.arrivals), 'workload')}"
    counts += f", {counted(len(imported.nodes), 'node')}" if imported.nodes else ""
    say(f"{out}: {counts}")


@group.command()
def kubernetes(
    paths: _Objects,
    out: _Out,
    arrivals: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Pods from a table that arrive on the cluster as it stands."),
    ] = None,
    draw: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="So many pods arrive, drawn from those that ended.")
    ] = None,
    over_h: _OverH = 24,
    seed: _Seed = 1,
    from_empty: Annotated[
        bool, typer.Option("--from-empty", help="All pods arrive when they were created, on an empty cluster.")
    ] = False,
    values: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME=VALUE", help="Another value for a PriorityClass; may be repeated."),
    ] = None,
    show_all: _All = False,
) -> None:
    """Take over a Kubernetes cluster's nodes, pods, priority classes and disruption budgets.

    Reads Node, Pod, PriorityClass, PodDisruptionBudget, Job, Deployment, ReplicaSet, StatefulSet, DaemonSet, Service,
    Namespace, PersistentVolume and PersistentVolumeClaim, also in lists as kubectl writes them. Only named fields are
    read: environment, arguments and annotations appear nowhere. What is not carried over is listed with its line.

    In the file the cluster is as it stands: pods are on their nodes, and others wait. With --arrivals or --draw more
    arrive from now on. With --from-empty, or if no pod runs or waits, all arrive when they were created. A pod runs as
    long as it did, or as the others of its owner that ended; if none did, it does not end.

    --class gives a PriorityClass another value than in the files: natjam compare then says what changes. It is for pods
    that arrive; those of a cluster as it stands keep the priority that they were admitted with.

    The table of --arrivals has the column submit_s and, if wanted, name, class (a PriorityClass) or priority,
    duration_s, grace_s and count. Each other column is a resource, with what one pod requests: 500m, 4, 16Gi.

    The written file is for natjam who, natjam play and natjam run; an experiment names it as its site.

    \b
    Examples:
      kubectl get nodes,namespaces,pods,deployments,replicasets,statefulsets,daemonsets,jobs,services \\
        -A -o json > cluster.json
      kubectl get priorityclasses,poddisruptionbudgets,pv,pvc -A -o json >> cluster.json
      natjam import kubernetes cluster.json --out mine.yaml
      natjam import kubernetes cluster.json --draw 500 --over-h 12 --out mine.yaml
      natjam import kubernetes cluster.json --class batch=500 --out after.yaml
      natjam compare mine.yaml after.yaml
    """
    from msgspec.structs import replace

    from emulator.cli.options import reading
    from workloads.arrivals import drawn_pods, read_pods
    from workloads.kubernetes.cluster import read_kubernetes

    _check_out(out)
    if sum((arrivals is not None, draw is not None, from_empty)) > 1:
        raise ConfigError("--arrivals, --draw and --from-empty: give one of them")
    with reading(*paths) as on_bytes:
        imported = read_kubernetes(paths, on_bytes, _class_values(values or ()))
    cluster = imported.cluster
    if arrivals is not None:
        cluster = replace(cluster, arrivals=(*imported.running, *read_pods(arrivals, cluster)))
    elif draw is not None:
        more = drawn_pods(cluster, draw, round(over_h * 3600 * 10**9), seed)
        cluster = replace(cluster, arrivals=(*imported.running, *more))
    elif imported.running and not from_empty:
        cluster = replace(cluster, arrivals=imported.running)
    _write(out, cluster, paths, imported.losses, show_all)
    state = cluster.state
    counts = f"{counted(len(state.nodes), 'node')}, {counted(len(state.bound), 'pod')} on them"
    counts += f", {len(state.waiting):,} that wait, {len(cluster.arrivals):,} that arrive"
    say(f"{out}: {counts}")


@group.command()
def slurm(
    conf: Annotated[Path, typer.Option(help="The site's slurm.conf.", show_default=False)],
    out: _Out,
    sacct: Annotated[Path | None, typer.Option(help="Jobs, as sacct prints them (see below).")] = None,
    qos: Annotated[Path | None, typer.Option(help="QOS, as sacctmgr prints them: preemption, limits.")] = None,
    assoc: Annotated[Path | None, typer.Option(help="Associations, as sacctmgr prints them: shares, limits.")] = None,
    since: Annotated[
        datetime | None, typer.Option("--from", help="Begin then, with the jobs that ran: 2026-11-02T06:00:00.")
    ] = None,
    show_all: _All = False,
) -> None:
    """Take over a Slurm site's nodes, partitions, preemption and scheduler settings, and its jobs.

    Nodes have CPUs, memory and GRES such as GPUs, and jobs are rigid. Preemption is by partition
    (preempt/partition_prio) or by QOS (preempt/qos). Priorities (priority/multifactor) and limits need what they go by:
    --qos, --assoc, and the columns User and Account.

    What decides there and is not modelled is shown, and which jobs were left out, and why. Included files are read.

    The written file is for natjam play, advise and run.

    \b
    Examples:
      sacct --allusers --duplicates --parsable2 --units=K -S 2026-11-01 \\
        -o JobIDRaw,Partition,Submit,Eligible,ElapsedRaw,State,NNodes,NCPUS,TimelimitRaw,QOS,User,Account,AllocTRES \\
        > jobs.txt
      natjam import slurm --conf /etc/slurm/slurm.conf --sacct jobs.txt --out mine.yaml
      sacctmgr --parsable2 show qos > qos.txt; sacctmgr --parsable2 show assoc \\
        format=Account,User,ParentName,Share,GrpTRES,GrpTRESRunMins,GrpJobs,MaxTRES,MaxJobs,MaxWall,Priority \\
        > assoc.txt
      natjam import slurm --conf /etc/slurm/slurm.conf --sacct jobs.txt --qos qos.txt --assoc assoc.txt --out mine.yaml
    """
    from workloads.slurm.sacct import read_slurm

    _check_out(out)
    site, losses = read_slurm(conf, sacct, qos, assoc, since)
    paths = [path for path in (conf, sacct, qos, assoc) if path is not None]
    _write(out, site, paths, losses, show_all)
    counts = f"{counted(len(site.cluster.nodes), 'node')}, {counted(len(site.cluster.partitions), 'partition')}"
    say(f"{out}: {counts}, {counted(len(site.jobs), 'job')}")


def _class_values(given: Sequence[str]) -> dict[str, int]:
    """Raises ConfigError."""
    found = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if not name or not re.fullmatch(r"-?\d{1,10}", value, re.ASCII):
            raise ConfigError(f"--class {text}: write NAME=VALUE, with a whole number")
        found[name] = int(value)
    return found


def _check_out(out: Path) -> None:
    """Raises ConfigError: an experiment or an imported file is written as YAML."""
    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--out {out}: must be a file ending in .yaml")


def _write(
    out: Path, site: Kubernetes | Kueue | Slurm, paths: Sequence[Path], losses: Sequence[Loss], show_all: bool
) -> None:
    """Write an imported file, and show what is not carried over: first what decides, then what was left out.

    The head of the file lists it, of many with one reason the first ones.
    """
    from workloads.saved import write_saved
    from workloads.setting_effects import listed

    system = type(site).__name__.lower()
    head = [f"Made by natjam import {system} from " + ", ".join(path.name for path in paths) + "."]
    head += ["Not carried over:", *(f"  {line}" for line in listed(losses))] if losses else []
    write_saved(out, site, head)
    _show(site.basis, losses, show_all)


def _show(basis: Basis, losses: Sequence[Loss], show_all: bool) -> None:
    """Show what is not carried over, by its reason, or each."""
    from emulator.display.basis import basis_lines

    for line in (f"  {loss}" for loss in losses) if show_all else basis_lines(basis):
        say(line)
    if basis.rest and not show_all:
        decide = "decides" if basis.rest == 1 else "decide"
        say(f"{counted(basis.rest, 'setting')} that {decide} nothing here: --all shows them, and the file has them")
