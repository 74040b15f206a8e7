"""Which jobs may have an ApplicationMaster: never so many that no container is left for a task.

ApplicationMasters hold containers and are never preempted.  So a burst of jobs could fill a cluster, or a queue, with
masters that wait for each other for ever.  Hadoop's capacity scheduler lets jobs wait beyond a share of the queue
(``maximum-am-resource-percent``).  Here a job waits only if its master would take the last container.

A gang needs more than one container for tasks.  So the masters of all admitted jobs leave as many as the largest gang
of an admitted job needs at once, and no less urgent job is admitted before a gang that waits for such room.

An admitted job may still wait for its master's container.  If it belongs to a less urgent queue, it makes room for a
job of a more urgent one; otherwise a backlog of research jobs would keep production jobs out.  Where masters take no
container, or the scheduler decides itself whose may start (YARN with ``maximum-am-resource-percent``), all jobs are
admitted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from emulator.core.resource_manager.applications import Application
from emulator.core.settings import QueueSettings

Containers = Callable[[Application], int]
"""Containers of the cluster; where they have several sizes, as many as count if the job is admitted."""


class Admission:
    """The submitted jobs that have not ended, by queue: admitted jobs and waiting jobs."""

    def __init__(
        self, queues: Iterable[QueueSettings], unmanaged_masters: bool = False, is_schedulers: bool = False
    ) -> None:
        """``is_schedulers``: whether the scheduler decides itself whose master may start."""
        self._admits_all = unmanaged_masters or is_schedulers
        self._unmanaged = unmanaged_masters
        self._queues = sorted(queues, key=lambda queue: queue.rank)
        self._rank = {queue.name: queue.rank for queue in self._queues}
        self._admitted: dict[str, dict[str, Application]] = {queue.name: {} for queue in self._queues}
        self._waiting: dict[str, dict[str, Application]] = {queue.name: {} for queue in self._queues}
        """In the order of submission."""
        self._masters = 0
        self._shares = dict.fromkeys(self._admitted, 0)
        """What the masters of admitted jobs take of their queue's maximum."""
        self._gangs: dict[str, int] = {}
        """Sizes of the gangs of admitted jobs."""
        self._largest = 1
        """Size of the largest gang ever submitted."""

    def submit(self, application: Application) -> None:
        """A job has been submitted."""
        self._waiting[application.queue][application.name] = application
        self._largest = max(self._largest, application.facts.gang or 1)

    def end(self, application: Application) -> None:
        """A job has ended."""
        if application.admitted:
            self._masters -= 1
            self._gangs.pop(application.name, None)
            self._shares[application.queue] -= application.share_of_master
            del self._admitted[application.queue][application.name]
        else:
            del self._waiting[application.queue][application.name]

    def admit_next(self, containers: Containers) -> Application | None:
        """Admit the next job that may request its ApplicationMaster: the oldest job of the most urgent queue that has
        room.  For each more urgent queue, one place is kept free."""
        least = 1 << 62
        for queue in self._queues:
            application = next(iter(self._waiting[queue.name].values()), None)
            if application is None:
                continue
            in_queue = self._admits_all or self._fits_queue(queue, application)
            # what would block a more urgent job is not given to others: it would only be displaced again
            least = min(least, containers(application)) if in_queue else least
            if in_queue and (self._admits_all or self._masters < self._max_masters(queue, least, application)):
                del self._waiting[queue.name][application.name]
                application.admitted = True
                self._admitted[queue.name][application.name] = application
                self._shares[queue.name] += application.share_of_master
                self._masters += 1
                if application.facts.gang is not None:
                    self._gangs[application.name] = application.facts.gang
                return application
            if in_queue and application.facts.gang is not None:
                return None
        return None

    def displace_next(self, containers: Containers) -> Application | None:
        """Put an admitted job without a master back, because a job of a more urgent queue waits for its place.  It is
        the youngest such job of the least urgent queue."""
        for queue in self._queues:
            waiting = next(iter(self._waiting[queue.name].values()), None)
            if waiting is None or not self._fits_queue(queue, waiting):
                continue
            if self._masters >= self._max_masters(queue, containers(waiting), waiting):
                application = self._without_master_below(queue)
                if application is not None:
                    application.admitted = False
                    self._masters -= 1
                    self._gangs.pop(application.name, None)
                    self._shares[application.queue] -= application.share_of_master
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

    def _fits_queue(self, queue: QueueSettings, application: Application) -> bool:
        admitted = self._admitted[queue.name]
        left_for_tasks = self._free_capacity(application, admitted) * application.share_of_master
        return not admitted or self._shares[queue.name] + left_for_tasks < queue.maximum

    def _max_masters(self, queue: QueueSettings, containers: int, application: Application) -> int:
        """``application`` of ``queue`` may be admitted while fewer jobs than this, of all queues, are admitted."""
        return max(1, containers - self._free_capacity(application, self._gangs) - queue.rank)

    def _free_capacity(self, application: Application, admitted: Iterable[str]) -> int:
        """Containers that masters must leave for tasks, with the gangs of ``admitted`` jobs."""
        own = application.facts.gang or 1
        if not self._gangs:
            return own
        return max(own, *(self._gangs.get(name, 1) for name in admitted), 1)

    def next_to_fail(self, containers: int) -> Application | None:
        """The job to give up because lost nodes left too few ``containers``: the youngest of the least urgent queue.
        The first to go are gangs that are larger than what is left."""
        own_master = 0 if self._unmanaged else 1
        jobs: list[Application] = []
        if containers < self._largest + own_master:
            jobs = [job for job in self._all() if containers < (job.facts.gang or 1) + own_master]
        if not jobs:
            if self._admits_all or self._masters + max(self._gangs.values(), default=1) <= containers:
                return None
            jobs = [application for of_queue in self._admitted.values() for application in of_queue.values()]
        return max(jobs, key=lambda application: (self._rank[application.queue], application.order), default=None)

    def _all(self) -> Iterator[Application]:
        for of_state in (self._admitted, self._waiting):
            for of_queue in of_state.values():
                yield from of_queue.values()
