"""The pods of the files: where each is, since when, and what is known of how long it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from msgspec.structs import replace

from emulator.sites.kubernetes import Pod, Replacement
from emulator.sites.labels import NAME_FIELD
from emulator.vocabulary import SECOND_NS
from workloads.kubernetes import objects as api
from workloads.kubernetes.pods import TEMPLATE_HASH, PodMaker
from workloads.kubernetes.reading import Found, Objects, unique
from workloads.setting_effects import Effect, Loss, settings_of

Owner = tuple[str, str]
"""Kind, and name with the namespace; of the topmost owner that is known."""
_NOBODY: Owner = ("", "")
_ENDED = ("Succeeded", "Failed")
_MAKES_NO_PODS = ("PodTemplate", "ControllerRevision")
"""Kinds with a pod's spec of which no controller makes pods."""
_SETS = ("StatefulSet", "DaemonSet")
"""Owners of which each missing pod is made, one by one."""
_OWNERS = "owners"
_WHY_NO_PODS = "it has no pods in the files, and natjam makes none of it"
_WHY_AGAIN = "its node is not in the files; its owner makes it again, and that one waits"
_OF_NODES = ("DaemonSet", "Node")
"""Owners that make a pod for one node."""
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
    def for_node(self) -> str:
        """The node that it waits for, if it is to be on no other; else empty."""
        names = [name for term in self.pod.node_affinity for name in term.names or ()]
        return names[0] if len(names) == 1 else ""

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
    """Reads the pods, and makes those of Jobs and Deployments that have none yet, and those that other sets lack."""

    objects: Objects
    maker: PodMaker

    def __post_init__(self) -> None:
        self._jobs: dict[str, api.Job] = {each.value.full_name: each.value for each in self.objects.of(api.Job)}

    def read(self) -> list[Present]:
        """All that take room or want it, and those that ended.  Raises ConfigError."""
        found: dict[str, Present] = {}
        where: dict[str, str] = {}
        for each in self.objects.of(api.Pod):
            name = each.value.full_name
            if name in where:
                raise each.problem("metadata.name", f"is in {where[name]} too; give one")
            where[name] = each.where
            if (by_owner := self._made_again(each)) is not None:
                self.maker.losses.append(each.left_out(_WHY_AGAIN, api.Pod.COUNTED))
                found[name] = self._present(by_owner)
            elif why_not := self._why_not(each.value):
                self.maker.losses.append(each.left_out(why_not, api.Pod.COUNTED))
            else:
                found[name] = self._present(each)
        makers = [each for kind in api.MAKERS for each in unique(self.objects.of(kind))]
        owned = {
            (by.kind, f"{each.value.namespace}/{by.name}".lstrip("/"))
            for each in (*self.objects.of(api.Pod), *makers)
            if (by := _controller(each.value)) is not None
        } | {each.owner for each in found.values()}
        for other in self.objects.others:
            makes_pods = other.makes_pods and other.kind not in _MAKES_NO_PODS
            if makes_pods and (other.kind, other.name) not in owned:
                what = f"{other.kind} {other.name}"
                self.maker.losses.append(Loss(what, other.where, _WHY_NO_PODS, Effect.LEFT_OUT, _OWNERS))
        for each in makers:
            self.maker.losses.extend(loss for loss in each.losses if loss.kind != api.Pod.COUNTED)
            if (each.value.kind, each.value.full_name) in owned and each.value.kind not in _SETS:
                continue
            names = [name for name in self._names_of(each, found.values()) if name not in found]
            found |= {made.pod.name: made for made in self._made(each, names)}
        return list(found.values())

    def _made_again(self, found: Found[api.Pod]) -> Found[api.Pod] | None:
        """The pod that an owner makes in place of one whose node is gone; None: the node is there, or no owner does."""
        pod = found.value
        by = _controller(pod)
        if by is None or by.kind in _OF_NODES or not self._has_lost_node(pod) or _why_not_placed(pod.spec):
            return None
        return dataclasses.replace(found, value=replace(pod, spec=replace(pod.spec, nodeName=""), startTime=""))

    def _has_lost_node(self, pod: api.Pod) -> bool:
        return bool(pod.spec.nodeName) and pod.phase not in _ENDED and pod.spec.nodeName not in self.maker.nodes

    def _why_not(self, pod: api.Pod) -> str | None:
        """Why a pod is not taken."""
        if self._has_lost_node(pod):
            return "its node is not in the files"
        return None if pod.spec.nodeName or pod.phase in _ENDED else _why_not_placed(pod.spec)

    def _present(self, found: Found[api.Pod]) -> Present:
        given, ended = found.value, found.value.phase in _ENDED
        finished = (found.time_ns("status, finishedAt", each.finishedAt) for each in given.containerStatuses)
        ends = [end for end in finished if end is not None]
        if not (ended or given.deletionTimestamp):
            self.maker.losses.extend(self.maker.losses_by_taints(found))
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

    def _names_of(self, found: Found[Any], there: Iterable[Present]) -> Iterator[str]:
        """The names of all pods that an owner is to have; of a DaemonSet those for nodes that lack one."""
        owner, name = found.value, found.value.full_name
        if isinstance(owner, api.DaemonSet):
            has = {each.node or each.for_node for each in there if each.owner == (owner.kind, name) and not each.ended}
            yield from (f"{name}-{node}" for node in self.maker.nodes if node not in has)
            return
        first = owner.firstNumber if isinstance(owner, api.StatefulSet) else 0
        yield from (f"{name}-{first + number}" for number in range(_count_of(owner)))

    def _made(self, found: Found[Any], names: Sequence[str]) -> Iterator[Present]:
        """Pods from a template; they wait."""
        owner = found.value
        kind, name = owner.kind, owner.full_name
        why_not = _why_not_placed(owner.podSpec) if names else None
        if why_not:
            self.maker.losses.append(found.left_out(why_not, _OWNERS))
            return
        created_ns = found.time_ns("metadata.creationTimestamp", owner.creationTimestamp)
        for pod in names:
            labels, spec = _template_of(owner, pod)
            made = self.maker.pod(found, pod, labels, spec)
            if isinstance(owner, api.DaemonSet):
                node = self.maker.nodes[pod.removeprefix(f"{name}-")]
                if not (made.pod.may_be_on(node) and made.pod.tolerates_all(node.taints)):
                    continue
            yield Present(
                *made,
                found.where,
                (kind, name),
                _replacement_by(kind, self._jobs.get(name)),
                _grace_ns(found, owner.podSpec),
                created_ns=created_ns,
            )
        if isinstance(owner, api.StatefulSet) and len(names) > 1:
            policy, table = owner.podManagementPolicy, settings_of("kubernetes")
            self.maker.losses.extend(found.lost(table, kind, "spec.podManagementPolicy", policy, owner.COUNTED))
        if kind == "Job" and (owner.completions or 0) > owner.parallelism:
            value, table = str(owner.completions), settings_of("kubernetes")
            self.maker.losses.extend(found.lost(table, kind, "spec.completions", value, api.Job.COUNTED))


def _why_not_placed(spec: api.PodSpec) -> str | None:
    """Why kube-scheduler does not place a pod that waits; None: it does."""
    if spec.schedulerName != "default-scheduler":
        return "another scheduler places it (spec.schedulerName)"
    return "it waits for its scheduling gates" if spec.schedulingGates else None


def _count_of(owner: Any) -> int:
    """How many pods an owner has; a Job only if it has not begun, and a ReplicaSet none but those of the files."""
    match owner:
        case api.Job():
            begun = owner.suspend or owner.active or owner.succeeded or owner.failed
            return 0 if begun else _few(min(owner.parallelism, owner.completions or owner.parallelism))
        case api.Deployment() | api.StatefulSet():
            return _few(owner.replicas)
    return 0


_ON_ALL_NODES = (
    *(("node.kubernetes.io/not-ready", "NoExecute"), ("node.kubernetes.io/unreachable", "NoExecute")),
    *((f"node.kubernetes.io/{what}", "NoSchedule") for what in ("disk-pressure", "memory-pressure", "pid-pressure")),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What pods of DaemonSets tolerate (https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/)."""


def _template_of(owner: Any, pod: str) -> tuple[Mapping[str, str], api.PodSpec]:
    """The labels and the spec of a pod, with what its controller adds to the template."""
    labels, spec = owner.podLabels, owner.podSpec
    own_name = pod.rpartition("/")[2]
    match owner:
        case api.Deployment():
            labels = {**labels, TEMPLATE_HASH: _HASH}
        case api.StatefulSet():
            number = pod.rpartition("-")[2]
            labels = {
                **labels,
                "statefulset.kubernetes.io/pod-name": own_name,
                "apps.kubernetes.io/pod-index": number,
            }
            claims = (api.PodVolume(each.name, f"{each.name}-{own_name}") for each in owner.claims)
            spec = replace(spec, volumes=(*spec.volumes, *claims))
        case api.DaemonSet():
            node = pod.removeprefix(f"{owner.full_name}-")
            tolerations = (api.Toleration(key, "Exists", "", effect) for key, effect in _ON_ALL_NODES)
            spec = replace(spec, tolerations=(*spec.tolerations, *tolerations), nodeAffinity=_only_on(spec, node))
    return labels, spec


def _only_on(spec: api.PodSpec, node: str) -> api.NodeSelector:
    """The node affinity of a DaemonSet's pod: its template's, on one node."""
    name = api.Expression(NAME_FIELD, "In", (node,))
    terms = (api.NodeSelectorTerm(),) if spec.nodeAffinity is None else spec.nodeAffinity.nodeSelectorTerms
    return api.NodeSelector(tuple(replace(each, matchFields=(*each.matchFields, name)) for each in terms))


_HASH = "new"
"""The hash of the template of pods that are made; no other pod has it."""
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
