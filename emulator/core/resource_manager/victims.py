"""Victims: what must be given, and by whom (natjam, section 3.2; adaptive-checkpointing, section 5.2.2).

Theory of operation
-------------------
*Collect.*  A job can give what it holds in tasks that may be victims, net of what it was asked for before: otherwise
one of two equal jobs would lose everything.

*Score, and choose.*  The ResourceManager sees no progress of tasks, so it chooses a job, by the job eviction policy;
the job's ApplicationMaster chooses the task (``emulator.core.application_master.releaser``).  A gang gives single tasks
as long as its minimum is left, then all that it has: one choice, which counts as as many containers as are lacking.
Once it has been asked for one of those, it is not chosen again.

A task eviction that ranks tasks across jobs chooses here, among the tasks of all victim jobs.  For that the
ResourceManager keeps a checkpoint queue for each node: the containers there that it has asked for by name and that are
not free yet.  The cost of a container is its memory over the device's bandwidth, and what the containers before it in
the queue take.  The task eviction policy chooses by it, and the job receives the wait, so that it weighs an image
(Algorithm 1) with the dumps of all jobs in front of it.  A container leaves the queue when its slot is free, also if
its job has killed it instead; as in the paper, the part of a dump that is already written is not subtracted.

*Drop the superfluous.*  Where containers have several sizes, what is taken must make room on one node
(``choose_node``).  Jobs are ranked by the job eviction policy, the least urgent queue's first; which of its tasks a job
gives, it chooses itself, so here they come in any order; those that are named come in that of the task eviction policy.
On each node the first of them are taken until the request fits there; tasks that make nothing free of what is lacking
are passed over.  Then every one is left out that is not needed, the last in the order first.  So what is taken is
irreducible: with any one less it is too little.

Of the nodes where that is enough, the one is chosen whose last victim job in the order, the one to be spared longest,
comes earliest (the last victim task, where tasks are ranked across jobs); then the one with the fewest victims; then
the one where least is taken, by the dominant share of the cluster; then the first in the order of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.decisions import choose_job, order_tasks
from emulator.core.effects import Effect
from emulator.core.explanation import JobChoice, explain_jobs
from emulator.core.machine import keyed_random
from emulator.core.resource_manager.allocation import Contract
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Preemptor
from emulator.core.settings import Settings
from emulator.policies.adaptive_checkpointing import image_overhead_ns
from emulator.policies.resources import dominant_ppm, irreducible, lacking, total
from emulator.policies.views import ClusterView, JobView, TaskView
from emulator.vocabulary import Resources


class VictimJobs:
    """Chooses the jobs that must give a container; see the module's theory of operation."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor) -> None:
        self._seed = settings.seed
        self._policy = settings.scheduler.job_eviction
        self._preemptor = preemptor
        self._decisions = 0
        self.choices: list[JobChoice] = []
        """Choices made since the last ``explain``."""
        self.reasons: list[Effect] = []
        """Explanations of tasks that were named since then."""
        across_jobs = settings.scheduler.task_eviction.across_jobs
        self.tasks = VictimTasks(settings, state) if across_jobs else None
        """Chooses where tasks are ranked across jobs; None: they are not."""

    def among(self, jobs: Iterable[JobView]) -> dict[str, JobView]:
        """Those of ``jobs`` with a task to give, without the tasks already asked back."""
        asked = self._preemptor.requested()
        views = (net_of(view, asked[view.name]) if view.name in asked else view for view in jobs if view.reclaimable)
        return {
            view.name: view
            for view in views
            if view.reclaimable > 0 and not (view.name in asked and _is_being_evicted(view))
        }

    def choose(
        self, requester: str, among: tuple[JobView, ...], jobs: dict[str, JobView], view: ClusterView, lacking: int
    ) -> list[Contract]:
        """Contracts with one of the jobs ``among``: one, or as many as are ``lacking`` and a gang that goes whole has.
        Updates ``jobs``, all jobs that have a container to give."""
        if self.tasks is None or (contract := self.tasks.choose(requester, among, view)) is None:
            contract = Contract(requester, self._choose_job(requester, among, view))
        victim, count = jobs[contract.victim], 1
        if victim.goes_whole:
            count = min(lacking, victim.reclaimable)
            self.choices += self.choices[-1:] * (count - 1) if contract.container is None else []
        jobs[victim.name] = net_of(victim, count)
        if victim.goes_whole or not jobs[victim.name].reclaimable:
            del jobs[victim.name]
        return [contract, *(Contract(requester, victim.name) for _ in range(count - 1))]

    def _choose_job(self, requester: str, among: tuple[JobView, ...], view: ClusterView) -> str:
        self._decisions += 1
        random = keyed_random(self._seed, "rm", "job-eviction", self._decisions)
        victim = choose_job(self._policy, view, among, random)
        self.choices.append(JobChoice(requester, among[0].facts.queue, victim, view.now_ns, among))
        return victim

    def explain(self) -> list[Effect]:
        """Explanations of the victims chosen since the last call."""
        explained = [] if self.tasks is None else self.tasks.explain()
        if not self.choices:
            return explained
        choices, self.choices, reasons, self.reasons = self.choices, [], self.reasons, []
        return [*explained, *explain_jobs(self._policy, choices), *reasons]


def net_of(view: JobView, asked: int) -> JobView:
    """The job as the eviction must see it: without the containers already asked back."""
    members = max(0, view.members - asked)
    return replace(view, containers=view.containers - asked, reclaimable=view.reclaimable - asked, members=members)


def _is_being_evicted(view: JobView) -> bool:
    """Whether what was asked of it leaves less than its minimum, so that it gives all."""
    return view.facts.gang is not None and view.members < view.facts.gang


class VictimTasks:
    """Ranks tasks across jobs, and keeps the checkpoint queues of the nodes."""

    def __init__(self, settings: Settings, state: ClusterState) -> None:
        self._seed = settings.seed
        self._policy = settings.scheduler.task_eviction
        self._tier = settings.tier
        self._state = state
        self._decisions = 0
        self._queues: dict[str, dict[str, tuple[int, int]]] = {}
        """By node, the containers asked for: when each got its slot, and how long its dump takes."""
        self._choices: list[JobChoice] = []
        """Choices made since the last ``explain``."""

    def choose(self, requester: str, among: tuple[JobView, ...], view: ClusterView) -> Contract | None:
        """A contract that names a container of one of the jobs ``among``; None: all were asked for before."""
        ranked = self.ranked(among, view)
        if not ranked:
            return None
        chosen = ranked[0]
        self._choices.append(JobChoice(requester, among[0].facts.queue, chosen.job, view.now_ns, among))
        return Contract(requester, chosen.job, chosen.container, self.queue_up(chosen))

    def ranked(self, among: tuple[JobView, ...], view: ClusterView) -> list[TaskView]:
        """The tasks of the jobs ``among`` that may go and were not asked for before, in the order of eviction."""
        self._forget_freed()
        tasks = tuple(
            self._weighed(task)
            for job in among
            for task in self._state.victim_views(job.name, view.now_ns)
            if task.container not in self._queues.get(task.node, ())
        )
        self._decisions += 1
        random = keyed_random(self._seed, "rm", "task-eviction", self._decisions)
        by_container = {task.container: task for task in tasks}
        return [by_container[name] for name in order_tasks(self._policy, view, tasks, random)] if tasks else []

    def queue_up(self, task: TaskView) -> int:
        """The task goes; returns how long an image of it waits for those in front of it."""
        queue_ns = self._queue_ns(task.node)
        slot_ns = self._state.containers[task.container].slot_ns
        self._queues.setdefault(task.node, {})[task.container] = (slot_ns, task.image_dump_ns or 0)
        return queue_ns

    def explain(self) -> list[Effect]:
        """Explanations of the jobs whose containers were chosen since the last call; the job itself explains why this
        container, when it gives it."""
        choices, self._choices = self._choices, []
        return explain_jobs(replace(self._policy, score=None), choices)

    def _weighed(self, task: TaskView) -> TaskView:
        """The task with the cost of an image of it, if images are made.  The size is its container where the
        ResourceManager does not know its memory."""
        if self._tier is None:
            return task
        facts = self._state.applications[task.job].facts
        size_bytes = facts.memory_bytes if task.memory_bytes is None else task.memory_bytes
        memory_ns = image_overhead_ns(self._tier, size_bytes, size_bytes, self._queue_ns(task.node))
        return replace(task, image_memory_ns=memory_ns, image_dump_ns=self._tier.write_ns(size_bytes))

    def _queue_ns(self, node: str) -> int:
        return sum(dump_ns for _, dump_ns in self._queues.get(node, {}).values())

    def _forget_freed(self) -> None:
        """A container that has got a slot again since was free meanwhile."""
        held = self._state.containers
        for node, queue in self._queues.items():
            self._queues[node] = {
                name: (slot_ns, dump_ns)
                for name, (slot_ns, dump_ns) in queue.items()
                if name in held and held[name].slot_ns == slot_ns and self._state.on_slot(held[name])
            }


class NodeVictims(NamedTuple):
    """The tasks that make room on a node."""

    node: str
    tasks: tuple[TaskView, ...]
    short: Resources = ()
    """What is lacking there without them."""


def choose_node(
    request: Resources,
    spare: Mapping[str, Resources],
    ranked: Iterable[TaskView],
    frees: Callable[[TaskView], Resources],
    whole: Resources,
    across_jobs: bool = False,
) -> NodeVictims | None:
    """Where room for ``request`` is made, and by which of the tasks, which are ``ranked`` in the order of eviction;
    None: nowhere.  ``spare``: what the nodes in question have already; ``whole``: what the cluster has;
    ``across_jobs``: whether the order is one of tasks, not of jobs."""
    short_of = {there: lacking(request, there) for there in set(spare.values())}
    short = {name: short_of[there] for name, there in spare.items()}
    nothing = (0,) * len(request)
    for name, lack in short.items():
        if lack == nothing:
            return NodeVictims(name, (), lack)
    # The task with which a node first has enough is the last of its victims: none of those before it is superfluous
    # without it.  So the best nodes are those that first have enough in the order of eviction, with tasks of one rank.
    left, by_node = dict(short), dict[str, list[TaskView]]()
    for _, alike in groupby(ranked, attrgetter("container" if across_jobs else "job")):
        enough = set[str]()
        for task in alike:
            name = task.node
            if name in left and name not in enough:
                by_node.setdefault(name, []).append(task)
                left[name] = lacking(left[name], frees(task))
                if left[name] == nothing:
                    enough.add(name)
        found = [
            NodeVictims(name, tasks, lack)
            for name, lack in short.items()
            if name in enough and (tasks := irreducible(lack, by_node[name], frees)) is not None
        ]
        if found:
            return min(
                found, key=lambda one: (len(one.tasks), dominant_ppm(total(map(frees, one.tasks), whole), whole))
            )
    return None
