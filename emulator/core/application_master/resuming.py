"""Which of a job's suspended tasks resumes first: the ApplicationMaster asks the resume order policy.

The ResourceManager serves the resumes of an ask in the order of the list.  Maps always come first, whatever the policy
says, because a reduce that resumes before them might have to wait for their output.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.application_master.releaser import Releaser
from emulator.core.application_master.task import AttemptState, TaskAttempt
from emulator.core.decisions import order_suspended
from emulator.policies.policy import Policy, ResumeOrder
from emulator.policies.views import SuspendedView
from emulator.vocabulary import Work


class Resuming:
    """Puts the suspended tasks of one job in order."""

    def __init__(self, policy: Policy[ResumeOrder], releaser: Releaser) -> None:
        """``releaser``: provides the view that the job's policies see."""
        self._policy = policy
        self._releaser = releaser

    def in_order(self, attempts: Iterable[TaskAttempt], now_ns: int) -> list[TaskAttempt]:
        """The attempts that wait to resume, in the order of service.  Raises PolicyError."""
        by_view = {self._view_of(attempt): attempt for attempt in attempts}
        if not by_view:
            return []
        ordered = order_suspended(self._policy, self._releaser.view(now_ns), tuple(by_view))
        return sorted((by_view[view] for view in ordered), key=_maps_first)

    def _view_of(self, attempt: TaskAttempt) -> SuspendedView:
        stopped = attempt.state is AttemptState.SUSPENDED
        node = attempt.node if stopped else attempt.saved.node if attempt.saved is not None else None
        assert node is not None, f"{attempt.name} waits to go on and was nowhere"
        suspended_ns = attempt.suspended_ns or 0
        return SuspendedView(
            job=self._releaser.job,
            group=attempt.group,
            task=attempt.task.number,
            node=node,
            suspended_ns=suspended_ns,
            since_ns=suspended_ns,
            stopped=stopped,
            # The rate alone decides: the time it spent suspended says nothing about its remaining time.
            remaining_ns=attempt.estimate.unanchored().remaining_ns(attempt.keys_total, 0),
        )


def _maps_first(attempt: TaskAttempt) -> bool:
    return attempt.work is not Work.SHUFFLE
