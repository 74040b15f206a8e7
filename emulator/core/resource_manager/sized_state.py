"""What the ResourceManager knows of a cluster whose containers have the sizes that their tasks ask for.

Theory of operation
-------------------
A queue's capacity and maximum, and what it holds and wants, are counted in millionths of the cluster, by the dominant
share: of the resource of which it holds most, as YARN's DominantResourceCalculator does.  With one resource this is the
count of containers over their number.

The ApplicationMasters in containers must never be so many that no node has room for a task any more.  A node is blocked
for a task by as many masters as leave too little of it, so fewer masters than block all nodes for the task that is
hardest to place can be anywhere (``places_left``).  With one size this is the number of containers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from emulator.core.resource_manager.applications import Application, NodeState
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.queue_ledger import QueueLedger
from emulator.core.settings import QueueSettings, SchedulerSettings, Settings
from emulator.policies.resources import count_fitting, dominant_ppm, fits, minus, plus, times, total
from emulator.policies.resources import least as least_of
from emulator.policies.views import ClusterView, QueueView
from emulator.vocabulary import MASTER, Resources


def masters_that_block(node: Resources, task: Resources, master: Resources) -> int:
    """The fewest ApplicationMasters on an empty node that leave no room there for the task."""
    if not fits(task, node):
        return 0
    room = minus(node, task)
    counts = [left // need + 1 for left, need in zip(room, master, strict=True) if need]
    return min(counts, default=1 << 30)


class SizedQueueLedger(QueueLedger):
    """Counts what queues hold and want in vectors too."""

    def __init__(self, scheduler: SchedulerSettings, whole: Resources) -> None:
        super().__init__(scheduler)
        self._whole = whole
        nothing: Resources = (0,) * len(whole)
        self._sums: dict[str, tuple[Resources, Resources]] = {
            queue.name: (nothing, nothing) for queue in scheduler.queues
        }
        self._parts: dict[str, tuple[Resources, Resources]] = {}
        self._views: dict[str, QueueView] = {}
        """Those that have not changed since they were made."""
        self._asked: dict[str, tuple[Resources, ...]] = {}
        self._asking: Counter[Resources] = Counter()
        """How many jobs ask for a container of each size; of none: for the room of a suspended task."""

    def add(self, application: Application) -> None:
        """See ``QueueLedger``."""
        application.tasks_hold = application.wants = (0,) * len(self._whole)
        super().add(application)

    def note(self, application: Application) -> None:
        """See ``QueueLedger``."""
        held, wanted = held_by(application), wanted_by(application)
        masters = times(application.held[MASTER], application.master_request)
        application.tasks_hold, application.wants = minus(held, masters), wanted
        self._change(application, (held, wanted))
        self._ask(application, sizes_asked(application))
        super().note(application)

    def forget(self, application: Application) -> None:
        """See ``QueueLedger``."""
        nothing = (0,) * len(self._whole)
        self._change(application, (nothing, nothing))
        self._parts.pop(application.name, None)
        self._ask(application, ())
        self._asked.pop(application.name, None)
        super().forget(application)

    def may_serve(self, room: Resources) -> bool:
        """Whether the container of any job that waits could have this room."""
        return any(fits(size, room) for size in self._asking)

    def asks_for_more(self, application: Application, room: Resources) -> bool:
        """Whether a job waits for containers of which none could have this room."""
        sizes = self._asked[application.name]
        return bool(sizes) and not any(fits(size, room) for size in sizes)

    def _ask(self, application: Application, sizes: tuple[Resources, ...]) -> None:
        before = self._asked.get(application.name, ())
        if sizes != before:
            self._asked[application.name] = sizes
            self._asking.update(sizes)
            self._asking.subtract(before)
            for size in before:
                if not self._asking[size]:
                    del self._asking[size]

    def _change(self, application: Application, parts: tuple[Resources, Resources]) -> None:
        nothing = (0,) * len(self._whole)
        before = self._parts.get(application.name, (nothing, nothing))
        if parts != before:
            self._parts[application.name] = parts
            sums = self._sums[application.queue]
            held, wanted = (plus(minus(s, b), p) for s, b, p in zip(sums, before, parts, strict=True))
            self._sums[application.queue] = held, wanted
            self._views.pop(application.queue, None)

    def queue_views(self) -> tuple[QueueView, ...]:
        """See ``QueueLedger``."""
        views = self._views
        for queue in self._settings:
            if queue.name not in views:
                views[queue.name] = self._queue_view(queue, *self._sums[queue.name])
        return tuple([views[queue.name] for queue in self._settings])

    def _queue_view(self, queue: QueueSettings, held: Resources, wanted: Resources) -> QueueView:
        used, pending = dominant_ppm(held, self._whole), dominant_ppm(wanted, self._whole)
        return QueueView(queue.name, queue.rank, queue.capacity, queue.maximum, used, pending, held, wanted)

    def validate(self, applications: Iterable[Application], view: ClusterView) -> None:
        """See ``QueueLedger``."""
        applications = list(applications)
        super().validate(applications, view)
        for name, sums in self._sums.items():
            mine = [application for application in applications if application.queue == name]
            names = ("",) * len(self._whole)
            found = total(map(held_by, mine), names), total(map(wanted_by, mine), names)
            assert sums == found, name
        assert self._asking == Counter(size for each in applications for size in sizes_asked(each))


def sizes_asked(application: Application) -> tuple[Resources, ...]:
    """The sizes of the containers that a job waits for."""
    requests = application.requests
    sizes = {application.master_request} if requests.application_master is not None else set[Resources]()
    if requests.resumes:
        sizes.add(())
    sizes.update(group.request for group in application.facts.groups if requests.since[group.name])
    return tuple(sorted(sizes))


def held_by(application: Application) -> Resources:
    """What the containers of a job hold together, without those of stopped processes and those taken back by name."""
    held = times(application.held[MASTER], application.master_request)
    for group in application.facts.groups:
        if count := application.held[group.name]:
            held = plus(held, times(count, group.request))
    for container in application.containers.values() if application.taken else ():
        if container.taken:
            held = minus(held, container.request)
    return held


def wanted_by(application: Application) -> Resources:
    """What a job asks for beside what it holds."""
    requests = application.requests
    wanted = times(int(requests.application_master is not None), application.master_request)
    for group in application.facts.groups:
        if count := len(requests.since[group.name]):
            wanted = plus(wanted, times(count, group.request))
    for task in requests.resumes:
        wanted = plus(wanted, application.groups[task.group].request)
    return wanted


class SizedClusterState(ClusterState):
    """See the module's theory of operation."""

    def __init__(self, settings: Settings) -> None:
        self._whole = total((node.resources for node in settings.nodes), settings.nodes[0].resource_names)
        super().__init__(settings)
        self.limit = 1 << 62  # the nodes themselves are the limit
        self.queue_share_of_master = dominant_ppm(settings.master_request, self._whole)

    def _queue_ledger(self, settings: Settings) -> QueueLedger:
        return SizedQueueLedger(settings.scheduler, self._whole)

    def containers_now(self) -> int:
        """See ``ClusterSource``: containers of the usual size."""
        return self.containers_total

    def queue_share_of_gang(self, gang: Application) -> int:
        """See ``ClusterState``: as if the largest were needed."""
        shares = sorted(
            dominant_ppm(gang.request_for(group), self._whole)
            for group in gang.facts.groups
            for _ in range(gang.requests.wanted(group.name))
        )
        return sum(shares[-gang.requests.at_once :]) - shares[-1]

    def places_left(self, candidate: Application | None = None) -> int:
        """See the module's theory of operation."""
        if self._settings.masters_outside:
            return self.limit if self.containers_left else 0
        jobs = [job for job in self.applications.values() if job.admitted or job is candidate]
        places = self._places_by_request(jobs)
        return min(places.values(), default=self.containers_left)

    def hopeless(self) -> Application | None:
        """See ``ClusterState``: of several the youngest, as in ``Admission``."""
        least = 1 if self._settings.masters_outside else 2
        places = self._places_by_request(self.applications.values())
        doomed = set(self.applications) if self._no_master_fits() else self.queues.gangs and self._too_large()
        if not doomed and min(places.values(), default=least) >= least:
            return None
        jobs = reversed(self.applications.values())
        too_large = (
            job
            for job in jobs
            if job.name in doomed or any(places[group.request] < least for group in job.facts.groups)
        )
        return next(too_large, None)

    def _no_master_fits(self) -> bool:
        """Whether no node that is left is large enough for an ApplicationMaster: a job without tasks needs one too."""
        master = self._settings.master_request
        return not self._settings.masters_outside and not any(fits(master, size) for size in self._sizes_left())

    def _too_large(self) -> set[str]:
        """Gangs that the nodes which are left can never hold at once: not even if all tasks were as small as the
        smallest."""
        sizes = self._sizes_left()
        found = set[str]()
        for job in self.applications.values():
            smallest = least_of(group.request for group in job.facts.groups)
            if job.facts.gang and sum(n * count_fitting(smallest, size) for size, n in sizes.items()) < job.facts.gang:
                found.add(job.name)
        return found

    def _sizes_left(self) -> Counter[Resources]:
        return Counter(node.settings.resources for node in self.nodes.values() if node.state is not NodeState.LOST)

    def _places_by_request(self, jobs: Iterable[Application]) -> dict[Resources, int]:
        """For each request of the tasks of ``jobs``, the fewest ApplicationMasters that block all nodes for it."""
        sizes = self._sizes_left()
        master = self._settings.master_request
        return {
            task: sum(count * masters_that_block(size, task, master) for size, count in sizes.items())
            for task in {group.request for job in jobs for group in job.facts.groups}
        }


def cluster_state(settings: Settings) -> ClusterState:
    """What is known of a cluster when nothing has been heard yet."""
    return SizedClusterState(settings) if settings.has_sizes else ClusterState(settings)
