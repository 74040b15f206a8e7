"""What the jobs of each queue hold and want, and their order: updated at each change, so no decision counts it again.

Theory of operation
-------------------
``note`` is called after every change of a job.  It corrects the sums of the job's queue.  If the job selection is a
fixed order (its record's ``sort_key``), it also updates the queue's lists of waiting jobs, which are kept sorted.  With
any other job selection, the policy is asked for the order each time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from emulator.core.application_master.job_progress import remaining_ns
from emulator.core.decisions import order_jobs
from emulator.core.resource_manager.applications import Application
from emulator.core.settings import SchedulerSettings
from emulator.policies.views import ClusterView, JobView, QueueView


class Waiting(NamedTuple):
    """Jobs of a queue that want containers, in the order of the job selection."""

    jobs: Sequence[Application]
    resuming: Sequence[Application]
    """Jobs with suspended reduces."""
    new: Sequence[Application]
    """Jobs that want a container for something new."""


class _Sorted:
    """Jobs sorted by their key."""

    def __init__(self) -> None:
        self.jobs: list[Application] = []
        self._keys: list[tuple[Any, int]] = []

    def keep(self, key: tuple[Any, int], application: Application, wanted: bool) -> None:
        """Insert ``application``, which is not there, if ``wanted``, else remove it."""
        at = bisect_left(self._keys, key)
        if wanted:
            self._keys.insert(at, key)
            self.jobs.insert(at, application)
        else:
            del self._keys[at], self.jobs[at]


@dataclass(slots=True)
class _Queue:
    applications: dict[str, Application] = field(default_factory=dict)
    used: int = 0
    pending: int = 0
    lists: tuple[_Sorted, _Sorted, _Sorted] = field(default_factory=lambda: (_Sorted(), _Sorted(), _Sorted()))
    waiting: Waiting = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = Waiting(*(each.jobs for each in self.lists))


@dataclass(slots=True)
class _Noted:
    """What was last noted of one job."""

    key: tuple[Any, int] | None
    used: int = 0
    pending: int = 0
    wants: tuple[bool, bool, bool] = (False, False, False)
    gives: tuple[int, int, int | None] = (0, 0, None)
    """Tasks that it could give, containers that it wants on any node, and its progress."""


class QueueLedger:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self, scheduler: SchedulerSettings) -> None:
        self.pending = 0
        """Number of containers that all jobs together ask for."""
        self.changes = 0
        """Grows with every change of what a job holds, wants or could give."""
        self.gangs: dict[str, None] = {}
        """Jobs that wait for room for a gang."""
        self.touched: dict[str, None] | None = None
        """Jobs that may have changed since it was last read; None: nobody reads it."""
        self._settings = scheduler.queues
        self._selection = scheduler.job_selection
        self._key = scheduler.job_selection.sort_key
        self._queues: dict[str, _Queue] = {queue.name: _Queue() for queue in scheduler.queues}
        self._noted: dict[str, _Noted] = {}

    def add(self, application: Application) -> None:
        """A job was submitted."""
        view = job_view(application, application.submit_ns)
        key = None if self._key is None else (self._key(view), application.order)
        self._noted[application.name] = _Noted(key)
        self._queues[application.queue].applications[application.name] = application
        self._touch(application)

    def note(self, application: Application) -> None:
        """Record what ``application`` holds and wants now."""
        application.view = None
        self._touch(application)
        requests = application.requests
        pending, resuming = requests.pending, len(requests.resumes)
        if application.facts.gang is not None:
            self._note_gang(application)
        gives = (application.running_victims - application.taken, requests.for_any_node, application.progress_ppm)
        noted = self._noted[application.name]
        if gives != noted.gives:
            noted.gives = gives
            self.changes += 1
        self._note(
            application, application.slots - application.taken, pending, (pending > 0, resuming > 0, pending > resuming)
        )

    def _note_gang(self, application: Application) -> None:
        if application.requests.at_once:
            self.gangs[application.name] = None
        else:
            self.gangs.pop(application.name, None)

    def forget(self, application: Application) -> None:
        """A job has ended."""
        self.gangs.pop(application.name, None)
        self._touch(application)
        self._note(application, 0, 0, (False, False, False))
        del self._noted[application.name]
        del self._queues[application.queue].applications[application.name]

    def _touch(self, application: Application) -> None:
        if self.touched is not None:
            self.touched[application.name] = None

    def _note(self, application: Application, used: int, pending: int, wants: tuple[bool, bool, bool]) -> None:
        queue, noted = self._queues[application.queue], self._noted[application.name]
        if (used, pending, wants) == (noted.used, noted.pending, noted.wants):
            return
        self.changes += 1
        queue.used += used - noted.used
        queue.pending += pending - noted.pending
        self.pending += pending - noted.pending
        noted.used, noted.pending = used, pending
        if noted.key is not None and wants != noted.wants:
            for jobs, wanted, before in zip(queue.lists, wants, noted.wants, strict=True):
                if wanted != before:
                    jobs.keep(noted.key, application, wanted)
            noted.wants = wants

    def pending_in(self, queue: str) -> int:
        """Number of containers that the jobs of a queue ask for."""
        return self._queues[queue].pending

    def queue_views(self) -> tuple[QueueView, ...]:
        """The queues as policies see them."""
        queues = self._queues
        return tuple(
            [
                QueueView(q.name, q.rank, q.capacity, q.maximum, queues[q.name].used, queues[q.name].pending)
                for q in self._settings
            ]
        )

    def job_views(self, queue: str, now_ns: int) -> Iterator[JobView]:
        """The jobs of a queue as policies see them, in the order of submission."""
        return (job_view(application, now_ns) for application in self._queues[queue].applications.values())

    def waiting(self, queue: str, view: ClusterView) -> tuple[Waiting, int]:
        """The jobs of ``queue`` that want containers, and how many the job selection leaves out.  Raises PolicyError.

        The returned lists may change with the next ``note``.
        """
        if self._key is not None:
            return self._queues[queue].waiting, 0
        views = tuple(job for job in self.job_views(queue, view.now_ns) if job.pending)
        order = order_jobs(self._selection, view, views)
        jobs = [self._queues[queue].applications[name] for name in order]
        resuming = [job for job in jobs if job.requests.resumes]
        new = [job for job in jobs if job.requests.pending > len(job.requests.resumes)]
        return Waiting(jobs, resuming, new), len(views) - len(order)

    def validate(self, applications: Iterable[Application], view: ClusterView) -> None:
        """Raise AssertionError if a change was not noted."""
        found: dict[str, tuple[int, int]] = dict.fromkeys(self._queues, (0, 0))
        for application in applications:
            used, pending = found[application.queue]
            held = application.slots - application.taken
            found[application.queue] = used + held, pending + application.requests.pending
            known, application.view = application.view, None
            assert known is None or known == job_view(application, view.now_ns), application.name
        assert found == {name: (queue.used, queue.pending) for name, queue in self._queues.items()}
        assert self.pending == sum(queue.pending for queue in self._queues.values())
        for name, queue in self._queues.items() if self._key is not None else ():
            views = tuple(job for job in self.job_views(name, view.now_ns) if job.pending)
            jobs = [queue.applications[job] for job in order_jobs(self._selection, view, views)]
            assert jobs == list(queue.waiting.jobs), name
            assert [job for job in jobs if job.requests.resumes] == list(queue.waiting.resuming), name
            new = [job for job in jobs if job.requests.pending > len(job.requests.resumes)]
            assert new == list(queue.waiting.new), name


def job_view(application: Application, now_ns: int) -> JobView:
    """A job as policies see it.  Cached until the next ``QueueLedger.note``, unless it changes with time."""
    if application.view is not None:
        return application.view
    progress, heard_ns = application.progress_ppm, application.heard_ns
    view = JobView(
        facts=application.facts,
        order=application.order,
        submit_ns=application.submit_ns,
        containers=application.slots - application.taken,
        reclaimable=application.reclaimable(now_ns),
        pending=application.requests.pending,
        progress_ppm=progress,
        remaining_ns=None if progress is None or heard_ns is None else remaining_ns(progress, now_ns - heard_ns),
        members=0 if application.facts.gang is None else application.members,
        at_once=application.requests.at_once,
        tasks_hold=application.tasks_hold,
        wanted=application.wants,
    )
    if progress is None and not application.facts.minimum_runtime_ns:
        application.view = view
    return view
