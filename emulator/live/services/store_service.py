"""The store service: one process per node host that uploads files of its tasks to the object store, and downloads them.

``python -m emulator.live.services.store_service --url U --root D --socket N``: ``N`` is the descriptor of a Unix socket
that listens.  A connection is one request, a line of JSON, ``{"do": "put" | "get" | "remove", "names": [...]}``, and
one answer, ``{"found": how many}`` or ``{"failed": why}``.  A name is that of a file below ``D``, and of the object
below ``U``.  It is a process of its own because libraries of object stores are large and have threads: tasks stay
small, and the supervisor, which forks, has no threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from emulator.parent import end_of_input, end_with
from emulator.storage.objects import AT_ONCE, ObjectStore, StoreError

_LINE_BYTES = 1 << 20


class Request(msgspec.Struct):
    """What a task asks for."""

    do: Literal["put", "get", "remove"]
    names: list[str]


def parse_request(line: bytes) -> Request:
    """Read a request.  Raises ValueError if it is malformed, or names something that is not below the output."""
    request = msgspec.json.decode(line, type=Request)
    for name in request.names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{name}: not below the output")
    return request


class Endpoint:
    """Does what tasks ask for."""

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store = store
        self._root = root
        self._known = {"put": self._put, "get": self._get, "remove": self._remove}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer."""
        # The task may have been killed meanwhile: nobody is left to answer then.
        with suppress(ConnectionError):
            writer.write(json.dumps(await self._answer(reader)).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> dict[str, object]:
        try:
            request = parse_request(await reader.readline())
            return {"found": await asyncio.to_thread(self._known[request.do], request.names)}
        except (StoreError, OSError, ValueError) as error:
            return {"failed": str(error)}

    def _put(self, names: Sequence[str]) -> int:
        for name in names:
            self._store.put(os.path.join(self._root, name), name)
        return len(names)

    def _get(self, names: Sequence[str]) -> int:
        return sum(self._store.get(name, os.path.join(self._root, name)) for name in names)

    def _remove(self, names: Sequence[str]) -> int:
        self._store.remove(names)
        return len(names)


async def _serve(url: str, root: str, descriptor: int) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(AT_ONCE))
    store = await asyncio.to_thread(ObjectStore, url)
    handle = Endpoint(store, root).handle
    server = await asyncio.start_unix_server(handle, sock=socket.socket(fileno=descriptor), limit=_LINE_BYTES)
    print(json.dumps({}), flush=True)
    await end_of_input().wait()
    server.close()


def main() -> None:
    """Run the service; see the module's description."""
    parser = argparse.ArgumentParser(prog="python -m emulator.live.services.store_service", description=__doc__)
    parser.add_argument("--url", required=True, help="where the objects are")
    parser.add_argument("--root", required=True, help="directory of the files")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of a Unix socket that listens")
    arguments = parser.parse_args()
    end_with(os.getppid())
    asyncio.run(_serve(arguments.url, arguments.root, arguments.socket))


if __name__ == "__main__":
    main()
