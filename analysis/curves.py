"""Counts over time as step functions: instants in seconds, and the count from each on."""

from __future__ import annotations

from typing import TypeAlias

import numpy
from numpy.typing import ArrayLike, NDArray

Curve: TypeAlias = tuple[NDArray[numpy.float64], NDArray[numpy.int64]]


def steps(starts_s: ArrayLike, ends_s: ArrayLike) -> Curve:
    """How many intervals are open.  Instants that are NaN never come."""
    starts, ends = known(starts_s), known(ends_s)
    times, place = numpy.unique(numpy.concatenate([starts, ends]), return_inverse=True)
    changes = numpy.bincount(place, numpy.repeat([1, -1], [len(starts), len(ends)]), minlength=len(times))
    return times, numpy.cumsum(changes).astype(numpy.int64)


def at_work(launched_s: ArrayLike, ended_s: ArrayLike, stops_s: ArrayLike) -> Curve:
    """Containers in which a process is at work.

    Args:
        launched_s, ended_s: of each attempt.
        stops_s: n x 3, for each time that a process was stopped when it was stopped, when it went on (NaN: it did not)
            and when its attempt ended.
    """
    launched, ended = (numpy.asarray(values, dtype=float) for values in (launched_s, ended_s))
    stopped, resumed, over = numpy.asarray(stops_s, dtype=float).reshape(-1, 3).T
    runs_again = numpy.where(numpy.isnan(resumed), over, resumed)
    ran = ~numpy.isnan(launched)
    return steps(numpy.concatenate([launched[ran], runs_again]), numpy.concatenate([ended[ran], stopped]))


def known(values: ArrayLike) -> NDArray[numpy.float64]:
    """The values that are no NaN."""
    found = numpy.asarray(values, dtype=float)
    return found[~numpy.isnan(found)]
