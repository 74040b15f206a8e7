"""The status of jobs and cluster, read from the state machines for the display; the same for every engine."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from emulator.core.application_master.task import AT_WORK, AttemptState, TaskState
from emulator.core.job import JobSpec
from emulator.core.messages import JobState
from emulator.display.status import ClusterStatus, JobStatus

if TYPE_CHECKING:  # who asks about one machine need not import the others
    from emulator.core.application_master.application_master import ApplicationMaster
    from emulator.core.client import Client
    from emulator.core.resource_manager.resource_manager import ResourceManager

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
