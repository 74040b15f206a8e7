"""Holds runs of a real Slurm against natjam: slurm.py [--machines | --turns-unread] FILE.json ...

Each recorded run has its slurm.conf, and its table of QOS if there is one, which are read as ``natjam import slurm``
reads them, and its jobs.  Prints for each run the mean completion of each partition (or QOS), recorded and simulated,
whether the same jobs were preempted, how many starts are within 1 s or 10%, and what differs first.  If a configuration
and seed were recorded several times, a run is judged against the nearest of these records.  Exit status 1 if the same
jobs are preempted in fewer than 90% of the runs, means are more than 2% off on average, or fewer than 95% of the starts
are within the bounds.  The ``wait`` runs, which times were measured from, do not count.  ``natjam reproduce slurm``
does the same with the records in analysis/claims/slurm, as claims.

The clock of the main loop differs from run to run, and is read from the lines of a run that show it three times; with
``--turns-unread`` it is read from no run, as if nothing of it were known.

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
    JOB_BOUND,
    JOB_BOUND_S,
    Held,
    clocks_of,
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
from emulator.sites.slurm import Cluster, Job, Slurm
from tests.peers import holding
from workloads.saved import write_saved

RUNS_WITH_SAME_VICTIMS, MEANS_OFF, STARTS_WITHIN = 0.9, 0.02, 0.95
CLOCK = "the clock of the main loop, which its lines show less than three times: "
GRACE = "a rule when plans count on the end of a victim's grace: "
MISSING = {
    "requeue-grace 2": GRACE + "here, at 43.55 s, they do not, in requeue-grace 4 they do",
    "requeue-grace 5": GRACE + "here, at 32.55 s, nothing is kept on n2, where natjam's plan has a job at its end",
    "requeue-exempt 4": CLOCK + "a turn comes 17 ms after a submission, at 28.717 s",
    "requeue-exempt 5": "nothing but chance: of the two nodes of a victim n2 is free after 37 ms, n1 after 82 ms",
    "requeue-exempt 6": CLOCK + "a turn comes 33 ms after the exempt time of victims is over, at 15.662 s",
    "multifactor-requeue 3": "nothing but chance: two victims leave n1 4 ms apart, with a pass in between, at 25.38 s",
    "qos 2": "nothing but chance: victims leave after 32 ms, and not 86 ms, and a job ends in between, at 48.637 s",
    "qos 3": "a rule for whom over a limit of its QOS backfill keeps nodes: in 7 passes it does, in 3 it does not",
}
"""What decides first in the runs that are beyond the bounds."""
Stays = dict[str, list[tuple[int, int]]]
"""Of each job: when it began to work on its nodes, and when it left them."""


def main(arguments: Sequence[str]) -> int:
    """Hold the runs of the files; returns the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--machines":
        return holding.hold({"--machines": differs_in_machines}, __doc__ or "", arguments)
    reads_turns = arguments[0] != "--turns-unread"
    files, counted = arguments if reads_turns else arguments[1:], []
    for records in _repeats(recorded_runs([Path(path) for path in files])):
        nearest = min((hold(run, reads_turns) for run in records), key=_distance)
        print(*_lines(nearest, len(records)), sep="\n")
        counted += [nearest] if nearest.counts else []
    return _verdict(counted)


def _repeats(runs: Iterable[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """The records of one configuration and set of jobs together."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["config"], run["seed"], "slurmdbd" in run["slurm_conf"]), []).append(run)
    return found.values()


def _distance(held: Held) -> tuple[bool, float]:
    return held.preempted[0] != held.preempted[1], fmean(held.distances)


def _verdict(held: Sequence[Held]) -> int:
    if not held:
        return 0
    same = fmean(each.preempted[0] == each.preempted[1] for each in held)
    distances = [distance for each in held for distance in each.distances]
    starts = [within for each in held for within in each.each_start_within]
    print(f"the same jobs preempted in {same:.0%} of {len(held)} runs")
    print(f"means: {fmean(distances):.1%} off on average, {max(distances):.1%} at worst")
    print(f"starts: {fmean(starts):.1%} of {len(starts)} within {JOB_BOUND_S:g} s or {JOB_BOUND:.0%}")
    return int(same < RUNS_WITH_SAME_VICTIMS or fmean(distances) > MEANS_OFF or fmean(starts) < STARTS_WITHIN)


def _lines(held: Held, records: int) -> Iterator[str]:
    parts = [f"{name} {theirs:.1f} s, {ours:.1f} s" for name, (theirs, ours) in sorted(held.means.items())]
    starts = f"{sum(held.each_start_within)} of {len(held.each_start_within)} starts within"
    of = f" (the nearest of {records} records)" if records > 1 else ""
    yield f"{held.name}{of}: recorded and simulated: {'; '.join(parts)}; {starts}"
    theirs, ours = held.preempted
    if theirs != ours:
        yield f"   preempted only there: {sorted(theirs - ours)}; only here: {sorted(ours - theirs)}"
    if held.first_difference and (theirs != ours or held.beyond or not all(held.each_start_within)):
        yield f"   differs first: {held.first_difference}"
        yield f"   missing: {MISSING.get(held.name, 'not known, for nobody has looked at this run')}"


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
    scheduler = {"allocation": clocks_of(run)}
    return in_machines(cluster_of(run), jobs_of(run), folder, scheduler=scheduler)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, ConfigError) as error:
        sys.exit(f"slurm.py: {error}")
    except KeyError as error:
        sys.exit(f"slurm.py: a run has no {error}: no such key, or no such partition in its slurm.conf")
