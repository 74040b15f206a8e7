"""A loop told step by step, each decision with its reason."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from emulator.loops.draw import SECOND_NS, Plan
from emulator.loops.search import Log
from emulator.policies.kueue.cycle import Outcome
from emulator.policies.kueue.returns import Loop
from emulator.policies.kueue.why import why
from emulator.policies.resources import amount_text


def cast(plan: Plan) -> Iterator[str]:
    """Who arrives when, and what each asks for."""
    for arrival in plan.arrivals:
        workload = arrival.workload
        (podset,) = workload.podsets
        asks = ", ".join(itertools.starmap(amount_text, podset.requests.items()))
        ends = "" if arrival.duration_ns is None else f", runs for {arrival.duration_ns / SECOND_NS:g} s"
        yield (
            f"{workload.created_ns / SECOND_NS:g} s: {workload.name} arrives in {workload.queue} "
            f"(priority {workload.priority}, {asks}{ends})"
        )


def story(loop: Loop, log: Log) -> Iterator[str]:
    """One round: who preempts and who starts, with reasons; then that it goes on."""
    first, last = loop.cycles
    begin_ns = min((now_ns for now_ns, cycle, _ in log if first < cycle <= last), default=loop.at_ns)
    for now_ns, cycle, decision in log:
        if not first < cycle <= last:
            continue
        head, *reasons = why(decision)
        if decision.outcome is Outcome.ADMITTED:
            yield f"+{(now_ns - begin_ns) / SECOND_NS:g} s: {head}"
        elif decision.evicted:
            yield f"+{(now_ns - begin_ns) / SECOND_NS:g} s: {head}"
            yield from (f"    {reason}" for reason in reasons)
    every = "at once" if loop.period_ns == 0 else f"every {loop.period_ns / SECOND_NS:g} s"
    yield f"then the same state is back, and the same happens again, {every}, until somebody arrives or ends"
