"""What the jobs of each queue hold and want, and their order: updated at each change, so no decision counts it again.

Theory of operation
-------------------
``note`` is called after every change of a job.  It corrects the sums of the job's queue.  If the job selection is a
fixed order (its record's ``sort_key``), it also updates the queue's lists of waiting jobs, which are kept sorted.  With
any other job selection, the policy is asked for the order each time.

A queue's capacity and maximum, and what it holds and wants, are counted in containers.  Where these have several sizes,
they are counted in vectors too, and for queues in millionths of the cluster, by the dominant share: of the resource of
which it holds most, as YARN's DominantResourceCalculator does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from emulator.core.application_master.job_progress import remaining_ns
from emulator.core.decisions import order_jobs
from emulator.core.resource_manager.applications import Application
from emulator.core.resource_manager.awaited_heartbeats import AwaitedHeartbeats
from emulator.core.settings import QueueSettings, SchedulerSettings
from emulator.policies.resources import dominant_ppm, fits, minus, plus, times, total
from emulator.policies.views import ClusterView, JobView, QueueView
from emulator.vocabulary import MASTER, Resources


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

    def after(self, key: tuple[Any, int]) -> Sequence[Application]:
        """Those with a higher key."""
        return self.jobs[bisect_right(self._keys, key) :]


@dataclass(slots=True)
class _Queue:
    applications: dict[str, Application] = field(default_factory=dict)
    used: int = 0
    pending: int = 0
    givers: _Sorted = field(default_factory=_Sorted)
    """Jobs with a task that can be a victim."""
    lists: tuple[_Sorted, _Sorted, _Sorted, _Sorted] = field(init=False)
    waiting: Waiting = field(init=False)

    def __post_init__(self) -> None:
        waiting = _Sorted(), _Sorted(), _Sorted()
        self.waiting, self.lists = Waiting(*(each.jobs for each in waiting)), (*waiting, self.givers)


_Listed = tuple[bool, bool, bool, bool]


@dataclass(slots=True)
class _Recorded:
    """What was last noted of one job."""

    key: tuple[Any, int] | None
    used: int = 0
    pending: int = 0
    is_listed: _Listed = (False, False, False, False)
    """Whether it is on each of the ``lists`` of its queue."""
    gives: tuple[int, int, int | None] = (0, 0, None)
    """Tasks that it could give, containers that it wants on any node, and its progress."""


class QueueLedger:
    """What the jobs of each queue hold and want; see the module's theory of operation."""

    def __init__(self, scheduler: SchedulerSettings, whole: Resources, attention: AwaitedHeartbeats) -> None:
        """``whole``: what the cluster has, if containers have several sizes."""
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
        self._recorded: dict[str, _Recorded] = {}
        self._whole = whole
        self._attention = attention
        self._nothing = nothing = (0,) * len(whole)
        self._sums: dict[str, tuple[Resources, Resources]] = {
            queue.name: (nothing, nothing) for queue in scheduler.queues
        }
        """What the jobs of each queue hold and want, as vectors."""
        self._parts: dict[str, tuple[Resources, Resources]] = {}
        """The same of each job."""
        self._views: dict[str, QueueView] = {}
        """Those that have not changed since they were made."""
        self._asking: Counter[Resources] = Counter()
        """How many jobs ask for a container of each size; of none: for the room of a stopped process."""
        self._fitting: dict[Resources, set[Resources]] = {}
        """Those of these sizes that fit, by what is free of a node; forgotten when there is another size."""

    def add(self, application: Application) -> None:
        """A job was submitted."""
        application.tasks_hold = application.requested = self._nothing
        view = job_view(application, application.submit_ns)
        key = None if self._key is None else (self._key(view), application.order)
        self._recorded[application.name] = _Recorded(key)
        self._queues[application.queue].applications[application.name] = application
        self._mark_changed(application)

    def update(self, application: Application) -> None:
        """Record what ``application`` holds and wants now."""
        application.view = None
        if self._whole:
            self._record_sizes(application)
        self._mark_changed(application)
        requests = application.requests
        pending, resuming = requests.pending, len(requests.resumes)
        if application.facts.gang is not None:
            self._record_gang(application)
        victims = len(application.victims) - application.reclaimed
        gives = (victims, requests.for_any_node, application.progress_ppm)
        noted = self._recorded[application.name]
        if gives != noted.gives:
            noted.gives = gives
            self.changes += 1
        self._record(
            application,
            application.slots - application.reclaimed,
            pending,
            (pending > 0, resuming > 0, pending > resuming, victims > 0),
        )

    def _record_gang(self, application: Application) -> None:
        if application.requests.at_once:
            if self._whole and not self.gangs:
                self._attention.ask_smaller()  # it may start with a heartbeat of any node
            self.gangs[application.name] = None
        else:
            self.gangs.pop(application.name, None)

    def forget(self, application: Application) -> None:
        """A job has ended."""
        if self._whole:
            self._change(application, (self._nothing, self._nothing))
            self._parts.pop(application.name, None)
            self._ask(application, set())
        self.gangs.pop(application.name, None)
        self._mark_changed(application)
        self._record(application, 0, 0, (False, False, False, False))
        del self._recorded[application.name]
        del self._queues[application.queue].applications[application.name]

    def _mark_changed(self, application: Application) -> None:
        if self.touched is not None:
            self.touched[application.name] = None

    def _record(self, application: Application, used: int, pending: int, is_listed: _Listed) -> None:
        queue, noted = self._queues[application.queue], self._recorded[application.name]
        if (used, pending, is_listed) == (noted.used, noted.pending, noted.is_listed):
            return
        self.changes += 1
        self._views.pop(application.queue, None)
        queue.used += used - noted.used
        queue.pending += pending - noted.pending
        self.pending += pending - noted.pending
        noted.used, noted.pending = used, pending
        if noted.key is not None and is_listed != noted.is_listed:
            for jobs, wanted, before in zip(queue.lists, is_listed, noted.is_listed, strict=True):
                if wanted != before:
                    jobs.keep(noted.key, application, wanted)
            noted.is_listed = is_listed

    def pending_in(self, queue: str) -> int:
        """Number of containers that the jobs of a queue ask for."""
        return self._queues[queue].pending

    def queue_views(self) -> tuple[QueueView, ...]:
        """The queues as policies see them."""
        views = self._views
        for queue in self._settings:
            if queue.name not in views:
                views[queue.name] = self._queue_view(queue)
        return tuple([views[queue.name] for queue in self._settings])

    def _queue_view(self, queue: QueueSettings) -> QueueView:
        own, (held, wanted) = self._queues[queue.name], self._sums[queue.name]
        used, pending = own.used, own.pending
        if self._whole:
            used, pending = dominant_ppm(held, self._whole), dominant_ppm(wanted, self._whole)
        return QueueView(queue.name, queue.rank, queue.capacity, queue.maximum, used, pending, held, wanted)

    def job_views(self, queue: str, now_ns: int) -> list[JobView]:
        """The jobs of a queue as policies see them, in the order of submission."""
        return [job.view or job_view(job, now_ns) for job in self._queues[queue].applications.values()]

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

    def givers_after(self, application: Application) -> Sequence[Application]:
        """The jobs of its queue after it with a task that can be a victim; only if the job selection is a fixed
        order."""
        key = self._recorded[application.name].key
        assert key is not None, application.queue
        return self._queues[application.queue].givers.after(key)

    def validate(self, applications: Iterable[Application], view: ClusterView) -> None:
        """Raise AssertionError if a change was not noted."""
        found: dict[str, tuple[int, int]] = dict.fromkeys(self._queues, (0, 0))
        for application in applications:
            used, pending = found[application.queue]
            held = application.slots - application.reclaimed
            found[application.queue] = used + held, pending + application.requests.pending
            if self._whole:
                assert self._parts.get(application.name, (self._nothing, self._nothing)) == self._all_of(application)
            known, application.view = application.view, None
            assert known is None or known == job_view(application, view.now_ns), application.name
        for name, sums in self._sums.items() if self._whole else ():
            of_queue = [parts for job, parts in self._parts.items() if job in self._queues[name].applications]
            assert sums == tuple(total(vectors, self._whole) for vectors in zip(*of_queue, strict=True)) or not of_queue
        sizes = Counter(size for application in applications for size in application.sizes)
        assert self._asking == sizes
        assert found == {name: (queue.used, queue.pending) for name, queue in self._queues.items()}
        assert self.pending == sum(queue.pending for queue in self._queues.values())
        for name, queue in self._queues.items() if self._key is not None else ():
            views = tuple(job for job in self.job_views(name, view.now_ns) if job.pending)
            jobs = [queue.applications[job] for job in order_jobs(self._selection, view, views)]
            assert jobs == list(queue.waiting.jobs), name
            assert [job for job in jobs if job.requests.resumes] == list(queue.waiting.resuming), name
            new = [job for job in jobs if job.requests.pending > len(job.requests.resumes)]
            assert new == list(queue.waiting.new), name
            giving = {job.name for job in queue.applications.values() if len(job.victims) > job.reclaimed}
            assert giving == {job.name for job in queue.givers.jobs}, name

    # ---- several sizes ----

    def _record_sizes(self, application: Application) -> None:
        tasks_hold, wanted, sizes = self._of_tasks(application)
        held = tasks_hold
        if masters := application.held[MASTER]:
            held = plus(held, times(masters, application.master_request))
        application.tasks_hold, application.requested = tasks_hold, wanted
        application.requested_anywhere = application.count_requested()
        self._change(application, (held, wanted))
        self._ask(application, sizes)

    def fitting_in(self, free: Resources) -> set[Resources]:
        """The sizes that jobs ask for of which one container could have this room."""
        if free not in self._fitting:
            self._fitting[free] = {size for size in self._asking if fits(size, free)}
        return self._fitting[free]

    def _of_tasks(self, application: Application) -> tuple[Resources, Resources, set[Resources]]:
        """What a job's tasks hold, without stopped processes and what was reclaimed by name; what the job asks for
        beside that; and the sizes of the containers that it may get now: while maps wait, only theirs."""
        requests, held, wanted, sizes = application.requests, self._nothing, self._nothing, set[Resources]()
        now = application.for_shuffle if application.maps_wait else application.facts.groups
        if requests.application_master is not None:
            wanted = application.master_request
            sizes.add(wanted)
        suspended: dict[str, int] = {}
        for task, (resume, _) in requests.resumes.items():
            suspended[task.group] = suspended.get(task.group, 0) + 1
            if application.groups[task.group] in now:
                sizes.add(application.groups[task.group].request if resume.container is None else ())
        for group in application.facts.groups:
            name, request = group.name, group.request
            if count := application.held[name]:
                held = plus(held, times(count, request))
            if (waiting := len(requests.since[name])) and group in now:
                sizes.add(request)
            if count := waiting + suspended.get(name, 0):
                wanted = plus(wanted, times(count, request))
        for container in application.containers.values() if application.reclaimed else ():
            if container.is_reclaimed:
                held = minus(held, container.request)
        return held, wanted, sizes

    def _ask(self, application: Application, sizes: set[Resources]) -> None:
        before = application.sizes
        if sizes != before:
            application.sizes = sizes
            new = [size for size in sizes if size not in self._asking]
            if not all(map(self.fitting_in, new)):
                self._attention.ask_smaller()
            self._asking.update(sizes)
            self._asking.subtract(before)
            gone = [size for size in before if not self._asking[size]]
            for size in gone:
                del self._asking[size]
            if new or gone:
                self._fitting.clear()

    def _change(self, application: Application, parts: tuple[Resources, Resources]) -> None:
        before = self._parts.get(application.name, (self._nothing, self._nothing))
        if parts != before:
            self._parts[application.name] = parts
            held, wanted = self._sums[application.queue]
            held = held if parts[0] == before[0] else plus(minus(held, before[0]), parts[0])
            wanted = wanted if parts[1] == before[1] else plus(minus(wanted, before[1]), parts[1])
            self._sums[application.queue] = held, wanted
            self._views.pop(application.queue, None)

    def _all_of(self, application: Application) -> tuple[Resources, Resources]:
        held, wanted, sizes = self._of_tasks(application)
        assert application.sizes == sizes, application.name
        assert application.requested_anywhere == application.count_requested(), application.name
        return plus(held, times(application.held[MASTER], application.master_request)), wanted


def job_view(application: Application, now_ns: int) -> JobView:
    """A job as policies see it.  Cached until the next ``QueueLedger.note``, unless it changes with time."""
    if application.view is not None:
        return application.view
    progress, heard_ns = application.progress_ppm, application.last_heartbeat_ns
    view = JobView(
        facts=application.facts,
        order=application.order,
        submit_ns=application.submit_ns,
        containers=application.slots - application.reclaimed,
        reclaimable=application.reclaimable(now_ns),
        pending=application.requests.pending,
        progress_ppm=progress,
        remaining_ns=None if progress is None or heard_ns is None else remaining_ns(progress, now_ns - heard_ns),
        members=0 if application.facts.gang is None else application.members,
        at_once=application.requests.at_once,
        tasks_hold=application.tasks_hold,
        wanted=application.requested,
    )
    if progress is None and not application.facts.minimum_runtime_ns:
        application.view = view
    return view
