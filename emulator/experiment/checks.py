"""Checks that need several parts of an experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from emulator import policies
from emulator.core.mechanisms import TRAITS
from emulator.costs.calibration import AUTO, load_calibration
from emulator.costs.overheads import load_overheads
from emulator.costs.tiers import load_tier
from emulator.errors import ConfigError
from emulator.experiment.availability import read_steps
from emulator.experiment.gangs import gang_problems
from emulator.experiment.groups import group_problems
from emulator.experiment.model import Choice, Cluster, Scheduler, Workload
from emulator.experiment.policies import policy_problems
from emulator.experiment.requests import check_sizes
from emulator.experiment.triggers import trigger_problems
from emulator.files.problems import MOST_PROBLEMS, Problem, suggestion
from emulator.files.strict import LONGEST_FILE_NAME, NAME_RULE, is_name
from emulator.files.yaml_positions import Document
from emulator.files.yaml_values import Location
from emulator.policies.allocation_forms import (
    CycleAllocation,
    Maximum,
    PacedAllocation,
    QueueRules,
    ShareAllocation,
    TakesBack,
    ToldAllocation,
)
from emulator.policies.fit import OFFERED
from emulator.policies.policy import Axis
from emulator.storage.objects import is_object_url
from emulator.vocabulary import Mechanism
from workloads.schema import GOOGLE_BANDS

TWO_QUEUES = {"production", "research"}
PATH_LOCATIONS: tuple[Location, ...] = (
    ("overheads",),
    ("calibration",),
    ("workload", "trace", "path"),
    ("storage", "url"),
    ("storage", "tier"),
    ("cluster", "availability", "file"),
    ("cluster", "availability", "forecast", "file"),
)
"""The fields that name files; relative paths start from the experiment file's directory."""
FLUID = "fluid"
_IMAGES = tuple(mechanism.value for mechanism in Mechanism if TRAITS[mechanism].makes_image)
"""Mechanisms that write process images."""


def check(
    cluster: Cluster | None, scheduler: Scheduler | None, workload: Workload | None, engine: str
) -> list[Problem]:
    """Problems between the parts; None is a part that was not valid by itself, and it is not checked."""
    found: list[Iterator[Problem]] = []
    if cluster is not None:
        found += [_memory(cluster), _racks(cluster), _named_nodes(cluster), _availability(cluster, scheduler, engine)]
        found += [_slots(cluster, scheduler, workload), check_sizes(cluster, scheduler, workload, engine)]
    if scheduler is not None:
        found += [_queues(scheduler), _mechanism(scheduler), _selection(scheduler), _shares(scheduler, engine)]
        found.append(_fit(scheduler))
    if workload is not None:
        found += [_workload(workload, scheduler, cluster), trigger_problems(scheduler, workload, engine)]
        found.append(gang_problems(cluster, scheduler, workload, engine))
    return [problem for one in found for problem in islice(one, MOST_PROBLEMS + 1)]


def check_files(document: Document, base_dir: Path) -> list[Problem]:
    """Problems with what the experiment refers to: policies, the overhead profile, the trace."""
    problems: list[Problem] = []
    for axis in policies.AXES.values():
        problems += _policy(axis, document, base_dir)
    problems += _refused(document, ("overheads",), lambda name: load_overheads(name, base_dir))
    if document.get(("calibration",)) != AUTO:
        problems += _refused(document, ("calibration",), lambda name: load_calibration(base_dir / name))
    problems += _refused(document, ("storage", "tier"), lambda name: load_tier(name, base_dir))
    problems += _images(document)
    problems += _object_store(document)
    trace = document.get(("workload", "trace", "path"))
    if isinstance(trace, str) and trace and not _is_there(trace):
        problems.append((("workload", "trace", "path"), f"there is no such file: {trace}"))
    return problems


def _object_store(document: Document) -> Iterator[Problem]:
    url, jobs = document.get(("storage", "url")), document.get(("workload", "jobs"))
    queues = document.get(("scheduler", "allocation", "queues"))
    if not isinstance(url, str) or not is_object_url(url):
        return
    places: list[tuple[Location, Any]] = [
        *((("workload", "jobs", index), job) for index, job in enumerate(jobs if isinstance(jobs, tuple) else ())),
        *(
            (("scheduler", "allocation", "queues", n), q)
            for n, q in (queues if isinstance(queues, dict) else {}).items()
        ),
    ]
    for where, entry in ((where, entry) for where, entry in places if isinstance(entry, dict)):
        if entry.get("tasks") is not None:
            yield (
                (*where, "tasks"),
                "programs leave directories, and an object store has none; set storage.url to a path",
            )
        if entry.get("checkpoint_period_s") is not None:
            what = "tasks save by themselves in files that all nodes see at once"
            yield (*where, "checkpoint_period_s"), f"{what}, and an object store shows none; set storage.url to a path"


def _refused(document: Document, location: Location, load: Callable[[str], object]) -> Iterator[Problem]:
    """The problems with what the name at ``location``, if there is one, refers to."""
    name = document.get(location)
    if isinstance(name, str) and name:
        try:
            load(name)
        except ConfigError as error:
            for line in error.message.splitlines():
                yield location, line


def _images(document: Document) -> Iterator[Problem]:
    mechanism = document.get(("scheduler", "mechanism"))
    options = mechanism if isinstance(mechanism, dict) else {"name": mechanism}
    name = options.get("name")
    known = policies.MECHANISM.by_name.get(name) if isinstance(name, str) else None
    if known is None:
        return
    among = [mechanism.value for mechanism in known.among]
    if known.options is not None:
        among = options.get("among", among)
    if not isinstance(among, list | tuple) or not any(name in among for name in _IMAGES):
        return
    where = ("scheduler", "mechanism")
    if document.get(("engine",)) == FLUID:
        yield where, "the fluid engine makes no images; set engine to live or sim"
    elif document.get(("storage", "tier")) is None:
        yield where, "images need a storage device: set storage.tier (hdd, ssd, nvm, native, or your own numbers)"


def _policy(axis: Axis[Any], document: Document, base_dir: Path) -> Iterator[Problem]:
    location: Location = ("scheduler", axis.name)
    value = document.get(location)
    if isinstance(value, str) and value and value != policies.AUTO:
        for _, what in policy_problems(axis, Choice(name=value), base_dir):
            yield location, what
    elif isinstance(value, dict):
        of_ours = ("queues",) if axis.name == "allocation" else ()
        default = {"name": "prefer-local"} if axis.name == "placement" else {}
        written = {**default, **{str(key): value[key] for key in value if key not in of_ours}}
        if isinstance(written.get("name"), str) and written["name"]:
            for where, what in policy_problems(axis, Choice.model_validate(written), base_dir):
                yield (*location, *where), what


def _memory(cluster: Cluster) -> Iterator[Problem]:
    needed = cluster.containers_per_node * cluster.container_memory_gb
    if cluster.node_groups is None and needed > cluster.memory_gb:
        yield (
            ("cluster", "memory_gb"),
            f"{cluster.containers_per_node} containers of {cluster.container_memory_gb:g} GB need {needed:g}"
            f" and a node has {cluster.memory_gb:g}; raise memory_gb or lower containers_per_node",
        )


def _racks(cluster: Cluster) -> Iterator[Problem]:
    if cluster.racks > 1 and cluster.slots is not None:
        yield ("cluster", "racks"), "racks and slots cannot be combined; set racks to 1 or slots to null"


def _availability(cluster: Cluster, scheduler: Scheduler | None, engine: str) -> Iterator[Problem]:
    availability, where = cluster.availability, ("cluster", "availability")
    if availability is None:
        return
    if engine != FLUID and cluster.slots is not None:
        yield where, "is of containers for anything; remove cluster.slots, or set it to null"
    known = None if scheduler is None else policies.ALLOCATION.by_name.get(scheduler.allocation.name)
    if scheduler is not None and isinstance(known, PacedAllocation) and scheduler.choice("mechanism").name != "wait":
        message = f"{known.name} takes nothing back for a transactional workload; set mechanism to wait"
        yield ("scheduler", "mechanism"), message
    kind = "steps" if availability.steps is not None else "spline"
    for index, (_, count) in enumerate(availability.steps or availability.spline or ()):
        if count > cluster.containers:
            yield (
                (*where, kind, index),
                f"{count} is more than the {cluster.containers} containers of the cluster; lower it",
            )
    for path, location in ((availability.file, "file"), (availability.forecast.file, "forecast")):
        try:
            if path is not None:
                read_steps(Path(path), cluster.containers, availability.period_s)
        except ConfigError as error:
            yield (*where, location), error.message


def _named_nodes(cluster: Cluster) -> Iterator[Problem]:
    known = dict.fromkeys(cluster.node_names)
    for key, named in (("slow_nodes", cluster.slow_nodes), ("small_nodes", cluster.small_nodes)):
        for name in named:
            if name not in known:
                last = f"node-1 to node-{cluster.nodes}" if cluster.nodes > 1 else "node-1"
                yield ("cluster", key, name), f"there is no node '{name}'{suggestion(name, known)} (nodes: {last})"
            elif key == "small_nodes" and not cluster.containers_of(name):
                yield ("cluster", key, name), f"leaves no container on {name}; raise it"


def _slots(cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None) -> Iterator[Problem]:
    slots = cluster.slots
    if slots is None:
        return
    where: Location = ("cluster", "slots")
    if slots.map + slots.reduce != cluster.containers_per_node:
        yield (
            ("cluster", "containers_per_node"),
            f"{cluster.containers_per_node} is not the sum of slots, {slots.map} and {slots.reduce}; remove it",
        )
    if cluster.application_masters != "outside":
        yield (
            ("cluster", "application_masters"),
            "with slots for maps and reduces there is none for an ApplicationMaster; set it to outside",
        )
    for index, job in enumerate(workload.jobs or () if workload is not None else ()):
        for kind, count in (("map", slots.map), ("reduce", slots.reduce)):
            if getattr(job, f"{kind}s") and not count:
                yield ("workload", "jobs", index, f"{kind}s"), f"there are no slots for {kind}s (cluster.slots.{kind})"
        if job.groups is not None and not slots.reduce:
            yield ("workload", "jobs", index, "groups"), "there are no slots for its tasks (cluster.slots.reduce)"
    allocation = None if scheduler is None else policies.ALLOCATION.by_name.get(scheduler.allocation.name)
    if scheduler is None or allocation is None:
        return
    if not isinstance(allocation, ShareAllocation):
        message = f"{allocation.name} does not distinguish maps from reduces; set it to null, or choose"
        yield where, f"{message} {_giving_shares()}"
    elif scheduler.victims != "reduces" and scheduler.choice("mechanism").name != "wait":
        yield ("scheduler", "victims"), "with cluster.slots only reduces can be preempted; remove it"


def _queues(scheduler: Scheduler) -> Iterator[Problem]:
    allocation = scheduler.allocation
    where: Location = ("scheduler", "allocation", "queues")
    known = policies.ALLOCATION.by_name.get(allocation.name)
    rules = QueueRules() if known is None else known.queues
    total = math.fsum(queue.capacity for queue in allocation.queues.values())
    if total > 1 + 1e-9:
        yield where, f"the capacities add up to {total:g}; lower them to a sum of 1 or less"
    for name, queue in allocation.queues.items():
        if not is_name(name):
            yield (*where, name), f"the name of a queue must be {NAME_RULE}"
        if rules.most == 1 and queue.maximum != 1:
            yield (
                (*where, name, "maximum"),
                f"a single queue has the whole cluster: 1, not {queue.maximum:g}; remove it",
            )
        elif queue.maximum == 0:
            yield (*where, name, "maximum"), "must be greater than 0, or no job of the queue can ever run"
        elif queue.capacity > queue.maximum:
            message = f"{queue.capacity:g} is above the queue's maximum {queue.maximum:g}; lower it"
            yield (*where, name, "capacity"), message
        elif rules.maximum is Maximum.CAPACITY and queue.maximum != queue.capacity:
            yield (
                (*where, name, "maximum"),
                f"under {allocation.name} the maximum is the capacity, {queue.capacity:g}, not {queue.maximum:g};"
                " remove it, make them equal, or use soft-cap",
            )
    count = len(allocation.queues)
    if rules.most is not None and count > rules.most:
        yield where, f"{allocation.name} needs one queue, for all jobs, not {count}; keep one"
    if count < rules.fewest:
        yield where, f"{allocation.name} needs {rules.fewest} queues or more, the most urgent first, not {count}"


def _shares(scheduler: Scheduler, engine: str) -> Iterator[Problem]:
    known = policies.ALLOCATION.by_name.get(scheduler.allocation.name)
    where: Location = ("scheduler", "allocation")
    if known is None:
        return
    if engine == FLUID and FLUID not in known.engines:
        message = f"{known.name} gives no shares, and the fluid engine needs shares (choose {_giving_shares()})"
        yield (*where, "name"), message
    if engine != FLUID and known.engines == {FLUID}:
        yield (*where, "name"), f"{known.name} is for the fluid engine only in this release; set engine: fluid"
    for name, queue in scheduler.allocation.queues.items():
        if known.queues.maximum is Maximum.NONE and 0 < queue.maximum < 1:
            yield (*where, "queues", name, "maximum"), f"{known.name} has no maxima of queues, only of jobs; remove it"


def _fit(scheduler: Scheduler) -> Iterator[Problem]:
    known = policies.ALLOCATION.by_name.get(scheduler.allocation.name)
    if scheduler.choice("fit").name == OFFERED.name or known is None:
        return
    if isinstance(known, ShareAllocation | CycleAllocation | ToldAllocation):
        yield ("scheduler", "fit"), f"{known.name} chooses the nodes itself; remove it, or name an allocation of queues"


def _giving_shares() -> str:
    return ", ".join(policy.name for policy in policies.ALLOCATION.policies if isinstance(policy, ShareAllocation))


def _mechanism(scheduler: Scheduler) -> Iterator[Problem]:
    name, mechanism = scheduler.allocation.name, scheduler.choice("mechanism").name
    known = policies.ALLOCATION.by_name.get(name)
    if known is not None and known.takes_back is TakesBack.NEVER and mechanism != "wait":
        yield (
            ("scheduler", "mechanism"),
            f"{name} never preempts, so it cannot be used with '{mechanism}'; set it to wait",
        )


def _selection(scheduler: Scheduler) -> Iterator[Problem]:
    eviction, selection = scheduler.choice("job_eviction").name, scheduler.choice("job_selection").name
    known = policies.JOB_EVICTION.by_name.get(eviction)
    dictated = known.dictates.name if known is not None and known.dictates is not None else None
    if dictated and selection not in (policies.AUTO, dictated) and not scheduler.allow_inconsistent:
        yield (
            ("scheduler", "job_selection"),
            f"'{selection}' may give a freed container back to the job that"
            f" '{eviction}' took it from, again and again; set it to auto or {dictated}, or set"
            " allow_inconsistent: true to see that",
        )
    allocation = policies.ALLOCATION.by_name.get(scheduler.allocation.name)
    own = allocation.dictates.name if allocation is not None and allocation.dictates is not None else None
    if own and selection not in (policies.AUTO, own) and not scheduler.allow_inconsistent:
        yield (
            ("scheduler", "job_selection"),
            f"{scheduler.allocation.name} orders jobs differently from '{selection}'; set it to auto or {own},"
            " or set allow_inconsistent: true",
        )


def _workload(workload: Workload, scheduler: Scheduler | None, cluster: Cluster | None) -> Iterator[Problem]:
    kinds = ("jobs", "trace", "bimodal", "poisson", "google_day")
    given = [name for name in kinds if getattr(workload, name) is not None]
    if len(given) != 1:
        yield ("workload",), f"give exactly one of {', '.join(kinds)}; {' and '.join(given) or 'none'} given"
    queues = scheduler.allocation.queues if scheduler is not None else None
    yield from _trace(workload, queues)
    yield from _only(workload, queues)
    for kind, drawn in (("bimodal", workload.bimodal), ("poisson", workload.poisson)):
        if drawn is not None and queues is not None and drawn.queue not in queues:
            yield ("workload", kind, "queue"), f"there is no queue '{drawn.queue}'{suggestion(drawn.queue, queues)}"
    for band in GOOGLE_BANDS:
        if workload.google_day is not None and queues is not None and band not in queues:
            yield ("workload", "google_day"), f"needs queues {', '.join(GOOGLE_BANDS)}; there is no queue '{band}'"
    names: dict[str, int] = {}
    for index, job in enumerate(workload.jobs or ()):
        where: Location = ("workload", "jobs", index)
        if job.name in names:
            yield (*where, "name"), f"jobs.{names[job.name]} has the same name, '{job.name}'; change one"
        names.setdefault(job.name, index)
        if job.name.startswith((".", "_")):
            yield (*where, "name"), f"'{job.name}': the name of a job must not start with '.' or '_'"
        if len(quote(job.name, safe="")) > LONGEST_FILE_NAME:
            yield (*where, "name"), "is too long for a file name; shorten it"
        if queues is not None and job.queue not in queues:
            near = suggestion(job.queue, queues)
            yield (*where, "queue"), f"there is no queue '{job.queue}'{near} (queues: {', '.join(queues)})"
        elif queues is not None and cluster is not None:
            containers = queues[job.queue].maximum * cluster.containers
            if cluster.application_masters == "in-containers" and 0 < math.ceil(containers) < 2:
                yield (
                    (*where, "queue"),
                    f"queue '{job.queue}' may hold at most {containers:g} containers: the master takes one"
                    " and no task ever runs; raise the queue's maximum or the cluster's containers",
                )
        if cluster is None or cluster.node_groups is not None:
            continue  # each container has the size that its task asks for
        if (job.memory_mb or 0) > cluster.container_memory_gb * 1024:
            yield (
                (*where, "memory_mb"),
                f"{job.memory_mb} MB do not fit a container of {cluster.container_memory_gb:g} GB;"
                " raise container_memory_gb",
            )
        yield from group_problems(where, job, None if cluster is None else cluster.container_memory_gb)
        held_gb = max(job.memory_gb) if isinstance(job.memory_gb, tuple) else job.memory_gb or 0
        if held_gb > cluster.container_memory_gb:
            yield (
                (*where, "memory_gb"),
                f"a task that holds {held_gb:g} GB does not fit a container of {cluster.container_memory_gb:g} GB;"
                " raise container_memory_gb",
            )


def _trace(workload: Workload, queues: Iterable[str] | None) -> Iterator[Problem]:
    trace = workload.trace
    if trace is None or queues is None:
        return
    for key, of_queues in (("task_memory", trace.task_memory), ("weights", trace.weights)):
        for name in of_queues:
            if name not in queues:
                yield ("workload", "trace", key, name), f"there is no queue '{name}'{suggestion(name, queues)}"
    splits = trace.production_fraction is not None or trace.production_priority is not None
    if splits and not set(queues) >= TWO_QUEUES:
        yield (
            ("workload", "trace"),
            "production_fraction and production_priority send jobs to the queues production and research; add both, or"
            " remove them",
        )


def _only(workload: Workload, queues: Iterable[str] | None) -> Iterator[Problem]:
    only, jobs = workload.only, {job.name: job.queue for job in workload.jobs or ()}
    if only is None:
        return
    where: Location = ("workload", "only")
    unknown = False
    for kind, chosen, known in (("queue", only.queues, queues), ("job", only.jobs, jobs or None)):
        for index, name in enumerate(chosen or ()):
            if known is not None and name not in known:
                unknown = True
                yield (*where, f"{kind}s", index), f"there is no {kind} '{name}'{suggestion(name, known)}"
    if jobs and not unknown and not any(only.holds(name, queue) for name, queue in jobs.items()):
        yield where, "leaves no job to run; name others, or remove it"


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # the name is too long, or has a NUL
        return False
