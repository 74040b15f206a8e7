"""Holds runs of a real Slurm against natjam: slurm.py FILE.json ...

Each recorded run has its slurm.conf, which is read as ``natjam import slurm`` reads it, and its jobs.  Prints for each
run the mean completion of each partition, recorded and simulated, and the jobs that were preempted; last the mean and
the worst distance.  Exit status 1 if a run is beyond the bounds.  Where the records come from is in
tests/data/PROVENANCE.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.policies.slurm.model import SECOND_NS, Job
from emulator.policies.slurm.player import Costs, End, Player, Stay
from workloads.slurm.conf import read_conf

COSTS = Costs(launch_ns=80_000_000, gone_ns=80_000_000)
"""A launch is as in the ``wait`` runs, after ticks at half seconds; the time victims take to go as in ``requeue``."""
BOOT_NS = -8_500_000_000
"""When the controller started.  The half second is from the starts in the ``wait`` runs; the whole ones were chosen so
that the passes of every 30 and 60 s fall where the ``requeue-defaults`` runs show them."""
MEAN_BOUND, JOB_BOUND, JOB_BOUND_S, LOST_BOUND = 0.05, 0.10, 1.0, 0.10
PREEMPTED = (End.CANCELLED, End.REQUEUED)
JOBS_WITHIN, RUNS_WITH_SAME_VICTIMS = 0.9, 0.8


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


def simulated(run: Mapping[str, Any]) -> dict[str, list[Stay]]:
    """The same run simulated."""
    with tempfile.TemporaryDirectory(prefix="natjam-slurm-") as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(run["slurm_conf"])
        cluster, _ = read_conf(path)
    return Player(cluster, jobs_of(run), COSTS, BOOT_NS).play()


@dataclass(frozen=True)
class Held:
    """One run beside its simulation."""

    name: str
    means: dict[str, tuple[float, float]]
    """Of each partition: recorded and simulated."""
    within: list[bool]
    """Of each job that ended in both."""
    preempted: tuple[set[str], set[str]]
    lost_s: tuple[float, float]

    @property
    def distances(self) -> list[float]:
        """Of the means."""
        return [abs(ours / theirs - 1) for theirs, ours in self.means.values()]

    @property
    def beyond(self) -> list[str]:
        """Which bounds it is beyond."""
        theirs, ours = self.lost_s
        found = [f"mean of {name}" for name, (a, b) in self.means.items() if abs(b / a - 1) > MEAN_BOUND]
        if fmean(self.within) < JOBS_WITHIN:
            found.append(f"{self.within.count(False)} of {len(self.within)} jobs")
        if abs(ours - theirs) > LOST_BOUND * theirs:
            found.append("work lost")
        return found


def hold(run: Mapping[str, Any]) -> Held:
    """Simulate a run and compare."""
    stays = simulated(run)
    pairs: dict[str, list[tuple[float, float]]] = {}
    within = []
    for job in run["jobs"]:
        last = stays[job["name"]][-1]
        if job["end"] is None or last.end is not End.DONE:
            within.append((job["end"] is None) == (last.end is not End.DONE))
            continue
        theirs = job["end"] - job["submitted"]
        ours = (last.end_ns or 0) / SECOND_NS - job["submitted"]
        pairs.setdefault(job["partition"], []).append((theirs, ours))
        within.append(abs(ours - theirs) <= max(JOB_BOUND * theirs, JOB_BOUND_S))
    means = {name: (fmean(a for a, _ in each), fmean(b for _, b in each)) for name, each in pairs.items()}
    preempted = {job["name"] for job in run["jobs"] if job["terms"] or job["stopped"]}
    mine = {name for name, each in stays.items() if any(stay.end in PREEMPTED or stay.stopped for stay in each)}
    return Held(f"{run['config']} {run['seed']}", means, within, (preempted, mine), (_lost_s(run), _lost(stays)))


def _lost_s(run: Mapping[str, Any]) -> float:
    """Work lost in a recorded run: of each start that a SIGTERM ended, the time since."""
    return sum(
        term - start for job in run["jobs"] for (start, _), term in zip(job["starts"], job["terms"], strict=False)
    )


def _lost(stays: Mapping[str, Sequence[Stay]]) -> float:
    ended = (stay for each in stays.values() for stay in each if stay.end in PREEMPTED)
    return sum((stay.end_ns or 0) - stay.start_ns for stay in ended) / SECOND_NS


def main(arguments: Sequence[str]) -> int:
    """Hold the runs of the files; returns the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    held = [hold(run) for path in arguments for run in json.loads(Path(path).read_text())]
    for each in held:
        print("\n".join(_lines(each)))
    counted = [each for each in held if not each.name.startswith("wait")]
    same = [each for each in counted if each.preempted[0] == each.preempted[1]]
    distances = [distance for each in counted for distance in each.distances] or [0.0]
    print(f"means: {fmean(distances):.1%} off on average, {max(distances):.1%} at worst (without wait)")
    print(f"the same jobs preempted in {len(same)} of {len(counted)} runs")
    bad = any(each.beyond for each in counted) or len(same) < RUNS_WITH_SAME_VICTIMS * len(counted)
    return int(bad)


def _lines(held: Held) -> Iterator[str]:
    parts = [f"{name} {theirs:.1f} s, {ours:.1f} s" for name, (theirs, ours) in sorted(held.means.items())]
    beyond = f"  beyond: {', '.join(held.beyond)}" if held.beyond else ""
    lost = "lost {:.0f} s, {:.0f} s".format(*held.lost_s)
    yield f"{held.name}: recorded and simulated: {'; '.join(parts)}; {lost}{beyond}"
    theirs, ours = held.preempted
    if theirs != ours:
        yield f"   preempted only there: {sorted(theirs - ours)}; only here: {sorted(ours - theirs)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
