"""What a job is to YARN, and what its FairScheduler shares out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import field

from emulator.vocabulary import Details, Frozen

FAIR_PREEMPTION: Mapping[str, Any] = {
    "interval_s": 0.5,
    "max_wait_before_kill_s": 15.0,
    "cluster_utilization_threshold": 0.8,
    "total_preemption_per_round": 1.0,
    "natural_termination_factor": 1.0,
    "max_ignored_over_capacity": 0.0,
    "intra_queue": False,
}
"""The FairScheduler's preemption as an experiment has it, with the FairScheduler's defaults: what is owed is taken at
once."""


class YarnDetails(Details, Frozen, tag_field="kind", tag="yarn"):
    """What a job is to YARN, beside its queue, its priority and its groups of tasks."""

    user: str = ""
    priorities: dict[str, int] = field(default_factory=dict)
    """The priorities of the requests of its groups; the smallest number is the most urgent.  Groups that are not named
    come in their order."""


def fair_shares(whole: Fraction, queues: Sequence[tuple[Fraction, Fraction, Fraction]]) -> list[Fraction]:
    """The parts of ``whole`` of queues with these weights, least and largest parts."""
    shares, wants, left = [Fraction(0)] * len(queues), list(range(len(queues))), whole
    while wants:
        weights = sum(queues[place][0] for place in wants) or Fraction(1)
        parts = {place: left * queues[place][0] / weights for place in wants}
        held = {place: min(max(parts[place], queues[place][1]), queues[place][2]) for place in wants}
        beyond = sum(held.values()) - sum(parts.values())
        # If the limits together give too much, those at their least part are settled, else those at their largest.
        settled = [place for place in wants if (held[place] - parts[place]) * (1 if beyond > 0 else -1) > 0]
        for place in settled if beyond else wants:
            shares[place] = held[place]
            left -= held[place]
        wants = [place for place in wants if place not in settled] if beyond else []
    return shares
