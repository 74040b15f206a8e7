"""Checks, before anything is started, whether this machine has the memory and the swap that a live run needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from emulator.core.job import JobSpec
from emulator.errors import ConfigError
from emulator.experiment.expand import BYTES_PER_GB
from emulator.experiment.model import Experiment
from emulator.live.memory.nodes import largest_task_bytes, why_no_containers, why_no_swap
from emulator.live.memory.swap_file import SwapFailed, check_room


def fitted_to_machine(experiment: Experiment, jobs: Iterable[JobSpec]) -> Experiment:
    """A live experiment adapted to this machine: without root its nodes have no swap, so the memory rule refuses what
    would need some, and containers are not limited.

    Raises:
        ConfigError: its tasks use more memory than this machine has, or the swap is impossible; with the numbers.
    """
    if os.environ.get("RAY_ADDRESS"):
        return experiment  # in a cluster, each machine checks this itself
    if experiment.live.memory == "container" and why_no_containers() is not None:
        experiment = experiment.model_copy(update={"live": experiment.live.model_copy(update={"memory": "node"})})
    held_bytes = largest_task_bytes(jobs)
    if not held_bytes:
        return experiment
    cluster, scale = experiment.cluster, experiment.live.memory_scale
    processes = cluster.containers_per_node + cluster.max_suspended_per_node
    node_bytes = min(cluster.memory_gb * BYTES_PER_GB, processes * held_bytes)
    wanted_bytes, there_bytes = cluster.nodes * node_bytes * scale, psutil.virtual_memory().available
    if wanted_bytes > there_bytes:
        raise ConfigError(
            f"live.memory_scale: at {scale:g} the tasks of {cluster.nodes} nodes hold up to"
            f" {wanted_bytes / 2**20:.0f} MiB, and this machine has {there_bytes / 2**20:.0f} MiB to spare; lower it to"
            f" {scale * there_bytes / wanted_bytes:.2g}"
        )
    if not cluster.swap_gb:
        return experiment
    if (why := why_no_swap()) is not None:
        if os.geteuid() == 0:
            raise ConfigError(f"cluster.swap_gb: {cluster.swap_gb:g} GB a node: {why}; set it to 0")
        return experiment.model_copy(update={"cluster": cluster.model_copy(update={"swap_gb": 0.0})})
    try:
        check_room(Path(tempfile.gettempdir()), int(cluster.nodes * cluster.swap_gb * BYTES_PER_GB * scale))
    except SwapFailed as error:
        raise ConfigError(f"cluster.swap_gb: {error}") from None
    return experiment


def memory_warnings(experiment: Experiment) -> Iterator[str]:
    """What of the memory that the experiment asks for a live run on this machine cannot have."""
    if experiment.live.memory == "container" and (why := why_no_containers()) is not None:
        yield f"live.memory container is taken for node: {why}"
    holds = any(job.largest_task_gb for job in experiment.workload.jobs or ())
    if holds and experiment.cluster.swap_gb and os.geteuid() != 0:
        yield (
            f"cluster.swap_gb {experiment.cluster.swap_gb:g} is taken for 0: {why_no_swap()}; what does not fit"
            " cluster.memory_gb is not suspended"
        )
