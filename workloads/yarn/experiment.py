"""An experiment from YARN's configuration: cluster, queues, preemption, heartbeats, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_values import dump_yaml
from emulator.sites.basis import Basis
from emulator.sites.yarn import FAIR_PREEMPTION
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.importers.yarn_apps import NEVER_RAN, SPARK, UNFINISHED
from workloads.record import Header, Trace, WorkloadJob, modelled
from workloads.setting_effects import Effect, Loss, basis_of, listed, settings_of
from workloads.store import write_workload
from workloads.yarn.losses import SCHEDULER, SITE, Scheduler, in_scheduler, losses_of
from workloads.yarn.queue_settings import queue_settings
from workloads.yarn.queues import PREFIX, FairQueues, Leaf, Parent, capacity_queues, fair_queues
from workloads.yarn.settings import Settings, flag, number, share, whole

_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
_MONITOR = "yarn.resourcemanager.scheduler.monitor."
_POLICY = "ProportionalCapacityPreemptionPolicy"
_MAX_PRIORITY = "yarn.cluster.max-application-priority"
_MASTER_MB = "yarn.app.mapreduce.am.resource.mb"
_NODE_MB = "yarn.nodemanager.resource.memory-mb"
_FAIR_PREEMPTION = "yarn.scheduler.fair.preemption"


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
    total: int = 0
    """How many there are in the file."""
    work_s: float = 0.0
    """The work of all, in seconds of containers, as far as it is known."""
    losses: list[Loss] = field(default_factory=list)


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
    names, losses = _known_names(leaves), list[Loss]()
    jobs = list(_queued(trace.jobs, names, highest_priority, losses, str(path)))
    for fact, effect, why in _OF_FACTS:
        count = trace.facts.get(fact, 0)
        losses += (Loss("an application", str(path), why, effect, _APPLICATIONS, f"{why} {n}") for n in range(count))
    left_out = [each for each in losses if each.effect is Effect.LEFT_OUT]
    work_s = sum(map(_work_s, jobs)) + sum(each.work for each in left_out)
    header = trace.header.with_step("queues as imported", queue=modelled("as in the trace"))
    return Applications(header, jobs, len(jobs) + len(left_out), work_s, losses)


_APPLICATIONS = "applications"
_OF_FACTS = (
    (NEVER_RAN, Effect.LEFT_OUT, "it ran no task: it had no container beside its master"),
    (UNFINISHED, Effect.DECIDES, "it has not ended: its work so far is taken for all"),
    (
        SPARK,
        Effect.DECIDES,
        "here a killed executor of Spark does all its work again, in Spark only what was lost is done again; how much"
        " that is, the ResourceManager does not say",
    ),
)


def _work_s(job: WorkloadJob) -> float:
    """Seconds of containers."""
    return sum(task.length_ns for task in job.tasks or ()) / 1e9


def _known_names(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Name of a queue by all names that an application may use for it."""
    names = queue_names(leaves)
    known = {name: name for name in names.values()}
    for path, name in names.items():
        known |= {path: name, f"root.{path}": name}
    return known


def _queued(
    jobs: Iterable[WorkloadJob], names: dict[str, str], highest_priority: int, losses: list[Loss], where: str
) -> Iterator[WorkloadJob]:
    for job in jobs:
        queue = names.get(job.queue or "default")
        if queue is None:
            why = f"there is no queue '{printable((job.queue or 'default')[:60])}'"
            what = f"application {printable(job.job[:60])}"
            losses.append(Loss(what, where, why, Effect.LEFT_OUT, _APPLICATIONS, work=_work_s(job)))
        else:
            yield replace(job, queue=queue, priority=min(job.priority or 0, highest_priority))


def as_allocated(jobs: Sequence[WorkloadJob], least_mb: int) -> list[WorkloadJob]:
    """The jobs with containers of whole steps of ``least_mb``, as YARN allocates them."""
    step_bytes = least_mb * 2**20

    def steps(memory_bytes: int | None) -> int:
        return max(1, -(-(memory_bytes or 0) // step_bytes)) * step_bytes

    return [
        replace(
            job,
            memory_bytes=steps(job.memory_bytes),
            master_memory_bytes=job.master_memory_bytes and steps(job.master_memory_bytes),
        )
        for job in jobs
    ]


def _sizes(jobs: Iterable[WorkloadJob], *, has_cores: bool) -> Iterator[tuple[int | None, int]]:
    """Bytes and cores, in thousandths, of all containers, as far as they are known and count."""
    for job in jobs:
        yield job.memory_bytes, (job.cpu_thousandths or 1000) if has_cores else 0
        if job.master_memory_bytes:
            yield job.master_memory_bytes, (job.master_cpu_thousandths or 1000) if has_cores else 0


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
    losses: list[Loss] = field(default_factory=list)
    assumed: list[Loss] = field(default_factory=list)
    """Values that the files do not have: what was assumed, and why."""

    @property
    def basis(self) -> Basis:
        """What an answer rests on; what was assumed and decides is part of it."""
        found, decides = self.applications, [each for each in self.assumed if each.effect is Effect.DECIDES]
        totals = {} if found is None else {_APPLICATIONS: found.total}
        return basis_of((*decides, *self.losses), totals, 0.0 if found is None else found.work_s)

    def assume(self, key: str, value: str, why: str, effect: Effect = Effect.DECIDES) -> None:
        """Note a value that the files do not have."""
        self.assumed.append(Loss(f"{key}={value}", "no file", why, effect))

    def lose(self, what: str, where: object, why: str, effect: Effect = Effect.DECIDES) -> None:
        """Note what is not carried over."""
        self.losses.append(Loss(printable(what), str(where), why, effect))


ASSUMED_NODES = 6


def import_yarn(sources: Sources, name: str, on_bytes: OnBytes = ignore) -> Imported:
    """Read the files of ``sources``.  Raises ConfigError (TraceError for the applications)."""
    settings = Settings()
    for path in (sources.site, sources.scheduler):
        if path is not None:
            settings.read(path)
    imported = Imported({}, None)
    node_mb = _memory_mb(settings.take(_NODE_MB, 8192, _size), imported)
    nodes = sources.nodes or ASSUMED_NODES
    if sources.nodes is None:
        imported.assume("cluster.nodes", str(nodes), "no file has the number of nodes; give --nodes")
    fair, leaves, parents = _queues(sources, settings, nodes * node_mb, imported)
    is_fair = fair is not None
    if sources.apps is not None:
        highest = settings.take(_MAX_PRIORITY, 0, whole)
        imported.applications = read_applications(sources.apps, leaves, highest, Problems(sources.lenient), on_bytes)
        imported.losses += imported.applications.losses
        if not imported.applications.jobs:
            raise ConfigError(f"{sources.apps}: no application can be used; see the queues of the other files")
    jobs = imported.applications.jobs if imported.applications else ()
    has_users = bool(jobs) and all(job.user for job in jobs)
    least_mb = settings.take("yarn.scheduler.minimum-allocation-mb", 1024, _at_least_one)
    allocated, cores = as_allocated(jobs, least_mb), _cores(settings, fair)
    for job in jobs if cores is not None else ():
        if job.cpu_thousandths is None:
            what = f"application {printable(job.job[:60])}"
            imported.losses.append(Loss(what, str(sources.apps), _NO_CORES, Effect.DECIDES, _APPLICATIONS))
    if imported.applications is not None and len(set(_sizes(allocated, has_cores=cores is not None))) > 1:
        imported.applications.jobs = allocated
        cluster = _sized_cluster(settings, cores, nodes, node_mb, least_mb, imported)
    else:
        per_container_mb = min(container_mb(jobs, least_mb), node_mb)
        why = "all containers have one size"
        imported.assume("cluster.container_memory_gb", f"{per_container_mb / 1024:g}", why, Effect.NOTHING)
        cluster = _cluster(settings, cores, nodes, node_mb, per_container_mb)
    preemption = _preemption(settings) if fair is None else _fair_preemption(settings, fair)
    scheduler = Scheduler(
        is_fair,
        preemption is not None,
        bool(preemption and preemption["intra_queue"]),
        _NODE_MB not in settings,
        has_users,
    )
    imported.losses = [*in_scheduler(imported.losses, scheduler), *losses_of(settings, leaves, scheduler)]
    for found in settings.properties() if cores is not None and fair is None else ():
        if found.name.startswith(PREFIX) and found.name.endswith("capacity") and "vcores" in found.value:
            imported.lose(f"{found.name}={found.value[:60]}", found.where, _ONLY_MEMORY)
    imported.losses += settings.losses
    basis = imported.basis
    paths = ([leaf.path for leaf in leaves], [parent.path for parent in parents])
    of_queues = queue_settings(settings, *paths, has_users) if fair is None else fair.settings
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
                **_tree(leaves, parents, of_queues, preempts=preemption is not None),
            },
            "job_selection": "priority",
            "task_eviction": "newest",
            "mechanism": "wait" if preemption is None else "kill",
        },
        "workload": {},
        **({"basis": msgspec.to_builtins(basis)} if basis else {}),
    }
    return imported


_NO_CORES = (
    "the virtual cores of its containers are not known, so one each is assumed; the ResourceManager says them only of"
    " an application that runs"
)
_ONLY_MEMORY = (
    "virtual cores of absolute capacities are not modelled: a queue has the share of all that it has of memory"
)


def _queues(
    sources: Sources, settings: Settings, cluster_mb: int, imported: Imported
) -> tuple[FairQueues | None, Sequence[Leaf], Sequence[Parent]]:
    """The FairScheduler's queues, if it decides; leaves; parents."""
    scheduler = settings.take(SCHEDULER, "CapacityScheduler", str)
    if sources.fair is not None and (scheduler.endswith(".FairScheduler") or sources.scheduler is None):
        found = fair_queues(sources.fair, cluster_mb)
        imported.losses += found.losses
        loss = settings_of("yarn").loss(SITE, SCHEDULER, "FairScheduler", str(sources.fair))
        imported.losses += [] if loss is None else [loss]
        if settings.take(_FAIR_PREEMPTION, False, flag) and not found.preempts:
            why = "nobody preempts: no queue has a time after which it does, and without one it never does"
            imported.lose(f"{_FAIR_PREEMPTION}=true", settings.where(_FAIR_PREEMPTION), why, Effect.NOTHING)
        return found, found.leaves, found.parents
    if sources.scheduler is None or f"{PREFIX}root.queues" not in settings:
        given = sources.scheduler or "the given files"
        raise ConfigError(f"{given}: {PREFIX}root.queues is not set; name capacity-scheduler.xml with --scheduler")
    if not scheduler.endswith("CapacityScheduler"):
        why = "the queues of capacity-scheduler.xml are imported; for the FairScheduler's, give its file with --fair"
        imported.lose(f"{SCHEDULER}={scheduler.rpartition('.')[2][:60]}", settings.where(SCHEDULER), why)
    if sources.fair is not None:
        imported.lose(f"--fair {sources.fair}", sources.fair, f"the scheduler is {scheduler}", Effect.NOTHING)
    leaves, parents = capacity_queues(settings, cluster_mb)
    return None, leaves, parents


def _tree(
    leaves: Sequence[Leaf], parents: Sequence[Parent], of_queues: Mapping[str, dict[str, Any]], preempts: bool
) -> dict[str, Any]:
    """The options of the allocation about the tree of queues; ``of_queues``: what else is set, by path."""
    names = queue_names(leaves) | {parent.path: f"root.{parent.path}" for parent in parents}
    inside: dict[str, list[str]] = {parent.path: [] for parent in parents}
    for path, name in names.items():
        if (above := path.rpartition(".")[0]) in inside:
            inside[above].append(name)
    tree = {names[each.path]: {"queues": inside[each.path], "maximum": each.maximum} for each in parents}
    spared = [names[leaf.path] for leaf in leaves if leaf.is_disabled] if preempts else []
    named = {names.get(path, "root"): each for path, each in of_queues.items()}
    parts = {"parents": tree, "disable_preemption": spared, "settings": named}
    return {key: part for key, part in parts.items() if part}


def _cores(settings: Settings, fair: FairQueues | None) -> int | None:
    """Virtual cores of a node; None: only memory counts (the DefaultResourceCalculator, or no ``drf``)."""
    calculator = settings.take(f"{PREFIX}resource-calculator", "DefaultResourceCalculator", str)
    if not (calculator.endswith("DominantResourceCalculator") if fair is None else fair.is_dominant):
        return None
    cores = settings.take("yarn.nodemanager.resource.cpu-vcores", 8, _size)
    return 8 if cores < 1 else cores


def _sized_cluster(
    settings: Settings, cores: int | None, nodes: int, node_mb: int, least_mb: int, imported: Imported
) -> dict[str, Any]:
    """A cluster whose containers have the sizes of the applications' own."""
    resources = {"memory_gb": _gb(node_mb), **({} if cores is None else {"cpu": cores})}
    master_mb = -(-settings.take(_MASTER_MB, 1536, _at_least_one) // least_mb) * least_mb
    jobs = imported.applications.jobs if imported.applications else ()
    unknown = sum(job.master_memory_bytes is None for job in jobs)
    if unknown:
        imported.assume(
            "cluster.master_resources", f"{_gb(master_mb):g} GB", _masters(unknown, len(jobs)), Effect.NOTHING
        )
    return {
        "node_groups": [{"count": nodes, "resources": resources}],
        "container_memory_gb": _gb(least_mb),
        "master_resources": {"memory_gb": _gb(min(master_mb, node_mb))},
    }


def _masters(unknown: int, total: int) -> str:
    """Why a size of ApplicationMasters was assumed."""
    return (
        f"as MapReduce's; of {unknown:,} of {total:,} applications the size of the ApplicationMaster is not known: the"
        " ResourceManager says it only of one that runs, under the CapacityScheduler"
    )


def _gb(size_mb: int) -> float:
    """GiB of a size in MiB, of three decimals."""
    return size_mb * 1000 // 1024 / 1000


def _cluster(settings: Settings, cores: int | None, nodes: int, node_mb: int, container_mb: int) -> dict[str, Any]:
    per_node = node_mb // container_mb
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
        "intra_queue": settings.take(f"{_WITHIN}enabled", False, flag),
        **{
            key: settings.take(f"{_WITHIN}{name}", 0.0, share)
            for key, name in _SHARES_WITHIN.items()
            if f"{_WITHIN}{name}" in settings
        },
        **{
            name: settings.take(f"{_PREEMPTION}{name}", False, flag)
            for name in _BY_RESERVED
            if f"{_PREEMPTION}{name}" in settings
        },
    }


_WITHIN = f"{_PREEMPTION}intra-queue-preemption."
_SHARES_WITHIN = {
    "intra_queue_max_allowable_limit": "max-allowable-limit",
    "intra_queue_minimum_threshold": "minimum-threshold",
}


_BY_RESERVED = ("select_based_on_reserved_containers", "additional_res_balance_based_on_reserved_containers")


def _fair_preemption(settings: Settings, fair: FairQueues) -> dict[str, Any] | None:
    """The FairScheduler's preemption: all that is owed, at once; None: it is off, or no queue has a time after which it
    preempts."""
    if not fair.preempts or not settings.take(_FAIR_PREEMPTION, False, flag):
        return None
    keys = {
        "interval_s": ("update-interval-ms", _ms),
        "max_wait_before_kill_s": ("waitTimeBeforeKill", _ms),
        "cluster_utilization_threshold": ("preemption.cluster-utilization-threshold", share),
    }
    found = {
        name: settings.take(f"yarn.scheduler.fair.{key}", FAIR_PREEMPTION[name], read)
        for name, (key, read) in keys.items()
    }
    return {**FAIR_PREEMPTION, **found}


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
    imported.assume("cluster.memory_gb", "8", "each node detects its memory; see --site")
    return 8192


# ---- the file ----


def write_import(imported: Imported, sources: Sources, out: Path) -> None:
    """Write the experiment, and beside it its applications, if any.

    Raises ConfigError: a file to write is one of those that were read; RunError.
    """
    workload: dict[str, Any] = {"jobs": _example_jobs(imported.experiment["scheduler"]["allocation"]["queues"])}
    beside = out.with_suffix(".jobs.jsonl")
    read = [path for path in (sources.site, sources.scheduler, sources.fair, sources.apps) if path is not None]
    if imported.applications is not None and beside.exists() and any(map(beside.samefile, read)):
        raise ConfigError(f"{beside}: is a file that the command reads; write to another file than {out}")
    if imported.applications is not None:
        write_workload(beside, Trace(imported.applications.header, iter(imported.applications.jobs)))
        workload = {"trace": {"format": "natjam", "path": beside.name}}
    lines = [f"Made by natjam import yarn from {', '.join(path.name for path in read)}."]
    lines += [*_listed("Assumed:", imported.assumed), *_listed("Not carried over:", imported.losses)]
    head = "".join(f"# {printable(line)}\n" for line in lines)
    with written_whole(out) as unfinished:
        unfinished.write_text(head + dump_yaml({**imported.experiment, "workload": workload}))


def _listed(title: str, losses: Sequence[Loss]) -> list[str]:
    """The lines of a comment about them."""
    return [title, *(f"  {line}" for line in listed(losses))] if losses else []


def _example_jobs(queues: Iterable[str]) -> list[dict[str, Any]]:
    """One job for each queue, to be replaced by the user's own."""
    return [
        {"name": f"example-{number}", "queue": queue, "submit_s": 0.0, "reduces": 4, "reduce_s": 60.0, "key_s": 1.0}
        for number, queue in enumerate(queues, 1)
    ]
