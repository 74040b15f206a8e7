"""The gang of a job: tasks that get room at once, and give it back all together.

Theory of operation
-------------------
A job with a gang has a minimum: so many of its tasks, or all that are not done if they are fewer, start at once.  As
long as none of its tasks has a container, its ask says so (``Ask.at_once``); what is beyond the minimum, it gets one
by one.  All its tasks ask from the start, reduces too.

Tasks that end by themselves leave a smaller gang, which goes on.  But if one is lost to it (it crashed, its node is
gone, it is asked back or was ordered to stop) and too few are left, the gang *disbands*: all its tasks are evicted by
the job's mechanism.  One that cannot be saved or stopped, because the mechanism waits or the node has no room, is
killed; so is one that is being launched.  Until the last has left its container the job asks for nothing, and gives
back at once what it gets.  Then it asks for all again, so that its tasks resume together.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.application_master.task import VICTIM, AttemptState, TaskAttempt

_LEFT = VICTIM | {AttemptState.SUSPENDED}


class Gang:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, minimum: int) -> None:
        self.disbands = False
        """Whether its tasks are being evicted."""
        self.has_lost = False
        """Whether a task was lost to it, or is to be given back, since this was last looked at."""
        self.was_in = False
        """Whether a task had a container when this was last looked at."""
        self._minimum = minimum

    def needs(self, unfinished: int) -> int:
        """Tasks that must run at a time, if so many are not done."""
        return min(self._minimum, unfinished)

    @staticmethod
    def is_in(live: Mapping[str, TaskAttempt]) -> bool:
        """Whether a task has a container; a stopped process has none."""
        return any(attempt.state is not AttemptState.SUSPENDED for attempt in live.values())

    @staticmethod
    def stays(live: Mapping[str, TaskAttempt]) -> int:
        """Number of tasks that have a container and are to keep it."""
        return len({attempt.task for attempt in live.values() if attempt.state not in _LEFT})

    @staticmethod
    def to_evict(live: Mapping[str, TaskAttempt]) -> list[TaskAttempt]:
        """Tasks that can be evicted now; the others will come to this state, or end."""
        return [a for a in live.values() if a.state is AttemptState.RUNNING or a.is_being_restored]

    @staticmethod
    def being_launched(live: Mapping[str, TaskAttempt]) -> list[TaskAttempt]:
        """Tasks that have done nothing yet."""
        return [a for a in live.values() if a.state is AttemptState.ASSIGNED and not a.is_being_restored]
