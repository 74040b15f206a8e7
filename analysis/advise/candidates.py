"""The candidates to compare: every mechanism under the main policies, each as variants of a campaign.

Mechanisms are those of ``natjam policies``.  Policies are the experiment's own.  If queues take containers from each
other (natjam, section 2), there are also: the job with the most containers, or one drawn in proportion; the task with
the least or the most time left.  Under YARN's CapacityScheduler the policies are its preemption as configured, its
quickest preemption, and Natjam's two queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.campaign.definition import as_overrides
from emulator.campaign.plan import Variant
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment, Scheduler
from emulator.policies import ALLOCATION, MECHANISM

WAIT = "wait"
NO_POLICIES = "-"
"""For ``wait``: with every policy, nothing is taken."""
_PRODUCTION = "production"
_NEEDS_TIER = ("image", "adaptive")
_DEFAULT_TIER = "ssd"
_QUICKEST = {
    "interval_s": 1,
    "max_wait_before_kill_s": 1,
    "total_preemption_per_round": 1,
    "natural_termination_factor": 1,
    "max_ignored_over_capacity": 0,
}
"""YARN's preemption at its quickest: everything above a queue's capacity, at once, every second."""
_QUICKEST_PER_HEARTBEAT = 100
_NATJAM = (("mr", "srt"), ("mr", "lrt"), ("pr", "srt"))
"""Pairs of job eviction and task eviction."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run the workload."""

    name: str
    mechanism: str
    policies: str
    settings: Mapping[str, Any]
    """By the dotted keys of an experiment file; they replace the file's."""


@dataclass(frozen=True, slots=True)
class Question:
    """The user's question: the workload, the queue whose jobs are urgent, and the ways to run it."""

    experiment: Experiment
    path: Path
    production: str
    queues: tuple[str, ...]
    """The production queue first."""
    candidates: tuple[Candidate, ...]
    assumed: tuple[str, ...]
    """Assumed settings that differ from the experiment's, in words."""

    def variants(
        self, candidates: Sequence[Candidate], overrides: Sequence[str], seeds: Sequence[int]
    ) -> list[Variant]:
        """The candidates as variants of a campaign.  Raises ConfigError: one of them cannot be run."""
        return [
            Variant(one.name, load_experiment(self.path, [*overrides, *as_overrides(dict(one.settings))]), tuple(seeds))
            for one in candidates
        ]


def make_question(path: Path, overrides: Sequence[str], production: str | None) -> Question:
    """What to compare for the experiment in a file.

    Args:
        path: of the experiment.
        overrides: ``a.b=value`` each.
        production: the queue whose jobs are urgent; None: the one called ``production``, or else the file's first.

    Raises:
        ConfigError: the experiment is not valid, or nothing in it can be preempted.
    """
    experiment = load_experiment(path, [*overrides, "engine=sim"])
    allocation = experiment.scheduler.allocation
    names = list(allocation.queues)
    if production is not None and production not in names:
        raise ConfigError(f"--production {production}: there is no such queue (queues: {', '.join(names)})")
    first = production or (_PRODUCTION if _PRODUCTION in names else names[0])
    queues = (first, *(name for name in names if name != first))
    assumed: list[str] = []
    tier = {} if experiment.storage.tier is not None else {"storage.tier": _DEFAULT_TIER}
    if tier:
        assumed.append(f"process images go to a storage device of the kind '{_DEFAULT_TIER}' (storage.tier)")
    policies = tuple(_policies(experiment.scheduler, queues, assumed))
    candidates = [Candidate(WAIT, WAIT, NO_POLICIES, {**policies[0][1], "scheduler.mechanism": WAIT})]
    for mechanism in MECHANISM.names:
        for name, settings in policies if mechanism != WAIT else ():
            own = {"scheduler.mechanism": mechanism, **(tier if mechanism in _NEEDS_TIER else {})}
            label = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{mechanism}-{name}")
            candidates.append(Candidate(label, mechanism, name, {**settings, **own}))
    return Question(experiment, path, first, queues, tuple(candidates), tuple(assumed))


def _policies(
    scheduler: Scheduler, queues: tuple[str, ...], assumed: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and settings of each policy to compare, the experiment's own first."""
    allocation = scheduler.allocation
    known = ALLOCATION.by_name.get(allocation.name)
    jobs, tasks = scheduler.choice("job_eviction").name, scheduler.choice("task_eviction").name
    if allocation.name == "yarn-capacity":
        yield from _yarn_policies(scheduler, queues, assumed)
        return
    if known is not None and (not known.preempts or known.gives_shares):
        if len(queues) < 2:
            raise ConfigError(
                f"the experiment has one queue under {allocation.name}, so nothing would be preempted; give it a queue"
                " production and another one, or name a trace (workload.trace.production_fraction splits its jobs)"
            )
        assumed.append(f"the allocation is two-queue, because {allocation.name} takes nothing back from a queue")
        yield from ((f"{job}, {task}", _two_queue(scheduler, queues, job, task)) for job, task in _NATJAM)
        return
    yield f"{jobs}, {tasks}", {}
    # with one queue, job_eviction decides the order of jobs, so it is not changed
    for job, task in _NATJAM if len(queues) > 1 else ((jobs, "srt"), (jobs, "lrt")):
        if (job, task) != (jobs, tasks):
            yield f"{job}, {task}", {"scheduler.job_eviction": job, "scheduler.task_eviction": task}


def _yarn_policies(
    scheduler: Scheduler, queues: tuple[str, ...], assumed: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    own: dict[str, Any] = {}
    if not scheduler.choice("allocation").options.get("preemption"):
        assumed.append("YARN's preemption is on, with Hadoop's defaults, although the configuration has it off")
        own["scheduler.allocation.preemption"] = {}
    yield "as configured" if not own else "Hadoop's defaults", own
    prefix = "scheduler.allocation"
    quickest = {f"{prefix}.preemption": _QUICKEST, f"{prefix}.offswitch_per_heartbeat": _QUICKEST_PER_HEARTBEAT}
    yield "YARN at its quickest", quickest
    if len(queues) > 1:
        yield "two-queue, mr, srt", _two_queue(scheduler, queues, "mr", "srt")


def _two_queue(scheduler: Scheduler, queues: tuple[str, ...], job: str, task: str) -> dict[str, Any]:
    """Natjam's allocation instead of the experiment's.  A hard cap's maximum was the capacity; it is removed."""
    capped = scheduler.allocation.name == "hard-cap"
    shares = {name: scheduler.allocation.queues[name] for name in queues}
    return {
        "scheduler.allocation": {
            "name": "two-queue",
            "queues": {
                name: {"capacity": queue.capacity, "maximum": 1.0 if capped else queue.maximum}
                for name, queue in shares.items()
            },
        },
        "scheduler.job_selection": "auto",
        "scheduler.job_eviction": job,
        "scheduler.task_eviction": task,
    }
