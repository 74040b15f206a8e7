"""What the parts of a campaign have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emulator.measure.samples import Samples

WARM_UP_ROUNDS = 5
"""Rounds at the start of every part whose figures are thrown away."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a part is given to work with."""

    run_id: str
    """Every process it starts carries this, so that a janitor can find it."""
    directory: Path
    """Empty, and the part's own; removed after it."""
    rounds: int
    """Samples wanted of each operation, the warm-up not counted."""
    quick: bool
    progress: Callable[[float], None]
    """Told how much of the part is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a campaign: done as a whole, or again from its beginning."""

    name: str
    measure: Callable[[Surroundings], Samples]
    real_s: float
    """About how long it takes; for the time left that is shown."""
    quick_real_s: float
