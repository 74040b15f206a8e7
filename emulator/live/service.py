"""The end of a service of a node host (see ``emulator.live.service_process``)."""

from __future__ import annotations

import asyncio
import os


async def input_ended() -> None:
    """Wait for the end of standard input: the node host wants the service to end."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    await ended.wait()
    loop.remove_reader(0)
