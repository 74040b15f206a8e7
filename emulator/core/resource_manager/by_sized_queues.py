"""Allocation by queues where containers have several sizes: room is reclaimed on one node.

Theory of operation
-------------------
Containers are given as with one size (``emulator.core.resource_manager.by_queues``), and who may reclaim from whom is
the policy's word too.  Each request of such a job that fits no node is looked at alone, in the order of the queue: node
and jobs are chosen (``emulator.core.resource_manager.victims``), each of these jobs is asked by a contract for as much
there as its tasks can make free of what is then still missing, and a reservation keeps the room until all of it is
there (``emulator.core.resource_manager.reservations``).  A request that fits what is free, or what others will have
given, takes nothing; in the latter case that is reserved for it.  For a gang this is done for all that it needs at
once, and only if all of it then has room.

The ApplicationMaster chooses the tasks, in its own order.  Until they have left, those that are enough count as gone
here, whichever they are.  What decides more than room is named by strict contracts: where tasks are ranked across jobs,
and the tasks of a gang, of which too few may be left.

A node whose room is too small for all that is waited for is not offered to one job after another.

A run that finds nothing to take or to forget would find nothing again until a message changes the ResourceManager, a
reservation has stood too long, or a task has run for its job's minimum.  So it is not run until then, unless a policy
may decide otherwise as time passes.

The ResourceManager knows what a mechanism leaves: what a stopped process goes on holding makes no room, so a process is
not stopped for it.

Where queues are of YARN's CapacityScheduler, their requests reserve the room that they are too large for.  A request
may be too large for what is free of a node, although it would fit the empty node.  Nodes that smaller requests share
would never have room for it.  So, when a node is offered to a queue that has no request which fits, the first that
would fit beside the ApplicationMasters and the stopped processes there, which both stay, reserves the room: what
becomes free of the node is kept for it (``emulator.core.resource_manager.reservations``).  As in YARN, there is one
reservation on a node, a job has no more of them than it has requests, and it gives the newest up when it gets a
container elsewhere.  Where a gang holds the node, nothing stays reserved: the two would wait for each other.  Unlike in
YARN, others may use what is free of the node beside it, and requests of saved tasks reserve nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial, reduce
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.decisions import allocate, choose_job, order_jobs, order_tasks
from emulator.core.effects import Effect
from emulator.core.explanation import JobChoice, explain_jobs, explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.mechanisms import needs_no_job
from emulator.core.resource_manager.allocation import Contract, Grant, StrictContract
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.by_queues import ByQueues
from emulator.core.resource_manager.offers import Components, Offer
from emulator.core.resource_manager.reservations import requested_anywhere
from emulator.core.resource_manager.victims import NodeVictims, choose_node, net_of
from emulator.policies.policy import PacedAllocation, Reads
from emulator.policies.resources import common, dominant_ppm, fits, minus, plus, total, written
from emulator.policies.views import JobView, QueueView, TaskView
from emulator.vocabulary import MASTER_GROUP, Resources, TaskGroup

_Jobs = Sequence[tuple[JobView, ...]]
"""Jobs that may have to give, by queue, the least urgent queue first."""


class _Rooms(NamedTuple):
    """The nodes' room in a run of the Preemptor."""

    free: dict[str, Resources]
    """What nobody has, or will get."""
    coming: dict[str, Resources]
    """What will be free beside that, of the nodes where that is something."""


class BySizedQueues(ByQueues):
    """An ``Allocation`` by queues for resource vectors (see the module's theory of operation)."""

    def __init__(self, parts: Components) -> None:
        super().__init__(parts)
        nodes = parts.settings.nodes
        self._names = nodes[0].resource_names
        self._whole = total((node.resources for node in nodes), self._names)
        self._seed = parts.settings.seed
        self._reservations = self._offers.reservations
        self._reserves = isinstance(self._policy, PacedAllocation)
        """Whether requests reserve room."""
        self._looks_at_size = parts.settings.scheduler.fit.takes_the_offer
        """Whether a job that is offered a node gets room there or none."""
        self._may_rest = self._asks_again_on_change and Reads.FORECAST not in self._scheduler.task_eviction.reads
        """Whether no policy looks at the time; the users' own may read anything."""
        self._no_op_state: int | None = None
        """State of the ResourceManager in which there was nothing to reclaim or to forget."""
        self._explains_tasks = needs_no_job(self._scheduler.mechanism.among)
        """Whether tasks that are named are explained here; with other mechanisms their jobs are asked, and explain."""
        self._choices: list[JobChoice] = []
        self._reasons: list[Effect] = []
        self._ranks: dict[tuple[tuple[str, ...], ...], list[TaskView]] = {}
        """Tasks in the order of eviction, by the jobs that they are of, until something is taken."""
        self._impossible: dict[tuple[tuple[str, ...], ...], list[Resources]] = {}
        """Requests for which these jobs' tasks and what is free make no room, until something is taken."""

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return super().changes + self._reservations.made + self._reservations.ended + self._preemptor.changes

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys = [*explain_jobs(self._scheduler.job_eviction, self._choices), *self._reasons]
        self._choices, self._reasons = [], []
        return [*super().explain(), *whys]

    def _choose(self, offer: Offer) -> Sequence[Grant]:
        if self._is_too_small(offer.node):
            self._state.awaited.insufficient(offer.node.address)
            offer.is_for_others = True
            return ()
        grants = super()._choose(offer)
        for grant in grants:
            self._reservations.granted(grant)
        return grants

    def _is_too_small(self, node: Node) -> bool:
        """Whether no job that waits can have room on the node, which then need not be asked one by one."""
        queues = self._state.queues
        return self._looks_at_size and not (self._reserves or queues.gangs or queues.may_serve(node.free))

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Sequence[Grant]:
        grants = super()._first_of(queue, resumes_first, offer)
        if not self._reserves:
            return grants
        if not grants and offer.hold is None:
            self._reserve(queue, offer)
        elif offer.is_held and any(each.node == offer.node.name for each in self._reservations.standing()):
            self._reservations.retain(lambda each: each.node != offer.node.name)
            offer.is_for_others = True
        return grants

    def _new_of(self, application: Application, offer: Offer, resumes: bool = False) -> Grant | None:
        if self._asks_for_more(application, offer):  # most often; known without asking group by group
            offer.is_for_others = True
            return None
        return super()._new_of(application, offer, resumes)

    def _asks_for_more(self, application: Application, offer: Offer) -> bool:
        """Whether the node is too small for all that the job waits for."""
        queues, node = self._state.queues, offer.node
        whole = application.requests.at_once or application.must_start_whole
        return self._looks_at_size and not offer.is_held and not whole and queues.asks_for_more(application, node.free)

    # ---- reserving room ----

    def _reserve(self, queue: str, offer: Offer) -> None:
        """Keep the node's room for the queue's first request that could have it, unless it is kept already."""
        node, standing = offer.node, list(self._reservations.standing())
        possible = self._can_become_free(node)
        here = next((each for each in standing if each.node == node.name), None)
        if here is not None and fits(here.request, possible):
            return
        if here is not None:  # an ApplicationMaster has come since, or a process was stopped
            self._reservations.retain(lambda each: each is not here)
            offer.is_for_others = True
        reserved = Counter((each.requester, each.group) for each in standing if each is not here)
        for application in self._state.waiting(queue, offer.view).jobs:
            for group, count in self._new_one_by_one(application):
                avoids = group is not MASTER_GROUP and node.name in application.requests.avoided
                short = count > reserved[application.name, group.name]
                if short and not avoids and fits(application.request_for(group), possible):
                    # One that has ended would stand beside the new one if its job asked again: each would block both.
                    self._reservations.retain(lambda each: True)
                    self._reservations.make(application, group, node.name, offer.view.now_ns)
                    offer.is_for_others = True
                    return

    def _can_become_free(self, node: Node) -> Resources:
        """What the node has without its ApplicationMasters and what stopped processes hold there."""
        masters = (
            held.request
            for held in self._state.containers.values()
            if held.node == node.name and held.group is MASTER_GROUP and self._state.on_slot(held)
        )
        return reduce(minus, masters, self._reservations.beside_stopped()[node.name])

    @staticmethod
    def _new_one_by_one(application: Application) -> Sequence[tuple[TaskGroup, int]]:
        """How many new containers it may get one by one now, by group, in the order in which it gets them."""
        requests = application.requests
        if requests.application_master is not None:
            return ((MASTER_GROUP, 1),)
        if requests.at_once or application.must_start_whole:
            return ()
        groups = application.for_shuffle if application.maps_wait else application.others
        return [(group, len(requests.since[group.name])) for group in groups]

    # ---- reclaiming ----

    def _lack_due_ns(self, now_ns: int) -> int | None:
        wanted = any(map(self._state.queues.pending_in, self._takers)) or self._preemptor.owes_on_nodes
        if not wanted and self._reservations.lasts_until_ns is None:
            return None
        if self._no_op_state != self._state.changes:
            return now_ns
        return None if self._holds_until_ns is None else max(now_ns, self._holds_until_ns)

    def _for_jobs(self, now_ns: int) -> Iterator[Contract | StrictContract]:
        before = self.changes
        self._reservations.update(now_ns)
        self._forget_ranks()
        rooms = _Rooms(self._reservations.free(), self._reservations.expected(now_ns))
        view = self._state.view(now_ns)
        decision = allocate(self._policy, view)
        for name, victims in decision.reclaim:
            others = [victim for victim in victims if victim != name]
            queue = next(queue for queue in view.queues if queue.name == name)
            if others:
                jobs = tuple(self._state.waiting(name, view).jobs)
                may = self._within_maximum(queue)
                yield from self._serve(
                    jobs, lambda _, others=others: self._jobs_with_victims_in(others, now_ns), may, rooms, now_ns
                )
            if name in victims:
                views = tuple(self._state.queues.job_views(name, now_ns))
                order = order_jobs(self._scheduler.preemption_order, view, views)
                jobs = [self._state.applications[job] for job in order]
                after = partial(self._jobs_with_victims_after, order, now_ns)
                may = self._within_a_run(decision.most_reclaims_in_a_run)
                yield from self._serve(jobs, after, may, rooms, now_ns)
        if self._may_rest and self.changes == before:
            times_ns = (decision.valid_until_ns, self._state.next_victim_ns(now_ns), self._reservations.lasts_until_ns)
            self._no_op_state = self._state.changes
            self._holds_until_ns = min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def _serve(
        self,
        jobs: Sequence[Application],
        givers: Callable[[Application], _Jobs],
        may: Callable[[Application, Sequence[TaskGroup]], bool],
        rooms: _Rooms,
        now_ns: int,
    ) -> Iterator[Contract | StrictContract]:
        """Make room for what each of the jobs needs, one after another, of what its ``givers`` have, as long as it
        ``may`` have it.  Those after a gang that waits get none: it would hold that room too."""
        for application in jobs:
            for groups, times in self._needs(application):
                for _ in range(times):
                    if not may(application, groups):
                        return
                    if not (yield from self._reclaim_capacity(application, groups, givers(application), rooms, now_ns)):
                        break
            if self._offers.gangs.waits(application):
                return

    def _within_maximum(self, queue: QueueView) -> Callable[[Application, Sequence[TaskGroup]], bool]:
        """The jobs of ``queue`` may reclaim until it has its maximum."""
        left_ppm = queue.maximum - queue.used
        for each in self._reservations.standing():
            if self._state.applications[each.requester].queue == queue.name:
                left_ppm -= dominant_ppm(each.request, self._whole)

        def may(application: Application, groups: Sequence[TaskGroup]) -> bool:
            nonlocal left_ppm
            shares = [dominant_ppm(application.request_for(group), self._whole) for group in groups]
            before_last_ppm, left_ppm = left_ppm - sum(shares[:-1]), left_ppm - sum(shares)
            return before_last_ppm > 0

        return may

    def _within_a_run(self, most: int | None) -> Callable[[Application, Sequence[TaskGroup]], bool]:
        """Together they get room for at most ``most`` containers in a run; a gang nevertheless for all of it."""
        made = self._reservations.made
        return lambda _, __: most is None or self._reservations.made - made < most

    def _jobs_with_victims_in(self, queues: Sequence[str], now_ns: int) -> _Jobs:
        views = (self._state.queues.job_views(queue, now_ns) for queue in queues)
        left = ([self._left(view, now_ns) for view in of_queue if view.reclaimable > 0] for of_queue in views)
        return [tuple([view for view in of_queue if view.reclaimable > 0]) for of_queue in left]

    def _left(self, view: JobView, now_ns: int) -> JobView:
        """The job without what it is to give."""
        going = self._reservations.being_evicted(view.name, now_ns) if self._preemptor.owes_on_nodes else []
        if not going:
            return view
        left = minus(view.tasks_hold, total((task.request for task in going), self._names))
        return replace(net_of(view, len(going)), tasks_hold=left)

    def _jobs_with_victims_after(self, order: Sequence[str], now_ns: int, application: Application) -> _Jobs:
        """Each job takes from the jobs after it."""
        (jobs,) = self._jobs_with_victims_in((application.queue,), now_ns)
        givers = {view.name: view for view in jobs}
        later = order[order.index(application.name) + 1 :]
        return [tuple([givers[job] for job in later if job in givers])]

    def _needs(self, application: Application) -> Iterator[tuple[tuple[TaskGroup, ...], int]]:
        """Groups of the containers that the job wants on any node, and how many more than are reserved for it: each by
        itself, or once all that a gang needs.  If maps wait, they come first."""
        gangs = self._offers.gangs
        if gangs.waits(application):
            members = gangs.members(application)
            yield from ((members, 1),) if members else ()
            return
        reserved = Counter(each.group for each in self._reservations.standing() if each.requester == application.name)
        for group in (MASTER_GROUP, *application.for_shuffle, *(() if application.maps_wait else application.others)):
            if (lacking := requested_anywhere(application, group.name) - reserved[group.name]) > 0:
                yield (group,), lacking

    def _reclaim_capacity(
        self, application: Application, groups: Sequence[TaskGroup], jobs: _Jobs, rooms: _Rooms, now_ns: int
    ) -> Generator[Contract | StrictContract, None, bool]:
        """Reclaim what makes room for a container of each of these groups, unless there is some; returns whether
        there is or will be."""
        names = tuple(tuple(job.name for job in of_queue) for of_queue in jobs)
        alone = application.request_for(groups[0]) if len(groups) == 1 and not application.requests.avoided else None
        if alone is not None and any(fits(known, alone) for known in self._impossible.get(names, ())):
            return False
        trial = _Rooms(dict(rooms.free), dict(rooms.coming))
        places = list(self._places(application, groups, trial, lambda: self._ranked_once(names, jobs, now_ns)))
        if len(places) < len(groups):
            if alone is not None:
                self._impossible.setdefault(names, []).append(alone)
            return False
        yield from self._carry_out(application, places, jobs, self._ranks.get(names, []), now_ns)
        rooms.free.update(trial.free)
        rooms.coming.update(trial.coming)
        if any(taken.tasks for _, taken in places):
            self._forget_ranks()
        return True

    def _places(
        self,
        application: Application,
        groups: Sequence[TaskGroup],
        trial: _Rooms,
        ranked: Callable[[], Sequence[TaskView]],
    ) -> Iterator[tuple[TaskGroup, NodeVictims]]:
        """Where each of the groups' containers has room or gets it, which is taken of ``trial``; ends at the first that
        has none.  ``ranked``: the tasks that may be victims."""
        gone = set[str]()
        for group in groups:
            request = application.request_for(group)
            avoided = application.requests.avoided if group is not MASTER_GROUP else ()
            free = {name: room for name, room in trial.free.items() if name not in avoided}
            fitting = [name for name, room in free.items() if fits(request, room)]
            taken = NodeVictims(fitting[0], ()) if fitting else None
            if taken is None:
                left = [task for task in ranked() if task.container not in gone]
                coming = {name: plus(free[name], more) for name, more in trial.coming.items() if name in free}
                spare = {**free, **coming}
                across_jobs = self._victim_jobs.tasks is not None
                taken = choose_node(request, spare, left, self._frees, self._whole, across_jobs)
            if taken is None:
                return
            trial.free[taken.node] = minus(trial.free[taken.node], request)
            self._go(taken, trial, gone)
            yield group, taken

    def _ranked_once(self, names: tuple[tuple[str, ...], ...], jobs: _Jobs, now_ns: int) -> list[TaskView]:
        if names not in self._ranks:
            self._ranks[names] = self._ranked(jobs, now_ns)
        return self._ranks[names]

    def _forget_ranks(self) -> None:
        self._ranks.clear()
        self._impossible.clear()

    def _go(self, taken: NodeVictims, rooms: _Rooms, gone: set[str]) -> None:
        """What becomes free with these tasks: of a gang that is too small without one, all."""
        for task in taken.tasks:
            going = [self._state.containers[task.container]]
            application = self._state.applications[task.job]
            left = application.members - sum(name in application.victims for name in gone)
            if application.facts.gang is not None and left <= application.facts.gang:
                going += [held for held in application.victims.values() if not held.taken]
            for held in going:
                if held.id not in gone:
                    gone.add(held.id)
                    more = self.frees(held)
                    rooms.coming[held.node] = plus(rooms.coming[held.node], more) if held.node in rooms.coming else more

    def _carry_out(
        self,
        application: Application,
        places: Sequence[tuple[TaskGroup, NodeVictims]],
        jobs: _Jobs,
        ranked: Sequence[TaskView],
        now_ns: int,
    ) -> Iterator[Contract | StrictContract]:
        """Ask for it, and keep the room, also what is free of it: a gang needs it with the rest."""
        graces_ns = {self._state.applications[task.job].facts.grace_ns for _, taken in places for task in taken.tasks}
        if not graces_ns:
            return
        for group, taken in places:
            if taken.tasks:
                self._record_reason(application, group, jobs, ranked, taken, now_ns)
            self._reservations.make(application, group, taken.node, now_ns, max(graces_ns))
        for _, taken in places:
            left = taken.short
            for job in dict.fromkeys(task.job for task in taken.tasks):
                going = [task for task in taken.tasks if task.job == job]
                amount = common(left, total(map(self._frees, going), self._names))
                left = minus(left, amount)
                if not self._names_tasks(job):
                    yield Contract(application.name, job, node=taken.node, amount=amount)
                    continue
                for task in going:
                    queue_ns = None if self._victim_jobs.tasks is None else self._victim_jobs.tasks.queue_up(task)
                    yield StrictContract(self._state.containers[task.container], queue_ns=queue_ns)

    def _names_tasks(self, job: str) -> bool:
        return self._victim_jobs.tasks is not None or self._state.applications[job].facts.gang is not None

    def _ranked(self, jobs: _Jobs, now_ns: int) -> list[TaskView]:
        """The tasks of these jobs that may be victims, in the order of eviction; of a job which chooses itself, as it
        comes."""
        view, scheduler, ranked = self._state.view(now_ns), self._scheduler, list[TaskView]()
        if self._victim_jobs.tasks is not None:
            return [task for of_queue in jobs for task in self._victim_jobs.tasks.ranked(of_queue, view)]
        random = keyed_random(self._seed, "rm", "room", self._reservations.made)
        for of_queue in jobs:
            left = of_queue
            while left:
                victim = choose_job(scheduler.job_eviction, view, left, random)
                left = tuple([job for job in left if job.name != victim])
                going = {task.container for task in self._reservations.being_evicted(victim, now_ns)}
                tasks = {
                    task.container: task
                    for task in self._state.task_views(victim, now_ns)
                    if task.container not in going and self._state.may_be_victim(task, now_ns)
                }
                order = tuple(tasks)
                if tasks and self._names_tasks(victim):
                    order = order_tasks(scheduler.task_eviction, view, tuple(tasks.values()), random)
                ranked += [tasks[container] for container in order]
        return ranked

    def _frees(self, task: TaskView) -> Resources:
        return self.frees(self._state.containers[task.container])

    def _record_reason(
        self,
        application: Application,
        group: TaskGroup,
        jobs: _Jobs,
        ranked: Sequence[TaskView],
        taken: NodeVictims,
        now_ns: int,
    ) -> None:
        short = f"{group.name} lacks {written(taken.short, self._names)} on {taken.node}"
        queues = {job.name: of_queue for of_queue in jobs for job in of_queue}
        for task in taken.tasks:
            among = queues[task.job]
            self._choices.append(JobChoice(application.name, among[0].facts.queue, task.job, now_ns, among, short))
        jobs_named = [job for job in dict.fromkeys(task.job for task in taken.tasks) if self._names_tasks(job)]
        for victim in jobs_named if self._explains_tasks else ():
            going = [task.container for task in taken.tasks if task.job == victim]
            tasks = [task for task in ranked if task.job == victim]
            order = [*going, *(task.container for task in tasks if task.container not in going)]
            self._reasons.append(explain_tasks(self._scheduler.task_eviction.name, victim, tasks, order, len(going)))
