"""A pod's spec as what kube-scheduler decides from it, and what it requests, as Kubernetes sums its containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from emulator.errors import printable
from emulator.sites.kubernetes import (
    ANY_ADDRESS,
    AffinityTerm,
    Context,
    Group,
    HostPort,
    Node,
    Pod,
    Policy,
    PreferredNodes,
    PreferredPods,
    PriorityClass,
    Spread,
    default_spread,
    own_values,
)
from emulator.sites.kubernetes import Effect as TaintEffect
from emulator.sites.labels import NOTHING, Expression, LabelOperator, NodeTerm, Selector
from workloads.kubernetes import objects as api
from workloads.kubernetes.quantities import amount
from workloads.kubernetes.reading import Found, Objects
from workloads.kubernetes.selectors import (
    compares_numbers,
    node_term_of,
    node_terms_of,
    selector_of,
    taints_of,
    tolerations_of,
)
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
    named, without = spec.priorityClassName, PriorityClass("", 0)
    if not named:
        return next((each for each in classes.values() if each.is_default), without)
    known = classes.get(named, _BUILT_IN.get(named))
    if known is None and spec.priority is None:
        raise found.problem("spec.priorityClassName", f"there is no PriorityClass '{printable(named)}' in the files")
    return known or without


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
_SPREAD_OWNERS = {"ReplicaSet", "ReplicationController", "StatefulSet"}
"""Kinds whose pods kube-scheduler spreads by default."""
_WHY_NO_GROUP = "its PodGroup is not in the files: it is placed without the others"
Lost = Callable[[str, str], None]
"""Counts a field of a pod that is not carried over: its key in the list of settings, and its value."""


class Made(NamedTuple):
    """A pod as it was admitted, and the priority that it would be admitted with now."""

    pod: Pod
    priority_now: int


def context_of(objects: Objects, base: Context | None = None) -> Context:
    """What these objects, and the cluster that they are for, say about pods.  Raises ConfigError: a bad selector."""
    base = base or Context()
    services = {name: list(selectors) for name, selectors in base.services.items()}
    for each in objects.of(api.Service):
        if each.value.selector:
            services.setdefault(each.value.in_namespace, []).append(Selector(each.value.selector))
    owners = {
        f"{each.value.kind} {each.value.in_namespace}/{each.value.name}": _selector_of_owner(each)
        for kind in (api.ReplicaSet, api.StatefulSet, api.Deployment)
        for each in objects.of(kind)
    }
    return Context(
        {**base.namespaces, **{each.value.name: each.value.labels for each in objects.of(api.Namespace)}},
        {name: tuple(selectors) for name, selectors in services.items()},
        {**base.owners, **owners},
        {**base.volumes, **dict(_nodes_of_claims(objects))},
    )


def _nodes_of_claims(objects: Objects) -> Iterator[tuple[str, tuple[NodeTerm, ...]]]:
    """By claim that is bound to a volume, the terms for its nodes."""
    nodes = {}
    for each in objects.of(api.PersistentVolume):
        nodes[each.value.name] = node_terms_of(each, "spec.nodeAffinity", each.value.nodeAffinity)
        claim = each.value.claimRef
        if claim is not None:
            yield f"{claim.namespace or 'default'}/{claim.name}", nodes[each.value.name]
    for claim in (each.value for each in objects.of(api.PersistentVolumeClaim)):
        if claim.volumeName in nodes:
            yield f"{claim.in_namespace}/{claim.name}", nodes[claim.volumeName]


TEMPLATE_HASH = "pod-template-hash"
"""The label by which the pods of one ReplicaSet of a Deployment are told from those of another."""


def _selector_of_owner(owner: Found[Any]) -> Selector:
    given = owner.value.selector
    return Selector() if given is None else selector_of(owner, "spec.selector", given)


@dataclass(frozen=True)
class PodMaker:
    """Makes pods; what it cannot carry over goes to ``losses``."""

    classes: Mapping[str, PriorityClass]
    nodes: Mapping[str, Node]
    groups: Mapping[str, Group]
    context: Context
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
            prefers_nodes=tuple(
                PreferredNodes(node_term_of(found, _NODE_AFFINITY, each.preference), each.weight)
                for each in spec.preferredNodes
            ),
            tolerations=tuple(tolerations_of(found, "spec.tolerations", spec.tolerations)),
            affinity=self._terms(found, "podAffinity", spec.podAffinity, labels, lost),
            anti_affinity=self._terms(found, "podAntiAffinity", spec.podAntiAffinity, labels, lost),
            prefers_pods=(
                *self._preferred(found, "podAffinity", spec.preferredPods, 1, labels, lost),
                *self._preferred(found, "podAntiAffinity", spec.avoidedPods, -1, labels, lost),
            ),
            spread=tuple(_spread(found, each, labels) for each in spec.topologySpreadConstraints)
            or self._default_spread(found, labels, lost),
            ports=tuple(_host_ports(spec)),
            volumes=tuple(self._volumes(found, name, spec, lost)),
            group=self._group(spec, namespace),
        )
        if spec.podGroupName and not pod.group:
            what = f"{found.name}.spec.schedulingGroup"
            losses.append(Loss(what, found.where, _WHY_NO_GROUP, Effect.DECIDES, api.Pod.COUNTED, name))
        for each in filter(compares_numbers, spec.tolerations):
            lost("spec.tolerations.operator", each.operator)
        if spec.runtimeClassName and not (isinstance(found.value, api.Pod) and found.value.creationTimestamp):
            lost("spec.runtimeClassName", spec.runtimeClassName)
        if losses:
            self.partial[name] = tuple(
                dict.fromkeys(f"{each.what.removeprefix(f'{found.name}.')}: {each.why}" for each in losses)
            )
        self.losses.extend(losses)
        return Made(pod, chosen.value if chosen.name in self.revalued else priority)

    def losses_by_taints(self, found: Found[api.Pod]) -> list[Loss]:
        """What is lost with the taints for which a pod is evicted from the node that it is on."""
        spec = found.value.spec
        for_long = (each for each in spec.tolerations if each.tolerationSeconds is None)
        tolerations = [*tolerations_of(found, "spec.tolerations", for_long)]
        taints = self.nodes[spec.nodeName].taints if spec.nodeName in self.nodes else ()
        if all(
            any(each.tolerates(taint) for each in tolerations)
            for taint in taints
            if taint.effect is TaintEffect.NO_EXECUTE
        ):
            return []
        return found.lost(settings_of("kubernetes"), "Pod", "spec.tolerations.tolerationSeconds", "", api.Pod.COUNTED)

    def _group(self, spec: api.PodSpec, namespace: str) -> str:
        named = spec.podGroupName
        group = f"{namespace}/{named}" if namespace else named
        return group if group in self.groups else ""

    def _default_spread(self, found: Found[Any], labels: Mapping[str, str], lost: Lost) -> tuple[Spread, ...]:
        """The default profile's constraints for a pod, by its services and its owner, as far as they are known."""
        space, owner = found.value.in_namespace, None
        by = next((each for each in found.value.ownerReferences if each.controller), None)
        is_template = isinstance(found.value, api.Deployment | api.StatefulSet)
        if is_template or (by is not None and by.kind in _SPREAD_OWNERS):
            kind, name = (found.value.kind, found.value.name) if is_template or by is None else (by.kind, by.name)
            deployment = name.removesuffix(f"-{labels.get(TEMPLATE_HASH, '')}")
            owner = self.context.owners.get(f"{kind} {space}/{name}")
            if owner is None or kind == "Deployment":
                owner = self.context.owners.get(f"Deployment {space}/{deployment}")
                owner = None if owner is None else own_values(owner, (TEMPLATE_HASH,), labels)
            if owner is None:
                lost("metadata.ownerReferences.kind", "")
        return default_spread(labels, self.context.services.get(space, ()), owner)

    def _terms(
        self, found: Found[Any], kind: str, given: Iterable[api.AffinityTerm], labels: Mapping[str, str], lost: Lost
    ) -> tuple[AffinityTerm, ...]:
        return tuple(self._term(found, kind, each, labels, lost) for each in given)

    def _preferred(
        self,
        found: Found[Any],
        kind: str,
        given: Iterable[api.PreferredPods],
        sign: int,
        labels: Mapping[str, str],
        lost: Lost,
    ) -> Iterator[PreferredPods]:
        for each in given:
            yield PreferredPods(self._term(found, kind, each.podAffinityTerm, labels, lost), sign * each.weight)

    def _term(
        self, found: Found[Any], kind: str, term: api.AffinityTerm, labels: Mapping[str, str], lost: Lost
    ) -> AffinityTerm:
        """A term of a pod affinity.  One that selects namespaces by labels needs the Namespaces in the files."""
        field = f"spec.affinity.{kind}"
        selector = _own(found, field, term.labelSelector, term.matchLabelKeys, labels)
        others = (
            Expression(key, LabelOperator.NOT_IN, (labels[key],)) for key in term.mismatchLabelKeys if key in labels
        )
        selector = replace(selector, expressions=(*selector.expressions, *others))
        named = term.namespaces or (found.value.in_namespace,)
        if term.namespaceSelector is None:
            return AffinityTerm(selector, term.topologyKey, named)
        chosen = selector_of(found, field, term.namespaceSelector)
        if chosen.is_empty:
            return AffinityTerm(selector, term.topologyKey)
        namespaces = self.context.namespaces
        if not namespaces:
            lost(f"{field}.requiredDuringSchedulingIgnoredDuringExecution.namespaceSelector", "")
        selected = (name for name, its in namespaces.items() if chosen.matches(its))
        spaces = dict.fromkeys((*term.namespaces, *selected))
        return AffinityTerm(selector if spaces else NOTHING, term.topologyKey, tuple(spaces))

    def _volumes(self, found: Found[Any], pod: str, spec: api.PodSpec, lost: Lost) -> Iterator[tuple[NodeTerm, ...]]:
        """For each volume that has a place, the terms for its nodes."""
        for each in spec.volumes:
            claim = each.claimName or (f"{pod.rpartition('/')[2]}-{each.name}" if each.ephemeral is not None else "")
            if not claim:
                continue
            nodes = self.context.volumes.get(f"{found.value.in_namespace}/{claim}")
            if nodes is None:
                lost(f"spec.volumes.{'persistentVolumeClaim' if each.ephemeral is None else 'ephemeral'}", "")
            elif nodes:
                yield nodes


def _own(
    found: Found[Any], field: str, given: api.LabelSelector | None, keys: Iterable[str], labels: Mapping[str, str]
) -> Selector:
    """A selector of a pod's term, with the values that the pod has of some keys; nothing if it is left out."""
    return NOTHING if given is None else own_values(selector_of(found, field, given), keys, labels)


class _When(StrEnum):
    """``whenUnsatisfiable``."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class _Counts(StrEnum):
    """``nodeAffinityPolicy`` and ``nodeTaintsPolicy``."""

    HONOR = "Honor"
    IGNORE = "Ignore"


def _spread(found: Found[Any], given: api.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    field = "spec.topologySpreadConstraints"
    when = found.word(f"{field}, whenUnsatisfiable", _When, given.whenUnsatisfiable)
    if given.maxSkew < 1 or (given.minDomains or 1) < 1:
        raise found.problem(field, "maxSkew and minDomains must be 1 or more")
    return Spread(
        given.topologyKey,
        given.maxSkew,
        _own(found, field, given.labelSelector, given.matchLabelKeys, labels),
        when is _When.DO_NOT_SCHEDULE,
        given.minDomains or 1,
        found.word(f"{field}, nodeAffinityPolicy", _Counts, given.nodeAffinityPolicy) is _Counts.IGNORE,
        found.word(f"{field}, nodeTaintsPolicy", _Counts, given.nodeTaintsPolicy) is _Counts.HONOR,
    )


def _host_ports(spec: api.PodSpec) -> Iterator[HostPort]:
    """The ports that it takes of its node; in the node's network all of its ports are.

    Of init containers those count that run beside the others.
    """
    beside = (each for each in spec.initContainers if each.restartPolicy == "Always")
    for port in (port for container in (*beside, *spec.containers) for port in container.ports):
        number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
        if number:
            yield HostPort(number, port.protocol or "TCP", port.hostIP or ANY_ADDRESS)


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
