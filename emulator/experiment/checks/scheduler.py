"""Checks of the scheduler that need several of its keys."""

from __future__ import annotations

import math
from collections.abc import Iterator

from emulator.experiment.model import Queue, Scheduler, Workload, located_jobs
from emulator.files.problems import Problem
from emulator.files.strict import NAME_RULE, is_name
from emulator.files.yaml_values import Location
from emulator.policies import axes as policies
from emulator.policies.policy import Maximum, QueueRules, SchedulerAllocation, ShareAllocation, TakesBack
from workloads.schema import JobEntry

FLUID = "fluid"
YARN = "yarn-capacity"


def scheduler_checks(scheduler: Scheduler, workload: Workload | None, engine: str) -> list[Iterator[Problem]]:
    """Problems of the scheduler, check by check."""
    return [
        _queues(scheduler),
        _tree(scheduler),
        _spared(scheduler, workload),
        _mechanism(scheduler, workload),
        _selection(scheduler),
        _shares(scheduler, engine),
    ]


def _queues(scheduler: Scheduler) -> Iterator[Problem]:
    allocation = scheduler.allocation
    where: Location = ("scheduler", "allocation", "queues")
    known = allocation.known
    rules = QueueRules() if known is None else known.queues
    total = math.fsum(queue.capacity for queue in allocation.queues.values())
    if total > 1 + 1e-9:
        yield where, f"the capacities add up to {total:g}; lower them to a sum of 1 or less"
    for name, queue in allocation.queues.items():
        if not is_name(name):
            yield (*where, name), f"the name of a queue must be {NAME_RULE}"
        if rules.most == 1 and queue.maximum != 1:
            yield (
                (*where, name, "maximum"),
                f"a single queue has the whole cluster: 1, not {queue.maximum:g}; remove it",
            )
        elif queue.maximum == 0:
            yield (*where, name, "maximum"), "must be greater than 0, or no job of the queue can ever run"
        elif queue.capacity > queue.maximum:
            message = f"{queue.capacity:g} is above the queue's maximum {queue.maximum:g}; lower it"
            yield (*where, name, "capacity"), message
        elif rules.maximum is Maximum.CAPACITY and queue.maximum != queue.capacity:
            yield (
                (*where, name, "maximum"),
                f"under {allocation.name} the maximum is the capacity, {queue.capacity:g}, not {queue.maximum:g};"
                " remove it, make them equal, or use soft-cap",
            )
    count = len(allocation.queues)
    if rules.most is not None and count > rules.most:
        yield where, f"{allocation.name} needs one queue, for all jobs, not {count}; keep one"
    if count < rules.fewest:
        yield where, f"{allocation.name} needs {rules.fewest} queues or more, the most urgent first, not {count}"


def _tree(scheduler: Scheduler) -> Iterator[Problem]:
    """The queues that YARN's options name."""
    allocation, where = scheduler.allocation, ("scheduler", "allocation")
    if allocation.name != YARN:
        return
    options = allocation.model_extra or {}
    parents, spared = options.get("parents") or {}, options.get("disable_preemption") or ()
    if not isinstance(parents, dict) or not isinstance(spared, (list, tuple)):
        return  # said where options are read
    for name in spared:
        if name not in allocation.queues:
            yield (*where, "disable_preemption"), f"there is no queue {name!r}; name one of queues"
    for name in options.get("settings") or ():
        if name not in (*allocation.queues, *parents, "root"):
            yield (*where, "settings", name), f"there is no queue {name!r}; name one of queues or parents, or root"
    seen: dict[str, str] = {}
    for name, parent in parents.items():
        inside = parent.get("queues") if isinstance(parent, dict) else None
        here: Location = (*where, "parents", name)
        if name in allocation.queues:
            yield here, "is a queue with jobs as well; give it another name"
        for child in inside or ():
            if child not in allocation.queues and child not in parents:
                yield here, f"there is no queue {child!r}; name one of queues or parents"
            elif seen.setdefault(child, name) != name:
                yield here, f"the queue {child} is in {seen[child]} as well; leave it in one"
        above = name
        for _ in parents:
            above = seen.get(above, "")
        if above in parents:
            yield here, "is in itself, over other parents; leave one of them out"


def with_terms(scheduler: Scheduler, workload: Workload | None) -> Iterator[tuple[Location, Queue | JobEntry]]:
    """The queues and the jobs, which may have terms of their own."""
    for name, queue in scheduler.allocation.queues.items():
        yield ("scheduler", "allocation", "queues", name), queue
    yield from located_jobs(workload)


def _spared(scheduler: Scheduler, workload: Workload | None) -> Iterator[Problem]:
    known = scheduler.allocation.known
    if not isinstance(known, SchedulerAllocation) or known.spares:
        return
    for where, terms in with_terms(scheduler, workload):
        if terms.minimum_runtime_s:
            yield (*where, "minimum_runtime_s"), f"{known.name} spares nobody because of it; remove it"


def _shares(scheduler: Scheduler, engine: str) -> Iterator[Problem]:
    known = scheduler.allocation.known
    where: Location = ("scheduler", "allocation")
    if known is None:
        return
    if engine == FLUID and FLUID not in known.engines:
        message = f"{known.name} gives no shares, and the fluid engine needs shares (choose {giving_shares()})"
        yield (*where, "name"), message
    if engine != FLUID and known.engines == {FLUID}:
        yield (*where, "name"), f"{known.name} is for the fluid engine only in this release; set engine: fluid"
    for name, queue in scheduler.allocation.queues.items():
        if known.queues.maximum is Maximum.NONE and 0 < queue.maximum < 1:
            yield (*where, "queues", name, "maximum"), f"{known.name} has no maxima of queues, only of jobs; remove it"


def giving_shares() -> str:
    """The allocations that give shares, for messages."""
    return ", ".join(policy.name for policy in policies.ALLOCATION.policies if isinstance(policy, ShareAllocation))


def _mechanism(scheduler: Scheduler, workload: Workload | None) -> Iterator[Problem]:
    name, mechanism = scheduler.allocation.name, scheduler.choice("mechanism").name
    known = scheduler.allocation.known
    if known is not None and known.takes_back is TakesBack.NEVER and mechanism != "wait":
        yield (
            ("scheduler", "mechanism"),
            f"{name} never preempts, so it cannot be used with '{mechanism}'; set it to wait",
        )
    if mechanism == "wait":
        message = "nothing is taken back under scheduler.mechanism: wait; name another there, or remove it"
        for where, terms in with_terms(scheduler, workload):
            if terms.mechanism is not None:
                yield (*where, "mechanism"), message


def _selection(scheduler: Scheduler) -> Iterator[Problem]:
    eviction, selection = scheduler.choice("job_eviction").name, scheduler.choice("job_selection").name
    known = policies.JOB_EVICTION.by_name.get(eviction)
    dictated = known.dictates.name if known is not None and known.dictates is not None else None
    if dictated and selection not in (policies.AUTO, dictated) and not scheduler.allow_inconsistent:
        yield (
            ("scheduler", "job_selection"),
            f"'{selection}' may give a freed container back to the job that"
            f" '{eviction}' took it from, again and again; set it to auto or {dictated}, or set"
            " allow_inconsistent: true to see that",
        )
    allocation = scheduler.allocation.known
    own = allocation.dictates.name if allocation is not None and allocation.dictates is not None else None
    if own and selection not in (policies.AUTO, own) and not scheduler.allow_inconsistent:
        yield (
            ("scheduler", "job_selection"),
            f"{scheduler.allocation.name} orders jobs differently from '{selection}'; set it to auto or {own},"
            " or set allow_inconsistent: true",
        )
