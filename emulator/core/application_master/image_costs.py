"""The cost of an image of a task: the size of its memory at the device's speed, and the wait for the device.

The wait is what the ResourceManager counts of all jobs, where it chooses the container (adaptive-checkpointing, section
5.2.2).  Otherwise an ApplicationMaster knows only the writes that it has itself requested on a node's device, and keeps
a queue of its own for each node.
"""

from __future__ import annotations

from msgspec import structs

from emulator.core.application_master.devices import DeviceQueue
from emulator.core.application_master.job_progress import WHOLE_PPM
from emulator.policies.adaptive_checkpointing import image_overhead_ns
from emulator.policies.views import TaskView
from emulator.vocabulary import JobFacts, Tier


class ImageCosts:
    """Image costs for the tasks of one job."""

    def __init__(self, tier: Tier | None, facts: JobFacts) -> None:
        self._tier = tier
        self._facts = facts
        self._queues: dict[str, DeviceQueue] = {}

    def weighed(self, task: TaskView, now_ns: int, told_ns: int | None = None) -> TaskView:
        """The task with the cost of making an image of it now, if images can be made; ``told_ns``: the wait for the
        device, where the ResourceManager has counted it."""
        tier = self._tier
        if tier is None:
            return task
        if task.is_saved:
            return structs.replace(task, image_overhead_ns=0, image_memory_ns=0, image_dump_ns=0)
        dump_bytes = self._dump_bytes(tier, task)
        size_bytes = self._facts.footprint_bytes(task.group, task.task or 0, _done_ppm(task))
        queue_ns = self._queue(task.node, now_ns).wait_ns(now_ns) if told_ns is None else told_ns
        overhead_ns, memory_ns = (
            image_overhead_ns(tier, written_bytes, size_bytes, queue_ns) for written_bytes in (dump_bytes, size_bytes)
        )
        return structs.replace(
            task,
            image_overhead_ns=overhead_ns,
            image_memory_ns=memory_ns,
            image_dump_ns=tier.write_ns(dump_bytes),
        )

    def begin(self, task: TaskView, now_ns: int) -> None:
        """An image of the task has been ordered."""
        if self._tier is not None:
            queue = self._queue(task.node, now_ns)
            dump_ns = self._tier.write_ns(self._dump_bytes(self._tier, task))
            queue.submit(f"{task.container} {now_ns}", dump_ns, now_ns)

    def _dump_bytes(self, tier: Tier, task: TaskView) -> int:
        return tier.dump_bytes(self._facts, task.group, task.task or 0, task.has_image, _done_ppm(task))

    def _queue(self, node: str, now_ns: int) -> DeviceQueue:
        """The queue of a node's device, without the writes that must be finished by now at the device's speed."""
        queue = self._queues.get(node)
        if queue is None:
            assert self._tier is not None
            queue = self._queues[node] = DeviceQueue(self._tier.at_once)
        while (due := queue.next_due()) is not None and due[0] <= now_ns:
            queue.end(due[1], due[0])
        return queue


def _done_ppm(task: TaskView) -> int:
    """Share of its work that a task has done, in millionths.  One that counts no keys counts as done: it may then use
    all its memory."""
    return WHOLE_PPM if not task.keys_total else (task.keys_done or 0) * WHOLE_PPM // task.keys_total
