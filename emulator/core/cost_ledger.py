"""What preemption has cost on this cluster so far, from the containers' own reports."""

from __future__ import annotations

from emulator.core.messages import ContainerReport, ContainerState, MeasuredCosts, Outcome


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


class CostLedger:
    """Running means of the cluster's schedule, suspend and resume costs, for policies to weigh."""

    def __init__(self) -> None:
        self._schedule, self._suspend, self._resume = _Mean(), _Mean(), _Mean()

    def take(self, report: ContainerReport, resumed: bool, now_ns: int) -> None:
        """A container has come free at ``now_ns``; ``resumed``: it was given to a suspended reduce."""
        begin_ns = max(report.ready_ns, report.input_ready_ns or 0)
        if report.first_key_ns is not None and report.first_key_ns >= begin_ns:  # else of the launch before a resume
            (self._resume if resumed else self._schedule).add(report.first_key_ns - begin_ns)
        gave_way = report.state is ContainerState.SUSPENDED or report.outcome is Outcome.CHECKPOINTED
        if gave_way and report.suspend_asked_ns is not None:
            self._suspend.add(now_ns - report.suspend_asked_ns)

    def measured(self) -> MeasuredCosts:
        """The means so far."""
        return MeasuredCosts(self._schedule.value(), self._suspend.value(), self._resume.value())
