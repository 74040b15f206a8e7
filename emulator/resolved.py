"""One run of an experiment, resolved: what engines, journal, tables and summary are made from.

The file's model is read here and nowhere after it, but for one thing: ``experiment.yaml`` of the run directory is
written from it.  The hosts of a live run, which are other processes, get what was resolved.
"""

from __future__ import annotations

from typing import Any, Literal

from emulator.assemble import make_settings
from emulator.core.job import JobSpec
from emulator.core.settings import Settings
from emulator.experiment.availability import Transactional
from emulator.experiment.expand import expand
from emulator.experiment.model import Experiment, Power
from emulator.files.times import seconds_to_ns
from emulator.policies import axes as policies
from emulator.policies.policy import Policy
from emulator.vocabulary import Frozen


class Resolved(Frozen):
    """One run: of the experiment's repeats, the one with this seed."""

    experiment: Experiment
    """As ``experiment.yaml`` says it: with the seed of this repeat."""
    jobs: tuple[JobSpec, ...]
    settings: Settings
    """What all machines share: policies, nodes, storage tier, and what a transactional workload leaves."""
    name: str
    engine: Literal["live", "sim", "fluid"]
    seed: int
    time_scale: float
    """Emulated seconds per real second."""
    containers: int
    """Of all nodes together."""
    network_bytes_s: float
    """Speed at which one reduce fetches map outputs from other nodes."""
    power: Power
    """Of each node."""
    task_timeout_ns: int
    """How long a task, or a whole run, may give no sign of life."""
    journal: Literal["full", "messages", "off"]
    """What its journal keeps."""
    every_heartbeat: bool
    """Whether a simulation runs heartbeats that carry and change nothing too."""
    overheads: str
    calibration: str | None
    """Where a simulation takes a machine's own costs from (``emulator.costs.calibration_file.chosen_path``)."""
    counted_s: tuple[float, float] | None
    """The part of the time whose jobs count for deadlines; None: all."""
    storage_url: str | None
    """Where the output goes; None: into the run directory."""
    memory_scale: float
    """Real bytes of memory and swap per emulated byte."""
    limits_containers: bool
    """Whether the memory and the processors of each container of a live run are limited."""
    dumper: Any
    """The program that makes process images in a live run; None: the first that works."""
    transactional: Transactional | None
    """The transactional workload of a live run."""

    @property
    def jobs_by_name(self) -> dict[str, JobSpec]:
        """The jobs, by name."""
        return {job.name: job for job in self.jobs}

    @property
    def own_evictions(self) -> dict[str, Policy[Any]]:
        """The evictions that are the user's own, by their names in the file."""
        scheduler = self.settings.scheduler
        both = ((policies.JOB_EVICTION, scheduler.job_eviction), (policies.TASK_EVICTION, scheduler.task_eviction))
        return {policy.name: policy for axis, policy in both if policy.name not in axis.by_name}

    @property
    def ends_circles(self) -> bool:
        """Whether the allocation itself ends a run in which evictions go round in a circle."""
        return self.settings.scheduler.allocation.ends_circles


def resolve(experiment: Experiment, jobs: tuple[JobSpec, ...] | None = None) -> Resolved:
    """The run of ``experiment`` with its own seed; ``jobs``, if they are known, are not made again.

    Raises:
        ConfigError: a policy, an overhead profile, a tier, an availability or the workload cannot be loaded.
    """
    settings = make_settings(experiment, experiment.seed)
    cluster, poisson = experiment.cluster, experiment.workload.poisson
    return Resolved(
        experiment=experiment,
        jobs=expand(experiment, experiment.seed) if jobs is None else jobs,
        settings=settings,
        name=experiment.name,
        engine=experiment.engine,
        seed=experiment.seed,
        time_scale=experiment.time_scale,
        containers=cluster.containers,
        network_bytes_s=cluster.network_mbit_s * 125_000,
        power=cluster.power,
        task_timeout_ns=seconds_to_ns(experiment.protocol.task_timeout_s),
        journal=experiment.journal,
        every_heartbeat=experiment.sim.every_heartbeat,
        overheads=experiment.overheads,
        calibration=experiment.calibration,
        counted_s=None if poisson is None else poisson.counted_s,
        storage_url=experiment.storage.url,
        memory_scale=experiment.live.memory_scale,
        limits_containers=experiment.live.memory == "container",
        dumper=experiment.scheduler.choice("mechanism").options.get("dumper"),
        transactional=None if cluster.availability is None else cluster.availability.transactional,
    )
