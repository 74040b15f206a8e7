"""Removes the memory cgroups and the swap of a run after their makers are gone; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emulator.live.memory.cgroup import remove_groups
from emulator.live.memory.swap_file import end_swap


def end_memory(run_id: str, directories: Sequence[str | Path], host: str | None = None) -> None:
    """Clean up a run, or one of its hosts, whose processes have been killed; ``directories`` are its own."""
    remove_groups(run_id if host is None else f"{run_id}-{host}")
    end_swap(directories)  # last: before, its content might not have fitted into memory
