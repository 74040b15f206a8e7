"""The node host's end of its shuffle service: start it, learn its URLs, end it, learn what it has served."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from emulator.live import encryption
from emulator.live.services.service_process import ServiceProcess
from emulator.live.tasks.shuffle import BACKLOG


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
