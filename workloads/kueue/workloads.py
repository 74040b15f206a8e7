"""One Workload of Kueue as an arrival: what its pods request, when it was made, and how long it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from emulator.errors import printable
from emulator.sites.kueue import Arrival, Cluster, PodSet, Workload
from workloads.kubernetes.pods import requests_of
from workloads.kubernetes.reading import Found
from workloads.kueue import objects as api
from workloads.saved import NotTaken


def arrival_of(
    found: Found[api.Workload],
    local: Mapping[tuple[str, str], str],
    covered: Mapping[str, set[str]],
    priorities: Mapping[str, int],
) -> Arrival | NotTaken:
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
        return found.not_taken("its LocalQueue, or that one's ClusterQueue, is not in the files")
    if not spec.active:
        return found.not_taken("it is not active")
    try:
        podsets = tuple(_podset(each, covered[queue]) for each in spec.podSets if each.count)
    except ValueError as error:
        raise found.problem("spec.podSets, resources", error) from None
    priority = spec.priority
    if priority is None:
        priority = priorities.get(spec.priorityClass or spec.priorityClassName, 0)
    created_ns = found.time_ns("metadata.creationTimestamp", spec.creationTimestamp)
    if created_ns is None:
        return found.not_taken("it has no creationTimestamp")
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
            " workloads ask: Kueue never admits them"
        )
