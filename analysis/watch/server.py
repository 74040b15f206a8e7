"""``python -m analysis.watch.server``: serves the page on loopback, with messages about the run on standard input.

Messages are msgpack maps: ``begin`` (a run, or its next repeat), ``status`` (three times a second), ``end``.  It prints
one line, its address.  It ends when its input ends, after open pages have got the last state, and the report if there
is one.

It must not disturb the run.  So its process has a lower priority than the run's, and it makes pictures at most a tenth
of the time: twice a second for some dozen containers, every ten seconds for thousands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgpack
import msgspec
from aiohttp import web

from analysis.report.page import environment, scripts, style
from analysis.report.payload import RunTables, last_instant_s, make_payload
from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.display.failed_requests import keep_quiet
from emulator.records.history import HistoryBuilder
from emulator.records.journal import decode_record
from emulator.records.parquet_tables import tables_of

_NICENESS = 19
_LAGS_KEPT = 2000
_NOTHING = {"title": "", "nodes": [], "jobs": []}
_LAST_LOOK_REAL_S = 3.0
"""Longest wait for an open page at the end."""
_OPEN_REAL_S = 10.0
"""A page counts as open if its last request was within this time."""
_SENT_AFTER_REAL_S = 0.1
"""After this time the last answer has been sent."""
_REST_FACTOR = 9
"""Pause after a picture, as a multiple of the time it took."""
_STOPPED = "the run has been stopped"
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer: no other site may frame or read it, and the address, which is the key, is not passed on."""


class FollowedRun:
    """A run in progress, from its ``begin`` message on: tables made from its journal, which each ``status`` extends."""

    def __init__(self, begin: Mapping[str, Any]) -> None:
        self.version = 0
        """Increases with every message."""
        self._title: str = begin["title"]
        self._nodes = msgspec.convert(begin["nodes"], list[NodeSettings])
        self._history = HistoryBuilder(msgspec.convert(begin["jobs"], list[JobSpec]))
        self._status: Mapping[str, Any] = {}
        self._lag: list[tuple[float, float]] = []

    def take(self, status: Mapping[str, Any]) -> None:
        """Add a newer status, and the records in it.  Raises JournalError."""
        for line in status["journal"]:
            self._history.add(decode_record(line))
        self._status = {name: value for name, value in status.items() if name not in ("kind", "journal")}
        if status["lag_p99_real_ms"] is not None:
            self._lag.append((status["emulated_s"], status["lag_p99_real_ms"]))
        if len(self._lag) > _LAGS_KEPT:
            del self._lag[::2]
        self.version += 1

    def payload(self, ended: str | None) -> bytes:
        """The data that the page draws; ``ended`` says how the run ended, None while it is running."""
        history = self._history.tables()
        made = tables_of(history)
        jobs, attempts = made["jobs"], made["attempts"]
        end_s = max(self._status.get("emulated_s", 0.0), last_instant_s(jobs, attempts))
        tables = RunTables(jobs, attempts, made["operations"], made["decisions"], self._nodes, end_s)
        lag = {"lag_s": [at_s for at_s, _ in self._lag], "lag_p99_real_ms": [lag_ms for _, lag_ms in self._lag]}
        return make_payload(
            tables, tables.timeline(), title=self._title, status=self._status, version=self.version, ended=ended, **lag
        )


class PageServer:
    """The answers to the page's requests."""

    def __init__(self) -> None:
        self._run: FollowedRun | None = None
        self._number = 0
        self._ended: str | None = None
        self._report: Path | None = None
        """The path of the run's report, after it has ended."""
        self._payload = b""
        self._made_of = ""
        """The state of the run that the payload shows."""
        self._rest_until_s = 0.0
        self._asked_s = float("-inf")
        self._final_seen = asyncio.Event()

    def take(self, message: Mapping[str, Any]) -> None:
        """Handle a message about the run."""
        if message["kind"] == "begin":
            self._run = FollowedRun(message)
            self._number += 1
        elif message["kind"] == "status" and self._run is not None:
            self._run.take(message)
        elif message["kind"] == "end":
            self._ended, self._report = message["said"], Path(message["report"]) if message["report"] else None

    async def ended(self) -> None:
        """The input has ended: wait until open pages have got the last state."""
        self._ended = self._ended or _STOPPED
        if time.monotonic() - self._asked_s < _OPEN_REAL_S:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._final_seen.wait(), _LAST_LOOK_REAL_S)

    async def page(self, request: web.Request) -> web.Response:
        """The page; it runs only its own scripts, and loads only its state."""
        nonce = secrets.token_urlsafe(16)
        page = environment().get_template("watch.html.j2")
        text = page.render(style=style(), scripts=scripts("watch.js"), nonce=nonce)
        return web.Response(
            text=text, content_type="text/html", headers={"Content-Security-Policy": _policy(f"'nonce-{nonce}'")}
        )

    async def state(self, request: web.Request) -> web.Response:
        """The newest payload, or 204 if the page already has it."""
        self._asked_s = time.monotonic()
        if self._run is not None and (self._ended or self._asked_s >= self._rest_until_s):
            self._remake(self._run)
        if request.query.get("have", "") == self._made_of:
            return web.Response(status=204)
        headers = {"X-State": self._made_of}
        if self._report is not None:
            headers["X-Report"] = "yes"  # the page requests it next
        elif self._ended is not None:
            self._is_seen()
        return web.Response(body=self._payload, headers=headers)

    async def report(self, request: web.Request) -> web.Response:
        """The report of the run after it has ended; it replaces the page."""
        if self._report is None:
            raise web.HTTPNotFound(text="the run has no report yet")
        text = await asyncio.to_thread(self._report.read_text)
        self._is_seen()
        return web.Response(
            text=text, content_type="text/html", headers={"Content-Security-Policy": _policy("'unsafe-inline'")}
        )

    def _is_seen(self) -> None:
        """Note that the last answer is being sent."""
        asyncio.get_running_loop().call_later(_SENT_AFTER_REAL_S, self._final_seen.set)

    def _remake(self, run: FollowedRun) -> None:
        wanted = f"{self._number}-{run.version}{'-end' if self._ended else ''}"
        if wanted == self._made_of:
            return
        begun_s = time.monotonic()
        self._payload, self._made_of = run.payload(self._ended), wanted
        self._rest_until_s = time.monotonic() + _REST_FACTOR * (time.monotonic() - begun_s)


def _policy(scripts: str) -> str:
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@web.middleware
async def _only_by_loopback_names(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse requests by other host names: a foreign name that resolves to 127.0.0.1 must not let its pages read ours.

    Any port is accepted, because ssh may forward it.
    """
    name, colon, port = request.host.rpartition(":")
    if (name if colon and port.isdigit() else request.host).lower() not in _LOOPBACK_NAMES:
        raise web.HTTPForbidden(text="open this page by the address that natjam has printed")
    return await handler(request)


async def _guard(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


async def serve() -> None:
    """Serve until standard input ends."""
    server, path = PageServer(), f"/{secrets.token_urlsafe(16)}"
    app = web.Application(middlewares=[_only_by_loopback_names])
    app.on_response_prepare.append(_guard)
    app.add_routes([web.get(f"{path}/", server.page), web.get(f"{path}/state", server.state)])
    app.add_routes([web.get(f"{path}/report", server.report)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    sys.stdout.write(f"http://127.0.0.1:{port}{path}/\n")
    sys.stdout.flush()
    FollowedRun(_NOTHING).payload(None)  # load what is loaded at first use, before the run's clock starts
    await _read_messages(server)
    await server.ended()
    await runner.cleanup()


async def _read_messages(server: PageServer) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    while data := await reader.read(1 << 18):
        unpacker.feed(data)
        for message in unpacker:
            server.take(message)


def main() -> None:
    """Serve, with a lower priority than the run's processes."""
    os.nice(_NICENESS)
    keep_quiet("the page of --watch")
    asyncio.run(serve())


if __name__ == "__main__":
    main()
