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
from emulator.core.resource_manager.attention import Attention
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

    def __init__(self, scheduler: SchedulerSettings, whole: Resources, attention: Attention) -> None:
        super().__init__(scheduler)
        self._whole = whole
        self._attention = attention
        self._nothing = nothing = (0,) * len(whole)
        self._sums: dict[str, tuple[Resources, Resources]] = {
            queue.name: (nothing, nothing) for queue in scheduler.queues
        }
        self._parts: dict[str, tuple[Resources, Resources]] = {}
        self._views: dict[str, QueueView] = {}
        """Those that have not changed since they were made."""
        self._asked: dict[str, set[Resources]] = {}
        self._asking: Counter[Resources] = Counter()
        """How many jobs ask for a container of each size; of none: for the room of a stopped process."""

    def add(self, application: Application) -> None:
        """See ``QueueLedger``."""
        application.tasks_hold = application.wants = self._nothing
        super().add(application)

    def note(self, application: Application) -> None:
        """See ``QueueLedger``."""
        tasks_hold, wanted, sizes = self._of_tasks(application)
        held = tasks_hold
        if masters := application.held[MASTER]:
            held = plus(held, times(masters, application.master_request))
        application.tasks_hold, application.wants = tasks_hold, wanted
        self._change(application, (held, wanted))
        self._ask(application, sizes)
        gangs_wait = bool(self.gangs)
        super().note(application)
        if self.gangs and not gangs_wait:
            self._attention.ask_smaller()  # it may start with a heartbeat of any node

    def forget(self, application: Application) -> None:
        """See ``QueueLedger``."""
        self._change(application, (self._nothing, self._nothing))
        self._parts.pop(application.name, None)
        self._ask(application, set())
        self._asked.pop(application.name, None)
        super().forget(application)

    def may_serve(self, room: Resources) -> bool:
        """Whether the container of any job that waits could have this room."""
        return any(fits(size, room) for size in self._asking)

    def asks_for_more(self, application: Application, room: Resources) -> bool:
        """Whether a job waits for containers of which none could have this room."""
        sizes = self._asked[application.name]
        return bool(sizes) and not any(fits(size, room) for size in sizes)

    def _of_tasks(self, application: Application) -> tuple[Resources, Resources, set[Resources]]:
        """What a job's tasks hold, without stopped processes and what was taken back by name; what the job asks for
        beside that; and the sizes of the containers that it waits for."""
        requests, held, wanted, sizes = application.requests, self._nothing, self._nothing, set[Resources]()
        if requests.application_master is not None:
            wanted = application.master_request
            sizes.add(wanted)
        suspended: dict[str, int] = {}
        for task, (resume, _) in requests.resumes.items():
            suspended[task.group] = suspended.get(task.group, 0) + 1
            sizes.add(application.groups[task.group].request if resume.container is None else ())
        for group in application.facts.groups:
            name, request = group.name, group.request
            if count := application.held[name]:
                held = plus(held, times(count, request))
            if waiting := len(requests.since[name]):
                sizes.add(request)
            if count := waiting + suspended.get(name, 0):
                wanted = plus(wanted, times(count, request))
        for container in application.containers.values() if application.taken else ():
            if container.taken:
                held = minus(held, container.request)
        return held, wanted, sizes

    def _ask(self, application: Application, sizes: set[Resources]) -> None:
        before = self._asked.get(application.name, frozenset())
        if sizes != before:
            self._asked[application.name] = sizes
            if any(size not in self._asking and not self.may_serve(size) for size in sizes):
                self._attention.ask_smaller()
            self._asking.update(sizes)
            self._asking.subtract(before)
            for size in before:
                if not self._asking[size]:
                    del self._asking[size]

    def _change(self, application: Application, parts: tuple[Resources, Resources]) -> None:
        before = self._parts.get(application.name, (self._nothing, self._nothing))
        if parts != before:
            self._parts[application.name] = parts
            held, wanted = self._sums[application.queue]
            held = held if parts[0] == before[0] else plus(minus(held, before[0]), parts[0])
            wanted = wanted if parts[1] == before[1] else plus(minus(wanted, before[1]), parts[1])
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
        sizes, names = Counter[Resources](), ("",) * len(self._whole)
        for name, sums in self._sums.items():
            found = [self._of_tasks(application) for application in applications if application.queue == name]
            masters = (times(each.held[MASTER], each.master_request) for each in applications if each.queue == name)
            held = plus(total((one for one, _, _ in found), names), total(masters, names))
            assert sums == (held, total((wanted for _, wanted, _ in found), names)), name
            sizes.update(size for _, _, asked in found for size in asked)
        assert self._asking == sizes


class SizedClusterState(ClusterState):
    """See the module's theory of operation."""

    def __init__(self, settings: Settings) -> None:
        self._whole = total((node.resources for node in settings.nodes), settings.nodes[0].resource_names)
        super().__init__(settings)
        self.limit = 1 << 62  # the nodes themselves are the limit
        self.queue_share_of_master = dominant_ppm(settings.master_request, self._whole)

    def _queue_ledger(self, settings: Settings) -> QueueLedger:
        return SizedQueueLedger(settings.scheduler, self._whole, self.attention)

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
