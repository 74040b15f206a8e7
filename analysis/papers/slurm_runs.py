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
from datetime import UTC, datetime
from importlib import resources
from itertools import groupby, zip_longest
from pathlib import Path
from statistics import fmean, linear_regression
from typing import Any

from emulator.costs.overheads import load_overheads
from emulator.policies.schedulers.play import Costs, End, Execution
from emulator.policies.slurm.controller import MAIN_AFTER_NS
from emulator.policies.slurm.scheduler import jobs_player
from emulator.sites.slurm import SECOND_NS, Cluster, Job
from workloads.slurm.conf import read_conf

BOOT_S = -8.487
"""When the controller started, of a run that does not say.  The fraction of the second is such that a job submitted at
a half second is seen in that second, as it is in eight of eight recorded cases; the whole ones were chosen so that the
passes of every 30 and 60 s fall where the ``requeue-defaults`` runs show them."""
MAIN_AFTER_WITH_SLURMDBD_S = 0.39
"""How long after the controller's start its main loop began with slurmdbd: the median of nine runs, by their lines."""
QUIET_MAIN_LATE_S, MAIN_LATE_S, MAIN_LATE_WITH_SLURMDBD_S = 0.001, 0.002, 0.003
"""How much longer than a second a turn of the main loop took, where its lines do not show it: as in runs of seeds 1 and
2, of a quiet machine; the middle of those (0.0015 to 0.0025 s) with which most passes of even seeds from 4 on and of
sites decide as recorded; and the median of nine runs with slurmdbd.  In others it was up to 0.009 s."""
BACKFILL_LATE_S = 0.0007
"""How much longer than a second it was from one run of backfill to the next: the median of 43 runs."""
_LEAST_TURNS = 3
"""Of so many turns a regression says something."""
_AT_ONCE_S = 0.25
"""So long after a preemption the main scheduler runs because a victim has left, and not by its clock."""
_BACKFILL_S = 0.1
"""So long after a tick of backfill a preemption is backfill's."""
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
    each_start_within: list[bool]
    """Whether each start is within the bounds; one that is there only once is not."""
    first_difference: str | None
    """The first start or eviction that is not the same, in words; None: all are."""
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


def hold(run: Mapping[str, Any], reads_turns: bool = True) -> Held:
    """Simulate a run and compare; ``reads_turns``: see ``clocks_of``."""
    executions, jobs = simulated(run, reads_turns), run["jobs"]
    last = {name: each[-1] for name, each in executions.items() if each}
    done = {name for name, each in last.items() if each.end is End.DONE}
    ended = [job for job in jobs if job["end"] is not None and job["name"] in done]
    completions = {job["name"]: _completions(job, last[job["name"]]) for job in ended}
    of = {name: [completions[job["name"]] for job in ended if _group(job) == name] for name in map(_group, ended)}
    return Held(
        config=run["config"],
        seed=run["seed"],
        means={name: (fmean(a for a, _ in each), fmean(b for _, b in each)) for name, each in of.items()},
        completions=completions,
        within=[_completes_within(job, completions.get(job["name"]), job["name"] in done) for job in jobs],
        starts_within=[all(_starts_within(job, executions[job["name"]])) for job in jobs],
        each_start_within=[within for job in jobs for within in _starts_within(job, executions[job["name"]])],
        first_difference=_first_difference(jobs, executions),
        preempted=(
            {job["name"] for job in jobs if job["terms"] or job["stopped"]},
            {name for name, each in executions.items() if any(one.was_ended or _was_stopped(one) for one in each)},
        ),
        by_whom=(sorted(_named(run)), sorted(_preemptors(executions))),
        lost_s=(_lost_s(jobs), sum(one.lost_ns for each in executions.values() for one in each) / SECOND_NS),
    )


def simulated(run: Mapping[str, Any], reads_turns: bool = True) -> Mapping[str, Sequence[Execution]]:
    """The same run simulated; ``reads_turns``: see ``clocks_of``."""
    clocks_s = clocks_of(run, reads_turns)
    return jobs_player(cluster_of(run), jobs_of(run), recorded_costs(), **clocks_s).finish()


def clocks_of(run: Mapping[str, Any], reads_turns: bool = True) -> dict[str, float]:
    """When the controller started, when its schedulers run, and what the wall's clock said at the start.

    ``reads_turns``: whether the clock of the main loop is read from the run's lines, if these show it.
    """
    after_s, late_s = _main_loop(run, reads_turns)
    return {
        "controller_started_s": _started_s(run),
        "main_after_s": after_s,
        "wall_clock_s": _wall_s(run),
        "main_late_s": late_s,
        "backfill_late_s": BACKFILL_LATE_S,
    }


def _started_s(run: Mapping[str, Any]) -> float:
    return run.get("controller_started", BOOT_S)


def _main_loop(run: Mapping[str, Any], reads_turns: bool) -> tuple[float, float]:
    """How long after the controller's start its main loop began, and how much longer than a second its turns were.

    That is a clock of each run, as the controller's start is: where its lines show three turns or more, their fractions
    of seconds, and nothing else of them, are read by a regression; without slurmdbd its begin is known.
    """
    has_slurmdbd = "accounting_storage/slurmdbd" in run["slurm_conf"]
    after_s = MAIN_AFTER_WITH_SLURMDBD_S if has_slurmdbd else MAIN_AFTER_NS / SECOND_NS
    turns = _turns_s(run, after_s) if reads_turns and "t0" in run else {}
    if len(turns) < _LEAST_TURNS:
        late_s = MAIN_LATE_S if "t0" in run else QUIET_MAIN_LATE_S
        return after_s, MAIN_LATE_WITH_SLURMDBD_S if has_slurmdbd else late_s
    turns |= {} if has_slurmdbd else {0: after_s}
    late_s, after_s = linear_regression([*turns], [*turns.values()])
    return after_s, late_s


def _turns_s(run: Mapping[str, Any], after_s: float) -> dict[int, float]:
    """By how many seconds the main loop came late at a turn, as lines of the controller show it; at first by some
    ``after_s``."""
    preempted = sorted(_line_s(run, line) for line in run["controller_says"] if "] preempted JobId=" in line)
    started = (at_s for job in run["jobs"] for at_s, _, by in job["allocated"] if by == "sched")
    found: dict[int, float] = {}
    for at_s in sorted((*preempted, *started)):
        turn, late_s = divmod(at_s - _started_s(run), 1)
        is_at_once = any(0 < at_s - other_s < _AT_ONCE_S for other_s in preempted)
        if is_at_once or (at_s in preempted and late_s < _BACKFILL_S):
            continue
        so_far_s = max(found.values(), default=after_s)
        found.setdefault(int(turn), late_s + round(so_far_s - late_s))
    return found


def _line_s(run: Mapping[str, Any], line: str) -> float:
    """When the controller wrote a line."""
    return datetime.fromisoformat(line[1:20]).replace(tzinfo=UTC).timestamp() + float(line[20:24]) - _wall_s(run)


def _wall_s(run: Mapping[str, Any]) -> float:
    """The wall's clock at the start of a run; of a run without ``t0`` as far as its lines tell: a job that is requeued
    or cancelled sees SIGTERM when the controller writes so."""
    if "t0" in run:
        return run["t0"]
    terms = sorted(term for job in run["jobs"] for term in job["terms"])
    lines = [line for line in run["controller_says"] if "] preempted JobId=" in line]
    if not terms or not lines:
        return 0.0
    stamp, fraction = lines[0][1:20], float(lines[0][20:24])
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp() + fraction - terms[0]


def recorded_costs() -> Costs:
    """Launches and leaving as in the records of seeds 4 to 6 and of sites."""
    profile = load_overheads("slurm-22", Path())
    return Costs(profile.launch_ns, profile.launch_more_ns, profile.cleanup_ns)


def cluster_of(run: Mapping[str, Any]) -> Cluster:
    """The nodes, partitions, QOS and settings of a recorded run."""
    with tempfile.TemporaryDirectory(prefix="natjam-slurm-") as folder:
        path, qos = Path(folder) / "slurm.conf", Path(folder) / "qos.txt"
        path.write_text(run["slurm_conf"])
        qos.write_text(run.get("qos", ""))
        return read_conf(path, qos if "qos" in run else None).cluster


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
            each.get("priority") or 0,
            each.get("qos", ""),
            each.get("mem", 0),
            {"gpu": each["gpus"]} if each.get("gpus") else {},
            nice=each.get("nice") or 0,
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


def _group(job: Mapping[str, Any]) -> str:
    """The jobs of which a mean is taken: of a QOS where there are any, else of a partition."""
    return job.get("qos") or job["partition"]


_SEEN_S = 0.5
"""A stop that is shorter is not in the record."""


def _was_stopped(execution: Execution) -> bool:
    return any(until_ns - since_ns > _SEEN_S * SECOND_NS for since_ns, until_ns in execution.stopped)


def _completions(job: Mapping[str, Any], last: Execution) -> tuple[float, float]:
    return job["end"] - job["submitted"], (last.end_ns or 0) / SECOND_NS - job["submitted"]


def _completes_within(job: Mapping[str, Any], completions: tuple[float, float] | None, is_done: bool) -> bool:
    if completions is None:
        return job["end"] is None and not is_done
    return _is_near(*completions)


def _starts_within(job: Mapping[str, Any], executions: Sequence[Execution]) -> list[bool]:
    theirs = [start - job["submitted"] for start, _ in job["starts"]]
    ours = [each.start_ns / SECOND_NS - job["submitted"] for each in executions]
    return [None not in pair and _is_near(*pair) for pair in zip_longest(theirs, ours)]


def _first_difference(jobs: Sequence[Mapping[str, Any]], executions: Mapping[str, Sequence[Execution]]) -> str | None:
    """The first event of either that the other has not, or later than ``JOB_BOUND_S``."""
    found: list[tuple[float, str]] = []
    for job in jobs:
        each = executions[job["name"]]
        theirs = [(start, f"{job['name']} starts on {where}") for start, where in job["starts"]]
        ours = [(one.start_ns / SECOND_NS, f"{job['name']} starts on {_listed(one.nodes)}") for one in each]
        theirs += [(term, f"{job['name']} is ended") for term in job["terms"]]
        ours += [((one.end_ns or 0) / SECOND_NS, f"{job['name']} is ended") for one in each if one.was_ended]
        for (at_s, what), others, here in [
            *((one, ours, "") for one in theirs),
            *((one, theirs, " here") for one in ours),
        ]:
            if not any(what == other and abs(at_s - then_s) <= JOB_BOUND_S for then_s, other in others):
                found.append((at_s, f"at {at_s:.2f} s {what}{here or ' there'}"))
    return min(found)[1] if found else None


def _listed(nodes: Sequence[str]) -> str:
    """``n[0-1,3]``, as Slurm writes a list of nodes."""
    if len(nodes) == 1:
        return nodes[0]
    numbers = sorted(int(node.removeprefix("n")) for node in nodes)
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return f"n[{','.join(f'{run[0]}-{run[-1]}' if len(run) > 1 else str(run[0]) for run in runs)}]"


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
