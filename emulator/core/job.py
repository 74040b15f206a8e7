"""What a job is, once a workload has been expanded: the frozen description every engine runs."""

from __future__ import annotations

from emulator.vocabulary import Frozen, JobFacts


class ProgramSpec(Frozen):
    """What each task of a job of programs runs; for the machines it is a reduce of one key."""

    command: tuple[str, ...]
    sha256: tuple[tuple[str, str], ...] = ()
    """Of files that it leaves, by name, where that is known."""


class JobSpec(Frozen):
    """One job, its task lengths already drawn.

    Times are emulated nanoseconds.  A reduce's length is the *active* time its walk over the keys takes, once
    launched and with its input at hand; the time between two keys is ``reduce_ns[i] / reduce_keys[i]``.

    Raises ValueError where the counts of tasks do not agree.
    """

    facts: JobFacts
    submit_ns: int
    map_ns: tuple[int, ...]
    """Length of each map; empty for a job of reduces only."""
    reduce_ns: tuple[int, ...]
    """Length of each reduce; empty for a map-only job."""
    reduce_keys: tuple[int, ...]
    """Number of keys each reduce walks, at least 1; same length as ``reduce_ns``."""
    shuffle_bytes: int | None = None
    """Bytes that all maps together write for the reduces; None: a small default per key."""
    output_bytes: int | None = None
    """Bytes of the committed output of the whole job; None: a small default per key."""
    submit_when: tuple[str, int] | None = None
    """Submitted when the job of that name has this share of its work done, in millionths; None: at ``submit_ns``."""
    program: ProgramSpec | None = None
    """None: a MapReduce job."""
    starts_measured: bool = False
    """The lengths were measured from the containers' start on: no overhead of launching is padded to."""

    def __post_init__(self) -> None:
        counts = (len(self.map_ns), len(self.reduce_ns), len(self.reduce_keys))
        if counts != (self.facts.maps, self.facts.reduces, self.facts.reduces):
            raise ValueError(
                f"job {self.name}: {counts[0]} map lengths, {counts[1]} reduce lengths, {counts[2]} key counts for"
                f" {self.facts.maps} maps and {self.facts.reduces} reduces"
            )

    @property
    def name(self) -> str:
        """Names the job everywhere."""
        return self.facts.name

    @property
    def queue(self) -> str:
        """The queue it is submitted to."""
        return self.facts.queue
