"""Which jobs may have an ApplicationMaster: never so many that no container is left for a task.

ApplicationMasters hold containers and are never preempted.  A burst of jobs could so fill a cluster, or a queue, with
masters that wait for each other for ever.  Hadoop's capacity scheduler keeps the jobs beyond a share of the queue
waiting (``maximum-am-resource-percent``); here they wait only where the last container would go.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.applications import Application
from emulator.core.settings import QueueSettings


def next_admitted(
    applications: Iterable[Application], queues: Iterable[QueueSettings], containers: int
) -> Application | None:
    """The job that may ask for its ApplicationMaster next, in a cluster of ``containers``: the oldest of the most
    urgent queue that has room.  One place is kept for each more urgent queue."""
    applications = list(applications)
    masters = sum(application.admitted for application in applications)
    for queue in sorted(queues, key=lambda queue: queue.rank):
        mine = [application for application in applications if application.queue == queue.name]
        waiting = [application for application in mine if not application.admitted]
        room_in_cluster = masters < max(1, containers - 1 - queue.rank)
        room_in_queue = len(mine) - len(waiting) < max(1, queue.maximum - 1)
        if waiting and room_in_cluster and room_in_queue:
            return min(waiting, key=lambda application: application.order)
    return None


def next_given_up(
    applications: Iterable[Application], queues: Iterable[QueueSettings], containers: int
) -> Application | None:
    """The job that must end because nodes were lost and ``containers`` are too few: the youngest, least urgent one."""
    applications = list(applications)
    masters = [application for application in applications if application.admitted]
    rank = {queue.name: queue.rank for queue in queues}
    if containers < 2:
        masters = applications
    elif len(masters) < containers:
        return None
    return max(masters, key=lambda application: (rank[application.queue], application.order), default=None)
