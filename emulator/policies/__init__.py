"""The choices on each axis of a scheduler, by the names an experiment file uses.

Each entry is a plain documented function on a frozen view (``emulator.policies.views``).  A user's own is named
``module:function`` in the experiment file and needs no entry here.
"""

from emulator.policies.allocation import hard_cap, soft_cap, two_queue
from emulator.policies.job_eviction import least_resources, most_resources, probabilistic_resources
from emulator.policies.job_selection import fifo
from emulator.policies.task_eviction import longest_remaining_time, random_order, shortest_remaining_time
from emulator.policies.views import AllocationPolicy, JobEvictionPolicy, JobSelectionPolicy, TaskEvictionPolicy

ALLOCATION: dict[str, AllocationPolicy] = {"two-queue": two_queue, "hard-cap": hard_cap, "soft-cap": soft_cap}
JOB_SELECTION: dict[str, JobSelectionPolicy] = {"fifo": fifo}
JOB_EVICTION: dict[str, JobEvictionPolicy] = {
    "mr": most_resources,
    "lr": least_resources,
    "pr": probabilistic_resources,
}
TASK_EVICTION: dict[str, TaskEvictionPolicy] = {
    "srt": shortest_remaining_time,
    "lrt": longest_remaining_time,
    "random": random_order,
}

JOB_SELECTION_FOR: dict[str, str] = {"mr": "fifo", "lr": "fifo", "pr": "fifo"}
"""``job_selection: auto``: the selection that a job eviction policy dictates (natjam, section 4)."""

MECHANISMS: dict[str, str] = {
    "wait": "Nothing is preempted: urgent work waits for containers to come free.",
    "kill": "The victim is killed and starts again from nothing (or its last checkpoint).",
    "suspend": "SIGTSTP and SIGCONT: the process stays in memory on its node (os-assisted-preemption, section III).",
    "checkpoint": "The key in progress is finished, the key counter saved, the process exits (natjam, section 3.1).",
}
PLACEMENT: dict[str, str] = {
    "prefer-local": "A suspended reduce goes back to its old node where that has room, else after `delay_s` to any "
    "(natjam, section 3.1).",
}
