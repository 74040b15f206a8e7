"""Holds runs of a real Slurm against natjam: slurm.py FILE.json ...

Each recorded run has its slurm.conf, which is read as ``natjam import slurm`` reads it, and its jobs.  Prints for each
run the mean completion of each partition, recorded and simulated, and the jobs that were preempted; last the mean and
the worst distance.  Exit status 1 if a run is beyond the bounds.  ``natjam reproduce slurm`` does the same with the
records in analysis/claims/slurm, as claims.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from analysis.papers.slurm_runs import RUNS_WITH_SAME_VICTIMS, Held, hold, recorded_runs


def main(arguments: Sequence[str]) -> int:
    """Hold the runs of the files; returns the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    held = [hold(run) for run in recorded_runs([Path(path) for path in arguments])]
    for each in held:
        print("\n".join(_lines(each)))
    counted = [each for each in held if each.counts]
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
