"""Speculative execution: a second attempt beside one that straggles (natjam, section 3.2; Hadoop's, after LATE).

Theory of operation
-------------------
An attempt straggles when its progress rate is below the mean of the job's by a margin, after it has run for some time.
What is compared are the rates of attempts, ``emulator.core.estimator``: keys a second, so that a long task is not taken
for a slow one, with the time they were suspended left out, so that one that was evicted is not either.  Attempts that
have ended count in the mean: when only stragglers are left, they are still slow.

The second attempt starts afresh and waits for a container like any other.  It is made only when nothing else of the
job waits, a few at a time, those with the most time left first (LATE).  The first of the two to succeed wins and the
other is killed; either may be evicted, and when both have been, the task goes on from the checkpoint, or with the
stopped process, that has come further.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from emulator.core.settings import SpeculationSettings
from emulator.core.task import Task, TaskState
from emulator.core.task_attempt import AttemptState, TaskAttempt

BEATEN = "another attempt at the task is ahead"
"""Why a rival is killed."""
_PPM = 1_000_000


def stragglers(
    settings: SpeculationSettings, reduces: Sequence[Task], live: Collection[TaskAttempt], now_ns: int
) -> list[Task]:
    """The tasks that get a second attempt now, the one with the most time left first.

    ``live`` are the job's reduces that have a container.
    """
    speculating = sum(task.speculative for task in reduces)
    room = max(1, len(live) * settings.at_most_ppm // _PPM) - speculating
    if room <= 0:
        return []
    rates = [rate for task in reduces for attempt in task.attempts if (rate := attempt.estimate.rate)]
    slow: list[tuple[int, int]] = []
    for attempt in live:
        task, rate = reduces[attempt.task.number], attempt.estimate.rate
        if attempt.state is not AttemptState.RUNNING or attempt.victim or not rate:
            continue
        if task.state is not TaskState.RUNNING or task.speculative:
            continue
        # rate < (1 - margin) x mean, in whole numbers
        lags = rate * len(rates) * _PPM < sum(rates) * (_PPM - settings.margin_ppm)
        left_ns = attempt.estimate.remaining_ns(task.keys_total, now_ns)
        if lags and left_ns and now_ns - attempt.running_ns >= settings.after_ns:
            slow.append((-left_ns, attempt.task.number))
    return [reduces[task] for _, task in sorted(slow)[:room]]
