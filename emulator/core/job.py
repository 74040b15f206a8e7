"""What a job is, once a workload has been expanded: the frozen description every engine runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One MapReduce job, its task lengths already drawn.

    Times are emulated nanoseconds.  A reduce's length is the *active* time its walk over the keys takes, once
    launched and with its input at hand; the time between two keys is ``reduce_ns[i] / reduce_keys[i]``.
    """

    name: str
    """Unique in an experiment; names the job everywhere."""
    queue: str
    submit_ns: int
    map_ns: tuple[int, ...]
    """Length of each map; empty for a job of reduces only."""
    reduce_ns: tuple[int, ...]
    """Length of each reduce; empty for a map-only job."""
    reduce_keys: tuple[int, ...]
    """Number of keys each reduce walks, at least 1; same length as ``reduce_ns``."""
    memory_bytes: int
    """Memory of one of its containers."""
    deadline_ns: int | None = None
    """Absolute deadline, or None."""
    priority: int = 0
    """Larger is more urgent; used by the policies that ask for it."""
    shuffle_bytes: int | None = None
    """Bytes that all maps together write for the reduces; None: a small default per key."""
    output_bytes: int | None = None
    """Bytes of the committed output of the whole job; None: a small default per key."""
    starts_measured: bool = False
    """The lengths were measured from the containers' start on: no overhead of launching is padded to."""

    def __post_init__(self) -> None:
        if len(self.reduce_ns) != len(self.reduce_keys):
            counts = f"{len(self.reduce_ns)} reduce lengths, {len(self.reduce_keys)} key counts"
            raise ValueError(f"job {self.name}: {counts}")
