"""A Slurm site in a file of natjam's own: what ``natjam import slurm`` writes and ``natjam play`` reads.

Times are nanoseconds from the first submission.
"""

from __future__ import annotations

from pathlib import Path

from emulator.errors import ConfigError, printable
from emulator.policies.slurm.model import Cluster, Job
from workloads.saved import Saved, read_section, refuse_twice


class Slurm(Saved):
    """What natjam knows of a site."""

    SECTION = "slurm"
    VERSION = "22.05"

    cluster: Cluster
    jobs: tuple[Job, ...] = ()


def read_saved(path: Path) -> Slurm:
    """A file that ``write_saved`` wrote.  Raises ConfigError."""
    slurm = read_section(path, Slurm)
    names = {each.name for each in slurm.cluster.partitions}
    for partition in slurm.cluster.partitions:
        if unknown := [node for node in partition.nodes if node not in slurm.cluster.nodes]:
            raise ConfigError(f"{path}: slurm.cluster.partitions: {partition.name}: there is no node '{unknown[0]}'")
    qos = {each.name for each in slurm.cluster.qos} or {""}
    refuse_twice(path, "slurm.jobs", (job.name for job in slurm.jobs))
    for job in slurm.jobs:
        if job.partition not in names:
            raise ConfigError(f"{path}: slurm.jobs: {printable(job.name)}: there is no partition '{job.partition}'")
        if job.qos not in qos:
            raise ConfigError(f"{path}: slurm.jobs: {printable(job.name)}: there is no QOS '{printable(job.qos)}'")
        if min(job.nodes, job.cpus, job.length_ns) < 1 or job.submit_ns < 0:
            raise ConfigError(f"{path}: slurm.jobs: {printable(job.name)}: nodes, cpus and length_ns are at least 1")
    return slurm
