"""A Slurm site: its ``slurm.conf``, its QOS, its jobs, and what an answer about it rests on."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from emulator.sites.slurm import Slurm
from workloads.setting_effects import Loss, basis_of
from workloads.slurm.conf import read_conf
from workloads.slurm.sacct import ReadJobs, read_sacct


def read_slurm(
    conf: Path,
    sacct: Path | None = None,
    qos: Path | None = None,
    associations: Path | None = None,
    since: datetime | None = None,
) -> tuple[Slurm, tuple[Loss, ...]]:
    """The site that these files describe, and what was not taken from them; ``since``: see ``read_sacct``.

    Raises:
        ConfigError: a file cannot be read, or Slurm refuses what it says.
    """
    found = read_conf(conf, qos, associations)
    read = ReadJobs() if sacct is None else read_sacct(sacct, found, since)
    losses = (*found.losses, *read.losses)
    basis = basis_of(losses, {"jobs": read.total}, read.work_s)
    return Slurm(found.cluster, read.jobs, basis), losses
