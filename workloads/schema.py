"""The ``workload`` part of an experiment file: a list of jobs, or a trace to import them from.

Every quantity carries its unit last in its name: ``_s`` emulated seconds, ``_mb`` 10^6 bytes (``memory_mb``:
MiB), ``_gb`` GiB, ``_bytes`` bytes.
"""

from __future__ import annotations

from itertools import pairwise
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from emulator.files.strict import Name, Strict, written_as
from emulator.files.times import LARGEST_TIME_S, Seconds
from emulator.vocabulary import MAP, MASTER, REDUCE, Details, ReclaimMechanism
from workloads.columns import field_and_unit

MAX_TASKS = 100_000
"""Most maps, or reduces, that one job may have."""
MAX_TASKS_A_CONTAINER = 100_000
"""Most tasks that are drawn for each container of a cluster."""
MAX_KEYS = 10_000_000
"""Most keys that one reduce may walk."""

Length = Annotated[float, Field(ge=1e-6, le=LARGEST_TIME_S, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
TaskCount = Annotated[int, Field(ge=0, le=MAX_TASKS)]


class UniformLengths(Strict):
    """Uniform on (a, b] x ``longest`` seconds; exactly one task has ``longest`` (natjam, section 5)."""

    uniform: tuple[Fraction, Fraction]
    longest: Length

    @model_validator(mode="after")
    def _ordered(self) -> UniformLengths:
        if self.uniform[0] >= self.uniform[1]:
            raise ValueError(f"uniform: the first number must be below the second, not {list(self.uniform)}")
        return self


Lengths = Length | Annotated[tuple[Length, ...], Field(min_length=1)] | UniformLengths
"""One length for all tasks, a list that is cycled, or drawn lengths; seconds."""


_Memory = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
TaskMemory = _Memory | Annotated[tuple[_Memory, ...], Field(min_length=1)]
"""One memory for all tasks, or a list that is cycled over the maps and over the reduces; GiB."""


def longest_s(lengths: Lengths) -> float:
    """The longest length that tasks may have."""
    if isinstance(lengths, UniformLengths):
        return lengths.longest
    return max(lengths) if isinstance(lengths, tuple) else lengths


def _in_thousandths(amount: float) -> float:
    if abs(amount * 1000 - round(amount * 1000)) > 1e-6:
        raise ValueError("has more than three decimals; amounts are exact in thousandths")
    return amount


Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), AfterValidator(_in_thousandths)]
Resources = dict[Annotated[str, written_as(r"^[A-Za-z][A-Za-z0-9_./-]*$", "letters, digits and _ . / -")], Amount]
"""Amounts by the names of resources."""


class SlaStep(Strict):
    """One step of a service level agreement (flex, section 2.1)."""

    deadline_s: Length
    """Absolute."""
    cost: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    """Total cost of ending after this deadline."""


class Progress(Strict):
    """The time at which a job reaches some progress."""

    job: Annotated[str, Field(min_length=1)]
    progress: Fraction
    """Share of its work that is done, where a reduce counts by its keys and a map when it has ended.  0: the job has
    begun; 1: it has ended."""

    @property
    def progress_ppm(self) -> int:
        """The same in millionths."""
        return round(self.progress * 1_000_000)


_Variable = Annotated[str, written_as(r"^[A-Za-z_][A-Za-z0-9_]*$", "letters, digits and _, and no digit first")]


class Programs(Strict):
    """Tasks of a job that are any programs."""

    command: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Program and arguments; ``{python}`` is natjam's own interpreter, ``{here}`` the directory of the experiment file.
    A program or script of a relative path is found there."""
    directory: Annotated[str, Field(min_length=1)] | None = None
    """Where each program works, relative to the experiment file.  Null: in the directory of its own that becomes its
    output, and that ``NATJAM_OUTPUT`` names in every case."""
    environment: dict[_Variable, str] = Field(default_factory=dict)
    """Variables beside those that natjam has."""
    input: Annotated[str, Field(min_length=1)] | None = None
    """The file that is its standard input; null: nothing."""
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    length_s: Length
    """How long one program takes, approximately; in simulations exactly."""
    memory_gb: TaskMemory | None = None
    """As for a job of maps and reduces."""
    sha256: dict[str, Annotated[str, written_as(r"^[0-9a-f]{64}$", "64 digits 0-9 a-f")]] = Field(default_factory=dict)
    """By name of a file that each program leaves: its expected contents, if known."""


class AfterGroup(Strict):
    """What must be done before the containers of a group are requested."""

    group: str
    """Name of another group of the job."""
    share: Fraction = 1.0
    """Share of its tasks that must have succeeded."""


class GroupEntry(Strict):
    """Tasks of a job that are alike.  Each walks keys, as a reduce does, and reads no map output."""

    name: Annotated[str, written_as(r"^[a-z][a-z0-9_-]{1,39}$", "2 to 40 of a-z 0-9 _ -, a letter first")]
    """The word for its tasks in tables and messages."""
    count: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1
    length_s: Lengths
    """How long each task takes."""
    memory_gb: TaskMemory | None = None
    """As for a job of maps and reduces."""
    resources: Resources | None = None
    """What each task asks for; null: as the job says."""
    may_be_victim: bool = True
    """Whether its tasks may be preempted."""
    starts_after: AfterGroup | None = None
    """Null: its containers are requested when the job starts."""

    @model_validator(mode="after")
    def _is_possible(self) -> GroupEntry:
        if self.name in _TAKEN:
            raise ValueError(f"name: '{self.name}' has a meaning of its own; choose another")
        return self


_TAKEN = (MASTER, MAP, REDUCE)


class Gang(Strict):
    """How many tasks of a job start together."""

    minimum: Annotated[int, Field(ge=1, le=2 * MAX_TASKS)]
    """No task starts before so many have room at once; if one is lost and fewer are left, all are evicted."""


def _details(given: Any) -> Details | None:
    from emulator.sites.details import read_details  # here, because few jobs have any

    return None if given is None else read_details(given)


class JobEntry(Strict):
    """One job of an experiment file: MapReduce, programs, or groups of tasks."""

    name: Name
    queue: Annotated[str, Field(min_length=1)]
    submit_s: Seconds = 0.0
    submit_when: Progress | None = None
    """Submitted when another job reaches this progress, instead of at ``submit_s``."""
    maps: TaskCount = 0
    map_s: Lengths = 1.0
    reduces: TaskCount = 0
    reduce_s: Lengths = 1.0
    tasks: Programs | None = None
    """Instead of maps and reduces."""
    groups: Annotated[tuple[GroupEntry, ...], Field(min_length=1)] | None = None
    """Instead of maps and reduces: groups of tasks with names of their own."""
    gang: bool | Gang = False
    """Whether its tasks start and stop together: true, all of them; with a minimum, at least so many."""
    grace_s: Seconds | None = None
    """How long a task that is evicted by a kill may still run after SIGTERM, before SIGKILL.  Null: as its queue
    says."""
    minimum_runtime_s: Seconds | None = None
    """How long a task runs, since it last started or resumed, before it may be a victim.  Null: as its queue says."""
    checkpoint_period_s: Length | None = None
    """How often a task saves by itself: if it is killed or fails, only its work since then is lost.  Null: as its queue
    says."""
    mechanism: ReclaimMechanism | None = None
    """What happens to its tasks when they are taken back.  Null: as its queue says."""
    details: Annotated[Details | None, PlainValidator(_details)] = Field(default=None, exclude_if=not_)
    """What it is to kube-scheduler, Kueue, Slurm or YARN: ``{kind: kubernetes | kueue | slurm | yarn, ...}``, with the
    fields of ``emulator.sites``."""
    key_s: Length = 1.0
    """Time from one key of a reduce to the next; a reduce walks round(length / key_s) keys, at least one."""
    deadline_s: Length | None = None
    """Absolute time, on the same clock as ``submit_s``."""
    deadline_after_s: Length | None = None
    """Instead of ``deadline_s``: time from the submission to the deadline."""
    priority: int = 0
    weight: Weight = 1.0
    """Weight of the job in weighted metrics."""
    sla: tuple[SlaStep, ...] = ()
    """Cost of ending after each of several deadlines; deadlines and costs increase."""
    min_containers: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Containers guaranteed to it by allocations that give shares; null: its part of its queue's capacity."""
    max_containers: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Most containers it may hold under such allocations; null: as many as it has maps, or reduces."""
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    """Memory of one container, the most that a task may use; None: the cluster's ``container_memory_gb``."""
    resources: Resources | None = None
    """What each of its tasks asks for, in a cluster with ``node_groups``: ``{cpu: 2, memory_gb: 4, gpu: 1}``.  What is
    left out is 1 ``cpu``, the memory that the task uses (else ``container_memory_gb``), and nothing of the others."""
    master_resources: Resources | None = None
    """What its ApplicationMaster asks for; null: ``cluster.master_resources``."""
    memory_gb: TaskMemory | None = None
    """Memory that each task holds from its start to its end.  None: almost nothing, and a stopped task is charged with
    the memory of its whole container."""
    dirty_fraction: Fraction = 1.0
    """Share of a task's memory that changes between two images; an incremental image writes this share."""
    memory_at_start: Fraction = 1.0
    """Share of a task's memory that it uses when it starts; the rest comes evenly with its progress.  Images of
    simulated tasks hold what is used.  1: all from the start."""
    shuffle_mb: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    """Bytes that all maps together write for the reduces, in 10^6; None: a small default per key."""

    @model_validator(mode="after")
    def _has_tasks(self) -> JobEntry:
        if self.tasks is not None and (self.maps or self.reduces or self.memory_gb is not None):
            raise ValueError("tasks replaces maps, reduces and memory_gb; remove those")
        if self.groups is not None and (
            self.tasks is not None or self.maps or self.reduces or self.memory_gb is not None
        ):
            raise ValueError("groups replaces maps, reduces, tasks and memory_gb; remove those")
        if self.maps == 0 and self.reduces == 0 and self.tasks is None and self.groups is None:
            raise ValueError("a job needs at least one map or one reduce, or tasks")
        if self.reduces and longest_s(self.reduce_s) > MAX_KEYS * self.key_s:
            raise ValueError(f"a reduce of {longest_s(self.reduce_s):g} s would walk over {MAX_KEYS} keys; raise key_s")
        if isinstance(self.gang, Gang) and self.gang.minimum > self.tasks_total:
            raise ValueError(f"gang: the minimum {self.gang.minimum} is above its {self.tasks_total} tasks; lower it")
        if self.deadline_s is not None and self.deadline_after_s is not None:
            raise ValueError("give deadline_s (absolute) or deadline_after_s (after the submission), not both")
        if self.deadline_s is not None and self.deadline_s <= self.submit_s:
            raise ValueError(
                f"deadline_s is absolute: {self.deadline_s:g} must be after submit_s {self.submit_s:g};"
                " deadline_after_s counts from the submission"
            )
        if any(b.deadline_s <= a.deadline_s or b.cost < a.cost for a, b in pairwise(self.sla)):
            raise ValueError("sla: deadlines must increase, and costs must not decrease")
        if self.max_containers is not None and (self.min_containers or 0) > self.max_containers:
            low, high = self.min_containers, self.max_containers
            raise ValueError(f"min_containers {low} is above max_containers {high}; lower it")
        return self

    @property
    def tasks_total(self) -> int:
        """How many tasks it has."""
        if self.groups is not None:
            return sum(group.count for group in self.groups)
        return self.maps + self.reduces if self.tasks is None else self.tasks.count

    @property
    def largest_task_gb(self) -> float:
        """Memory that its largest task holds; 0: none says."""
        held = [one.memory_gb for one in (self.groups or (self.tasks or self,)) if one.memory_gb is not None]
        return max((size for sizes in held for size in (sizes if isinstance(sizes, tuple) else (sizes,))), default=0.0)

    @property
    def gang_minimum(self) -> int | None:
        """How many of its tasks must have room at once; None: each starts by itself."""
        if isinstance(self.gang, Gang):
            return self.gang.minimum
        return self.tasks_total if self.gang else None


Format = Literal["swim", "rumen", "sls", "synth", "swf", "google", "yarn", "table", "natjam"]
"""The formats that a trace may have; ``table`` is CSV or Parquet with named columns (``workloads.columns``), ``natjam``
our own (``workloads.record``)."""
Unfinished = Literal["median", "observed", "drop"]
"""Length of a task that did not finish in the trace.

``median``: of the job's finished tasks of the same kind, or, without any, of their observed runs.  ``observed``: its
longest observed run, which is shorter than the task.  ``drop``: the task is left out.  A task for which the rule gives
no length is left out too.
"""


class BimodalEntry(Strict):
    """Small and large jobs drawn as in FLEX's paper (flex, section 4.1); ``workloads.paper_jobs`` has the rules."""

    jobs: Annotated[int, Field(ge=1, le=10_000)] = 10
    tasks: Annotated[int, Field(ge=1, le=1_000_000)] = 3000
    """Tasks of all jobs together.  It limits the containers that a job can use; the paper leaves it open."""
    task_s: Length = 10.0
    """Length of each task; the last of a job may be shorter."""
    small: Fraction = 0.8
    """Share of the jobs that are small; small jobs have a tenth of the work of large ones, on average."""
    slack: Fraction = 0.75
    """Share of the containers that is not in any job's minimum."""
    sla_steps: Annotated[int, Field(ge=1, le=100)] = 3
    spread: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    """Instead of small and large jobs: works are evenly spaced from 1 - ``spread`` to 1 + ``spread`` of the mean."""
    reduces: Fraction = 0.0
    """Share of each job's tasks that are reduces."""
    interarrival_s: Seconds = 0.0
    """Mean of the exponential time from one submission to the next; 0: all jobs are submitted at 0."""
    pooled: bool = False
    """Whether jobs have no minima and share the capacity of their queue instead; ``slack`` is then not used."""
    queue: str = "default"


class Spread(Strict):
    """Mean and standard deviation."""

    mean: Annotated[float, Field(gt=0, le=MAX_TASKS, allow_inf_nan=False)]
    sd: Annotated[float, Field(gt=0, le=MAX_TASKS, allow_inf_nan=False)]


class PoissonEntry(Strict):
    """Jobs that arrive at random, with deadlines (reverse-adaptive, Table I); see ``workloads.paper_jobs``."""

    load: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.6
    """Work offered, as a share of what the available containers can do."""
    span_s: Length = 7 * 86400.0
    """How long jobs arrive."""
    tasks: Spread = Spread(mean=62.0, sd=15.5)
    """Tasks of a job; lognormal."""
    task_s: Length = 387.0
    pieces: Annotated[int, Field(ge=1, le=1000)] = 1
    """Equal tasks that each task is cut into; a job uses no more containers at a time, and its deadline is the same."""
    deadline_factor: tuple[Factor, Factor] = (1.5, 4.0)
    """Time from submission to deadline, as a multiple of the job's time alone on the whole cluster; uniform."""
    counted_s: tuple[Seconds, Seconds] | None = None
    """Statistics of deadlines count the jobs that start or finish between these times; null: all."""
    queue: str = "default"

    @model_validator(mode="after")
    def _ordered(self) -> PoissonEntry:
        for name in ("deadline_factor", "counted_s"):
            pair = getattr(self, name)
            if pair is not None and pair[0] >= pair[1]:
                raise ValueError(f"{name}: the first number must be below the second, not {list(pair)}")
        jobs = self.load * self.span_s / self.task_s * self.pieces
        if jobs > MAX_TASKS_A_CONTAINER:
            raise ValueError(f"{jobs:.0f} tasks for each container are too many; lower load or span_s, or raise task_s")
        return self


GOOGLE_BANDS = ("production", "middle", "free")
"""Priorities 9 to 11, 2 to 8, 0 and 1 of the Google cluster trace of 2011 (adaptive-checkpointing, Table 1)."""


class GoogleDayEntry(Strict):
    """A day like one of Google's cluster (adaptive-checkpointing, section 3.3.2).  ``workloads.paper_jobs`` has the
    rules."""

    jobs: Annotated[int, Field(ge=1, le=100_000)] = 15_000
    tasks: Annotated[int, Field(ge=1, le=5_000_000)] = 600_000
    """The tasks of all jobs together."""
    span_s: Length = 86400.0
    """How long jobs arrive."""
    machine_memory_gb: Rate = 96.0
    """Memory of the largest machine; the trace gives shares of it."""
    machine_cpu: Rate = 32.0
    """Processors of the largest machine, of which the trace gives shares too; with ``node_groups`` only."""
    dirty_fraction: Fraction = 0.1
    """As for a job in a list."""

    @model_validator(mode="after")
    def _enough(self) -> GoogleDayEntry:
        if self.tasks < self.jobs:
            raise ValueError(f"tasks: {self.tasks} are too few for {self.jobs} jobs; raise it")
        return self


class UniformFactor(Strict):
    """A factor that is drawn for each job or task, uniform on [a, b]."""

    uniform: tuple[Factor, Factor]

    @model_validator(mode="after")
    def _ordered(self) -> UniformFactor:
        if self.uniform[0] > self.uniform[1]:
            raise ValueError(f"uniform: the first number must not be above the second, not {list(self.uniform)}")
        return self


class Rates(Strict):
    """Parameters of the models for values that a trace does not record; for bytes see ``workloads.adapt``.

    The defaults give the published medians of Facebook's tasks (natjam, section 2.2): a map of one full split of 64 MiB
    lasts 19 s, and a reduce that reads 64 MiB and writes nothing lasts 231 s.
    """

    source_nodes: Annotated[int, Field(gt=0)] = 600
    """Machines of the recorded cluster; 600 for the FB-2009 files, 3000 for FB-2010."""
    bytes_per_map: Annotated[int, Field(gt=0)] = 64 * 2**20
    bytes_per_reduce: Annotated[int, Field(gt=0)] = 64 * 2**20
    map_mb_s: Rate = 4.194304
    reduce_mb_s: Rate = 0.333875
    write_mb_s: Rate = 20.0
    map_overhead_s: Seconds = 3.0
    reduce_overhead_s: Seconds = 30.0
    byte_rules: Literal["whole-splits", "swim"] = "whole-splits"
    spread: UniformFactor | None = None
    """The length of each task is multiplied by a draw of this factor; null: all maps, and all reduces, of a job have
    equal lengths."""
    key_s: Length = 1.0
    """Time from one key of a reduce to the next, for every format."""
    unfinished: Unfinished | None = None
    """Null: ``median`` for Rumen, ``observed`` for Google."""


class DrawnMemory(Strict):
    """Memory of each task of a queue: a lognormal draw for each task, at most its container's memory."""

    median_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    p95_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> DrawnMemory:
        if self.p95_gb < self.median_gb:
            raise ValueError(f"p95_gb {self.p95_gb:g} must not be below median_gb {self.median_gb:g}")
        return self


class Machine(Strict):
    """What the largest machine of a trace has that gives requests as shares of it."""

    cpu: Rate
    memory_gb: Rate


class TraceEntry(Strict):
    """Jobs imported from a trace and fitted to the cluster; ``workloads.adapt`` has the rules."""

    format: Format
    path: str
    """The trace; a relative path is relative to the experiment file."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The column of each field of a table, as ``submit: Submit``; fields with units as ``length_ms`` too."""
    machine: Machine | None = None
    """What the largest machine of Google's trace has, of which requests are shares; null: requests are not read."""
    lenient: bool = False
    """If true, broken rows are skipped and counted; if false, the first one is an error."""
    gangs: bool = False
    """Whether each job of several tasks is a gang: its tasks start and stop together, as those of a rigid parallel job
    do."""
    window_s: Length | tuple[Seconds, Length] | None = None
    """Submissions to keep: those in the first seconds, or in [from, to); null: all."""
    superpose_s: Length | None = None
    """Lays the stretches of this length that the window consists of on top of each other: all begin at time 0.  More
    jobs in the same time, for a larger cluster; null: they follow each other."""
    load: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = None
    """Work offered to the cluster, as a multiple of what it can do; null: the number of tasks is not scaled."""
    data_scale: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """Share of the bytes that are really shuffled and written; task counts and lengths do not depend on it.  Null: all
    bytes, but none for jobs with measured lengths, which include the time for this."""
    production_fraction: Fraction | None = None
    """Chance that a job goes to queue ``production``; the others go to ``research``."""
    production_priority: int | None = None
    """Jobs of at least this priority go to queue ``production``; the others go to ``research``."""
    deadline_factor: Factor | UniformFactor | None = None
    """Epsilon: a job's deadline is its submission + its time alone on the cluster x (1 + epsilon)."""
    task_memory: dict[str, DrawnMemory] = Field(default_factory=dict)
    """By queue: the memory that its jobs' tasks hold, as ``memory_gb`` of a job; other queues' tasks hold none."""
    weights: dict[str, Weight] = Field(default_factory=dict)
    """By queue: the weight of its jobs in weighted metrics; 1 for other queues."""
    rates: Rates = Rates()

    @model_validator(mode="after")
    def _one_split(self) -> TraceEntry:
        if self.production_fraction is not None and self.production_priority is not None:
            raise ValueError("give production_fraction or production_priority, not both")
        if isinstance(self.window_s, tuple) and self.window_s[0] >= self.window_s[1]:
            raise ValueError(f"window_s: its end {self.window_s[1]:g} must be after its start {self.window_s[0]:g}")
        if self.columns and self.format != "table":
            raise ValueError(f"columns are for format: table, not for {self.format}")
        for name in self.columns:
            field_and_unit(name)
        if self.machine is not None and self.format != "google":
            raise ValueError(f"machine is for format: google, not for {self.format}, which has no shares of one")
        return self
