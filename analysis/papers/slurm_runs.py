"""Recorded runs of a real Slurm beside the same jobs played by natjam.

Each recorded run has its ``slurm.conf``, which is read as ``natjam import slurm`` reads it, and its jobs.  Where the
records come from, and their form: ``analysis/claims/slurm/PROVENANCE.md``.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any

from emulator.costs.overheads import load_overheads
from emulator.policies.schedulers.play import Costs, End, Execution
from emulator.policies.slurm.scheduler import jobs_player
from emulator.sites.slurm import SECOND_NS, Cluster, Job
from workloads.slurm.conf import read_conf

BOOT_NS = -8_480_000_000
"""When the controller started.  The fraction of the second is such that a job submitted at a half second is seen in
that second, as it is in eight of eight recorded cases; the whole ones were chosen so that the passes of every 30 and
60 s fall where the ``requeue-defaults`` runs show them."""
MEAN_BOUND, JOB_BOUND, JOB_BOUND_S, LOST_BOUND = 0.05, 0.10, 1.0, 0.10
JOBS_WITHIN = 0.9
_CALIBRATION, _UNNAMED = "wait", ("suspend", "requeue-grace")
"""Configurations: the one that times were measured from, and those whose records do not name who preempted."""
_PREEMPTED = re.compile(r"preempted JobId=(\d+) .* for JobId=(\d+)")


@dataclass(frozen=True)
class Held:
    """One run beside its simulation.  Of a pair, the first is recorded and the second simulated."""

    config: str
    seed: int
    means: dict[str, tuple[float, float]]
    """Mean completion in seconds of each partition, over the jobs that ended in both."""
    completions: dict[str, tuple[float, float]]
    """In seconds, of each job that ended in both."""
    within: list[bool]
    """Whether each job's completion is within the bounds; of one that was cancelled: in both or in one."""
    starts_within: list[bool]
    """Whether each job started as often, and each start, since its submission, is within the bounds."""
    preempted: tuple[set[str], set[str]]
    by_whom: tuple[list[tuple[str, str]], list[tuple[str, str]]]
    """Who was preempted, and for whom, as often as it was."""
    lost_s: tuple[float, float]

    @property
    def name(self) -> str:
        """The configuration and the seed."""
        return f"{self.config} {self.seed}"

    @property
    def counts(self) -> bool:
        """Whether times were measured from other runs than this."""
        return self.config != _CALIBRATION

    @property
    def names_preemptors(self) -> bool:
        """Whether the record says for whom jobs were preempted; under GraceTime not reliably."""
        return self.counts and self.config not in _UNNAMED

    @property
    def distances(self) -> list[float]:
        """How far the means are from those recorded, as shares."""
        return [abs(ours / theirs - 1) for theirs, ours in self.means.values()]

    @property
    def beyond(self) -> list[str]:
        """The bounds that it is beyond."""
        theirs, ours = self.lost_s
        found = [f"mean of {name}" for name, (a, b) in self.means.items() if abs(b / a - 1) > MEAN_BOUND]
        if fmean(self.within) < JOBS_WITHIN:
            found.append(f"{self.within.count(False)} of {len(self.within)} jobs")
        if abs(ours - theirs) > LOST_BOUND * theirs:
            found.append("work lost")
        return found


def recorded_runs(paths: Sequence[Path] = ()) -> Iterator[dict[str, Any]]:
    """The runs of some files, or those that come with natjam."""
    folder = Path(str(resources.files("analysis") / "claims/slurm"))
    for path in paths or sorted(folder.glob("runs-*.json")):
        yield from json.loads(path.read_text())


def hold(run: Mapping[str, Any]) -> Held:
    """Simulate a run and compare."""
    executions, jobs = simulated(run), run["jobs"]
    last = {name: each[-1] for name, each in executions.items() if each}
    done = {name for name, each in last.items() if each.end is End.DONE}
    ended = [job for job in jobs if job["end"] is not None and job["name"] in done]
    completions = {job["name"]: _completions(job, last[job["name"]]) for job in ended}
    of = {name: [completions[job["name"]] for job in ended if job["partition"] == name] for name in _partitions(ended)}
    return Held(
        config=run["config"],
        seed=run["seed"],
        means={name: (fmean(a for a, _ in each), fmean(b for _, b in each)) for name, each in of.items()},
        completions=completions,
        within=[_completes_within(job, completions.get(job["name"]), job["name"] in done) for job in jobs],
        starts_within=[_starts_within(job, executions[job["name"]]) for job in jobs],
        preempted=(
            {job["name"] for job in jobs if job["terms"] or job["stopped"]},
            {name for name, each in executions.items() if any(one.was_ended or one.stopped for one in each)},
        ),
        by_whom=(sorted(_named(run)), sorted(_preemptors(executions))),
        lost_s=(_lost_s(jobs), sum(one.lost_ns for each in executions.values() for one in each) / SECOND_NS),
    )


def simulated(run: Mapping[str, Any]) -> Mapping[str, Sequence[Execution]]:
    """The same run simulated."""
    return jobs_player(cluster_of(run), jobs_of(run), recorded_costs(), BOOT_NS).finish()


def recorded_costs() -> Costs:
    """Launches as in the ``wait`` runs, after ticks at .52 of a second; victims go as in ``requeue``."""
    profile = load_overheads("slurm-22", Path())
    return Costs(profile.launch_ns, profile.launch_more_ns, profile.cleanup_ns)


def cluster_of(run: Mapping[str, Any]) -> Cluster:
    """The nodes, partitions and settings of a recorded run."""
    with tempfile.TemporaryDirectory(prefix="natjam-slurm-") as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(run["slurm_conf"])
        return read_conf(path).cluster


def jobs_of(run: Mapping[str, Any]) -> list[Job]:
    """The jobs of a recorded run, submitted when they were."""
    return [
        Job(
            each["name"],
            each["partition"],
            each["nodes"],
            each["cpus"],
            round(each["length"] * SECOND_NS),
            round(each["submitted"] * SECOND_NS),
            each["limit"] * SECOND_NS,
        )
        for each in run["jobs"]
    ]


def summary() -> dict[str, Any]:
    """The runs that come with natjam, by configuration and seed; and, in ``all``, how alike the preemptions are."""
    held = [hold(run) for run in recorded_runs()]
    found: dict[str, Any] = {}
    for each in held:
        found.setdefault(each.config, {})[str(each.seed)] = {
            **{name: ours for name, (_, ours) in each.means.items()},
            "lost": each.lost_s[1],
            "completions": fmean(each.within),
            "starts": fmean(each.starts_within),
            "jobs": each.completions,
        }
    found["all"] = {
        "preempted": fmean(each.preempted[0] == each.preempted[1] for each in held if each.counts),
        "by_whom": fmean(each.by_whom[0] == each.by_whom[1] for each in held if each.names_preemptors),
    }
    return found


def _partitions(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(job["partition"] for job in jobs))


def _completions(job: Mapping[str, Any], last: Execution) -> tuple[float, float]:
    return job["end"] - job["submitted"], (last.end_ns or 0) / SECOND_NS - job["submitted"]


def _completes_within(job: Mapping[str, Any], completions: tuple[float, float] | None, is_done: bool) -> bool:
    if completions is None:
        return job["end"] is None and not is_done
    return _is_near(*completions)


def _starts_within(job: Mapping[str, Any], executions: Sequence[Execution]) -> bool:
    pairs = zip((start for start, _ in job["starts"]), executions, strict=False)
    submitted = job["submitted"]
    near = (_is_near(start - submitted, each.start_ns / SECOND_NS - submitted) for start, each in pairs)
    return len(executions) == len(job["starts"]) and all(near)


def _is_near(theirs: float, ours: float) -> bool:
    return abs(ours - theirs) <= max(JOB_BOUND * theirs, JOB_BOUND_S)


def _named(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Who the controller says was preempted for whom; it numbers the jobs from 1."""
    for line in run["controller_says"]:
        if match := _PREEMPTED.search(line):
            victim, by = (run["jobs"][int(number) - 1]["name"] for number in match.groups())
            yield victim, by


def _preemptors(executions: Mapping[str, Sequence[Execution]]) -> Iterator[tuple[str, str]]:
    for name, each in executions.items():
        yield from ((name, one.by) for one in each if one.was_ended and one.by is not None)


def _lost_s(jobs: Sequence[Mapping[str, Any]]) -> float:
    """Work lost in a recorded run: of each start that a SIGTERM ended, the time since."""
    return sum(term - start for job in jobs for (start, _), term in zip(job["starts"], job["terms"], strict=False))
