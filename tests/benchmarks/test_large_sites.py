"""How long the commands take on large sites, until they show something and until their end, and their memory.

``pytest -s tests/benchmarks/test_large_sites.py`` prints the tables of docs/limits.md.  A command that takes longer
than ``MOST_S`` is stopped.  Nothing is held: times are those of the clock, and other work on the machine counts.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from large_sites import NODES_OF_YARN, write_kubernetes, write_kueue, write_slurm, write_yarn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MOST_S = float(os.environ.get("MOST_S", "60"))
_MOST_TO_STOP_S, _LOOK_S = 20, 0.2
_ANSWER = b"This is of "
_NATJAM = "from emulator.cli.script import main; main()"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command took."""

    first_s: float | None
    """Until its first output, which is an answer or its progress; None: there was none."""
    answer_s: float | None
    """Until the first answer of advice, which says of what it is; None: there was none."""
    silent_s: float
    """The longest time without any output."""
    took_s: float
    is_stopped: bool
    status: int
    memory_mib: float
    """The most that it and its processes have together, looked at five times a second."""

    def __str__(self) -> str:
        first = "none" if self.first_s is None else f"{self.first_s:.1f} s"
        took = f"over {MOST_S:.0f} s" if self.is_stopped else f"{self.took_s:.1f} s"
        first += "" if self.answer_s is None else f", an answer after {self.answer_s:.1f} s"
        return f"{first} | {self.silent_s:.1f} s | {took} | {self.memory_mib:,.0f} MiB"


def measured(arguments: Iterable[object], folder: Path) -> Measured:
    """Run a command of natjam in ``folder``; it is stopped as with Ctrl-C after ``MOST_S``."""
    command = [sys.executable, "-P", "-c", _NATJAM, *map(str, arguments)]
    began_s = last_s = time.monotonic()
    first_s, answer_s, silent_s, is_stopped, memory_bytes = None, None, 0.0, False, 0
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector, process.stdout as output, (folder / "output.txt").open("ab") as kept:
        selector.register(output, selectors.EVENT_READ)
        while True:
            left_s = began_s + MOST_S + is_stopped * _MOST_TO_STOP_S - time.monotonic()
            ready = selector.select(max(0.0, min(left_s, _LOOK_S)))
            memory_bytes = max(memory_bytes, _memory_bytes(process.pid))
            now_s = time.monotonic()
            silent_s = silent_s if is_stopped else max(silent_s, now_s - last_s)
            if ready:
                last_s, piece = now_s, os.read(output.fileno(), 1 << 16)
                kept.write(piece)
                if not piece:
                    break
                first_s = now_s - began_s if first_s is None else first_s
                if answer_s is None and _ANSWER in piece:
                    answer_s = now_s - began_s
            elif left_s > _LOOK_S:
                continue
            elif is_stopped:
                os.killpg(process.pid, signal.SIGKILL)
                break
            else:
                is_stopped = True
                process.send_signal(signal.SIGINT)
    status = process.wait()
    return Measured(first_s, answer_s, silent_s, time.monotonic() - began_s, is_stopped, status, memory_bytes / 2**20)


def _memory_bytes(pid: int) -> int:
    """Of a process and its children."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            total += each.memory_info().rss
    return total


def _show(site: str, folder: Path, commands: Iterable[tuple[object, ...]], may_fail: tuple[str, ...] = ()) -> None:
    """Run each command and print a row of the table for it."""
    print(f"\n{site}\ncommand | first output | longest silence | end | memory")
    for arguments in commands:
        found = measured(arguments, folder)
        print(f"{arguments[0]} | {found}", flush=True)
        assert found.is_stopped or not found.status or arguments[0] in may_fail, (folder / "output.txt").read_text()


def test_slurm(tmp_path: Path) -> None:
    conf, sacct = write_slurm(tmp_path)
    _show(
        "Slurm: 300 nodes, 20,000 rows of sacct",
        tmp_path,
        [
            ("import", "slurm", "--conf", conf, "--sacct", sacct, "--out", "site.yaml"),
            ("play", "site.yaml"),
            ("advise", "site.yaml"),
            ("run", "site.yaml"),
        ],
    )


def test_kubernetes(tmp_path: Path) -> None:
    cluster, waiting = write_kubernetes(tmp_path)
    _show(
        "Kubernetes: 200 nodes, 2,000 pods",
        tmp_path,
        [
            ("import", "kubernetes", cluster, "--out", "site.yaml"),
            ("who", cluster, waiting),
            ("play", "site.yaml"),
            ("run", "site.yaml"),
        ],
    )


def test_kueue(tmp_path: Path) -> None:
    _show(
        "Kueue: 50 ClusterQueues, 2,000 Workloads",
        tmp_path,
        [
            ("import", "kueue", *write_kueue(tmp_path), "--out", "site.yaml"),
            ("loops", "site.yaml", "--seconds", "20"),
            ("advise", "site.yaml"),
            ("run", "site.yaml"),
        ],
        may_fail=("loops",),  # it has found one
    )


def test_yarn(tmp_path: Path) -> None:
    options = [part for option, path in write_yarn(tmp_path).items() for part in (f"--{option}", path)]
    _show(
        "YARN: 300 applications",
        tmp_path,
        [
            ("import", "yarn", *options, "--nodes", NODES_OF_YARN, "--out", "site.yaml"),
            ("run", "site.yaml"),
            ("advise", "site.yaml"),
        ],
    )
