"""Who makes a pod anew when it is evicted, when, and how long pods of one owner run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_low

from emulator.sites.kubernetes import Replacement
from workloads.kubernetes import objects as api

Owner = tuple[str, str]
"""Kind, and name with the namespace; of the topmost owner that is known."""
NOBODY: Owner = ("", "")
_WHEN_GONE = ("StatefulSet", "DaemonSet", "Node")
"""Their new pod has the place of the old one, which has to be gone."""


def controller(metadata: api.Metadata) -> api.OwnerReference | None:
    """The owner that makes the pod anew."""
    owners = metadata.ownerReferences
    return next((each for each in owners if each.controller), owners[0] if owners else None)


def owner_of(metadata: api.Metadata, jobs: Mapping[str, api.Job]) -> Owner:
    """The topmost owner: the Deployment of a ReplicaSet, whose name has a hash more; the CronJob of a Job."""
    by = controller(metadata)
    if by is None:
        return NOBODY
    kind, name = by.kind, f"{metadata.namespace}/{by.name}"
    if kind == "ReplicaSet" and "pod-template-hash" in metadata.labels:
        return "Deployment", name.removesuffix(f"-{metadata.labels['pod-template-hash']}")
    if kind == "Job" and name in jobs and jobs[name].metadata.ownerReferences:
        return owner_of(jobs[name].metadata, {})
    return kind, name


def replacement_of(metadata: api.Metadata, jobs: Mapping[str, api.Job]) -> Replacement:
    """When a new pod comes for an evicted one."""
    by = controller(metadata)
    if by is None:
        return Replacement.NEVER
    return replacement_by(by.kind, jobs.get(f"{metadata.namespace}/{by.name}"))


def replacement_by(kind: str, job: api.Job | None) -> Replacement:
    """When an owner of this kind makes an evicted pod anew; ``job``: of this name, if there is one.

    Source: podReplacementPolicy, https://kubernetes.io/docs/concepts/workloads/controllers/job/; other owners that are
    not known are taken to do as a Deployment does.
    """
    waits = kind == "Job" and job is not None and job.spec.podReplacementPolicy == "Failed"
    return Replacement.GONE if waits or kind in _WHEN_GONE else Replacement.TERMINATING


def length_of(lengths_ns: Iterable[int], age_ns: int) -> int | None:
    """How long a pod runs that has run for ``age_ns``: the middle of its owner's others that ran longer, if any did."""
    longer = [length for length in lengths_ns if length > age_ns]
    return median_low(longer) if longer else None
