"""Whether the machine kept up with a run.  If it did not, the run's times are not to be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_OVERRUNNING = 0.1
"""Most launches, as a share, that may take longer than the profile's total; otherwise the run is disturbed."""


def disturbances(summary: Mapping[str, Any]) -> list[str]:
    """Why a run was disturbed, from its ``summary.json``; empty if it was not."""
    found = []
    lag, launches = summary["lag"] or {}, summary["overheads"].get("schedule_s", {})
    if not lag.get("within_bound", True):
        bound = f", beyond {lag['bound_emulated_s']:g} s" if "bound_emulated_s" in lag else ""
        found.append(f"timers were late by {lag['p99_emulated_s']:.2f} emulated s (p99){bound}")
    bound_s = lag.get("gap_bound_emulated_s", math.inf)
    for gap in lag.get("gaps", ())[:1]:  # the longest
        if gap["emulated_s"] > bound_s:
            found.append(
                f"the process {gap['process']} stood still for {gap['emulated_s']:.1f} emulated s,"
                f" until {gap['until_s']:.1f} s, beyond {bound_s:.4g} s"
            )
    if launches.get("overruns", 0) > MOST_OVERRUNNING * launches.get("n", 0):
        found.append(f"{launches['overruns']} of {launches['n']} launches took longer than the published overhead")
    return found


def disturbed_text(summary: Mapping[str, Any]) -> str | None:
    """The same for one run or for repeats, as one line that says what to do; None if nothing was disturbed."""
    if "repeats" in summary:
        seeds = summary.get("disturbed_seeds", [])
        if not seeds:
            return None
        why = f"{len(seeds)} of {summary['repeats']} repeats (seeds {', '.join(map(str, seeds))})"
    elif found := disturbances(summary):
        why = "; ".join(found)
    else:
        return None
    return f"disturbed: {why}; the machine was busy or too slow: run nothing else on it, or lower the time scale"
