"""Reclaiming for the jobs of queues: one run of the Preemptor (natjam, sections 3.2 and 4).

Theory of operation
-------------------
The allocation policy says which queues may reclaim from which.  What is reclaimed for their jobs depends on whether a
container is a container wherever it is.

*Equal containers* (``ReclaimContainers``).  For each container that a job lacks, a victim is chosen among the jobs that
have one to give, those of the least urgent queue first.  All this happens only when the cluster is full.

*Resource vectors* (``ReclaimOnNodes``).  Each request that fits no node is looked at alone, in the order of the queue:
node and jobs are chosen (``emulator.core.resource_manager.victims``), each of these jobs is asked by a contract for as
much there as its tasks can make free of what is then still missing, and a reservation keeps the capacity until all of
it is there (``emulator.core.resource_manager.reservations``).  A request that fits what is free, or what others will
have given, takes nothing; in the latter case that is reserved for it.  For a gang this is done for all that it needs at
once, and only if all of it then has capacity.

The ApplicationMaster chooses the tasks, in its own order.  Until they have left, those that are enough count as gone
here, whichever they are.  What decides more than capacity is named by strict contracts: where tasks are ranked across
jobs, and the tasks of a gang, of which too few may be left.  The ResourceManager knows what a mechanism leaves: what a
stopped process goes on holding is not freed, so a process is not stopped for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.decisions import choose_job, order_jobs, order_tasks
from emulator.core.explanation import JobChoice, explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.resource_manager.allocation import Contract, StrictContract
from emulator.core.resource_manager.applications import Application
from emulator.core.resource_manager.offers import Components, Offers
from emulator.core.resource_manager.queue_ledger import job_view
from emulator.core.resource_manager.victims import NodeVictims, VictimJobs, choose_node, net_of
from emulator.policies.mechanism import needs_no_job
from emulator.policies.resources import common, dominant_ppm, fits, minus, plus, total, written
from emulator.policies.views import JobView, QueueView, TaskView
from emulator.vocabulary import MASTER_GROUP, Resources, TaskGroup

_Jobs = Sequence[tuple[JobView, ...]]
"""Jobs that may have to give, by queue, the least urgent queue first."""
_Containers = Sequence[tuple[TaskGroup, Resources]]
"""Containers of one job, each with what it asks for: one, or all that a gang needs at once."""


class _Reclaim:
    """What both ways of reclaiming look at."""

    def __init__(self, parts: Components, offers: Offers, victim_jobs: VictimJobs) -> None:
        self._scheduler = parts.settings.scheduler
        self._state = parts.state
        self._preemptor = parts.preemptor
        self._offers = offers
        self._victim_jobs = victim_jobs

    def _order_in(
        self, queue: str, now_ns: int
    ) -> tuple[Sequence[Application], Callable[[Application], Sequence[Application]]]:
        """The jobs of a queue that may lack something, in the order in which its jobs may take from each other; and for
        each of them, those after it that may have something to give.  If the order is fixed, no other job is looked
        at."""
        view, policy = self._state.view(now_ns), self._scheduler.preemption_order
        if policy.sort_key is not None and policy == self._scheduler.job_selection:
            return self._state.waiting(queue, view).jobs, self._state.queues.givers_after
        order = order_jobs(policy, view, tuple(self._state.queues.job_views(queue, now_ns)))
        jobs = [self._state.applications[name] for name in order]
        places = {name: place for place, name in enumerate(order, 1)}
        return jobs, lambda job: jobs[places[job.name] :]


class ReclaimContainers(_Reclaim):
    """Reclaims containers, wherever they are (see the module's theory of operation)."""

    @property
    def depends_on(self) -> tuple[int, ...]:
        """Stays the same until something changes that a run depends on."""
        state = self._state
        return state.queues.changes, self._preemptor.changes, len(state.free_nodes) if state.queues.gangs else 0

    def is_due(self, has_requests: bool) -> bool:
        """Whether a run may find something: only when the cluster is full (natjam, section 3.2), or a gang waits.

        ``has_requests``: jobs that may reclaim wait for containers.
        """
        return has_requests and bool(self._state.is_full or self._state.queues.gangs)

    def begin(self, now_ns: int) -> None:
        """A run begins: a no-op, because nothing is reserved."""

    def from_queues(self, queue: QueueView, victims: tuple[str, ...], now_ns: int) -> Generator[Contract, None, bool]:
        """For the jobs of ``queue``, which may grow up to its maximum, from those of other queues.

        Returns whether jobs of further queues may reclaim too.  They may not if a gang holds what is free, because it
        would keep what is reclaimed as well.
        """
        growth = queue.maximum - queue.used
        possible: list[dict[str, JobView]] | None = None
        view = self._state.view(now_ns)
        for application in self._state.waiting(queue.name, view).jobs:
            outstanding = self._preemptor.outstanding(application.name)
            is_gang = self._offers.gangs.waits(application)
            lacking = self._lacking(application, growth) - outstanding
            while lacking > 0:
                if possible is None:
                    possible = [self._victim_jobs.among(self._state.queues.job_views(name, now_ns)) for name in victims]
                if is_gang and not _has_enough(lacking, possible):
                    return False
                jobs = next(filter(None, possible), None)
                if jobs is None:
                    return True
                contracts = self._victim_jobs.choose(application.name, tuple(jobs.values()), jobs, view, lacking)
                yield from contracts
                outstanding, lacking = outstanding + len(contracts), lacking - len(contracts)
            if is_gang:
                return application.requests.at_once > growth
            growth -= outstanding
        return True

    def _lacking(self, application: Application, growth: int | None = None) -> int:
        """Containers to reclaim for the job, if its queue may grow by ``room``.

        Only a gang takes containers back while others are free: it holds these, and they are too few for it.
        """
        requests = application.requests
        if requests.at_once:
            fits = (growth is None or requests.at_once <= growth) and self._offers.gangs.waits(application)
            return self._offers.gangs.lacking(application) if fits else 0
        if not self._state.is_full:
            return 0
        return requests.for_any_node if growth is None else min(requests.for_any_node, growth)

    def within(self, queue: str, limit: int | None, now_ns: int) -> Generator[Contract, None, bool]:
        """The first waiting job takes from the jobs after it that have something to give (natjam, section 4).

        Each job takes as many as it lacks before it is the next one's turn; together they take at most ``limit`` in one
        run, a gang nevertheless all that it lacks.  Returns False if that limit ended the run, so that the next run may
        ask for more.  Jobs after a gang that waits take nothing: it would keep that.
        """
        view = self._state.view(now_ns)
        applications, after = self._order_in(queue, now_ns)
        made = 0
        for application in applications:
            lacking = self._lacking(application) - self._preemptor.outstanding(application.name)
            is_gang, begun = self._offers.gangs.waits(application), False
            while lacking > 0:
                later = self._victim_jobs.among([job_view(job, now_ns) for job in after(application)])
                if not later or (is_gang and not _has_enough(lacking, (later,))):
                    return True
                if limit is not None and made >= limit and not begun:
                    return False
                contracts = self._victim_jobs.choose(application.name, tuple(later.values()), later, view, lacking)
                yield from contracts
                made, lacking, begun = made + len(contracts), lacking - len(contracts), is_gang
            if is_gang:
                return True
        return True


def _has_enough(lacking: int, possible: Iterable[Mapping[str, JobView]]) -> bool:
    """Whether these jobs can give as much as a gang lacks: less is of no use to it."""
    return sum(job.reclaimable for jobs in possible for job in jobs.values()) >= lacking


@dataclass(slots=True)
class _Givers:
    """Jobs with victims, and what is known of them until something is taken."""

    jobs: _Jobs
    ranked: list[TaskView] | None = None
    """Their tasks in the order of eviction; None: not needed yet."""


class _FreeCapacity(NamedTuple):
    """What is free of the nodes in a run."""

    free: dict[str, Resources]
    """What nobody has, or will get."""
    expected: dict[str, Resources]
    """What will be free beside that, of the nodes where that is something."""


class ReclaimOnNodes(_Reclaim):
    """Reclaims capacity on one node for each request (see the module's theory of operation)."""

    def __init__(self, parts: Components, offers: Offers, victim_jobs: VictimJobs) -> None:
        super().__init__(parts, offers, victim_jobs)
        nodes = parts.settings.nodes
        self._names = nodes[0].resource_names
        self._whole = total((node.resources for node in nodes), self._names)
        self._seed = parts.settings.seed
        self._reservations = offers.reservations
        self._explains_tasks = needs_no_job(self._scheduler.mechanism.among)
        """Whether tasks that are named are explained here; with other mechanisms their jobs are asked, and explain."""
        self._capacity = _FreeCapacity({}, {})
        self._givers: dict[tuple[tuple[str, ...], ...], _Givers] = {}
        """By the names of the jobs, until something is taken."""
        self._in_queues: dict[tuple[str, ...], _Givers] = {}
        """All of some queues, until something is taken."""

    @property
    def depends_on(self) -> tuple[int, ...]:
        """Stays the same until something changes that a run depends on."""
        return (self._state.changes,)

    def is_due(self, has_requests: bool) -> bool:
        """Whether a run may find something; reservations and contracts that are not needed any more end in one, too.

        ``has_requests``: jobs that may reclaim wait for containers.
        """
        return has_requests or self._preemptor.has_contracts_on_nodes or self._reservations.lasts_until_ns is not None

    def begin(self, now_ns: int) -> None:
        """A run begins."""
        self._reservations.update(now_ns)
        self._forget_givers()
        self._capacity = _FreeCapacity(self._reservations.free(), self._reservations.expected(now_ns))

    def from_queues(
        self, queue: QueueView, victims: tuple[str, ...], now_ns: int
    ) -> Generator[Contract | StrictContract, None, bool]:
        """For the jobs of ``queue``, from those of other queues.  Jobs of further queues may reclaim too."""
        jobs, may = tuple(self._state.waiting(queue.name, self._state.view(now_ns)).jobs), self._within_maximum(queue)
        yield from self._serve(jobs, partial(self._jobs_with_victims_in, victims, now_ns), may, now_ns)
        return True

    def within(self, queue: str, limit: int | None, now_ns: int) -> Generator[Contract | StrictContract, None, bool]:
        """For the jobs of ``queue``, each from those after it; at most ``limit`` in a run.  The next run asks for more
        only when something has changed."""
        applications, after = self._order_in(queue, now_ns)
        givers = partial(self._jobs_with_victims_after, after, now_ns)
        yield from self._serve(applications, givers, self._within_a_run(limit), now_ns)
        return True

    def _serve(
        self,
        jobs: Sequence[Application],
        givers: Callable[[Application], _Givers],
        may: Callable[[_Containers], bool],
        now_ns: int,
    ) -> Iterator[Contract | StrictContract]:
        """Make room for what each of the jobs needs, one after another, of what its ``givers`` have, as long as it
        ``may`` have it.  Those after a gang that waits get none: it would hold that room too.

        A job takes from the same jobs as the one before it, or from fewer of them.  So where that one found no room for
        a request, it finds none either, until something is taken."""
        impossible: list[Resources] = []
        reserved = Counter((each.requester, each.group) for each in self._reservations.standing())
        for application in jobs:
            if application.requests.at_once and self._offers.gangs.waits(application):
                groups = self._offers.gangs.members(application)
                members = [(group, application.request_for(group)) for group in groups]
                if members and may(members):
                    yield from self._reclaim_capacity(application, members, givers(application), now_ns)
                return
            for name, count in application.requested_anywhere.items():
                group = application.groups[name]
                request = application.request_for(group)
                container = ((group, request),)
                for _ in range(count - reserved.get((application.name, name), 0)):
                    if not may(container):
                        return
                    if any(fits(each, request) for each in impossible):
                        break
                    if not (yield from self._reclaim_capacity(application, container, givers(application), now_ns)):
                        if not application.requests.avoided:
                            impossible.append(request)
                        break
                    impossible.clear()

    def _within_maximum(self, queue: QueueView) -> Callable[[_Containers], bool]:
        """The jobs of ``queue`` may reclaim until it has its maximum."""
        left_ppm = queue.maximum - queue.used
        for each in self._reservations.standing():
            if self._state.applications[each.requester].queue == queue.name:
                left_ppm -= dominant_ppm(each.request, self._whole)

        def may(containers: _Containers) -> bool:
            nonlocal left_ppm
            before_last_ppm = left_ppm
            for _, request in containers:
                before_last_ppm = left_ppm
                left_ppm -= dominant_ppm(request, self._whole)
            return before_last_ppm > 0

        return may

    def _within_a_run(self, limit: int | None) -> Callable[[_Containers], bool]:
        """Together they get room for at most ``limit`` containers in a run; a gang nevertheless for all of it."""
        made = self._reservations.made
        return lambda _: limit is None or self._reservations.made - made < limit

    def _jobs_with_victims_in(
        self, queues: Sequence[str], now_ns: int, application: Application | None = None
    ) -> _Givers:
        """Those in these queues, for any ``application``."""
        if (among := tuple(queues)) not in self._in_queues:
            views = (self._state.queues.job_views(queue, now_ns) for queue in among)
            left = ([self._left(view, now_ns) for view in of_queue if view.reclaimable > 0] for of_queue in views)
            jobs = [tuple([view for view in of_queue if view.reclaimable > 0]) for of_queue in left]
            self._in_queues[among] = self._givers_of(jobs)
        return self._in_queues[among]

    def _givers_of(self, jobs: _Jobs) -> _Givers:
        names = tuple([tuple([job.name for job in of_queue]) for of_queue in jobs])
        return self._givers.setdefault(names, _Givers(jobs))

    def _left(self, view: JobView, now_ns: int) -> JobView:
        """The job without what it is to give."""
        going = self._reservations.being_evicted(view.name, now_ns) if self._preemptor.has_contracts_on_nodes else []
        if not going:
            return view
        left = minus(view.tasks_hold, total((task.request for task in going), self._names))
        return replace(net_of(view, len(going)), tasks_hold=left)

    def _jobs_with_victims_after(
        self, after: Callable[[Application], Sequence[Application]], now_ns: int, application: Application
    ) -> _Givers:
        """Each job takes from the jobs ``after`` it."""
        (jobs,) = self._jobs_with_victims_in((application.queue,), now_ns).jobs
        left = {job.name: job for job in jobs}
        return self._givers_of([tuple([left[job.name] for job in after(application) if job.name in left])])

    def _reclaim_capacity(
        self, application: Application, containers: _Containers, givers: _Givers, now_ns: int
    ) -> Generator[Contract | StrictContract, None, bool]:
        """Reclaim what makes room for each of these containers, unless there is some; returns whether there is or will
        be."""
        trial = _FreeCapacity(dict(self._capacity.free), dict(self._capacity.expected))
        places = list(self._places(application, containers, trial, lambda: self._ranked_once(givers, now_ns)))
        if len(places) < len(containers):
            return False
        yield from self._carry_out(application, places, givers, now_ns)
        self._capacity = trial
        if any(victims.tasks for _, victims in places):
            self._forget_givers()
        return True

    def _places(
        self,
        application: Application,
        containers: _Containers,
        trial: _FreeCapacity,
        ranked: Callable[[], Sequence[TaskView]],
    ) -> Iterator[tuple[TaskGroup, NodeVictims]]:
        """Where each of the containers has room or gets it, which is taken of ``trial``; ends at the first that
        has none.  ``ranked``: the tasks that may be victims."""
        gone = set[str]()
        for group, request in containers:
            avoided = application.requests.avoided if group is not MASTER_GROUP else ()
            free = {name: room for name, room in trial.free.items() if name not in avoided}
            roomy = {room for room in set(free.values()) if fits(request, room)}
            fitting = next((name for name, room in free.items() if room in roomy), None) if roomy else None
            victims = None if fitting is None else NodeVictims(fitting, ())
            if victims is None:
                left = [task for task in ranked() if task.container not in gone]
                coming = {name: plus(free[name], more) for name, more in trial.expected.items() if name in free}
                changing = {task.node for task in left} | coming.keys()  # nothing else has become large enough
                spare = {name: coming.get(name, room) for name, room in free.items() if name in changing}
                across_jobs = self._victim_jobs.tasks is not None
                victims = choose_node(request, spare, left, self._reservations.frees, self._whole, across_jobs)
            if victims is None:
                return
            trial.free[victims.node] = minus(trial.free[victims.node], request)
            self._go(victims, trial, gone)
            yield group, victims

    def _ranked_once(self, givers: _Givers, now_ns: int) -> list[TaskView]:
        if givers.ranked is None:
            givers.ranked = self._ranked(givers.jobs, now_ns)
        return givers.ranked

    def _forget_givers(self) -> None:
        self._givers.clear()
        self._in_queues.clear()

    def _go(self, victims: NodeVictims, rooms: _FreeCapacity, gone: set[str]) -> None:
        """What becomes free with these tasks: of a gang that is too small without one, all."""
        for task in victims.tasks:
            going = [self._state.containers[task.container]]
            application = self._state.applications[task.job]
            left = application.members - sum(name in application.victims for name in gone)
            if application.facts.gang is not None and left <= application.facts.gang:
                going += [held for held in application.victims.values() if not held.is_reclaimed]
            for held in going:
                if held.id not in gone:
                    gone.add(held.id)
                    more = self._reservations.frees(held)
                    there, node = rooms.expected, held.node
                    there[node] = plus(there[node], more) if node in there else more

    def _carry_out(
        self,
        application: Application,
        places: Sequence[tuple[TaskGroup, NodeVictims]],
        givers: _Givers,
        now_ns: int,
    ) -> Iterator[Contract | StrictContract]:
        """Ask for it, and keep the room, also what is free of it: a gang needs it with the rest."""
        graces_ns = {
            self._state.applications[task.job].facts.grace_ns for _, victims in places for task in victims.tasks
        }
        if not graces_ns:
            return
        for group, victims in places:
            if victims.tasks:
                self._record_reason(application, group, givers, victims, now_ns)
            self._reservations.make(application, group, victims.node, now_ns, max(graces_ns))
        for _, victims in places:
            left = victims.short
            for job in dict.fromkeys(task.job for task in victims.tasks):
                going = [task for task in victims.tasks if task.job == job]
                amount = common(left, total(map(self._reservations.frees, going), self._names))
                left = minus(left, amount)
                if not self._names_tasks(job):
                    yield Contract(application.name, job, node=victims.node, amount=amount)
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
                    for task in self._state.victim_views(victim, now_ns)
                    if task.container not in going
                }
                order = tuple(tasks)
                if tasks and self._names_tasks(victim):
                    order = order_tasks(scheduler.task_eviction, view, tuple(tasks.values()), random)
                ranked += [tasks[container] for container in order]
        return ranked

    def _record_reason(
        self,
        application: Application,
        group: TaskGroup,
        givers: _Givers,
        victims: NodeVictims,
        now_ns: int,
    ) -> None:
        short = f"{group.name} lacks {written(victims.short, self._names)} on {victims.node}"
        queues = {job.name: of_queue for of_queue in givers.jobs for job in of_queue}
        for task in victims.tasks:
            among = queues[task.job]
            self._victim_jobs.choices.append(
                JobChoice(application.name, among[0].facts.queue, task.job, now_ns, among, short)
            )
        jobs_named = [job for job in dict.fromkeys(task.job for task in victims.tasks) if self._names_tasks(job)]
        for victim in jobs_named if self._explains_tasks else ():
            going = [task.container for task in victims.tasks if task.job == victim]
            tasks = [task for task in givers.ranked or () if task.job == victim]
            order = [*going, *(task.container for task in tasks if task.container not in going)]
            self._victim_jobs.reasons.append(
                explain_tasks(self._scheduler.task_eviction.name, victim, tasks, order, len(going))
            )
