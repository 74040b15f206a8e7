"""What a reproduction found: its figures with their cells, verdicts and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.fidelity.figures import Fidelity
from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Measured
from analysis.reproduce.verdict import Verdict
from emulator.campaign.directory import PlannedRun
from emulator.campaign.runner import CampaignResult
from emulator.records.gaps import disturbances

DISTURBED_LAG_REAL_MS = 25.0
"""If 1% of a live run's timers were later than this, the run was not alone on the machine."""
FOUND = {"sim": "simulated", "live": "measured"}
"""What the figures of an engine are, in one word."""
FOUND_IN_FULL = {"sim": "simulated", "live": "measured on real processes"}
PADDED = ("schedule_s", "suspend_s", "resume_s")
"""Overheads that a published profile sets."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """One figure."""

    definition: FigureDefinition
    engine: str
    """sim or live."""
    cells: Mapping[str, Measured]
    verdicts: Sequence[Verdict]
    runs: Mapping[str, Mapping[int, PlannedRun]]
    """Summaries of every variant, by seed."""
    summaries: Mapping[str, Mapping[int, Mapping[str, Any]]]
    simulated: Mapping[str, Measured]
    """For live runs, simulations with the same seeds: without effects of the machine.  Otherwise empty."""
    fidelity: Fidelity
    """Distance of the live runs from these simulations, by job."""

    @property
    def disturbed(self) -> dict[tuple[str, int], str]:
        """Why live runs count as disturbed, by variant and seed."""
        return {
            (variant, seed): "; ".join(found)
            for variant, by_seed in self.runs.items()
            for seed in by_seed
            if (found := _disturbances(self.summaries[variant][seed]))
        }

    @property
    def source(self) -> str:
        """Where its figures are from, in one word."""
        return "counted" if self.definition.is_counted_in_a_trace else FOUND[self.engine]

    @property
    def errors(self) -> list[float]:
        """Absolute errors against the published figures, for claims with a limit on this error."""
        claims = all_claims()
        return self._errors(
            lambda cell: cell.cell.claim is not None and claims[cell.cell.claim].accepts_distance(cell.cell.part)
        )

    @property
    def all_errors(self) -> list[float]:
        """The same of all cells with a published figure."""
        return self._errors(lambda _: True)

    def _errors(self, counts: Callable[[Measured], bool]) -> list[float]:
        if self.definition.calibration:
            return []
        return [abs(cell.error) for cell in self.cells.values() if cell.error is not None and counts(cell)]


def _disturbances(summary: Mapping[str, Any]) -> list[str]:
    lag = summary["lag"]
    late = lag["within_bound"] and lag["p99_real_ms"] > DISTURBED_LAG_REAL_MS
    return [*disturbances(summary), *([f"timers were late by {lag['p99_real_ms']:.0f} real ms (p99)"] if late else [])]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Some figures from one engine."""

    engine: str
    figures: tuple[Reproduced, ...]
    campaign: CampaignResult

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on all claims."""
        return [verdict for figure in self.figures for verdict in figure.verdicts]

    @property
    def overruns(self) -> dict[str, tuple[int, int, float]]:
        """For live runs padded to published overheads, by operation: how many took longer, how many there were, and
        their mean."""
        summaries = [
            summary
            for figure in self.figures
            if figure.simulated
            for by_seed in figure.summaries.values()
            for summary in by_seed.values()
        ]
        found: dict[str, tuple[int, int, float]] = {}
        for name in PADDED:
            timed = [summary["overheads"][name] for summary in summaries if summary["overheads"][name]["n"]]
            if n := sum(of["n"] for of in timed):
                mean_s = sum(of["n"] * of["mean"] for of in timed) / n
                found[name.removesuffix("_s")] = (sum(of["overruns"] for of in timed), n, mean_s)
        return found

    def run_path(self, run: PlannedRun) -> Path:
        """The directory of one run."""
        return self.campaign.directory.run_path(run)
