"""A run from its experiment to its report, for ``natjam run``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from analysis.pictures import why_left_out, write_pictures
from emulator import run
from emulator.core.job import JobSpec
from emulator.engine import OnStatus
from emulator.experiment.model import Experiment
from emulator.storage.places import place_at

_VERIFIERS = 2
_SMALL_OUTPUT_KEYS = 20_000
"""Below this, one process verifies in less time than two need to start."""


class _Aftermath:
    """See ``emulator.engine.Aftermath``."""

    why_no_pictures = staticmethod(why_left_out)
    write_pictures = staticmethod(write_pictures)

    @staticmethod
    def verify(
        jobs: tuple[JobSpec, ...],
        seed: int,
        output: str,
        digests: Mapping[tuple[str, int], str],
        cancelled: Collection[str],
    ) -> dict[str, Any]:
        from analysis.verify import verify_output  # here, because a simulation does not need this import

        many = sum(sum(job.reduce_keys) for job in jobs) > _SMALL_OUTPUT_KEYS
        with place_at(output).files() as files:
            return verify_output(jobs, seed, files, digests, _VERIFIERS if many else 1, cancelled).to_summary()


def salvage(directory: Path) -> None:
    """Make the results of a run that ended without them, from its journal; see ``emulator.run``."""
    run.salvage(directory, _Aftermath())


def run_experiment(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Run all repeats of an experiment, verify their output and make their pictures; see ``emulator.run``."""
    return run.run_experiment(experiment, out_dir, on_status, _Aftermath())
