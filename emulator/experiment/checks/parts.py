"""Problems between the parts of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from emulator.experiment.checks.cluster import cluster_checks
from emulator.experiment.checks.scheduler import scheduler_checks
from emulator.experiment.checks.workload import workload_problems
from emulator.experiment.gangs import gang_problems
from emulator.experiment.model import Cluster, Scheduler, Workload
from emulator.experiment.triggers import trigger_problems
from emulator.files.problems import MOST_PROBLEMS, Problem


def check(
    cluster: Cluster | None, scheduler: Scheduler | None, workload: Workload | None, engine: str
) -> list[Problem]:
    """Problems between the parts; None is a part that was not valid by itself, and it is not checked."""
    found: list[Iterator[Problem]] = []
    if cluster is not None:
        found += cluster_checks(cluster, scheduler, workload, engine)
    if scheduler is not None:
        found += scheduler_checks(scheduler, workload, engine)
    if workload is not None:
        found += [workload_problems(workload, scheduler, cluster), trigger_problems(scheduler, workload, engine)]
        found.append(gang_problems(cluster, scheduler, workload, engine))
    return [problem for one in found for problem in islice(one, MOST_PROBLEMS + 1)]
