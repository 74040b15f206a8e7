"""Export to SLS files, the format of YARN's Scheduler Load Simulator; reading a file back loses nothing.

SLS has milliseconds, and keys for only some columns.  Other columns, and times that are not whole milliseconds, go
under the key ``natjam`` of the job or task, which SLS ignores.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from emulator.errors import ConfigError
from emulator.files.whole_files import written_whole
from workloads.codec import job_to_fields, task_to_fields
from workloads.importers.sls import DEFAULT_AM_TYPE, EXTENSION
from workloads.record import Trace, WorkloadJob, WorkloadTask

_MS = 10**6
_DEFAULT_QUEUE = "default"


def export_sls(path: Path, trace: Trace) -> int:
    """Write a workload as an SLS file, atomically; returns the number of jobs.

    Raises ConfigError for a job without known tasks, RunError if the file cannot be written, and the errors of reading
    ``trace``.
    """
    count = 0
    with written_whole(path, keep=False) as unfinished, unfinished.open("wb") as stream:
        for job in trace.jobs:
            stream.write(orjson.dumps(sls_job(job), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def sls_job(job: WorkloadJob) -> dict[str, Any]:
    """The SLS object of a job."""
    if job.tasks is None:
        raise ConfigError(f"job {job.job}: has no tasks to export; convert or scale the trace to a workload first")
    has_end = bool(job.finish_ns) and job.finish_ns % _MS == 0
    told: dict[str, Any] = {
        "am.type": DEFAULT_AM_TYPE,
        **(job.other or {}),
        "job.start.ms": job.submit_ns // _MS,
        "job.end.ms": job.finish_ns // _MS if job.finish_ns and has_end else None,
        "job.queue.name": job.queue or _DEFAULT_QUEUE,
        "job.id": job.job,
        "job.user": job.user,
        "job.tasks": [_sls_task(task) for task in job.tasks],
    }
    rest = job_to_fields(replace(job, tasks=None))
    for key in ("job", "user", "other", "finish_ns" if has_end else "", "" if job.submit_ns % _MS else "submit_ns"):
        rest.pop(key, None)
    if rest.pop("queue", None) is None:
        rest["queue"] = None  # the trace has no queue, but SLS needs one
    told = {key: value for key, value in told.items() if value is not None}
    return {**told, EXTENSION: rest} if rest else told


def _sls_task(task: WorkloadTask) -> dict[str, Any]:
    in_ms = task.length_ns % _MS == 0 and (task.start_ns or 0) % _MS == 0
    told: dict[str, Any] = {**(task.other or {}), "container.type": task.kind}
    if task.start_ns is not None:
        told["container.start.ms"] = task.start_ns // _MS
        told["container.end.ms"] = (task.start_ns + task.length_ns) // _MS
    else:
        told["duration.ms"] = -(-task.length_ns // _MS)
    if task.host is not None:
        told["container.host"] = task.host
    if task.priority is not None:
        told["container.priority"] = task.priority
    rest = task_to_fields(task)
    for key in ("kind", "host", "priority", "other", *(("length_ns", "start_ns") if in_ms else ())):
        rest.pop(key, None)
    if rest.get("source") == "measured":
        del rest["source"]
    return {**told, EXTENSION: rest} if rest else told
