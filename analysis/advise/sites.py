"""Advice for an imported site: its jobs played by its own scheduler's rules, under each way to preempt.

Of a site of Slurm urgent are the partitions of the highest PriorityTier; where QOS decide, those that may preempt
others and that nobody may preempt.  All others get one PreemptMode, one GraceTime and one PreemptExemptTime at a time.
Checkpoints and images in place of REQUEUE are run through the whole machines, simulated, as they have costs of their
own.  Nothing is drawn, so there is one answer for each way, without an interval.

Of a cluster with Kueue urgent are the workloads of the highest priority.  Days of its workloads are played with no
preemption, and with a minimum runtime that is swept: how long a workload runs before it may be preempted; Kueue has
none so far.  The days have the recorded times of arrivals, and at each a workload drawn from the recorded ones, so that
what is said holds for such days and not for one.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from msgspec.structs import replace

from analysis.advise.answers import comparable, in_order, of_how_many
from analysis.advise.results import (
    MIN_PREEMPTIONS,
    Candidate,
    CandidateResult,
    CellColumn,
    Measures,
    column,
    reasons_against_any,
)
from analysis.figures import style
from emulator.campaign.spread import ProcessWorkers, spread
from emulator.core.messages import JobState
from emulator.display.tables import ALWAYS, Kind
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.intervals import spread_of
from emulator.loops.play import RunningSetDetector
from emulator.policies.kueue.scheduler import workloads_player
from emulator.policies.schedulers.play import NO_COSTS, Costs, Player, job_row
from emulator.policies.schedulers.protocol import SchedulerError
from emulator.policies.slurm.main_scheduler import FOR_WHAT_IS_KEPT, Decision
from emulator.policies.slurm.scheduler import jobs_player
from emulator.records.measures import evictions, known, mean, total, waits_s
from emulator.records.summary import job_in_seconds
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites import kueue, slurm
from emulator.sites.basis import Basis
from emulator.sites.kueue import Arrival, Kueue
from emulator.sites.slurm import Job, Mode, Slurm
from emulator.vocabulary import HOUR_NS, MINUTE_NS, SECOND_NS, Frozen, counted
from workloads.saved import write_saved

PREVIEW = -1
"""In place of a day's number: a part that is played first."""
LOOPS = "loops"
"""How many of the drawn days have endless preemption, and count for no other measure."""


Play = Callable[[int], Measures | None]
"""Plays the day with this number, in any process; None: it has endless preemption."""
Played = Mapping[tuple[str, int], Measures | None]
"""What was played, by the name of the candidate and the number of the day."""


class SiteQuestion(Frozen):
    """What is asked about a site, and how the answer is shown."""

    candidates: Sequence[tuple[Candidate, Play]]
    days: int
    """How many of each are played."""
    facts: Mapping[str, Any]
    """What ``advise.json`` has beside the candidates."""
    heads: tuple[str, ...]
    """What is said above the table."""
    title: str
    """Of the table; ``{days}`` stands for the number of days."""
    columns: Sequence[CellColumn]
    words: Callable[[Sequence[CandidateResult]], Iterable[str]]
    """What the figures say, in sentences."""
    preempted: str
    """The measure that counts preemptions."""
    basis: Basis
    """What decides at the site and is not modelled, and what was left out."""
    first: Collection[str]
    """The candidates of a first answer, by name."""
    has_figure: bool = False
    has_preview: bool = False
    """Whether a part is played before all, by the candidates of the first answer, so that this comes soon."""
    drawn: tuple[str, ...] = ()
    """The measures of days that are drawn."""

    @property
    def names(self) -> list[str]:
        """The names of the candidates."""
        return [candidate.name for candidate, _ in self.candidates]

    @property
    def plays(self) -> int:
        """How many plays there are."""
        return self.days * len(self.candidates) + self.has_preview * len(self.first)

    def played(self) -> Iterator[Played]:
        """All that was played so far, a few times a second, until all is; on all cores.

        Raises ConfigError: a way cannot be run; RunError.
        """
        plays, done = {candidate.name: play for candidate, play in self.candidates}, dict[tuple[str, int], Any]()
        tasks = [(name, PREVIEW, plays[name]) for name in self.first if self.has_preview]
        tasks += [(name, day, plays[name]) for name, day in in_order(self.names, self.first, range(self.days))]
        with ProcessWorkers(play_batch, preloaded=[__name__]) as workers:
            for found in spread(tasks, workers):
                done.update(found)
                yield done

    def results(self, played: Played) -> tuple[list[CandidateResult], int]:
        """Candidates that can be compared, and over how many days; none if too little was played.

        Over 0 days: by the preview.
        """
        whole = [play for play in played if play[1] != PREVIEW]
        names, days = comparable(whole, self.names, self.first, range(self.days))
        if not names and self.has_preview:
            early = {candidate: measures for (candidate, day), measures in played.items() if day == PREVIEW}
            ready = self.first if early.keys() >= {*self.first} else ()
            found = [CandidateResult(each, early[each.name] or {}) for each, _ in self.candidates if each.name in ready]
            return found, 0
        found = []
        for candidate in (candidate for candidate, _ in self.candidates if candidate.name in names):
            ended = [ended for day in days if (ended := played[candidate.name, day]) is not None]
            if self.days == 1:
                found.append(CandidateResult(candidate, ended[0]))
                continue
            means = {key: spread_of(day[key] for day in ended) for key in self.drawn}
            found.append(CandidateResult(candidate, {**means, LOOPS: len(days) - len(ended)}))
        return found, len(days)

    def text(self, found: Sequence[CandidateResult], days: int) -> Iterator[str]:
        """What is said below the table: the figures in sentences, unless too little is preempted to tell.

        A day with endless preemption has no lack of it.
        """
        if found and not days:
            yield "This is of the busiest day only, on an empty cluster: more time may change it (--seconds)."
        else:
            yield from of_how_many((len(found), len(self.candidates)), (days, self.days), "days")
        has_loops = any(each.number(LOOPS) for each in found)
        most = math.inf if has_loops else max(each.number(self.preempted) for each in found)
        yield from reasons_against_any(self.basis, most, " a day" if self.drawn else "")
        if most >= MIN_PREEMPTIONS:
            yield from self.words(found)


def play_batch(batch: Sequence[tuple[str, int, Play]]) -> list[tuple[tuple[str, int], Measures | None]]:
    """Plays some days; each is the name of a candidate, the number of the day, and how to play it."""
    return [((name, day), play(day)) for name, day, play in batch]


# ---- Slurm ----

_NO_TIME = 0
_MANY_JOBS = 2000
"""Of sites with more jobs the busiest day is played first."""
_SWEPT_NS = {"0": _NO_TIME, "5 min": 5 * MINUTE_NS, "15 min": 15 * MINUTE_NS, "1 h": HOUR_NS, "24 h": 24 * HOUR_NS}
"""Values of PreemptExemptTime and of GraceTime, by what the tables call them."""
_SAVES_NS = {"every 15 min": 15 * MINUTE_NS, "every 1 h": HOUR_NS}
"""How often programs save, for the ways in which a requeued job goes on."""
_IN_MACHINES = {
    "checkpoint": ("scheduler.mechanism=checkpoint",),
    "image, SSD": ("scheduler.mechanism=image", "storage.tier=ssd", "protocol.kill_timeout_s=600"),
}
"""What may take the place of REQUEUE in ``natjam run``, with what an experiment needs for it."""
_PLACES = 50
"""The number of places for names along an axis of the picture: points that are nearer to each other share one."""
WAIT = "OFF"
_REQUEUE_SAVED = "REQUEUE, saved"
_PLAIN = ["0", "0", "-"]
"""Neither an exempt time nor a grace time, and nothing is saved."""


def urgent_names(cluster: slurm.Cluster) -> frozenset[str]:
    """The partitions, or QOS, whose jobs are urgent."""
    if cluster.by_qos:
        victims = {name for each in cluster.qos for name in each.preempts}
        return frozenset(each.name for each in cluster.qos if each.preempts and each.name not in victims)
    highest = max(each.tier for each in cluster.partitions)
    return frozenset(each.name for each in cluster.partitions if each.tier == highest)


def is_urgent(job: Job, cluster: slurm.Cluster) -> bool:
    """Whether a job is of an urgent partition, or QOS."""
    return _decides(job, cluster) in urgent_names(cluster)


def _decides(job: Job, cluster: slurm.Cluster) -> str:
    """The QOS or the partition by which a job is urgent or not."""
    return job.qos if cluster.by_qos else job.partition


def slurm_question(file: Path, site: Slurm) -> SiteQuestion:
    """What is asked about a site of Slurm.  Raises ConfigError: there are no urgent jobs, or no others."""
    cluster, urgent = site.cluster, urgent_names(site.cluster)
    why = "may preempt others, and nobody them" if cluster.by_qos else "the highest PriorityTier"
    called = f"{', '.join(sorted(urgent))} ({why})"
    sides = {is_urgent(job, cluster) for job in site.jobs}
    if sides != {True, False}:
        missing = "urgent" if True not in sides else "other"
        raise ConfigError(
            f"{file}: slurm.jobs: there are no {missing} jobs (urgent: those of {called}); give natjam import slurm a"
            " table with --sacct that has both"
        )
    columns = (
        column("PreemptMode", Kind.NAME, ALWAYS, "mode"),
        column("saves", Kind.NAME, 3, "saves"),
        column("exempt", Kind.NUMBER, 4, "exempt"),
        column("grace", Kind.NUMBER, 4, "grace"),
        column("urgent\nwait s", Kind.NUMBER, 4, "urgent_wait_s"),
        column("longest\nwait s", Kind.NUMBER, 2, "urgent_longest_wait_s"),
        column("others'\ncompletion s", Kind.NUMBER, 4, "other_completion_s"),
        column("lost\nnode-h", Kind.NUMBER, 4, "lost_node_h", ",.2f"),
        column("lost %", Kind.NUMBER, 1, "lost_share", ".1%"),
        column("unfinished", Kind.NUMBER, 1, "others_unfinished", ","),
        column("preempted", Kind.NUMBER, 1, "preempted", ","),
    )
    ways = [*_slurm_ways(cluster, site.jobs)]
    return SiteQuestion(
        ways,
        1,
        {"urgent": sorted(urgent)},
        (f"urgent: the jobs of {called}", *_of_turns(cluster, site.jobs)),
        "what each way means for the site's jobs",
        columns,
        partial(_slurm_words, any(job.memory_mb or job.gres for job in site.jobs)),
        "preempted",
        site.basis,
        {candidate.name for candidate, _ in ways if _is_plain(candidate)},
        has_figure=True,
        has_preview=len(site.jobs) > _MANY_JOBS,
    )


def _is_plain(candidate: Candidate) -> bool:
    """Whether it is a PreemptMode alone."""
    return [*candidate.settings.values()][1:] == _PLAIN


def _of_turns(cluster: slurm.Cluster, jobs: Sequence[Job]) -> Iterator[str]:
    """What SUSPEND leaves out, and REQUEUE and CANCEL, if they do."""
    suspending = _with_mode(cluster, Mode.SUSPEND, _NO_TIME, _NO_TIME)
    if takers := len(slurm.turn_takers(suspending, jobs)):
        yield f"SUSPEND: {takers:,} of {counted(len(jobs), 'job')}: {slurm.TURNS}"
    requeuing = _with_mode(cluster, Mode.REQUEUE, _NO_TIME, _NO_TIME).sharing
    if any(node.sharing > requeuing[name] for name, node in cluster.nodes.items()):
        yield f"REQUEUE, CANCEL: {slurm.ENDED_IN_TURNS}"


def _slurm_ways(cluster: slurm.Cluster, jobs: Sequence[Job]) -> Iterator[tuple[Candidate, Play]]:
    """Waiting, each PreemptMode with the times swept, REQUEUE of programs that save what they have done, and
    checkpoints and images in its place."""

    def way(
        mode: str, chosen: slurm.Cluster, costs: Costs = NO_COSTS, keys: Sequence[str] = (), **swept: str
    ) -> tuple[Candidate, Play]:
        settings = {"mode": mode, **dict(zip(("exempt", "grace", "saves"), _PLAIN, strict=True)), **swept}
        return Candidate(settings), partial(_slurm_day, chosen, jobs, costs, keys)

    yield way(WAIT, _with_mode(cluster, Mode.OFF, _NO_TIME, _NO_TIME))
    # neither time is honoured for jobs that are stopped, not ended (slurm.conf(5), PreemptExemptTime and GraceTime)
    yield way(Mode.SUSPEND.value, _with_mode(cluster, Mode.SUSPEND, _NO_TIME, _NO_TIME))
    for mode in (Mode.REQUEUE, Mode.CANCEL):
        for exempt, exempt_ns in _SWEPT_NS.items():
            yield way(mode.value, _with_mode(cluster, mode, exempt_ns, _NO_TIME), exempt=exempt)
        for grace, grace_ns in _SWEPT_NS.items():
            if grace_ns:
                yield way(mode.value, _with_mode(cluster, mode, _NO_TIME, grace_ns), grace=grace)
    requeued = _with_mode(cluster, Mode.REQUEUE, _NO_TIME, _NO_TIME)
    for saves, period_ns in _SAVES_NS.items():
        yield way(_REQUEUE_SAVED, requeued, Costs(save_period_ns=period_ns), saves=saves)
    for mechanism, keys in _IN_MACHINES.items():
        yield way(mechanism, requeued, keys=keys, saves="when told")


def _with_mode(cluster: slurm.Cluster, mode: Mode, exempt_ns: int, grace_ns: int) -> slurm.Cluster:
    urgent = urgent_names(cluster)
    gang = cluster.settings.gang or mode is Mode.SUSPEND
    settings = replace(cluster.settings, preempts=mode is not Mode.OFF, gang=gang, exempt_ns=exempt_ns)
    if cluster.by_qos:
        terms: dict[str, object] = {"mode": mode, "grace_ns": grace_ns, "exempt_ns": exempt_ns}
        qos = tuple(each if each.name in urgent else replace(each, **terms) for each in cluster.qos)
        return replace(cluster, qos=qos, settings=settings)
    partitions = tuple(
        each if each.name in urgent else replace(each, mode=mode, grace_ns=grace_ns) for each in cluster.partitions
    )
    return replace(cluster, partitions=partitions, settings=settings)


def busiest_day(jobs: Sequence[Job]) -> list[Job]:
    """The jobs of that day, from the first one's submission on, in which the most work was submitted."""
    days: dict[int, list[Job]] = {}
    for job in jobs:
        days.setdefault(job.submit_ns // slurm.DAY_NS, []).append(job)
    day = max(days, key=lambda each: sum(job.length_ns * job.nodes * job.cpus for job in days[each]))
    begin_ns = day * slurm.DAY_NS
    return [
        replace(job, submit_ns=job.submit_ns - begin_ns, eligible_ns=max(0, job.eligible_ns - begin_ns))
        for job in days[day]
    ]


def _slurm_day(cluster: slurm.Cluster, jobs: Sequence[Job], costs: Costs, keys: Sequence[str], day: int) -> Measures:
    """Play the jobs, or run them with these keys of an experiment.  There is one day, as nothing is drawn, and the
    preview.

    ``others_unfinished``: other jobs that were cancelled for urgent ones, or never ended.  ``lost_node_h``: node-hours
    of work that was ended, and is done again or never; with images also those spent on them.  ``stopped_gb_h`` and
    ``stopped_gres_h``: memory, and GRES such as GPUs, times the hours for which stopped jobs kept them.
    ``lacked_jobs``: urgent jobs that could have stopped others, and waited for memory or GRES; ``lacked_s``: how long
    each did.

    Raises:
        ConfigError: they are no experiment.
        RunError: they cannot be run.
    """
    jobs = busiest_day(jobs) if day == PREVIEW else jobs
    stopped_gb_h = stopped_gres_h = 0.0
    lacked_ns = dict[str, int]()
    if keys:
        rows = _run(cluster, jobs, keys)
    else:
        player = jobs_player(cluster, jobs, costs)
        lacked_ns = _lacked_ns(player, {job.name for job in jobs if is_urgent(job, cluster)})
        executions = player.executions
        for job in jobs:
            spans = (span for each in executions[job.name] for span in each.stopped)
            node_h = job.nodes * sum(until_ns - since_ns for since_ns, until_ns in spans) / HOUR_NS
            stopped_gb_h += node_h * job.memory_mb / 1024
            stopped_gres_h += node_h * sum(many for name, many in job.gres.items() if ":" not in name)
        rows = [job_row(job.since_ns, executions[job.name]) for job in jobs]
    urgent_here = urgent_names(cluster)
    urgent, others = [], []
    for job, row in zip(jobs, rows, strict=True):
        (urgent if _decides(job, cluster) in urgent_here else others).append(row)
    lost_s, completions_s = total(rows, "lost_work_s"), known(others, "completion_s")
    return {
        "urgent_wait_s": mean(waits_s(urgent)),
        "urgent_longest_wait_s": max(waits_s(urgent), default=None),
        "other_completion_s": mean(completions_s),
        "others_unfinished": len(others) - len(completions_s),
        "preempted": evictions(rows),
        "lost_node_h": lost_s / 3600,
        "stopped_gb_h": stopped_gb_h,
        "stopped_gres_h": stopped_gres_h,
        "lacked_jobs": len(lacked_ns),
        "lacked_s": fmean(lacked_ns.values()) / SECOND_NS if lacked_ns else 0.0,
        "urgent_jobs": len(urgent),
        "lost_share": lost_s * 1e9 / sum(job.length_ns * job.nodes for job in jobs),
    }


def _lacked_ns(player: Player, urgent: Collection[str]) -> dict[str, int]:
    """Play to the end: how long each urgent job waited for memory or GRES alone, if it did, from pass to pass."""
    found, since_ns = dict[str, int](), dict[str, int]()
    for cycle in player.play():
        for decision in cycle.decisions:
            if isinstance(decision, Decision) and decision.job in urgent:
                if decision.job in since_ns:
                    waited_ns = player.now_ns - since_ns.pop(decision.job)
                    found[decision.job] = found.get(decision.job, 0) + waited_ns
                if decision.why.startswith(FOR_WHAT_IS_KEPT):
                    since_ns[decision.job] = player.now_ns
    return found


def _run(cluster: slurm.Cluster, jobs: Sequence[Job], keys: Sequence[str]) -> list[dict[str, Any]]:
    """The jobs of a run as rows; like those of a play, where all tasks of a job are evicted together."""
    with tempfile.TemporaryDirectory(prefix="natjam-advise-") as folder:
        path = Path(folder) / "site.yaml"
        write_saved(path, Slurm(cluster, tuple(jobs)), ())
        run = resolve(load_experiment(path, [*keys, "engine=sim"]))
    found = []
    for job, ended in zip(jobs, simulated_history(run).jobs, strict=True):
        row = job_in_seconds(ended)
        row |= {"suspensions": 0, "kills": (ended.suspensions + ended.kills) // job.nodes}
        row |= {"lost_work_s": (ended.lost_work_ns + ended.overhead_ns) / 1e9}
        found.append(row if ended.state is JobState.SUCCEEDED else {**row, "completion_s": None})
    return found


def _slurm_words(has_held: bool, found: Sequence[CandidateResult]) -> Iterator[str]:
    by_mode = {each.candidate.mechanism: each for each in reversed(found)}  # the first of each mode
    wait = by_mode[WAIT]
    yield f"Without preemption urgent jobs wait {wait.text('urgent_wait_s')} s on average."
    suspended = by_mode.get(Mode.SUSPEND.value)
    if not has_held:
        yield "Jobs that are suspended keep their memory and GPUs: these files say of no job how much."
    elif suspended is not None:
        waited = (
            f"{suspended.text('lacked_jobs')} of {suspended.text('urgent_jobs')} urgent jobs waited for memory or GRES"
        )
        for_how_long = f", each {suspended.text('lacked_s')} s on average" if suspended.number("lacked_jobs") else ""
        yield (
            f"Jobs that are suspended keep {suspended.text('stopped_gb_h')} GB-hours of memory and"
            f" {suspended.text('stopped_gres_h')} hours of GPUs or other GRES; {waited}{for_how_long}."
        )
    for mode, each in sorted(by_mode.items(), key=lambda item: item[1].number("lost_node_h")):
        if each is not wait:
            yield (
                f"{mode}: they wait {each.text('urgent_wait_s')} s; {each.text('lost_node_h', ',.2f')} node-hours"
                f" ({each.text('lost_share', '.1%')} of all work) are lost; other jobs take"
                f" {each.text('other_completion_s')} s (without preemption {wait.text('other_completion_s')} s)."
            )


def ways_figure(found: Sequence[CandidateResult]) -> Figure:
    """Node-hours lost against the mean wait of urgent jobs: a line for each mode and what is swept, else a point."""
    figure, (panel,) = style.new_figure(width=6.4, height=4.2)
    labels: dict[tuple[int, int], list[str]] = {}
    widest_s, highest = (max(each.number(key) for each in found) or 1 for key in ("urgent_wait_s", "lost_node_h"))
    lines = _lines(found)
    swept = [label for label, points in lines.items() if len(points) > 1]
    for label, points in lines.items():
        shown = [
            (wait_s, each.number("lost_node_h"), name or label)
            for each, name in points
            if (wait_s := each.value("urgent_wait_s")) is not None
        ]
        look: dict[str, Any] = {"color": style.GREY}
        if label in swept:
            look = {"label": label, **style.line(swept.index(label))}
        panel.plot([x for x, _, _ in shown], [y for _, y, _ in shown], marker="o", **look)
        for x, y, name in shown:
            labels.setdefault((round(_PLACES * x / widest_s), round(_PLACES * y / highest)), []).append(name)
    for (x, y), same in labels.items():
        at = x * widest_s / _PLACES, y * highest / _PLACES
        text = ", ".join(dict.fromkeys(same))
        panel.annotate(text, at, xytext=(3, 3), textcoords="offset points", fontsize=style.FONT_POINTS - 3)
    panel.margins(0.1)
    style.finish(panel, "mean wait of urgent jobs, s", "node-hours lost", "better: to the left and down", legend=False)
    style.legend_below(figure)
    return figure


def _lines(found: Sequence[CandidateResult]) -> dict[str, list[tuple[CandidateResult, str]]]:
    lines: dict[str, list[tuple[CandidateResult, str]]] = {}
    for each in found:
        mode, exempt, grace, saves = each.candidate.settings.values()
        if mode in _IN_MACHINES or mode == WAIT:
            lines.setdefault(mode, []).append((each, ""))
        elif saves != "-":
            lines.setdefault(_REQUEUE_SAVED, []).append((each, saves))
        else:
            swept = "" if mode == Mode.SUSPEND else ", GraceTime" if grace != "0" else ", PreemptExemptTime"
            name = grace if grace != "0" else exempt if swept else ""
            lines.setdefault(f"{mode}{swept}", []).append((each, name))
    return lines


# ---- Kueue ----

_MINIMUM_NS = {"0": 0, "1 min": MINUTE_NS, "5 min": 5 * MINUTE_NS, "15 min": 15 * MINUTE_NS, "1 h": HOUR_NS}
"""The minimum runtimes that are swept."""
DAYS = 20
RELEASE_NS = 5 * 10**9
"""From an eviction until the quota is free: as in most of the days that Kueue was recorded with."""


def kueue_question(file: Path, site: Kueue) -> SiteQuestion:
    """What is asked about a cluster with Kueue.  Raises ConfigError: all workloads have one priority."""
    cluster, arrivals = site.cluster, site.arrivals
    if len({arrival.workload.priority for arrival in arrivals}) < 2:
        raise ConfigError(
            f"{file}: kueue.arrivals: all workloads have one priority, so none is urgent; give natjam import kueue"
            " Workloads, or a table with --arrivals, of several priorities"
        )
    never = replace(cluster, queues=tuple(replace(queue, preemption=kueue.Preemption()) for queue in cluster.queues))
    ways = [(Candidate({"minimum_runtime": "no preemption"}), partial(_kueue_day, replace(site, cluster=never), 0))]
    ways += [
        (Candidate({"minimum_runtime": name}), partial(_kueue_day, site, minimum_ns))
        for name, minimum_ns in _MINIMUM_NS.items()
    ]
    heads = {
        "urgent_wait_s": "urgent\nwait s",
        "other_completion_s": "others'\ncompletion s",
        "evictions": "evictions\na day",
        "lost_pod_h": "lost pod-h\na day",
        LOOPS: "days\nin a circle",
    }
    columns = [column("minimum runtime", Kind.NAME, ALWAYS, "minimum_runtime")]
    columns += [column(head, Kind.NUMBER, 2, key, ",") for key, head in heads.items()]
    return SiteQuestion(
        ways,
        DAYS,
        {"release_s": RELEASE_NS / 1e9},
        (),
        "what each means for {days} days like this one (mean, 95% interval)",
        columns,
        _kueue_words,
        "evictions",
        site.basis,
        {ways[0][0].name, ways[1][0].name, ways[-1][0].name},
        drawn=tuple(heads)[:-1],
    )


def drawn(arrivals: Sequence[Arrival], number: int) -> list[Arrival]:
    """A day like the recorded one; the first is that one."""
    if not number:
        return list(arrivals)
    random, found = Random(f"kueue-day/{number}"), []
    for arrival in arrivals:
        like, at = random.choice(arrivals), arrival.workload
        found.append(replace(like, workload=replace(like.workload, name=at.name, created_ns=at.created_ns)))
    return found


def _kueue_day(site: Kueue, minimum_ns: int, number: int) -> Measures | None:
    arrivals = drawn(site.arrivals, number)
    player, detector = (
        workloads_player(site.cluster, arrivals, RELEASE_NS, minimum_ns, site.nodes),
        RunningSetDetector(),
    )
    try:
        if any(detector.look(player, cycle) for cycle in player.play()):
            return None
    except SchedulerError:  # another measure of the same
        return None
    most = max(each.workload.priority for each in arrivals)
    urgent, others = [], []
    for workload in (each.workload for each in arrivals):
        row = job_row(workload.created_ns, player.executions[workload.name])
        (urgent if workload.priority == most else others).append(row)
    return {
        "urgent_wait_s": mean(waits_s(urgent)),
        "other_completion_s": mean(known(others, "completion_s")),
        "evictions": evictions([*urgent, *others]),
        "lost_pod_h": total([*urgent, *others], "lost_work_s") / 3600,
    }


def _kueue_words(found: Sequence[CandidateResult]) -> Iterator[str]:
    wait, *swept = found
    ends = wait.measures["other_completion_s"] is not None
    others = f"the others take {wait.text('other_completion_s')} s" if ends else "no other ends"
    yield f"Without preemption {_urgent(wait)}, and {others}."
    has_lost = swept[0].measures["lost_pod_h"] is not None
    again = f", and {swept[0].text('lost_pod_h')} pod-hours a day are done again" if has_lost else ""
    yield f"With it {_urgent(swept[0])}{again}."
    if loops := [each.candidate.mechanism for each in found if each.value(LOOPS)]:
        yield f"Some days went round in a circle ({', '.join(loops)}): natjam loops tells why."


def _urgent(found: CandidateResult) -> str:
    starts = found.measures["urgent_wait_s"] is not None
    return f"urgent workloads wait {found.text('urgent_wait_s')} s" if starts else "no urgent workload starts"
