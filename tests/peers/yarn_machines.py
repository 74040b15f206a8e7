"""Runs recorded of YARN's own ResourceManager, held against whole clusters with phases that are drawn.

A record has one draw of the phases of nodes, ApplicationMasters and policy; another draw gives another run, in which
other containers go.  So of each job the mean completion of several runs is compared, and of each kind of run the number
of containers that were preempted.  ``played`` says how far the decisions alone are from the records with other phases:
nodes and ApplicationMasters as they were recorded, with natjam's scheduler.  Whole machines cannot be expected nearer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, NamedTuple

import msgspec

from emulator.core.machine import Phase
from emulator.core.messages import Outcome, job_address, node_address
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import SECOND_NS
from tests.peers.yarn import Played, preemption_of

Record = Mapping[str, Any]
JOBS_WITHIN, PREEMPTED_WITHIN = 0.03, 0.05
"""How far a job's mean completion, and the containers preempted of a kind of run, may be from the recorded ones."""
PART = 0.9
"""Of the jobs, so many must be as near as that."""


class Outcomes(NamedTuple):
    """What came of a run."""

    completions_ms: Mapping[str, float]
    """Of each job, from its submission."""
    preempted: int


Runs = Callable[[Record, int], Outcomes]
"""A run with the phases of that seed."""


def recorded(run: Record) -> Outcomes:
    """What was recorded."""
    answers = zip(run["jobs"], run["answer"]["jobs"], strict=True)
    completions = {job["name"]: answer["finished"] - job["submit_ms"] for job, answer in answers}
    return Outcomes(completions, sum(line[1] == "preempt" for line in run["answer"]["log"]))


def hold(runs: Iterable[Record], of: Runs, seeds: int) -> int:
    """Hold the records; prints the kinds, and ``N of M`` jobs last.  Returns the exit status."""
    kinds: dict[str, list[tuple[Outcomes, list[Outcomes]]]] = {}
    for run in runs:
        kinds.setdefault(run["kind"], []).append((recorded(run), [of(run, seed) for seed in range(1, seeds + 1)]))
    near = jobs = 0
    is_well = True
    for kind, found in kinds.items():
        errors = [
            mean(one.completions_ms[job] for one in ours) / theirs.completions_ms[job] - 1
            for theirs, ours in found
            for job in theirs.completions_ms
        ]
        within = sum(abs(error) <= JOBS_WITHIN for error in errors)
        near, jobs = near + within, jobs + len(errors)
        preempted = sum(mean(one.preempted for one in ours) for _, ours in found)
        known = sum(theirs.preempted for theirs, _ in found)
        is_well &= abs(preempted - known) <= PREEMPTED_WITHIN * known
        print(
            f"{kind}: {within} of {len(errors)} jobs within {JOBS_WITHIN:.0%}; off by {mean(map(abs, errors)):.1%} in"
            f" the mean, {max(errors, key=abs):+.1%} at most; {preempted:.1f} containers preempted, recorded {known}",
            flush=True,
        )
    print(f"{near} of {jobs}")
    return 0 if is_well and near >= PART * jobs else 1


# ---- the decisions alone ----


def played(run: Record, seed: int) -> Outcomes:
    """The run with nodes and ApplicationMasters as they were recorded, and other phases."""
    random = Random(f"{run['name']}:{seed}")
    interval = 1000 if run["preemption"] is None else run["preemption"]["monitoring_interval"]
    phases = {
        "nodes": [random.randrange(1000) for _ in run["nodes"]],
        "jobs": [random.randrange(1000) for _ in run["jobs"]],
        "policy": random.randrange(interval),
    }
    one = Played({**run, "phases": phases})
    one.play(to_end=True)
    completions = {job["name"]: one.finished_ms[job["name"]] - job["submit_ms"] for job in run["jobs"]}
    return Outcomes(completions, sum(line[1] == "preempt" for line in one.log))


# ---- whole machines ----


def simulated(run: Record, seed: int) -> Outcomes:
    """The run as an experiment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiment.yaml"
        path.write_text(dump_yaml(experiment(run)))
        history = simulated_history(resolve(load_experiment(path, [f"seed={seed}"])))
    completions = {job.name: ((job.finish_ns or 0) - job.submit_ns) / 1e6 for job in history.jobs}
    return Outcomes(completions, sum(attempt.outcome is Outcome.KILLED for attempt in history.attempts))


def differs_in_machines(run: Record, seed: int = 1) -> str | None:
    """Which jobs complete at another time in whole machines than with the decisions alone and the same phases."""

    def phase_ms(address: str) -> Fraction:
        return Fraction(Phase(seed, address, "heartbeat", SECOND_NS).phase_ns, 10**6)

    interval_ns = SECOND_NS if run["preemption"] is None else preemption_of(run["preemption"]).interval_ns
    phases = {
        "nodes": [phase_ms(node_address(f"node-{number}")) for number, _ in enumerate(run["nodes"], start=1)],
        "jobs": [0] * len(run["jobs"]),  # Hadoop's client asks at once when it has registered
        "masters": [phase_ms(job_address(job["name"])) for job in run["jobs"]],
        "policy": Fraction(Random(f"{seed}:rm:preemptor").randrange(interval_ns), 10**6),
    }
    one = Played({**run, "phases": phases, "launch_ms": 150, "am_launch_ms": 350}, lambda node: 0)
    one.play(to_end=True)
    machines = simulated(run, seed).completions_ms
    alone = {job["name"]: float(one.finished_ms[job["name"]] - job["submit_ms"]) for job in run["jobs"]}
    found = [f"{name} {machines[name]:.3f} ms, alone {at:.3f}" for name, at in alone.items() if machines[name] != at]
    return "; ".join(found) or None


def experiment(run: Record) -> dict[str, Any]:
    """The experiment that a record describes."""
    leaves, parents, settings = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for name, shares, inside, own in _queues(run["queues"], 1.0, 1.0):
        settings |= {name: own} if own else {}
        if inside:
            parents[name] = {"queues": inside, "maximum": shares["maximum"]}
        else:
            leaves[name] = shares
    if "root" in run:
        settings["root"] = {"ordering_policy": run["root"]["ordering_policy"]}
    preemption = None if run["preemption"] is None else msgspec.to_builtins(preemption_of(run["preemption"]))
    allocation = {
        "name": "yarn-capacity",
        "queues": leaves,
        "parents": parents,
        "settings": settings,
        "offswitch_per_heartbeat": run["offswitch"],
        "preemption": preemption,
    }
    cluster = {"node_groups": [{"count": 1, "resources": _resources(node, run)} for node in run["nodes"]]}
    mechanism = "wait" if preemption is None else "kill"
    return {
        "name": "recorded",
        "engine": "sim",
        "overheads": "yarn-3",
        "cluster": cluster,
        "scheduler": {"allocation": allocation, "mechanism": mechanism},
        "workload": {"jobs": [_job(job, run) for job in run["jobs"]]},
    }


_SETTINGS = (
    *("ordering_policy", "priority", "disable_preemption"),
    *("user_limit_factor", "minimum_user_limit_percent", "maximum_am_resource_percent"),
)


_DEFAULTS = {"user_limit_factor": 100.0, "minimum_user_limit_percent": 100.0, "maximum_am_resource_percent": 1.0}
"""Of the records: limits of users and ApplicationMasters are set aside."""


def _queues(
    queues: Sequence[Record], capacity: float, maximum: float
) -> Iterator[tuple[str, dict[str, float], list[str], dict[str, Any]]]:
    """Of each queue its name, its shares of the cluster, the queues in it, and its settings."""
    for queue in queues:
        shares = {
            "capacity": round(capacity * queue["capacity"] / 100, 9),
            "maximum": round(maximum * queue.get("maximum", 100) / 100, 9),
        }
        inside = queue.get("queues", ())
        own = {**_DEFAULTS, **{key: queue[key] for key in _SETTINGS if key in queue}}
        yield queue["name"], shares, [each["name"] for each in inside], own
        yield from _queues(inside, shares["capacity"], shares["maximum"])


def _job(job: Record, run: Record) -> dict[str, Any]:
    """Tasks of one size and priority that follow one another are a group."""
    groups, priorities = list[dict[str, Any]](), dict[str, int]()
    tasks = sorted(job["tasks"], key=lambda task: task.get("priority", 10))
    for key, alike in groupby(tasks, lambda task: (task["memory_mb"], task["vcores"], task.get("priority", 10))):
        lengths_s = [task["length_ms"] / 1000 for task in alike]
        size = {"memory_mb": -(-key[0] // 1024) * 1024, "vcores": key[1]}
        name = f"group-{len(groups)}"
        priorities[name] = key[2]
        resources = _resources(size, run)
        groups.append({"name": name, "count": len(lengths_s), "length_s": lengths_s, "resources": resources})
    return {
        "name": job["name"],
        "queue": job["queue"],
        "priority": job.get("priority", 0),
        "submit_s": job["submit_ms"] / 1000,
        "groups": groups,
        "key_s": 1.0,
        "master_resources": _resources(job["am"], run),
        "details": {"kind": "yarn", "user": job.get("user", "u"), "priorities": priorities},
    }


def _resources(given: Record, run: Record) -> dict[str, float]:
    cores = {"cpu": float(given["vcores"])} if run["resource_calculator"] == "dominant" else {}
    return {"memory_gb": given["memory_mb"] / 1024, **cores}
