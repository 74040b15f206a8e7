"""An experiment from YARN's configuration: cluster, queues, preemption, heartbeats, and what was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_values import dump_yaml
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.importers.yarn_apps import NEVER_RAN, UNFINISHED
from workloads.record import Header, Trace, WorkloadJob, modelled
from workloads.store import write_workload
from workloads.yarn.queues import PREFIX, Leaf, capacity_leaves, fair_leaves
from workloads.yarn.settings import LeftOut, Settings, flag, number, share, whole

_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
_MONITOR = "yarn.resourcemanager.scheduler.monitor."
_POLICY = "ProportionalCapacityPreemptionPolicy"
_MAX_PRIORITY = "yarn.cluster.max-application-priority"
_MASTER_MB = "yarn.app.mapreduce.am.resource.mb"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files to import."""

    site: Path | None
    scheduler: Path | None
    fair: Path | None
    apps: Path | None
    nodes: int | None
    """None: the import assumes a number."""
    lenient: bool = False


_HEAD_BYTES = 4096


@dataclass(slots=True)
class Applications:
    """Jobs of the imported queues, and what was left out."""

    header: Header
    jobs: list[WorkloadJob]
    left_out: list[LeftOut] = field(default_factory=list)


def queue_names(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Name of each leaf by its path: the last part of the path if no other leaf has it, otherwise the whole path."""
    last = Counter(leaf.path.rpartition(".")[2] for leaf in leaves)
    return {leaf.path: name if last[name := leaf.path.rpartition(".")[2]] == 1 else leaf.path for leaf in leaves}


def read_applications(
    path: Path, leaves: Sequence[Leaf], highest_priority: int, problems: Problems, on_bytes: OnBytes = ignore
) -> Applications:
    """The applications of a file, each in the queue it names, with at most the highest priority the cluster allows.

    Raises TraceError.
    """
    with ByteSource(path) as source:
        is_answer = b'"app' in source.read(_HEAD_BYTES)
    trace = open_trace(path, "yarn" if is_answer else "rumen", problems, on_bytes=on_bytes)
    names = _known_names(leaves)
    strangers: Counter[str] = Counter()
    jobs = list(_queued(trace.jobs, names, highest_priority, strangers))
    found = Applications(trace.header.with_step("queues as imported", queue=modelled("as in the trace")), jobs)
    for queue, count in strangers.items():
        found.left_out.append(LeftOut("applications", f"{count} of queue {queue}", "there is no such queue", str(path)))
    for fact, why in ((NEVER_RAN, "they ran no task"), (UNFINISHED, "kept with their work so far")):
        if trace.facts.get(fact):
            found.left_out.append(LeftOut(fact, str(trace.facts[fact]), why, str(path)))
    return found


def _known_names(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Name of a queue by all names that an application may use for it."""
    names = queue_names(leaves)
    known = {name: name for name in names.values()}
    for path, name in names.items():
        known |= {path: name, f"root.{path}": name}
    return known


def _queued(
    jobs: Iterable[WorkloadJob], names: dict[str, str], highest_priority: int, strangers: Counter[str]
) -> Iterator[WorkloadJob]:
    for job in jobs:
        queue = names.get(job.queue or "default")
        if queue is None:
            strangers[job.queue or "default"] += 1
        else:
            yield replace(job, queue=queue, priority=min(job.priority or 0, highest_priority))


def as_allocated(jobs: Sequence[WorkloadJob], least_mb: int) -> list[WorkloadJob]:
    """The jobs with containers of whole steps of ``least_mb``, as YARN allocates them."""
    step_bytes = least_mb * 2**20
    return [replace(job, memory_bytes=max(1, -(-(job.memory_bytes or 0) // step_bytes)) * step_bytes) for job in jobs]


def container_mb(jobs: Sequence[WorkloadJob], least_mb: int) -> int:
    """Memory of the containers that did most of the work, rounded to steps of ``least_mb``."""
    work_ns: Counter[int] = Counter()
    for job in jobs:
        steps = max(1, -(-(job.memory_bytes or 0) // (least_mb * 2**20)))
        work_ns[steps] += sum(task.length_ns for task in job.tasks or ())
    half, seen = sum(work_ns.values()) / 2, 0
    for steps in sorted(work_ns):
        seen += work_ns[steps]
        if seen >= half:
            return steps * least_mb
    return least_mb


@dataclass(slots=True)
class Imported:
    """The experiment, the applications it runs, and what could not be carried over."""

    experiment: dict[str, Any]
    applications: Applications | None
    left_out: list[LeftOut] = field(default_factory=list)
    assumed: list[LeftOut] = field(default_factory=list)
    """Values that the files do not have: what was assumed, and why."""


ASSUMED_NODES = 6


def import_yarn(sources: Sources, name: str, on_bytes: OnBytes = ignore) -> Imported:
    """Read the files of ``sources``.  Raises ConfigError (TraceError for the applications)."""
    settings = Settings()
    for path in (sources.site, sources.scheduler):
        if path is not None:
            settings.read(path)
    imported = Imported({}, None)
    node_mb = _memory_mb(settings.take("yarn.nodemanager.resource.memory-mb", 8192, _size), imported)
    nodes = sources.nodes or ASSUMED_NODES
    if sources.nodes is None:
        imported.assumed.append(LeftOut("cluster.nodes", str(nodes), "no file has the number of nodes; give --nodes"))
    is_fair, leaves = _leaves(sources, settings, nodes * node_mb, imported)
    if sources.apps is not None:
        highest = settings.take(_MAX_PRIORITY, 0, whole)
        imported.applications = read_applications(sources.apps, leaves, highest, Problems(sources.lenient), on_bytes)
        imported.left_out += imported.applications.left_out
        if not imported.applications.jobs:
            raise ConfigError(f"{sources.apps}: no application can be used; see the queues of the other files")
    jobs = imported.applications.jobs if imported.applications else ()
    least_mb = settings.take("yarn.scheduler.minimum-allocation-mb", 1024, _at_least_one)
    allocated = as_allocated(jobs, least_mb)
    if imported.applications is not None and len({(job.memory_bytes, job.cpu_thousandths) for job in allocated}) > 1:
        imported.applications.jobs = allocated
        cluster = _sized_cluster(settings, nodes, node_mb, least_mb, imported)
    else:
        per_container_mb = min(container_mb(jobs, least_mb), node_mb)
        why = "all containers have one size"
        imported.assumed.append(LeftOut("cluster.container_memory_gb", f"{per_container_mb / 1024:g}", why))
        cluster = _cluster(settings, nodes, node_mb, per_container_mb)
    preemption = _fair_preemption(settings) if is_fair else _preemption(settings)
    imported.experiment = {
        "name": name,
        "engine": "sim",
        "overheads": "yarn-3",
        "heartbeat_s": settings.take("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", 1.0, _ms),
        "protocol": {"node_expiry_s": settings.take("yarn.nm.liveness-monitor.expiry-interval-ms", 600.0, _ms)},
        "cluster": cluster,
        "scheduler": {
            "allocation": {
                "name": "yarn-capacity",
                "queues": {
                    queue: {"capacity": leaf.capacity, "maximum": leaf.maximum}
                    for leaf, queue in zip(leaves, queue_names(leaves).values(), strict=True)
                },
                "offswitch_per_heartbeat": _per_heartbeat(settings, is_fair),
                "preemption": preemption,
            },
            "job_selection": "priority",
            "task_eviction": "newest",
            "mechanism": "wait" if preemption is None else "kill",
        },
        "workload": {},
    }
    imported.left_out += settings.left_out
    for left in settings.rest():
        settings.leave(left, _why(left, is_fair, preemption is not None))
    imported.left_out = list(dict.fromkeys([*imported.left_out, *settings.left_out]))
    return imported


def _leaves(sources: Sources, settings: Settings, cluster_mb: int, imported: Imported) -> tuple[bool, list[Leaf]]:
    """Whether the queues are the FairScheduler's, and its leaves."""
    scheduler = settings.take("yarn.resourcemanager.scheduler.class", "CapacityScheduler", str)
    if sources.fair is not None and (scheduler.endswith(".FairScheduler") or sources.scheduler is None):
        leaves, left_out = fair_leaves(sources.fair, cluster_mb)
        imported.left_out += left_out
        why = "a queue's fair share becomes its capacity; jobs of a queue are served in order, not side by side"
        imported.left_out.append(LeftOut("yarn.resourcemanager.scheduler.class", scheduler, why))
        return True, leaves
    if sources.scheduler is None or f"{PREFIX}root.queues" not in settings:
        given = sources.scheduler or "the given files"
        raise ConfigError(f"{given}: {PREFIX}root.queues is not set; name capacity-scheduler.xml with --scheduler")
    if not scheduler.endswith("CapacityScheduler"):
        why = "the queues of capacity-scheduler.xml are imported; for the FairScheduler's, give its file with --fair"
        imported.left_out.append(LeftOut("yarn.resourcemanager.scheduler.class", scheduler, why))
    if sources.fair is not None:
        imported.left_out.append(LeftOut("--fair", str(sources.fair), f"the scheduler is {scheduler}"))
    leaves = capacity_leaves(settings, cluster_mb)
    if any(leaf.maximum > leaf.capacity for leaf in leaves):
        why = "users are not modelled: one user may hold all of a queue; in YARN, user-limit-factor x its capacity"
        imported.assumed.append(LeftOut("limit of a user", "the queue's maximum", why))
    if any("." in leaf.path for leaf in leaves):
        why = "leaves have their share of the whole cluster; unused capacity does not go to siblings first"
        imported.left_out.append(LeftOut("hierarchy of queues", ", ".join(leaf.path for leaf in leaves), why))
    return False, leaves


def _cores(settings: Settings) -> int | None:
    """Virtual cores of a node; None: only memory counts (the DefaultResourceCalculator)."""
    calculator = settings.take(f"{PREFIX}resource-calculator", "DefaultResourceCalculator", str)
    if not calculator.endswith("DominantResourceCalculator"):
        return None
    cores = settings.take("yarn.nodemanager.resource.cpu-vcores", 8, _size)
    return 8 if cores < 1 else cores


def _sized_cluster(settings: Settings, nodes: int, node_mb: int, least_mb: int, imported: Imported) -> dict[str, Any]:
    """A cluster whose containers have the sizes of the applications' own."""
    cores = _cores(settings)
    resources = {"memory_gb": _gb(node_mb), **({} if cores is None else {"cpu": cores})}
    master_mb = -(-settings.take(_MASTER_MB, 1536, _at_least_one) // least_mb) * least_mb
    why = "of MapReduce's ApplicationMasters; others have their own"
    imported.assumed.append(LeftOut("cluster.master_resources", f"{_gb(master_mb):g} GB", why))
    return {
        "node_groups": [{"count": nodes, "resources": resources}],
        "container_memory_gb": _gb(least_mb),
        "master_resources": {"memory_gb": _gb(min(master_mb, node_mb))},
    }


def _gb(size_mb: int) -> float:
    """GiB of a size in MiB, of three decimals."""
    return size_mb * 1000 // 1024 / 1000


def _cluster(settings: Settings, nodes: int, node_mb: int, container_mb: int) -> dict[str, Any]:
    per_node, cores = node_mb // container_mb, _cores(settings)
    if cores is not None:
        per_container = settings.take("yarn.scheduler.minimum-allocation-vcores", 1, _at_least_one)
        per_node = max(1, min(per_node, cores // per_container))
    return {
        "nodes": nodes,
        "containers_per_node": per_node,
        "container_memory_gb": container_mb / 1024,
        "memory_gb": node_mb / 1024,
    }


def _per_heartbeat(settings: Settings, is_fair: bool) -> int:
    """Most containers in the answer to one heartbeat of a node."""
    if is_fair:
        several = settings.take("yarn.scheduler.fair.assignmultiple", False, flag)
        most = settings.take("yarn.scheduler.fair.max.assign", -1, _size)
        return 1 if not several else most if most > 0 else 10_000
    prefix = f"{PREFIX}per-node-heartbeat."
    offswitch = settings.take(f"{prefix}maximum-offswitch-assignments", 1, _at_least_one)
    most = settings.take(f"{prefix}maximum-container-assignments", 100, _size)
    several = settings.take(f"{prefix}multiple-assignments-enabled", True, flag)
    return 1 if not several else min(offswitch, most) if most > 0 else offswitch


def _preemption(settings: Settings) -> dict[str, Any] | None:
    enabled = settings.take(f"{_MONITOR}enable", False, flag)
    policies = settings.take(f"{_MONITOR}policies", _POLICY, str)
    observe_only = settings.take(f"{_PREEMPTION}observe_only", False, flag)
    if not enabled or observe_only or _POLICY not in policies:
        return None
    return {
        "interval_s": settings.take(f"{_PREEMPTION}monitoring_interval", 3.0, _ms),
        "max_wait_before_kill_s": settings.take(f"{_PREEMPTION}max_wait_before_kill", 15.0, _ms),
        "total_preemption_per_round": settings.take(f"{_PREEMPTION}total_preemption_per_round", 0.1, share),
        "natural_termination_factor": settings.take(f"{_PREEMPTION}natural_termination_factor", 0.2, share),
        "max_ignored_over_capacity": settings.take(f"{_PREEMPTION}max_ignored_over_capacity", 0.1, number),
        "intra_queue": settings.take(f"{_PREEMPTION}intra-queue-preemption.enabled", False, flag),
    }


def _fair_preemption(settings: Settings) -> dict[str, Any] | None:
    """The nearest settings to the FairScheduler's preemption: all that is owed, at once, after its wait."""
    if not settings.take("yarn.scheduler.fair.preemption", False, flag):
        return None
    return {
        "interval_s": settings.take("yarn.scheduler.fair.update-interval-ms", 0.5, _ms),
        "max_wait_before_kill_s": settings.take("yarn.scheduler.fair.waitTimeBeforeKill", 15.0, _ms),
        "total_preemption_per_round": 1.0,
        "natural_termination_factor": 1.0,
        "max_ignored_over_capacity": 0.0,
        "intra_queue": False,
    }


def _ms(text: str) -> float:
    if (value := whole(text)) < 1:
        raise ValueError("must be 1 ms or more")
    return value / 1000


def _at_least_one(text: str) -> int:
    if (value := whole(text)) < 1:
        raise ValueError("must be 1 or more")
    return value


def _size(text: str) -> int:
    """A size; -1: detected by the node, or unlimited."""
    return -1 if text == "-1" else whole(text)


def _memory_mb(value: int, imported: Imported) -> int:
    if value > 0:
        return value
    imported.assumed.append(LeftOut("cluster.memory_gb", "8", "each node detects its memory; see --site"))
    return 8192


# ---- settings that are not used ----

_REASONS: tuple[tuple[str, str], ...] = (
    (r"yarn\.scheduler\.capacity\..*(user-limit|user-settings|\.user\.|user-metrics)", "users are not modelled"),
    (r"yarn\.scheduler\.capacity\..*acl_", "there are no users to admit"),
    (
        r"yarn\.scheduler\.capacity\..*(maximum-am-resource-percent|maximum-applications|max-parallel-apps)",
        "applications wait only if no container would be left for a task",
    ),
    (r"yarn\.scheduler\.capacity\..*(label|node-attribute)", "all nodes are alike"),
    (r"yarn\.scheduler\.capacity\..*(auto-create|auto-queue|template)", "queues are those that the file names"),
    (r"yarn\.scheduler\.capacity\..*ordering-policy", "jobs of a queue are ordered by priority, then by submission"),
    (r"yarn\.scheduler\.capacity\..*(disable_preemption)", "every queue may be preempted"),
    (r"yarn\.scheduler\.capacity\..*(locality|rack)", "containers are requested on any node"),
    (r"yarn\.scheduler\.capacity\..*(reserv|plan-ahead)", "nothing is reserved"),
    (r"yarn\.scheduler\.capacity\..*(queue-mapping|mapping-rule|workflow)", "an application names its queue"),
    (r"yarn\.scheduler\.capacity\..*\.state", "every queue runs"),
    (r"yarn\.scheduler\.capacity\..*priority", "all queues have the same priority; jobs have their own"),
    (r"yarn\.scheduler\.capacity\..*schedule-asynchronously", "containers are allocated at heartbeats of nodes"),
    (r"yarn\.scheduler\.capacity\..*(capacity|queues)$", "its queue is in no list of queues"),
    (r"yarn\.resourcemanager\.monitor\.capacity\.", "this part of the preemption is not modelled"),
    (
        r"yarn\.(resourcemanager|nodemanager)\..*(address|hostname|\.port|bind-host|webapp)",
        "addresses are not used",
    ),
    (r"yarn\..*(maximum-allocation|increment-allocation)", "all containers have one size"),
    (r"yarn\.cluster\.max-application-priority", "no applications were given"),
    (r"yarn\..*vcores", "only memory counts under the default resource calculator"),
    (r"yarn\.scheduler\.fair\.", "this part of the FairScheduler is not modelled"),
    (r".*(kerberos|acl|security|keytab|principal|ssl|token)", "security settings are not used"),
    (r"yarn\.(log|timeline|.*log-)", "natjam has its own logs and histories"),
)
"""Why settings with such names are left out; the first match counts."""


def _why(name: str, is_fair: bool, preempts: bool) -> str:
    if name.startswith(PREFIX) and is_fair:
        return "the FairScheduler's queues are imported"
    if name.startswith((_PREEMPTION, "yarn.scheduler.fair.waitTime")) and not preempts:
        return "preemption is off"
    return next((why for pattern, why in _REASONS if re.match(pattern, name)), "natjam has no such setting")


# ---- the file ----


def write_import(imported: Imported, sources: Sources, out: Path) -> None:
    """Write the experiment, and beside it its applications, if any.  Raises RunError."""
    workload: dict[str, Any] = {"jobs": _example_jobs(imported.experiment["scheduler"]["allocation"]["queues"])}
    if imported.applications is not None:
        beside = out.with_suffix(".jobs.jsonl")
        write_workload(beside, Trace(imported.applications.header, iter(imported.applications.jobs)))
        workload = {"trace": {"format": "natjam", "path": beside.name}}
    given = [path for path in (sources.site, sources.scheduler, sources.fair, sources.apps) if path is not None]
    lines = [f"Made by natjam import yarn from {', '.join(path.name for path in given)}."]
    lines += [*_listed("Assumed:", imported.assumed), *_listed("Not carried over:", imported.left_out)]
    head = "".join(f"# {printable(line)}\n" for line in lines)
    with written_whole(out) as unfinished:
        unfinished.write_text(head + dump_yaml({**imported.experiment, "workload": workload}))


def _listed(title: str, notes: Sequence[LeftOut]) -> Iterator[str]:
    """The lines of a comment about them."""
    if notes:
        yield title
    for note in notes:
        key, value, why, where = note.shown()
        yield f"  {key} = {value}: {why}" + (f" ({where})" if where else "")


def _example_jobs(queues: Iterable[str]) -> list[dict[str, Any]]:
    """One job for each queue, to be replaced by the user's own."""
    return [
        {"name": f"example-{number}", "queue": queue, "submit_s": 0.0, "reduces": 4, "reduce_s": 60.0, "key_s": 1.0}
        for number, queue in enumerate(queues, 1)
    ]
