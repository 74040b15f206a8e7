"""The contents of a workload, counted as a stream: the memory needed does not grow with the workload."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from emulator.vocabulary import HOUR_NS
from workloads.histogram import LogHistogram
from workloads.record import JOB_COLUMNS, TASK_COLUMNS, Header, Trace, WorkloadJob

_MAX_NAMES = 50
"""Most queues to count separately; the others are counted together."""
NOT_IN_IT = "not in it"
SHARES = (0.1, 0.5, 0.9, 0.99)
DISTRIBUTIONS = {
    "tasks a job": "tasks",
    "map length": "s",
    "reduce length": "s",
    "memory request": "bytes",
    "processor request": "cpu",
    "GPU request": "gpu",
    "input a job": "bytes",
    "shuffle a job": "bytes",
    "output a job": "bytes",
    "time between submissions": "s",
}
"""The distributions that are kept, with their units."""


@dataclass(slots=True)
class Inspection:
    """Counts and distributions of a workload."""

    jobs: int = 0
    maps: int = 0
    reduces: int = 0
    without_tasks: int = 0
    """Jobs without recorded tasks."""
    modelled_lengths: int = 0
    """Tasks whose length was not measured."""
    evictions: int = 0
    lost_ns: int = 0
    first_submit_ns: int | None = None
    last_submit_ns: int = 0
    last_finish_ns: int | None = None
    by_queue: Counter[str] = field(default_factory=Counter)
    by_priority: Counter[int] = field(default_factory=Counter)
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_hour: Counter[int] = field(default_factory=Counter)
    """Submissions in each hour of the trace's clock."""
    filled: Counter[str] = field(default_factory=Counter)
    """By column: the number of jobs that have a value (for ``tasks.<name>``, of tasks)."""
    evictions_by_priority: Counter[int] = field(default_factory=Counter)
    distributions: dict[str, LogHistogram] = field(
        default_factory=lambda: {name: LogHistogram() for name in DISTRIBUTIONS}
    )

    def add(self, job: WorkloadJob) -> None:
        """Count one more job."""
        if self.first_submit_ns is not None:
            self.distributions["time between submissions"].add([abs(job.submit_ns - self.last_submit_ns) / 1e9])
        self.jobs += 1
        first_ns = job.submit_ns if self.first_submit_ns is None else self.first_submit_ns
        self.first_submit_ns = min(job.submit_ns, first_ns)
        self.last_submit_ns = max(job.submit_ns, self.last_submit_ns)
        if job.finish_ns is not None:
            self.last_finish_ns = max(job.finish_ns, self.last_finish_ns or 0)
        self.by_hour[job.submit_ns // HOUR_NS] += 1
        queue = job.queue or "none"
        self.by_queue[queue if queue in self.by_queue or len(self.by_queue) < _MAX_NAMES else "others"] += 1
        if job.priority is not None:
            self.by_priority[job.priority] += 1
        if job.outcome is not None:
            self.by_outcome[job.outcome] += 1
        self.filled.update(name for name in JOB_COLUMNS if getattr(job, name) is not None)
        for name, size in (("input", job.input_bytes), ("shuffle", job.shuffle_bytes), ("output", job.output_bytes)):
            if size is not None:
                self.distributions[f"{name} a job"].add([size])
        self._add_tasks(job)
        self._add_requests(job)

    def _add_tasks(self, job: WorkloadJob) -> None:
        if job.tasks is None:
            self.without_tasks += 1
            return
        maps, reduces = job.lengths_ns("map"), job.lengths_ns("reduce")
        self.maps, self.reduces = self.maps + len(maps), self.reduces + len(reduces)
        for name, lengths_ns in (("map length", maps), ("reduce length", reduces)):
            self.distributions[name].add([length / 1e9 for length in lengths_ns])
        self.distributions["tasks a job"].add([len(job.tasks)])
        for task in job.tasks:
            self.modelled_lengths += task.source == "modelled"
            self.lost_ns += task.lost_ns or 0
            if task.evictions:
                self.evictions += task.evictions
                self.evictions_by_priority[task.priority or 0] += task.evictions
        for name in TASK_COLUMNS:
            count = sum(getattr(task, name) is not None for task in job.tasks)
            if count:
                self.filled[f"tasks.{name}"] += count

    def _add_requests(self, job: WorkloadJob) -> None:
        """What each of its tasks asks for, as far as the job says it."""
        for name, size, unit in (
            ("memory request", job.memory_bytes, 1),
            ("processor request", job.cpu_thousandths, 1000),
            ("GPU request", job.gpu_thousandths, 1000),
        ):
            if size is not None:
                self.distributions[name].add([size / unit] * len(job.tasks or ()))

    @property
    def span_s(self) -> float:
        """Time from the first submission to the last."""
        return 0.0 if self.first_submit_ns is None else (self.last_submit_ns - self.first_submit_ns) / 1e9

    @property
    def hourly(self) -> list[int]:
        """Submissions in each hour from the first to the last submission, including hours without any."""
        if not self.by_hour:
            return []
        return [self.by_hour[hour] for hour in range(min(self.by_hour), max(self.by_hour) + 1)]

    @property
    def burstiness(self) -> float | None:
        """Ratio of the most to the fewest submissions in an hour (natjam, section 1).

        Only whole hours between the first and the last one count, without empty ones; None with fewer than two.
        """
        whole = [count for count in self.hourly[1:-1] if count]
        return max(whole) / min(whole) if len(whole) > 1 else None

    def columns(self, header: Header) -> list[tuple[str, str, str]]:
        """Each column of the schema: its name, ``measured``, ``modelled``, ``mixed`` or ``not in it``, and the rule."""
        told: list[tuple[str, str, str]] = []
        for name in (*JOB_COLUMNS, *(f"tasks.{name}" for name in TASK_COLUMNS)):
            found = header.columns.get(name)
            if found is not None and (self.filled[name] or not self.jobs):
                told.append((name, found.source, found.rule))
            elif not self.filled[name]:
                told.append((name, NOT_IN_IT, ""))
        return told

    def as_data(self, trace: Trace) -> dict[str, Any]:
        """The whole inspection as plain data, with times in seconds."""
        return {
            "format": trace.header.format,
            "history": list(trace.header.history),
            "jobs": self.jobs,
            "maps": self.maps,
            "reduces": self.reduces,
            "jobs_without_tasks": self.without_tasks,
            "tasks_with_modelled_length": self.modelled_lengths,
            "span_s": self.span_s,
            "hourly_submissions": self.hourly,
            "hourly_max_over_min": self.burstiness,
            "evictions": self.evictions,
            "lost_s": self.lost_ns / 1e9,
            "jobs_by_queue": dict(self.by_queue),
            "jobs_by_priority": {str(name): count for name, count in sorted(self.by_priority.items())},
            "jobs_by_outcome": dict(self.by_outcome),
            "evictions_by_priority": {str(name): count for name, count in sorted(self.evictions_by_priority.items())},
            "distributions": {
                name: {
                    "unit": unit,
                    "n": (of := self.distributions[name]).count,
                    "mean": of.total / of.count if of.count else None,
                    **{f"p{100 * share:g}": of.quantile(share) for share in SHARES if of.count},
                    "max": of.most if of.count else None,
                }
                for name, unit in DISTRIBUTIONS.items()
            },
            "columns": {name: {"source": source, "rule": rule} for name, source, rule in self.columns(trace.header)},
            "facts": trace.facts,
        }


def inspect_trace(trace: Trace) -> Inspection:
    """Read a trace to its end and count it.  Raises the errors of reading."""
    inspection = Inspection()
    for job in trace.jobs:
        inspection.add(job)
    return inspection
