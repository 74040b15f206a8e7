"""What all parts of a campaign use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emulator.measure.samples import Samples

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
