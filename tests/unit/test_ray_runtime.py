"""Calls to Ray that ask processes which may hang."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from emulator.interruption import deferred, interruptible
from emulator.live.session.ray_runtime import RayRuntime, _Thread


@pytest.fixture
def runtime() -> Iterator[RayRuntime]:
    """One whose thread takes calls; there is no Ray."""
    runtime = RayRuntime()
    runtime._thread = _Thread()
    yield runtime
    runtime._thread.end()


def test_a_call_gives_its_result_or_its_error(runtime: RayRuntime) -> None:
    assert runtime.answer(lambda: 5, 10) == 5
    with pytest.raises(ZeroDivisionError):
        runtime.answer(lambda: 1 // 0, 10)
    assert not runtime.hangs


def test_a_call_that_hangs_is_given_up_in_time(runtime: RayRuntime) -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError):
        runtime.answer(never.wait, 0.05)
    assert runtime.hangs, "ending this Ray waits for no call any more"
    never.set()


def test_a_call_that_hangs_can_be_interrupted(runtime: RayRuntime) -> None:
    never = threading.Event()

    def hang() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt), interruptible(), deferred():
        runtime.answer(hang, 30)
    never.set()
