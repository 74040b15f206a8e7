"""The two algorithms of adaptive-checkpointing (section 4.1), on plain numbers.

Times are emulated nanoseconds, sizes bytes, speeds bytes a second.  Times are rounded up to whole nanoseconds.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from emulator.vocabulary import Tier, transfer_ns


class Resumption(NamedTuple):
    """Where an image is restored, and the numbers that decided it."""

    where: Literal["local", "remote"]
    local_ns: int
    remote_ns: int


def image_overhead_ns(tier: Tier, dump_bytes: int, restore_bytes: int, dump_queue_ns: int) -> int:
    """Cost of saving a task and restoring it: size/write + size/read + the wait for the device (Algorithm 1).

    ``dump_bytes`` is less than ``restore_bytes`` where an earlier image holds the unchanged pages and the cost is of
    what is really written; in the paper's text both are the task's size.
    """
    return tier.write_ns(dump_bytes) + tier.read_ns(restore_bytes) + dump_queue_ns


def resume(
    size_bytes: int,
    read_bytes_s: int,
    network_bytes_s: int,
    local_queue_ns: int,
    remote_queue_ns: int,
) -> Resumption:
    """Restore an image on its own node, or on another node if that is sooner (Algorithm 2).

    Each queue time is the wait for the device plus the wait for a slot.
    """
    read_ns = transfer_ns(size_bytes, read_bytes_s)
    local_ns = read_ns + local_queue_ns
    remote_ns = transfer_ns(size_bytes, network_bytes_s) + read_ns + remote_queue_ns
    return Resumption("local" if local_ns <= remote_ns else "remote", local_ns, remote_ns)
