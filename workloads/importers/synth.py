"""Importer of SYNTH files: distributions from which YARN's Scheduler Load Simulator draws jobs.

One JSON object has ``workloads``, each with ``job_classes`` and a ``time_distribution``, in the older keys
(``mtasks_avg``, ``mtime_stddev``, ...) or the newer ones (``tasks: [{type, count: {val, std}, time, ...}]``).  Every
value is drawn here, so all columns are modelled.

- For each of ``num_jobs`` jobs, a workload, one of its classes and a time bucket are chosen by their weights.  The
  submission is uniform within the bucket, in whole seconds; in the last bucket it is at the bucket's start.
- Counts, times (s), memory (MB) and durations come from the LogNormal distribution with the given mean and standard
  deviation (``{"val", "std", "dist": "NORM"}``: Normal, with 0 for negative values), or from the list ``discrete``
  with ``weights``.  As in the simulator, a value without a standard deviation is the mean itself, and a standard
  deviation of 0 means a sixth of the mean.
- A deadline is submission + duration x deadline factor, for the share ``reservation`` of the jobs.

The simulator draws with Java's generator, this importer with Python's, seeded by ``rand_seed``.  So the jobs differ,
but have the same distributions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import orjson

from workloads.draws import lognormal_of_mean, normal
from workloads.errors import BrokenRow, Problems, TraceError
from workloads.importers.fields import MAX_BYTES, MAX_LENGTH_NS, job_id, task_kind, task_priority, text, whole
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.record import Header, WorkloadJob, WorkloadTask, modelled
from workloads.schema import MAX_TASKS

MAX_FILE_BYTES = 16 * 2**20
MAX_JOBS = 1_000_000
_BYTES_PER_MB = 2**20
_STD_SHARE = 1 / 6
"""Share of the mean that a standard deviation of 0 means."""
_MAX_SPREAD = 1e6
_PREFIXES = (("m", "map", 20), ("r", "reduce", 10))

HEADER = Header(
    format="synth",
    origin="zero",
    columns={
        name: modelled(f"drawn: {rule}")
        for name, rule in {
            "job": "numbered",
            "submit_ns": "time_distribution",
            "queue": "queue_name",
            "user": "user_name",
            "deadline_ns": "duration x deadline factor, for the share reservation",
            "memory_bytes": "max_memory, the larger one of maps and reduces",
            "tasks": "counts",
            "tasks.kind": "type",
            "tasks.length_ns": "times",
            "tasks.priority": "priority",
            "tasks.memory_bytes": "max_memory",
        }.items()
    },
)


def read_synth(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore
) -> Iterator[WorkloadJob]:
    """Yield the jobs drawn from a SYNTH file, in the order of their numbers.

    Raises TraceError for any error, as no part of such a file can be skipped.
    """
    with ByteSource(path, on_bytes) as source:
        raw = source.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise TraceError(path, None, None, f"is larger than {MAX_FILE_BYTES} bytes; a SYNTH file is smaller")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise TraceError(
            path, error.lineno, None, f"is not JSON: {error.msg} at byte {error.colno} of the line"
        ) from None
    try:
        if not isinstance(value, dict):
            raise BrokenRow(None, "must be one JSON object with num_jobs and workloads")
        facts |= {key: value[key] for key in ("num_nodes", "num_jobs", "rand_seed") if type(value.get(key)) is int}
        yield from _jobs(value, facts)
    except BrokenRow as broken:
        raise broken.at(path) from None


def _jobs(value: dict[str, Any], facts: dict[str, Any]) -> Iterator[WorkloadJob]:
    count = whole(value.get("num_jobs"), "num_jobs", MAX_JOBS, least=1)
    seed = whole(value.get("rand_seed", 0), "rand_seed", 2**63, least=-(2**63))
    workloads = _objects(value.get("workloads"), "workloads")
    weights = [
        _real(one.get("workload_weight"), f"workloads[{at}].workload_weight") for at, one in enumerate(workloads)
    ]
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        at = _weighted(weights, rng, "workloads")
        job = _job(number, workloads[at], f"workloads[{at}]", rng)
        if job is None:
            facts["jobs without any task, left out"] = facts.get("jobs without any task, left out", 0) + 1
        else:
            yield job


def _job(number: int, workload: dict[str, Any], where: str, rng: Random) -> WorkloadJob | None:
    """A job; None if it has no tasks."""
    submit_ns = _submit_ns(workload, where, rng)
    classes = _objects(workload.get("job_classes"), f"{where}.job_classes")
    weights = [
        _real(one.get("class_weight"), f"{where}.job_classes[{at}].class_weight") for at, one in enumerate(classes)
    ]
    at = _weighted(weights, rng, f"{where}.job_classes")
    chosen, where = classes[at], f"{where}.job_classes[{at}]"
    tasks = tuple(
        task for at, told in enumerate(_tasks(chosen, where)) for task in _drawn(told, f"{where}.tasks[{at}]", rng)
    )
    if not tasks:
        return None
    if len(tasks) > MAX_TASKS:
        raise BrokenRow(where, f"draws {len(tasks)} tasks, above {MAX_TASKS}")
    return WorkloadJob(
        job_id(f"{text(chosen.get('class_name'), f'{where}.class_name') or 'job'}-{number}", f"{where}.class_name"),
        submit_ns,
        queue=text(workload.get("queue_name"), f"{where}.queue_name"),
        user=text(chosen.get("user_name"), f"{where}.user_name"),
        deadline_ns=_deadline_ns(chosen, where, submit_ns, rng),
        memory_bytes=max((task.memory_bytes or 0 for task in tasks), default=0) or None,
        tasks=tasks,
    )


def _submit_ns(workload: dict[str, Any], where: str, rng: Random) -> int:
    buckets = _objects(workload.get("time_distribution"), f"{where}.time_distribution")
    places = [f"{where}.time_distribution[{at}]" for at in range(len(buckets))]
    weights = [
        _real(one.get("weight", one.get("jobs", 0)), f"{place}.weight")
        for one, place in zip(buckets, places, strict=True)
    ]
    times_s = [
        whole(one.get("time"), f"{place}.time", MAX_LENGTH_NS // 10**9)
        for one, place in zip(buckets, places, strict=True)
    ]
    at = _weighted(weights, rng, f"{where}.time_distribution")
    range_s = times_s[at + 1] - times_s[at] if at + 1 < len(times_s) else 0
    return (times_s[at] + (int(rng.random() * range_s) if range_s > 0 else 0)) * 10**9


def _tasks(chosen: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The types of tasks of a class, in the newer keys."""
    if chosen.get("tasks") is not None:
        return _objects(chosen["tasks"], f"{where}.tasks")
    return [
        {
            "type": kind,
            "priority": priority,
            "count": _old(chosen, f"{short}tasks"),
            "time": _old(chosen, f"{short}time"),
            "max_memory": _old(chosen, f"{kind}_max_memory"),
        }
        for short, kind, priority in _PREFIXES
    ]


def _old(chosen: dict[str, Any], name: str) -> dict[str, Any]:
    return {"val": chosen.get(f"{name}_avg", 0), "std": chosen.get(f"{name}_stddev", 0)}


def _drawn(told: dict[str, Any], where: str, rng: Random) -> Iterator[WorkloadTask]:
    kind = task_kind(told.get("type"), f"{where}.type")
    count = round(_sample(told.get("count"), f"{where}.count", rng, MAX_TASKS))
    for _ in range(count):
        time_s = _sample(told.get("time"), f"{where}.time", rng, MAX_LENGTH_NS / 1e9)
        memory_mb = _sample(told.get("max_memory", {"val": 0}), f"{where}.max_memory", rng, MAX_BYTES / _BYTES_PER_MB)
        yield WorkloadTask(
            kind,
            max(1, round(time_s * 1e9)),
            "modelled",
            priority=task_priority(told.get("priority"), f"{where}.priority"),
            memory_bytes=round(memory_mb) * _BYTES_PER_MB or None,
        )


def _deadline_ns(chosen: dict[str, Any], where: str, submit_ns: int, rng: Random) -> int | None:
    is_new = "deadline_factor" in chosen or "tasks" in chosen
    factor = chosen.get("deadline_factor") if is_new else _old(chosen, "deadline_factor")
    duration = chosen.get("duration") if is_new else _old(chosen, "dur")
    chance = chosen.get("reservation", {"val": 0}) if is_new else {"val": chosen.get("chance_of_reservation", 0)}
    if factor is None or duration is None or rng.random() >= _sample(chance, f"{where}.reservation", rng, 1e9):
        return None
    duration_s = _sample(duration, f"{where}.duration", rng, MAX_LENGTH_NS / 1e9)
    after_s = duration_s * _sample(factor, f"{where}.deadline_factor", rng, 1e9)
    if after_s * 1e9 > MAX_LENGTH_NS:
        raise BrokenRow(f"{where}.deadline_factor", f"a deadline {after_s:g} s after submission is too far")
    return submit_ns + max(1, round(after_s * 1e9))


def _sample(told: Any, where: str, rng: Random, most: float) -> float:
    """A value of the distribution that ``told`` describes, on [0, most]."""
    if not isinstance(told, dict):
        raise BrokenRow(where, 'must be an object such as {"val": 10, "std": 2}')
    if told.get("discrete") is not None:
        values = [_real_text(one, f"{where}.discrete") for one in _list(told["discrete"], f"{where}.discrete")]
        weights = [
            _real(one, f"{where}.weights") for one in _list(told.get("weights", [1] * len(values)), f"{where}.weights")
        ]
        if len(values) != len(weights):
            raise BrokenRow(f"{where}.weights", f"{len(weights)} weights for {len(values)} values")
        drawn = values[_weighted(weights, rng, where)]
    else:
        drawn = _continuous(told, where, rng)
    if not drawn <= most:
        raise BrokenRow(where, f"draws {drawn:g}, above {most:g}")
    return drawn


def _continuous(told: dict[str, Any], where: str, rng: Random) -> float:
    mean = _real(told.get("val"), f"{where}.val")
    if told.get("std") is None or mean == 0:
        return mean
    std = _real(told["std"], f"{where}.std") or mean * _STD_SHARE
    kind = told.get("dist", "LOGNORM")
    if kind not in ("LOGNORM", "NORM"):
        raise BrokenRow(f"{where}.dist", f"{str(kind)[:40]!r} is neither LOGNORM nor NORM")
    if kind == "NORM":
        return max(0.0, normal(rng, mean, std))
    if std > _MAX_SPREAD * mean:
        raise BrokenRow(f"{where}.std", f"{std:g} is too large for a mean of {mean:g}")
    return lognormal_of_mean(rng, mean, std)


def _weighted(weights: list[float], rng: Random, where: str) -> int:
    total = math.fsum(weights)
    if not 0 < total < math.inf:
        raise BrokenRow(where, "the weights must add up to more than 0")
    point = rng.random() * total
    for at, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return at
    return max(at for at, weight in enumerate(weights) if weight > 0)


def _real(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BrokenRow(where, "is missing" if value is None else "is not a number")
    if not 0 <= value < 1e18:
        raise BrokenRow(where, f"{value:g} is negative or too large")
    return float(value)


def _real_text(value: Any, where: str) -> float:
    """A number from a list; it may be in quotes."""
    if not isinstance(value, str):
        return _real(value, where)
    try:
        return _real(float(value), where)
    except ValueError:
        raise BrokenRow(where, f"{value[:40]!r} is not a number") from None


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    found = _list(value, where)
    if not found or not all(isinstance(one, dict) for one in found):
        raise BrokenRow(where, "must be a list of at least one object")
    return found


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BrokenRow(where, "is missing" if value is None else "is not a list")
    return value
