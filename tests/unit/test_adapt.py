"""Traces fitted to a cluster: windows, queues, load by rule, deadlines, and that both engines get the same jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import ConfigError
from tests.traces import FACEBOOK_DAY, FIVE_JOBS
from workloads.adapt import Adapted, Target, adapt, model_tasks
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.load import Demand, Group, alone_ns, offered_ns, peak
from workloads.record import Header, Trace, WorkloadJob, WorkloadTask
from workloads.schema import Rates, TraceEntry

S = 10**9
SMALL = Target(nodes=6, containers=72)


def fit(path: Path, format: str, target: Target = SMALL, seed: int = 1, **fields: Any) -> Adapted:
    entry = TraceEntry.model_validate({"format": format, "path": str(path), **fields})
    return adapt(lambda: open_trace(path, entry.format, Problems()), entry, target, seed)


def fit_jobs(
    *jobs: WorkloadJob, origin: Any = "zero", target: Target = SMALL, **fields: Any
) -> tuple[WorkloadJob, ...]:
    entry = TraceEntry.model_validate({"format": "natjam", "path": "x", **fields})
    return adapt(lambda: Trace(Header("x", origin, {}), iter(jobs)), entry, target, 1).jobs


def job(name: str, submit_s: float, *reduces_s: float, queue: str | None = "research", **more: Any) -> WorkloadJob:
    tasks = tuple(WorkloadTask("reduce", int(length * S)) for length in reduces_s)
    return WorkloadJob(name, int(submit_s * S), queue=queue, tasks=tasks, **more)


def test_a_spread_gives_each_modelled_task_a_length_of_its_own():
    options = {
        "window_s": (25200, 28800),
        "production_fraction": 0.5,
        "load": 1.2,
        "rates": {"spread": {"uniform": (0.5, 1.5)}},
    }
    same = {job.job: job for job in fit(FACEBOOK_DAY, "swim", **{**options, "rates": {}}).jobs}
    spread, again, other = (fit(FACEBOOK_DAY, "swim", seed=seed, **options).jobs for seed in (1, 1, 2))
    assert spread == again
    assert spread != other
    ratios = []
    for job in spread:
        for mine, rule in zip(job.tasks or (), same[job.job].tasks or (), strict=True):
            assert (mine.kind, mine.source) == (rule.kind, "modelled")
            ratios.append(mine.length_ns / rule.length_ns)
    assert min(ratios) >= 0.5
    assert max(ratios) <= 1.5
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.02)
    recorded = fit(FIVE_JOBS, "rumen", production_fraction=0.5, rates={"spread": {"uniform": (0.5, 1.5)}}).jobs
    assert recorded == fit(FIVE_JOBS, "rumen", production_fraction=0.5).jobs, "what was measured stays"


class TestWindow:
    JOBS = (job("c", 130, 1), job("a", 100, 1), job("b", 120, 1))

    def test_jobs_are_sorted_and_clocks_begin_where_the_origin_says(self):
        assert [(one.job, one.submit_ns // S) for one in fit_jobs(*self.JOBS)] == [("a", 100), ("b", 120), ("c", 130)]
        shifted = fit_jobs(*self.JOBS, origin="first-submission")
        assert [(one.job, one.submit_ns // S) for one in shifted] == [("a", 0), ("b", 20), ("c", 30)]

    @pytest.mark.parametrize(
        ("origin", "window_s", "left"),
        [
            ("zero", 120.5, [("a", 100), ("b", 120)]),
            ("zero", (100.0, 130.0), [("a", 0), ("b", 20)]),
            ("first-submission", 25.0, [("a", 0), ("b", 20)]),
            ("first-submission", (20.0, 31.0), [("b", 0), ("c", 10)]),
        ],
    )
    def test_the_end_is_not_in_it(self, origin, window_s, left):
        found = fit_jobs(*self.JOBS, origin=origin, window_s=window_s)
        assert [(one.job, one.submit_ns // S) for one in found] == left

    def test_stretches_lie_on_top_of_each_other(self):
        hours = (job("a", 100, 1), job("b", 3600, 1), job("c", 3650, 1), job("d", 7300, 1))
        found = fit_jobs(*hours, window_s=(50.0, 7250.0), superpose_s=3600.0)
        assert [(one.job, one.submit_ns // S) for one in found] == [("c", 0), ("a", 50), ("b", 3550)]
        twice = (job("a", 0, 100), job("b", 100, 100))
        (one, other) = fit_jobs(*twice, window_s=200.0, superpose_s=100.0, load=2 * (100 + 100) / 72 / 100)
        assert len(one.tasks or ()) == len(other.tasks or ()) == 1, "offered within one stretch, not two"

    def test_an_empty_one_and_one_too_far_away(self):
        with pytest.raises(ConfigError, match="no job of the trace is in the window"):
            fit_jobs(*self.JOBS, window_s=(1.0, 2.0))
        with pytest.raises(ConfigError, match=r"submitted 1240336762 s after time 0; see window_s"):
            fit_jobs(job("a", 1_240_336_762, 1))
        assert fit_jobs(job("a", 109_000_000, 1))[0].submit_ns == 109_000_000 * S, (
            "an archive of three and a half years"
        )


class TestQueues:
    def test_by_priority(self):
        jobs = [job(str(priority), 0, 1, queue=None, priority=priority) for priority in (0, 8, 9, 11)]
        assert [one.queue for one in fit_jobs(*jobs, production_priority=9)] == ["research"] * 2 + ["production"] * 2

    def test_by_draw_of_seed_and_name_only(self):
        whole = {one.job: one.queue for one in fit(FACEBOOK_DAY, "swim", window_s=3600.0, production_fraction=0.3).jobs}
        later = fit(FACEBOOK_DAY, "swim", window_s=(1800.0, 3600.0), production_fraction=0.3).jobs
        assert {one.job: one.queue for one in later}.items() <= whole.items()
        assert 0.15 < sum(queue == "production" for queue in whole.values()) / len(whole) < 0.45

    def test_the_traces_own_or_the_only_one(self):
        assert fit_jobs(job("a", 0, 1))[0].queue == "research"
        assert fit_jobs(job("a", 0, 1), target=Target(1, 4, queues=("jobs",)))[0].queue == "jobs"
        for queue in ("other", None):
            with pytest.raises(ConfigError, match="give production_fraction or production_priority"):
                fit_jobs(job("a", 0, 1, queue=queue))
        with pytest.raises(ConfigError, match="has no priority"):
            fit_jobs(job("a", 0, 1), production_priority=9)


class TestLoad:
    """``load`` on the Facebook day's eighth hour, 427 jobs, as in natjam's section 6."""

    HOUR: dict[str, Any] = {"window_s": (25200.0, 28800.0), "production_fraction": 0.3}  # noqa: RUF012

    def test_productions_peak_just_fits_and_the_offered_load_is_reached(self):
        found = fit(FACEBOOK_DAY, "swim", load=1.3, **self.HOUR)
        assert len(found.jobs) == 427
        assert found.factors is not None
        assert found.factors.production_peak == self._peak(found.jobs, "production") <= 72
        offered = self._offered(found.jobs) / (72 * 3600)
        assert offered == pytest.approx(found.factors.offered)
        assert 1.3 <= offered < 1.35
        production = [one.job for one in found.jobs if one.queue == "production"]
        whole = [one for one in open_trace(FACEBOOK_DAY, "swim", Problems()).jobs if one.job in production]
        assert peak([self._demand(one) for one in whole], found.factors.production * (1 - 1e-9), 71) <= 72
        assert peak([self._demand(one) for one in whole], found.factors.production * (1 + 1e-9), 71) > 72
        assert max(len(one.tasks or ()) for one in found.jobs) <= 2 * 71

    def _demand(self, one: WorkloadJob) -> Demand:
        """A job's demand before its tasks are counted."""
        model = model_tasks(one, Rates(), None, None)
        maps = Group((WorkloadTask("map", model.map_ns),), model.maps)
        reduces = Group((WorkloadTask("reduce", model.reduce_ns),) if model.reduces else (), model.reduces)
        return Demand(one.submit_ns, maps, reduces)

    def _peak(self, jobs: Sequence[WorkloadJob], queue: str) -> int:
        """By hand: what starts and what ends, instant by instant."""
        changes: list[tuple[int, int]] = []
        for one in jobs:
            if one.queue == queue:
                mapped = one.submit_ns + max(one.lengths_ns("map"), default=0)
                ends = [mapped + length for length in one.lengths_ns("reduce")]
                changes += [(one.submit_ns, 1), (max([mapped, *ends]), -1)]
                for length in one.lengths_ns("map"):
                    changes += [(one.submit_ns, 1), (one.submit_ns + length, -1)]
                for end in ends:
                    changes += [(mapped, 1), (end, -1)]
        held = highest = 0
        for _, change in sorted(changes):
            held += change
            highest = max(highest, held)
        return highest

    def _offered(self, jobs: Sequence[WorkloadJob]) -> float:
        seconds = 0.0
        for one in jobs:
            maps, reduces = one.lengths_ns("map"), one.lengths_ns("reduce")
            seconds += (sum(maps) + sum(reduces) + max(maps, default=0) + max(reduces, default=0)) / S
        return seconds

    def test_recorded_tasks_are_thinned_to_their_quantiles(self):
        before = fit(FIVE_JOBS, "rumen", production_fraction=0.0).jobs
        after = fit(FIVE_JOBS, "rumen", load=0.05, production_fraction=0.0)
        assert after.factors is not None
        assert after.factors.research < 1
        assert self._offered(after.jobs) >= 0.05 * 72 * after.jobs[-1].submit_ns / S
        for old, new in zip(before, after.jobs, strict=True):
            for kind in ("map", "reduce"):
                assert set(new.lengths_ns(kind)) <= set(old.lengths_ns(kind))
                assert bool(new.lengths_ns(kind)) == bool(old.lengths_ns(kind))

    def test_a_load_that_cannot_be_had(self):
        with pytest.raises(ConfigError, match="cannot offer 5"):
            fit_jobs(job("a", 0, 1), window_s=3600.0, load=5.0)
        crowd = [job(str(number), 0, 10, queue="production") for number in range(40)]
        with pytest.raises(ConfigError, match="production's peak is 80 containers"):
            fit_jobs(*crowd, job("r", 0, 1), window_s=3600.0, load=0.5)

    def test_real_bytes_follow_the_tasks(self):
        whole = replace(job("a", 0, *[100.0] * 40), shuffle_bytes=10**9, output_bytes=10**8)
        (found,) = fit_jobs(whole, window_s=1000.0, load=(10 * 100 + 100) / 72_000, data_scale=0.5)
        assert len(found.tasks or ()) == 10
        assert (found.shuffle_bytes, found.output_bytes) == (125_000_000, 12_500_000)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5)), max_size=8),
    st.floats(0.01, 10),
)
def test_no_job_has_more_tasks_than_run_at_once_and_the_peak_grows_with_them(jobs, factor):
    demands = [
        Demand(
            submit,
            Group((WorkloadTask("map", length),) if maps else (), maps),
            Group((WorkloadTask("reduce", length),) if reduces else (), reduces),
        )
        for submit, length, maps, reduces in jobs
    ]
    low, high = sorted((factor, 2 * factor))
    assert peak(demands, low, 71) <= peak(demands, high, 71)
    assert offered_ns(demands, low, 71) <= offered_ns(demands, high, 71)
    assert sum(len(one.maps.tasks(one.maps.scaled(low, 71))) for one in demands) <= 71 * len(demands)
    assert offered_ns(demands, low, 71) <= offered_ns(demands, high, 71) or any(
        len(d.reduces.pattern) > 1 for d in demands
    )


class TestDeadlines:
    def test_alone_is_waves_and_launches(self):
        assert alone_ns((10, 10), (20,), 3, 0) == 30
        assert alone_ns((10, 10, 10), (20,), 3, 0) == 40
        assert alone_ns((10,), (20,), 3, 5) == 5 + 15 + 25
        assert alone_ns((), (20,), 3, 5) == 5 + 25
        assert alone_ns((5, 3, 4), (), 3, 0) == 7

    def test_epsilon_is_drawn_once_and_for_all(self):
        jobs = [job(f"j{number}", number, 100) for number in range(400)]
        found = fit_jobs(*jobs, deadline_factor={"uniform": (0.0, 2.0)})
        epsilons = [((one.deadline_ns or 0) - one.submit_ns) / (100 * S) - 1 for one in found]
        assert 0 <= min(epsilons) < 0.1
        assert 1.9 < max(epsilons) <= 2
        assert sum(epsilons) / 400 == pytest.approx(1, abs=0.1)
        part = fit_jobs(*jobs[200:], deadline_factor={"uniform": (0.0, 2.0)})
        assert [one.deadline_ns for one in part] == [one.deadline_ns for one in found[200:]]
        (fixed,) = fit_jobs(job("a", 7, 100), deadline_factor=0.5)
        assert fixed.deadline_ns == (7 + 150) * S
