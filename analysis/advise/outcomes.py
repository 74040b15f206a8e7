"""The results of the workload under each candidate, over all seeds, and how candidates differ seed by seed.

A candidate is judged by two numbers: how long its production jobs take, and how long all others take.  Each is a
geometric mean over jobs.  So a short job counts as much as a long one, and the ratio of two candidates is the mean
ratio of the same job under both.  A seed draws the workload (lengths, queues of a trace's jobs) and everything random
in a run; each seed gives one ratio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import pyarrow.parquet

from analysis.advise.candidates import Question
from analysis.advise.results import Candidate, CandidateResult
from analysis.frames import DataFrame, Series, pandas
from analysis.load import read_table
from analysis.metrics import job_metrics
from emulator.campaign.directory import TABLE_NAME
from emulator.campaign.runner import CampaignResult
from emulator.records.measures import evictions, figure_of, mean
from emulator.sites.basis import Basis


@dataclass(frozen=True, slots=True)
class CandidateResults:
    """All candidates."""

    rows: tuple[CandidateResult, ...]
    jobs: DataFrame
    """One row for each job of each run: candidate, seed, name, is_production, completion_s, slowdown, missed,
    lost_work_s."""
    basis: Basis = field(default_factory=Basis)
    """What the experiment rests on."""
    asked: tuple[int, int] = (0, 0)
    """How many candidates and seeds there are in all."""

    def log_ratios(self, a: str, b: str, production: bool) -> Series:
        """For each seed, the mean over jobs of the logarithm of completion under ``a`` divided by that under ``b``."""
        chosen = self.jobs[self.jobs["is_production"] == production]
        sides = [chosen[chosen["candidate"] == name].set_index(["seed", "job"])["completion_s"] for name in (a, b)]
        ratios = numpy.log(sides[0] / sides[1]).dropna()
        return ratios.groupby(level="seed").mean()

    def differences(self, a: str, b: str, column: str) -> Series:
        """For each seed, the sum over jobs of a column under ``a``, less that under ``b``."""
        by_seed = self.jobs.groupby(["candidate", "seed"])[column].sum()
        return (by_seed[a].astype(float) - by_seed[b].astype(float)).dropna()


def outcomes_of(question: Question, result: CampaignResult) -> CandidateResults:
    """The results of runs of a campaign of the candidates; its table may have others, too.

    Raises ConfigError if a run's tables cannot be read.
    """
    table = pyarrow.parquet.read_table(result.directory.path / TABLE_NAME).to_pandas()
    table = table[table["run"].isin([run.name for run in result.runs])]
    ideal_s = _ideal_s(question, result)
    jobs = table[table["job"].notna()].rename(columns={"variant": "candidate"})
    jobs = jobs.join(ideal_s, on=["seed", "job"])
    jobs = jobs.assign(
        is_production=(jobs["queue"] == question.production) | (len(question.queues) == 1),
        slowdown=jobs["completion_s"] / jobs["ideal_s"],
        missed=(jobs["deadline_s"].notna() & ~(jobs["margin_s"] >= 0)),
    )
    summaries: dict[str, list[Mapping[str, Any]]] = {}
    for run in result.runs:
        summaries.setdefault(run.variant, []).append(result.summary(run) or {})
    failed = Counter(run.variant for run in result.runs if run.name in result.failures)
    rows = tuple(
        _outcome(one, jobs[jobs["candidate"] == one.name], summaries[one.name], failed[one.name])
        for one in question.candidates
        if one.name in summaries
    )
    return CandidateResults(rows, jobs, question.experiment.basis)


def _ideal_s(question: Question, result: CampaignResult) -> Any:
    """The least possible time of each job (``analysis.metrics.job_metrics``), by seed and name.

    All candidates run the same jobs, so any run of a seed with its tables is sufficient.
    """
    by_seed = {
        run.experiment.seed: run for run in result.runs if result.summary(run) and run.name not in result.failures
    }
    frames = []
    for seed, run in by_seed.items():
        path = result.directory.run_path(run)
        keys = {"run": run.variant, "repeat": seed}
        jobs, tasks = (read_table(path, name).to_pandas().assign(**keys) for name in ("jobs", "tasks"))
        frames.append(job_metrics(jobs.rename(columns={"name": "job"}), tasks, question.experiment.cluster.containers))
    if not frames:
        return pandas.Series(dtype=float, name="ideal_s", index=pandas.MultiIndex.from_arrays([[], []]))
    found = pandas.concat(frames).rename(columns={"repeat": "seed"})
    return found.set_index(["seed", "job"])["ideal_s"]


def _outcome(
    candidate: Candidate, jobs: DataFrame, summaries: Sequence[Mapping[str, Any]], failed: int
) -> CandidateResult:
    """The measures of one candidate over all seeds, in emulated seconds.

    ``failed``: runs that did not finish, or in which a job failed.  ``other_slowdown``: the geometric mean, over the
    jobs of the other queues, of completion / least possible time.  ``deadlines`` and ``missed`` are of all jobs of all
    seeds.  ``lost_s``: work that had to be done again, in container seconds, the mean over runs; ``lost_share``: that
    as a share of all work done.  ``preempted``: evictions of tasks in all runs.
    """
    production = jobs[jobs["is_production"]]["completion_s"].dropna()
    others = jobs[~jobs["is_production"]]["slowdown"].dropna()
    works = [summary["work"] for summary in summaries if summary]
    lost_s, useful_s = (sum(work[name] for work in works) for name in ("lost_s", "useful_s"))
    measures = {
        "runs": len(summaries),
        "failed": failed,
        "production_p50_s": float(production.quantile(0.5)) if len(production) else None,
        "production_p95_s": float(production.quantile(0.95)) if len(production) else None,
        "other_slowdown": float(numpy.exp(numpy.log(others).mean())) if len(others) else None,
        "deadlines": int(jobs["deadline_s"].notna().sum()),
        "missed": int(jobs["missed"].sum()),
        "preempted": sum(evictions(summary["jobs"]) for summary in summaries if summary),
        "lost_s": lost_s / max(1, len(works)),
        "lost_share": lost_s / (lost_s + useful_s) if lost_s + useful_s else 0.0,
    }
    return CandidateResult(candidate, {**measures, **_amounts(summaries)})


_UNITS = {"swap_gb": ("swap_bytes", 1e9), "checkpoint_gb": ("checkpoint_bytes", 1e9)}
_UNITS |= {"storage_gb": ("peak_bytes", 1e9), "energy_mj": ("energy_j", 1e6)}
"""The figures of runs that candidates are compared by beside times: their own names, and their units here."""


def _amounts(summaries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means of figures of runs other than times, if the summaries have them."""
    means = {
        name: (mean([found for one in summaries if (found := figure_of(one, figure)) is not None]), unit)
        for name, (figure, unit) in _UNITS.items()
    }
    return {name: found / unit for name, (found, unit) in means.items() if found is not None}
