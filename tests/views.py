"""Views for tests of policies."""

from __future__ import annotations

from typing import Any

from emulator.policies.views import ClusterView, JobView, Known, QueueView, TaskView
from emulator.vocabulary import REDUCE, JobFacts


def cluster(now_ns: int = 0, **known: Any) -> ClusterView:
    """A view of a cluster of which only ``known`` is known."""
    return ClusterView(now_ns, Known(**known))


def job_view(
    name: str,
    containers: int = 3,
    order: int = 0,
    *,
    deadline_ns: int | None = None,
    priority: int = 0,
    remaining_ns: int | None = None,
    reclaimable: int | None = None,
) -> JobView:
    """A research job that holds this many containers and can give all of them, or ``reclaimable``."""
    facts = JobFacts(name, "research", deadline_ns=deadline_ns, priority=priority)
    can_give = containers if reclaimable is None else reclaimable
    return JobView(facts, order, 0, containers, can_give, 0, remaining_ns=remaining_ns)


def task_view(
    number: int, remaining_ns: int | None = None, *, started_ns: int = 0, keys_total: int | None = 9
) -> TaskView:
    """Reduce ``number`` of job ``j``, in container ``c<number>``; ``keys_total`` None: its progress is not visible."""
    task, keys_done = (None, None) if keys_total is None else (number, 0)
    return TaskView(f"c{number}", "j", REDUCE, "node-1", started_ns, task, keys_done, keys_total, remaining_ns)


def queue_views(production: int, research: int, capacity: tuple[int, int] = (4, 12)) -> tuple[QueueView, QueueView]:
    """Two queues that hold these numbers of 16 containers."""
    return (
        QueueView("production", 0, capacity[0], 16, production, 1),
        QueueView("research", 1, capacity[1], 16, research, 1),
    )
