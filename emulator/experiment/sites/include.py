"""``site: FILE`` in an experiment: takes over what the file of an imported cluster says.

Such a file is an experiment too, with nothing but its site.  The experiment that a run writes has all of it in place of
``site``, so it needs the file no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError
from emulator.experiment.sites.site import USUAL, Site, shortened
from emulator.files.yaml_positions import Document, read_document
from emulator.files.yaml_values import Location, dotted
from workloads.saved import HEADER, VERSIONS, section_of

_WRITTEN_BY = ", ".join(f"natjam import {section}" for section in VERSIONS)
_BASIS: Location = ("basis",)
_OF_SITE: dict[str, frozenset[str]] = {
    "cluster": frozenset(
        {"nodes", "containers_per_node", "node_groups", "container_memory_gb", "memory_gb", "slots", "small_nodes"}
        | {"racks", "availability", "application_masters", "master_resources"}
    ),
    "scheduler": frozenset(
        {"job_selection", "allow_inconsistent", "job_eviction", "task_eviction", "victims", "placement", "resume_order"}
        | {"fit", "epoch_s", "spare_after"}
    ),
    "workload": frozenset({"jobs", "trace", "bimodal", "poisson", "google_day", "only"}),
}
"""Keys that cannot be given beside ``site``: the imported cluster and the rules of its scheduler decide them."""


def include_site(document: Document) -> None:
    """Replace ``site``, or the section of an imported file, by what it says.

    Raises:
        ConfigError: the file cannot be read, or a key is given that it decides.
    """
    path = _taken_out(document)
    if path is None:
        return
    imported = document if path == document.path else read_document(path)
    section = section_of(imported)
    if section is None:
        raise ConfigError(f"{document.origin(('site',))}: site: {path} is not a file of {_WRITTEN_BY}")
    basis = _basis(imported.data[section])
    imported.data[section] = shortened(imported.data[section])
    site = _site_of(section, imported)
    for key in (HEADER, section):
        document.data.pop(key, None)
    _refuse(document, site, path)
    for location, value in _decided(site):
        document.derive(location, value, str(path))
    if basis:
        document.derive(_BASIS, basis, str(path))
    for location, value in (*_below((), site.usual), *_below((), USUAL)):
        if document.get(location) is None:
            document.derive(location, value, str(path))


def _basis(of_section: Any) -> Any:
    """What answers about a site rest on, which is taken out of its section: its words are no names, and stay whole."""
    return of_section.pop("basis", None) if isinstance(of_section, dict) else None


def _site_of(section: str, imported: Document) -> Site:
    """What an imported file says.  Raises ConfigError."""
    if section == "kubernetes":
        from emulator.experiment.sites.kubernetes import kubernetes_site as site_of  # here: others need not import it
    elif section == "kueue":
        from emulator.experiment.sites.kueue import kueue_site as site_of
    else:
        from emulator.experiment.sites.slurm import slurm_site as site_of
    return site_of(imported)


def _taken_out(document: Document) -> Path | None:
    """The file of the site, which the document then does not name any more; None: it has none."""
    if section_of(document) is not None:
        return document.path
    if "site" not in document.data:
        return None
    site = document.data.pop("site")
    if not isinstance(site, str) or not site:
        raise ConfigError(f"{document.origin(('site',))}: site: must be the name of a file of {_WRITTEN_BY}")
    base = Path.cwd() if document.is_overridden(("site",)) else document.path.parent
    return (base / Path(site).expanduser()).absolute()


def _refuse(document: Document, site: Site, path: Path) -> None:
    """Raise ConfigError if a key is given that the site decides."""
    known = [_BASIS, *((part, key) for part, keys in _OF_SITE.items() for key in sorted(keys))]
    for location in (*known, *(location for location, _ in _decided(site))):
        if document.get(location) is not None:
            raise ConfigError(f"{document.origin(location)}: {dotted(location)}: the site {path} decides it; remove it")
    for location, named in _mechanisms_given(document):
        if site.mechanisms and named not in (None, *site.mechanisms):
            choice = ", ".join(site.mechanisms)
            raise ConfigError(f"{document.origin(location)}: {dotted(location)}: with {path} it is one of {choice}")


def _mechanisms_given(document: Document) -> Iterator[tuple[Location, Any]]:
    """The names of the mechanisms that are given beside a site, for all jobs and for those of a queue."""
    given = document.get(("scheduler", "mechanism"))
    yield ("scheduler", "mechanism"), given.get("name") if isinstance(given, dict) else given
    queues = document.get(("scheduler", "allocation", "queues"))
    for name in queues if isinstance(queues, dict) else ():
        location = ("scheduler", "allocation", "queues", name, "mechanism")
        yield location, document.get(location)


def _decided(site: Site) -> Iterator[tuple[Location, Any]]:
    yield ("cluster", "node_groups"), site.nodes
    yield ("cluster", "application_masters"), "outside"
    yield from _below(("cluster",), site.cluster)
    yield ("workload", "jobs"), site.jobs
    for key, value in site.allocation.items():
        if key == "queues":  # the terms of a queue may be given beside
            yield from _below(("scheduler", "allocation", key), value)
        else:
            yield ("scheduler", "allocation", key), value


def _below(location: Location, values: Mapping[str, Any]) -> Iterator[tuple[Location, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _below((*location, key), value)
        else:
            yield (*location, key), value


# ---- experiments whose rules list all jobs a second time, as runs wrote them before jobs had details ----

_RULES, _JOBS = ("scheduler", "allocation"), ("workload", "jobs")
_LISTS = {"kube-scheduler": "pods", "kueue": "workloads", "slurm": "jobs"}
"""The option that has the list, by the name of the allocation."""


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
    """What a list says of each job, by its name.  Raises msgspec.ValidationError."""
    from emulator.sites import kubernetes, kueue, slurm  # here, because few experiments need them

    if option == "pods":
        found = ((each.pod, each.details) for each in msgspec.convert(given, list[kubernetes.Arrival]))
    elif option == "workloads":
        found = ((each.workload, each.details) for each in msgspec.convert(given, list[kueue.Arrival]))
    else:
        found = ((each, each.details) for each in msgspec.convert(given, list[slurm.Job]))
    return {each.name: {"priority": each.priority, "details": details} for each, details in found}
