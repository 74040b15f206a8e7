"""Plays recorded decisions through natjam's whole machines: played.py kube|kueue|slurm FILE ...

Each recorded day, or run, becomes an experiment: its nodes, its jobs, and a script of what was decided (``player.py``),
which is given as decisions from outside, under ``news: at-once`` and ``overheads: none``.  Every start, eviction, stop
and end of every task is held against the recorded times; the ledgers of the machines check the nodes.

In a day of Kubernetes a run of a pod is a job.  One that was evicted is cancelled when its grace is over, since its
replacement is another pod.  A day of Kueue has no nodes: each flavor is one that holds all nominal quota of it; a
workload is a gang, which waits again when it has been evicted.  A job of Slurm is a gang with one task on each of its
nodes.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.core.messages import Outcome
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.records.history import AttemptRow, History
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import SECOND_NS
from tests.peers.holding import hold

PLAYER = Path(__file__).with_name("player.py")
NAMES = {"cpu": ("cpu", 1000), "memory": ("memory_gb", 1 << 30), "pods": ("pods", 1)}
"""Our name and unit of a recorded resource; others are counted."""


@dataclass(frozen=True)
class Stay:
    """Tasks of a job on nodes, from a start to an end."""

    start_ns: int
    nodes: list[str]
    end_ns: int
    is_evicted: bool = False
    stops_ns: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """A recorded job; all its tasks are alike."""

    name: str
    submit_ns: int
    length_ns: int
    requests: Mapping[str, float]
    count: int
    stays: list[Stay]
    cancel_ns: int | None = None
    stays_ns: int = 0
    """How long its room stays taken after an eviction."""


@dataclass(frozen=True)
class Recorded:
    """A recorded day or run."""

    name: str
    nodes: dict[str, dict[str, float]]
    """What each has; natjam's own names of nodes go by this order."""
    jobs: list[Job]
    tolerance_ns: int = 0
    """How far the end of a job may be from the recorded one."""
    mechanism: str = "kill"


def amounts(recorded: Mapping[str, float]) -> dict[str, float]:
    """Resources by our names, in our units."""
    ours = ((*NAMES.get(name, (name.rpartition("/")[2], 1)), amount) for name, amount in recorded.items())
    return {name: amount / unit for name, unit, amount in ours}


def kube(day: Mapping[str, Any]) -> Recorded:
    """A day of kube-scheduler."""
    nodes = {node["name"]: amounts(node["capacity"]) for node in day["nodes"]}
    names = {name for has in nodes.values() for name in has}
    workloads = {each["name"]: each for each in day["workloads"]}
    usual = {**dict.fromkeys(names, 0.0), "pods": 1.0}
    jobs = []
    for run in day["answer"]["runs"]:
        workload = workloads[re.split(r"[-.]", run["pod"])[0]]
        requests, is_evicted = {**usual, **amounts(workload["requests"])}, "gone" in run
        submit_ns, length_ns = run["submit"] * SECOND_NS, workload["duration"] * SECOND_NS
        gone_ns = run["gone"] * SECOND_NS if is_evicted else None
        if run["start"] is None:  # it waits to the end of the day
            stays, stays_ns, gone_ns = [], 0, day["answer"]["end"] * SECOND_NS
        else:
            stays = [Stay(run["start"] * SECOND_NS, [run["node"]], run["end"] * SECOND_NS, is_evicted)]
            stays_ns = 0 if gone_ns is None else gone_ns - stays[0].end_ns
        jobs.append(Job(run["pod"], submit_ns, length_ns, requests, 1, stays, gone_ns, stays_ns))
    return Recorded(day["name"], nodes, jobs)


def kueue(day: Mapping[str, Any]) -> Recorded:
    """A day of Kueue."""
    nodes: dict[str, dict[str, float]] = {}
    for flavor in (each for queue in day["queues"] for group in queue["groups"] for each in group["flavors"]):
        has = nodes.setdefault(flavor["name"], defaultdict(float))
        for name, amount in amounts({name: quota["nominal"] for name, quota in flavor["quotas"].items()}).items():
            has[name] += amount
    names = {name for has in nodes.values() for name in has}
    outcomes = {each["name"]: each for each in day["answer"]["outcomes"]}
    jobs = []
    for workload in day["workloads"]:
        (podset,), outcome = workload["podsets"], outcomes[workload["name"]]
        ends = [(each["at"], True) for each in outcome["evictions"]] + [(outcome["finish"], False)]
        stays = []
        for admission, (end, is_evicted) in zip(outcome["admissions"], ends, strict=False):
            (flavor,) = set(admission["flavors"][podset["name"]].values())
            start_ns = admission["at"] * SECOND_NS
            stays.append(Stay(start_ns, [flavor] * podset["count"], end * SECOND_NS, is_evicted))
        cancel_ns = day["answer"]["end"] * SECOND_NS if outcome["finish"] is None else None
        requests = {**dict.fromkeys(names, 0.0), **amounts(podset["requests"])}
        submit_ns, length_ns = workload["submit"] * SECOND_NS, workload["duration"] * SECOND_NS
        stays_ns = day["release"] * SECOND_NS
        jobs.append(Job(workload["name"], submit_ns, length_ns, requests, podset["count"], stays, cancel_ns, stays_ns))
    return Recorded(day["name"], nodes, jobs)


def slurm(run: Mapping[str, Any]) -> Recorded:
    """A run of Slurm, by the clock of its jobs."""
    nodes = {f"n{number}": {"cpu": 8.0} for number in range(4)}
    jobs = []
    for job in run["jobs"]:
        stops = [(round((seen - long) * SECOND_NS), round(seen * SECOND_NS)) for seen, long in job["stopped"]]
        ends = [(term, True) for term in job["terms"]] + [(job["end"], False)]
        stays = [
            Stay(round(start * SECOND_NS), _nodes_of(where), round(end * SECOND_NS), is_evicted, stops)
            for (start, where), (end, is_evicted) in zip(job["starts"], ends, strict=False)
        ]
        cancel_ns = stays[-1].end_ns if job["end"] is None else None
        submit_ns = round(job["submitted"] * SECOND_NS)
        # Recorded to the millisecond; one was taken back in that of its end.
        length_ns = round(job["length"] * SECOND_NS) + 500_000
        jobs.append(Job(job["name"], submit_ns, length_ns, {"cpu": job["cpus"]}, job["nodes"], stays, cancel_ns))
    mechanism = "suspend" if any(job["stopped"] for job in run["jobs"]) else "kill"
    return Recorded(f"{run['config']} {run['seed']}", nodes, jobs, 300_000_000, mechanism)


def _nodes_of(listed: str) -> list[str]:
    """``n[0-1,3]`` as n0, n1, n3."""
    found = []
    for part in re.findall(r"\d+(?:-\d+)?", listed):
        first, _, last = part.partition("-")
        found += [f"n{number}" for number in range(int(first), int(last or first) + 1)]
    return found


KINDS = {"kube": kube, "kueue": kueue, "slurm": slurm}


# ---- playing ----


def play(recorded: Recorded, folder: Path, player: Path = PLAYER) -> Iterator[str]:
    """Play it; what differs, in words.  Raises RunError if a decision cannot be carried out."""
    ours = {name: f"node-{number}" for number, name in enumerate(recorded.nodes, start=1)}
    script = {job.name: _planned(job, ours) for job in recorded.jobs}
    (folder / "script.json").write_text(json.dumps(script))
    experiment = _experiment(recorded, [str(player), str(folder / "script.json")])
    (folder / "day.yaml").write_text(dump_yaml(experiment))
    history = simulated_history(resolve(load_experiment(folder / "day.yaml")))
    yield from differences(history, recorded.jobs, ours, recorded.tolerance_ns)


def differences(
    history: History, jobs: Iterable[Job], ours: Mapping[str, str] | None = None, tolerance_ns: int = 0
) -> Iterator[str]:
    """What differs, in words; ``ours``: natjam's name of each recorded node, if it is another."""
    rows: dict[str, list[AttemptRow]] = defaultdict(list)
    for row in history.attempts:
        if row.kind == "pod":
            rows[row.job].append(row)
    for job in jobs:
        found = sorted(map(_as_played, rows[job.name]))
        yield from _differences(job, found, _expected(job, ours or {}), tolerance_ns)


def _planned(job: Job, ours: Mapping[str, str]) -> dict[str, Any]:
    stays = [
        {
            "start": stay.start_ns,
            "nodes": [ours[node] for node in stay.nodes],
            "stops": stay.stops_ns,
            "out": stay.end_ns if stay.is_evicted else None,
        }
        for stay in job.stays
    ]
    return {"stays": stays, "stays_ns": job.stays_ns, "cancel": job.cancel_ns}


def _experiment(recorded: Recorded, player: list[str]) -> dict[str, Any]:
    return {
        "name": "played",
        "engine": "sim",
        "overheads": "none",
        "cluster": {
            "node_groups": [{"count": 1, "resources": dict(has)} for has in recorded.nodes.values()],
            "application_masters": "outside",
            "swap_gb": 1000.0,
            "max_suspended_per_node": 1000,
        },
        "protocol": {"news": "at-once"},
        "scheduler": {
            "allocation": {"name": "external", "command": ["{python}", *player]},
            "mechanism": recorded.mechanism,
        },
        "workload": {"jobs": [_job(job) for job in recorded.jobs]},
    }


def _job(job: Job) -> dict[str, Any]:
    length_s = job.length_ns / SECOND_NS
    found = {
        "name": job.name,
        "queue": "default",
        "submit_s": job.submit_ns / SECOND_NS,
        "groups": [{"name": "pod", "count": job.count, "length_s": length_s, "resources": dict(job.requests)}],
    }
    return {**found, "gang": True} if job.count > 1 else found


# ---- comparing ----


class Times(NamedTuple):
    """When and where one task was in the cluster."""

    start_ns: int
    node: str
    end_ns: int
    is_evicted: bool
    stayed_ns: int
    """How long its room stayed taken after its end."""
    stops_ns: tuple[tuple[int, int], ...]


def _as_played(row: AttemptRow) -> Times:
    assert row.ended_ns is not None
    assert row.slot_freed_ns is not None
    start_ns = row.ended_ns if row.launched_ns is None else row.launched_ns  # evicted as it was about to start
    stops = tuple((span.stopped_ns, span.resumed_ns or 0) for span in row.suspended_spans)
    is_evicted = row.outcome is not Outcome.SUCCEEDED
    return Times(start_ns, row.node, row.ended_ns, is_evicted, row.slot_freed_ns - row.ended_ns, stops)


def _expected(job: Job, ours: Mapping[str, str]) -> list[Times]:
    return sorted(
        Times(
            stay.start_ns,
            ours.get(node, node),
            stay.end_ns,
            stay.is_evicted,
            job.stays_ns if stay.is_evicted else 0,
            tuple(stay.stops_ns),
        )
        for stay in job.stays
        for node in stay.nodes
    )


def _differences(job: Job, found: list[Times], expected: list[Times], tolerance_ns: int) -> Iterator[str]:
    if len(found) != len(expected):
        yield f"{job.name}: {len(found)} tasks and attempts, not {len(expected)}"
    for played, recorded in zip(found, expected, strict=False):
        if not _is_near(played, recorded, tolerance_ns):
            yield f"{job.name}: {played}, recorded {recorded}"


def _is_near(played: Times, recorded: Times, tolerance_ns: int) -> bool:
    """Equal, but the end of work and the stops may be off by the tolerance."""
    pairs = [*zip(played.stops_ns, recorded.stops_ns, strict=False), ((played.end_ns,), (recorded.end_ns,))]
    if played.is_evicted:
        pairs.pop()
    near = all(abs(a - b) <= tolerance_ns for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))
    is_same = len(played.stops_ns) == len(recorded.stops_ns)
    end_ns = played.end_ns if played.is_evicted else recorded.end_ns
    return near and is_same and played._replace(end_ns=end_ns, stops_ns=recorded.stops_ns) == recorded


def differs(kind: str, record: Mapping[str, Any]) -> str | None:
    """The first time that differs in a record of this kind."""
    with tempfile.TemporaryDirectory(prefix="natjam-played-") as folder:
        return next(play(KINDS[kind](record), Path(folder)), None)


main = partial(hold, {kind: partial(differs, kind) for kind in KINDS}, __doc__ or "")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
