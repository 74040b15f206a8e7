"""The message about a run without progress: which tasks are stuck, and which jobs wait for containers.

A run makes no progress while no process works, starts or ends.  Both engines end a run as failed after
``protocol.task_timeout_s`` without progress (a live run after at least 30 real seconds, a simulation after at least
1000 heartbeats).  A live task without a sign of life is killed before that, which counts as progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import ENDED, AttemptState
from emulator.core.messages import JobState

_MOST_NAMED = 5
_ASKS = frozenset({AttemptState.NEW, AttemptState.UNASSIGNED})


def stuck_attempts(master: ApplicationMaster) -> list[str]:
    """Attempts of a job that have started and not ended, each with its state and node."""
    if master.state is not JobState.RUNNING:
        return []
    newest = (task.attempts[-1:] for task in chain(master.tasks.walkers, master.tasks.maps))
    open_attempts = (a for attempts in newest for a in attempts if a.state not in ENDED and a.state not in _ASKS)
    return [f"{attempt.name} ({attempt.state.value} on {attempt.node})" for attempt in open_attempts]


def standstill(since_ns: int, now_ns: int, stuck: Iterable[str], waiting_jobs: Iterable[str]) -> str:
    """The message to the user of a run that is ended without progress.

    Args:
        since_ns: time of the last progress.
        now_ns: now.
        stuck: attempts that have a container and make no progress.
        waiting_jobs: jobs that have not ended.
    """
    tasks = list(stuck)
    jobs = ", ".join(list(waiting_jobs)[:_MOST_NAMED])
    if not tasks:
        return (
            f"at {now_ns / 1e9:.0f} s no task runs, and {jobs} wait for containers that they cannot get: "
            "the cluster is too small for them, or the allocation policy gives them none"
        )
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return (
        f"there was no progress from {since_ns / 1e9:.0f} s to {now_ns / 1e9:.0f} s, and {jobs} have not ended; stuck: "
        f"{', '.join(tasks[:_MOST_NAMED])}{more}"
    )
