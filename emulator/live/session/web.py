"""The web service that plays the transactional workload of a live run, and its users.

Theory of operation
-------------------
The driver starts this module as a process.  It makes one server process for each container of the cluster; they share
one socket, and each serves one request after the other.  The servers have the driver's niceness.  On a run's own Ray,
tasks have it too and compete with them as equals.  On a cluster, tasks have that of Ray's workers, which is usually 15.
A request costs processor time and nothing else.

The users are an open loop: requests arrive at random (Poisson), at a rate in proportion to the containers withheld at
the time, however long earlier ones take.  A latency counts from the time when a request was due.  When standard input
ends, the process waits for the last answers and prints what it has measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

import msgspec
import numpy

from emulator.errors import RunError
from emulator.live.clock import ScaledClock
from emulator.live.tasks.supervisor_client import environment_without_token
from emulator.parent import end_of_input, end_with
from emulator.policies.capacity import Capacity, Step
from emulator.resolved import Resolved
from emulator.vocabulary import Frozen

_TIMEOUT_REAL_S = 30.0
_LAST_ANSWERS_REAL_S = 10.0
_BACKLOG = 1024


class Load(Frozen):
    """What the process receives, as JSON on standard input."""

    steps: tuple[Step, ...]
    """Containers available to jobs; the others are withheld."""
    period_ns: int | None
    containers: int
    """The number of containers of the cluster."""
    grace_ns: int
    requests_real_s: float
    request_real_ms: float
    origin_real_ns: int
    time_scale: float
    seed: int


@contextmanager
def web_service(run_id: str, run: Resolved, origin_real_ns: int) -> Iterator[dict[str, Any]]:
    """Within the block the web service of a run is at work, from emulated time 0 on, where the run has one.

    Gives what is measured, once it has ended; empty without a service: ``requests``, ``failed``, and percentiles of the
    latency, over all requests and over those that were due within the grace after the availability has fallen
    (``preempting``).  Raises RunError where the service does not start or does not last.
    """
    facts: dict[str, Any] = {}
    available, given = run.settings.availability, run.experiment.cluster.availability
    if available is None or given is None or given.transactional.kind != "web":
        yield facts
        return
    load = Load(
        available.capacity.steps,
        available.capacity.period_ns,
        run.containers,
        available.grace_ns,
        given.transactional.requests_real_s,
        given.transactional.request_real_ms,
        origin_real_ns,
        run.experiment.time_scale,
        run.experiment.seed,
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator.live.session.web"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_without_token(run_id),
        start_new_session=True,  # Ctrl-C is for the driver, which then ends this one
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(load) + b"\n")
            process.stdin.flush()
        yield facts
        with suppress(subprocess.TimeoutExpired):
            facts |= json.loads(process.communicate(timeout=_TIMEOUT_REAL_S)[0] or b"{}")
        if not facts:
            raise RunError("the web service of cluster.availability.transactional did not last until the end")
    finally:
        process.kill()
        process.wait()


class _Page(BaseHTTPRequestHandler):
    """Answers after ``request_real_s`` of processor time."""

    timeout = _TIMEOUT_REAL_S  # of whoever connects and asks nothing
    request_real_s: ClassVar[float]

    def do_GET(self) -> None:
        until_s = time.thread_time() + self.request_real_s
        while time.thread_time() < until_s:
            pass
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error is the terminal of the run."""


class _Server(HTTPServer):
    """One of the servers."""

    request_queue_size = _BACKLOG

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: whoever asked has gone; and standard error is the terminal of the run."""


class _Users:
    """Sends requests and measures."""

    def __init__(self, load: Load, port: int) -> None:
        self._load = load
        self._capacity = Capacity(load.steps, load.period_ns)
        self._clock = ScaledClock(load.origin_real_ns, load.time_scale)
        self._random = Random(f"{load.seed}:web")
        self._port = port
        self._measured: list[tuple[int, int | None]] = []
        """When each request was due (emulated), and its latency (real ns); None: it failed."""

    async def ask(self, ended: asyncio.Event) -> None:
        """Send requests until ``ended``, then wait for the last answers."""
        most_real_s = self._load.requests_real_s * self._load.containers
        due_real_ns = max(self._clock.to_real_ns(0), time.monotonic_ns())
        asked: set[asyncio.Task[None]] = set()
        while not ended.is_set():
            due_real_ns += round(self._random.expovariate(most_real_s) * 1e9)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ended.wait(), max(0, due_real_ns - time.monotonic_ns()) / 1e9)
            due_ns = self._clock.to_emulated_ns(due_real_ns)
            withheld = self._load.containers - self._capacity.at(due_ns)
            if not ended.is_set() and self._random.random() * self._load.containers < withheld:
                request = asyncio.create_task(self._ask_once(due_ns, due_real_ns))
                asked.add(request)
                request.add_done_callback(asked.discard)
        if asked:
            _, late = await asyncio.wait(asked, timeout=_LAST_ANSWERS_REAL_S)
            for request in late:
                request.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _ask_once(self, due_ns: int, due_real_ns: int) -> None:
        latency_real_ns = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            if b" 200 " in answer[:20]:
                latency_real_ns = time.monotonic_ns() - due_real_ns
        except OSError:
            pass
        finally:
            self._measured.append((due_ns, latency_real_ns))

    def facts(self) -> dict[str, Any]:
        """See ``web_service``."""
        until_ns = max((due_ns for due_ns, _ in self._measured), default=0)
        steps = list(self._capacity.until_end(until_ns))
        falls_ns = [at_ns for (_, before), (at_ns, after) in pairwise(steps) if after < before]
        grace_ns = self._load.grace_ns
        preempting = [one for one in self._measured if any(0 <= one[0] - fell < grace_ns for fell in falls_ns)]
        return _statistics(self._measured) | {"preempting": _statistics(preempting)}


def _statistics(measured: list[tuple[int, int | None]]) -> dict[str, Any]:
    took_ms = [latency / 1e6 for _, latency in measured if latency is not None]
    found: dict[str, Any] = {"requests": len(measured), "failed": len(measured) - len(took_ms)}
    for which in (50, 95, 99):
        found[f"p{which}_real_ms"] = float(numpy.percentile(took_ms, which)) if took_ms else None
    return found


def _serve(server: HTTPServer, parent: int) -> None:
    end_with(parent)
    server.serve_forever()


async def _until_input_ends(users: _Users) -> None:
    await users.ask(end_of_input())


def main() -> None:
    """Serve and load until standard input ends."""
    end_with(os.getppid())
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:  # what follows is for the event loop
        load = msgspec.json.decode(unbuffered.readline(), type=Load)
    _Page.request_real_s = load.request_real_ms / 1e3
    server = _Server(("127.0.0.1", 0), _Page)
    own_pid = os.getpid()
    for _ in range(load.containers):
        if os.fork() == 0:
            _serve(server, own_pid)
    users = _Users(load, server.socket.getsockname()[1])
    asyncio.run(_until_input_ends(users))
    print(json.dumps(users.facts()), flush=True)


if __name__ == "__main__":
    main()
