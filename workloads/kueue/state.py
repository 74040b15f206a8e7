"""Kueue's objects as what its decisions are made from: queues, cohorts, priorities, and the workloads that arrived.

With them the nodes as Kueue's flavors see them, and where quotas promise more than the nodes have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.files.progress import OnBytes, ignore
from emulator.sites.kubernetes import Node
from emulator.sites.kueue import (
    CIRCLE,
    DEFAULT_STRATEGIES,
    AdmissionCheck,
    Arrival,
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorPolicy,
    FlavorQuotas,
    Fungibility,
    Kueue,
    LocalQueue,
    PodSet,
    PodsReady,
    Policy,
    Preemption,
    Preference,
    QueueingStrategy,
    Quota,
    RequeuingTimestamp,
    ResourceGroup,
    ShareStrategy,
    StopPolicy,
    Workload,
)
from emulator.sites.labels import Selector
from emulator.vocabulary import SECOND_NS, Frozen
from workloads.kubernetes.pods import node_of, requests_of
from workloads.kubernetes.quantities import Quantity, amount, exact, quantity
from workloads.kubernetes.reading import Found, Objects, read_objects, unique
from workloads.kubernetes.selectors import compares_numbers, node_terms_of, selector_of, taints_of, tolerations_of
from workloads.kueue import objects as api
from workloads.setting_effects import Effect, Loss, basis_of, settings_of

_FUNGIBILITY_BEFORE = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Names of v1beta1."""


def read_kueue(paths: Sequence[Path], on_bytes: OnBytes = ignore) -> tuple[Kueue, list[Loss]]:
    """Kueue's objects in files and folders, and what was not taken from them.  Raises ConfigError."""
    found = read_objects(paths, api.KINDS, settings_of("kueue"), on_bytes)
    queues = found.of(api.ClusterQueue)
    if not queues:
        names = ", ".join(map(str, paths))
        raise ConfigError(f"{names}: no ClusterQueue in it; get them with: kubectl get clusterqueues -o yaml")
    configurations = found.of(api.Configuration)
    checks, of_checks = _checks(found)
    cluster = Cluster(
        tuple(map(_queue, unique(queues))),
        tuple(map(_cohort, unique(found.of(api.Cohort)))),
        _strategies(configurations),
        tuple(map(_flavor_of, unique(found.of(api.ResourceFlavor)))),
        tuple(map(_local_queue, found.of(api.LocalQueue))),
        {each.value.name: {**each.value.labels, _NAME_LABEL: each.value.name} for each in found.of(api.Namespace)},
        checks,
        next((_pods_ready(each) for each in configurations), PodsReady(_PODS_TIMEOUT_NS)),
        sorts_by_priority=not any(each.value.featureGates.get(_SORTING) == "false" for each in configurations),
    )
    if cluster.circle is not None:
        where = {each.value.name: each.where for each in found.of(api.Cohort)}[cluster.circle]
        raise ConfigError(f"{where}: Cohort {printable(cluster.circle)}: spec.parentName: {CIRCLE}")
    classes = [*found.of(api.PriorityClass), *unique(found.of(api.WorkloadPriorityClass))]
    priorities = {each.value.name: each.value.value for each in classes}
    arrivals, of_workloads = _arrivals(found, cluster, priorities, _counting(configurations))
    nodes, left_out = _nodes_of(found, cluster)
    apart = (api.Workload, api.Configuration)
    losses = [*found.decides(each for each in api.KINDS if each not in apart), *_of_configuration(found)]
    on_nodes = (loss for loss in of_workloads if nodes or not loss.why.startswith(_ON_NODES))
    losses += [*_inactive(found), *_without_namespaces(found), *of_checks, *on_nodes, *left_out, *found.losses]
    totals = found.totals(api.KINDS)
    return Kueue(cluster, priorities, arrivals, nodes, basis_of(losses, totals)), losses


_ON_NODES = "on nodes: "
"""So the table begins what decides only where kube-scheduler has a part."""


def _inactive(found: Objects) -> Iterator[Loss]:
    """Queues that Kueue held inactive when the files were written: a flavor, or a check, was missing, for example."""
    for each in (*found.of(api.ClusterQueue), *found.of(api.LocalQueue)):
        if any(condition.type == "Active" and condition.status == "False" for condition in each.value.conditions):
            yield from each.lost(
                settings_of("kueue"), each.value.kind, "status.conditions", "Active=False", each.value.COUNTED
            )


def _without_namespaces(found: Objects) -> Iterator[Loss]:
    """Queues that select no namespace, which manifests that are not complete often leave out."""
    for each in found.of(api.ClusterQueue):
        if each.value.namespaceSelector is None:
            counted = each.value.COUNTED
            yield Loss(each.name, each.where, _WHY_NO_SELECTOR, Effect.DECIDES, counted, each.value.full_name)


_WHY_NO_SELECTOR = (
    "it has no namespaceSelector, so Kueue admits no workload to it: here it counts as {}, which selects all namespaces"
)


def _of_configuration(found: Objects) -> Iterator[Loss]:
    """What Kueue's own configuration decides that is not modelled; all of it, if it is in a ConfigMap."""
    table = settings_of("kueue")
    for each in found.of(api.Configuration):
        waits, counted = each.value.waitsForPods, api.Configuration.COUNTED
        yield from (loss for loss in each.losses if waits is not False or ".waitForPodsReady." not in loss.what)
        for gate, is_on in each.value.featureGates.items():
            what = f"Configuration.featureGates.{printable(gate)}={printable(is_on)}"
            loss = table.loss("feature gate", gate, is_on, each.where, what=what, kind=counted)
            yield from () if loss is None else (loss,)
    for other in found.others:
        if other.kind == "ConfigMap" and other.name.endswith("manager-config"):
            yield Loss(f"{other.kind} {other.name}", other.where, _WHY_CONFIG_MAP, Effect.DECIDES)


_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that each namespace has by itself."""
_SORTING, _IGNORES_READY = "PrioritySortingWithinCohort", "DisableWaitForPodsReady"
_PODS_TIMEOUT_NS = 1800 * SECOND_NS
"""Kueue's default, if its Configuration is not in the files."""
_WHY_CONFIG_MAP = "Kueue's Configuration is not read from a ConfigMap: give the text in its data as a file"


def _queue(found: Found[api.ClusterQueue]) -> ClusterQueue:
    spec = found.value
    borrows, reclaims = spec.borrowWithinCohort != Policy.NEVER, spec.reclaimWithinCohort != Policy.NEVER
    if borrows and not reclaims:
        what = "must be left out, or Never, where reclaimWithinCohort is Never"
        raise found.problem("spec.preemption.borrowWithinCohort.policy", what)
    limited = (quota for group in spec.resourceGroups for flavor in group.flavors for quota in flavor.resources)
    if not (spec.cohortName or spec.cohort):
        for quota in limited:
            for name, limit in (("borrowingLimit", quota.borrowingLimit), ("lendingLimit", quota.lendingLimit)):
                if limit is not None:
                    raise found.problem(f"spec.resourceGroups, resource {quota.name}: {name}", "needs a cohort")
    selector = spec.namespaceSelector
    checks = {**dict.fromkeys(spec.admissionChecks, ()), **{each.name: each.onFlavors for each in spec.checkRules}}
    when = [_FUNGIBILITY_BEFORE.get(each, each) for each in (spec.whenCanBorrow, spec.whenCanPreempt)]
    return ClusterQueue(
        found.value.name,
        spec.cohortName or spec.cohort or None,
        _groups(found, spec.resourceGroups),
        _weight(found, spec.weight),
        found.word("spec.queueingStrategy", QueueingStrategy, spec.queueingStrategy),
        Preemption(
            found.word("spec.preemption.withinClusterQueue", Policy, spec.withinClusterQueue),
            found.word("spec.preemption.reclaimWithinCohort", Policy, spec.reclaimWithinCohort),
            BorrowWithinCohort(
                found.word("spec.preemption.borrowWithinCohort.policy", Policy, spec.borrowWithinCohort),
                spec.maxPriorityThreshold,
            ),
        ),
        Fungibility(
            found.word("spec.flavorFungibility.whenCanBorrow", FlavorPolicy, when[0]),
            found.word("spec.flavorFungibility.whenCanPreempt", FlavorPolicy, when[1]),
            found.word("spec.flavorFungibility.preference", Preference, spec.preference),
        ),
        found.word("spec.stopPolicy", StopPolicy, spec.stopPolicy),
        Selector() if selector is None else selector_of(found, "spec.namespaceSelector", selector),
        checks,
    )


def _flavor_of(found: Found[api.ResourceFlavor]) -> Flavor:
    spec = found.value
    tolerations = tuple(tolerations_of(found, "spec.tolerations", spec.tolerations))
    return Flavor(spec.name, spec.nodeLabels, taints_of(found, "spec.nodeTaints", spec.nodeTaints), tolerations)


def _local_queue(found: Found[api.LocalQueue]) -> LocalQueue:
    spec = found.value
    stop = found.word("spec.stopPolicy", StopPolicy, spec.stopPolicy)
    return LocalQueue(spec.name, spec.namespace, spec.clusterQueue, stop)


def _checks(found: Objects) -> tuple[tuple[AdmissionCheck, ...], list[Loss]]:
    """The admission checks of the queues, with the times that the files' Workloads waited for them."""
    delays_ns: dict[str, list[int]] = {}
    losses: dict[str, Loss] = {}
    for queue in found.of(api.ClusterQueue):
        for name in (*queue.value.admissionChecks, *(each.name for each in queue.value.checkRules)):
            delays_ns.setdefault(name, [])
            what = f"AdmissionCheck {printable(name)}"
            losses.setdefault(name, Loss(what, queue.where, _WHY_UNKNOWN_DELAY, Effect.DECIDES))
    for each in found.of(api.Workload):
        reserved_ns = _times_ns(each).get("QuotaReserved")
        for check in each.value.checks:
            ready_ns = each.time_ns("status.admissionChecks, lastTransitionTime", check.lastTransitionTime)
            if reserved_ns is not None and ready_ns is not None and check.state == "Ready" and check.name in delays_ns:
                delays_ns[check.name].append(max(0, ready_ns - reserved_ns))
    checks = tuple(AdmissionCheck(name, tuple(times) or (0,)) for name, times in delays_ns.items())
    return checks, [loss for name, loss in losses.items() if not delays_ns[name]]


_WHY_UNKNOWN_DELAY = "no Workload of the files shows how long this admission check takes: here it passes at once"


def _pods_ready(found: Found[api.Configuration]) -> PodsReady | None:
    """None: Kueue does not look at whether pods are ready; it does by default since v1beta2."""
    spec = found.value
    if (spec.is_before and not spec.waitsForPods) or spec.featureGates.get(_IGNORES_READY) == "true":
        return None
    try:
        timeout_ns = _duration_text_ns(spec.podsTimeout or ("5m" if spec.is_before else "30m"))
    except ValueError as error:
        raise found.problem("waitForPodsReady.timeout", error) from None
    return PodsReady(
        timeout_ns,
        found.word("waitForPodsReady.requeuingStrategy.timestamp", RequeuingTimestamp, spec.requeuingTimestamp),
        spec.backoffBaseSeconds * SECOND_NS,
        spec.backoffMaxSeconds * SECOND_NS,
        spec.backoffLimitCount,
        spec.is_before if spec.blockAdmission is None else spec.blockAdmission,
    )


_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND_NS, "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS}


def _duration_text_ns(text: str) -> int:
    """A time such as ``5m`` or ``1h30m0s``.  Raises ValueError, which does not repeat it."""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("is not a time such as 5m or 1h30m0s")
    return round(sum(float(number) * _UNITS_NS[unit] for number, unit in parts))


def _counting(found: list[Found[api.Configuration]]) -> Counting:
    """What of requests counts, by Kueue's own configuration."""
    prefixes = tuple(prefix for each in found for prefix in each.value.excludeResourcePrefixes)
    made: dict[str, Transformation] = {}
    for each in found:
        for given in each.value.transformations:
            field = f"resources.transformations, {printable(given.input)}"
            strategy = each.word(f"{field}, strategy", TransformationStrategy, given.strategy)
            try:
                outputs = {name: exact(factor) for name, factor in given.outputs.items()}
            except ValueError as error:
                raise each.problem(f"{field}, outputs", error) from None
            made[given.input] = Transformation(outputs, strategy, given.multiplyBy)
    return Counting(prefixes, made)


def _cohort(found: Found[api.Cohort]) -> Cohort:
    spec = found.value
    parent = spec.parentName or spec.parent or None
    return Cohort(found.value.name, parent, _groups(found, spec.resourceGroups), _weight(found, spec.weight))


def _weight(found: Found[Any], given: Quantity) -> float:
    return found.amount("spec.fairSharing.weight", "cpu", given) / 1000


def _groups(found: Found[Any], given: Iterable[api.ResourceGroup]) -> tuple[ResourceGroup, ...]:
    """Raises ConfigError: the API would reject them."""
    groups = tuple(
        ResourceGroup(group.coveredResources, tuple(_flavor(found, group, flavor) for flavor in group.flavors))
        for group in given
    )
    resources = (name for group in groups for name in group.resources)
    flavors = (flavor.name for group in groups for flavor in group.flavors)
    for what, names in (("resource", resources), ("flavor", flavors)):
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise found.problem(
                "spec.resourceGroups", f"{what} {printable(twice)}: is there twice; it must be in one group"
            )
    return groups


def _flavor(found: Found[Any], group: api.ResourceGroup, given: api.FlavorQuotas) -> FlavorQuotas:
    field = f"spec.resourceGroups, flavor {printable(given.name)}, resource"
    if tuple(each.name for each in given.resources) != group.coveredResources:
        names = ", ".join(map(printable, group.coveredResources))
        what = f"must be those of the group's coveredResources, in the same order: {names}"
        raise found.problem(f"{field}s", what)
    quotas = {
        each.name: Quota(
            *(  # type: ignore
                None if value is None else found.amount(f"{field} {printable(each.name)}: {name}", each.name, value)
                for name, value in (
                    ("nominalQuota", each.nominalQuota),
                    ("borrowingLimit", each.borrowingLimit),
                    ("lendingLimit", each.lendingLimit),
                )
            )
        )
        for each in given.resources
    }
    return FlavorQuotas(given.name, quotas)


def _strategies(found: list[Found[api.Configuration]]) -> tuple[ShareStrategy, ...] | None:
    """Kueue's own configuration; without it, preemption is classical, as in Kueue."""
    for each in found:
        fair = each.value.fair_sharing
        if fair is not None:
            given = [
                each.word("fairSharing.preemptionStrategies", ShareStrategy, word) for word in fair.preemptionStrategies
            ]
            return tuple(given) or DEFAULT_STRATEGIES
    return None


# ---- workloads ----


def _arrivals(
    found: Objects, cluster: Cluster, priorities: dict[str, int], counting: Counting
) -> tuple[tuple[Arrival, ...], list[Loss]]:
    local = {(each.value.namespace, each.value.name): each.value.clusterQueue for each in found.of(api.LocalQueue)}
    covered = {
        queue.name: {resource for group in queue.groups for resource in group.resources} for queue in cluster.queues
    }
    queues = {each.name: each for each in cluster.queues}
    arrivals: list[Arrival] = []
    losses: list[Loss] = []
    for each in found.of(api.Workload):
        made = arrival_of(each, local, covered, priorities, counting)
        if isinstance(made, Loss):
            losses.append(made)
        else:
            arrivals.append(made)
            losses += [*each.losses, *_unknown_of(each, queues[made.workload.queue], cluster)]
    return tuple(_from_zero(arrivals)), losses


_TEMPLATE = "spec.podSets.template.spec"
_NODE_AFFINITY = f"{_TEMPLATE}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def _unknown_of(found: Found[api.Workload], queue: ClusterQueue, cluster: Cluster) -> Iterator[Loss]:
    """What would decide about it and is not in the files, or not modelled."""
    counted, kind = found.value.COUNTED, found.value.kind
    known, flavors = (
        {each.name for each in cluster.flavors},
        {one.name for group in queue.groups for one in group.flavors},
    )
    specs = [podset.podSpec for podset in found.value.podSets]
    if not flavors <= known and any(spec.nodeSelector or spec.nodeAffinity for spec in specs):
        yield Loss(found.name, found.where, _WHY_NO_FLAVOR, Effect.DECIDES, counted, found.value.full_name)
    if not queue.namespaces.is_empty and found.value.namespace not in cluster.namespaces:
        yield Loss(found.name, found.where, _WHY_NO_NAMESPACE, Effect.DECIDES, counted, found.value.full_name)
    for toleration in (each for spec in specs for each in spec.tolerations if compares_numbers(each)):
        key = f"{_TEMPLATE}.tolerations.operator"
        yield from found.lost(settings_of("kueue"), kind, key, toleration.operator, counted)


_WHY_NO_FLAVOR = (
    "it selects nodes, and not all ResourceFlavors of its queue are in the files: it may get one that it excludes"
)
_WHY_NO_NAMESPACE = "its Namespace is not in the files: it counts as selected by its queue's namespaceSelector"


def _from_zero(arrivals: list[Arrival]) -> Iterator[Arrival]:
    """In the order of their times, which begin with 0."""
    first_ns = min((arrival.workload.created_ns for arrival in arrivals), default=0)
    for arrival in sorted(arrivals, key=lambda each: (each.workload.created_ns, each.workload.name)):
        created_ns = arrival.workload.created_ns - first_ns
        yield replace(arrival, workload=replace(arrival.workload, created_ns=created_ns))


def _nodes_of(found: Objects, cluster: Cluster) -> tuple[tuple[Node, ...], list[Loss]]:
    """The nodes that take pods, and those that were left out.  Raises ConfigError: a bad quantity or taint."""
    nodes: list[Node] = []
    left_out: list[Loss] = []
    for each in found.of(api.Node):
        node = node_of(each)
        if node.unschedulable or not any(flavor.covers(node) for flavor in cluster.flavors):
            why = "is cordoned" if node.unschedulable else "has the labels of no ResourceFlavor"
            left_out.append(each.left_out(f"it {why}", each.value.COUNTED))
        else:
            nodes.append(node)
    return tuple(nodes), left_out


def arrival_of(
    found: Found[api.Workload],
    local: Mapping[tuple[str, str], str],
    covered: Mapping[str, set[str]],
    priorities: Mapping[str, int],
    counting: Counting,
) -> Arrival | Loss:
    """The arrival of a Workload, or why there is none.  Raises ConfigError: a bad quantity or time.

    Args:
        local: the ClusterQueue of each LocalQueue, by namespace and name.
        covered: by ClusterQueue, the resources that it has quota for; of others Kueue counts nothing.
        priorities: by class.
        counting: what of its requests counts.
    """
    spec = found.value
    name = spec.full_name
    queue = local.get((spec.namespace, spec.queueName))
    if queue is None or queue not in covered:
        return found.left_out("its LocalQueue, or that one's ClusterQueue, is not in the files", spec.COUNTED)
    if not spec.active:
        return found.left_out("it is not active", spec.COUNTED)
    try:
        podsets = tuple(_podset(found, each, covered[queue], counting) for each in spec.podSets if each.count)
    except ValueError as error:
        raise found.problem("spec.podSets, resources", error) from None
    priority = spec.priority
    if priority is None:
        priority = priorities.get(spec.priorityClass or spec.priorityClassName, 0)
    created_ns = found.time_ns("metadata.creationTimestamp", spec.creationTimestamp)
    if created_ns is None:
        return found.left_out("it has no creationTimestamp", spec.COUNTED)
    most_ns = None if spec.maximumExecutionTimeSeconds is None else spec.maximumExecutionTimeSeconds * SECOND_NS
    local_queue = spec.namespace, spec.queueName
    workload = Workload(name, queue, podsets, priority, created_ns, *local_queue, most_ns)
    times_ns = _times_ns(found)
    admitted_ns, ready_ns = times_ns.get("Admitted"), times_ns.get("PodsReady")
    ready = () if admitted_ns is None or ready_ns is None else (max(0, ready_ns - admitted_ns),)
    return Arrival(workload, _duration_ns(found), ready)


def _podset(found: Found[api.Workload], given: api.PodSet, covered: set[str], counting: Counting) -> PodSet:
    """Its pods, and what counts of the requests of one."""
    spec = given.podSpec
    requests = requests_of(spec)
    total = counting.counted(requests)
    pod_requests = None if total == requests else requests
    if "pods" in covered:
        total["pods"] = 1
    return PodSet(
        given.name,
        given.count,
        {each: value for each, value in total.items() if value},
        selector=spec.nodeSelector,
        affinity=node_terms_of(found, _NODE_AFFINITY, spec.nodeAffinity),
        tolerations=tuple(tolerations_of(found, f"{_TEMPLATE}.tolerations", spec.tolerations)),
        min_count=given.minCount,
        pod_requests=pod_requests,
    )


def _duration_ns(found: Found[api.Workload]) -> int | None:
    """From its last admission to its end; None if it has not ended."""
    times = _times_ns(found)
    admitted_ns, finished_ns = times.get("Admitted", times.get("QuotaReserved")), times.get("Finished")
    if admitted_ns is None or finished_ns is None:
        return None
    return max(0, finished_ns - admitted_ns)


def _times_ns(found: Found[api.Workload]) -> dict[str, int | None]:
    """Since when each of its conditions has been true."""
    return {
        each.type: found.time_ns(f"status.conditions, {printable(each.type)}", each.lastTransitionTime)
        for each in found.value.conditions
        if each.status == "True"
    }


def uncovered(cluster: Cluster, arrivals: Iterable[Arrival]) -> Iterator[str]:
    """What workloads request and their queues have no quota of, in words."""
    has = {each.name: {resource for group in each.groups for resource in group.resources} for each in cluster.queues}
    counts = Counter[tuple[str, str]]()
    for queue, podsets in ((each.workload.queue, each.workload.podsets) for each in arrivals):
        asked = {resource for podset in podsets for resource in podset.requests}
        counts.update((queue, resource) for resource in asked - has[queue])
    for (queue, resource), count in sorted(counts.items()):
        yield (
            f"ClusterQueue {printable(queue)} has no quota of {printable(resource)}, for which {count:,} of its"
            " workloads ask: they are never admitted, unless Kueue's Configuration transforms or leaves it out"
        )


def shortages(cluster: Cluster, nodes: Sequence[Node]) -> Iterator[str]:
    """Flavors whose nominal quotas, over all queues and cohorts, are above what their nodes have, in words."""
    quotas, there = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for of in (*cluster.cohorts, *cluster.queues):
        for flavor in (flavor for group in of.groups for flavor in group.flavors):
            quotas.update({(flavor.name, resource): quota.nominal for resource, quota in flavor.quotas.items()})
    for node in nodes:
        for flavor in (each.name for each in cluster.flavors if each.covers(node)):
            there.update({(flavor, resource): amount for resource, amount in node.allocatable.items()})
    for (flavor, resource), promised in quotas.items():
        if promised > there[flavor, resource]:
            has = quantity(resource, there[flavor, resource])
            yield (
                f"ResourceFlavor {printable(flavor)}: quotas of {quantity(resource, promised)} {printable(resource)},"
                f" its nodes have {has}"
            )


# ---- what Kueue counts of a pod's requests: some resources are left out, others become amounts of others ----
#
# https://kueue.sigs.k8s.io/docs/tasks/manage/share_quotas_across_resource_flavors/ and ``resources`` of Kueue's
# Configuration.


class TransformationStrategy(StrEnum):
    """Whether what is transformed counts beside its outputs."""

    RETAIN = "Retain"
    REPLACE = "Replace"


class Transformation(Frozen):
    """How an amount of one resource counts as amounts of others."""

    outputs: Mapping[str, Decimal] = {}
    """What one unit of it counts as, in units of each; less than nothing is an allowance for other inputs."""
    strategy: TransformationStrategy = TransformationStrategy.RETAIN
    multiply_by: str = ""
    """A resource with whose amount the outputs are multiplied, if the pod requests it."""


class Counting(Frozen):
    """``resources`` of Kueue's Configuration."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = {}
    """By the resource that is transformed."""

    def counted(self, requests: Mapping[str, int]) -> dict[str, int]:
        """What counts of a pod's requests.  Raises ValueError: an amount is too large."""
        left = {name: value for name, value in requests.items() if not name.startswith(tuple(self.excluded_prefixes))}
        if left.keys().isdisjoint(self.transformations):
            return left
        kept, made = dict[str, Decimal](), dict[str, Decimal]()
        for name, value in left.items():
            transformation = self.transformations.get(name)
            if transformation is None or transformation.strategy is TransformationStrategy.RETAIN:
                kept[name] = _in_units(name, value)
            if transformation is not None:
                by = transformation.multiply_by
                units = _in_units(name, value) * (_in_units(by, left[by]) if by in left else 1)
                for output, factor in transformation.outputs.items():
                    made[output] = made.get(output, Decimal()) + units * factor
        both = {
            name: kept.get(name, Decimal()) + max(made.get(name, Decimal()), Decimal()) for name in {**kept, **made}
        }
        return {name: amount(name, value) for name, value in both.items()}


def _in_units(resource: str, value: int) -> Decimal:
    """An amount in whole units: of cpu in cores."""
    return Decimal(value) / 1000 if resource == "cpu" else Decimal(value)
