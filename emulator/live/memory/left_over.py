"""What takes away the memory cgroups and the swap of a run, whoever made them being gone; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emulator.live.memory.cgroup import remove_groups
from emulator.live.memory.swap_file import end_swap


def end_memory(run_id: str, directories: Sequence[str | Path], host: str | None = None) -> None:
    """Of a run, or of one of its hosts, whose processes have been killed; ``directories`` are its own."""
    remove_groups(run_id if host is None else f"{run_id}-{host}")
    end_swap(directories)  # now that nobody uses it: what is in use may not fit the memory
