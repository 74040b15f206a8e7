"""Advice for a Slurm site: its jobs played under each way to preempt, with the times that a site can set.

Urgent are the partitions of the highest PriorityTier; where QOS decide, those that may preempt others and that nobody
may preempt.  All others get one PreemptMode, one GraceTime and one PreemptExemptTime at a time.  Checkpoints and
images in place of REQUEUE are run through the whole machines, simulated, as they have costs of their own.  Nothing is
drawn, so there is one answer for each way, without an interval.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from msgspec.structs import replace

from analysis.figures import style
from emulator.core.messages import JobState
from emulator.display.tables import FittedTable, names, new_table, numbers, or_dash
from emulator.experiment.load import load_experiment
from emulator.policies.schedulers.play import Costs, Outcome
from emulator.policies.slurm.scheduler import jobs_player
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.slurm import MINUTE_NS, Cluster, Job, Mode, Slurm
from emulator.vocabulary import HOUR_NS, Frozen
from workloads.saved import write_saved

_NO_TIME = 0
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
"""Of names along an axis of the picture: points that are nearer to each other share one."""
WAIT = "OFF"
_REQUEUE_SAVED = "REQUEUE, saved"


class SiteCandidate(Frozen):
    """One way to preempt."""

    mode: str
    cluster: Cluster
    costs: Costs = Costs()
    exempt: str = "0"
    grace: str = "0"
    saves: str = "-"
    keys: tuple[str, ...] = ()
    """Of the experiment that is run in place of a play, if there are any."""


class SiteResult(Frozen):
    """What a way means for the site's jobs.  None: no such job started, or ended."""

    mode: str
    exempt: str
    """PreemptExemptTime."""
    grace: str
    """GraceTime."""
    saves: str
    """How often programs save."""
    urgent_wait_s: float | None
    """Mean, until the first start."""
    urgent_longest_wait_s: float | None
    other_completion_s: float | None
    """Mean from submission to the end, of those that ran to their end."""
    others_unfinished: int
    """Other jobs that were cancelled for urgent ones, or never ended."""
    preempted: int
    """How often jobs were ended or stopped for others."""
    lost_node_h: float
    """Node-hours of work that was ended, and is done again or never; with images also those spent on them."""
    lost_share: float
    """The same as a share of the node-hours of all jobs."""


def urgent_names(cluster: Cluster) -> frozenset[str]:
    """The partitions, or QOS, whose jobs are urgent."""
    if cluster.qos:
        victims = {name for each in cluster.qos for name in each.preempts}
        return frozenset(each.name for each in cluster.qos if each.preempts and each.name not in victims)
    highest = max(each.tier for each in cluster.partitions)
    return frozenset(each.name for each in cluster.partitions if each.tier == highest)


def is_urgent(job: Job, cluster: Cluster) -> bool:
    """Whether a job is of an urgent partition, or QOS."""
    return _decides(job, cluster) in urgent_names(cluster)


def _decides(job: Job, cluster: Cluster) -> str:
    """The QOS or the partition by which a job is urgent or not."""
    return job.qos if cluster.qos else job.partition


def site_candidates(cluster: Cluster) -> Iterator[SiteCandidate]:
    """Waiting, each PreemptMode with the times swept, REQUEUE of programs that save what they have done, and
    checkpoints and images in its place."""
    yield SiteCandidate(WAIT, _with_mode(cluster, Mode.OFF, _NO_TIME, _NO_TIME))
    # neither time is honoured for jobs that are stopped, not ended (slurm.conf(5), PreemptExemptTime and GraceTime)
    yield SiteCandidate(Mode.SUSPEND.value, _with_mode(cluster, Mode.SUSPEND, _NO_TIME, _NO_TIME))
    for mode in (Mode.REQUEUE, Mode.CANCEL):
        for exempt, exempt_ns in _SWEPT_NS.items():
            yield SiteCandidate(mode.value, _with_mode(cluster, mode, exempt_ns, _NO_TIME), exempt=exempt)
        for grace, grace_ns in _SWEPT_NS.items():
            if grace_ns:
                yield SiteCandidate(mode.value, _with_mode(cluster, mode, _NO_TIME, grace_ns), grace=grace)
    requeued = _with_mode(cluster, Mode.REQUEUE, _NO_TIME, _NO_TIME)
    for saves, period_ns in _SAVES_NS.items():
        yield SiteCandidate(_REQUEUE_SAVED, requeued, Costs(save_period_ns=period_ns), saves=saves)
    for mechanism, keys in _IN_MACHINES.items():
        yield SiteCandidate(mechanism, requeued, saves="when told", keys=keys)


def result_of(candidate: SiteCandidate, jobs: Sequence[Job]) -> SiteResult:
    """Play the jobs in its way, or run them.  Raises ConfigError: they are no experiment; RunError."""
    names, cluster = urgent_names(candidate.cluster), candidate.cluster
    urgent, others = Outcome(), Outcome()
    sides = {job.name: urgent if _decides(job, cluster) in names else others for job in jobs}
    (_run if candidate.keys else _play)(candidate, jobs, sides)
    lost_h = urgent.lost_h + others.lost_h
    return SiteResult(
        candidate.mode,
        candidate.exempt,
        candidate.grace,
        candidate.saves,
        urgent.wait_s,
        urgent.longest_wait_s,
        others.completion_s,
        others.jobs - len(others.completions_ns),
        urgent.preempted + others.preempted,
        lost_h,
        lost_h * HOUR_NS / sum(job.length_ns * job.nodes for job in jobs),
    )


def _play(candidate: SiteCandidate, jobs: Sequence[Job], sides: Mapping[str, Outcome]) -> None:
    executions = jobs_player(candidate.cluster, jobs, candidate.costs).finish()
    for job in jobs:
        sides[job.name].add(job.submit_ns, executions[job.name])


def _run(candidate: SiteCandidate, jobs: Sequence[Job], sides: Mapping[str, Outcome]) -> None:
    with tempfile.TemporaryDirectory(prefix="natjam-advise-") as folder:
        path = Path(folder) / "site.yaml"
        write_saved(path, Slurm(candidate.cluster, tuple(jobs)), ())
        run = resolve(load_experiment(path, [*candidate.keys, "engine=sim"]))
    for job, row in zip(jobs, simulated_history(run).jobs, strict=True):
        side = sides[job.name]
        side.jobs += 1
        side.waits_ns += [] if row.start_ns is None else [row.start_ns - row.submit_ns]
        if row.state is JobState.SUCCEEDED and row.completion_ns is not None:
            side.completions_ns.append(row.completion_ns)
        side.preempted += (row.suspensions + row.kills) // job.nodes
        side.lost_ns += row.lost_work_ns + row.overhead_ns


def results_table(found: Sequence[SiteResult]) -> FittedTable:
    """One row for each way."""
    columns = [*names("PreemptMode"), *names("saves", importance=3), *numbers("exempt", "grace", importance=4)]
    columns += numbers("urgent\nwait s", importance=4) + numbers("longest\nwait s", importance=2)
    columns += numbers("others'\ncompletion s", "lost\nnode-h", importance=4)
    columns += numbers("lost %", "unfinished", "preempted", importance=1)
    table = new_table("what each way means for the site's jobs", columns, also_in="advise.json")
    last = found[0].mode
    for each in found:
        if each.mode != last:
            table.add_section()
        last = each.mode
        times = (each.urgent_wait_s, each.urgent_longest_wait_s, each.other_completion_s)
        cells = (each.mode, each.saves, each.exempt, each.grace, *map(_seconds, times), f"{each.lost_node_h:,.2f}")
        table.add_row(*cells, f"{each.lost_share:.1%}", f"{each.others_unfinished:,}", f"{each.preempted:,}")
    return table


def results_figure(found: Sequence[SiteResult]) -> Figure:
    """Node-hours lost against the mean wait of urgent jobs: a line for each mode and what is swept, else a point."""
    figure, (panel,) = style.new_figure(width=6.4, height=4.2)
    names: dict[tuple[int, int], list[str]] = {}
    widest_s = max(each.urgent_wait_s or 0 for each in found) or 1
    highest = max(each.lost_node_h for each in found) or 1
    lines = _lines(found)
    swept = [label for label, points in lines.items() if len(points) > 1]
    for label, points in lines.items():
        shown = [
            (each.urgent_wait_s, each.lost_node_h, name or label)
            for each, name in points
            if each.urgent_wait_s is not None
        ]
        look: dict[str, Any] = {"color": style.GREY}
        if label in swept:
            look = {"label": label, **style.line(swept.index(label))}
        panel.plot([x for x, _, _ in shown], [y for _, y, _ in shown], marker="o", **look)
        for x, y, name in shown:
            names.setdefault((round(_PLACES * x / widest_s), round(_PLACES * y / highest)), []).append(name)
    for (x, y), same in names.items():
        at = x * widest_s / _PLACES, y * highest / _PLACES
        text = ", ".join(dict.fromkeys(same))
        panel.annotate(text, at, xytext=(3, 3), textcoords="offset points", fontsize=style.FONT_POINTS - 3)
    panel.margins(0.1)
    style.finish(panel, "mean wait of urgent jobs, s", "node-hours lost", "better: to the left and down", legend=False)
    style.legend_below(figure)
    return figure


def _lines(found: Sequence[SiteResult]) -> dict[str, list[tuple[SiteResult, str]]]:
    lines: dict[str, list[tuple[SiteResult, str]]] = {}
    for each in found:
        graced = each.grace != "0"
        if each.mode in _IN_MACHINES:
            lines[each.mode] = [(each, "")]
        elif each.saves != "-":
            lines.setdefault(_REQUEUE_SAVED, []).append((each, each.saves))
        elif each.mode == WAIT:
            lines.setdefault(WAIT, []).append((each, ""))
        else:
            swept = "" if each.mode == Mode.SUSPEND else ", GraceTime" if graced else ", PreemptExemptTime"
            label = f"{each.mode}{swept}"
            lines.setdefault(label, []).append((each, each.grace if graced else each.exempt if swept else ""))
    return lines


def _with_mode(cluster: Cluster, mode: Mode, exempt_ns: int, grace_ns: int) -> Cluster:
    urgent = urgent_names(cluster)
    gang = cluster.settings.gang or mode is Mode.SUSPEND
    settings = replace(cluster.settings, preempts=mode is not Mode.OFF, gang=gang, exempt_ns=exempt_ns)
    if cluster.qos:
        terms: dict[str, object] = {"mode": mode, "grace_ns": grace_ns, "exempt_ns": exempt_ns}
        qos = tuple(each if each.name in urgent else replace(each, **terms) for each in cluster.qos)
        return replace(cluster, qos=qos, settings=settings)
    partitions = tuple(
        each if each.name in urgent else replace(each, mode=mode, grace_ns=grace_ns) for each in cluster.partitions
    )
    return replace(cluster, partitions=partitions, settings=settings)


def _seconds(value: float | None) -> str:
    return or_dash(value, ",.0f")


def words(found: Sequence[SiteResult]) -> Iterator[str]:
    """What the figures say, in sentences."""
    by_mode: Mapping[str, SiteResult] = {each.mode: each for each in reversed(found)}  # the first of each mode
    wait = by_mode[WAIT]
    yield f"Without preemption urgent jobs wait {_seconds(wait.urgent_wait_s)} s on average."
    yield "Jobs that are suspended keep their memory: whether nodes have room for it is not checked."
    for mode, each in sorted(by_mode.items(), key=lambda item: item[1].lost_node_h):
        if each is not wait:
            yield (
                f"{mode}: they wait {_seconds(each.urgent_wait_s)} s; {each.lost_node_h:,.2f} node-hours"
                f" ({each.lost_share:.1%} of all work) are lost; other jobs take {_seconds(each.other_completion_s)} s"
                f" (without preemption {_seconds(wait.other_completion_s)} s)."
            )
