"""Calls to Ray that ask processes which may hang."""

from __future__ import annotations

import inspect
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from emulator.errors import RunError
from emulator.interruption import deferred, interruptible
from emulator.live.session.ray_runtime import (
    NODE_PARAMETERS,
    RayRuntime,
    _Thread,
    allow_open_files,
    allow_processes,
    lean,
)
from emulator.live.session.setup_worker import command_of


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


def test_a_start_that_is_interrupted_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never, runtime = threading.Event(), RayRuntime()
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)

    def hang(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    monkeypatch.setattr("emulator.live.session.ray_runtime._init", hang)
    with pytest.raises(KeyboardInterrupt), interruptible(), deferred():
        runtime._connect(None, {})
    assert runtime.hangs, "its processes are killed"
    never.set()


FEW_PROCESSES = "only 64 processes and threads; raise 'ulimit -u' to 256 or more"
FEW_FILES = "only 64 files may be open at once; raise 'ulimit -n' to 1024 or more"


@pytest.mark.parametrize(
    ("allow", "user", "limits", "becomes"),
    [
        (allow_processes, 1000, (64, 4096), (4096, 4096)),
        (allow_processes, 1000, (64, 64), FEW_PROCESSES),
        (allow_processes, 0, (64, 64), (64, 64)),
        (allow_processes, 1000, (-1, -1), (-1, -1)),
        (allow_open_files, 1000, (64, 4096), (1024, 4096)),
        (allow_open_files, 1000, (2048, 4096), (2048, 4096)),
        (allow_open_files, 1000, (64, 64), FEW_FILES),
    ],
)
def test_as_many_processes_and_open_files_as_ray_needs_are_allowed_or_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
    allow: Callable[[], None],
    user: int,
    limits: tuple[int, int],
    becomes: tuple[int, int] | str,
) -> None:
    found = [limits]
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: found.append(pair))
    if isinstance(becomes, str):
        with pytest.raises(RunError, match=becomes):
            allow()
    else:
        allow()
        assert found[-1] == becomes


# ---- what a local Ray leaves out ----


def test_this_ray_knows_what_is_left_out_by_these_names() -> None:
    import ray
    from ray._private import parameter, services

    assert NODE_PARAMETERS.keys() <= inspect.signature(parameter.RayParams).parameters.keys()
    assert callable(services.start_api_server)
    with lean(ray):
        looked_for = ray._private.utils.get_dashboard_dependency_error()
    assert (looked_for is None) == (ray._private.utils.get_dashboard_dependency_error() is None)


def test_a_ray_that_does_not_know_it_starts_as_it_does() -> None:
    private = SimpleNamespace(
        parameter=SimpleNamespace(RayParams=lambda head: head), services=SimpleNamespace(), utils=SimpleNamespace()
    )
    before = private.parameter.RayParams
    with lean(SimpleNamespace(_private=private)):
        assert private.parameter.RayParams(head=True) is True
        assert vars(private.services) == vars(private.utils) == {}
    assert private.parameter.RayParams is before


def test_ray_has_its_own_again_afterwards() -> None:
    private = SimpleNamespace(
        parameter=SimpleNamespace(RayParams=lambda head, no_monitor=False: (head, no_monitor)),
        services=SimpleNamespace(start_api_server=lambda: "started"),
        utils=SimpleNamespace(),
    )
    with lean(SimpleNamespace(_private=private)):
        assert private.parameter.RayParams(head=True) == (True, True)
        assert private.services.start_api_server() == (None, None)
    assert private.parameter.RayParams(head=True) == (True, False)
    assert private.services.start_api_server() == "started"


def test_a_worker_starts_with_the_python_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = ["/ray/workers/default_worker.py", "--node-id=1"]
    assert command_of({"env_vars": {"A": "b"}}, "PYTHON", worker) == [sys.executable, *worker]
    assert command_of({"py_executable": "'/a place/python' -u"}, "PYTHON", worker) == ["/a place/python", "-u", *worker]
    monkeypatch.setattr(sys, "argv", ["setup_worker.py", "--language=JAVA", *worker])
    rays_own = [sys.executable, "/ray/workers/setup_worker.py", "--language=JAVA", *worker]
    assert command_of({"command_prefix": ["cd", "/x", "&&"]}, "PYTHON", worker) == rays_own
    assert command_of({}, "JAVA", worker) == rays_own
