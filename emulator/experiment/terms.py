"""How a job's tasks are evicted, and how often they save by themselves: as the job says, or else its queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from emulator.core.job import JobSpec
from emulator.experiment.model import Experiment, Queue
from emulator.files.times import seconds_to_ns
from emulator.vocabulary import Mechanism
from workloads.schema import JobEntry


def with_terms(job: JobSpec, queue: Queue | None, entry: JobEntry | None) -> JobSpec:
    """The job on the terms of its ``entry``, or else of its ``queue``; None: there is none."""
    said: dict[str, float] = {}
    facts: dict[str, Any] = {}
    for terms in (queue, entry):
        if terms is not None:
            of_these = (terms.grace_s, terms.minimum_runtime_s, terms.checkpoint_period_s)
            names = ("grace_ns", "minimum_runtime_ns", "checkpoint_period_ns")
            said |= {name: of_this for name, of_this in zip(names, of_these, strict=True) if of_this is not None}
            facts |= {"mechanism": Mechanism(terms.mechanism)} if terms.mechanism is not None else {}
    facts |= {name: seconds_to_ns(seconds) for name, seconds in said.items() if seconds}
    return replace(job, facts=replace(job.facts, **facts)) if facts else job


def own_mechanisms(experiment: Experiment) -> Iterator[Mechanism]:
    """What may happen to tasks of queues and jobs that name a mechanism of their own."""
    for terms in (*experiment.scheduler.allocation.queues.values(), *(experiment.workload.jobs or ())):
        if terms.mechanism is not None:
            yield Mechanism(terms.mechanism)
