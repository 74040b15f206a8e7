"""Many dumps and restores of many processes, half of them by another node host: none lost, none twice, none changed."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.programs import criu_or_skip

PROCESSES, CYCLES, HOSTS = 20, 200, 2


class Host:
    """The other end of ``tests.image_host``."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.image_host", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *command: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0


PROGRAM = """
import ctypes, hashlib, sys, time
ctypes.CDLL(None).prctl(1, 9)  # end with the host
seed, path = sys.argv[1:]
memory, digest = bytearray(seed.encode() * (4 << 20)), b""
for step in range(240):
    time.sleep(1)
    memory[step * 16_000] = step
    digest = hashlib.sha256(digest + memory).digest()
open(path, "wb").write(digest)
"""
"""Does little, so that twenty leave the machine to others; what it writes depends on all of its memory at each step."""


def command_of(number: int, out: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(number), str(out)]


def result_of(number: int) -> bytes:
    """What the program writes, undisturbed."""
    memory, digest = bytearray(str(number).encode() * (4 << 20)), b""
    for step in range(240):
        memory[step * 16_000] = step
        digest = hashlib.sha256(digest + memory).digest()
    return digest


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_cycles_lose_and_change_nothing(tmp_path: Path) -> None:
    criu_or_skip()
    hosts = [Host(tmp_path) for _ in range(HOSTS)]
    try:
        cycle_programs(tmp_path, hosts)
    finally:
        for host in hosts:
            host.process.kill()
            host.process.wait()


def cycle_programs(tmp_path: Path, hosts: list[Host]) -> None:
    where = {f"p{number}": 0 for number in range(PROCESSES)}
    pids = {
        name: hosts[0].do("start", name, command_of(number, tmp_path / f"{name}")) for number, name in enumerate(where)
    }
    chance, moved = random.Random(1), 0
    for cycle in range(CYCLES):
        name = f"p{cycle % PROCESSES}"
        assert hosts[where[name]].do("save", name), f"{name} ended after {cycle} cycles: give it more iterations"
        before, where[name] = where[name], chance.randrange(HOSTS)
        moved += before != where[name]
        assert hosts[where[name]].do("restore", name) == pids[name]
    assert moved > CYCLES / 3
    assert {psutil.Process(pid).ppid() for pid in pids.values()} <= {host.process.pid for host in hosts}
    assert {hosts[host].do("ended", name) for name, host in where.items()} == {0}
    for host in hosts:
        assert psutil.Process(host.process.pid).children(recursive=True) == []
        host.close()
    shutil.rmtree(tmp_path / "images")
    for number, name in enumerate(where):
        assert (tmp_path / f"{name}").read_bytes() == result_of(number), name
