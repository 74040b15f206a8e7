"""Memory and swap: how fast a task writes and reads its memory, alone and on a node whose memory is full.

The swap is a file in this part's own directory, and the node is a memory cgroup with room for one of two tasks.  The
first task is stopped after it has written its memory.  The second task writes its own, which pages the first one's out.
When the first task continues, it reads its memory back in (os-assisted-preemption, section IV-C).  Without root, only
the first two figures are measured.
"""

from __future__ import annotations

import signal

from emulator.core.settings import NodeSettings
from emulator.errors import RunError
from emulator.live.cgroups import NoMemoryGroups
from emulator.live.memory.holder import MemoryHolder
from emulator.live.memory.nodes import NodeMemories, why_no_swap
from emulator.live.memory.swap_file import SwapFailed
from emulator.measure.samples import Samples, Surroundings

_SIZE_BYTES, _QUICK_SIZE_BYTES = 256 << 20, 64 << 20
_ROUNDS = 10
_NODE = "measured"


def measure_memory(around: Surroundings) -> Samples:
    """Measure memory and, if possible, swap.  Raises RunError."""
    samples, rounds = Samples(), min(around.rounds, _ROUNDS)
    size_bytes = _QUICK_SIZE_BYTES if around.quick else _SIZE_BYTES
    node = NodeSettings(_NODE, "rack-1", 1, size_bytes, size_bytes, 2 * size_bytes, max_suspended=1)
    memories = NodeMemories(around.run_id, around.directory, 1.0, [node] if why_no_swap() is None else [])
    try:
        memories.open()
    except (SwapFailed, NoMemoryGroups) as error:
        raise RunError(f"swap cannot be measured: {error}") from None
    try:
        group = memories.processes_file(_NODE)
        for number in range(rounds):
            _round(around.run_id, size_bytes, group, samples)
            around.progress((number + 1) / rounds)
    finally:
        memories.close()
    return samples


def _round(run_id: str, size_bytes: int, group: str | None, samples: Samples) -> None:
    with MemoryHolder(run_id, size_bytes, group) as low:
        samples.add("memory_write", low.write(), size_bytes)
        if group is None:
            samples.add("memory_read", low.check(), size_bytes)
            return
        low.send(signal.SIGSTOP)
        with MemoryHolder(run_id, size_bytes, group) as high:
            samples.add("swap_out", high.write(), size_bytes)
            samples.add("memory_read", high.check(), size_bytes)
        low.send(signal.SIGCONT)
        samples.add("swap_in", low.check(), size_bytes)
