"""What has been measured so far: the work that jobs have left, and what preemption costs on this cluster.

Theory of operation
-------------------
How much work jobs have left is estimated (flex, sections 2.5 and 4.2).  The work of a task is the time that it holds a
container; for a reduce, from the time when it has its input.  This time counts if its result is kept: the task has
succeeded, or was saved or stopped.  The mean of a job's tasks is this time divided by the number of finished tasks; the
work left is the mean times the number of tasks left, group by group.  The workload may give the mean beforehand.  If no
task of a group has finished yet, the mean over all jobs so far is used; before any task has finished, every task counts
as one second.

What preemption has cost so far is taken from the containers' reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from typing import NamedTuple

from emulator.core.messages import ContainerReport, ContainerState, Outcome
from emulator.core.resource_manager.applications import Application, CompletedWork, HeldContainer
from emulator.vocabulary import MeasuredCosts, TaskGroup, Work

_UNKNOWN_TASK_NS = 10**9


class WorkOf(NamedTuple):
    """A job's work, in container-nanoseconds."""

    whole_ns: int
    left_ns: int
    guessed: bool
    """Whether some tasks are left of a kind that nothing is known of yet."""


class WorkLedger:
    """The work that tasks have completed, as the ResourceManager knows it (see the module's theory of operation)."""

    def __init__(self) -> None:
        self._all = {work: CompletedWork() for work in Work}
        """The completed work of all jobs, by what the tasks do."""

    def left(self, application: Application, held: HeldContainer, report: ContainerReport, now_ns: int) -> None:
        """``held`` leaves its slot."""
        finished = report.outcome is Outcome.SUCCEEDED
        if finished or report.outcome is Outcome.CHECKPOINTED or report.state is not ContainerState.DONE:
            since_ns = max(held.slot_ns, report.input_ready_ns or 0)
            for done in (application.done[held.group.name], self._all[held.group.work]):
                done.add(max(0, now_ns - since_ns), finished)

    def of(self, application: Application, works: Container[Work]) -> WorkOf:
        """The work of the job's tasks that do one of these."""
        whole_ns, left_ns, guessed = 0, 0, False
        for group in application.of_work(works):
            done, requests = application.done[group.name], application.requests
            count, given_ns = group.count, group.mean_ns
            # A finished map whose output was lost runs again: at least as many as are running or requested.
            open_tasks = application.held[group.name] + requests.wanted(group.name)
            left = max(count - done.tasks, open_tasks)
            mean_ns = given_ns if given_ns is not None else self._mean_ns(done, group)
            guessed |= left > 0 and given_ns is None and not done.tasks
            whole_ns += count * mean_ns
            left_ns += left * mean_ns
        return WorkOf(whole_ns, left_ns, guessed)

    def begun_ns(self, application: Application, running: Iterable[HeldContainer], now_ns: int) -> int:
        """What those tasks of the job have probably done: as long as they have had their containers, none longer than
        the mean.  A reduce's wait for its input passes for work here: when that was over its end tells."""
        found_ns = 0
        for held in running:
            group = held.group
            mean_ns = group.mean_ns
            if mean_ns is None:
                mean_ns = self._mean_ns(application.done[group.name], group)
            found_ns += min(now_ns - held.slot_ns, mean_ns)
        return found_ns

    def _mean_ns(self, done: CompletedWork, group: TaskGroup) -> int:
        for known in (done, self._all[group.work]):
            if known.tasks:
                return max(1, known.work_ns // known.tasks)
        return _UNKNOWN_TASK_NS


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


def _means() -> dict[str, _Mean]:
    return {what: _Mean() for what in ("schedule", "suspend", "resume")}


class CostLedger:
    """Running means of schedule, suspend and resume costs, for the cluster and for each node; policies use them."""

    def __init__(self) -> None:
        self._means: defaultdict[str | None, dict[str, _Mean]] = defaultdict(_means)
        """Of each node, and of the cluster, under None: by what was measured."""

    def take(self, report: ContainerReport, resumed: bool, now_ns: int) -> None:
        """A container became free at ``now_ns``; ``resumed``: it was given to a suspended task."""
        begin_ns = max(report.ready_ns, report.input_ready_ns or 0)
        gave_way = report.state is ContainerState.SUSPENDED or report.outcome is Outcome.CHECKPOINTED
        for means in (self._means[None], self._means[report.node]):
            # An earlier first key belongs to the launch before a resume.
            if report.first_key_ns is not None and report.first_key_ns >= begin_ns:
                means["resume" if resumed else "schedule"].add(report.first_key_ns - begin_ns)
            if gave_way and report.suspend_asked_ns is not None:
                means["suspend"].add(now_ns - report.suspend_asked_ns)

    def measured(self, node: str | None = None) -> MeasuredCosts:
        """The means so far: of one node, or of the cluster."""
        if node not in self._means:
            return MeasuredCosts()
        means = self._means[node]
        return MeasuredCosts(means["schedule"].value(), means["suspend"].value(), means["resume"].value())
