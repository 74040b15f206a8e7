"""What a job is after its workload was expanded: the frozen description that every engine runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from emulator.vocabulary import MAP, REDUCE, TASKS, Frozen, JobFacts, TaskGroup, Work, counted

PYTHON = "{python}"
"""In a command, stands for the interpreter that runs natjam."""


class ProgramSpec(Frozen):
    """What each task of a job of programs runs; for the machines such a task walks one key."""

    command: tuple[str, ...]
    sha256: tuple[tuple[str, str], ...] = ()
    """Checksums of the files that it leaves, by name, where known."""
    directory: str | None = None
    """Where it works; None: in the directory that becomes its output."""
    environment: tuple[tuple[str, str], ...] = ()
    input: str | None = None
    """The file that is its standard input; None: nothing."""


class JobSpec(Frozen):
    """One job with its task lengths.

    The lengths of all tasks that write output for the shuffle are in ``map_ns``, those of all that walk keys in
    ``reduce_ns``: one group after the other, as the facts have them (``JobFacts.index_of``).  Times are emulated
    nanoseconds.  The length of a task that walks keys is the *active* time for walking them, after it was launched
    and got its input; the time between two keys is ``reduce_ns[i] / reduce_keys[i]``.

    Raises ValueError if the numbers of tasks do not agree.
    """

    facts: JobFacts
    submit_ns: int
    map_ns: tuple[int, ...]
    """Empty for a job of reduces only, or of groups without a shuffle."""
    reduce_ns: tuple[int, ...]
    """Empty for a map-only job."""
    reduce_keys: tuple[int, ...]
    """Number of keys that each task walks, at least 1; same length as ``reduce_ns``."""
    shuffle_bytes: int | None = None
    """Bytes that all maps together write for the reduces; None: a small default per key."""
    output_bytes: int | None = None
    """Bytes of the committed output of the whole job; None: a small default per key."""
    submit_when: tuple[str, int] | None = None
    """Submit when the named job has done this share of its work, in millionths; None: at ``submit_ns``."""
    program: ProgramSpec | None = None
    """None: a MapReduce job."""
    starts_measured: bool = False
    """Whether the lengths were measured from the start of the containers, so that no launch overhead is added."""

    def __post_init__(self) -> None:
        counts = (len(self.map_ns), len(self.reduce_ns), len(self.reduce_keys))
        if counts != (self.facts.maps, self.facts.reduces, self.facts.reduces):
            raise ValueError(
                f"job {self.name}: {counts[0]} map lengths, {counts[1]} reduce lengths, {counts[2]} key counts for"
                f" {self.facts.maps} maps and {self.facts.reduces} reduces"
            )

    @property
    def name(self) -> str:
        """Unique name of the job."""
        return self.facts.name

    @property
    def queue(self) -> str:
        """The queue it is submitted to."""
        return self.facts.queue

    def length_ns(self, group: TaskGroup, task: int) -> int:
        """Length of the task of a group with this number."""
        lengths_ns = self.map_ns if group.work is Work.SHUFFLE else self.reduce_ns
        return lengths_ns[self.facts.index_of(group.name, task)]

    def keys_of(self, group: TaskGroup, task: int) -> int:
        """Number of keys that the task of a group with this number walks; 0: it walks none."""
        return self.reduce_keys[self.facts.index_of(group.name, task)] if group.work is Work.KEYS else 0


def counted_tasks(jobs: Sequence[JobSpec]) -> str:
    """How many jobs these are, with how many tasks of each kind, in words: "2 jobs, 4 maps, 14 reduces"."""
    counts: Counter[str] = Counter()
    for group in (group for job in jobs for group in job.facts.groups):
        counts[group.name] += group.count
    usual, programs = {MAP: "map", REDUCE: "reduce"}, counts.pop(TASKS, 0)
    words = [counted(len(jobs), "job")]
    if not programs or any(counts[name] for name in usual):
        words += [counted(counts[name], word) for name, word in usual.items()]
    words += [counted(programs, "program task")] if programs else []
    return ", ".join([*words, *(f"{count} {name}" for name, count in counts.items() if name not in usual)])
