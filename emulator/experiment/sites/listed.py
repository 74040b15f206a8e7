"""Experiments whose rules list all jobs a second time, as runs wrote them before jobs had details."""

from __future__ import annotations

from typing import Any

import msgspec

from emulator.errors import ConfigError
from emulator.files.yaml_positions import Document

_RULES, _JOBS = ("scheduler", "allocation"), ("workload", "jobs")
_LISTS = {"kube-scheduler": "pods", "kueue": "workloads", "slurm": "jobs"}
"""By allocation: the option that has the list."""


def move_details(document: Document) -> None:
    """Give each job, as its details, what the rules of its scheduler list of it.  Raises ConfigError."""
    rules, jobs = document.get(_RULES), document.get(_JOBS)
    name = rules.get("name") if isinstance(rules, dict) else None
    option = _LISTS.get(name) if isinstance(name, str) else None
    if option is None or option not in rules or not isinstance(jobs, tuple):
        return
    try:
        listed = _listed(option, rules[option])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{document.origin((*_RULES, option))}: scheduler.allocation.{option}: {error}") from None
    document.replace(_RULES, {key: value for key, value in rules.items() if key != option})
    moved = ({**job, **listed.get(str(job.get("name")), {})} if isinstance(job, dict) else job for job in jobs)
    document.replace(_JOBS, tuple(moved))


def _listed(option: str, given: Any) -> dict[str, dict[str, Any]]:
    """By job: what a list says of it.  Raises msgspec.ValidationError."""
    from emulator.sites import kubernetes, kueue, slurm  # here, because few experiments need them

    if option == "pods":
        found = ((each.pod, each.details) for each in msgspec.convert(given, list[kubernetes.Arrival]))
    elif option == "workloads":
        found = ((each.workload, each.details) for each in msgspec.convert(given, list[kueue.Arrival]))
    else:
        found = ((each, each.details) for each in msgspec.convert(given, list[slurm.Job]))
    return {each.name: {"priority": each.priority, "details": details} for each, details in found}
