"""How a process learns that it must end, by its standard input: services of a node host, and the web service."""

from __future__ import annotations

import asyncio
import os


def end_of_input() -> asyncio.Event:
    """An event that is set when standard input ends: whoever started this process wants it to end."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)  # at its end the input is always readable
            ended.set()

    loop.add_reader(0, read)
    return ended
