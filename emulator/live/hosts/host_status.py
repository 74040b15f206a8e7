"""What one host of a run reports."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.display.status import ClusterStatus, JobStatus
from emulator.records.gaps import Gap
from emulator.records.lag import LagRecord


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The status of a host, asked for about three times a second."""

    fatal: str | None
    journal: list[bytes]
    until_ns: int
    """Emulated time up to which the host has handed over its journal."""
    lag: LagRecord
    unreachable: tuple[str, ...]
    """Hosts to which its link is broken."""
    gaps: tuple[Gap, ...] = ()
    """The longest times for which it, or its supervisor, has stood still."""
    jobs: tuple[JobStatus, ...] = ()
    cluster: ClusterStatus | None = None
    moves: int = 0
    """For a node host; see ``emulator.live.hosts.standstill``."""
