"""What a job owes on single nodes, where containers have several sizes.

Theory of operation
-------------------
The ResourceManager says how much the job's tasks may go on holding of a node (``Answer.keeps``).  The job owes what
they hold beyond that, without those that are leaving: victims, and tasks that commit.  So a task that ends by itself
pays as well, and a limit that is told again changes nothing.  The whole set of limits is told each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from emulator.core.application_master.task import VICTIM, AttemptState, TaskAttempt
from emulator.core.mechanisms import keeps_processes
from emulator.core.settings import Settings
from emulator.policies.resources import irreducible, lacking, minus, total
from emulator.policies.views import TaskView
from emulator.vocabulary import JobFacts, Resources


class NodeDebts:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, facts: JobFacts, settings: Settings, live: Mapping[str, TaskAttempt]) -> None:
        self.keeps: dict[str, Resources] = {}
        """The limits, by node."""
        self._live = live
        self._requests = {group.name: group.request for group in facts.groups}
        self._nodes = settings.nodes_by_name
        self._may_stop = keeps_processes(settings.scheduler.mechanism.among)

    @property
    def owed(self) -> dict[str, Resources]:
        """By node, what is owed and no task is leaving for."""
        if not self.keeps:  # most often
            return {}
        owed = {node: lacking(self._stays(node), keep) for node, keep in self.keeps.items()}
        return {node: short for node, short in owed.items() if any(short)}

    def choose(self, tasks: Iterable[TaskView], order: Iterable[str]) -> tuple[str, ...]:
        """The first containers of ``order``, which are those of ``tasks``, that pay what is owed, none of them in vain.
        On a node where they are not enough yet none is chosen: one that comes later might do alone."""
        by_container = {task.container: task for task in tasks}
        in_order = [by_container[container] for container in order]
        chosen: list[TaskView] = []
        for node, short in self.owed.items():
            chosen += irreducible(short, [task for task in in_order if task.node == node], self._frees) or ()
        return tuple([task.container for task in chosen])

    def _stays(self, node: str) -> Resources:
        """What the tasks there go on holding."""
        here = [attempt for attempt in self._live.values() if attempt.node == node]
        return total((self._goes_on_holding(attempt) for attempt in here), self._nodes[node].resource_names)

    def _goes_on_holding(self, attempt: TaskAttempt) -> Resources:
        request, node = self._requests[attempt.group], self._nodes[attempt.node or ""]
        if attempt.state is AttemptState.COMMIT_PENDING:
            return (0,) * len(request)
        if attempt.state is AttemptState.SUSPENDED:
            return node.held_when_stopped(request)
        if attempt.state in VICTIM:
            return minus(request, node.freed_for_certain(request, self._may_stop))
        return request

    def _frees(self, task: TaskView) -> Resources:
        return self._nodes[task.node].freed_for_certain(self._requests[task.group], self._may_stop)
