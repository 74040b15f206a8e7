"""Calls to Ray that ask processes which may hang."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator

import pytest

from emulator.errors import RunError
from emulator.interruption import deferred, interruptible
from emulator.live.session.ray_runtime import RayRuntime, _Thread, allow_open_files, allow_processes


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


@pytest.mark.parametrize(
    ("user", "soft", "hard", "becomes"),
    [(1000, 64, 4096, 4096), (1000, 64, 64, None), (0, 64, 64, 64), (1000, -1, -1, -1)],
)
def test_as_many_processes_as_ray_needs_may_run_or_that_is_said(
    monkeypatch: pytest.MonkeyPatch, user: int, soft: int, hard: int, becomes: int | None
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    if becomes is None:
        with pytest.raises(RunError, match="only 64 processes and threads; raise 'ulimit -u' to 256 or more"):
            allow_processes()
    else:
        allow_processes()
        assert limits[-1][0] == becomes


@pytest.mark.parametrize(("soft", "hard", "becomes"), [(64, 4096, 1024), (2048, 4096, 2048), (64, 64, None)])
def test_as_many_files_as_ray_needs_may_be_open_or_that_is_said(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, becomes: int | None
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    if becomes is None:
        with pytest.raises(RunError, match="only 64 files may be open at once; raise 'ulimit -n' to 1024 or more"):
            allow_open_files()
    else:
        allow_open_files()
        assert limits[-1] == (becomes, hard)
