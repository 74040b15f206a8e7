"""Which jobs may have an ApplicationMaster: never so many that no container is left for a task.

ApplicationMasters hold containers and are never preempted.  So a burst of jobs could fill a cluster, or a queue, with
masters that wait for each other for ever.  Hadoop's capacity scheduler lets jobs wait beyond a share of the queue
(``maximum-am-resource-percent``).  Here a job waits only if its master would take the last container.

An admitted job may still wait for its master's container.  If it belongs to a less urgent queue, it makes room for a
job of a more urgent one; otherwise a backlog of research jobs would keep production jobs out.  Where masters take no
container, all jobs are admitted at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.resource_manager.applications import Application
from emulator.core.settings import QueueSettings


class Admission:
    """The submitted jobs that have not ended, by queue: admitted jobs and waiting jobs."""

    def __init__(self, queues: Iterable[QueueSettings], masters_outside: bool = False) -> None:
        self._outside = masters_outside
        self._queues = sorted(queues, key=lambda queue: queue.rank)
        self._rank = {queue.name: queue.rank for queue in self._queues}
        self._admitted: dict[str, dict[str, Application]] = {queue.name: {} for queue in self._queues}
        self._waiting: dict[str, dict[str, Application]] = {queue.name: {} for queue in self._queues}
        """In the order of submission."""
        self._masters = 0

    def submit(self, application: Application) -> None:
        """A job has been submitted."""
        self._waiting[application.queue][application.name] = application

    def end(self, application: Application) -> None:
        """A job has ended."""
        if application.admitted:
            self._masters -= 1
            del self._admitted[application.queue][application.name]
        else:
            del self._waiting[application.queue][application.name]

    def admit_next(self, containers: int) -> Application | None:
        """Admit the next job that may request its ApplicationMaster, in a cluster of ``containers``: the oldest job of
        the most urgent queue that has room.  For each more urgent queue, one place is kept free."""
        for queue in self._queues:
            waiting = self._waiting[queue.name]
            has_room = self._has_room_in_queue(queue) and self._masters < _most_masters(queue, containers)
            if waiting and (self._outside or has_room):
                application = waiting.pop(next(iter(waiting)))
                application.admitted = True
                self._admitted[queue.name][application.name] = application
                self._masters += 1
                return application
        return None

    def displace_next(self, containers: int) -> Application | None:
        """Put an admitted job without a master back, because a job of a more urgent queue waits for its place.  It is
        the youngest such job of the least urgent queue."""
        for queue in self._queues:
            full = self._masters >= _most_masters(queue, containers)
            if full and self._waiting[queue.name] and self._has_room_in_queue(queue):
                application = self._without_master_below(queue)
                if application is not None:
                    application.admitted = False
                    self._masters -= 1
                    del self._admitted[application.queue][application.name]
                    first = {application.name: application}
                    self._waiting[application.queue] = {**first, **self._waiting[application.queue]}
                    return application
        return None

    def _without_master_below(self, queue: QueueSettings) -> Application | None:
        """The youngest job without a master in the least urgent queue below ``queue`` that has one."""
        for other in reversed(self._queues[self._queues.index(queue) + 1 :]):
            for application in reversed(self._admitted[other.name].values()):
                if application.requests.application_master is not None and not application.master:
                    return application
        return None

    def _has_room_in_queue(self, queue: QueueSettings) -> bool:
        return len(self._admitted[queue.name]) < max(1, queue.maximum - 1)

    def next_given_up(self, containers: int) -> Application | None:
        """The job to give up because lost nodes left too few ``containers``: the youngest of the least urgent queue."""
        if containers >= 1 and self._outside:
            return None
        if containers >= 2 and self._masters < containers:
            return None
        jobs = [application for of_queue in self._admitted.values() for application in of_queue.values()]
        if containers < 2:
            jobs += [application for of_queue in self._waiting.values() for application in of_queue.values()]
        return max(jobs, key=lambda application: (self._rank[application.queue], application.order), default=None)


def _most_masters(queue: QueueSettings, containers: int) -> int:
    """One more job of ``queue`` may be admitted while fewer jobs than this, of all queues, are admitted."""
    return max(1, containers - 1 - queue.rank)
