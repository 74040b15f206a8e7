"""A run from its experiment to its report, for ``natjam run``.

The pictures that every run writes to its directory are ``timeline.perfetto.json`` and ``report.html``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator import run as runs
from emulator.core.job import JobSpec
from emulator.engine import OnStatus
from emulator.experiment.model import Experiment
from emulator.files.whole_files import written_whole
from emulator.policies.capacity import Capacity
from emulator.records.run_directory import EXPERIMENT_NAME, SHARES_NAME
from emulator.resolved import Resolved
from emulator.storage.places import place_at

if TYPE_CHECKING:
    import pyarrow

    from analysis.report.payload import RunTables

_VERIFIERS = 2
_SMALL_OUTPUT_KEYS = 20_000
"""Below this, one process verifies in less time than two need to start."""
REPORT_NAME, PERFETTO_NAME = "report.html", "timeline.perfetto.json"
PACKING_NAME, HOLDERS_NAME = "packing.svg", "holders.svg"
MAX_STEPS = 1000
"""Runs with more changes of shares get no picture of them, because it would not be readable."""
LARGEST_ATTEMPTS = 5_000
"""Runs with more attempts get pictures only on request, because these take as long as the simulation."""


class Aftermath:
    """See ``emulator.engine.Aftermath``."""

    @staticmethod
    def why_no_pictures(attempts: int) -> str | None:
        """Why a run of this many attempts gets no pictures; None: it gets them."""
        if attempts <= LARGEST_ATTEMPTS:
            return None
        return (
            f"{PERFETTO_NAME} and {REPORT_NAME} are left out: {attempts:,} attempts are more than"
            f" {LARGEST_ATTEMPTS:,}; 'natjam report' makes the report anyway"
        )

    @staticmethod
    def write_pictures(
        directory: Path,
        tables: Mapping[str, pyarrow.Table],
        run: Resolved,
        summary: Mapping[str, Any],
    ) -> None:
        """Write both; for a fluid run also ``packing.svg``; for it, and for a run with a transactional workload, also
        ``holders.svg``: what jobs held, and the capacity.

        Args:
            directory: of the run.
            tables: ``jobs``, ``attempts``, ``operations`` and ``decisions``, as in their Parquet files.
            run: the run.
            summary: the contents of ``summary.json``.

        Raises:
            RunError: a file cannot be written.
        """
        from analysis.perfetto import write_perfetto  # here, because a large simulation does not need these imports
        from analysis.report.build import run_tables
        from analysis.report.page import ReportRun, render_report
        from analysis.report.payload import make_payload

        available = None if run.settings.availability is None else run.settings.availability.capacity
        shown = run_tables(tables, run.settings.nodes, available)
        if (directory / SHARES_NAME).exists():
            _draw_shares(directory, summary["jobs"], available or Capacity([(0, run.containers)]))
        if available is not None and len(tables["attempts"]):
            _draw_holders(directory, summary["jobs"], tables["attempts"], shown)
        timeline = shown.timeline()
        with written_whole(directory / PERFETTO_NAME) as unfinished:
            write_perfetto(unfinished, tables["attempts"], timeline)
        configuration = (directory / EXPERIMENT_NAME).read_text()
        page = render_report(
            [ReportRun(directory.name, directory.name, summary, configuration, make_payload(shown, timeline))]
        )
        with written_whole(directory / REPORT_NAME) as unfinished:
            unfinished.write_text(page)

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
    runs.salvage(directory, Aftermath())


def run_experiment(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Run all repeats of an experiment, verify their output and make their pictures; see ``emulator.run``."""
    return runs.run_experiment(experiment, out_dir, on_status, Aftermath())


def _draw_holders(directory: Path, jobs: list[Mapping[str, Any]], attempts: pyarrow.Table, run: RunTables) -> None:
    from analysis.figures.shares import holders, steps_of_attempts

    assert run.available is not None
    steps = steps_of_attempts(attempts, run.available, run.end_s)
    with written_whole(directory / HOLDERS_NAME) as unfinished:
        holders(steps, jobs).savefig(unfinished, format="svg")


def _draw_shares(directory: Path, jobs: list[Mapping[str, Any]], capacity: Capacity) -> None:
    from pyarrow.parquet import read_table

    from analysis.figures.shares import holders, packing, steps_of

    steps = steps_of(read_table(directory / SHARES_NAME))
    if len(steps) > MAX_STEPS:
        return
    for step in steps:
        step["available"] = capacity.at(round(step["start_s"] * 10**9))
    with written_whole(directory / PACKING_NAME) as unfinished:
        packing(steps, [job["name"] for job in jobs]).savefig(unfinished, format="svg")
    with written_whole(directory / HOLDERS_NAME) as unfinished:
        holders(steps, jobs).savefig(unfinished, format="svg")
