"""The launch parameters of task processes; ``emulator.live.tasks.mapper``, ``reducer`` and ``shuffle`` read them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.core.job import PYTHON, JobSpec
from emulator.live.tasks import command


@dataclass(frozen=True, slots=True)
class Site:
    """Parameters that all tasks of a host share."""

    origin_real_ns: int
    """Emulated time 0 on the monotonic clock."""
    scale: float
    """Emulated seconds per real second."""
    directory: Path
    """The host's own directory; it holds one directory for each node, with the node's name."""
    output_dir: str
    store: str | None
    """Socket of the service that brings files from there to the run's object store; None: it has none."""
    seed: int
    """Seed of the contents of map outputs; reduces do not get it."""
    secret: str
    """Secret of the shuffle services; maps do not get it."""
    network_bytes_real_s: int
    """Bytes that a node's network carries in a real second."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process runs."""

    node: str
    container: str
    first_key_at_ns: int = 0
    """Emulated time before which its first key must not start."""
    memory_bytes: int = 0
    """Real bytes that it uses."""
    memory_group: str | None = None
    """File through which it joins the memory cgroup of its node; None: there is none."""
    container_groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Folders of the cgroups to make for its container, below those of its node, and what to write to their files."""
    program_group: str | None = None
    """Folder of the cgroup to make for it, if it is a program; None: none can be had."""


def map_parameters(
    site: Site, job: JobSpec, task: int, place: Place, duration_ns: int, only_partition: int | None = None
) -> dict[str, Any]:
    """Parameters of a map that takes ``duration_ns`` emulated nanoseconds.  With ``only_partition``: of a process that
    makes the input of that reduce, for a job without maps."""
    return _common(site, job, task, place) | {
        "duration_ns": duration_ns,
        "reduces": len(job.reduce_ns),
        "seed": site.seed,
        "shuffle_bytes": job.shuffle_bytes,
        "map_only": not job.reduce_ns,
        "only_partition": only_partition,
    }


def reduce_parameters(
    site: Site,
    job: JobSpec,
    task: int,
    place: Place,
    duration_ns: int,
    outputs: Sequence[dict[str, Any]] = (),
    checkpoint: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Parameters of a reduce whose keys take ``duration_ns`` emulated nanoseconds together.

    Args:
        site: what all tasks of the host share.
        job: its job.
        task: its number.
        place: where it runs.
        duration_ns: see above.
        outputs: ``{map, url}`` of every map of the job, or nothing if they come later.
        checkpoint: the checkpoint it resumes from, in the form of a checkpoint file.
    """
    return _common(site, job, task, place) | {
        "keys": job.reduce_keys[task],
        "duration_ns": duration_ns,
        "outputs": list(outputs),
        "secret": site.secret,
        "network_bytes_real_s": site.network_bytes_real_s,
        "checkpoint": checkpoint,
        "save_period_ns": job.facts.checkpoint_period_ns,
    }


def program_parameters(site: Site, job: JobSpec, task: int, place: Place) -> dict[str, Any]:
    """Parameters of a program, with a directory for this attempt."""
    assert job.program is not None
    directory = command.directory_of(site.output_dir, job.name, task, place.container)
    saves = job.facts.checkpoint_period_ns is not None
    return _common(site, job, task, place) | {
        "command": [sys.executable if part == PYTHON else part for part in job.program.command],
        "directory": directory,
        "saves_in": command.saves_in(site.output_dir, job.name, task) if saves else None,
        "works_in": job.program.directory or directory,
        "environment": dict(job.program.environment),
        "input": job.program.input,
        "program_group": place.program_group,
    }


def _common(site: Site, job: JobSpec, task: int, place: Place) -> dict[str, Any]:
    return {
        "origin_real_ns": site.origin_real_ns,
        "scale": site.scale,
        "container_id": place.container,
        "job": job.name,
        "task": task,
        "maps": len(job.map_ns),
        "reduce_keys": job.reduce_keys,
        "output_bytes": job.output_bytes,
        "first_key_at_ns": place.first_key_at_ns,
        "memory_bytes": place.memory_bytes,
        "memory_group": place.memory_group,
        "container_groups": place.container_groups,
        "has_grace": job.facts.grace_ns > 0,
        "node": place.node,
        "work_dir": str(site.directory / place.node),
        "output_dir": site.output_dir,
        "store": site.store,
    }
