"""The pods of the files: where each is, since when, and what is known of how long it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from emulator.sites.kubernetes import Pod, Replacement
from emulator.vocabulary import SECOND_NS
from workloads.kubernetes import objects as api
from workloads.kubernetes.pods import PodMaker
from workloads.kubernetes.reading import Found, Objects
from workloads.setting_effects import Effect, Loss, settings_of

Owner = tuple[str, str]
"""Kind, and name with the namespace; of the topmost owner that is known."""
_NOBODY: Owner = ("", "")
_ENDED = ("Succeeded", "Failed")
_MAKERS = ("StatefulSet", "DaemonSet", "ReplicationController")
"""Owners of which no pods are made."""
_OWNERS = "owners"
_WHY_NO_PODS = "it has no pods in the files, and natjam makes none of it"
_WHEN_GONE = ("StatefulSet", "DaemonSet", "Node")
"""Owners whose new pod has the place of the old one, which has to be gone."""


@dataclass(frozen=True, slots=True)
class Present:
    """A pod; times since 1970."""

    pod: Pod
    priority_now: int
    """The priority that it would be admitted with now; it has the one that it was admitted with."""
    where: str
    owner: Owner
    replacement: Replacement
    grace_ns: int
    node: str = ""
    """Empty: it waits."""
    nominated: str = ""
    created_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    ended: bool = False
    terminating: bool = False
    preempted: bool = False

    @property
    def length_ns(self) -> int | None:
        """How long it ran, if it ended by itself."""
        if self.start_ns is None or self.end_ns is None or self.preempted:
            return None
        return max(0, self.end_ns - self.start_ns)

    def times_ns(self) -> Iterator[int]:
        """All that are known."""
        yield from (each for each in (self.created_ns, self.start_ns, self.end_ns) if each is not None)


@dataclass
class Pods:
    """Reads the pods, and makes those of Jobs and Deployments that have none yet."""

    objects: Objects
    maker: PodMaker

    def __post_init__(self) -> None:
        self._jobs: dict[str, api.Job] = {each.value.full_name: each.value for each in self.objects.of(api.JOB)}

    def read(self) -> list[Present]:
        """All that take room or want it, and those that ended.  Raises ConfigError."""
        found: dict[str, Present] = {}
        where: dict[str, str] = {}
        for each in self.objects.of(api.POD):
            name = each.value.full_name
            if name in where:
                raise each.problem("metadata.name", f"is in {where[name]} too; give one")
            where[name] = each.where
            why_not = self._why_not(each.value)
            if why_not:
                self.maker.losses.append(each.left_out(why_not, api.Pod.COUNTED))
            else:
                found[name] = self._present(each)
        owned = {
            (by.kind, f"{each.value.namespace}/{by.name}")
            for each in self.objects.of(api.POD)
            if (by := _controller(each.value)) is not None
        } | {each.owner for each in found.values()}
        for other in self.objects.others:
            if other.kind in _MAKERS and (other.kind, other.name) not in owned:
                what = f"{other.kind} {other.name}"
                self.maker.losses.append(Loss(what, other.where, _WHY_NO_PODS, Effect.LEFT_OUT, _OWNERS))
        for kind, count in ((api.JOB, _pods_of_job), (api.DEPLOYMENT, _pods_of_deployment)):
            for each in self.objects.of(kind):
                self.maker.losses.extend(loss for loss in each.losses if loss.kind != api.Pod.COUNTED)
                if (each.value.kind, each.value.full_name) not in owned:
                    found |= {made.pod.name: made for made in self._made(each, count(each.value))}
        return list(found.values())

    def _why_not(self, pod: api.Pod) -> str | None:
        """Why a pod is not taken."""
        if pod.spec.nodeName and pod.phase not in _ENDED and pod.spec.nodeName not in self.maker.nodes:
            return "its node is not in the files"
        return None if pod.spec.nodeName or pod.phase in _ENDED else _why_not_placed(pod.spec)

    def _present(self, found: Found[api.Pod]) -> Present:
        given, ended = found.value, found.value.phase in _ENDED
        finished = (found.time_ns("status, finishedAt", each.finishedAt) for each in given.containerStatuses)
        ends = [end for end in finished if end is not None]
        return Present(
            *self.maker.pod(found, given.full_name, given.labels, given.spec),
            found.where,
            _owner_of(given, self._jobs),
            _replacement_of(given, self._jobs),
            _grace_ns(found, given.spec),
            given.spec.nodeName,
            given.nominatedNodeName,
            found.time_ns("metadata.creationTimestamp", given.creationTimestamp),
            found.time_ns("status.startTime", given.startTime),
            max(ends, default=None) if ended else None,
            ended,
            bool(given.deletionTimestamp),
            any(each.type == "DisruptionTarget" and each.status == "True" for each in given.conditions),
        )

    def _made(self, found: Found[Any], count: int) -> Iterator[Present]:
        """Pods from a template; they wait."""
        owner = found.value
        kind, name = owner.kind, owner.full_name
        why_not = _why_not_placed(owner.podSpec)
        if why_not:
            self.maker.losses.append(found.left_out(why_not, _OWNERS))
            return
        created_ns = found.time_ns("metadata.creationTimestamp", owner.creationTimestamp)
        for number in range(count):
            yield Present(
                *self.maker.pod(found, f"{name}-{number}", owner.podLabels, owner.podSpec),
                found.where,
                (kind, name),
                _replacement_by(kind, self._jobs.get(name)),
                _grace_ns(found, owner.podSpec),
                created_ns=created_ns,
            )
        if kind == "Job" and (owner.completions or 0) > owner.parallelism:
            value, table = str(owner.completions), settings_of("kubernetes")
            self.maker.losses.extend(found.lost(table, kind, "spec.completions", value, api.Job.COUNTED))


def _why_not_placed(spec: api.PodSpec) -> str | None:
    """Why kube-scheduler does not place a pod that waits; None: it does."""
    if spec.schedulerName != "default-scheduler":
        return "another scheduler places it (spec.schedulerName)"
    return "it waits for its scheduling gates" if spec.schedulingGates else None


def _pods_of_job(job: api.Job) -> int:
    """How many pods a Job has that has not begun; of others none."""
    if job.suspend or job.active or job.succeeded or job.failed:
        return 0
    return _few(min(job.parallelism, job.completions or job.parallelism))


def _pods_of_deployment(deployment: api.Deployment) -> int:
    return _few(deployment.replicas)


MAX_PODS_OF_ONE = 100_000


def _few(count: int) -> int:
    return max(0, min(count, MAX_PODS_OF_ONE))


def lengths_of(pods: Iterable[Present]) -> dict[Owner, list[int]]:
    """How long the pods of each owner ran that ended by themselves."""
    lengths: dict[Owner, list[int]] = {}
    for each in pods:
        if each.owner != _NOBODY and each.length_ns is not None:
            lengths.setdefault(each.owner, []).append(each.length_ns)
    return lengths


def expected_ns(each: Present, lengths: Mapping[Owner, list[int]], now_ns: int) -> int | None:
    """How long a pod runs: as long as it did, or as others of its owner."""
    if each.length_ns is not None:
        return each.length_ns
    age_ns = 0 if each.start_ns is None or each.ended else now_ns - each.start_ns
    return _length_of(lengths.get(each.owner, ()), age_ns)


def _grace_ns(found: Found[Any], spec: api.PodSpec) -> int:
    if not 0 <= spec.terminationGracePeriodSeconds < 2**31:
        raise found.problem("spec.terminationGracePeriodSeconds", "must be from 0 to 2^31 - 1")
    return spec.terminationGracePeriodSeconds * SECOND_NS


# ---- owners: who makes a pod anew when it is evicted, when, and how long pods of one owner run ----


def _controller(owned: api.Owned) -> api.OwnerReference | None:
    """The owner that makes the pod anew."""
    owners = owned.ownerReferences
    return next((each for each in owners if each.controller), owners[0] if owners else None)


def _owner_of(owned: api.Owned, jobs: Mapping[str, api.Job]) -> Owner:
    """The topmost owner: the Deployment of a ReplicaSet, whose name has a hash more; the CronJob of a Job."""
    by = _controller(owned)
    if by is None:
        return _NOBODY
    kind, name = by.kind, f"{owned.namespace}/{by.name}"
    if kind == "ReplicaSet" and "pod-template-hash" in owned.labels:
        return "Deployment", name.removesuffix(f"-{owned.labels['pod-template-hash']}")
    if kind == "Job" and name in jobs and jobs[name].ownerReferences:
        return _owner_of(jobs[name], {})
    return kind, name


def _replacement_of(owned: api.Owned, jobs: Mapping[str, api.Job]) -> Replacement:
    """When a new pod comes for an evicted one."""
    by = _controller(owned)
    if by is None:
        return Replacement.NEVER
    return _replacement_by(by.kind, jobs.get(f"{owned.namespace}/{by.name}"))


def _replacement_by(kind: str, job: api.Job | None) -> Replacement:
    """When an owner of this kind makes an evicted pod anew; ``job``: of this name, if there is one.

    Source: podReplacementPolicy, https://kubernetes.io/docs/concepts/workloads/controllers/job/; other owners that are
    not known are taken to do as a Deployment does.
    """
    waits = kind == "Job" and job is not None and job.podReplacementPolicy == "Failed"
    return Replacement.GONE if waits or kind in _WHEN_GONE else Replacement.TERMINATING


def _length_of(lengths_ns: Iterable[int], age_ns: int) -> int | None:
    """How long a pod runs that has run for ``age_ns``: the middle of its owner's others that ran longer, if any did."""
    longer = [length for length in lengths_ns if length > age_ns]
    return median_low(longer) if longer else None
