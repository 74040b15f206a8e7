"""A loop as YAML that ``kubectl apply`` takes: the queues as they are, and its workloads as Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from emulator.files.yaml_values import dump_yaml
from emulator.sites.kubernetes import Toleration
from emulator.sites.kueue import (
    Arrival,
    Cluster,
    ClusterQueue,
    Cohort,
    Flavor,
    PodSet,
    Preference,
    ResourceGroup,
    StopPolicy,
)
from emulator.sites.labels import Expression
from workloads.kubernetes.quantities import quantity
from workloads.kueue.objects import KueueObject

API = f"{KueueObject.GROUP}/v1beta2"
_NAMESPACE = "natjam-loop"
_PAUSE = "registry.k8s.io/pause:3.10"


def cluster_manifests(cluster: Cluster) -> str:
    """The namespace, flavors, cohorts and queues; and Kueue's own configuration as a comment."""
    flavors = {
        flavor.name: Flavor(flavor.name)
        for of in (*cluster.cohorts, *cluster.queues)
        for group in of.groups
        for flavor in group.flavors
    }
    flavors |= {each.name: each for each in cluster.flavors if each.name in flavors}
    parts: list[Mapping[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}]
    for each in flavors.values():
        spec = _flavor(each)
        made = _object("ResourceFlavor", each.name, spec)
        parts.append(made if spec else {name: value for name, value in made.items() if name != "spec"})
    parts += (_object("Cohort", each.name, _cohort(each)) for each in cluster.cohorts)
    for queue in cluster.queues:
        parts.append(_object("ClusterQueue", queue.name, _queue(queue)))
        local = _object("LocalQueue", queue.name, {"clusterQueue": queue.name})
        parts.append({**local, "metadata": {"name": queue.name, "namespace": _NAMESPACE}})
    if cluster.fair_sharing is None:
        head = "# Kueue's Configuration: without fairSharing.\n"
    else:
        strategies = ", ".join(each.value for each in cluster.fair_sharing)
        head = f"# Kueue's Configuration: fairSharing: {{preemptionStrategies: [{strategies}]}}\n"
    if not cluster.sorts_by_priority:
        head += "# and featureGates: {PrioritySortingWithinCohort: false}\n"
    return head + _documents(parts)


def job_manifests(arrivals: Iterable[Arrival]) -> Iterator[str]:
    """A Job for each arrival, with its priority class; they are to be applied one after another."""
    for arrival in arrivals:
        workload = arrival.workload
        (podset,) = workload.podsets
        priority = f"natjam-{workload.priority}"
        labels = {f"{KueueObject.GROUP}/queue-name": workload.queue, f"{KueueObject.GROUP}/priority-class": priority}
        requests = {resource: quantity(resource, amount) for resource, amount in podset.requests.items()}
        # Kubernetes wants requests of extended resources, such as GPUs, to be limits too.
        container = {"name": "main", "image": _PAUSE, "resources": {"requests": requests, "limits": requests}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": workload.name, "namespace": _NAMESPACE, "labels": labels},
            "spec": {
                "parallelism": podset.count,
                "completions": podset.count,
                **({} if arrival.duration_ns is None else {"activeDeadlineSeconds": arrival.duration_ns // 10**9}),
                "template": {"spec": {"restartPolicy": "Never", "containers": [container], **_choice(podset)}},
            },
        }
        rank = {**_object("WorkloadPriorityClass", priority, {}), "value": workload.priority}
        del rank["spec"]
        yield _documents([rank, job])


def _choice(podset: PodSet) -> dict[str, Any]:
    """What of a pod's spec says where it may be."""
    terms = [{"matchExpressions": [_expression(each) for each in term.expressions]} for term in podset.affinity]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        **({"nodeSelector": dict(podset.selector)} if podset.selector else {}),
        **({"affinity": {"nodeAffinity": required}} if terms else {}),
        **_tolerations(podset.tolerations),
    }


def _expression(of: Expression) -> dict[str, Any]:
    return {"key": of.key, "operator": of.operator.value, **({"values": list(of.values)} if of.values else {})}


def _tolerations(of: Iterable[Toleration]) -> dict[str, Any]:
    made = [
        {name: str(value) for name, value in to_builtins(each).items() if value} | {"operator": each.operator.value}
        for each in of
    ]
    return {"tolerations": made} if made else {}


def _flavor(of: Flavor) -> dict[str, Any]:
    taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in of.taints]
    return {
        **({"nodeLabels": dict(of.labels)} if of.labels else {}),
        **({"nodeTaints": taints} if taints else {}),
        **_tolerations(of.tolerations),
    }


def _documents(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"---\n{dump_yaml(part)}" for part in parts)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _cohort(cohort: Cohort) -> dict[str, Any]:
    parent = {} if cohort.parent is None else {"parentName": cohort.parent}
    return {**parent, **_groups(cohort.groups), **_weight(cohort.weight)}


def _queue(queue: ClusterQueue) -> dict[str, Any]:
    preemption, fungibility = queue.preemption, queue.fungibility
    policies: dict[str, Any] = {
        "withinClusterQueue": preemption.within_queue.value,
        "reclaimWithinCohort": preemption.reclaim_within_cohort.value,
    }
    if preemption.may_borrow:
        borrow = preemption.borrow_within_cohort
        most = {} if borrow.max_priority is None else {"maxPriorityThreshold": borrow.max_priority}
        policies["borrowWithinCohort"] = {"policy": borrow.policy.value, **most}
    return {
        "namespaceSelector": {},
        **({} if queue.cohort is None else {"cohortName": queue.cohort}),
        "queueingStrategy": queue.strategy.value,
        "preemption": policies,
        "flavorFungibility": {
            "whenCanBorrow": fungibility.when_can_borrow.value,
            "whenCanPreempt": fungibility.when_can_preempt.value,
            **({} if fungibility.preference is Preference.BORROWING else {"preference": fungibility.preference.value}),
        },
        **({} if queue.stop is StopPolicy.NONE else {"stopPolicy": queue.stop.value}),
        **_groups(queue.groups),
        **_weight(queue.weight),
    }


def _weight(weight: float) -> dict[str, Any]:
    return {} if weight == 1 else {"fairSharing": {"weight": f"{weight:g}"}}


def _groups(groups: Iterable[ResourceGroup]) -> dict[str, Any]:
    made = [
        {
            "coveredResources": list(group.resources),
            "flavors": [
                {
                    "name": flavor.name,
                    "resources": [
                        {
                            "name": resource,
                            **{
                                name: quantity(resource, value)
                                for name, value in (
                                    ("nominalQuota", flavor.quotas[resource].nominal),
                                    ("borrowingLimit", flavor.quotas[resource].borrowing_limit),
                                    ("lendingLimit", flavor.quotas[resource].lending_limit),
                                )
                                if value is not None
                            },
                        }
                        for resource in group.resources
                    ],
                }
                for flavor in group.flavors
            ],
        }
        for group in groups
    ]
    return {"resourceGroups": made} if made else {}
