"""Victim tasks: which container must be given, of all victim jobs together (adaptive-checkpointing, section 5.2.2).

Theory of operation
-------------------
The ResourceManager keeps a checkpoint queue for each node: the containers there that it has asked for by name and that
are not free yet.  The cost of a container is its memory over the device's bandwidth, and what the containers before it
in the queue take.  The task eviction policy chooses by it, and the job is told the wait, so that it weighs an image
(Algorithm 1) with the dumps of all jobs in front of it.  A container leaves the queue when its slot is free, also if
its job has killed it instead; as in the paper, the part of a dump that is already written is not subtracted.
"""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.decisions import order_tasks
from emulator.core.effects import Effect
from emulator.core.explanation import JobChoice, explain_jobs
from emulator.core.machine import keyed_random
from emulator.core.resource_manager.allocation import Contract
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.settings import Settings
from emulator.policies.adaptive_checkpointing import image_overhead_ns
from emulator.policies.views import ClusterView, JobView, TaskView


class VictimTasks:
    """Part of ``VictimJobs``; see the module's theory of operation."""

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
            for task in self._state.task_views(job.name, view.now_ns)
            if self._state.may_be_victim(task, view.now_ns) and task.container not in self._queues.get(task.node, ())
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
        """A container that has got a slot anew since was free meanwhile."""
        held = self._state.containers
        for node, queue in self._queues.items():
            self._queues[node] = {
                name: (slot_ns, dump_ns)
                for name, (slot_ns, dump_ns) in queue.items()
                if name in held and held[name].slot_ns == slot_ns and self._state.on_slot(held[name])
            }
