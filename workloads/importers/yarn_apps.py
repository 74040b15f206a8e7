"""Importer of applications from YARN's ResourceManager (``/ws/v1/cluster/apps``, one JSON object).

The answer says how long each application took and what it used, but not what its containers did.  The importer assumes:

- A container has the virtual cores and the memory of those that the application holds now, on average.  Of one that has
  ended, nothing says so: each is one virtual core, as in Hadoop's default calculator.  So ``vcoreSeconds`` over the
  cores of a container are container seconds.
- The ApplicationMaster held one container from launch to end.  The rest is the work of the other containers.  Its size
  is ``amUsed`` of ``resourceInfo``, which only the CapacityScheduler says, and only of an application that runs.
- The other containers ran in parallel all the time.  So there are as many tasks as containers held on average, each
  with an equal part of the work.  All are reduces, so that they can be preempted.

An unfinished application counts with the values so far.  One that never had a container beside its master has no task;
it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.errors import BrokenRow, Problems
from workloads.importers.fields import MAX_BYTES, MAX_LENGTH_NS, SeenIds, job_id, json_object, ms_to_ns, text, whole
from workloads.importers.json_objects import read_objects
from workloads.importers.source import OnBytes, ignore
from workloads.record import Header, Outcome, WorkloadJob, WorkloadTask, measured, modelled
from workloads.schema import MAX_TASKS

_S = 10**9
_OUTCOMES: dict[str, Outcome] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "KILLED": "killed"}
NEVER_RAN, UNFINISHED = "applications without a container beside their master, left out", "applications not finished"
SPARK = "applications of Spark"

HEADER = Header(
    format="yarn",
    origin="first-submission",
    columns={
        "job": measured("id"),
        "submit_ns": measured("startedTime"),
        "queue": measured("queue"),
        "user": measured("user"),
        "priority": measured("priority, else applicationPriority"),
        "memory_bytes": modelled("memorySeconds / container seconds: the average container"),
        "cpu_thousandths": measured("allocatedVCores / runningContainers, of an application that runs"),
        "master_memory_bytes": measured("resourceInfo: amUsed, of an application that runs"),
        "master_cpu_thousandths": measured("resourceInfo: amUsed, of an application that runs"),
        "start_ns": measured("launchTime"),
        "finish_ns": measured("finishedTime"),
        "outcome": measured("finalStatus"),
        "tasks": modelled("containers held on average from launch to end, one of them the master's"),
        "tasks.kind": modelled("all are reduces, so that they can be preempted"),
        "tasks.length_ns": modelled("an equal part of the container seconds, without the master's"),
    },
)


def read_yarn_apps(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore
) -> Iterator[WorkloadJob]:
    """Yield the applications of an answer one by one, in its order.

    Raises TraceError.  An application with a broken field is a problem and is left out.
    """
    facts |= {"applications": 0, NEVER_RAN: 0, UNFINISHED: 0, SPARK: 0}
    seen = SeenIds()
    for line, value in read_objects(path, problems, on_bytes):
        with problems.reported(path, line):
            for number, application in enumerate(_listed(value)):
                with problems.reported(path, line):
                    job = _job(application, f"apps.app[{number}]", seen, facts)
                    facts["applications"] += 1
                    if job is None:
                        facts[NEVER_RAN] += 1
                    else:
                        yield job


def _listed(value: dict[str, Any]) -> list[Any]:
    apps = value.get("apps", value)
    listed = apps.get("app") if isinstance(apps, dict) else None
    if value.get("apps", listed) is None:
        return []  # the ResourceManager's answer when there is no application
    if not isinstance(listed, list):
        raise BrokenRow("apps.app", "is missing or not a list; give the answer of /ws/v1/cluster/apps")
    return listed


def _job(value: Any, where: str, seen: SeenIds, facts: dict[str, Any]) -> WorkloadJob | None:
    """The job of one application; None if it had no container beside its master's."""
    json_object(value, where)
    name = job_id(value.get("id"), f"{where}.id")
    seen.add(name, f"{where}.id", of="application")
    submit_ns = ms_to_ns(value.get("startedTime"), f"{where}.startedTime")
    finish_ns = _time_ns(value.get("finishedTime"), f"{where}.finishedTime")
    start_ns = _time_ns(value.get("launchTime"), f"{where}.launchTime")
    elapsed_ns = ms_to_ns(value.get("elapsedTime"), f"{where}.elapsedTime", MAX_LENGTH_NS)
    if start_ns is not None and start_ns < submit_ns:
        raise BrokenRow(f"{where}.launchTime", "is before startedTime")
    if finish_ns is not None and finish_ns < (start_ns or submit_ns):
        raise BrokenRow(f"{where}.finishedTime", "is before it was submitted or launched")
    facts[UNFINISHED] += finish_ns is None
    ran_ns = elapsed_ns if start_ns is None else max(0, submit_ns + elapsed_ns - start_ns)
    vcore_s = whole(value.get("vcoreSeconds"), f"{where}.vcoreSeconds", MAX_LENGTH_NS // _S * MAX_TASKS)
    memory_mb_s = whole(value.get("memorySeconds"), f"{where}.memorySeconds", MAX_BYTES)
    vcores, master = _vcores(value, where), _master(value.get("resourceInfo"), f"{where}.resourceInfo")
    container_ns = vcore_s * _S // (vcores or 1)
    work_ns = container_ns - ran_ns
    if work_ns <= 0:
        return None
    tasks = min(MAX_TASKS, max(1, round(work_ns / ran_ns) if ran_ns else 1))
    length_ns = work_ns // tasks
    if not 0 < length_ns <= MAX_LENGTH_NS:
        raise BrokenRow(f"{where}.vcoreSeconds", f"makes tasks of {length_ns / 1e9:g} s")
    facts[SPARK] += text(value.get("applicationType"), f"{where}.applicationType") == "SPARK"
    priority = value.get("priority", value.get("applicationPriority"))
    return WorkloadJob(
        name,
        submit_ns,
        queue=text(value.get("queue"), f"{where}.queue"),
        user=text(value.get("user"), f"{where}.user"),
        priority=None if priority is None else whole(priority, f"{where}.priority", 10**9, -1),
        memory_bytes=min(MAX_BYTES, memory_mb_s * 2**20 * _S // container_ns) or None,
        cpu_thousandths=None if vcores is None else 1000 * vcores,
        master_memory_bytes=master and master[0] * 2**20,
        master_cpu_thousandths=master and 1000 * master[1],
        start_ns=start_ns,
        finish_ns=finish_ns,
        outcome=_OUTCOMES.get(text(value.get("finalStatus"), f"{where}.finalStatus") or ""),
        tasks=(WorkloadTask("reduce", length_ns, "modelled"),) * tasks,
    )


def _vcores(value: dict[str, Any], where: str) -> int | None:
    """Virtual cores of one of the containers that it holds now, on average; None: it holds none."""
    counts = (value.get("allocatedVCores"), value.get("runningContainers"))
    held, containers = (0 if count is None else whole(count, where, MAX_TASKS * 1000, -1) for count in counts)
    return max(1, round(held / containers)) if held > 0 and containers > 0 else None


def _master(value: Any, where: str) -> tuple[int, int] | None:
    """Memory, in MiB, and virtual cores of its ApplicationMaster; None: the answer does not say them."""
    partitions = [] if value is None else json_object(value, where).get("resourceUsagesByPartition", [])
    memory_mb = vcores = 0
    for number, partition in enumerate(partitions if isinstance(partitions, list) else []):
        place = f"{where}.resourceUsagesByPartition[{number}]"
        used = json_object(json_object(partition, place).get("amUsed", {}), f"{place}.amUsed")
        memory_mb += whole(used.get("memory", 0), f"{place}.amUsed.memory", MAX_BYTES >> 20)
        vcores += whole(used.get("vCores", 0), f"{place}.amUsed.vCores", 10**6)
    return (memory_mb, vcores) if memory_mb else None


def _time_ns(value: Any, column: str) -> int | None:
    """Milliseconds since 1970; None if it has not happened."""
    return None if value is None else ms_to_ns(value, column) or None
