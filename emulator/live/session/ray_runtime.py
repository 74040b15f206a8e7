"""Ray, for one live run or for several in a row: its own local one, or the cluster that ``RAY_ADDRESS`` names.

Theory of operation
-------------------
A run starts Ray if there is none, and stops it at its end.  A caller with several runs keeps one Ray for all of them
(``ray_for_runs``), because starting and stopping Ray takes as long as a short run.  The runs stay separate: every
process of a run is started for it, carries its id and is killed at its end.  If a run has failed, its Ray is not used
again: the next run starts a new one.

Whatever state Ray's processes are in, ending them has a bound.  Each call that could wait for one that hangs is made in
a thread of its own, and is given up after some time.  Then the janitors kill by force, and Ray is not used again.

A local Ray has its own directory and janitor, like a run.  So if this process dies, nothing stays.  Ray opens the
directories that it is given to all users; so it gets ones inside, where they cannot come.  Its sockets are in another
directory than its data, because ``TMPDIR`` may be longer than the path of a socket may be.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib.util
import inspect
import logging
import os
import queue
import resource
import secrets
import shlex
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

from emulator.errors import RunError
from emulator.files.whole_files import new_held_directory
from emulator.interruption import check_interrupted, deferred, interruptible, result_of
from emulator.live import encryption
from emulator.live.janitor import (
    RUN_VARIABLE,
    Janitor,
    clean_up,
    end_run_processes,
    run_directory,
    socket_directory,
    start_janitor,
)

_REACH_TIMEOUT_REAL_S = 5.0
_END_TIMEOUT_REAL_S = 15.0
"""For Ray to end by itself; usually it takes one or two seconds."""
_LOOK_REAL_S = 0.1
_LEAST_OPEN_FILES = 1024
"""What processes usually may have, unless somebody has lowered it."""
_LEAST_PROCESSES, _LIKELY_ENOUGH_PROCESSES = 256, 4096
"""Threads count.  On two cores those of Ray are 154, before there is any host or task."""
_FORCED_TIMEOUT_REAL_S = 5.0
"""For a call to Ray to return after all of its processes were killed."""
_LOOPBACK = ("127.0.0.1:", "localhost:")
_OF_RAY = "r"
"""Ray's own directory, inside those of this run of Ray."""
_OBJECT_STORE_BYTES = 100 * 1024 * 1024  # nothing is stored there; Ray's minimum is 75 MiB

_TOKEN = secrets.token_hex(32)
"""Token of the local clusters that this process starts, one after another: Ray reads a process's token only once."""


class RayRuntime:
    """A connection to Ray; the first ``start`` makes it."""

    def __init__(self) -> None:
        self._id = f"ray-{secrets.token_hex(4)}"
        self._thread: _Thread | None = None
        """Ray's processes live as long as the thread that started them."""
        self.hangs = False
        """It has not done in time what it was asked to end."""
        self._was_interrupted = False
        """While it started: it is not waited for any more."""
        self._held = contextlib.ExitStack()
        self._ray: Any = None

    def start(self) -> Any:
        """The module ``ray``, connected; if it is connected already, returns at once.

        Raises RunError if Ray cannot be started or reached, KeyboardInterrupt.
        """
        if self._ray is not None:
            return self._ray
        if _stuck:
            raise RunError("the last Ray of this process does not end; start natjam again to go on")
        self.hangs = False
        allow_open_files()
        allow_processes()
        address = os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        try:
            if address is not None:
                check_reachable(address)
                # All variables must be set before ray is imported; otherwise ray.init hangs and fails.
                self._set_environment(ray_variables(address))
            else:
                options |= self._prepare_local()
            self._connect(address, options)
        except BaseException:
            self.stop()
            raise
        return self._ray

    def _prepare_local(self) -> dict[str, Any]:
        """Make directories, janitor and environment of a local Ray; returns the options for ``ray.init``."""
        root = run_directory(self._id)
        of_ray = root / _OF_RAY
        if not str(of_ray).isascii():
            raise RunError(f"TMPDIR={root.parent}: Ray takes only ASCII characters there; set another one")
        directories = list(dict.fromkeys([root, socket_directory(self._id)]))  # under /tmp they are the same
        self._held.callback(leave_nothing, start_janitor(self._id, directories), self._id, directories)
        for directory in directories:
            self._held.enter_context(new_held_directory(directory))
        self._set_environment(
            {
                **ray_variables(None),
                RUN_VARIABLE: self._id,
                encryption.SWITCH: "0",  # its messages stay on this machine
                "RAY_AUTH_TOKEN": _TOKEN,
                "RAY_worker_niceness": "0",  # reducers inherit it, and must wake up on time
                "RAY_memory_monitor_refresh_ms": "0",  # it does not count stopped processes and ignores swap
                "RAY_prestart_worker_first_driver": "0",  # actors differ in environment: none would be used
                "RAY_enable_worker_prestart": "0",
            }
        )
        return {
            "num_cpus": 2,
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": str(of_ray),
            # Ray puts it into a line for a shell as it is, and a checkout's path may have a space.
            "runtime_env": {"py_executable": shlex.quote(sys.executable)},
        }

    def _connect(self, address: str | None, options: dict[str, Any]) -> None:
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)  # it complains that this is not the main thread
        self._thread = _Thread()
        self._ray = ray
        started = self._thread.submit(lambda: _init(ray, address, options, socket_directory(self._id) / _OF_RAY))
        try:
            while not started.done():
                with contextlib.suppress(TimeoutError):
                    result_of(started, _LOOK_REAL_S)
                check_interrupted()
            started.result()
        except KeyboardInterrupt:
            self._was_interrupted = (
                self.hangs
            ) = not started.done()  # its processes are killed, instead of waiting for its start and its end
            threading.excepthook = partial(_unless_of_ray, threading.excepthook)
            raise
        except Exception as error:
            where = f"the cluster at RAY_ADDRESS={address}" if address else "a local Ray"
            hint = _hint(error)
            raise RunError(f"cannot start or reach {where}: {type(error).__name__}: {error}{hint}") from error

    def _set_environment(self, values: dict[str, str]) -> None:
        for name, value in values.items():
            self._held.callback(_set_variable, name, os.environ.get(name))
            os.environ[name] = value

    def answer(self, call: Callable[[], Any], timeout_real_s: float) -> Any:
        """The result of a call that waits for Ray's own processes.

        Raises TimeoutError if they do not answer in time, KeyboardInterrupt, and what the call raises.
        """
        assert self._thread is not None
        called = self._thread.submit(call)
        until_real_s = time.monotonic() + timeout_real_s
        while not called.done():
            check_interrupted()
            if time.monotonic() > until_real_s:
                self.hangs = True
                raise TimeoutError
            wait([called], _LOOK_REAL_S)
        return called.result()

    def kill(self, actors: Sequence[Any]) -> None:
        """Let Ray kill actors, if it still can."""

        def kill() -> None:
            for actor in actors:
                with contextlib.suppress(Exception):
                    self._ray.kill(actor)

        if self._ray is not None:
            self._end_in_time(kill)

    def stop(self) -> None:
        """Disconnect; a local Ray ends, and the environment is restored."""
        try:
            if self._ray is not None:
                ended = self._end_in_time(self._ray.shutdown)
                self._held.close()
                _give_up_unless(ended, self._ray, 0.0 if self._was_interrupted else _FORCED_TIMEOUT_REAL_S)
                shutil.rmtree(run_directory(self._id), ignore_errors=True)  # a late call makes it again
        finally:
            self._ray = None
            if self._thread is not None:
                self._thread.end()
            self._held.close()

    def _end_in_time(self, call: Callable[[], Any]) -> Future[Any]:
        """Make a call to Ray that ends something; without waiting, if an earlier one hangs."""
        assert self._thread is not None
        called = self._thread.submit(call)
        try:
            result_of(called, 0.0 if self.hangs else _END_TIMEOUT_REAL_S)
        except TimeoutError:
            self.hangs = True
        return called


class _Thread:
    """Makes one call after the other; unlike those of an executor, it does not keep the process alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="ray", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Make this call after those before."""
        future: Future[Any] = Future()

        def make() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(make)
        return future

    def end(self) -> None:
        """After the calls so far."""
        self._calls.put(None)

    def _work(self) -> None:
        while (make := self._calls.get()) is not None:
            make()


def _unless_of_ray(hook: Callable[[Any], object], raised: Any) -> None:
    """A hook for exceptions of threads, without those of Ray's own, which miss the processes that were killed."""
    if raised.thread is None or not raised.thread.name.startswith("ray_"):
        hook(raised)


def _init(ray: Any, address: str | None, options: dict[str, Any], sockets: Path) -> None:
    with lean(ray, sockets) if address is None else contextlib.nullcontext():
        ray.init(address=address or "local", **options)


_stuck = False
"""A call has not returned even after Ray's processes were killed: this process cannot use Ray again."""


def _give_up_unless(ended: Future[Any], ray: Any, timeout_real_s: float) -> None:
    """Wait a little for a call that has to do with processes which are dead now."""
    global _stuck
    try:
        result_of(ended, timeout_real_s)
    except TimeoutError:
        _stuck = True
        atexit.unregister(ray.shutdown)  # it would wait for that call


_kept: RayRuntime | None = None
"""The Ray of ``ray_for_runs``; one is enough, because a process can use only one Ray at a time."""


@contextlib.contextmanager
def ray_for_runs() -> Iterator[None]:
    """All runs inside share one Ray, which the first run starts."""
    global _kept
    _kept = RayRuntime()
    try:
        yield
    finally:
        with interruptible(), deferred():
            _kept.stop()
        _kept = None


@contextlib.contextmanager
def ray_of_a_run() -> Iterator[RayRuntime]:
    """The Ray that a run must use; not started yet, unless it serves several runs."""
    runtime = _kept or RayRuntime()
    try:
        yield runtime
    except BaseException:
        runtime.stop()
        raise
    if runtime is not _kept or runtime.hangs:
        runtime.stop()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def leave_nothing(janitor: Janitor, run_id: str, directories: Sequence[Path]) -> None:
    """End and remove whatever is left of a run, or of a Ray, that has these directories."""
    try:
        janitor.goodbye()
    except RuntimeError:  # the janitor was killed
        end_run_processes(run_id, directories=directories)
        clean_up(run_id, directories)


def allow_open_files() -> None:
    """Let this process and its children open as many files as Ray needs.  Raises RunError if they may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < _LEAST_OPEN_FILES:
        raise RunError(f"only {hard} files may be open at once; raise 'ulimit -n' to {_LEAST_OPEN_FILES} or more")
    if soft < _LEAST_OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_LEAST_OPEN_FILES, hard))


def allow_processes() -> None:
    """Raise the limit of processes and threads to what this user is allowed.

    Raises:
        RunError: that is too few for a run.

    Where a thread cannot be started, Ray ends this process, or waits for a minute for its own.
    """
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if _is_limited(hard):
        if hard < _LEAST_PROCESSES:
            raise RunError(
                f"this user may have only {hard} processes and threads; raise 'ulimit -u' to {_LEAST_PROCESSES} or more"
            )
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))


def _is_limited(processes: int) -> bool:
    return os.geteuid() != 0 and processes != resource.RLIM_INFINITY  # the kernel lets root have any number


def _hint(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return "; this user may start no more processes or threads: raise 'ulimit -u'"
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if _is_limited(limit) and limit < _LIKELY_ENOUGH_PROCESSES:
        return f"; this user may have only {limit} processes and threads, in all programs together; raise 'ulimit -u'"
    return ""


def ray_variables(address: str | None) -> dict[str, str]:
    """The variables that Ray needs, before it is imported, to reach a cluster; None: to start a local one."""
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if address is None or address.startswith(_LOOPBACK):
        # With 127.0.0.1, Ray uses this machine's outside address and listens on all of them, except in the mode in
        # which it cannot form clusters of machines.
        variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return variables


def check_reachable(address: str) -> None:
    """Raise RunError if nothing listens at a cluster's address; ray.init would try for minutes and ignore Ctrl-C."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return  # "auto", or a form that Ray must check
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_TIMEOUT_REAL_S).close()
    except OSError as error:
        raise RunError(f"cannot reach the cluster at RAY_ADDRESS={address}: {error.strerror or error}") from None


NODE_PARAMETERS: dict[str, Any] = {
    "no_monitor": True,  # of the autoscaler: there is nothing to scale
    "include_log_monitor": False,  # it reads the logs of all workers, over and over, for drivers that want them
    "setup_worker_path": str(Path(__file__).with_name("setup_worker.py")),
}
"""By their names in ``ray._private.parameter.RayParams``."""
_SOCKETS = ("plasma_store", "raylet")
_OF_A_DASHBOARD = ("aiohttp_cors", "opencensus")


@contextlib.contextmanager
def lean(ray: Any, sockets: Path | None = None) -> Iterator[None]:
    """A node that ``ray.init`` starts inside has ``NODE_PARAMETERS``, no dashboard's server, and its sockets in that
    directory (None: where Ray has them).

    What no run uses is left out: an autoscaler, a reader of logs, a dashboard's server, a second import of Ray in each
    worker.  ``ray start`` and ``ray.cluster_utils.Cluster`` have parameters for most of them, but ``ray.init`` has
    none.  So its parameters are completed here, while it runs, in three private modules of Ray.  Without this a run of
    ``natjam-fig4`` at time scale 100 starts in 9.1 s instead of 6.0 s and takes 16.4 s instead of 12.1 s (means of
    three each, in turns, on two cores).  What another Ray does not know by the name that it has in this one is not left
    out there: that Ray starts as it always does.
    """
    named = {f"{name}_socket_name": str(sockets / name) for name in _SOCKETS} if sockets else {}
    with (
        _replaced(ray._private.parameter, "RayParams", partial(_with_parameters, NODE_PARAMETERS | named)),
        _replaced(ray._private.services, "start_api_server", lambda _: _no_api_server),
        _replaced(ray._private.utils, "get_dashboard_dependency_error", _looked_for_before_it_is_imported),
    ):
        yield


@contextlib.contextmanager
def _replaced(module: Any, name: str, other: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(module, name, None)
    if before is None:
        yield
        return
    setattr(module, name, other(before))
    try:
        yield
    finally:
        setattr(module, name, before)


def _with_parameters(parameters: Mapping[str, Any], make: Callable[..., Any]) -> Callable[..., Any]:
    known = inspect.signature(make).parameters
    ours = {name: value for name, value in parameters.items() if name in known}
    return lambda **given: make(**{**given, **ours})


def _looked_for_before_it_is_imported(find_error: Callable[[], Exception | None]) -> Callable[[], Exception | None]:
    """Ray imports what ``ray[default]`` brings, to see whether it is there, up to the first package that is not."""

    def error() -> Exception | None:
        missing = [name for name in _OF_A_DASHBOARD if importlib.util.find_spec(name) is None]
        return ImportError(f"there is no {missing[0]}") if missing else find_error()

    return error


def _no_api_server(*_: Any, **__: Any) -> tuple[None, None]:
    """What Ray's own gives where the server has failed to start, which is no error: the URL and the process."""
    return None, None
