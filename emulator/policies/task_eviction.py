"""Task eviction: the reduces of the victim job in the order they are taken (natjam, section 2.2)."""

from __future__ import annotations

from random import Random

from emulator.policies.views import TaskEvictionView, TaskView

# An attempt without an estimate has only just begun: it counts as having the most time left.
_NO_ESTIMATE_NS = 1 << 62


def shortest_remaining_time(view: TaskEvictionView, random: Random) -> tuple[str, ...]:
    """SRT: least time left first; respects the job's tail.  natjam, section 2.2 and Theorem 2.1."""
    return _by_remaining(view, random, sign=1)


def longest_remaining_time(view: TaskEvictionView, random: Random) -> tuple[str, ...]:
    """LRT: most time left first; frees more sooner, lengthens the tail.  natjam, section 2.2."""
    return _by_remaining(view, random, sign=-1)


def random_order(view: TaskEvictionView, random: Random) -> tuple[str, ...]:
    """Random: any order, by seed.  natjam, section 5 (the baseline of Fig. 5)."""
    return tuple(task.container for task in _shuffled(view.tasks, random))


def _by_remaining(view: TaskEvictionView, random: Random, sign: int) -> tuple[str, ...]:
    # Shuffled first, sorted stably after: equal estimates fall in random order.
    tasks = _shuffled(view.tasks, random)
    tasks.sort(key=lambda task: sign * (_NO_ESTIMATE_NS if task.remaining_ns is None else task.remaining_ns))
    return tuple(task.container for task in tasks)


def _shuffled(tasks: tuple[TaskView, ...], random: Random) -> list[TaskView]:
    shuffled = sorted(tasks, key=lambda task: task.task)
    random.shuffle(shuffled)
    return shuffled
