"""Where every number of a table comes from: measures over the rows of a run's history.

The first part measures jobs, as rows with the columns of ``jobs.parquet`` and of ``summary.json``, of one queue, one
run or several: how long they waited and took, what they missed, how often they were evicted, and what they lost.  The
second part has what a run's summary says of the whole run: capacity used, deadlines met, images stored, containers
withheld.  Capacity is that of the containers, or where they have sizes of the resource most used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from emulator.core.messages import JobState
from emulator.policies.capacity import Capacity, Step
from emulator.records.history import AttemptRow, History, ImageRow, JobRow
from emulator.resolved import Resolved
from emulator.vocabulary import HOUR_NS, MASTER, Tier, mean_s, transfer_ns

Job = Mapping[str, Any]
"""A row of a job, in emulated seconds."""


def by_queue(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """The jobs of each queue, queues in the order of their first jobs."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job["queue"], []).append(job)
    return found


def ended_well(job: Job) -> bool:
    """Whether a job ended as it was to: it succeeded, or its scheduler's rules ended it."""
    return job["state"] in (JobState.SUCCEEDED.value, JobState.KILLED.value)


def shown_state(job: Job) -> str:
    """The state of a job for people: a job that its scheduler's rules ended is cancelled."""
    return "cancelled" if job["state"] == JobState.KILLED.value else job["state"]


def failed(jobs: Iterable[Job]) -> int:
    """How many jobs did not end as they were to."""
    return sum(not ended_well(job) for job in jobs)


def known(jobs: Iterable[Job], column: str) -> list[Any]:
    """The values of a column such as ``completion_s``, of the jobs that have one."""
    return [job[column] for job in jobs if job[column] is not None]


def waits_s(jobs: Iterable[Job]) -> list[float]:
    """From submission to the first work, of each job that was submitted and started."""
    return [job["start_s"] - job["submit_s"] for job in jobs if None not in (job["start_s"], job["submit_s"])]


def mean(values: Sequence[float]) -> float | None:
    """The mean; None without values."""
    return sum(values) / len(values) if values else None


def not_started(jobs: Iterable[Job]) -> int:
    """How many jobs never did any work."""
    return sum(job["start_s"] is None for job in jobs)


def has_missed(job: Job) -> bool:
    """Whether a job has missed its deadline: it was late, or did not end well."""
    if job["deadline_s"] is None:
        return False
    return not ended_well(job) or job["margin_s"] is None or job["margin_s"] < 0


def total(jobs: Iterable[Job], column: str) -> float:
    """The sum of a column, such as ``kills`` or ``lost_work_s``."""
    return sum(known(jobs, column))


def evictions(jobs: Sequence[Job]) -> int:
    """How often tasks of the jobs gave their container to another job, whether their work was kept or lost."""
    return int(total(jobs, "suspensions") + total(jobs, "kills"))


# ---- whole runs ----

_FIGURES: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("makespan_s", "real_s", "energy_j", "swap_bytes", "checkpoint_bytes", "disturbed")},
    **{name: ("work", name) for name in ("useful_s", "lost_s", "overhead_s", "wasted_fraction", "utilization")},
    **{name: ("storage", name) for name in ("peak_bytes", "io_fraction")},
    **{f"lag_{name}": ("lag", name) for name in ("p99_real_ms", "p99_emulated_s")},
    "verified": ("output", "verified"),
}
RUN_FIGURES = tuple(_FIGURES)
"""What tables and comparisons have of a run as a whole."""


def figure_of(summary: Mapping[str, Any], name: str) -> Any:
    """One of ``RUN_FIGURES`` of a run, from its ``summary.json``; None: it has none."""
    found: Any = summary
    for key in _FIGURES[name]:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def busy_share(history: History, run: Resolved, makespan_ns: int | None) -> float | None:
    """Share of the capacity over ``makespan_ns`` that was held by attempts at work; None: no job has ended."""
    if not run.settings.has_sizes:
        busy_ns = sum(row.busy_ns for row in history.jobs)
        if run.settings.unmanaged_masters:
            busy_ns -= sum(row.masters_busy_ns for row in history.jobs)
        return _of_containers(busy_ns, run, makespan_ns)
    return _of_resources([(row, row.busy_ns) for row in history.attempts], run, makespan_ns)


def wasted_share(history: History, run: Resolved, makespan_ns: int | None) -> float | None:
    """The same of attempts whose work was lost, and of dumps and restores."""
    if not run.settings.has_sizes:
        wasted_ns = sum(row.lost_work_ns + row.overhead_ns for row in history.jobs)
        return _of_containers(wasted_ns, run, makespan_ns)
    return _of_resources([(row, row.lost_ns + row.overhead_ns) for row in history.attempts], run, makespan_ns)


def sized_work_share(history: History, run: Resolved, makespan_ns: int) -> float:
    """The same of attempts at work, in dumps and in restores, where containers have sizes."""
    times = [(row, row.useful_ns + row.lost_ns + row.overhead_ns) for row in history.attempts]
    return _of_resources(times, run, makespan_ns) or 0.0


def _of_containers(used_ns: int, run: Resolved, makespan_ns: int | None) -> float | None:
    return used_ns / (run.containers * makespan_ns) if makespan_ns else None


def _of_resources(times: Sequence[tuple[AttemptRow, int]], run: Resolved, makespan_ns: int | None) -> float | None:
    if not makespan_ns:
        return None
    totals = [sum(amounts) for amounts in zip(*(node.resources for node in run.settings.nodes), strict=True)]
    used = [0] * len(totals)
    for row, time_ns in times:
        for place, amount in enumerate(row.request):
            used[place] += time_ns * amount.thousandths
    return max(
        (used_ / (total * makespan_ns) for used_, total in zip(used, totals, strict=True) if total), default=None
    )


def deadline_facts(rows: Sequence[JobRow], counted_s: tuple[float, float] | None) -> dict[str, Any]:
    """How many deadlines were missed and by how much, and how early the others were met; emulated seconds.

    ``by_hour`` has the deadlines, and the missed ones, in each hour of emulated time that has any.  A job that did not
    finish has missed its deadline, by an unknown time.

    Args:
        rows: of all jobs; those without a deadline do not count.
        counted_s: only jobs that start or finish between these times count; if a job's start is not known, its
            submission is used.  None: all jobs count.
    """
    counted = [row for row in rows if row.deadline_ns is not None and _is_counted(row, counted_s)]
    margins_ns = [row.margin_ns for row in counted if row.margin_ns is not None]
    beyond_ns = [-margin_ns for margin_ns in margins_ns if margin_ns < 0]
    room_ns = [margin_ns for margin_ns in margins_ns if margin_ns >= 0]
    missed = len(counted) - len(room_ns)
    by_hour: dict[int, list[int]] = {}
    for row in counted:
        cell = by_hour.setdefault((row.deadline_ns or 0) // HOUR_NS, [0, 0])
        cell[0] += 1
        cell[1] += row.margin_ns is None or row.margin_ns < 0
    return {
        "jobs": len(counted),
        "missed": missed,
        "missed_pct": 100 * missed / len(counted) if counted else None,
        "beyond_s": mean_s(beyond_ns),
        "room_s": mean_s(room_ns),
        "by_hour": [{"hour": hour, "deadlines": n, "missed": late} for hour, (n, late) in sorted(by_hour.items())],
    }


def _is_counted(row: JobRow, counted_s: tuple[float, float] | None) -> bool:
    if counted_s is None:
        return True
    begins_ns = row.submit_ns if row.start_ns is None else row.start_ns
    low_s, high_s = counted_s
    return any(at_ns is not None and low_s <= at_ns / 1e9 < high_s for at_ns in (begins_ns, row.finish_ns))


def storage_facts(images: Sequence[ImageRow], tier: Tier | None, nodes: int, makespan_ns: int | None) -> dict[str, Any]:
    """``peak_bytes``: most bytes on all devices together at a time; ``mean_bytes``: their mean over the makespan, None
    if no images are made.

    ``io_fraction``: the mean share of a device's time that its images took, each at the device's full speed; None if
    no images are made.
    """
    changes = [(image.written_ns, image.written_bytes) for image in images]
    changes += [(image.gone_ns, -image.written_bytes) for image in images if image.gone_ns is not None]
    stored_bytes, peak_bytes = 0, 0
    for _, change in sorted(changes):
        stored_bytes += change
        peak_bytes = max(peak_bytes, stored_bytes)
    byte_ns = sum(i.written_bytes * (i.gone_ns - i.written_ns) for i in images if i.gone_ns is not None)
    busy_ns = device_ns(images, tier)
    return {
        "peak_bytes": peak_bytes,
        "mean_bytes": byte_ns / makespan_ns if tier is not None and makespan_ns else None,
        "io_fraction": busy_ns / (nodes * makespan_ns) if tier is not None and makespan_ns else None,
    }


def device_ns(images: Sequence[ImageRow], tier: Tier | None) -> int:
    """The total time to write and read the images on devices that do nothing else."""
    if tier is None:
        return 0
    return sum(
        transfer_ns(image.written_bytes, tier.write_bytes_s) + transfer_ns(image.read_bytes, tier.read_bytes_s)
        for image in images
    )


Change = tuple[int, int]
"""At this instant, so many containers more in use."""


def transactional_facts(attempts: Iterable[AttemptRow], run: Resolved, end_ns: int) -> dict[str, Any] | None:
    """What a transactional workload went short of, by what processes did, not by what the ResourceManager believed.

    Until ``end_ns``, container-seconds: ``withheld_container_s`` for the transactional workload, and of those
    ``shortfall_container_s`` that jobs held longer than the grace; None where the cluster has no such workload."""
    availability, outside = run.settings.availability, run.settings.unmanaged_masters
    if availability is None:
        return None
    counted = (row for row in attempts if not outside or row.kind != MASTER)
    tolerated = tolerated_steps(availability.capacity, availability.grace_ns, end_ns)
    return {
        "shortfall_container_s": shortfall_ns(changes_of(counted, end_ns), tolerated) / 1e9,
        "withheld_container_s": (run.containers * end_ns - availability.capacity.until(end_ns)) / 1e9,
    }


def changes_of(attempts: Iterable[AttemptRow], end_ns: int) -> Iterator[Change]:
    """A container is in use while its process is there and not stopped; what has not ended lasts until ``end_ns``."""
    for row in attempts:
        if row.launched_ns is None:
            continue
        ended_ns = end_ns if row.ended_ns is None else row.ended_ns
        instants = [row.launched_ns]
        for span in row.suspended_spans:
            instants += [span.stopped_ns, ended_ns if span.resumed_ns is None else span.resumed_ns]
        for place, at_ns in enumerate((*instants, ended_ns)):
            yield at_ns, -1 if place % 2 else 1


def tolerated_steps(capacity: Capacity, grace_ns: int, end_ns: int) -> list[Step]:
    """From each instant on, the most containers that there were at any time in the grace before it."""
    steps = list(capacity.until_end(end_ns))
    over_ns = [start_ns + grace_ns for start_ns, _ in steps[1:]]
    found: list[Step] = []
    highest: deque[int] = deque()
    """Places of the steps that count, the highest first; a lower one counts after those before it."""
    coming = 0
    for at_ns in sorted({0, *(start_ns for start_ns, _ in steps), *over_ns}):
        while coming < len(steps) and steps[coming][0] <= at_ns:
            while highest and steps[highest[-1]][1] <= steps[coming][1]:
                highest.pop()
            highest.append(coming)
            coming += 1
        while highest[0] < len(over_ns) and over_ns[highest[0]] <= at_ns:
            highest.popleft()
        found.append((at_ns, steps[highest[0]][1]))
    return found


def shortfall_ns(changes: Iterable[Change], tolerated: Sequence[Step]) -> int:
    """Container-nanoseconds in use above what was tolerated."""
    events: list[tuple[int, int, int | None]] = [(at_ns, more, None) for at_ns, more in changes]
    events += [(at_ns, 0, count) for at_ns, count in tolerated]
    events.sort(key=lambda event: event[0])
    found_ns, in_use, limit = 0, 0, 0
    for (at_ns, more, count), (until_ns, _, _) in pairwise(events):
        in_use += more
        limit = limit if count is None else count
        found_ns += max(0, in_use - limit) * (until_ns - at_ns)
    return found_ns
