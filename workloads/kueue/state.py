"""Kueue's objects as what its decisions are made from: queues, cohorts, priorities, and the workloads that arrived.

With them the nodes as Kueue's flavors see them, and where quotas promise more than the nodes have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.sites.kueue import (
    CIRCLE,
    DEFAULT_STRATEGIES,
    Arrival,
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Cohort,
    FlavorNode,
    FlavorPolicy,
    FlavorQuotas,
    Fungibility,
    Kueue,
    PodSet,
    Policy,
    Preemption,
    QueueingStrategy,
    Quota,
    ResourceGroup,
    ShareStrategy,
    Workload,
)
from workloads.importers.source import OnBytes, ignore
from workloads.kubernetes.pods import node_of, requests_of
from workloads.kubernetes.quantities import Quantity, quantity
from workloads.kubernetes.reading import Found, Objects, read_objects, unique
from workloads.kueue import objects as api
from workloads.setting_effects import Effect, Loss, basis_of, settings_of

_FUNGIBILITY_BEFORE = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Names of v1beta1."""


def read_kueue(paths: Sequence[Path], on_bytes: OnBytes = ignore) -> tuple[Kueue, list[Loss]]:
    """Kueue's objects in files and folders, and what was not taken from them.  Raises ConfigError."""
    found = read_objects(paths, api.KINDS, settings_of("kueue"), on_bytes)
    queues = found.of(api.CLUSTER_QUEUE)
    if not queues:
        names = ", ".join(map(str, paths))
        raise ConfigError(f"{names}: no ClusterQueue in it; get them with: kubectl get clusterqueues -o yaml")
    cluster = Cluster(
        tuple(map(_queue, unique(queues))),
        tuple(map(_cohort, unique(found.of(api.COHORT)))),
        _strategies(found.of(api.CONFIGURATION)),
    )
    if cluster.circle is not None:
        where = {each.value.name: each.where for each in found.of(api.COHORT)}[cluster.circle]
        raise ConfigError(f"{where}: Cohort {printable(cluster.circle)}: spec.parentName: {CIRCLE}")
    classes = [*found.of(api.PRIORITY_CLASS), *unique(found.of(api.WORKLOAD_PRIORITY_CLASS))]
    priorities = {each.value.name: each.value.value for each in classes}
    arrivals, of_workloads = _arrivals(found, cluster, priorities)
    nodes, left_out = _nodes_of(found)
    apart = (api.WORKLOAD, api.CONFIGURATION)
    losses = [*found.decides(each for each in api.KINDS if each not in apart), *_of_configuration(found)]
    losses += [*_inactive(found), *of_workloads, *left_out, *found.losses]
    totals = found.totals(api.KINDS)
    return Kueue(cluster, priorities, arrivals, nodes, basis_of(losses, totals)), losses


def _inactive(found: Objects) -> Iterator[Loss]:
    """Queues that Kueue held inactive when the files were written: a flavor, or a check, was missing, for example."""
    for each in (*found.of(api.CLUSTER_QUEUE), *found.of(api.LOCAL_QUEUE)):
        if any(condition.type == "Active" and condition.status == "False" for condition in each.value.conditions):
            yield from each.lost(
                settings_of("kueue"), each.value.kind, "status.conditions", "Active=False", each.value.COUNTED
            )


def _of_configuration(found: Objects) -> Iterator[Loss]:
    """What Kueue's own configuration decides that is not modelled; all of it, if it is in a ConfigMap."""
    table = settings_of("kueue")
    for each in found.of(api.CONFIGURATION):
        waits, counted = each.value.waitsForPods, api.Configuration.COUNTED
        yield from (loss for loss in each.losses if waits is not False or ".waitForPodsReady." not in loss.what)
        if waits:
            yield from each.lost(table, "Configuration", "waitForPodsReady.enable", "true", counted)
        for gate, is_on in each.value.featureGates.items():
            what = f"Configuration.featureGates.{printable(gate)}={printable(is_on)}"
            loss = table.loss("feature gate", gate, is_on, each.where, what=what, kind=counted)
            yield from () if loss is None else (loss,)
    for other in found.others:
        if other.kind == "ConfigMap" and other.name.endswith("manager-config"):
            yield Loss(f"{other.kind} {other.name}", other.where, _WHY_CONFIG_MAP, Effect.DECIDES)


_WHY_CONFIG_MAP = "Kueue's Configuration is not read from a ConfigMap: give the text in its data as a file"


def _queue(found: Found[api.ClusterQueue]) -> ClusterQueue:
    spec = found.value
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
        ),
    )


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


def _arrivals(found: Objects, cluster: Cluster, priorities: dict[str, int]) -> tuple[tuple[Arrival, ...], list[Loss]]:
    local = {(each.value.namespace, each.value.name): each.value.clusterQueue for each in found.of(api.LOCAL_QUEUE)}
    covered = {
        queue.name: {resource for group in queue.groups for resource in group.resources} for queue in cluster.queues
    }
    chosen_by = _labels_of_flavors(found, cluster)
    arrivals: list[Arrival] = []
    losses: list[Loss] = []
    for each in found.of(api.WORKLOAD):
        made = arrival_of(each, local, covered, priorities)
        if isinstance(made, Loss):
            losses.append(made)
        else:
            arrivals.append(made)
            losses += [*each.losses, *_node_choice(each, chosen_by[made.workload.queue])]
    return tuple(_from_zero(arrivals)), losses


def _labels_of_flavors(found: Objects, cluster: Cluster) -> dict[str, set[str] | None]:
    """By queue, the labels that tell its flavors apart; None: not all of its flavors are in the files."""
    labels = {each.value.name: set(each.value.nodeLabels) for each in found.of(api.RESOURCE_FLAVOR)}
    by_queue: dict[str, set[str] | None] = {}
    for queue in cluster.queues:
        names = {flavor.name for group in queue.groups for flavor in group.flavors}
        known = names <= labels.keys()
        by_queue[queue.name] = {key for name in names for key in labels[name]} if known else None
    return by_queue


_TEMPLATE = "spec.podSets.template.spec"
_NODE_AFFINITY = f"{_TEMPLATE}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def _node_choice(found: Found[api.Workload], labels: set[str] | None) -> Iterator[Loss]:
    """That its pods choose nodes by labels that tell flavors apart, for which Kueue looks at them."""
    specs = [podset.podSpec for podset in found.value.podSets]
    terms = [term for spec in specs if spec.nodeAffinity for term in spec.nodeAffinity.nodeSelectorTerms]
    for key, wanted in (
        (f"{_TEMPLATE}.nodeSelector", {label for spec in specs for label in spec.nodeSelector}),
        (_NODE_AFFINITY, {expression.key for term in terms for expression in term.matchExpressions}),
    ):
        if wanted if labels is None else wanted & labels:
            yield from found.lost(settings_of("kueue"), found.value.kind, key, "", found.value.COUNTED)


def _from_zero(arrivals: list[Arrival]) -> Iterator[Arrival]:
    """In the order of their times, which begin with 0."""
    first_ns = min((arrival.workload.created_ns for arrival in arrivals), default=0)
    for arrival in sorted(arrivals, key=lambda each: (each.workload.created_ns, each.workload.name)):
        created_ns = arrival.workload.created_ns - first_ns
        yield replace(arrival, workload=replace(arrival.workload, created_ns=created_ns))


def _nodes_of(found: Objects) -> tuple[tuple[FlavorNode, ...], list[Loss]]:
    """The nodes that take pods, and those that were left out.  Raises ConfigError: a bad quantity or taint."""
    labels = {each.value.name: each.value.nodeLabels for each in found.of(api.RESOURCE_FLAVOR)}
    nodes: list[FlavorNode] = []
    left_out: list[Loss] = []
    for each in found.of(api.NODE):
        node = node_of(each)
        flavors = tuple(name for name, wanted in labels.items() if wanted.items() <= node.labels.items())
        if node.unschedulable or not flavors:
            why = "is cordoned" if node.unschedulable else "has the labels of no ResourceFlavor"
            left_out.append(each.left_out(f"it {why}", each.value.COUNTED))
        else:
            nodes.append(FlavorNode(node.name, flavors, node.allocatable))
    return tuple(nodes), left_out


def arrival_of(
    found: Found[api.Workload],
    local: Mapping[tuple[str, str], str],
    covered: Mapping[str, set[str]],
    priorities: Mapping[str, int],
) -> Arrival | Loss:
    """The arrival of a Workload, or why there is none.  Raises ConfigError: a bad quantity or time.

    Args:
        local: the ClusterQueue of each LocalQueue, by namespace and name.
        covered: by ClusterQueue, the resources that it has quota for; of others Kueue counts nothing.
        priorities: by class.
    """
    spec = found.value
    name = spec.full_name
    queue = local.get((spec.namespace, spec.queueName))
    if queue is None or queue not in covered:
        return found.left_out("its LocalQueue, or that one's ClusterQueue, is not in the files", spec.COUNTED)
    if not spec.active:
        return found.left_out("it is not active", spec.COUNTED)
    try:
        podsets = tuple(_podset(each, covered[queue]) for each in spec.podSets if each.count)
    except ValueError as error:
        raise found.problem("spec.podSets, resources", error) from None
    priority = spec.priority
    if priority is None:
        priority = priorities.get(spec.priorityClass or spec.priorityClassName, 0)
    created_ns = found.time_ns("metadata.creationTimestamp", spec.creationTimestamp)
    if created_ns is None:
        return found.left_out("it has no creationTimestamp", spec.COUNTED)
    return Arrival(Workload(name, queue, podsets, priority, created_ns), _duration_ns(found))


def _podset(given: api.PodSet, covered: set[str]) -> PodSet:
    """What one pod requests."""
    total = requests_of(given.podSpec)
    if "pods" in covered:
        total["pods"] = 1
    return PodSet(given.name, given.count, {each: value for each, value in total.items() if value})


def _duration_ns(found: Found[api.Workload]) -> int | None:
    """From its last admission to its end; None if it has not ended."""
    times = {
        each.type: found.time_ns(f"status.conditions, {printable(each.type)}", each.lastTransitionTime)
        for each in found.value.conditions
        if each.status == "True"
    }
    admitted_ns, finished_ns = times.get("Admitted", times.get("QuotaReserved")), times.get("Finished")
    if admitted_ns is None or finished_ns is None:
        return None
    return max(0, finished_ns - admitted_ns)


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


def shortages(cluster: Cluster, nodes: Sequence[FlavorNode]) -> Iterator[str]:
    """Flavors whose nominal quotas, over all queues and cohorts, are above what their nodes have, in words."""
    quotas, there = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for of in (*cluster.cohorts, *cluster.queues):
        for flavor in (flavor for group in of.groups for flavor in group.flavors):
            quotas.update({(flavor.name, resource): quota.nominal for resource, quota in flavor.quotas.items()})
    for node in nodes:
        for flavor in node.flavors:
            there.update({(flavor, resource): amount for resource, amount in node.allocatable.items()})
    for (flavor, resource), promised in quotas.items():
        if promised > there[flavor, resource]:
            has = quantity(resource, there[flavor, resource])
            yield (
                f"ResourceFlavor {printable(flavor)}: quotas of {quantity(resource, promised)} {printable(resource)},"
                f" its nodes have {has}"
            )
