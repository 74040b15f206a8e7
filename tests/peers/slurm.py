"""Holds runs of a real Slurm against natjam: slurm.py [--machines] FILE.json ...

Each recorded run has its slurm.conf, which is read as ``natjam import slurm`` reads it, and its jobs.  Prints for each
run the mean completion of each partition, recorded and simulated, and the jobs that were preempted; last the mean and
the worst distance.  Exit status 1 if a run is beyond the bounds.  ``natjam reproduce slurm`` does the same with the
records in analysis/claims/slurm, as claims.

With ``--machines`` the same jobs go through the whole machines (``site`` in an experiment) as well, by the same rules,
and every start and end is compared with the play's; at the end ``N of M equal``, and exit status 1 if any differs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from analysis.papers.slurm_runs import (
    BOOT_S,
    Held,
    cluster_of,
    hold,
    jobs_of,
    recorded_runs,
    simulated,
)
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.schedulers.play import Execution
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.slurm import SECOND_NS, Cluster, Job, Slurm
from tests.peers import holding
from workloads.saved import write_saved

RUNS_WITH_SAME_VICTIMS = 0.8
Stays = dict[str, list[tuple[int, int]]]
"""Of each job: when it began to work on its nodes, and when it left them."""


def main(arguments: Sequence[str]) -> int:
    """Hold the runs of the files; returns the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--machines":
        return holding.hold({"--machines": differs_in_machines}, __doc__ or "", arguments)
    held = [hold(run) for run in recorded_runs([Path(path) for path in arguments])]
    for each in held:
        print("\n".join(_lines(each)))
    counted = [each for each in held if each.counts]
    same = [each for each in counted if each.preempted[0] == each.preempted[1]]
    distances = [distance for each in counted for distance in each.distances] or [0.0]
    print(f"the same jobs preempted in {len(same)} of {len(counted)} runs")
    print(f"means: {fmean(distances):.1%} off on average, {max(distances):.1%} at worst (without wait)")
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


# ---- through the whole machines ----


def in_machines(cluster: Cluster, jobs: Iterable[Job], folder: Path, **keys: Any) -> Stays:
    """The jobs of a site as an experiment, simulated; ``keys`` are of the experiment's file."""
    write_saved(folder / "site.yaml", Slurm(cluster, tuple(jobs)), ())
    (folder / "experiment.yaml").write_text(dump_yaml({"name": "site", "site": "site.yaml", **keys}))
    found: dict[str, set[tuple[int, int]]] = {}
    for row in simulated_history(resolve(load_experiment(folder / "experiment.yaml"))).attempts:
        if (
            row.kind == "task"
            and row.first_key_ns is not None
            and row.ended_ns is not None
            and row.first_key_ns < row.ended_ns
        ):
            found.setdefault(row.job, set()).add((row.first_key_ns, row.ended_ns))
    return {name: sorted(stays) for name, stays in found.items()}


def played(stays: Mapping[str, Sequence[Execution]]) -> Stays:
    """The same of a play: of stays in which the job worked."""
    times = {name: [(stay.start_ns, stay.end_ns or 0) for stay in each] for name, each in stays.items()}
    return {name: [each for each in stays if each[0] < each[1]] for name, stays in times.items()}


def differences(ours: Stays, theirs: Stays) -> Iterator[str]:
    """What differs between machines and play, in words."""
    for name, expected in theirs.items():
        found = ours.get(name, [])
        if found != expected:
            yield f"{name}: {found}, in the play {expected}"


def differs_in_machines(run: Mapping[str, Any]) -> str | None:
    """The first job of a recorded run that goes otherwise in the machines than in the play."""
    with tempfile.TemporaryDirectory(prefix="natjam-slurm-") as folder:
        return next(differences(run_in_machines(run, Path(folder)), played(simulated(run))), None)


def run_in_machines(run: Mapping[str, Any], folder: Path) -> Stays:
    """A recorded run's jobs through the machines, under its own configuration."""
    scheduler = {"allocation": {"controller_started_s": BOOT_S / SECOND_NS}}
    return in_machines(cluster_of(run), jobs_of(run), folder, scheduler=scheduler)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, ConfigError) as error:
        sys.exit(f"slurm.py: {error}")
    except KeyError as error:
        sys.exit(f"slurm.py: a run has no {error}: no such key, or no such partition in its slurm.conf")
