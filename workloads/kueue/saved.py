"""A cluster with Kueue in a file of natjam's own: what ``natjam import kueue`` writes and ``natjam loops`` reads.

Amounts are whole numbers: cpu in thousandths of a core, the others in their unit; times are nanoseconds from the first
arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emulator.errors import ConfigError, printable
from workloads.importers.source import OnBytes, ignore
from workloads.kueue.state import Kueue, read_kueue, refuse_circles
from workloads.saved import SECTIONS, NotTaken, is_saved, read_section


def read_any(paths: Sequence[Path], on_bytes: OnBytes = ignore) -> tuple[Kueue, list[NotTaken]]:
    """A file of natjam's own, or Kueue's objects in files and folders.  Raises ConfigError."""
    if len(paths) == 1 and is_saved(paths[0], *SECTIONS):
        return read_saved(paths[0]), []
    return read_kueue(paths, on_bytes)


def read_saved(path: Path) -> Kueue:
    """A file that ``write_saved`` wrote.  Raises ConfigError."""
    kueue = read_section(path, Kueue)
    refuse_circles(kueue.cluster, {})
    names = {queue.name for queue in kueue.cluster.queues}
    for arrival in kueue.arrivals:
        if arrival.workload.queue not in names:
            name = printable(arrival.workload.name)
            raise ConfigError(f"{path}: kueue.arrivals: {name}: its queue is not one of kueue.cluster.queues")
    return kueue
