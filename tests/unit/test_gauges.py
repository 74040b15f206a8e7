"""The state of a run as Prometheus gauges."""

from __future__ import annotations

from typing import Any

from emulator.display.status import JobStatus, RunStatus
from emulator.live.session.session import RunGauges

Series = tuple[tuple[str, str], ...]


class Recorder:
    """Takes the place of ``ray.util.metrics.Gauge``: refuses what that refuses, keeps each series' last value."""

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert name.isidentifier()
        assert description
        self._keys = set(tag_keys)
        self.series: dict[Series, float] = {}

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == self._keys
        self.series[tuple(sorted(tags.items()))] = value


def job(name: str, queue: str, state: str, done: int, running: int, suspended: int, waiting: int) -> JobStatus:
    return JobStatus(name, queue, state, done, running, suspended, waiting, done + running + suspended + waiting)


def test_gauges_add_up_the_jobs_of_each_queue() -> None:
    gauges: dict[str, Recorder] = {}

    def make(name: str, **options: Any) -> Recorder:
        return gauges.setdefault(name, Recorder(name, **options))

    status = RunStatus(
        emulated_ns=2_500_000_000,
        real_s=1.0,
        time_scale=20,
        phase="running",
        jobs=(
            job("a", "research", "running", 1, 2, 3, 4),
            job("b", "research", "succeeded", 5, 0, 0, 0),
            job("c", "production", "running", 0, 7, 0, 1),
        ),
        containers_total=48,
        containers_used_by_queue={"research": 3, "production": 8},
        containers_suspended=3,
        lag_p99_real_ms=None,
    )
    RunGauges(make, "mine").show(status)
    run = ("run", "mine")
    research, production = ("queue", "research"), ("queue", "production")
    assert gauges["natjam_containers"].series == {(run,): 48}
    assert gauges["natjam_containers_used"].series == {(research, run): 3, (production, run): 8}
    assert gauges["natjam_containers_suspended"].series == {(run,): 3}
    assert gauges["natjam_emulated_seconds"].series == {(run,): 2.5}
    assert gauges["natjam_timer_lag_p99_seconds"].series == {(run,): 0}
    assert gauges["natjam_jobs_ended"].series == {(research, run): 1, (production, run): 0}
    tasks = gauges["natjam_tasks"].series
    assert tasks[research, run, ("state", "done")] == 6
    assert tasks[research, run, ("state", "suspended")] == 3
    assert tasks[production, run, ("state", "running")] == 7
    assert sum(tasks.values()) == sum(entry.total for entry in status.jobs)
