"""Reads and writes are held to an emulated device's speed: never sooner, however many share it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.live.tasks.imaging import DevicePacer

RATE = 10_000_000
"""Bytes a real second; 100,000 of them take 10 ms."""


def test_bytes_take_at_least_their_time(tmp_path: Path) -> None:
    pacer = DevicePacer(tmp_path / "device", RATE, latency_real_ns=20_000_000)
    began_real_ns = time.monotonic_ns()
    pace = pacer.operation()
    for _ in range(5):
        pace(100_000)
    assert time.monotonic_ns() - began_real_ns >= 70_000_000
    assert pacer.expected_real_ns(100_000) == 10_000_000


def test_an_idle_device_gives_no_credit_to_the_next_operation(tmp_path: Path) -> None:
    pacer = DevicePacer(tmp_path / "device", RATE)
    pacer.operation()(1)
    time.sleep(0.05)
    began_real_ns = time.monotonic_ns()
    pacer.operation()(300_000)
    assert time.monotonic_ns() - began_real_ns >= 30_000_000


def test_processes_share_one_device(tmp_path: Path) -> None:
    path = tmp_path / "device"
    code = (
        "import sys; from pathlib import Path; from emulator.live.tasks.imaging import DevicePacer\n"
        f"pace = DevicePacer(Path({str(path)!r}), {RATE}).operation()\n"
        "for _ in range(10): pace(100_000)"
    )
    began_real_ns = time.monotonic_ns()
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(30) for process in processes] == [0, 0, 0]
    assert time.monotonic_ns() - began_real_ns >= 300_000_000


def test_a_device_without_speed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 bytes a second"):
        DevicePacer(tmp_path / "device", 0)
