"""Job selection: which job of a queue gets a freed container (natjam, section 4)."""

from __future__ import annotations

from emulator.policies.views import JobView


def fifo(jobs: tuple[JobView, ...], now_ns: int) -> tuple[str, ...]:
    """First submitted, first served.  Source: Hadoop's capacity scheduler inside one queue (natjam, section 3.1)."""
    return tuple(job.name for job in sorted(jobs, key=lambda job: job.order))
