"""The composition root: from an experiment to the machines of a run, the same for every engine."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from emulator import policies
from emulator.core.application_master import ApplicationMaster
from emulator.core.client import Client
from emulator.core.job import JobSpec
from emulator.core.machine import PeriodicMachine
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, Mechanism
from emulator.core.node_manager import NodeManager
from emulator.core.resource_manager import ResourceManager
from emulator.core.settings import (
    NodeSettings,
    OverheadSettings,
    ProtocolSettings,
    QueueSettings,
    SchedulerSettings,
    Settings,
    SpeculationSettings,
)
from emulator.costs.overheads import OverheadProfile, load_overheads
from emulator.errors import ConfigError, RunError
from emulator.experiment.checks import load_function
from emulator.experiment.model import Experiment, Speculation, seconds_to_ns

GIB_BYTES = 1 << 30

PolicyT = TypeVar("PolicyT", bound=Callable[..., Any])


def load_policy(axis: str, known: Mapping[str, PolicyT], name: str) -> PolicyT:
    """The policy called ``name`` on ``axis``: one of ours, or a user's own ``module:function``.

    Raises:
        ConfigError: there is none of that name, or its module cannot be imported.
    """
    if name in known:
        return known[name]
    if ":" not in name:
        raise ConfigError(f"{axis}: there is no policy {name!r}; known are {', '.join(sorted(known))}")
    return cast(PolicyT, _guarded(axis, name, load_function(name, Path.cwd())))


def _guarded(axis: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's own policy, whose failures name it."""

    @wraps(function)
    def policy(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}"
            raise RunError(f"{_place(name, function, error)}{axis} policy {name} raised {what}") from error

    return policy


def _place(name: str, function: Callable[..., Any], error: BaseException) -> str:
    """``file:line: `` of what raised in a user's module; of the function itself where nothing in it was reached."""
    module = sys.modules.get(name.partition(":")[0])
    frames = traceback.extract_tb(error.__traceback__)[1:]
    mine = [frame for frame in frames if frame.filename == getattr(module, "__file__", None)] or frames
    if mine:
        return f"{mine[-1].filename}:{mine[-1].lineno}: "
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""


def make_settings(experiment: Experiment, seed: int, overheads: OverheadProfile | None = None) -> Settings:
    """All that the machines of one run share; ``seed`` is that of the repeat.

    Raises:
        ConfigError: a policy or an overhead profile that cannot be had.
    """
    profile = overheads or load_overheads(experiment.overheads, Path.cwd())
    return Settings(
        seed=seed,
        protocol=_protocol(experiment),
        overheads=OverheadSettings(profile.schedule_ns, profile.suspend_ns, profile.resume_ns),
        scheduler=_scheduler(experiment),
        nodes=_nodes(experiment),
    )


def make_machine(address: str, settings: Settings, jobs: Mapping[str, JobSpec]) -> PeriodicMachine:
    """A fresh machine for ``address``; ``jobs`` by name."""
    if address == RESOURCE_MANAGER:
        return ResourceManager(settings)
    if address == CLIENT:
        return Client(tuple(jobs.values()))
    role, _, name = address.partition(":")
    if role == "am":
        return ApplicationMaster(jobs[name], settings)
    return NodeManager(settings.nodes_by_name[name], settings)


def _nodes(experiment: Experiment) -> tuple[NodeSettings, ...]:
    cluster = experiment.cluster
    return tuple(
        NodeSettings(
            name=f"node-{number}",
            rack="rack-1",
            containers=cluster.containers_per_node,
            container_memory_bytes=int(cluster.container_memory_gb * GIB_BYTES),
            memory_bytes=int(cluster.memory_gb * GIB_BYTES),
            swap_bytes=int(cluster.swap_gb * GIB_BYTES),
            max_suspended=cluster.max_suspended_per_node,
            slowness_ppm=round(cluster.slow_nodes.get(f"node-{number}", 1) * 1_000_000),
        )
        for number in range(1, cluster.nodes + 1)
    )


def _protocol(experiment: Experiment) -> ProtocolSettings:
    protocol = experiment.protocol
    return ProtocolSettings(
        heartbeat_ns=experiment.heartbeat_ns,
        preemptor_period_ns=experiment.preemptor_period_ns,
        estimate_period_ns=experiment.estimate_period_ns,
        task_heartbeat_ns=experiment.task_heartbeat_ns,
        kill_timeout_ns=seconds_to_ns(protocol.kill_timeout_s),
        expired_ns=seconds_to_ns(protocol.expired_s),
        slow_start_ppm=int(Decimal(str(protocol.slow_start)) * 1_000_000),
        task_attempts_max=protocol.task_attempts_max,
        placement_delay_ns=seconds_to_ns(experiment.scheduler.placement.delay_s),
        speculation=_speculation(protocol.speculation),
    )


def _speculation(speculation: Speculation | None) -> SpeculationSettings | None:
    if speculation is None:
        return None
    return SpeculationSettings(
        margin_ppm=round(speculation.margin * 1_000_000),
        after_ns=seconds_to_ns(speculation.after_s),
        at_most_ppm=round(speculation.at_most * 1_000_000),
    )


def _scheduler(experiment: Experiment) -> SchedulerSettings:
    scheduler = experiment.scheduler
    job_selection = scheduler.job_selection
    if job_selection == "auto":
        job_selection = policies.selection_for(scheduler.job_eviction)
    preemption_order = policies.DICTATED_SELECTION.get(scheduler.job_eviction, job_selection)
    readers = (job_selection, preemption_order, scheduler.job_eviction)
    return SchedulerSettings(
        allocation=load_policy("allocation", policies.ALLOCATION, scheduler.allocation.name),
        job_selection=load_policy("job_selection", policies.JOB_SELECTION, job_selection),
        preemption_order=load_policy("job_selection", policies.JOB_SELECTION, preemption_order),
        job_eviction=load_policy("job_eviction", policies.JOB_EVICTION, scheduler.job_eviction),
        task_eviction=load_policy("task_eviction", policies.TASK_EVICTION, scheduler.task_eviction),
        mechanism=Mechanism(scheduler.mechanism),
        queues=_queues(experiment),
        selection_key=policies.FIXED_ORDERS.get(job_selection),
        preemption_order_is_fixed=preemption_order in policies.FIXED_ORDERS,
        reports_progress=any(map(policies.reads_progress, readers)),
    )


def _queues(experiment: Experiment) -> tuple[QueueSettings, ...]:
    """Queues in the order of the file: the first is the most urgent.  Shares are rounded down to whole containers."""
    total = experiment.cluster.nodes * experiment.cluster.containers_per_node
    return tuple(
        QueueSettings(name, rank, int(Decimal(str(queue.capacity)) * total), int(Decimal(str(queue.maximum)) * total))
        for rank, (name, queue) in enumerate(experiment.scheduler.allocation.queues.items())
    )
