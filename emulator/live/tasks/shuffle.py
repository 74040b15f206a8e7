"""Shuffle: a reduce fetches its partition of every map from the nodes, over HTTP, and merges them.

The wire form, also used by :mod:`emulator.live.services.shuffle_service`: there is one request per service, however
many nodes it serves: ``GET /shuffle?job=<quoted>&reduce=<r>&maps=<node>:<m>,<m>;<node>:<m>...``.  It is signed with the
run's secret: the ``Natjam-Signature`` header holds the HMAC-SHA-256 of the target, so the secret itself is never sent.
The body has, for each map in the order of the request, ``map u32, length u64, records u32, crc32 u32`` (big-endian) and
the bytes of the partition as in the file.  The URL of a map output names
service and node: ``http://<address>:<port>/<node>``, or ``https`` on machines that have certificates
(:mod:`emulator.live.encryption`).

This module stays small, because every reduce loads it.
"""

from __future__ import annotations

import hmac
import io
import itertools
import os
import re
import socket
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, BinaryIO
from urllib.parse import quote

from emulator.live import encryption
from emulator.live.tasks import records
from emulator.live.tasks.records import Partition, PartitionSource, RecordError
from emulator.storage.local import make_directory

SIGNATURE_HEADER = "Natjam-Signature"
MAP_HEADER = "Natjam-Map"
"""Header of a refusal: the map whose output is missing or damaged."""
FRAME = struct.Struct(">IQII")

MAPS_PER_REQUEST = 250
"""Requests for more maps are refused."""
_MEMORY_BYTES = 4 << 20
_COPY_BYTES = 1 << 18
BACKLOG = 1024
"""Number of connections that may wait at a service."""
_ATTEMPTS = 3
_ATTEMPTS_UNREACHED = 6
"""How often a service that is not there is tried: one that has died is started again, which takes about a second."""
_RETRY_REAL_S = 0.05
_CONNECT_TIMEOUT_REAL_S = 5.0
_RECEIVE_TIMEOUT_REAL_S = 30.0
_LINE_BYTES = 8192
_MAXIMUM_HEADERS = 64


class FetchFailed(Exception):
    """The output of one map could not be fetched; the map may have to run again."""

    def __init__(self, map_index: int, url: str, reason: str) -> None:
        super().__init__(f"output of map {map_index} from {url}: {reason}")
        self.map_index = map_index
        self.url = url
        self.reason = reason


class BadResponse(Exception):
    """The response does not answer the request; says which map caused it, if a single one did."""

    def __init__(self, problem: str, map_index: int | None = None) -> None:
        super().__init__(problem)
        self.map_index = map_index


def request_target(job: str, reduce_index: int, outputs: Iterable[tuple[str, int]]) -> str:
    """The request target for one reduce's partition of several map ``outputs``, each given as node and map."""
    parts = []
    for node, of_node in itertools.groupby(outputs, key=itemgetter(0)):
        parts.append(f"{node}:{','.join(str(map_index) for _, map_index in of_node)}")
    return f"/shuffle?job={quote(job, safe='')}&reduce={reduce_index}&maps={';'.join(parts)}"


def signature(secret: str, target: str) -> str:
    """The proof that a request for ``target`` comes from this run."""
    return hmac.digest(secret.encode(), target.encode("utf-8", "surrogateescape"), "sha256").hex()


def fetch_and_merge(
    params: dict[str, Any], outputs: Iterable[dict[str, Any]], is_outdated: Callable[[], bool] = lambda: False
) -> tuple[str, int]:
    """Bring a reduce's merged input to this node's disk; returns (path, keys).

    ``params`` are the launch parameters of kind "reduce" (job, task, maps, keys, node, work_dir, secret,
    network_bytes_real_s, checkpoint); ``outputs`` is ``[{map, url}]``, one for every map.  A complete input of an
    earlier attempt on this disk is used.  A partition on this disk is read directly.  Each other node's service is
    asked once, or up to three times if it fails; at most ``network_bytes_real_s`` bytes are received per real second.
    A service that is not there is waited for, unless ``outputs`` have become outdated.
    Raises :class:`FetchFailed` if an output cannot be fetched, :class:`records.RecordError` if the merged input does
    not have ``keys`` keys, OSError if the disk fails.
    """
    localised = _localised(params)
    if localised is not None:
        return localised, params["keys"]
    urls = {output["map"]: output["url"] for output in outputs}
    for map_index in range(params["maps"]):
        if map_index not in urls:
            raise FetchFailed(map_index, "(nowhere)", "no output of it is known")
    if not urls:
        raise FetchFailed(0, "(nowhere)", "the job has no maps, and its input is not on this node")
    path = records.input_path(params["work_dir"], params["job"], params["task"])
    with _Fetch(params, os.path.dirname(path), is_outdated) as fetch:
        fetch.collect(urls)
        try:
            keys = records.merge([fetch.sources[map_index] for map_index in sorted(fetch.sources)], path)
        except RecordError as error:
            for map_index, source in fetch.sources.items():
                if source.name == error.path:
                    raise FetchFailed(map_index, urls[map_index], str(error)) from error
            raise
    if keys != params["keys"]:
        os.unlink(path)
        raise RecordError(path, f"{keys} keys after the merge, expected {params['keys']}")
    return path, keys


def warm_up() -> None:
    """Do once what only a first fetch costs (late imports, compiled patterns), so that forked tasks inherit it."""
    "127.0.0.1".encode("idna")  # what socket does to a host's name
    request_target("job", 0, [("node", 0)])
    encryption.context(listens=False)
    signature("secret", "target")
    read_response_head(io.BytesIO(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))


def rehearse(params: dict[str, Any]) -> None:
    """Make the merged input of one key that ``params`` stand for, with an answer as a service would give it."""
    directory = records.map_directory(params["work_dir"], params["job"], 0)
    [partition] = records.write_map_output(directory, [[(b"key", b"value")]])
    data = _read_file(os.path.join(directory, records.DATA_NAME), partition.length, 0)
    frame = FRAME.pack(0, partition.length, partition.records, partition.crc32) + data
    target = request_target(params["job"], 0, [(params["node"], 0)])
    here, there = socket.socketpair()
    with here, there, _Fetch(params, directory, lambda: False) as fetch:
        there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(frame) + frame)
        fetch.exchange(here, signature(params["secret"], target).encode(), [0], "rehearsal")
        records.merge(list(fetch.sources.values()), records.input_path(params["work_dir"], params["job"], 0))


def _localised(params: dict[str, Any]) -> str | None:
    """The merged input if it is on this node's disk: at the checkpoint's path, or at its usual path."""
    paths = [records.input_path(params["work_dir"], params["job"], params["task"])]
    checkpoint = params.get("checkpoint")
    if checkpoint is not None and checkpoint["hostname"] == params["node"]:
        paths.insert(0, checkpoint["input_path"])
    for path in paths:
        try:
            if records.input_keys(path) == params["keys"]:
                return path
        except (OSError, RecordError):
            continue
    return None


class _Fetch:
    """Collects one reduce's partitions as sources of a merge; what exceeds the memory limit goes to unnamed files."""

    def __init__(self, params: dict[str, Any], directory: str, is_outdated: Callable[[], bool]) -> None:
        self.sources: dict[int, PartitionSource] = {}
        self._params = params
        self._directory = directory
        self._is_outdated = is_outdated
        self._memory_left = _MEMORY_BYTES
        self._files: list[BinaryIO] = []
        self._network_free_real_ns = time.monotonic_ns()
        """When everything received so far would have passed the node's network."""

    def __enter__(self) -> _Fetch:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def collect(self, urls: dict[int, str]) -> None:
        """Fill ``sources`` with every map in ``urls``."""
        remote: dict[str, list[tuple[str, int]]] = {}
        for map_index, url in sorted(urls.items()):
            if not self._collect_local(map_index):
                service, _, node = url.rpartition("/")
                remote.setdefault(service, []).append((node, map_index))
        for service, wanted in remote.items():
            wanted.sort()
            for first in range(0, len(wanted), MAPS_PER_REQUEST):
                self._collect_remote(service, wanted[first : first + MAPS_PER_REQUEST])

    def _collect_local(self, map_index: int) -> bool:
        """Use the partition on this node's own disk, if it exists and its index is valid."""
        directory = records.map_directory(self._params["work_dir"], self._params["job"], map_index)
        path = os.path.join(directory, records.DATA_NAME)
        try:
            partition = records.partition_of(directory, self._params["task"])
            if partition.length <= self._memory_left:
                data = _read_file(path, partition.length, partition.offset)
                self._add(map_index, path, partition, data)
            else:
                # Opened for each block, so that a job with a thousand maps does not need a thousand descriptors.
                self._add_source(map_index, path, partition, lambda size, at: _read_file(path, size, at))
        except (OSError, RecordError, IndexError):
            return False
        return True

    def _collect_remote(self, service: str, outputs: list[tuple[str, int]]) -> None:
        """Fetch from one service with a limited number of attempts; each attempt fetches only what is missing."""
        for attempt in range(_ATTEMPTS_UNREACHED):
            wanted = [(node, map_index) for node, map_index in outputs if map_index not in self.sources]
            try:
                self._request(service, wanted)
                return
            except (OSError, ValueError, BadResponse) as error:
                is_last = attempt >= (_ATTEMPTS_UNREACHED if isinstance(error, OSError) else _ATTEMPTS) - 1
                if is_last or not self._wait(2**attempt):
                    nodes = {map_index: node for node, map_index in wanted}
                    missing = next(map_index for _, map_index in wanted if map_index not in self.sources)
                    named = error.map_index if isinstance(error, BadResponse) else None
                    to_blame = named if named in nodes else missing
                    url = f"{service}/{nodes[to_blame]}"
                    raise FetchFailed(to_blame, url, str(error) or type(error).__name__) from error

    def _wait(self, periods: int) -> bool:
        """Wait before another attempt; returns whether it makes sense."""
        for _ in range(periods):
            time.sleep(_RETRY_REAL_S)
            if self._is_outdated():
                return False
        return True

    def _request(self, service: str, outputs: list[tuple[str, int]]) -> None:
        scheme, _, address = service.partition("://")
        host, _, port = address.rpartition(":")
        if scheme != encryption.scheme() or not host or not port.isdecimal() or int(port) >= 1 << 16:
            raise BadResponse(f"not an {encryption.scheme()}://host:port/node URL")
        target = request_target(self._params["job"], self._params["task"], outputs)
        head = (
            f"GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
            f"{SIGNATURE_HEADER}: {signature(self._params['secret'], target)}\r\n\r\n"
        )
        with encryption.connected((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_REAL_S) as connection:
            self.exchange(connection, head.encode(), [map_index for _, map_index in outputs], service)

    def exchange(self, connection: socket.socket, head: bytes, maps: list[int], service: str) -> None:
        """Send a request for these maps and take the answer."""
        connection.settimeout(_RECEIVE_TIMEOUT_REAL_S)
        connection.sendall(head)
        with connection.makefile("rb") as response:
            self._receive(response, maps, read_response_head(response), service)

    def _receive(self, response: BinaryIO, maps: list[int], length: int, service: str) -> None:
        for map_index in maps:
            found, size, count, crc = FRAME.unpack(_read_exactly(response, FRAME.size))
            length -= FRAME.size + size
            if found != map_index or length < 0:
                raise BadResponse(f"a frame of map {found}, {size} bytes, where map {map_index} should be")
            name = f"{service} (map {map_index})"
            if size <= self._memory_left:
                data = self._take(response, size)
                if zlib.crc32(data) != crc:
                    raise BadResponse("the partition is damaged (CRC)", map_index)
                self._add(map_index, name, Partition(0, size, count, crc), data)
            else:
                self._spill(response, map_index, name, Partition(0, size, count, crc))
        if length:
            raise BadResponse(f"{length} bytes too many")

    def _take(self, response: BinaryIO, size: int) -> bytes:
        """Read ``size`` bytes, no faster than the node's network."""
        began_real_ns = max(self._network_free_real_ns, time.monotonic_ns())
        data = _read_exactly(response, size)
        self._network_free_real_ns = began_real_ns + size * 10**9 // self._params["network_bytes_real_s"]
        while (left_real_ns := self._network_free_real_ns - time.monotonic_ns()) > 0:
            time.sleep(left_real_ns / 1e9)
        return data

    def _spill(self, response: BinaryIO, map_index: int, name: str, partition: Partition) -> None:
        make_directory(self._directory)
        file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 - closed in __exit__
        self._files.append(file)
        left, crc = partition.length, 0
        while left:
            block = self._take(response, min(left, _COPY_BYTES))
            crc = zlib.crc32(block, crc)
            left -= len(block)
            file.write(block)
        if crc != partition.crc32:
            raise BadResponse("the partition is damaged (CRC)", map_index)
        self._add_source(map_index, name, partition, lambda size, at: os.pread(file.fileno(), size, at))

    def _add(self, map_index: int, name: str, partition: Partition, data: bytes) -> None:
        """Add a partition that is in memory."""
        self._memory_left -= len(data)
        start = partition.offset
        self._add_source(map_index, name, partition, lambda size, at: data[at - start : at - start + size])

    def _add_source(self, map_index: int, name: str, partition: Partition, read: Callable[[int, int], bytes]) -> None:
        self.sources[map_index] = PartitionSource(name, partition, read)


def read_response_head(response: BinaryIO) -> int:
    """Read the status line and headers of an HTTP/1.1 response; returns the length of its body.

    Raises :class:`BadResponse` unless this is a response of status 200 with a Content-Length.  For another status, the
    message is the first line of its body.
    """
    status = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) ?[^\r\n]*\r\n", response.readline(_LINE_BYTES))
    if status is None:
        raise BadResponse("the answer is not HTTP")
    numbers: dict[bytes, int] = {}
    for _ in range(_MAXIMUM_HEADERS):
        line = response.readline(_LINE_BYTES)
        if line == b"\r\n":
            break
        name, colon, value = line.partition(b":")
        if not colon or not line.endswith(b"\r\n"):
            raise BadResponse("a header of the answer is not complete")
        if re.fullmatch(rb"\s*\d{1,18}\s*", value):
            numbers[name.lower()] = int(value)
    else:
        raise BadResponse("the answer has too many headers")
    if status[1] != b"200":
        reason = response.readline(200).decode("utf-8", "replace").strip()
        raise BadResponse(f"HTTP status {int(status[1])}: {reason}", numbers.get(MAP_HEADER.lower().encode()))
    if b"content-length" not in numbers:
        raise BadResponse("the answer has no usable Content-Length")
    return numbers[b"content-length"]


def _read_exactly(response: BinaryIO, size: int) -> bytes:
    data = response.read(size)
    if len(data) != size:
        raise BadResponse("the connection ended too early")
    return data


def _read_file(path: str, size: int, offset: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, offset)
