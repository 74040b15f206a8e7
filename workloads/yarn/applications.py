"""The applications of an import: a ResourceManager's answer or a Rumen trace, fitted to the imported queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.importers.yarn_apps import NEVER_RAN, UNFINISHED
from workloads.record import Header, WorkloadJob, modelled
from workloads.yarn.queues import Leaf
from workloads.yarn.settings import LeftOut

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
