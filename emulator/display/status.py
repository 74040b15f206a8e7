"""The state of a run at one time, which engines read from the machines and report, and displays show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from emulator.core.application_master.task import AT_WORK, ENDED, AttemptState, TaskState
from emulator.core.job import JobSpec
from emulator.core.messages import JobState
from emulator.vocabulary import Frozen

if TYPE_CHECKING:  # who asks about one machine need not import the others
    from emulator.core.application_master.application_master import ApplicationMaster
    from emulator.core.client import Client
    from emulator.core.resource_manager.resource_manager import ResourceManager


class JobStatus(Frozen):
    """One job's tasks, maps and reduces together; ``done + running + suspended + waiting == total``."""

    name: str
    queue: str
    state: str
    """``submitted`` (also before its submission), ``running``, ``succeeded``, ``failed`` or ``killed``."""
    done: int
    running: int
    suspended: int
    waiting: int
    total: int

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "killed")


class ClusterStatus(Frozen):
    """The cluster as known to the ResourceManager."""

    emulated_ns: int
    used_by_queue: Mapping[str, int]
    suspended: int
    job_states: Mapping[str, str]
    """By submitted job: ``submitted``, or how it ended."""


class RunStatus(Frozen):
    """The state of a run at one time."""

    emulated_ns: int
    real_s: float
    """Time since the start of the command."""
    time_scale: float
    phase: str
    """What the run does now: ``starting Ray``, ``running``, ``verifying the output`` ..."""
    jobs: tuple[JobStatus, ...]
    containers_total: int
    """Of one size; 0: they have the sizes that their tasks request, so how many there can be is not known."""
    containers_used_by_queue: Mapping[str, int]
    containers_suspended: int
    """Stopped processes, which hold memory but no container."""
    lag_p99_real_ms: float | None
    journal: Sequence[bytes] = ()
    """Encoded records since the status before; live engine only."""
    repeat: int = 1
    """Number of the repeat."""


_ON_CONTAINER = AT_WORK | {AttemptState.COMMIT_PENDING}
_STOPPED = frozenset({AttemptState.SUSPENDED, AttemptState.RESUMING})


def cluster_status(manager: ResourceManager, client: Client, now_ns: int) -> ClusterStatus:
    """The cluster at the emulated time ``now_ns``."""
    used: dict[str, int] = {}
    for application in manager.state.applications.values():
        used[application.queue] = used.get(application.queue, 0) + application.slots
    suspended = sum(node.ledger.stopped for node in manager.state.nodes.values())
    states = dict.fromkeys(manager.state.applications, "submitted")
    states |= {job: state.value for job, state in client.states.items()}
    return ClusterStatus(now_ns, used, suspended, states)


def job_status(master: ApplicationMaster, queue: str) -> JobStatus:
    """One job, from its ApplicationMaster."""
    done = running = suspended = 0
    for task in chain(master.tasks.maps, master.tasks.walkers):
        if task.state is TaskState.SUCCEEDED:
            done += 1
        elif task.attempts:
            newest = task.attempt
            if any(attempt.state in _ON_CONTAINER for attempt in task.attempts):
                running += 1
            elif newest.state in _STOPPED or (newest.saved is not None and newest.container is None):
                suspended += 1
    ended = master.state in (JobState.SUCCEEDED, JobState.FAILED)
    state = master.state.value if ended else "running"
    total = len(master.tasks.maps) + len(master.tasks.walkers)
    return JobStatus(master.job, queue, state, done, running, suspended, total - done - running - suspended, total)


def unstarted_job_status(job: JobSpec, state: str | None) -> JobStatus:
    """A job whose ApplicationMaster has not reported yet; ``state`` is the ResourceManager's, if it has one."""
    total = len(job.map_ns) + len(job.reduce_ns)
    return JobStatus(job.name, job.queue, state or "submitted", 0, 0, 0, total, total)


_MAX_NAMED = 5
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
    jobs = ", ".join(list(waiting_jobs)[:_MAX_NAMED])
    if not tasks:
        return (
            f"at {now_ns / 1e9:.0f} s no task runs, and {jobs} wait for containers that they cannot get: "
            "the cluster is too small for them, or the allocation policy gives them none"
        )
    more = f" and {len(tasks) - _MAX_NAMED} more" if len(tasks) > _MAX_NAMED else ""
    return (
        f"there was no progress from {since_ns / 1e9:.0f} s to {now_ns / 1e9:.0f} s, and {jobs} have not ended; stuck: "
        f"{', '.join(tasks[:_MAX_NAMED])}{more}"
    )
