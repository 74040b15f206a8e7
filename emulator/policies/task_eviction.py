"""Task eviction: the tasks of the victim job in the order in which they are taken (natjam, section 2.2).

The ResourceManager kills if a job does not give a container back in time.  It sees no progress, so it assumes that the
task that has held its container longest has the least time left.
"""

from __future__ import annotations

from operator import itemgetter
from random import Random

from emulator.policies.policy import Axis, Policy, Reads, Score, TaskEviction
from emulator.policies.views import ClusterView, TaskView

# An attempt without an estimate has only just begun: it counts as having the most time left.
_NO_ESTIMATE_NS = 1 << 62


def shortest_remaining_time(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """SRT: the least remaining time first; protects the job's tail (natjam, Theorem 2.1)."""
    return _by_remaining(tasks, random, sign=1)


def longest_remaining_time(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """LRT: the most remaining time first; frees more containers earlier, but lengthens the job's tail."""
    return _by_remaining(tasks, random, sign=-1)


def random_order(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """Random order, by seed; the baseline of Fig. 5."""
    return tuple(task.container for task in _shuffled(tasks, random))


def newest(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """The task that got its container last goes first: the least work is lost."""
    return tuple(task.container for task in sorted(tasks, key=_age, reverse=True))


def smallest_memory(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """The task with the least memory goes first: the least must be paged out.  Tasks of unknown memory come last."""
    shuffled = _shuffled(tasks, random)
    shuffled.sort(key=lambda task: (task.memory_bytes is None, task.memory_bytes))
    return tuple(task.container for task in shuffled)


def lowest_checkpoint_cost(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """The task whose image costs least goes first.  The cost is size / bandwidth plus the wait for its node's device,
    behind the tasks chosen before it.  Where no images are made, the order is random."""
    shuffled = _shuffled(tasks, random)
    # Tasks of one node differ only in size: the smallest goes first, and the next one waits for it.
    by_node: dict[str, list[TaskView]] = {}
    for task in sorted(shuffled, key=lambda task: task.image_overhead_ns or 0):
        by_node.setdefault(task.node, []).append(task)
    costs = []
    for queue in by_node.values():
        waited_ns = 0
        for task in queue:
            costs.append(((task.image_overhead_ns or 0) + waited_ns, task.container))
            waited_ns += task.image_dump_ns or 0
    costs.sort(key=itemgetter(0))
    return tuple(container for _, container in costs)


def cost_aware(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> tuple[str, ...]:
    """The task whose checkpoint takes least time goes first, of all victim jobs together: its memory / bandwidth plus
    the wait for its node's device.  The ResourceManager chooses, and counts the dumps of all jobs.

    ``job_eviction`` is not asked then.  Where no images are made, the order is random.
    """
    shuffled = _shuffled(tasks, random)
    shuffled.sort(key=lambda task: task.image_memory_ns or 0)
    return tuple(task.container for task in shuffled)


def _age(task: TaskView) -> tuple[int, int, str]:
    # Among containers given out at one instant, the one made last: container names are numbered.
    return task.started_ns, len(task.container), task.container


def _by_remaining(tasks: tuple[TaskView, ...], random: Random, sign: int) -> tuple[str, ...]:
    # Shuffle first, then sort stably: equal estimates come in random order.
    shuffled = _shuffled(tasks, random)
    shuffled.sort(key=lambda task: sign * _left(task))
    return tuple(task.container for task in shuffled)


def _left(task: TaskView) -> int:
    """Sort key: remaining time; without progress (at the ResourceManager), the start of the container."""
    if task.keys_total is None:
        return task.started_ns
    return _NO_ESTIMATE_NS if task.remaining_ns is None else task.remaining_ns


def _shuffled(tasks: tuple[TaskView, ...], random: Random) -> list[TaskView]:
    shuffled = sorted(tasks, key=_place)
    random.shuffle(shuffled)
    return shuffled


def _place(task: TaskView) -> tuple[str, int, str]:
    return task.group, -1 if task.task is None else task.task, task.container


def _remaining_ns(task: TaskView, now_ns: int) -> int | None:
    return task.remaining_ns


_LEAST_FIRST = Score("remaining_ns", _remaining_ns, largest_first=False)
_CHEAPEST_FIRST = Score("image_overhead_ns", lambda task, now_ns: task.image_overhead_ns, largest_first=False)
_LEAST_MEMORY_FIRST = Score("image_memory_ns", lambda task, now_ns: task.image_memory_ns, largest_first=False)
_NEWEST_FIRST = Score("started_ns", lambda task, now_ns: task.started_ns, largest_first=True)
_SMALLEST_FIRST = Score("memory_bytes", lambda task, now_ns: task.memory_bytes, largest_first=False)
_MOST_FIRST = Score("remaining_ns", _remaining_ns, largest_first=True)

TASK_EVICTION: Axis[Policy[TaskEviction]] = Axis(
    "task_eviction",
    (
        Policy("srt", shortest_remaining_time, "natjam, section 2.2", score=_LEAST_FIRST),
        Policy("lrt", longest_remaining_time, "natjam, section 2.2", score=_MOST_FIRST),
        Policy("random", random_order, "natjam, section 5", draws=True),
        Policy("smallest-memory", smallest_memory, "os-assisted-preemption, section V-A", score=_SMALLEST_FIRST),
        Policy(
            "lowest-checkpoint-cost",
            lowest_checkpoint_cost,
            "adaptive-checkpointing, section 5.2.2",
            reads=frozenset({Reads.DEVICES}),
            score=_CHEAPEST_FIRST,
        ),
        Policy(
            "cost-aware",
            cost_aware,
            "adaptive-checkpointing, section 5.2.2",
            reads=frozenset({Reads.DEVICES}),
            score=_LEAST_MEMORY_FIRST,
            across_jobs=True,
        ),
        Policy("newest", newest, "Hadoop 3.4, CapacityScheduler", score=_NEWEST_FIRST),
    ),
    Policy,
)
