"""What the scheduler of whole machines knows of a job."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.sites.kubernetes import Pod, PodDetails


@dataclass(slots=True)
class Job:
    """A pod, with those that come in its place one after the other."""

    first: Pod
    """The first of them."""
    details: PodDetails
    group: str
    """Of its task."""
    grace_ns: int
    """How long its process goes on when it has been evicted; the pod's own grace may be longer."""
    pod: str = ""
    """The present pod."""
    made: int = 0
    """How many pods there were."""
    wants: int = 0
    """Containers that the job waits for."""
    node: str | None = None
    """Where the present pod is bound."""
    why: str = ""
    """Why it is bound there."""
    container: str | None = None
    """Of the present pod."""
    resumes: int | None = None
    """Number of the task, if it goes on where it was saved or stopped."""
    stopped: str | None = None
    """Node of its stopped process."""
    has_ended: bool = False
    """Whether the present pod has left its node by itself."""
