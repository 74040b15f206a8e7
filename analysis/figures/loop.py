"""Workloads that preempt each other for ever, as ``natjam loops`` finds them: who is admitted when, for some rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from analysis.figures import style
from emulator.loops.play import Loop
from emulator.loops.search import Log
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.sites.kueue import Workload
from emulator.vocabulary import SECOND_NS

_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY)
ROUNDS = 4


def loop_figure(workloads: Sequence[Workload], loop: Loop, log: Log) -> Figure:
    """A row for each workload: bars where it is admitted, of one colour for each queue, and whom it preempts."""
    rows = {each.name: place for place, each in enumerate(workloads)}
    queues = list(dict.fromkeys(each.queue for each in workloads))
    figure, (panel,) = style.new_figure(width=6.4, height=1.4 + 0.5 * len(rows))
    seen: set[str] = set()
    decided = list(_rounds(loop, log))
    end_ns = loop.at_ns + ROUNDS * loop.period_ns
    for workload, start_ns, until_ns in spans(decided, end_ns):
        place = queues.index(workload.queue) % len(_COLOURS)
        label = None if workload.queue in seen else f"queue {workload.queue}"
        seen.add(workload.queue)
        width_s = (until_ns - start_ns) / SECOND_NS
        panel.barh(
            rows[workload.name],
            width_s,
            left=start_ns / SECOND_NS,
            height=0.6,
            color=_COLOURS[place],
            hatch=style.HATCHES[place],
            edgecolor="white",
            label=label,
        )
    for at_ns, decision in decided:
        for name in decision.evicted:
            at_s, preemptor = at_ns / SECOND_NS, rows[decision.workload.name]
            arrow = {"arrowstyle": "->", "color": style.BLACK}
            panel.annotate("", xy=(at_s, rows[name]), xytext=(at_s, preemptor), arrowprops=arrow)
    panel.set_yticks(list(rows.values()), [f"{each.name}, priority {each.priority}" for each in workloads])
    panel.invert_yaxis()
    style.finish(panel, "time, s (arrows: who preempts whom)", "", legend=False)
    style.legend_below(figure)
    return figure


def spans(decided: Sequence[tuple[int, Decision]], end_ns: int) -> Iterator[tuple[Workload, int, int]]:
    """Each time that a workload is admitted: from when until when; whoever still is, until ``end_ns``."""
    since: dict[str, tuple[Workload, int]] = {}
    for at_ns, decision in decided:
        for name in decision.evicted:
            workload, start_ns = since.pop(name)
            yield workload, start_ns, at_ns
        if decision.outcome is Outcome.ADMITTED:
            since[decision.workload.name] = decision.workload, at_ns
    for workload, start_ns in since.values():
        yield workload, start_ns, end_ns


def _rounds(loop: Loop, log: Log) -> Iterator[tuple[int, Decision]]:
    """All decisions, those of the loop again for some rounds."""
    for at_ns, _, decision in log:
        yield at_ns, decision
    first, last = loop.cycles
    again = [(at_ns, decision) for at_ns, cycle, decision in log if first < cycle <= last]
    for number in range(1, ROUNDS + 1):
        for at_ns, decision in again:
            yield at_ns + number * loop.period_ns, decision
