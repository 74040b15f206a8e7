"""The node host's handle of a supervisor: start it, send commands, deliver events, notice its death, close it.

The kernel signals the supervisor when the *thread* that created it ends (PDEATHSIG).  So a separate thread creates it
and then only reads the supervisor's stderr and waits for its exit.  This thread lives exactly as long as the
supervisor, whatever happens to the event loop's thread, and dies with the process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

from emulator.live.janitor import RUN_VARIABLE
from emulator.live.tasks.own_pids import CLONE_NEWPID, unshare
from emulator.live.tasks.progress_page import AHEAD_SUFFIX, ProgressPage
from emulator.live.tasks.task import pack

TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""With these, a process could command the run's Ray; processes that do not use Ray do not get them."""

_START_TIMEOUT_REAL_S = 30.0
_KEPT_ERROR_LINES = 20
_MAX_AHEAD = 48
"""Processes made ahead; each has some 3 MB of its own.  The papers' clusters have as many containers."""


def environment_without_token(run_id: str) -> dict[str, str]:
    """The environment of a run's processes that need no Ray: supervisors, their tasks, shuffle services."""
    return {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES} | {RUN_VARIABLE: run_id}


class SupervisorLost(RuntimeError):
    """There is no supervisor: it could not start, died, or was closed.  The message says how it ended."""


class SupervisorClient:
    """One supervisor and its progress page, for use from one asyncio event loop.

    `on_event` is called in the loop with every event of the supervisor, in order.  If the supervisor ends without
    `close`, `on_lost` is called once, after the last event, with a reason.  All its tasks have ended by then; the page
    is unmapped after that.  An exception from either goes to the loop's exception handler.

    `on_late` is told for how long the supervisor has stood still (real ns), and when it went on.

    For up to `ahead` tasks at once it makes processes before they are launched (``emulator.live.tasks.children``).

    With `first_pid` it gets its own pid namespace, in which process ids start there.  So criu can restore processes
    whatever else runs on the machine, and all of them die with the supervisor.  Needs root.
    """

    def __init__(
        self,
        run_id: str,
        work_dir: str | Path,
        slots: int,
        on_event: Callable[[dict[str, Any]], None],
        on_lost: Callable[[str], None],
        first_pid: int | None = None,
        on_late: Callable[[int, int], None] = lambda late_real_ns, real_ns: None,
        ahead: int = 0,
    ) -> None:
        self._run_id = run_id
        self._page_path = Path(work_dir, f"page-{secrets.token_hex(4)}")
        self._slots = slots
        self._on_event = on_event
        self._on_lost = on_lost
        self._first_pid = first_pid
        self._on_late = on_late
        self._ahead = min(ahead, _MAX_AHEAD)
        self._outgoing: list[bytes] = []
        self._closing = False
        self._error_lines: deque[str] = deque(maxlen=_KEPT_ERROR_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        self._page: ProgressPage | None = None

    @property
    def page(self) -> ProgressPage:
        """The progress page; mapped from `start` to `close`."""
        if self._page is None:
            raise SupervisorLost("the supervisor is not started, or closed")
        return self._page

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        if self._process is None:
            raise SupervisorLost("the supervisor is not started")
        return self._process.pid

    async def start(self) -> None:
        """Start the supervisor and wait until it is ready.  Raises SupervisorLost, OSError."""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        started: asyncio.Future[subprocess.Popen[bytes]] = self._loop.create_future()
        self._page = ProgressPage.create(self._page_path, self._slots)
        try:
            threading.Thread(target=self._keep, args=(started,), name="supervisor-keeper", daemon=True).start()
            self._process = process = await started
            assert process.stdin is not None
            assert process.stdout is not None
            await self._loop.connect_read_pipe(lambda: _Events(self._receive, self._drained), process.stdout)
            self._pipe, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            self._watcher = self._loop.create_task(self._watch())
            await asyncio.wait_for(asyncio.shield(self._ready), _START_TIMEOUT_REAL_S)
        except BaseException:
            await self.close(0.0)
            raise

    def send(self, command: dict[str, Any]) -> None:
        """Send one command.  Never blocks: commands of one turn of the loop are sent together, in order.

        Commands to a supervisor that has ended are dropped; `on_lost` reports its end.
        """
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(pack(command))

    async def close(self, grace_real_s: float = 5.0) -> None:
        """Let the supervisor kill all tasks and end; kill it if it has not ended after `grace_real_s` seconds.

        Events of the tasks' ends are still delivered.  May be called again, and after a loss.
        """
        self._closing = True
        if self._process is not None:
            if not self._ended.done():
                self.send({"op": "close"})
                await asyncio.wait([self._ended], timeout=grace_real_s)
            if not self._ended.done():
                self._process.kill()
            await self._ended
            await self._drained
            if not self._pipe.is_closing():  # asyncio's pipe transport cannot be aborted twice
                self._pipe.abort()
        if self._page is not None:
            self._page.close()
            self._page = None
            self._page_path.unlink(missing_ok=True)
            shutil.rmtree(f"{self._page_path}{AHEAD_SUFFIX}", ignore_errors=True)

    # In the keeper thread

    def _keep(self, started: asyncio.Future[subprocess.Popen[bytes]]) -> None:
        """Create the supervisor and wait until it has ended."""
        command = [sys.executable, "-m", "emulator.live.tasks.supervisor"]
        command += ["--page", str(self._page_path), "--slots", str(self._slots), "--ahead", str(self._ahead)]
        if self._first_pid is not None:
            command = [sys.executable, "-m", "emulator.live.tasks.own_pids", str(self._first_pid), *command]
        pipe = subprocess.PIPE
        try:
            if self._first_pid is not None:
                unshare(CLONE_NEWPID)
            process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=environment_without_token(self._run_id),
                start_new_session=True,
            )
        except OSError as error:
            self._tell(_settle_error, started, error)
            return
        self._tell(_settle, started, process)
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:  # ends with the supervisor and the last of its tasks
                text = line.decode(errors="replace").rstrip()
                self._error_lines.append(text)
                print(text, file=sys.stderr)
        self._tell(_settle, self._ended, process.wait())

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the host is ending, and nobody waits
            self._loop.call_soon_threadsafe(call, *arguments)

    # In the event loop

    def _flush(self) -> None:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        if not self._pipe.is_closing():
            self._pipe.write(data)

    def _receive(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            _settle(self._ready, None)
            return
        if event["event"] == "late":
            self._on_late(event["late_real_ns"], event["real_ns"])
            return
        self._call(self._on_event, event)

    def _call(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            callback(argument)
        except Exception as error:
            message = f"a supervisor's callback failed on {argument!r:.200}"
            self._loop.call_exception_handler({"message": message, "exception": error})

    async def _watch(self) -> None:
        """Wait for the supervisor's end; all its events are delivered before its end is reported."""
        status = await self._ended
        await self._drained
        said = "; ".join(self._error_lines)
        reason = f"the supervisor ended with status {status}{': ' + said if said else ''}"
        if not self._ready.done():
            self._ready.set_exception(SupervisorLost(reason))
        elif not self._closing:
            self._call(self._on_lost, reason)
            await self.close()


class _Events(asyncio.Protocol):
    """Unpacks events from the supervisor's stdout."""

    def __init__(self, receive: Callable[[dict[str, Any]], None], drained: asyncio.Future[None]) -> None:
        self._receive = receive
        self._drained = drained
        self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        for event in self._unpacker:
            self._receive(event)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self._drained, None)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _settle_error(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
