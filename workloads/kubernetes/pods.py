"""A pod's spec as what kube-scheduler decides from it, and what it requests, as Kubernetes sums its containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from emulator.errors import printable
from emulator.sites.kubernetes import AffinityTerm, Group, Node, Pod, Policy, PriorityClass
from emulator.sites.labels import NOTHING
from workloads.kubernetes import objects as api
from workloads.kubernetes.quantities import amount
from workloads.kubernetes.reading import Found
from workloads.kubernetes.selectors import compares_numbers, node_terms_of, selector_of, taints_of, tolerations_of
from workloads.setting_effects import Effect, Loss, settings_of


def node_of(found: Found[api.Node]) -> Node:
    """A node.  Raises ConfigError: a bad quantity or effect."""
    node = found.value
    has = node.allocatable
    allocatable = {each: found.amount("status.allocatable", each, value) for each, value in has.items()}
    return Node(node.name, allocatable, node.labels, taints_of(found, "spec.taints", node.taints), node.unschedulable)


def class_of(found: Found[api.PriorityClass]) -> PriorityClass:
    """A PriorityClass.  Raises ConfigError: a bad policy."""
    given = found.value
    policy = found.word("preemptionPolicy", Policy, given.preemptionPolicy)
    return PriorityClass(given.name, given.value, policy, given.globalDefault)


_BUILT_IN = {
    name: PriorityClass(name, value)
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
}
"""Classes that each cluster has, whatever the files say
(https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/)."""


def _class_of(
    found: Found[Any], spec: api.PodSpec | api.PodGroup, classes: Mapping[str, PriorityClass]
) -> PriorityClass:
    """The PriorityClass of a pod or a group, else the usual one."""
    named, chosen = spec.priorityClassName, PriorityClass("", 0)
    known = classes.get(named, _BUILT_IN.get(named))
    if not named:
        chosen = next((each for each in classes.values() if each.is_default), chosen)
    elif known is None and spec.priority is None:
        raise found.problem("spec.priorityClassName", f"there is no PriorityClass '{printable(named)}' in the files")
    else:
        chosen = known or chosen
    return chosen


def _admitted(spec: api.PodSpec | api.PodGroup, chosen: PriorityClass) -> int:
    """The priority that it has: the one that it was admitted with, which stays when the class gets another value."""
    return chosen.value if spec.priority is None else spec.priority


_DISRUPTION_MODES = ("", "Pod", "PodGroup")


def group_of(found: Found[api.PodGroup], classes: Mapping[str, PriorityClass]) -> Group:
    """A PodGroup.  Raises ConfigError: a bad mode, count or class."""
    spec = found.value
    priority = _admitted(spec, _class_of(found, spec, classes))
    if spec.disruptionMode not in _DISRUPTION_MODES:
        raise found.problem("spec.disruptionMode", "must be Pod or PodGroup")
    count = spec.minCount
    if not 1 <= count < 2**31:
        raise found.problem("spec.schedulingPolicy.gang.minCount", "must be 1 or more")
    return Group(spec.full_name, priority, spec.disruptionMode == "PodGroup", count)


_NODE_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_ANTI_AFFINITY = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_SPREAD_OWNERS = {"ReplicaSet", "ReplicationController", "StatefulSet"}
"""Kinds whose pods kube-scheduler spreads by default."""
_WHY_NO_GROUP = "its PodGroup is not in the files: it is placed without the others"
Lost = Callable[[str, str], None]
"""Counts a field of a pod that is not carried over: its key in the list of settings, and its value."""


class Made(NamedTuple):
    """A pod as it was admitted, and the priority that it would be admitted with now."""

    pod: Pod
    priority_now: int


@dataclass(frozen=True)
class PodMaker:
    """Makes pods; what it cannot carry over goes to ``losses``."""

    classes: Mapping[str, PriorityClass]
    nodes: Mapping[str, Node]
    groups: Mapping[str, Group]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of each."""
    revalued: frozenset[str] = frozenset()
    """PriorityClasses whose values are no more those that their pods were admitted with."""
    losses: list[Loss] = field(default_factory=list)
    partial: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By pod: what of it decides and is not modelled, and why that matters."""

    def pod(self, found: Found[Any], name: str, labels: Mapping[str, str], spec: api.PodSpec) -> Made:
        """A pod of this name, in the namespace of ``found``.  Raises ConfigError: a bad quantity, word or class."""
        try:
            requests = requests_of(spec)
        except ValueError as error:
            raise found.problem("resources", error) from None
        chosen = _class_of(found, spec, self.classes)
        priority = _admitted(spec, chosen)
        losses = [replace(each, has_it=name) for each in found.losses if each.kind == api.Pod.COUNTED]

        def lost(key: str, value: str) -> None:
            losses.extend(found.lost(settings_of("kubernetes"), "Pod", key, value, api.Pod.COUNTED, name))

        namespace = found.value.namespace
        pod = Pod(
            name,
            priority,
            policy=found.word("spec.preemptionPolicy", Policy, spec.preemptionPolicy or chosen.policy.value),
            requests=requests,
            namespace=found.value.in_namespace,
            labels=labels,
            selector=spec.nodeSelector,
            node_affinity=node_terms_of(found, _NODE_AFFINITY, spec.nodeAffinity),
            tolerations=tuple(tolerations_of(found, "spec.tolerations", spec.tolerations)),
            anti_affinity=tuple(self._terms(found, _ANTI_AFFINITY, spec.podAntiAffinity, lost)),
            group=self._group(spec, namespace),
        )
        if spec.podGroupName and not pod.group:
            what = f"{found.name}.spec.schedulingGroup"
            losses.append(Loss(what, found.where, _WHY_NO_GROUP, Effect.DECIDES, api.Pod.COUNTED, name))
        owners = ["ReplicaSet"] if isinstance(found.value, api.Deployment) else []
        owners += (each.kind for each in found.value.ownerReferences)
        if _SPREAD_OWNERS.intersection(owners):
            lost("metadata.ownerReferences.kind", "")
        for each in filter(compares_numbers, spec.tolerations):
            lost("spec.tolerations.operator", each.operator)
        if _has_host_ports(spec):
            lost("spec.containers.ports.hostPort", "")
        if losses:
            self.partial[name] = tuple(
                dict.fromkeys(f"{each.what.removeprefix(f'{found.name}.')}: {each.why}" for each in losses)
            )
        self.losses.extend(losses)
        return Made(pod, chosen.value if chosen.name in self.revalued else priority)

    def _group(self, spec: api.PodSpec, namespace: str) -> str:
        named = spec.podGroupName
        group = f"{namespace}/{named}" if namespace else named
        return group if group in self.groups else ""

    def _terms(
        self, found: Found[Any], field: str, given: Iterable[api.AffinityTerm], lost: Lost
    ) -> Iterator[AffinityTerm]:
        """The terms of a pod affinity.  Those that select namespaces by labels need the Namespaces in the files."""
        for term in given:
            selector = NOTHING if term.labelSelector is None else selector_of(found, field, term.labelSelector)
            named = term.namespaces or (found.value.in_namespace,)
            if term.namespaceSelector is None:
                yield AffinityTerm(selector, term.topologyKey, named)
                continue
            chosen = selector_of(found, field, term.namespaceSelector)
            if chosen.is_empty:
                yield AffinityTerm(selector, term.topologyKey)
                continue
            if not self.namespaces:
                lost(f"{field}.namespaceSelector", "")
            selected = (name for name, labels in self.namespaces.items() if chosen.matches(labels))
            spaces = dict.fromkeys((*term.namespaces, *selected))
            yield AffinityTerm(selector if spaces else NOTHING, term.topologyKey, tuple(spaces))


def _has_host_ports(spec: api.PodSpec) -> bool:
    """Whether it takes ports of its node; in the node's network all of its ports are."""
    ports = [port for container in (*spec.containers, *spec.initContainers) for port in container.ports]
    return any(port.hostPort or (spec.hostNetwork and port.containerPort) for port in ports)


def requests_of(pod: api.Requesting) -> dict[str, int]:
    """The sum of the pod's containers, or its largest init container, and its overhead; by resource, in order of names.

    Init containers that go on running beside the others (sidecars, with restartPolicy Always) add to the sum, and to
    each init container after them.  What is requested for the whole pod takes the place of what its containers request.
    A limit counts where there is no request.  Raises ValueError: a bad quantity, which the message does not repeat.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers and
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    beside: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in pod.initContainers:
        asked = _asked(container.resources)
        if container.restartPolicy == "Always":
            _add(beside, asked)
        else:
            _add(asked, beside)
        largest = {each: max(largest.get(each, 0), asked.get(each, 0)) for each in {*largest, *asked}}
    for container in pod.containers:
        _add(beside, _asked(container.resources))
    total = {each: max(beside.get(each, 0), largest.get(each, 0)) for each in {*beside, *largest}}
    total |= _asked(pod.resources)
    _add(total, _asked(api.Resources(pod.overhead)))
    return {each: total[each] for each in sorted(total)}


def _asked(resources: api.Resources) -> dict[str, int]:
    both = {**resources.limits, **resources.requests}
    return {resource: amount(resource, quantity) for resource, quantity in both.items()}


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        to[resource] = to.get(resource, 0) + value
