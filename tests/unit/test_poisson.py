"""Jobs with deadlines drawn at random: as many as the load says, deadlines as the factor says, the same for a seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.policies.capacity import Capacity
from emulator.vocabulary import HOUR_NS
from tests.experiment_files import refusal, write
from workloads.paper_jobs import poisson_jobs
from workloads.schema import PoissonEntry

HALF = Capacity([(0, 80), (12 * HOUR_NS, 20)], 24 * HOUR_NS)
CATALOG = Path(__file__).resolve().parents[2] / "workloads/catalog"


@given(st.integers(0, 9), st.sampled_from([0.2, 0.6, 1.0]))
def test_work_is_offered_as_the_load_says(seed: int, load: float) -> None:
    jobs = poisson_jobs(PoissonEntry(load=load), HALF, 100, 1, seed)
    offered = sum(sum(job.map_ns) for job in jobs) / HALF.between(0, 7 * 24 * HOUR_NS)
    assert offered == pytest.approx(load, rel=0.25)
    assert sum(len(job.map_ns) for job in jobs) / len(jobs) == pytest.approx(62, rel=0.05)
    assert list(jobs) == sorted(jobs, key=lambda job: job.submit_ns)
    assert jobs == poisson_jobs(PoissonEntry(load=load), HALF, 100, 1, seed)


def test_deadlines_are_multiples_of_the_time_with_the_whole_cluster() -> None:
    tight, loose = (
        poisson_jobs(PoissonEntry(deadline_factor=factor), HALF, 100, 1, 3) for factor in ((1.5, 4), (3, 8))
    )
    for job, other in zip(tight, loose, strict=True):
        until_ns = (job.facts.deadline_ns or 0) - job.submit_ns
        twice_ns = (other.facts.deadline_ns or 0) - other.submit_ns
        assert twice_ns == pytest.approx(2 * until_ns, rel=1e-6), "other factors move deadlines, and nothing else"
        alone_ns = sum(job.map_ns) / min(100, len(job.map_ns))
        assert 1.5 * alone_ns <= until_ns + 1
        assert until_ns - 1 <= 4 * alone_ns


def test_tasks_cut_into_pieces_are_the_same_jobs() -> None:
    whole, cut = (poisson_jobs(PoissonEntry(pieces=pieces), HALF, 100, 1, 3) for pieces in (1, 4))
    for job, other in zip(whole, cut, strict=True):
        assert len(other.map_ns) == 4 * len(job.map_ns)
        assert sum(other.map_ns) == sum(job.map_ns)
        assert other.facts.most_containers == job.facts.most_containers
        assert (other.submit_ns, other.facts.deadline_ns) == (job.submit_ns, job.facts.deadline_ns)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("load: -1", "load"),
        ("load: .nan", "load"),
        ("deadline_factor: [4, 1.5]", "the first number must be below the second"),
        ("counted_s: [5, 5]", "counted_s: the first number must be below the second"),
        ("task_s: 0.001", "tasks for each container are too many"),
        ("queue: other", "there is no queue 'other'"),
        ("tasks: {mean: 0, sd: 1}", "mean"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path: Path, change: str, words: str) -> None:
    text = (CATALOG / "reverse-adaptive-week.yaml").read_text()
    path = write(tmp_path, text[: text.index("workload:")] + f"workload: {{poisson: {{{change}}}}}\n")
    assert words in refusal(path)


def test_the_catalogues_week_is_within_the_papers_ranges() -> None:
    counts = []
    for options in (["workload.poisson.load=0.2"], ["workload.poisson.load=1.0", "cluster.availability=null"]):
        counts.append(len(expand(load_experiment(CATALOG / "reverse-adaptive-week.yaml", options), 1)))
    assert 200 <= counts[0] <= 300
    assert 2300 <= counts[1] <= 2700
