"""Allocation by queues where containers have several sizes: room is taken back on one node.

Theory of operation
-------------------
Containers are given as with one size (``emulator.core.resource_manager.by_queues``), and who may take back from whom is
the policy's word too.  Each request of such a job that fits no node is looked at alone, in the order of the queue: node
and victims are chosen (``emulator.core.resource_manager.room_on_node``), the victims are taken by strict contracts, and
a reservation keeps the room until all of it is there (``emulator.core.resource_manager.reservations``).  A request that
fits what is free, or what others will have given, takes nothing; in the latter case that is reserved for it.

The ResourceManager knows what a mechanism leaves: what a stopped process goes on holding makes no room, so a process is
not stopped for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from emulator.core.decisions import allocate, choose_job, order_jobs, order_tasks
from emulator.core.effects import Effect
from emulator.core.explanation import JobChoice, explain_jobs, explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.mechanisms import needs_no_job
from emulator.core.resource_manager.allocation import Grant, StrictContract
from emulator.core.resource_manager.applications import Application
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.by_queues import ByQueues
from emulator.core.resource_manager.offers import Offer
from emulator.core.resource_manager.reservations import wanted_anywhere
from emulator.core.resource_manager.room_on_node import Taken, choose_room
from emulator.policies.resources import dominant_ppm, fits, minus, plus, total
from emulator.policies.views import JobView, TaskView
from emulator.vocabulary import MASTER_GROUP, Resources, TaskGroup

_Jobs = Sequence[tuple[JobView, ...]]
"""Jobs that may have to give, by queue, the least urgent queue first."""


class _Rooms(NamedTuple):
    """The nodes' room in a run of the Preemptor."""

    free: dict[str, Resources]
    """What nobody has, or will get."""
    coming: dict[str, Resources]
    """What will be free beside that."""


class BySizedQueues(ByQueues):
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        nodes = parts.settings.nodes
        self._whole = total((node.resources for node in nodes), nodes[0].resource_names)
        self._seed = parts.settings.seed
        self._reservations = self._offers.reservations
        self._explains_tasks = needs_no_job(self._scheduler.mechanism.among)
        """Whether tasks that are taken are explained here; with other mechanisms their jobs are asked, and explain."""
        self._choices: list[JobChoice] = []
        self._whys: list[Effect] = []

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return super().changes + self._reservations.made + self._reservations.ended

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys = [*explain_jobs(self._scheduler.job_eviction, self._choices), *self._whys]
        self._choices, self._whys = [], []
        return [*super().explain(), *whys]

    def _choose(self, offer: Offer) -> Sequence[Grant]:
        grants = super()._choose(offer)
        for grant in grants:
            self._reservations.got(grant)
        return grants

    # ---- taking back ----

    def _lack_due_ns(self, now_ns: int) -> int | None:
        # What fits where depends on too much to know when something has changed.
        return now_ns if self._state.queues.pending else None

    def _for_jobs(self, now_ns: int) -> Iterator[StrictContract]:
        self._reservations.settle(now_ns)
        rooms = _Rooms(self._reservations.free(), self._reservations.coming())
        view = self._state.view(now_ns)
        decision = allocate(self._policy, view)
        for name, victims in decision.reclaim:
            others = [victim for victim in victims if victim != name]
            queue = next(queue for queue in view.queues if queue.name == name)
            if others:
                yield from self._from_queues_on_nodes(name, others, queue.maximum - queue.used, rooms, now_ns)
            if name in victims:
                yield from self._within_on_nodes(name, decision.most_reclaims_in_a_run, rooms, now_ns)

    def _from_queues_on_nodes(
        self, queue: str, victims: Sequence[str], room_ppm: int, rooms: _Rooms, now_ns: int
    ) -> Iterator[StrictContract]:
        """For the jobs of ``queue``, which may grow by ``room_ppm`` of the cluster."""
        for each in self._reservations.standing():
            if self._state.applications[each.requester].queue == queue:
                room_ppm -= dominant_ppm(each.request, self._whole)
        for application in tuple(self._state.waiting(queue, self._state.view(now_ns)).jobs):
            for group, count in self._needs(application):
                for _ in range(count):
                    if room_ppm <= 0:
                        return
                    room_ppm -= dominant_ppm(application.request_for(group), self._whole)
                    jobs = [self._givers_of(name, now_ns) for name in victims]
                    if not (yield from self._make_room(application, group, jobs, rooms, now_ns)):
                        break

    def _within_on_nodes(self, queue: str, most: int | None, rooms: _Rooms, now_ns: int) -> Iterator[StrictContract]:
        """Each job takes from the jobs after it; together they get room for at most ``most`` containers in a run."""
        views = tuple(self._state.queues.job_views(queue, now_ns))
        order = order_jobs(self._scheduler.preemption_order, self._state.view(now_ns), views)
        made = self._reservations.made
        for rank, name in enumerate(order):
            application = self._state.applications[name]
            for group, count in self._needs(application):
                for _ in range(count):
                    if most is not None and self._reservations.made - made >= most:
                        return
                    givers = {view.name: view for view in self._givers_of(queue, now_ns)}
                    later = tuple([givers[job] for job in order[rank + 1 :] if job in givers])
                    if not (yield from self._make_room(application, group, [later], rooms, now_ns)):
                        break

    def _givers_of(self, queue: str, now_ns: int) -> tuple[JobView, ...]:
        return tuple([view for view in self._state.queues.job_views(queue, now_ns) if view.reclaimable > 0])

    def _needs(self, application: Application) -> list[tuple[TaskGroup, int]]:
        """Containers that the job wants on any node and that nothing is reserved for, by group; if maps wait, they come
        first."""
        reserved = Counter(each.group for each in self._reservations.standing() if each.requester == application.name)
        groups = (MASTER_GROUP, *application.for_shuffle, *(() if application.maps_wait else application.others))
        return [(group, wanted_anywhere(application, group.name) - reserved[group.name]) for group in groups]

    def _make_room(
        self, application: Application, group: TaskGroup, jobs: _Jobs, rooms: _Rooms, now_ns: int
    ) -> Generator[StrictContract, None, bool]:
        """Take back what makes room for one container, unless there is some; returns whether there is or will be."""
        request = application.request_for(group)
        avoided = application.requests.avoided if group is not MASTER_GROUP else ()
        free = {name: room for name, room in rooms.free.items() if name not in avoided}
        fitting = next((name for name, room in free.items() if fits(request, room)), None)
        if fitting is not None:
            rooms.free[fitting] = minus(rooms.free[fitting], request)
            return True
        ranked = self._ranked(jobs, now_ns)
        spare = {name: plus(room, rooms.coming[name]) for name, room in free.items()}
        taken = choose_room(request, spare, ranked, self._frees, self._whole)
        if taken is None:
            return False
        self._note_why(application, jobs, ranked, taken, now_ns)
        self._reservations.make(application, group, taken.node, now_ns)
        rooms.free[taken.node] = minus(rooms.free[taken.node], request)
        for task in taken.tasks:
            rooms.coming[taken.node] = plus(rooms.coming[taken.node], self._frees(task))
            yield StrictContract(self._state.containers[task.container])
        return True

    def _ranked(self, jobs: _Jobs, now_ns: int) -> list[TaskView]:
        """The tasks of these jobs that may be victims, in the order of eviction."""
        view, scheduler, ranked = self._state.view(now_ns), self._scheduler, list[TaskView]()
        random = keyed_random(self._seed, "rm", "room", self._reservations.made)
        for of_queue in jobs:
            left = of_queue
            while left:
                victim = choose_job(scheduler.job_eviction, view, left, random)
                left = tuple([job for job in left if job.name != victim])
                tasks = {
                    task.container: task
                    for task in self._state.task_views(victim, now_ns)
                    if self._state.may_be_victim(task, now_ns)
                }
                order = order_tasks(scheduler.task_eviction, view, tuple(tasks.values()), random) if tasks else ()
                ranked += [tasks[container] for container in order]
        return ranked

    def _frees(self, task: TaskView) -> Resources:
        return self._reservations.frees(self._state.containers[task.container])

    def _note_why(
        self, application: Application, jobs: _Jobs, ranked: Sequence[TaskView], taken: Taken, now_ns: int
    ) -> None:
        queues = {job.name: of_queue for of_queue in jobs for job in of_queue}
        for task in taken.tasks:
            among = queues[task.job]
            self._choices.append(JobChoice(application.name, among[0].facts.queue, task.job, now_ns, among))
        for victim in dict.fromkeys(task.job for task in taken.tasks) if self._explains_tasks else ():
            going = [task.container for task in taken.tasks if task.job == victim]
            tasks = [task for task in ranked if task.job == victim]
            order = [*going, *(task.container for task in tasks if task.container not in going)]
            self._whys.append(explain_tasks(self._scheduler.task_eviction.name, victim, tasks, order, len(going)))
