"""How long a run of each figure takes: python docs/timings.py [ID ...]

Runs are simulated in this process, in an order drawn once and for all, until they have taken five seconds or each
variant of the figure has had one, with seed 1; those of live figures too, for their makespans.  What they take is kept
in ``analysis/claims/took.json``, from which ``natjam reproduce`` says beforehand how long it will take.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import fmean

from analysis.reproduce.definitions import FigureDefinition, chosen_figures
from analysis.reproduce.needs import Took, stored
from analysis.reproduce.run import planned, run_one
from emulator.campaign.directory import planned_runs

TOOK = Path(__file__).resolve().parents[1] / "analysis/claims/took.json"
_ENOUGH_CPU_S = 5.0


def took(figure: FigureDefinition) -> Took:
    """What a run of a figure takes, on average over its variants or some of them."""
    costs_cpu_s, makespans_s = zip(*_runs(figure), strict=True)
    return Took(cpu_s=_rounded(fmean(costs_cpu_s)), makespan_s=_rounded(fmean(makespans_s)))


def _runs(figure: FigureDefinition) -> Iterator[tuple[float, float]]:
    """The processor time and the makespan of each run."""
    variants = planned([figure], "sim" if "sim" in figure.engines else "live", None, quick=True)[figure.id]
    Random(0).shuffle(variants)
    began_cpu_s = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants:
            before_cpu_s = time.process_time()
            if before_cpu_s - began_cpu_s > _ENOUGH_CPU_S:
                return
            run = planned_runs([variant])[0]
            experiment = run.experiment.model_copy(update={"engine": variant.experiment.engine.replace("live", "sim")})
            summary = run_one(experiment, Path(folder) / run.name, lambda _: None)
            yield time.process_time() - before_cpu_s, summary["makespan_s"] or 0.0


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def main() -> None:
    """Time some figures, or all."""
    known = dict(stored())
    for figure in chosen_figures(sys.argv[1:] or ["all"]):
        if figure.experiment is not None:
            known[figure.id] = took(figure)
            print(figure.id, known[figure.id], flush=True)
            TOOK.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
