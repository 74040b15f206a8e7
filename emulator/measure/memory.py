"""Memory and swap: how fast a task writes and reads its memory, alone and on a node whose memory is full.

The swap is a file of this part's own, in its directory, and the node a memory cgroup: two tasks of which one fits.  The
first is stopped once it has written its memory; what the second writes then sends that out, and the first, when it goes
on, reads it back in (os-assisted-preemption, section IV-C).  Without root the first two figures alone are measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from emulator.core.settings import NodeSettings
from emulator.errors import RunError
from emulator.live.janitor import RUN_VARIABLE
from emulator.live.memory.cgroup import NoMemoryGroups
from emulator.live.memory.held import HeldMemory
from emulator.live.memory.nodes import NodeMemories, why_no_swap
from emulator.live.memory.swap_file import SwapFailed
from emulator.measure.parts import Surroundings
from emulator.measure.samples import Samples

_SIZE_BYTES, _QUICK_SIZE_BYTES = 256 << 20, 64 << 20
_ROUNDS = 10
_NODE = "measured"


def measure_memory(around: Surroundings) -> Samples:
    """Measure all of it.  Raises RunError."""
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
    with _Holder(run_id, size_bytes, group) as low:
        samples.add("memory_write", low.write(), size_bytes)
        if group is None:
            samples.add("memory_read", low.check(), size_bytes)
            return
        low.send(signal.SIGSTOP)
        with _Holder(run_id, size_bytes, group) as high:
            samples.add("swap_out", high.write(), size_bytes)
            samples.add("memory_read", high.check(), size_bytes)
        low.send(signal.SIGCONT)
        samples.add("swap_in", low.check(), size_bytes)


class _Holder:
    """A process that holds memory."""

    def __init__(self, run_id: str, size_bytes: int, group: str | None) -> None:
        command = [sys.executable, "-m", "emulator.measure.memory", str(size_bytes), group or ""]
        environment = os.environ | {RUN_VARIABLE: run_id}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)

    def __enter__(self) -> _Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def write(self) -> int:
        """Have it write its memory; real nanoseconds."""
        return self._do(b"write\n")

    def check(self) -> int:
        """Have it read its memory back; real nanoseconds."""
        return self._do(b"check\n")

    def _do(self, what: bytes) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what)
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RunError(
                "measuring memory failed: the process that holds it has ended; is this machine's memory full?"
            )
        return int(answer)


def main() -> None:
    """Hold memory: a line ``write`` or ``check`` comes in, what it took goes out."""
    size_bytes, group = sys.argv[1:]
    if group:
        Path(group).write_text("0")
    held = HeldMemory(int(size_bytes))
    for line in sys.stdin:
        began_real_ns = time.monotonic_ns()
        (held.write if line == "write\n" else held.check)(lambda: None)
        print(time.monotonic_ns() - began_real_ns, flush=True)


if __name__ == "__main__":
    main()
