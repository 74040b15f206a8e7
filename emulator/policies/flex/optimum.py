"""The best order of all: branch and bound over the orders for the packing scheme.

Theory of operation.  The end of a job depends only on the jobs before it in the order: the jobs after it hold their
minima until all jobs before them have their maxima.  So an order is built from the front.  The remaining jobs see only
one function of time: the slack, that is the slots above their minima.  Of two orders of the same jobs with the same
slack, only the cheaper one is kept (times within a microsecond count as equal).

A bound removes further orders.  Each remaining job ends no earlier than if it were next.  And the n-th of them to end
ends no earlier than the time at which all slots of the remaining jobs together could do the n smallest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from emulator.policies.flex.demand import NEVER_NS, Demand, completions
from emulator.policies.flex.penalties import Objective, Penalty
from emulator.vocabulary import Frozen

_EQUAL_BITS = 10
"""Two instants that differ only in this many low bits of their nanoseconds count as equal."""

Slack = tuple[tuple[int, int], ...]
"""Slots above the minima of the remaining jobs, from each instant on."""


class _State(Frozen):
    """The front part of an order."""

    cost: int
    order: tuple[int, ...]
    slack: Slack


class _Branches(Frozen):
    """A state, with each remaining job as its possible next job."""

    bound: int
    """Lower bound on the cost of every order with this front."""
    state: _State
    ends: tuple[tuple[int, int], ...]
    """Each remaining job, and its end if it is next."""


def best_order(
    jobs: Sequence[Demand],
    objective: Objective,
    slots: int,
    order: Sequence[int],
    width: int | None = None,
    below: int | None = None,
) -> tuple[int, ...]:
    """The order whose packing costs least; ``order`` if none is cheaper.

    Args:
        jobs: with ``normalised`` minima.
        objective: gives the cost of a packing.
        slots: number of slots.
        order: a good order, whose cost limits the search.
        width: how many fronts of each length are kept, those with the lowest bounds.  None: all that may lead to the
            optimum; this takes some 0.1 s for ten jobs.
        below: look only for packings that cost less than this.  None: less than ``order`` does.
    """
    limit = objective.cost(completions(jobs, order, slots)) if below is None else below
    states = [_State(0, (), _slack_of_minima(jobs, slots))]
    if not objective.total:
        states = [_State(-(1 << 200), (), states[0].slack)]
    for _ in jobs:
        branches = [of_state for state in states if (of_state := _branches(jobs, objective, state, limit)) is not None]
        if width is not None:
            branches = sorted(branches, key=lambda of_state: of_state.bound)[:width]
        states = _distinct(_next_states(jobs, objective, branches, limit))
    best = min(states, key=lambda state: state.cost, default=None)
    return tuple(order) if best is None else best.order


def _branches(jobs: Sequence[Demand], objective: Objective, state: _State, limit: int) -> _Branches | None:
    """None: no order with this front costs less than ``limit``."""
    rest = [index for index in range(len(jobs)) if index not in state.order]
    ends = [_end_as_next(state.slack, jobs[index]) for index in rest]
    penalties = [objective.penalties[index] for index in rest]
    alone = [of_job.at(end) for of_job, end in zip(penalties, ends, strict=True)]
    bound = state.cost + sum(alone) if objective.total else max(state.cost, *alone)
    if bound < limit:  # the rest of the bound takes longer, and only adds
        no_earlier = [max(pair) for pair in zip(sorted(ends), _ends_together(state.slack, jobs, rest), strict=True)]
        if objective.total:
            bound = state.cost + _least_sum(objective, penalties, ends, alone, no_earlier)
        else:
            bound = max(bound, min(of_job.at(no_earlier[-1]) for of_job in penalties))
    return _Branches(bound, state, tuple(zip(rest, ends, strict=True))) if bound < limit else None


def _least_sum(
    objective: Objective,
    penalties: Sequence[Penalty],
    ends: Sequence[int],
    alone: Sequence[int],
    no_earlier: Sequence[int],
) -> int:
    """What the remaining jobs pay at least, each ``alone`` what it pays at its end if it is next."""
    # Whichever job ends n-th pays at least the smallest amount that the n-th end adds to any job.
    added = 0
    for end in reversed(no_earlier):
        least = min(of_job.at(max(end, own)) - cost for of_job, own, cost in zip(penalties, ends, alone, strict=True))
        if not least:
            break  # an earlier end adds no more
        added += least
    bound = sum(alone) + added
    if objective.linear:  # lower bound: the heaviest jobs get the earliest ends
        heaviest = sorted((of_job.weight for of_job in penalties), reverse=True)
        constant = sum(of_job.weight * of_job.due_ns for of_job in penalties)
        bound = max(bound, sum(map(int.__mul__, heaviest, no_earlier)) - constant)
    return bound


def _next_states(
    jobs: Sequence[Demand], objective: Objective, branches: Iterable[_Branches], limit: int
) -> Iterable[_State]:
    for of_state in branches:
        state = of_state.state
        for index, end in of_state.ends:
            own = objective.penalties[index].at(end)
            cost = state.cost + own if objective.total else max(state.cost, own)
            # A sum can fall again if early ends are rewarded; then only the bound decides.
            if cost < limit or (objective.total and objective.rewards):
                yield _State(cost, (*state.order, index), _slack_after(state.slack, jobs[index], end))


def _distinct(states: Iterable[_State]) -> list[_State]:
    cheapest: dict[tuple[frozenset[int], Slack], _State] = {}
    for state in states:
        key = frozenset(state.order), tuple((start >> _EQUAL_BITS, slots) for start, slots in state.slack)
        known = cheapest.get(key)
        if known is None or state.cost < known.cost:
            cheapest[key] = state
    return list(cheapest.values())


def _slack_of_minima(jobs: Sequence[Demand], slots: int) -> Slack:
    """The slack while every job holds exactly its minimum."""
    ends = [_own_end(job) for job in jobs]
    starts = sorted({0, *(end for end in ends if end != NEVER_NS)})
    held = [sum(job.minimum for job, end in zip(jobs, ends, strict=True) if end > start) for start in starts]
    return _joined((start, slots - minima) for start, minima in zip(starts, held, strict=True))


def _own_end(job: Demand) -> int:
    """When a job ends that always holds its minimum."""
    return -(-job.work_ns // job.minimum) if job.minimum else NEVER_NS


def _end_as_next(slack: Slack, job: Demand) -> int:
    """When ``job`` ends if it is the next of the order."""
    left, minimum, maximum = job.work_ns, job.minimum, job.maximum
    if left <= 0:
        return 0
    begin, share = 0, 0
    for start, slots in slack:
        done = share * (start - begin)
        if done >= left:
            break
        left -= done
        begin, share = start, minimum + slots if minimum + slots < maximum else maximum
    return begin - (-left // share) if share else NEVER_NS


def _slack_after(slack: Slack, job: Demand, end: int) -> Slack:
    """Slack of the jobs after ``job``; from its ``end`` on they also get its minimum, if its minimum lasted longer."""
    most, own_end = job.maximum - job.minimum, _own_end(job)
    place = bisect_left(slack, (end,))  # of the first step that begins at its end or later
    before, after = slack[:place], slack[place:]
    if not after or after[0][0] > end:
        after = ((end, before[-1][1]), *after)
    if job.minimum:
        after = [(start, slots + job.minimum if start < own_end else slots) for start, slots in after]
    return _joined([*((start, slots - most if slots > most else 0) for start, slots in before), *after])


def _joined(steps: Iterable[tuple[int, int]]) -> Slack:
    joined: list[tuple[int, int]] = []
    last = None
    for step in steps:
        if step[1] != last:
            joined.append(step)
            last = step[1]
    return tuple(joined)


def _ends_together(slack: Slack, jobs: Sequence[Demand], rest: Sequence[int]) -> list[int]:
    """The earliest ends of the first 1, 2, ... remaining jobs if any slot could work on any of them."""
    minima = sum(jobs[index].minimum for index in rest)
    ends = []
    position, done, needed = 0, 0, 0
    for work in sorted(jobs[index].work_ns for index in rest):
        needed += work
        while position + 1 < len(slack):
            (start, slots), (until, _) = slack[position], slack[position + 1]
            if done + (slots + minima) * (until - start) >= needed:
                break
            done += (slots + minima) * (until - start)
            position += 1
        start, slots = slack[position]
        if needed == done:
            ends.append(start)  # even if there are no slots
        else:
            ends.append(start + (needed - done) // (slots + minima) if slots + minima else NEVER_NS)
    return ends
