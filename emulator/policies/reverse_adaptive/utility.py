"""How satisfied a job is with its containers, and the shares that satisfy the least satisfied jobs most
(reverse-adaptive, sections IV-C and IV-D, equations 2 to 4).

Shares are computed in whole numbers: logarithms in units of 2^-32, utilities in units of 1/``ONE``.  So no rounding
decides an order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

ONE = 1 << 16
"""Utility 1."""
LEAST = -ONE
"""Utility of one container to a job that needs more; without a container the utility is minus infinity."""
_LOG_BITS = 32

Counts = NDArray[numpy.int64]
"""One number per job."""


class Needs(NamedTuple):
    """What jobs need, in containers; arrays in the order of the jobs.  Among equals the first job is served first."""

    fit: Counts
    """Least containers in the next cycle: s_fit, at least 0."""
    required: Counts
    """Containers needed on average until the deadline: s_req."""
    pending: Counts
    """Most containers it can use: s_pend, at least as large as the other two."""

    @staticmethod
    def of(fit: Sequence[int], required: Sequence[int], pending: Sequence[int]) -> Needs:
        """From lists; values above ``pending`` are lowered to it."""
        most = numpy.array(pending, dtype=numpy.int64)
        return Needs(numpy.minimum(fit, most), numpy.minimum(required, most), most)


def max_min_shares(needs: Needs, containers: int) -> list[int]:
    """Whole containers for each job so that the lowest utility is as high as possible, then the next, and so on."""
    if int(needs.pending.sum()) <= containers:
        return needs.pending.tolist()
    wanting = numpy.minimum(needs.fit, 1)
    if int(wanting.sum()) >= containers:  # no job can have a second one
        return _first(wanting, containers).tolist()
    fit, least = int(needs.fit.sum()), int(wanting.sum())
    enough = fit <= containers
    shares_at = _satisfied(needs) if enough else _starved(needs)
    low, high, below, above = (0, ONE, fit, int(needs.pending.sum())) if enough else (LEAST, 0, least, fit)
    halve = False
    while high - low > 1:
        # Guess where the containers run out; every second time halve, so that a poor guess costs little.
        guess = (low + high) // 2 if halve else low + (high - low) * (containers - below) // (above - below)
        middle, halve = min(max(guess, low + 1), high - 1), not halve
        shares = shares_at(middle)
        given = int(shares.sum())
        if given == containers:
            return shares.tolist()
        if given < containers:
            low, below = middle, given
        else:
            high, above = middle, given
    shares = shares_at(low)
    return (shares + _first(shares_at(high) - shares, containers - int(shares.sum()))).tolist()


def at_utility(needs: Needs, utility: int) -> Counts:
    """Most containers that give each job at most ``utility``, from ``LEAST`` to ``ONE``: the inverse of equation 2."""
    return (_starved(needs) if utility <= 0 else _satisfied(needs))(utility)


def _starved(needs: Needs) -> Callable[[int], Counts]:
    """``at_utility`` for utilities up to 0: jobs have fewer containers than they need in the next cycle."""
    wanting = numpy.flatnonzero(needs.fit)
    fit = needs.fit[wanting]
    logs = _logarithms(int(fit.max(initial=1)).bit_length())
    enough = logs[fit - 1]

    def shares_at(utility: int) -> Counts:
        shares = numpy.zeros_like(needs.fit)
        below = numpy.searchsorted(logs, enough * (utility - LEAST) // ONE, side="right")
        shares[wanting] = numpy.minimum(below, fit)
        return shares

    return shares_at


def _satisfied(needs: Needs) -> Callable[[int], Counts]:
    """``at_utility`` for utilities from 0 on: jobs have what they need in the next cycle, and may have more."""
    fit, required, pending = needs
    more, sooner, later = pending - fit, 2 * (required - fit), pending - required
    is_patient = required > fit

    def shares_at(utility: int) -> Counts:
        eager = fit + more * utility // ONE
        begin, way = (fit, sooner * utility) if 2 * utility <= ONE else (required, later * (2 * utility - ONE))
        return numpy.minimum(numpy.where(is_patient, begin + way // ONE, eager), pending)

    return shares_at


def map_utility(alloc: int, fit: int, required: int, pending: int) -> float:
    """Equation 2, capped at 1; minus infinity for a job that needs a container and has none."""
    if alloc < fit:
        logs = _logarithms(fit.bit_length())
        return float(logs[alloc - 1] / logs[fit - 1]) - 1 if alloc else -float("inf")
    if alloc >= pending:
        return 1.0
    if required <= fit:
        return (alloc - fit) / (pending - fit)
    if alloc < required:
        return (alloc - fit) / (2 * (required - fit))
    return (alloc - required) / (2 * (pending - required)) + 0.5


def reduce_utility(alloc: int, pending: int) -> float:
    """Equation 3: 0 if all reduces have a container; minus infinity if none has."""
    if alloc >= pending:
        return 0.0
    logs = _logarithms(pending.bit_length())
    return float(logs[alloc - 1] / logs[pending - 1]) - 1 if alloc else -float("inf")


def _first(more: Counts, containers: int) -> Counts:
    """As much of ``more`` as ``containers`` allows, the first jobs first."""
    before = numpy.cumsum(more) - more
    return numpy.clip(containers - before, 0, more)


@cache
def _logarithms(bits: int) -> Counts:
    """The logarithms of the numbers 1 to 2^bits."""
    numbers = numpy.arange(1, (1 << bits) + 1, dtype=numpy.float64)
    return numpy.rint(numpy.log2(numbers) * (1 << _LOG_BITS)).astype(numpy.int64)
