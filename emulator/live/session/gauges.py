"""The state of a run as Prometheus gauges; Ray's own endpoint on every node serves them (it needs ``ray[default]``).

All have the tag ``run``, the name of the experiment; Ray puts ``ray_`` before their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from emulator.display.status import RunStatus

TASK_STATES = ("done", "running", "suspended", "waiting")


class Gauge(Protocol):
    """A gauge of ``ray.util.metrics``."""

    def set(self, value: float, tags: dict[str, str]) -> None:
        """Set the value."""
        ...


class RunGauges:
    """The gauges of one run."""

    def __init__(self, gauge: Callable[..., Any], run: str) -> None:
        """``gauge`` makes a gauge, like ``ray.util.metrics.Gauge``."""

        def make(name: str, description: str, *tags: str) -> Gauge:
            return gauge(f"natjam_{name}", description=description, tag_keys=("run", *tags))

        self._run = {"run": run}
        self._used = make("containers_used", "Containers in use by the jobs of a queue.", "queue")
        self._total = make("containers", "Containers of the emulated cluster.")
        self._suspended = make("containers_suspended", "Stopped processes, which hold memory but no container.")
        self._tasks = make("tasks", "Maps and reduces of a queue's jobs.", "queue", "state")
        self._ended = make("jobs_ended", "Jobs of a queue that have ended.", "queue")
        self._emulated = make("emulated_seconds", "Emulated time.")
        self._lag = make("timer_lag_p99_seconds", "How late timers fire, in real time.")

    def show(self, status: RunStatus) -> None:
        """Set all gauges from a newer status."""
        self._total.set(status.containers_total, self._run)
        self._suspended.set(status.containers_suspended, self._run)
        self._emulated.set(status.emulated_ns / 1e9, self._run)
        self._lag.set((status.lag_p99_real_ms or 0) / 1e3, self._run)
        for queue, used in status.containers_used_by_queue.items():
            self._used.set(used, self._with(queue=queue))
        for queue, counts in _by_queue(status).items():
            self._ended.set(counts["ended"], self._with(queue=queue))
            for state in TASK_STATES:
                self._tasks.set(counts[state], self._with(queue=queue, state=state))

    def _with(self, **tags: str) -> dict[str, str]:
        return {**self._run, **tags}


def _by_queue(status: RunStatus) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for job in status.jobs:
        counts = found.setdefault(job.queue, Counter())
        counts.update({state: getattr(job, state) for state in TASK_STATES})
        counts["ended"] += job.ended
    return found
