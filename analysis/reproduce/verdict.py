"""Whether a claim holds for the measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from analysis.reproduce.definitions import Claim, FigureDefinition
from analysis.reproduce.measure import Measured

NOISE_STANDARD_ERRORS = 2.0
"""Two means are tied if their difference is within this many of its standard errors."""
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

    def to_json(self) -> dict[str, Any]:
        """An entry of ``claims.json``."""
        return {
            "id": self.claim.id,
            "published": self.claim.published,
            "measured": self.measured,
            "accept": self.claim.accept,
            "ok": self.ok,
            "why": self.why,
        }


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
            why = "; ".join(f"{point}: {text}".removeprefix(": ") for point, text in missed.items() if text)
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
    for kind, limit in claim.accept.items():
        name, _, side = kind.rpartition("_")
        if kind == "within_absolute":
            published = claim.published_of(part)
            if published is None or abs(mean - published) > limit + _ROUNDING:
                return f"{of_part}{mean:.4g} is not within {limit:g} of the published {published}"
        elif name and name != part:
            continue
        elif side == "within":
            published = claim.published_of(part)
            if not published:
                return f"{of_part}there is no published figure to compare with (within {limit:.0%})"
            if abs(mean / published - 1) > limit + _ROUNDING:
                return f"{of_part}{mean / published - 1:+.1%} from the published figure, more than {limit:.0%}"
        elif side == "min" and mean < limit - _ROUNDING:
            return f"{of_part}{mean:.4g} is below {limit:g}"
        elif side == "max" and mean > limit + _ROUNDING:
            return f"{of_part}{mean:.4g} is above {limit:g}"
    return ""


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
    """The difference of two means that may be chance; runs of the same seed have the same workload and are paired."""
    differences = [a.by_seed[seed] - b.by_seed[seed] for seed in a.by_seed if seed in b.by_seed]
    if len(differences) < 2:
        return TIE_OF_SINGLE_RUNS * max(abs(a.mean or 0.0), abs(b.mean or 0.0))
    return NOISE_STANDARD_ERRORS * stdev(differences) / math.sqrt(len(differences))
