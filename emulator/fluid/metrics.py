"""The cost of all jobs' ends under every metric of FLEX's paper, whatever metric the allocation has used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.core.job import JobSpec
from emulator.policies.flex.penalties import LARGEST, METRICS, ONE, SUMMED, Metric, Objective, penalty

_FORMS = {
    (True, False): "sum",
    (True, True): "weighted_sum",
    (False, False): "largest",
    (False, True): "weighted_largest",
}


def metrics_of(jobs: Sequence[JobSpec], ends_ns: Mapping[str, int], containers: int) -> dict[str, dict[str, float]]:
    """By metric and form: ``sum``, ``weighted_sum``, ``largest``, ``weighted_largest``.

    Seconds; stretch, the number of tardy jobs and the cost of agreements are plain numbers.
    """
    found: dict[str, dict[str, float]] = {}
    for name in METRICS:
        for (total, weighted), form in _FORMS.items():
            if (total and name in LARGEST) or (not total and name in SUMMED):
                continue
            metric = Metric(name, weighted, total)
            penalties = [penalty(metric, job.facts, job.submit_ns, alone_ns(job, containers), 0) for job in jobs]
            cost = Objective(penalties, metric.total).cost([ends_ns[job.name] for job in jobs])
            found.setdefault(name, {})[form] = cost / ONE / 1e9
    return found


def alone_ns(job: JobSpec, containers: int) -> int:
    """How long it takes alone on the cluster."""
    work_ns = sum(job.map_ns) + sum(job.reduce_ns)
    return work_ns // max(1, min(job.facts.most_containers, containers))
