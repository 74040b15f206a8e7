"""The plan of a campaign: variants of experiments, each run once for every seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from emulator.experiment.model import Experiment
from emulator.vocabulary import Frozen


class Variant(Frozen):
    """One experiment of a campaign."""

    name: str
    """Unique in the campaign, and a relative path: its runs are ``runs/<name>/seed-<n>``."""
    experiment: Experiment
    seeds: tuple[int, ...]
    factors: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Its values from the campaign's grid, by key."""


class PlannedRun(Frozen):
    """One run of a campaign."""

    variant: str
    experiment: Experiment
    """With the run's own seed and a single repeat."""
    factors: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The run's directory below ``runs/``."""
        return f"{self.variant}/seed-{self.experiment.seed}"

    @property
    def sha256(self) -> str:
        """Equal for runs of the same experiment with the same seed."""
        return hashlib.sha256(self.experiment.model_dump_json().encode()).hexdigest()


def planned_runs(variants: Sequence[Variant]) -> list[PlannedRun]:
    """All runs, ordered by seed: the first seed of every variant comes before any second seed.

    So a campaign that is stopped early has results for every variant.
    """
    most = max((len(variant.seeds) for variant in variants), default=0)
    return [
        PlannedRun(
            variant.name,
            variant.experiment.model_copy(update={"seed": variant.seeds[place], "repeats": 1}),
            variant.factors,
        )
        for place in range(most)
        for variant in variants
        if place < len(variant.seeds)
    ]


def names_given_twice(variants: Iterable[Variant]) -> list[str]:
    """Names that several variants have."""
    seen: set[str] = set()
    return [variant.name for variant in variants if variant.name in seen or seen.add(variant.name)]
