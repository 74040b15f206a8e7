"""What a scheduler decides about one job, and why."""

from __future__ import annotations

from enum import StrEnum

from emulator.vocabulary import Frozen


class Outcome(StrEnum):
    """What became of a job in a pass."""

    STARTS = "starts"
    PREEMPTS = "preempts"
    """It starts when its victims are gone."""
    AWAITS_VICTIMS = "awaits victims"
    """Those that are in their grace make room for it."""
    WAITS = "waits"


class Decision(Frozen):
    """One decision of a pass."""

    job: str
    outcome: Outcome
    nodes: tuple[str, ...] = ()
    """Where it starts, or will start by what is known now."""
    victims: tuple[str, ...] = ()
    at_ns: int | None = None
    """Backfill: when it is planned to start; None: beyond the window."""
    why: str = ""
    """In words: why it waits."""
