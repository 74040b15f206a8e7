"""Whether a claim holds for the measurements: held, failed, or undecided.

A part of a claim accepts a range of values.  It holds if the 95% interval of the mean over the seeds is within the
range, it fails if the interval is outside, and it is undecided if the interval has values of both kinds.  Where there
is no interval, as of a single run, the mean decides.  A claim fails if one of its parts does, and holds if all do.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from analysis.reproduce.claims import Claim
from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Measured
from analysis.statistics import mean_interval
from emulator.intervals import Spread, half_of_interval

NUMBERS_WITHIN = 0.25
"""An order alone is a claim only where the paper prints no numbers; where it does, they must be this near as well."""
TIE_OF_SINGLE_RUNS = 0.01
"""The same for single runs, or for an order that must hold at many points: as a share of the larger mean."""
ENOUGH_SEEDS = 20
"""With so many seeds a claim may be undecided even if no number of them would decide it."""
MAX_SEEDS = 1_000_000
"""More are not counted."""
WORDS = {True: "held", False: "failed", None: "undecided"}
_ROUNDING = 1e-9

Value = float | None


class Finding(NamedTuple):
    """What is found of one part of a claim, or of several together."""

    ok: bool | None
    """None: undecided."""
    why: str = ""
    """What misses what, or why it is undecided; empty if it holds."""
    deciding_seeds: int | None = None
    """How many seeds would decide an undecided one, if mean and deviation stay as they are."""
    mean_holds: bool = True
    """Whether the mean of an undecided one is accepted, so that they would decide that it holds."""

    @property
    def kept(self) -> dict[str, Any]:
        """What ``claims.json`` keeps of it."""
        return {"ok": self.ok, "why": self.why, "deciding_seeds": self.deciding_seeds}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim and its result."""

    claim: Claim
    figure: str
    measured: Value | dict[str, Value]
    found: Finding

    @property
    def ok(self) -> bool | None:
        """Whether it holds; None: undecided."""
        return self.found.ok


def judge(
    figure: FigureDefinition, measured: Mapping[str, Measured], claims: Mapping[str, Claim], engine: str
) -> list[Verdict]:
    """Verdicts on all claims that the figure measures and that apply to ``engine``."""
    verdicts = []
    for name in figure.claims:
        claim = claims[name]
        if claim.engine not in ("both", engine):
            continue
        if name in figure.orders:
            at = figure.ordered(name)
            cells = {point: {variant: measured[cell] for variant, cell in by.items()} for point, by in at.items()}
            values: Value | dict[str, Value] = {
                variant: _mean([by[variant].mean for by in cells.values()]) for variant in figure.orders[name]
            }
            tie = TIE_OF_SINGLE_RUNS if len(cells) > 1 else 0.0
            missed = {point: _order(claim.accept["order"], by, tie) for point, by in cells.items()}
            found = [Finding(False, f"{point}: {text}".removeprefix(": ")) for point, text in missed.items() if text]
            found += [_number(claim, variant, cell) for by in cells.values() for variant, cell in by.items()]
        else:
            of_claim = [cell for cell in measured.values() if cell.cell.claim == name]
            parts = {cell.cell.part: cell.mean for cell in of_claim}
            values = parts[None] if set(parts) == {None} else {str(part): mean for part, mean in parts.items()}
            found = [finding(claim, cell.cell.part, cell.spread) for cell in of_claim]
        verdicts.append(Verdict(claim, figure.id, values, together(found)))
    return verdicts


def together(parts: Iterable[Finding]) -> Finding:
    """The parts of a claim together: the worst of them decides, and says why.

    An undecided claim is decided as soon as one part is whose mean does not hold, else when all of its parts are.
    """
    found = list(parts)
    ok = False if any(part.ok is False for part in found) else None if any(part.ok is None for part in found) else True
    alike = [part for part in found if part.ok is ok]
    why = "; ".join(part.why for part in alike if part.why)
    if ok is not None:
        return Finding(ok, why)
    seeds = [part.deciding_seeds for part in alike if part.deciding_seeds is not None]
    failing = [part.deciding_seeds for part in alike if not part.mean_holds and part.deciding_seeds is not None]
    if failing:
        return Finding(None, why, min(failing), mean_holds=False)
    return Finding(None, why, max(seeds) if len(seeds) == len(alike) else None)


def finding(claim: Claim, part: str | None, spread: Spread | None) -> Finding:
    """What is found of a part of a claim; ``spread``: the mean over the seeds, None if it was not measured."""
    missed = misses(claim, part, None if spread is None else spread.mean)
    if spread is None:
        return Finding(False, missed)
    undecided = _undecided(spread, *_accepted_range(claim, part))
    if undecided is None:
        return Finding(not missed, missed)
    return undecided._replace(why=f"{part}: {undecided.why}" if part else undecided.why)


def _accepted_range(claim: Claim, part: str | None) -> tuple[float, float]:
    """The least and the greatest value of a part that hold: what ``misses`` accepts, as a range."""
    published, limits = claim.published_of(part), [limit[:2] for limit in _limits(claim, part, 0.0)]
    if published:
        limits.append((0.0, math.inf) if published > 0 else (-math.inf, 0.0))
    return max((low for low, _ in limits), default=-math.inf), min((high for _, high in limits), default=math.inf)


def _limits(claim: Claim, part: str | None, mean: float) -> Iterator[tuple[float, float, str]]:
    """What is accepted of a part of a claim: the least and the greatest value, and what a mean outside misses."""
    published = claim.published_of(part)
    for kind, limit in claim.accept.items():
        name, _, side = kind.rpartition("_")
        if kind == "within_absolute":
            yield *_around(published, limit), f"{mean:.4g} is not within {limit:g} of the published {published}"
        elif name and name != part:
            continue
        elif side == "within" and published:
            missed = f"{mean / published - 1:+.1%} from the published figure, more than {limit:.0%}"
            yield *_around(published, limit * abs(published)), missed
        elif side == "within":
            yield *_around(None, 0.0), f"there is no published figure to compare with (within {limit:.0%})"
        elif side == "min":
            yield limit, math.inf, f"{mean:.4g} is below {limit:g}"
        elif side == "max":
            yield -math.inf, limit, f"{mean:.4g} is above {limit:g}"


def _around(published: Value, distance: float) -> tuple[float, float]:
    """The values at most this far away; none if nothing is published."""
    return (math.inf, -math.inf) if published is None else (published - distance, published + distance)


def _undecided(spread: Spread, least: float, most: float) -> Finding | None:
    """That the interval has both accepted and refused values; None if it has not, or there is none."""
    low, high = spread.low, spread.high
    if low is None or high is None or spread.sd is None:
        return None
    if (least - _ROUNDING <= low and high <= most + _ROUNDING) or high < least or low > most:
        return None
    away = min(abs(spread.mean - limit) for limit in (least, most))
    seeds = seeds_to_decide(spread.sd, away)
    if seeds is None and spread.n < ENOUGH_SEEDS:
        return None
    bounds = [f"{least:.4g}" if least > -math.inf else "", f"{most:.4g}" if most < math.inf else ""]
    accepts = (
        " to ".join(filter(None, bounds)) if all(bounds) else f"at {'least' if bounds[0] else 'most'} {''.join(bounds)}"
    )
    why = f"{spread.mean:.4g} (95%: {low:.4g} to {high:.4g}, {spread.n} seeds) against {accepts}"
    return Finding(None, why, seeds, mean_holds=least <= spread.mean <= most)


def seeds_to_decide(deviation: float, away: float) -> int | None:
    """With how many seeds the mean is sure to be on its side of the nearest limit, which is ``away`` from it, if mean
    and standard deviation stay as they are; None: with more than ``MAX_SEEDS``."""
    if half_of_interval(deviation, MAX_SEEDS) > away:
        return None
    return bisect.bisect_left(range(MAX_SEEDS), -away, lo=2, key=lambda seeds: -half_of_interval(deviation, seeds))


def misses(claim: Claim, part: str | None, mean: Value) -> str:
    """What a part of a claim misses; empty if nothing."""
    of_part = f"{part}: " if part else ""
    if mean is None:
        return f"{of_part}was not measured"
    published = claim.published_of(part)
    if _wrong_sign(published, mean):
        return f"{of_part}{mean:.4g} has the wrong sign, {published:g} is published"
    outside = (
        missed
        for least, most, missed in _limits(claim, part, mean)
        if not least - _ROUNDING <= mean <= most + _ROUNDING
    )
    return next((f"{of_part}{missed}" for missed in outside), "")


def _number(claim: Claim, variant: str, cell: Measured) -> Finding:
    """What is found of the number that the paper prints for one variant of an order; that it holds without one."""
    published = claim.published_of(variant)
    published = cell.published if published is None else published
    if not published or cell.spread is None:
        return Finding(True)
    within = claim.accept.get("within", NUMBERS_WITHIN)
    least, most = _around(published, within * abs(published))
    undecided = _undecided(cell.spread, least, most)
    if undecided is not None:
        return undecided._replace(why=f"{variant}: {undecided.why}")
    mean = cell.spread.mean
    if least - _ROUNDING <= mean <= most + _ROUNDING:
        return Finding(True)
    if _wrong_sign(published, mean):
        return Finding(False, f"{variant}: {mean:.4g} has the wrong sign, {published:g} is published")
    return Finding(False, f"{variant}: {mean / published - 1:+.0%} from the published {published:g}")


def _wrong_sign(published: Value, mean: float) -> bool:
    return published is not None and published * mean < 0


def _mean(values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _order(order: Sequence[str], cells: Mapping[str, Measured], tie: float) -> str:
    """What is out of order by more than noise, and by more than ``tie``, a share of the larger mean.

    ``tie`` is needed because of many compared points some differ by two standard errors by chance.
    """
    for first, second in pairwise(order):
        a, b = cells[first], cells[second]
        if a.mean is None or b.mean is None:
            return f"{first if a.mean is None else second} was not measured"
        if a.mean - b.mean > max(_noise(a, b), tie * max(abs(a.mean), abs(b.mean))):
            return f"{first} ({a.mean:.4g}) is above {second} ({b.mean:.4g}) by more than noise"
    return ""


def _noise(a: Measured, b: Measured) -> float:
    """The difference of two means that may be chance: half of its 95% interval.

    Runs of the same seed have the same workload and are paired.
    """
    interval = mean_interval([a.by_seed[seed] - b.by_seed[seed] for seed in a.by_seed if seed in b.by_seed])
    if interval is None:
        return TIE_OF_SINGLE_RUNS * max(abs(a.mean or 0.0), abs(b.mean or 0.0))
    return (interval[1] - interval[0]) / 2
