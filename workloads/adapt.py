"""Fits a trace to a cluster, for ``workload.trace`` of an experiment and ``natjam workload scale``.

The steps, in this order:

1. *Window.* Keeps the jobs submitted in ``window_s``, which counts from the trace's origin: its clock's zero, or, for
   epoch times and slices, the first submission.  Time 0 of the result is the start of the window.
2. *Queue.* With ``production_priority``, jobs of at least that priority go to ``production`` and the others to
   ``research``.  With ``production_fraction``, each job goes to ``production`` with that chance; the draw depends only
   on the seed and the job's name.  Without either, jobs keep the queue that the trace records; if the experiment has
   only one queue, they go there.
3. *Tasks.* A job has the tasks that the trace records.  For a job with bytes only, ``model_tasks`` below makes them.
   With ``rates.spread``, each of these gets its own length, drawn by seed, job and number once their number is known.
4. *Load.* With ``load``, the number of tasks is scaled, separately for production and research: ``workloads.load``.
   If a job's recorded tasks become fewer or more, the new tasks are quantiles of the recorded ones.
5. *Real bytes.* A run really shuffles and writes the bytes x the share of tasks kept x ``data_scale``, truncated, and
   at least 1,024 if there are any.  This changes nothing above.  For jobs with measured lengths nothing is really
   shuffled or written, unless ``data_scale`` is given, because the lengths include that time
   (``emulator.experiment.expand``).
6. *Deadline.* With ``deadline_factor`` epsilon: submission + time alone on the cluster x (1 + epsilon).  Epsilon is
   drawn by seed and job name (natjam, section 7); the time alone is an estimate, ``workloads.load.alone_ns``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

from emulator.errors import ConfigError
from emulator.files.times import LARGEST_TIME_S, seconds_to_ns
from emulator.vocabulary import counted
from workloads.load import Demand, Factors, Group, alone_ns, find_factors
from workloads.record import Header, Kind, Trace, WorkloadJob, WorkloadTask, modelled
from workloads.schema import MAX_TASKS, Rates, TraceEntry, UniformFactor

LATEST_SUBMISSION_NS = 10**18
"""Some thirty years: traces of archives are longer than the three that a task may take; all instants of a run fit in 64
bits."""
PRODUCTION, RESEARCH = "production", "research"
_factors = lru_cache(8)(find_factors)
"""A campaign's runs of one trace and seed need the same factors again and again."""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a trace is fitted to."""

    nodes: int
    containers: int
    """Containers of the whole cluster."""
    queues: tuple[str, ...] = (PRODUCTION, RESEARCH)
    schedule_ns: int = 0
    """Time of a launch, for the estimate of a job's time alone."""
    task_schedule_ns: int | None = None
    """Time of a task's launch, if it differs."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A fitted trace: its jobs, sorted by submission, each with queue, tasks and the other requested fields."""

    header: Header
    jobs: tuple[WorkloadJob, ...]
    factors: Factors | None
    """The factors that ``load`` gave; None without ``load``."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A job before its tasks are counted."""

    job: WorkloadJob
    model: BytesModel | None
    maps: Group
    reduces: Group

    @property
    def demand(self) -> Demand:
        return Demand(self.job.submit_ns, self.maps, self.reduces)


def adapt(open_trace: Callable[[], Trace], entry: TraceEntry, target: Target, seed: int) -> Adapted:
    """Fit a trace to a cluster; ``open_trace`` opens it, and may be called twice.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: the window has no job, a queue is missing, the load is not possible, or a task would be too long.
    """
    header, jobs = window_of(open_trace, entry)
    if not jobs:
        raise ConfigError(f"{entry.path}: no job of the trace is in the window; see window_s")
    drafts = [_draft(_queued(job, entry, target, seed), entry, target) for job in jobs]
    factors = None
    if entry.load is not None:
        queues = (PRODUCTION, RESEARCH)
        by_queue = {queue: tuple(one.demand for one in drafts if one.job.queue == queue) for queue in queues}
        everyone = tuple(one.demand for one in drafts)
        is_split = all(one.job.queue in by_queue for one in drafts)
        production, research = (by_queue[PRODUCTION], by_queue[RESEARCH]) if is_split else ((), everyone)
        factors = _factors(production, research, entry.load, target.containers, _span_ns(jobs, entry))
    tasks_target = replace(target, task_schedule_ns=0) if header.starts_measured else target
    made = tuple(_made(draft, entry, tasks_target, factors, seed) for draft in drafts)
    return Adapted(_told(header, entry, target, seed, factors), made, factors)


# ---- window ----


def window_of(open_trace: Callable[[], Trace], entry: TraceEntry) -> tuple[Header, list[WorkloadJob]]:
    """The jobs of the window, sorted by submission, with times from its start; the first step of ``adapt``.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: a job is submitted too late.
    """
    trace = open_trace()
    origin_ns = 0
    from_s, to_s = _bounds_s(entry)
    kept: list[WorkloadJob] = []
    if trace.header.origin == "zero":
        kept = [job for job in trace.jobs if _inside(job, seconds_to_ns(from_s), to_s - from_s)]
    elif entry.window_s is None:
        kept = list(trace.jobs)
        origin_ns = min((job.submit_ns for job in kept), default=0)
    else:  # two passes, so that only the window is in memory
        origin_ns = min((job.submit_ns for job in trace.jobs), default=0)
        trace = open_trace()
        kept = [job for job in trace.jobs if _inside(job, origin_ns + seconds_to_ns(from_s), to_s - from_s)]
    begin_ns = origin_ns + seconds_to_ns(from_s)
    shifted = [_shifted(job, begin_ns) for job in kept]
    if entry.superpose_s is not None:
        stretch_ns = seconds_to_ns(entry.superpose_s)
        shifted = [_shifted(job, job.submit_ns // stretch_ns * stretch_ns) for job in shifted]
    for job in shifted:
        if job.submit_ns > LATEST_SUBMISSION_NS:
            raise ConfigError(
                f"{entry.path}: job {job.job} is submitted {job.submit_ns / 1e9:.0f} s after time 0; see window_s"
            )
    return replace(trace.header, origin="zero"), sorted(shifted, key=lambda job: job.submit_ns)


def _bounds_s(entry: TraceEntry) -> tuple[float, float]:
    if entry.window_s is None:
        return 0.0, float("inf")
    return entry.window_s if isinstance(entry.window_s, tuple) else (0.0, entry.window_s)


def _inside(job: WorkloadJob, from_ns: int, length_s: float) -> bool:
    return from_ns <= job.submit_ns < from_ns + length_s * 1e9


def _span_ns(jobs: Sequence[WorkloadJob], entry: TraceEntry) -> int:
    """Length of the window, or of its stretches; for a whole trace, the time from its start to its last submission."""
    if entry.superpose_s is not None:
        return seconds_to_ns(entry.superpose_s)
    if entry.window_s is None:
        return max(1, jobs[-1].submit_ns)
    from_s, to_s = _bounds_s(entry)
    return seconds_to_ns(to_s - from_s)


def _shifted(job: WorkloadJob, by_ns: int) -> WorkloadJob:
    """The job on a clock whose zero is ``by_ns`` later; times of its tasks are not changed, as nothing reads them."""
    if not by_ns:
        return job
    times = {name: getattr(job, name) for name in ("submit_ns", "start_ns", "finish_ns", "deadline_ns")}
    shifted: dict[str, Any] = {name: None if time is None else time - by_ns for name, time in times.items()}
    return replace(job, **shifted)


# ---- queue ----


def _queued(job: WorkloadJob, entry: TraceEntry, target: Target, seed: int) -> WorkloadJob:
    queue: str | None = job.queue
    if entry.production_priority is not None:
        if job.priority is None:
            raise ConfigError(
                f"production_priority: job {job.job} of the trace has no priority; use production_fraction"
            )
        queue = PRODUCTION if job.priority >= entry.production_priority else RESEARCH
    elif entry.production_fraction is not None:
        draw = Random(f"{seed}:{job.job}:queue").random()
        queue = PRODUCTION if draw < entry.production_fraction else RESEARCH
    elif len(target.queues) == 1:
        queue = target.queues[0]
    if queue in target.queues:
        return job if queue == job.queue else replace(job, queue=queue)
    has = f"queue {queue!r}" if queue else "no queue"
    raise ConfigError(
        f"{entry.path}: job {job.job} has {has}, and the experiment's queues are {', '.join(target.queues)};"
        " give production_fraction or production_priority"
    )


# ---- tasks ----


def _draft(job: WorkloadJob, entry: TraceEntry, target: Target) -> _Draft:
    if job.tasks is not None:
        maps, reduces = (tuple(task for task in job.tasks if task.kind == kind) for kind in ("map", "reduce"))
        return _Draft(job, None, Group(maps, len(maps)), Group(reduces, len(reduces)))
    if not has_bytes(job):
        raise ConfigError(f"{entry.path}: job {job.job} has no tasks, and no bytes to make them from")
    scaled = entry.load is None
    nodes, most = (target.nodes, target.containers - 1) if scaled else (None, None)
    model = model_tasks(job, entry.rates, nodes, most)
    return _Draft(job, model, _same("map", model.map_ns, model.maps), _same("reduce", model.reduce_ns, model.reduces))


def _same(kind: Kind, length_ns: int, count: int) -> Group:
    return Group((WorkloadTask(kind, length_ns, "modelled"),) if count else (), count)


def _made(draft: _Draft, entry: TraceEntry, target: Target, factors: Factors | None, seed: int) -> WorkloadJob:
    job, maps, reduces = draft.job, draft.maps.count, draft.reduces.count
    if factors is not None:
        factor = factors.production if job.queue == PRODUCTION else factors.research
        most = max(1, target.containers - 1)
        maps, reduces = draft.maps.scaled(factor, most), draft.reduces.scaled(factor, most)
    if maps > MAX_TASKS or reduces > MAX_TASKS:
        raise ConfigError(
            f"{entry.path}: job {job.job} has {maps} maps and {reduces} reduces, above {MAX_TASKS};"
            " give a load, or raise rates.bytes_per_map and rates.bytes_per_reduce"
        )
    tasks = (*draft.maps.tasks(maps), *draft.reduces.tasks(reduces))
    if draft.model is not None and entry.rates.spread is not None:
        tasks = _spread(tasks, entry.rates.spread, Random(f"{seed}:{job.job}:lengths"))
    kept = (maps + reduces) / max(1, draft.maps.count + draft.reduces.count)
    shuffle_bytes = job.shuffle_bytes if draft.model is None else draft.model.shuffle_bytes
    output_bytes = job.output_bytes if draft.model is None else draft.model.output_bytes
    data_scale = 1.0 if entry.data_scale is None else entry.data_scale
    made = replace(
        job,
        tasks=tasks,
        shuffle_bytes=_real(shuffle_bytes, kept * data_scale) if reduces else 0,
        output_bytes=_real(output_bytes, kept * data_scale),
    )
    return made if entry.deadline_factor is None else _with_deadline(made, entry.deadline_factor, target, seed)


def _spread(tasks: Sequence[WorkloadTask], spread: UniformFactor, rng: Random) -> tuple[WorkloadTask, ...]:
    low, high = spread.uniform
    lengths_ns = [max(1, round(task.length_ns * (low + (high - low) * rng.random()))) for task in tasks]
    return tuple(replace(task, length_ns=length_ns) for task, length_ns in zip(tasks, lengths_ns, strict=True))


def _real(whole_bytes: int | None, share: float) -> int | None:
    return max(FLOOR_BYTES, int(whole_bytes * share)) if whole_bytes else whole_bytes


def _with_deadline(job: WorkloadJob, factor: float | UniformFactor, target: Target, seed: int) -> WorkloadJob:
    if isinstance(factor, UniformFactor):
        low, high = factor.uniform
        factor = low + (high - low) * Random(f"{seed}:{job.job}:deadline").random()
    alone = alone_ns(
        job.lengths_ns("map"),
        job.lengths_ns("reduce"),
        target.containers,
        target.schedule_ns,
        target.task_schedule_ns,
    )
    return replace(job, deadline_ns=job.submit_ns + max(1, round(alone * (1 + factor))))


# ---- the header ----


def _told(header: Header, entry: TraceEntry, target: Target, seed: int, factors: Factors | None) -> Header:
    """The header with this step: its parameters, and the columns that it made or changed."""
    said = {
        name: value for name, value in entry.model_dump(exclude_defaults=True).items() if name not in ("format", "path")
    }
    cluster = f"{counted(target.nodes, 'node')} with {counted(target.containers, 'container')}"
    step = f"fitted to {cluster}, seed {seed}: {said}"
    columns = {}
    if entry.production_priority is not None or entry.production_fraction is not None:
        columns["queue"] = modelled("split into production and research")
    if "tasks" not in header.columns:
        rule = modelled(f"made from the bytes, rules {entry.rates.byte_rules!r}")
        columns |= dict.fromkeys(("tasks", "tasks_kind", "tasks_length_ns"), rule)
    elif factors is not None:
        columns["tasks"] = modelled("from the trace, their number scaled")
    if factors is not None:
        step += (
            f"; factors {factors.production:.6g} (production) and {factors.research:.6g} (research),"
            f" offered {factors.offered:.4g}, production's peak {factors.production_peak} containers"
        )
    if entry.deadline_factor is not None:
        columns["deadline_ns"] = modelled("submission + estimated time alone x (1 + epsilon)")
    for name in ("shuffle_bytes", "output_bytes"):
        if name in header.columns:
            columns[name] = modelled("scaled")
    return header.with_step(step, **columns)


# ---- tasks and lengths of jobs for which a trace records only bytes (SWIM): the model of ``rates`` ----
#
# The rules, in the order in which they apply:
#
# 1. *Scale.*  Each byte column is multiplied by ``nodes / source_nodes`` and truncated, unless the experiment's
#    ``load`` scales the number of tasks instead.
# 2. *Map-only.*  A job whose recorded shuffle is 0 has no reduces.
# 3. *Maps.*  A map reads one whole split: ``ceil(input / bytes_per_map)`` maps, at least one, however small the input.
# 4. *Floors.*  Shuffle, where there is one, and output are at least 1,024 bytes.
# 5. *Reduces.* ``(shuffle + output) / bytes_per_reduce`` rounded half up, at least one, and at most as many as run at
#    once beside the ApplicationMaster: the cluster's containers minus one.
# 6. *Lengths* are the same for all maps of a job, and for all its reduces (but see ``spread``).  A map takes
#    ``map_overhead_s``, plus its split at ``map_mb_s``, plus in a map-only job its share of the output at
#    ``write_mb_s``.  A reduce takes ``reduce_overhead_s``, plus its share of the shuffle at ``reduce_mb_s``, plus its
#    share of the output at ``write_mb_s``.
#
# ``byte_rules: swim`` counts tasks in the same way as SWIM's own replay scripts (GenerateReplayScript.java).  Rule 2 is
# off, because SWIM applies the floor to the shuffle of every job.  A split holds ``bytes_per_map`` minus 14%, the
# overhead of Hadoop's sequence files, and the input is at least one split.  A job with more reduces than nodes gets a
# fifth of the nodes as reduces (at least one; in SWIM none on fewer than five nodes).  Lengths follow rule 6.


FLOOR_BYTES = 1024
_RECORD_BYTES, _RECORD_FILE_BYTES = 100, 116
_MARKER_BYTES, _MARKER_RECORDS, _HEADER_BYTES = 20, 18, 96


@dataclass(frozen=True, slots=True)
class BytesModel:
    """The result of the rules for one job."""

    maps: int
    map_ns: int
    reduces: int
    reduce_ns: int
    """0 if there are no reduces."""
    shuffle_bytes: int
    output_bytes: int


def has_bytes(job: WorkloadJob) -> bool:
    """Whether the rules apply: the trace records all three columns of bytes."""
    return None not in (job.input_bytes, job.shuffle_bytes, job.output_bytes)


def model_tasks(job: WorkloadJob, rates: Rates, nodes: int | None, most_reduces: int | None) -> BytesModel:
    """The tasks of a job with bytes.

    Args:
        job: must satisfy ``has_bytes``.
        rates: the model's parameters.
        nodes: of the cluster to which the bytes are scaled; None: bytes are not scaled.
        most_reduces: the limit of rule 5; None: no limit.

    Raises:
        ConfigError: a task would be too long.
    """

    def scaled(recorded_bytes: int | None) -> int:
        return (recorded_bytes or 0) * (rates.source_nodes if nodes is None else nodes) // rates.source_nodes

    is_swim = rates.byte_rules == "swim"
    split_bytes = _split_bytes(rates.bytes_per_map) if is_swim else rates.bytes_per_map
    maps = max(1, -(-scaled(job.input_bytes) // split_bytes))
    output_bytes = max(FLOOR_BYTES, scaled(job.output_bytes))
    map_s = rates.map_overhead_s + split_bytes / (rates.map_mb_s * 1e6)
    output_s = output_bytes / (rates.write_mb_s * 1e6)
    if job.shuffle_bytes == 0 and not is_swim:
        reduces, shuffle_bytes, reduce_s = 0, 0, 0.0
        map_s += output_s / maps
    else:
        shuffle_bytes = max(FLOOR_BYTES, scaled(job.shuffle_bytes))
        reduces = _reduces(shuffle_bytes + output_bytes, rates, nodes, most_reduces)
        reduce_s = rates.reduce_overhead_s + (shuffle_bytes / (rates.reduce_mb_s * 1e6) + output_s) / reduces
    if max(map_s, reduce_s) > LARGEST_TIME_S:
        raise ConfigError(f"job {job.job}: a task of this job would last over {LARGEST_TIME_S:.0f} s; see rates")
    reduce_ns = seconds_to_ns(reduce_s)
    return BytesModel(maps, seconds_to_ns(map_s), reduces, reduce_ns, shuffle_bytes, output_bytes)


def _reduces(work_bytes: int, rates: Rates, nodes: int | None, most: int | None) -> int:
    rounded_half_up = max(1, (2 * work_bytes + rates.bytes_per_reduce) // (2 * rates.bytes_per_reduce))
    if rates.byte_rules == "swim":
        nodes = rates.source_nodes if nodes is None else nodes
        return rounded_half_up if rounded_half_up <= nodes else max(1, nodes // 5)
    return rounded_half_up if most is None else max(1, min(rounded_half_up, most))


def _split_bytes(file_bytes: int) -> int:
    """Bytes of data in a sequence file of this size: a record of 100 bytes takes 116, with a marker after every 18."""
    per_record = _RECORD_FILE_BYTES + _MARKER_BYTES / _MARKER_RECORDS
    return max(1, int((file_bytes - _HEADER_BYTES) / per_record)) * _RECORD_BYTES
