"""Samples of a campaign: kept as Parquet, part by part, and summarised as the distributions of a calibration.

And what a part of a campaign is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

from emulator.costs.calibration import QUANTILE_LEVELS_PPM, Distribution
from emulator.files.whole_files import replaced_whole
from emulator.intervals import CONFIDENCE, half_of_interval

_SCHEMA = pyarrow.schema([("operation", pyarrow.string()), ("at", pyarrow.int64()), ("real_ns", pyarrow.int64())])


class Samples:
    """Durations in real nanoseconds, by operation and, in a series, by size."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int | None], list[int]] = {}
        """All samples, in the order of measurement; outliers are kept."""

    def add(self, operation: str, real_ns: int, at: int | None = None) -> None:
        """Add one repetition of an operation; a negative duration (clocks read out of order) counts as 0."""
        self.values.setdefault((operation, at), []).append(max(0, real_ns))

    def extend(self, other: Samples) -> None:
        """Add all samples of another one."""
        for key, values in other.values.items():
            self.values.setdefault(key, []).extend(values)

    def of(self, operation: str, at: int | None = None) -> list[int]:
        """The samples of one operation, possibly none."""
        return self.values.get((operation, at), [])

    def places(self, operation: str) -> list[int]:
        """The sizes at which a series was measured, ascending."""
        return sorted(at for name, at in self.values if name == operation and at is not None)

    def write(self, path: Path) -> None:
        """Write a Parquet file, whole or not at all.  Raises OSError."""
        rows = [(operation, at, value) for (operation, at), values in self.values.items() for value in values]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        table = pyarrow.table(dict(zip(_SCHEMA.names, columns, strict=True)), schema=_SCHEMA)
        with replaced_whole(path) as unfinished:
            pyarrow.parquet.write_table(table, unfinished)

    @classmethod
    def read(cls, path: Path) -> Samples:
        """Read what ``write`` has written.  Raises OSError, ValueError, pyarrow.ArrowException."""
        samples = cls()
        table = pyarrow.parquet.read_table(path, schema=_SCHEMA)
        for operation, at, real_ns in zip(*(table[name].to_pylist() for name in _SCHEMA.names), strict=True):
            samples.add(operation, real_ns, at)
        return samples


def summarise(values: Sequence[int]) -> Distribution:
    """The distribution of some samples, with 95% confidence intervals.

    The interval of the mean is Student's.  That of a percentile lies between two order statistics whose ranks the
    binomial distribution gives, so it assumes no shape of the distribution.

    Raises:
        ValueError: there are no samples.
    """
    if not values:
        raise ValueError("there are no samples")
    data = numpy.sort(numpy.asarray(values, dtype=numpy.int64))
    mean = float(data.mean())
    return Distribution(
        n=len(data),
        mean_real_ns=mean,
        mean_ci95_real_ns=_mean_interval(data, mean),
        p50_real_ns=_percentile(data, 0.50),
        p95_real_ns=_percentile(data, 0.95),
        p99_real_ns=_percentile(data, 0.99),
        quantiles_real_ns=tuple(_quantile(data, level / 1e6) for level in QUANTILE_LEVELS_PPM),
    )


def _quantile(data: numpy.ndarray, fraction: float) -> int:
    return int(numpy.quantile(data, fraction))


def _mean_interval(data: numpy.ndarray, mean: float) -> tuple[float, float]:
    if len(data) == 1:
        return mean, mean
    half = half_of_interval(float(data.std(ddof=1)), len(data))
    return max(0.0, mean - half), mean + half


def _percentile(data: numpy.ndarray, fraction: float) -> tuple[int, int, int]:
    from scipy.stats import binom

    tail = (1 - CONFIDENCE) / 2
    low = max(0, int(binom.ppf(tail, len(data), fraction)) - 1)
    high = min(len(data) - 1, int(binom.ppf(1 - tail, len(data), fraction)))
    value = _quantile(data, fraction)
    return value, min(int(data[low]), value), max(int(data[high]), value)  # few samples may have no rank beyond it


WARM_UP_ROUNDS = 5
"""Rounds at the start of every part whose figures are not used."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a part gets to work with."""

    run_id: str
    """Every process it starts carries this, so that a janitor can find it."""
    directory: Path
    """An empty directory for this part alone; removed after it."""
    rounds: int
    """Samples to take of each operation, without the warm-up."""
    quick: bool
    progress: Callable[[float], None]
    """Called with the share of the part that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a campaign.  If it is stopped, it is repeated from its beginning."""

    name: str
    measure: Callable[[Surroundings], Samples]
    real_s: float
    """About how long it takes, for the display of the time left."""
    quick_real_s: float
