"""Warnings before a run: what will be done differently from what the experiment says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.experiment.model import MEMORY, Experiment
from emulator.policies.policy import ShareAllocation
from emulator.sites.kubernetes import PodDetails
from workloads.errors import Problems

TOO_LARGE = "too_large"
"""Option of an allocation: the jobs of an imported cluster that are left out because no node is large enough, each with
what it lacks."""
_MAX_NAMED = 10


def warnings(experiment: Experiment) -> Iterator[str]:
    """All of these warnings that its file alone gives."""
    found = (too_large_warning, earlier_work_warning, minima_warning, masters_warning, whole_numbers_warning)
    yield from filter(None, (each(experiment) for each in found))


def too_large(experiment: Experiment) -> Mapping[str, str]:
    """The jobs of an imported cluster that no node is large enough for, with what they lack."""
    return (experiment.scheduler.allocation.model_extra or {}).get(TOO_LARGE, {})


def too_large_warning(experiment: Experiment) -> str | None:
    """Names the jobs that are left out."""
    left_out = too_large(experiment)
    if not left_out:
        return None
    named = [f"{name} ({lack})" for name, lack in list(left_out.items())[:_MAX_NAMED]]
    more = f"; and {len(left_out) - _MAX_NAMED:,} more" if len(left_out) > _MAX_NAMED else ""
    count = f"{len(left_out):,} job{'s' * (len(left_out) > 1)}"
    return f"no node is large enough for {count}, left out of the run: {'; '.join(named)}{more}"


def earlier_work_warning(experiment: Experiment) -> str | None:
    """Says of which pods of an imported cluster the work before its snapshot is not counted."""
    details = (each.details for each in experiment.workload.jobs or ())
    count = sum(isinstance(each, PodDetails) and each.node is not None and each.endless for each in details)
    if not count:
        return None
    pods = "1 pod that runs already has" if count == 1 else f"{count:,} pods that run already have"
    return f"{pods} no known end: of their work only what they do from the snapshot on counts as lost"


def minima_warning(experiment: Experiment) -> str | None:
    """Warns if the listed jobs are guaranteed more containers than the cluster has (flex, section 1)."""
    wanted = sum(job.min_containers or 0 for job in experiment.workload.jobs or ())
    nodes = [experiment.cluster.slots_of(name) for name in experiment.cluster.node_names]
    slots = [node for node in nodes if node is not None]
    there = min(sum(kind) for kind in zip(*slots, strict=True)) if slots else experiment.cluster.containers
    if not isinstance(experiment.scheduler.allocation.known, ShareAllocation) or wanted <= there:
        return None
    what = "slots for maps, or for reduces" if slots else "containers"
    return (
        f"the jobs' min_containers add up to {wanted}, and there are {there} {what}: while these jobs run together,"
        " their minima are lowered in proportion"
    )


def masters_warning(experiment: Experiment) -> str | None:
    """Warns if no job can preempt another one, because ApplicationMasters leave room for the tasks of one job only."""
    cluster, workload = experiment.cluster, experiment.workload
    waits = experiment.engine == "fluid" or experiment.scheduler.choice("mechanism").name == "wait"
    if (
        waits
        or cluster.application_masters != "in-containers"
        or cluster.containers > 2
        or len(workload.jobs or ()) < 2
    ):
        return None
    return (
        f"no job will preempt another one: an ApplicationMaster holds one of {cluster.containers} containers, so"
        " only one job runs at a time; set cluster.application_masters: outside, or give the cluster more containers"
    )


def whole_numbers_warning(experiment: Experiment) -> str | None:
    """Names the resources of which YARN counts whole numbers where the experiment has fractions."""
    if experiment.scheduler.allocation.name != "yarn-capacity":
        return None
    jobs = experiment.workload.jobs or ()
    given = [each.resources for job in jobs for each in (job, *(job.groups or ()))]
    given += [group.resources for group in experiment.cluster.node_groups or ()]
    amounts = [pair for each in given for pair in (each or {}).items()]
    names = dict.fromkeys(name for name, amount in amounts if name != MEMORY and amount != int(amount))
    if not names:
        return None
    return f"YARN counts whole numbers of {', '.join(names)}: what a task asks for is rounded up, what a node has down"


def trace_caution(experiment: Experiment) -> str | None:
    """What runs do otherwise than the system that recorded the experiment's trace; nothing known if its jobs are gangs.
    Raises TraceError."""
    entry = experiment.workload.trace
    if entry is None or entry.gangs:
        return None
    from workloads.importers import open_entry  # here, because most experiments have no trace

    return open_entry(entry, Problems(lenient=True)).header.caution
