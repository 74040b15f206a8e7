"""The two algorithms of adaptive-checkpointing (section 4.1), on plain numbers.

Times are emulated nanoseconds, sizes bytes, speeds bytes a second; nothing is rounded but up to a whole nanosecond.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from emulator.vocabulary import transfer_ns


class Preemption(NamedTuple):
    """What becomes of a victim, and the numbers that decided."""

    how: Literal["kill", "image", "incremental-image"]
    progress_ns: int
    overhead_ns: int


class Resumption(NamedTuple):
    """Where an image is restored, and the numbers that decided."""

    where: Literal["local", "remote"]
    local_ns: int
    remote_ns: int


def image_overhead_ns(
    dump_bytes: int, restore_bytes: int, write_bytes_s: int, read_bytes_s: int, dump_queue_ns: int
) -> int:
    """What saving a task and restoring it costs: size/write + size/read + the wait for the device (Algorithm 1).

    ``dump_bytes`` are fewer than ``restore_bytes`` where an earlier image holds the pages that have not changed.
    """
    return transfer_ns(dump_bytes, write_bytes_s) + transfer_ns(restore_bytes, read_bytes_s) + dump_queue_ns


def preempt(progress_ns: int, overhead_ns: int, has_image: bool) -> Preemption:
    """Kill a task that has done less since it was last saved than an image of it costs (Algorithm 1).

    Args:
        progress_ns: work that killing it would lose: all it has done since its last image, or since its start.
        overhead_ns: see ``image_overhead_ns``.
        has_image: whether an earlier image is there that an incremental one can rest on.
    """
    if progress_ns <= overhead_ns:
        return Preemption("kill", progress_ns, overhead_ns)
    return Preemption("incremental-image" if has_image else "image", progress_ns, overhead_ns)


def resume(
    size_bytes: int,
    read_bytes_s: int,
    network_bytes_s: int,
    local_queue_ns: int,
    remote_queue_ns: int,
) -> Resumption:
    """Restore an image where it is, or on another node where that is sooner (Algorithm 2).

    The queues are the waits for the device and for a slot together.
    """
    read_ns = transfer_ns(size_bytes, read_bytes_s)
    local_ns = read_ns + local_queue_ns
    remote_ns = transfer_ns(size_bytes, network_bytes_s) + read_ns + remote_queue_ns
    return Resumption("local" if local_ns <= remote_ns else "remote", local_ns, remote_ns)
