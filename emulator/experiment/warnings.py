"""Warnings before a run: what will be done differently from what the experiment says."""

from __future__ import annotations

from emulator.experiment.model import Experiment
from emulator.policies import ALLOCATION
from emulator.policies.allocation_forms import ShareAllocation
from workloads.errors import Problems


def minima_warning(experiment: Experiment) -> str | None:
    """Warns if the listed jobs are guaranteed more containers than the cluster has (flex, section 1)."""
    known = ALLOCATION.by_name.get(experiment.scheduler.allocation.name)
    wanted = sum(job.min_containers or 0 for job in experiment.workload.jobs or ())
    nodes = [experiment.cluster.slots_of(name) for name in experiment.cluster.node_names]
    slots = [node for node in nodes if node is not None]
    there = min(sum(kind) for kind in zip(*slots, strict=True)) if slots else experiment.cluster.containers
    if not isinstance(known, ShareAllocation) or wanted <= there:
        return None
    what = "slots for maps, or for reduces" if slots else "containers"
    return (
        f"the jobs' min_containers add up to {wanted}, and there are {there} {what}: while these jobs run together,"
        " their minima are lowered in proportion"
    )


def trace_caution(experiment: Experiment) -> str | None:
    """What runs do otherwise than the system that recorded the experiment's trace.  Raises TraceError."""
    entry = experiment.workload.trace
    if entry is None:
        return None
    from workloads.importers import open_entry  # here, because most experiments have no trace

    return open_entry(entry, Problems(lenient=True)).header.caution
