"""Programs that tests stop and save, each in its own process group, like the supervisor's tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from emulator.live.dumpers import Dumper
from emulator.live.dumpers.criu import CriuDumper, find_criu
from emulator.live.dumpers.images import Restored, restore_process
from emulator.live.tasks.imaging import ImageParameters
from emulator.storage.images import ImageChain, ImageDamaged
from workloads.programs import kmeans

BOUND_S = 120.0


def criu_or_skip() -> CriuDumper:
    """A dumper that works here; otherwise the test is skipped, with the reason."""
    found = find_criu()
    if found is None:
        pytest.skip("there is no criu here; 'make criu' gets one")
    if found.problem is not None:
        pytest.skip(f"{found.path}: {found.problem}")
    return CriuDumper(found.path)


def image_parameters(directory: Path, folder: str, dumper: str, /, **changed: Any) -> dict[str, Any]:
    """Launch parameters of a task whose images are below ``directory``, on a device that is not held back."""
    found = find_criu() if dumper == CriuDumper.name else None
    images = ImageParameters(
        dumper,
        "" if found is None else found.path,
        folder=str(directory / folder),
        at_most=8,
        staging=str(directory / "staging"),
        device=str(directory / "device"),
        at_once=1,
        write_bytes_real_s=0,
        read_bytes_real_s=0,
        latency_real_ns=0,
    )
    return {**asdict(images), **changed}


class Program:
    """A running program; later it may be another process with the same id."""

    def __init__(self, command: list[str], output: Path) -> None:
        with open(output, "wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=os.setpgrp
            )
        process.returncode = 0  # reaped here, and not by subprocess
        self.pid = process.pid
        self.output = output
        self.alive = True

    def printed(self, text: str) -> None:
        """Wait until it has printed ``text``."""
        deadline = time.monotonic() + BOUND_S
        while text not in self.output.read_text():
            assert time.monotonic() < deadline, f"not printed: {text!r}; {self.output.read_text()!r}"
            time.sleep(0.005)

    def stop(self) -> bool:
        """Send SIGTSTP and wait until it has stopped; False if it has ended instead."""
        os.kill(self.pid, signal.SIGTSTP)
        changed = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED)
        assert changed is not None
        self.alive = changed.si_code == os.CLD_STOPPED
        return self.alive

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    def ended(self) -> int:
        """Wait for its end; returns its status, negative for a signal."""
        changed = os.waitid(os.P_PID, self.pid, os.WEXITED)
        assert changed is not None
        self.alive = False
        return changed.si_status if changed.si_code == os.CLD_EXITED else -changed.si_status


@contextmanager
def running(command: list[str], output: Path) -> Iterator[Program]:
    """A program that has ended when the block ends."""
    program = Program(command, output)
    try:
        yield program
    finally:
        if program.alive:
            program.kill()


def kmeans_command(*options: str) -> list[str]:
    return [sys.executable, kmeans.__file__, *options]


def state_of(pid: int) -> str:
    """The kernel's letter for the state of a process; T: stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def restore_newest(dumper: Dumper, chain: ImageChain) -> Restored:
    """Restore the newest undamaged image.  Raises ImageDamaged if there is none."""
    damaged = []
    for number in chain.numbers():
        try:
            return restore_process(dumper, chain, number)
        except ImageDamaged as error:
            damaged.append(str(error))
    raise ImageDamaged("; ".join(damaged) or f"{chain.folder}: has no image")


def hidden(place: Path, between_s: float = 0.003) -> str:
    """The script of a program that starts what leaves its process group and session, has no environment, ignores
    SIGTSTP, and starts others all the time: each of ten does so every ``between_s`` seconds.
    """
    return f"""\
setsid -f env -i sh -c 'trap "" TSTP HUP TERM; while :; do echo x >> {place}/lines; sleep {between_s}; done'
for i in 1 2 3 4 5 6 7 8 9 10
do setsid -f sh -c 'while :; do sleep {between_s} & sleep {between_s}; done; : {place}'
done
while [ ! -s {place}/lines ]; do sleep 0.01; done
echo hidden
"""


def of_place(place: Path) -> list[psutil.Process]:
    """The processes that name a directory in their command line, and their children."""
    found = []
    for process in psutil.process_iter(["cmdline", "ppid"]):
        if str(place) in " ".join(process.info["cmdline"] or ()) and process.pid != os.getpid():
            found.append(process)
    pids = {process.pid for process in found}
    return found + [process for process in psutil.process_iter(["ppid"]) if process.info["ppid"] in pids - {1}]


def running_of(place: Path) -> list[str]:
    """Those that run.  (In disk sleep is one that waits in vfork for a child, which has stopped.)"""
    idle = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DISK_SLEEP)
    found = []
    for process in of_place(place):
        with suppress(psutil.NoSuchProcess):
            if (status := process.status()) not in idle:
                found.append(f"{process.pid} {status}")
    return found
