"""The shuffle service: one process per node host that serves the map outputs of its (virtual) nodes.

``python -m emulator.live.services.shuffle_service --root W --nodes node-1,node-2``: the first line of standard input is
the run's secret; the first line of output is ``{"port": port}``.  It exits at the end of standard input, or when its
parent dies; before that, it prints ``{"served": {"requests", "bytes", "refused"}, "late": ...}``: the longest times for
which it has stood still, as pairs of a length and when it went on (real nanoseconds).

A request can name only a job, a reduce, maps, and nodes served here.  The path is made from these; no component of it
may be a symbolic link.  Nothing is read before the signature was checked.  Wire form:
:mod:`emulator.live.tasks.shuffle`.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import hmac
import json
import os
import re
import resource
import socket
import stat
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from urllib.parse import unquote

from aiohttp import web

from emulator.display.failed_requests import keep_quiet
from emulator.live import encryption
from emulator.live.beat import PERIOD_REAL_NS, Beat, awake_or_not_real_ns
from emulator.live.tasks import records
from emulator.live.tasks.records import Partition, RecordError
from emulator.live.tasks.shuffle import (
    BACKLOG,
    FRAME,
    MAP_HEADER,
    MAPS_PER_REQUEST,
    SIGNATURE_HEADER,
    request_target,
    signature,
)
from emulator.parent import end_of_input, end_with
from emulator.storage.local import job_directory_name

_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_NODE = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
_OF_NODE = f"{_NODE}:{_NUMBER}(?:,{_NUMBER})*"
_TARGET = re.compile(
    rf"/shuffle\?job=([A-Za-z0-9._~%-]{{1,2000}})&reduce=({_NUMBER})&maps=({_OF_NODE}(?:;{_OF_NODE})*)"
)
_SENDFILE_BYTES = 1 << 18
_MAXIMUM_INDEX_BYTES = 32 << 20
_LATE_TIMES_KEPT = 8


@dataclass(slots=True)
class Served:
    """Counters of the service's work."""

    requests: int = 0
    bytes: int = 0
    refused: int = 0


def parse_target(target: str) -> tuple[str, int, list[tuple[str, int]]]:
    """(job, reduce, [(node, map)]) of a request target.  Raises ValueError unless it has the canonical form."""
    match = _TARGET.fullmatch(target)
    if match is None:
        raise ValueError("expected /shuffle?job=<job>&reduce=<number>&maps=<node>:<numbers>;...")
    job = unquote(match[1], errors="strict")
    outputs = []
    for of_node in match[3].split(";"):
        node, _, numbers = of_node.partition(":")
        outputs += [(node, int(number)) for number in numbers.split(",")]
    if len(outputs) > MAPS_PER_REQUEST:
        raise ValueError(f"more than {MAPS_PER_REQUEST} maps")
    if request_target(job, int(match[2]), outputs) != target:
        raise ValueError("the target is not in its canonical form")
    return job, int(match[2]), outputs


class Endpoint:
    """Serves the map outputs of some nodes, each from its directory in ``root``."""

    def __init__(self, root: str, nodes: list[str], secret: str) -> None:
        self.served = Served()
        self._root = root
        self._nodes = frozenset(nodes)
        self._secret = secret

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request: 200 with the partitions, or 400, 403, 404, 405, 500 with a line of text."""
        if request.method != "GET":
            return self._refuse(405, "only GET is answered")
        target = request.raw_path
        given = request.headers.get(SIGNATURE_HEADER, "")
        expected = signature(self._secret, target)
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            return self._refuse(403, "not signed with this run's secret")
        try:
            job, reduce_index, outputs = parse_target(target)
        except ValueError as error:
            return self._refuse(400, str(error))
        with ExitStack() as stack:
            parts = []
            of_job: dict[str, int] = {}
            for node, map_index in outputs:
                try:
                    if node not in of_job:
                        of_job[node] = self._open_job(node, job, stack)
                    parts.append((map_index, *_open_map(of_job[node], reduce_index, map_index, stack)))
                except (FileNotFoundError, NotADirectoryError, IndexError) as error:
                    return self._refuse(404, f"no such map output: {error}", map_index)
                except (OSError, RecordError) as error:
                    return self._refuse(500, str(error), map_index)
            return await self._answer(request, parts)

    def _refuse(self, status: int, reason: str, map_index: int | None = None) -> web.Response:
        self.served.refused += 1
        headers = {} if map_index is None else {MAP_HEADER: str(map_index)}
        return web.Response(status=status, text=reason + "\n", headers=headers)

    def _open_job(self, node: str, job: str, stack: ExitStack) -> int:
        """The directory of a node's map outputs of one job."""
        if node not in self._nodes:
            raise FileNotFoundError("not a node of this service")
        maps = _open_directory(os.path.join(self._root, node, "map"), None, stack)
        return _open_directory(job_directory_name(job), maps, stack)

    async def _answer(self, request: web.BaseRequest, parts: list[tuple[int, int, Partition]]) -> web.StreamResponse:
        size = sum(FRAME.size + partition.length for _, _, partition in parts)
        self.served.requests += 1
        if size <= _SENDFILE_BYTES:
            body = bytearray()
            for map_index, file, partition in parts:
                body += _frame(map_index, partition)
                body += os.pread(file, partition.length, partition.offset)
            self.served.bytes += len(body)
            return web.Response(body=bytes(body), content_type="application/octet-stream")
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = size
        # A reduce may be killed while it fetches; then there is nobody to answer.
        with suppress(ConnectionError):
            await response.prepare(request)
            await _send_files(request, response, parts)
            await response.write_eof()
            self.served.bytes += size
        return response


async def _send_files(
    request: web.BaseRequest, response: web.StreamResponse, parts: list[tuple[int, int, Partition]]
) -> None:
    loop = asyncio.get_running_loop()
    for map_index, descriptor, partition in parts:
        await response.write(_frame(map_index, partition))
        if not partition.length:
            continue
        if request.transport is None:
            raise ConnectionResetError
        with open(descriptor, "rb", closefd=False) as file:
            await loop.sendfile(request.transport, file, partition.offset, partition.length)


def _frame(map_index: int, partition: Partition) -> bytes:
    return FRAME.pack(map_index, partition.length, partition.records, partition.crc32)


def _open_map(directory: int, reduce_index: int, map_index: int, stack: ExitStack) -> tuple[int, Partition]:
    """The open file of one map's output in the directory of its job, and the position of the partition in it."""
    with ExitStack() as directories:
        directory = _open_directory(str(map_index), directory, directories)
        packed = os.read(_open_regular(records.INDEX_NAME, directory, directories), _MAXIMUM_INDEX_BYTES)
        partition = records.partition_in(packed, reduce_index, f"index of map {map_index}")
        return _open_regular(records.DATA_NAME, directory, stack), partition


def _open_directory(name: str, parent: int | None, stack: ExitStack) -> int:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    stack.callback(os.close, descriptor)
    return descriptor


def _open_regular(name: str, directory: int, stack: ExitStack) -> int:
    """Open a regular file; raises FileNotFoundError for anything else, including symbolic links."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        raise FileNotFoundError(error.errno, error.strerror, name) from error
    stack.callback(os.close, descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise FileNotFoundError(f"{name} is not a regular file")
    return descriptor


async def serve(root: str, nodes: list[str], at: str | int, secret: str) -> None:
    """Serve until standard input ends: ``at`` is an address, or the descriptor of a listening socket."""
    keep_quiet("the shuffle service")
    endpoint = Endpoint(root, nodes, secret)
    runner = web.ServerRunner(web.Server(endpoint.handle, access_log=None))  # routes would cost every request
    await runner.setup()
    listening = socket.socket(fileno=at) if isinstance(at, int) else socket.create_server((at, 0), backlog=BACKLOG)
    encrypted = encryption.context(listens=True)
    await web.SockSite(runner, listening, backlog=BACKLOG, ssl_context=encrypted).start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    late: list[tuple[int, int]] = []
    beat = asyncio.create_task(_keep_the_beat(late))
    await end_of_input().wait()
    beat.cancel()
    await runner.cleanup()
    with suppress(BrokenPipeError):
        print(json.dumps({"served": asdict(endpoint.served), "late": late}), flush=True)


async def _keep_the_beat(late: list[tuple[int, int]]) -> None:
    """Note by how much this process is late, and when."""
    beat = Beat(awake_or_not_real_ns())
    while True:
        await asyncio.sleep(PERIOD_REAL_NS / 1e9)
        if late_real_ns := beat.late_real_ns(awake_or_not_real_ns()):
            late[:] = heapq.nlargest(_LATE_TIMES_KEPT, [*late, (late_real_ns, time.monotonic_ns())])


def main() -> None:
    """Run the service; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m emulator.live.tasks.shuffle", description="Serve map outputs.")
    parser.add_argument("--root", required=True, help="directory that holds one directory a node")
    parser.add_argument("--nodes", required=True, help="names of the nodes, separated by commas")
    parser.add_argument("--bind", default="127.0.0.1", help="address to listen on (default: loopback only)")
    parser.add_argument("--socket", type=int, help="descriptor of a socket that listens already, in place of --bind")
    arguments = parser.parse_args()
    end_with(os.getppid())
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    nodes = arguments.nodes.split(",")
    if any(not re.fullmatch(_NODE, node) for node in nodes):
        parser.error("a node's name is not fit for a directory")
    secret = _first_line(0)
    if len(secret) < 16:
        parser.error("the first line of standard input must be the run's secret, of 16 characters or more")
    try:
        at = arguments.bind if arguments.socket is None else arguments.socket
        asyncio.run(serve(arguments.root, nodes, at, secret))
    except OSError as error:
        sys.exit(f"shuffle service: {error}")


def _first_line(descriptor: int) -> str:
    """Read one line byte by byte, so that nothing after it is consumed."""
    line = bytearray()
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode("ascii", "replace").strip()


if __name__ == "__main__":
    main()
