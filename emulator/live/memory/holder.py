"""A process that only uses memory, for measuring what it costs to page that out and in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from emulator.errors import RunError
from emulator.live.janitor import RUN_VARIABLE
from emulator.live.memory.held import HeldMemory


class MemoryHolder:
    """Handle of the process, which is killed at the end of the ``with``.  Raises RunError if it has ended before."""

    def __init__(self, run_id: str, size_bytes: int, group: str | None) -> None:
        command = [sys.executable, "-m", "emulator.live.memory.holder", str(size_bytes), group or ""]
        environment = os.environ | {RUN_VARIABLE: run_id}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)

    def __enter__(self) -> MemoryHolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def write(self) -> int:
        """Let it write its memory; returns the time, real nanoseconds."""
        return self._do(b"write\n")

    def check(self) -> int:
        """Let it read its memory back; returns the time, real nanoseconds."""
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
    """Use memory: for each input line ``write`` or ``check``, do that and print how long it took."""
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
