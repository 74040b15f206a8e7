"""The node host's end of its shuffle service: start it, learn its URLs, end it, learn what it has served.

The socket is this process's own and the service inherits it: should the service die, another one takes over where it
was, and who asks meanwhile waits a moment.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from emulator.live import encryption
from emulator.live.shuffle import BACKLOG
from emulator.live.supervisor_client import environment_without_token

_START_PATIENCE_REAL_S = 30.0
_END_PATIENCE_REAL_S = 5.0


class ShuffleProcess:
    """One shuffle service for the nodes under ``root``."""

    def __init__(self, run_id: str, secret: str, root: Path, nodes: Sequence[str], bind: str) -> None:
        self._environment = environment_without_token(run_id)
        self._secret = secret
        self._arguments = ["--root", str(root), "--nodes", ",".join(nodes)]
        self._bind = bind
        self._nodes = tuple(nodes)
        self._socket: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False

    async def start(self) -> dict[str, str]:
        """Start it; returns the base URL of each node.  Raises OSError, RuntimeError."""
        if self._socket is None:
            self._socket = socket.create_server((self._bind, 0), backlog=BACKLOG)
        descriptor = self._socket.fileno()
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "emulator.live.shuffle_service",
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
        line = await asyncio.wait_for(process.stdout.readline(), _START_PATIENCE_REAL_S)
        if not line:
            raise RuntimeError(f"the shuffle service ended with status {await process.wait()}")
        port = json.loads(line)["port"]
        return {node: f"{encryption.scheme()}://{self._bind}:{port}/{node}" for node in self._nodes}

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

    async def close(self) -> dict[str, int]:
        """End it; returns its requests, bytes and refusals (nothing if it has died)."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return {}
        self._closing = True
        if self._socket is not None:
            self._socket.close()
        process.stdin.close()
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _END_PATIENCE_REAL_S)
            await asyncio.wait_for(process.wait(), _END_PATIENCE_REAL_S)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
            return {}
        return json.loads(line)["served"] if line else {}
