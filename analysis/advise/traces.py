"""Makes an experiment from a trace, which has no cluster, for ``natjam advise TRACE``.

It uses the first hour of the trace from its first submission, or all of a shorter one.  If every job there has a queue,
and there are several, they stay: each is guaranteed its share of the work, and one is urgent (``_urgent``).  Otherwise
its jobs are divided at random into production and research.  The number of tasks is scaled so that the work offered is
1.3 times what the cluster can do (``workloads.load``; natjam, section 6).  The cluster has 6 nodes of 12 containers,
doubled until production's peak fits.  A trace too small to offer that much keeps its tasks.  Jobs of a format whose
jobs are rigid become gangs, and their ApplicationMasters, which such systems do not have, take no containers.  All keys
can be overridden.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from emulator.core.job import JobSpec
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment, overridden
from emulator.experiment.model import Experiment
from emulator.files.whole_files import written_whole
from emulator.files.yaml_values import dump_yaml
from workloads.adapt import window_of
from workloads.errors import Problems
from workloads.importers import open_entry
from workloads.importers.source import OnBytes
from workloads.record import Trace, WorkloadJob
from workloads.schema import Format, TraceEntry
from workloads.store import write_workload

EXPERIMENT_NAME, TRACE_NAME = "experiment.yaml", "trace.parquet"
_WINDOW_S, _LOAD = 3600, 1.3
_RIGID: tuple[Format, ...] = ("swf",)
"""Formats in which a job of several tasks ran on all its processors at once."""
_NODES = [6 * 2**doubled for doubled in range(9)]
_HEAD = """\
# Made by natjam advise from {path}: the cluster and the keys below 'trace' were assumed, not recorded.
# Change them here, or with --set.  The same advice is given by: {again}
"""


def experiment_of_trace(
    path: Path,
    format: Format,
    columns: Mapping[str, str],
    overrides: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    on_bytes: OnBytes,
    production: str | None = None,
    again: str = f"natjam advise {EXPERIMENT_NAME}",
) -> tuple[Path, Problems, list[str]]:
    """Write ``experiment.yaml``, with the overrides in it, and the part of the trace it uses, to ``out``.

    Returns its path, skipped rows, and what was assumed, in lines.  ``production`` names the urgent queue of the trace,
    ``again`` the command that gives the same advice with the file.

    Raises:
        ConfigError: an override is wrong, or the trace cannot be fitted to any cluster.
        TraceError: the trace cannot be read.
    """
    file, head = out / EXPERIMENT_NAME, _HEAD.format(path=path.name, again=again)
    given = {text.partition("=")[0].strip() for text in overrides}
    data = _experiment(path, format, columns, "workload.trace.production_priority" in given)
    _write(file, head, data)
    wanted = load_experiment(file, overrides).workload.trace
    if wanted is None:
        raise ConfigError("--set workload.trace: the trace cannot be removed")
    is_our_window = "workload.trace.window_s" not in given
    if is_our_window and (first_s := _first_submission_s(wanted)):
        wanted = wanted.model_copy(update={"window_s": (first_s, first_s + _WINDOW_S)})
    window = _write_window(path, wanted, out, on_bytes)
    notes = [window.said, *_keep_queues(data, window.jobs, given, production)]
    data["workload"]["trace"] |= {"format": "natjam", "path": TRACE_NAME}
    data["workload"]["trace"].pop("columns", None)
    if isinstance(wanted.window_s, tuple):  # its jobs are kept with times from its start
        overrides = [text for text in overrides if text.partition("=")[0].strip() != "workload.trace.window_s"]
        data["workload"]["trace"]["window_s"] = wanted.window_s[1] - wanted.window_s[0]
    is_given = isinstance(wanted.window_s, tuple) and not is_our_window
    # The load counts only the time in which jobs arrive.
    if not is_given and window.jobs[-1].submit_ns < _WINDOW_S * 1e9:
        del data["workload"]["trace"]["window_s"]
    is_own_cluster = any(name.startswith("cluster") for name in given)
    nodes = _NODES[:1] if is_own_cluster else _NODES
    tried = [(count, load) for load in (_LOAD, None) for count in nodes]  # a gang that is not scaled may be large
    if not is_own_cluster:
        notes.append("the cluster is not the trace's: it is the smallest (6 nodes, doubled) that holds the urgent jobs")
    made: tuple[JobSpec, ...] = ()
    for count, load in tried:
        data["cluster"]["nodes"], data["workload"]["trace"]["load"] = count, load
        _write(file, head, data)
        try:
            experiment = load_experiment(file, overrides)
            for seed in seeds:
                made = expand(experiment, seed)
            notes += _lost(experiment, window.jobs, made)
            break
        except ConfigError:
            if (count, load) == tried[-1]:
                raise
    _write(file, head, overridden(file, overrides))
    return file, window.problems, notes


def _first_submission_s(entry: TraceEntry) -> float:
    """The first submission of a trace, in seconds after the time from which it counts; 0 if it counts from there.

    Raises TraceError.
    """
    trace = open_entry(entry, Problems(lenient=True))
    if trace.header.origin != "zero":
        return 0.0
    first_ns = math.inf
    for job in trace.jobs:
        first_ns = min(first_ns, job.submit_ns)
        if not first_ns:  # as in most: the rest need not be read for this
            break
    return first_ns / 1e9 if first_ns < math.inf else 0.0


def _lost(experiment: Experiment, recorded: Sequence[WorkloadJob], made: Sequence[JobSpec]) -> Iterator[str]:
    """What the trace says of its jobs and makes no difference in the experiment, in words."""
    if experiment.cluster.node_groups is None and any(map(_asks, recorded)):
        yield "processors and GPUs that tasks ask for are not looked at: all containers have one size"
    trace = experiment.workload.trace
    several, gangs = sum(len(job.tasks or ()) > 1 for job in recorded), sum(job.facts.gang is not None for job in made)
    if trace is not None and trace.gangs and gangs < several:
        yield (
            f"{several - gangs:,} of the {several:,} jobs of several tasks have one task once scaled, and are no gangs;"
            " a larger cluster (--set cluster.nodes=...) keeps more"
        )


def _asks(job: WorkloadJob) -> bool:
    return bool(job.cpu_thousandths or job.gpu_thousandths or any(task.cpu_thousandths for task in job.tasks or ()))


def with_window_kept(experiment: Experiment, out: Path, on_bytes: OnBytes, notes: list[str]) -> list[str]:
    """Overrides with which the runs of an experiment read only the part of its trace that they use.

    There are none without a trace, or if the trace is in natjam's format.  Says in ``notes`` which part that is.

    Raises TraceError, ConfigError.
    """
    entry = experiment.workload.trace
    if entry is None or entry.format == "natjam":
        return []
    notes.append(_write_window(Path(entry.path), entry, out, on_bytes).said)
    from_s, to_s = entry.window_s if isinstance(entry.window_s, tuple) else (0.0, entry.window_s)
    window = [] if to_s is None else [f"workload.trace.window_s={to_s - from_s}"]
    path = (out / TRACE_NAME).absolute()
    window += ["workload.trace.columns={}"] if entry.columns else []
    return [*window, "workload.trace.format=natjam", f"workload.trace.path={path}"]


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a trace that is used."""

    jobs: list[WorkloadJob]
    problems: Problems
    said: str


def _write_window(path: Path, entry: TraceEntry, out: Path, on_bytes: OnBytes) -> _Window:
    """Write the unchanged jobs of the window, with times from its start."""
    problems: list[Problems] = []
    counts: list[int] = []

    def counted(trace: Trace) -> Iterator[WorkloadJob]:
        for job in trace.jobs:
            counts[-1] += 1
            yield job

    def opened() -> Trace:
        problems.append(Problems(entry.lenient))
        counts.append(0)
        trace = open_entry(entry, problems[-1], on_bytes)
        return replace(trace, jobs=counted(trace))

    header, jobs = window_of(opened, entry)
    if not jobs:
        raise ConfigError(f"{path}: no job of the trace is in the window; set workload.trace.window_s")
    write_workload(out / TRACE_NAME, Trace(header, iter(jobs)))
    recorded = sum(len(job.tasks or ()) for job in jobs)
    tasks = f", with {recorded:,} tasks" if recorded else "; it records no tasks: a model makes them from the bytes"
    said = f"all {len(jobs):,} jobs of {path.name}"
    if len(jobs) != counts[-1]:
        said = (
            f"{len(jobs):,} of the {counts[-1]:,} jobs of {path.name}, those submitted in {_in_words(entry.window_s)}"
        )
    return _Window(jobs, problems[-1], said + tasks)


def _in_words(window_s: float | tuple[float, float] | None) -> str:
    if window_s is None:
        return "all of it"
    if isinstance(window_s, tuple):
        return f"its seconds {window_s[0]:,g} to {window_s[1]:,g}"
    return "its first hour" if window_s == _WINDOW_S else f"its first {window_s:,g} s"


def _keep_queues(
    data: dict[str, Any], jobs: Sequence[WorkloadJob], given: set[str], production: str | None
) -> list[str]:
    """Give the experiment the trace's own queues, if every job has one and there are several; what was assumed."""
    work_s: dict[str, float] = {}
    for job in jobs:
        if job.queue is not None:
            work_s[job.queue] = work_s.get(job.queue, 0) + sum(task.length_ns for task in job.tasks or ()) / 1e9
    has_split = any(name.startswith("workload.trace.production_") for name in given)
    if has_split or len(work_s) < 2 or any(job.queue is None for job in jobs):
        if production not in (None, "production", "research"):
            raise ConfigError(f"--production {production}: the jobs of the trace have no such queue")
        return []
    if production is not None and production not in work_s:
        raise ConfigError(f"--production {production}: there is no such queue (queues: {', '.join(sorted(work_s))})")
    urgent, why = (production, "--production") if production else _urgent(jobs, work_s)
    total_s = sum(work_s.values()) or 1.0
    ordered = sorted(work_s, key=lambda name: (name != urgent, name))
    data["scheduler"]["allocation"]["queues"] = {
        name: {"capacity": int(1000 * work_s[name] / total_s) / 1000} for name in ordered
    }
    data["workload"]["trace"].pop("production_fraction", None)
    return [f"the queues are the trace's own, each guaranteed its share of the work; '{urgent}' is urgent: {why}"]


def _urgent(jobs: Sequence[WorkloadJob], queues: Iterable[str]) -> tuple[str, str]:
    """The queue called production, or else the one whose jobs are shortest; and why."""
    named = next((name for name in queues if name.rpartition(".")[2].lower() in ("production", "prod")), None)
    if named is not None:
        return named, "its name"
    longest_ns: dict[str, list[int]] = {}
    for job in jobs:
        lengths = [task.length_ns for task in job.tasks or ()]
        longest_ns.setdefault(str(job.queue), []).append(max(lengths, default=0))
    shortest = min(longest_ns, key=lambda name: (median(longest_ns[name]), name))
    return shortest, "its jobs are shortest at the median; --production names another"


def _experiment(path: Path, format: Format, columns: Mapping[str, str], has_priority: bool) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.partition(".")[0]).strip("-._")[:90] or "trace"
    split = {} if has_priority else {"production_fraction": 0.3}
    is_rigid = format in _RIGID
    return {
        "name": name,
        "engine": "sim",
        "time_scale": 20,
        "overheads": "hadoop-0.23",
        "sim": {"journal": "off"},
        "cluster": {
            "nodes": _NODES[0],
            "containers_per_node": 12,
            "memory_gb": 24,
            "max_suspended_per_node": 12,
            **({"application_masters": "outside"} if is_rigid else {}),
        },
        "scheduler": {
            "allocation": {
                "name": "two-queue",
                "queues": {"production": {"capacity": 0.25}, "research": {"capacity": 0.75}},
            },
            "mechanism": "checkpoint",
        },
        "workload": {
            "trace": {
                "format": format,
                "path": str(path.absolute()),
                **({"columns": dict(columns)} if columns else {}),
                **({"gangs": True} if is_rigid else {}),
                "window_s": _WINDOW_S,
                "load": 1.3,
                **split,
            }
        },
    }


def _write(file: Path, head: str, data: dict[str, Any]) -> None:
    with written_whole(file) as unfinished:
        unfinished.write_text(head + dump_yaml(data))
