"""Whether a claim holds for the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from analysis.reproduce.claims import Claim
from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Measured
from analysis.statistics import mean_interval

NUMBERS_WITHIN = 0.25
"""An order alone is a claim only where the paper prints no numbers; where it does, they must be this near as well."""
TIE_OF_SINGLE_RUNS = 0.01
"""The same for single runs, or for an order that must hold at many points: as a share of the larger mean."""
_ROUNDING = 1e-9

Value = float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim and its result."""

    claim: Claim
    figure: str
    measured: Value | dict[str, Value]
    ok: bool
    why: str
    """Which part misses what; empty if the claim holds."""


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
            found = [f"{point}: {text}".removeprefix(": ") for point, text in missed.items() if text]
            found += [
                text for by in cells.values() for name, cell in by.items() if (text := _number(claim, name, cell))
            ]
            why = "; ".join(found)
        else:
            parts = {cell.cell.part: cell.mean for cell in measured.values() if cell.cell.claim == name}
            values = parts[None] if set(parts) == {None} else {str(part): mean for part, mean in parts.items()}
            why = "; ".join(text for part, mean in parts.items() if (text := misses(claim, part, mean)))
        verdicts.append(Verdict(claim, figure.id, values, not why, why))
    return verdicts


def misses(claim: Claim, part: str | None, mean: Value) -> str:
    """What a part of a claim misses; empty if nothing."""
    of_part = f"{part}: " if part else ""
    if mean is None:
        return f"{of_part}was not measured"
    published = claim.published_of(part)
    if _wrong_sign(published, mean):
        return f"{of_part}{mean:.4g} has the wrong sign, {published:g} is published"
    for kind, limit in claim.accept.items():
        name, _, side = kind.rpartition("_")
        if kind == "within_absolute":
            if published is None or abs(mean - published) > limit + _ROUNDING:
                return f"{of_part}{mean:.4g} is not within {limit:g} of the published {published}"
        elif name and name != part:
            continue
        elif side == "within":
            if not published:
                return f"{of_part}there is no published figure to compare with (within {limit:.0%})"
            if abs(mean / published - 1) > limit + _ROUNDING:
                return f"{of_part}{mean / published - 1:+.1%} from the published figure, more than {limit:.0%}"
        elif side == "min" and mean < limit - _ROUNDING:
            return f"{of_part}{mean:.4g} is below {limit:g}"
        elif side == "max" and mean > limit + _ROUNDING:
            return f"{of_part}{mean:.4g} is above {limit:g}"
    return ""


def _number(claim: Claim, variant: str, cell: Measured) -> str:
    """What the number that the paper prints for one variant of an order misses; empty if nothing, or without one."""
    published = claim.published_of(variant)
    published = cell.published if published is None else published
    if not published or cell.mean is None:
        return ""
    if _wrong_sign(published, cell.mean):
        return f"{variant}: {cell.mean:.4g} has the wrong sign, {published:g} is published"
    distance = cell.mean / published - 1
    if abs(distance) <= claim.accept.get("within", NUMBERS_WITHIN) + _ROUNDING:
        return ""
    return f"{variant}: {distance:+.0%} from the published {published:g}"


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
