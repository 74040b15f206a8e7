"""What preemption has cost on this cluster so far, from the containers' reports."""

from __future__ import annotations

from collections import defaultdict

from emulator.core.messages import ContainerReport, ContainerState, Outcome
from emulator.vocabulary import MeasuredCosts


class _Mean:
    __slots__ = ("_count", "_sum_ns")

    def __init__(self) -> None:
        self._count = 0
        self._sum_ns = 0

    def add(self, cost_ns: int) -> None:
        self._count += 1
        self._sum_ns += max(0, cost_ns)

    def value(self) -> int | None:
        return self._sum_ns // self._count if self._count else None


class _Means:
    __slots__ = ("resume", "schedule", "suspend")

    def __init__(self) -> None:
        self.schedule, self.suspend, self.resume = _Mean(), _Mean(), _Mean()

    def value(self) -> MeasuredCosts:
        return MeasuredCosts(self.schedule.value(), self.suspend.value(), self.resume.value())


class CostLedger:
    """Running means of schedule, suspend and resume costs, for the cluster and for each node; policies use them."""

    def __init__(self) -> None:
        self._cluster = _Means()
        self._nodes: defaultdict[str, _Means] = defaultdict(_Means)

    def take(self, report: ContainerReport, resumed: bool, now_ns: int) -> None:
        """A container became free at ``now_ns``; ``resumed``: it was given to a suspended task."""
        begin_ns = max(report.ready_ns, report.input_ready_ns or 0)
        gave_way = report.state is ContainerState.SUSPENDED or report.outcome is Outcome.CHECKPOINTED
        for means in (self._cluster, self._nodes[report.node]):
            # An earlier first key belongs to the launch before a resume.
            if report.first_key_ns is not None and report.first_key_ns >= begin_ns:
                (means.resume if resumed else means.schedule).add(report.first_key_ns - begin_ns)
            if gave_way and report.suspend_asked_ns is not None:
                means.suspend.add(now_ns - report.suspend_asked_ns)

    def measured(self, node: str | None = None) -> MeasuredCosts:
        """The means so far: of one node, or of the cluster."""
        if node is None:
            return self._cluster.value()
        return self._nodes[node].value() if node in self._nodes else MeasuredCosts()
