"""A service of a node host: a process of its own, started again should it die, that ends with its standard input.

The node host owns the listening socket and the service inherits it.  If the service dies, the next one listens on the
same socket, and requests made meanwhile wait for it.  The service writes JSON to its standard output: a first line when
it is ready, and a last one with what it has done.  There are two: a shuffle service and a store service.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from emulator.live import encryption
from emulator.live.tasks.kept_files import kept_files, short_socket_path
from emulator.live.tasks.shuffle import BACKLOG
from emulator.live.tasks.supervisor_client import environment_without_token

_START_TIMEOUT_REAL_S = 30.0
_END_TIMEOUT_REAL_S = 5.0


class ServiceProcess:
    """One service: ``python -m module *arguments --socket N``."""

    def __init__(
        self,
        run_id: str,
        module: str,
        arguments: Sequence[str],
        listening: Callable[[], socket.socket],
        secret: str = "",
    ) -> None:
        """``listening`` makes its socket; ``secret`` is the first line of its standard input."""
        self._environment = environment_without_token(run_id)
        self._module = module
        self._arguments = arguments
        self._secret = secret
        self._listening = listening
        self._socket: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False

    async def start(self) -> dict[str, Any]:
        """Start it; what it says when it is ready.  Raises OSError, RuntimeError."""
        if self._socket is None:
            self._socket = self._listening()
        descriptor = self._socket.fileno()
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            *self._arguments,
            "--socket",
            str(descriptor),
            pass_fds=(descriptor,),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the driver, which then ends this one
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self._secret.encode() + b"\n")
        line = await asyncio.wait_for(process.stdout.readline(), _START_TIMEOUT_REAL_S)
        if not line:
            raise RuntimeError(f"{self._module} ended with status {await process.wait()}")
        return json.loads(line)

    async def keep(self) -> None:
        """Start it again whenever it ends, until ``close``.  Raises OSError, RuntimeError where it does not start."""
        while True:
            assert self._process is not None
            await self._process.wait()
            if self._closing:
                return
            await self.start()
            if self._closing:
                await self.close()
                return

    async def close(self) -> dict[str, Any]:
        """End it; what it says in the end (nothing if it has died)."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return {}
        self._closing = True
        if self._socket is not None:
            self._socket.close()
        process.stdin.close()
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _END_TIMEOUT_REAL_S)
            await asyncio.wait_for(process.wait(), _END_TIMEOUT_REAL_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            return {}
        return json.loads(line) if line else {}


class ShuffleProcess(ServiceProcess):
    """One shuffle service for the nodes under ``root``."""

    def __init__(self, run_id: str, secret: str, root: Path, nodes: Sequence[str], bind: str) -> None:
        arguments = ["--root", str(root), "--nodes", ",".join(nodes)]
        module = "emulator.live.services.shuffle_service"
        super().__init__(run_id, module, arguments, lambda: socket.create_server((bind, 0), backlog=BACKLOG), secret)
        self.late: list[tuple[int, int]] = []
        """When it has ended: the longest times for which it stood still (real ns), and when it went on."""
        self._bind = bind
        self._nodes = tuple(nodes)

    async def urls(self) -> dict[str, str]:
        """Start it; the base URL of each node.  Raises OSError, RuntimeError."""
        port = (await self.start())["port"]
        return {node: f"{encryption.scheme()}://{self._bind}:{port}/{node}" for node in self._nodes}

    async def served(self) -> dict[str, int]:
        """End it; its requests, bytes and refusals (nothing if it has died)."""
        said = await self.close()
        self.late = said.get("late", [])
        return said.get("served", {})


_BACKLOG = 1024


class StoreProcess(ServiceProcess):
    """One store service, for the files below ``directory``."""

    def __init__(self, run_id: str, url: str, directory: Path) -> None:
        self.socket_path = str(directory.with_name("store"))
        arguments = ["--url", url, "--root", str(directory)]
        super().__init__(run_id, "emulator.live.services.store_service", arguments, self._listening_socket)
        self._directory = directory

    def _listening_socket(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        with short_socket_path(self.socket_path) as path:
            listening.bind(path)
        listening.listen(_BACKLOG)
        return listening

    def sees(self, name: str) -> bool:
        """Whether an object is in the store.  Blocks.  Raises OutputError."""
        file = self._directory / name
        kept_files({"store": self.socket_path, "output_dir": str(self._directory)}).get(str(file))
        return file.exists()
