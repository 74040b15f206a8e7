"""A histogram of bounded size over any range of positive values, for quantiles of data that does not fit in memory."""

from __future__ import annotations

import math
from array import array as numbers
from typing import Any

import numpy as np

_PER_DECADE = 200
"""Number of bins; a quantile of more than ``_KEPT`` values is exact to 0.6%."""
_KEPT = 100_000
"""So many values are kept as they are, for exact quantiles."""
_LOW_DECADE, _HIGH_DECADE = -9, 21


class LogHistogram:
    """Counts of values in bins of equal logarithmic width; there is one bin for 0 and less."""

    def __init__(self) -> None:
        self._counts = np.zeros((_HIGH_DECADE - _LOW_DECADE) * _PER_DECADE + 1, np.int64)
        self._values = numbers("d")
        """All of them; empty if there are more than are kept."""
        self.count = 0
        self.least = math.inf
        self.most = -math.inf
        self.total = 0.0

    def add(self, values: Any) -> None:
        """Add an array, or sequence, of values."""
        array = np.asarray(values, float)
        if not array.size:
            return
        with np.errstate(divide="ignore"):
            bins = np.floor((np.log10(np.maximum(array, 0)) - _LOW_DECADE) * _PER_DECADE) + 1
        np.add.at(self._counts, np.clip(bins, 0, len(self._counts) - 1).astype(int), 1)
        if self.count == len(self._values):
            self._values.frombytes(array.tobytes())
        self.count += array.size
        if self.count > _KEPT:
            self._values = numbers("d")
        self.total += float(array.sum())
        self.least, self.most = min(self.least, float(array.min())), max(self.most, float(array.max()))

    def quantile(self, share: float) -> float:
        """The value that ``share`` of all values do not exceed; 0 if there are none."""
        if not self.count:
            return 0.0
        rank = max(1, math.ceil(share * self.count))
        if self._values:
            return float(np.partition(self._values, rank - 1)[rank - 1])
        place = int(np.searchsorted(np.cumsum(self._counts), rank))
        if place == 0:
            return max(0.0, self.least)
        middle = 10 ** ((place - 0.5) / _PER_DECADE + _LOW_DECADE)
        return min(max(middle, self.least), self.most)

    def per_decade(self, parts: int = 1) -> list[tuple[float, float, int]]:
        """Lower bound, upper bound and count of the bins of a plot, with ``parts`` (a divisor of 200) bins in a decade.

        Empty bins at both ends are left out.  Zeros are in the first bin, from 0 to 0.
        """
        width = _PER_DECADE // parts
        sums = self._counts[1:].reshape(-1, width).sum(axis=1)
        edges = [10 ** (number / parts + _LOW_DECADE) for number in range(len(sums) + 1)]
        filled = np.flatnonzero(sums)
        zero = [(0.0, 0.0, int(self._counts[0]))] if self._counts[0] else []
        if not len(filled):
            return zero
        inner = range(int(filled[0]), int(filled[-1]) + 1)
        return zero + [(edges[at], edges[at + 1], int(sums[at])) for at in inner]
