"""Counts over time as step functions: times in seconds, each with the count from then on."""

from __future__ import annotations

from typing import TypeAlias

import numpy
import pyarrow
from numpy.typing import ArrayLike, NDArray

Curve: TypeAlias = tuple[NDArray[numpy.float64], NDArray[numpy.int64]]


def steps(starts_s: ArrayLike, ends_s: ArrayLike) -> Curve:
    """How many intervals are open; NaN is a time that never comes."""
    starts, ends = known(starts_s), known(ends_s)
    times, changes = numpy.concatenate([starts, ends]), numpy.repeat([1, -1], [len(starts), len(ends)])
    return summed(times, changes)


def summed(times_s: NDArray[numpy.float64], changes: NDArray[numpy.int64]) -> Curve:
    """The sum of all changes up to each time."""
    order = numpy.argsort(times_s)
    is_last = numpy.diff(times_s[order], append=numpy.inf) > 0  # of all at that time
    return times_s[order][is_last], numpy.cumsum(changes[order])[is_last].astype(numpy.int64)


def at_work(launched_s: ArrayLike, ended_s: ArrayLike, stops_s: ArrayLike) -> Curve:
    """The number of containers in which a process works.

    Args:
        launched_s, ended_s: times of each attempt.
        stops_s: n x 3, for each stop of a process: when it was stopped, when it was resumed (NaN: it was not), and when
            its attempt ended.
    """
    launched, ended = (numpy.asarray(values, dtype=float) for values in (launched_s, ended_s))
    stopped, resumed, over = numpy.asarray(stops_s, dtype=float).reshape(-1, 3).T
    runs_again = numpy.where(numpy.isnan(resumed), over, resumed)
    ran = ~numpy.isnan(launched)
    return steps(numpy.concatenate([launched[ran], runs_again]), numpy.concatenate([ended[ran], stopped]))


def at_work_of(attempts: pyarrow.Table) -> Curve:
    """The same, from a table of attempts."""
    launched, ended = (floats(attempts.column(name)) for name in ("launched_s", "ended_s"))
    spans = attempts.column("suspended_spans").combine_chunks()
    offsets = spans.offsets.to_pylist()
    flat = spans.values[offsets[0] : offsets[-1]]  # ``spans.flatten()`` would import pyarrow.compute: a tenth of a run
    parents = numpy.repeat(numpy.arange(len(spans)), numpy.diff(offsets))
    times = [floats(flat.field(name)) for name in ("stopped_s", "resumed_s")]
    return at_work(launched, ended, numpy.stack([*times, ended[parents]], axis=1))


def floats(column: pyarrow.Array | pyarrow.ChunkedArray) -> NDArray[numpy.float64]:
    """The values of a column of numbers; null is NaN.  Its own ``to_numpy`` would import pandas."""
    return numpy.array(column.to_pylist(), dtype=float)


def known(values: ArrayLike) -> NDArray[numpy.float64]:
    """The values that are not NaN."""
    found = numpy.asarray(values, dtype=float)
    return found[~numpy.isnan(found)]
