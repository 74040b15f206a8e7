"""Experiments whose rules list all jobs a second time, as runs wrote them before jobs had details."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from emulator.errors import ConfigError
from emulator.files.yaml_positions import Document

_RULES, _JOBS = ("scheduler", "allocation"), ("workload", "jobs")


def _pods(given: Any, _: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    from emulator.sites.kubernetes import Arrival  # here: few experiments need it

    listed = msgspec.convert(given, list[Arrival])
    return {each.pod.name: {"priority": each.pod.priority, "details": each.details} for each in listed}


def _workloads(given: Any, groups: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    from emulator.sites.kueue import Arrival

    listed = {each.workload.name: each for each in msgspec.convert(given, list[Arrival])}
    return {
        name: {"priority": each.workload.priority, "details": each.details(groups.get(name, ()))}
        for name, each in listed.items()
    }


def _slurm_jobs(given: Any, _: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    from emulator.sites.slurm import Job

    return {
        each.name: {"priority": each.priority, "details": each.details} for each in msgspec.convert(given, list[Job])
    }


_LISTS: dict[str, tuple[str, Callable[..., dict[str, dict[str, Any]]]]] = {
    "kube-scheduler": ("pods", _pods),
    "kueue": ("workloads", _workloads),
    "slurm": ("jobs", _slurm_jobs),
}
"""By allocation: the option that has the list, and what it says of each job; it raises msgspec.ValidationError."""


def move_details(document: Document) -> None:
    """Give each job, as its details, what the rules of its scheduler list of it.  Raises ConfigError."""
    rules, jobs = document.get(_RULES), document.get(_JOBS)
    name = rules.get("name") if isinstance(rules, dict) else None
    option, read = _LISTS.get(name if isinstance(name, str) else "", ("", None))
    if read is None or option not in rules or not isinstance(jobs, tuple):
        return
    groups = dict(map(_groups, jobs))
    try:
        said = read(rules[option], groups)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{document.origin((*_RULES, option))}: scheduler.allocation.{option}: {error}") from None
    document.replace(_RULES, {key: value for key, value in rules.items() if key != option})
    document.replace(_JOBS, tuple({**job, **said[name]} if (name := _groups(job)[0]) in said else job for job in jobs))


def _groups(job: Any) -> tuple[str, list[str]]:
    """The name of a job, and those of its groups of tasks; empty: it is not written right."""
    given = job if isinstance(job, dict) else {}
    groups = given.get("groups")
    names = [str(each.get("name")) for each in groups if isinstance(each, dict)] if isinstance(groups, tuple) else []
    return str(given.get("name", "")), names
