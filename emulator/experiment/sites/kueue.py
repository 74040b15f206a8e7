"""A cluster with Kueue as an experiment: its flavors as nodes, each workload as a gang, and Kueue's rules.

Kueue knows amounts and no nodes, so a flavor is one node that has all nominal quota of it.  Where the resources of a
podset may come from several flavors, one node has the quota of all.  Quotas are rounded up to a thousandth of a GiB and
requests down, so that there is room for whatever Kueue admits.  A workload that would not be admitted to an empty
cluster waits in its queue as in Kueue, and its tasks, which never start, ask for nothing.

Where the file has nodes, these are the nodes, and kube-scheduler binds the pods of whatever Kueue admits.  A workload
for which they have no room at once, even if they are empty, waits for ever; so its tasks ask for nothing either.

One that may do with fewer pods is a gang with a minimum.  If it is admitted with fewer, the rest of its tasks run when
the first are done, as the pods of a Job do whose parallelism Kueue has lowered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from emulator.errors import ConfigError
from emulator.experiment.sites.kubernetes import node_entry
from emulator.experiment.sites.site import MANY, PODS, Site, asked, job, our_amount, our_name, tasks
from emulator.files.yaml_positions import Document
from emulator.policies.kueue.assigner import nominate
from emulator.policies.kueue.model import Mode, first_name
from emulator.policies.kueue.scheduler import FLAVOR
from emulator.policies.kueue.snapshot import Snapshot
from emulator.policies.resources import have_capacity, vector_of
from emulator.sites.kueue import Arrival, Cluster, Kueue, PodSet
from workloads.saved import taken_over

_USUAL = ("cpu", "memory_gb")
"""Resources of which a task asks for some if nothing is said, where nodes have them."""
_TIMEOUT_S = 3600.0
"""What is stopped or saved may take so long: Kueue has no limit, as it ends what it evicts."""


def kueue_site(document: Document) -> Site:
    """The site of a file that ``natjam import kueue`` wrote.  Raises ConfigError."""
    kueue = taken_over(document, Kueue)
    cluster, arrivals = kueue.cluster, kueue.arrivals
    if not arrivals:
        raise ConfigError(
            f"{document.path}: kueue.arrivals: no workload arrives; import the Workloads, or give --arrivals"
        )
    names = dict.fromkeys(name for of in _quotas(cluster).values() for name in of)
    free = {name: 0.0 for name in _USUAL if name in map(our_name, names)}
    if kueue.nodes:
        names |= dict.fromkeys(name for each in arrivals for of in each.workload.podsets for name in of.of_node)
        nodes = tuple(node_entry(each, names, {}) for each in kueue.nodes)
    else:
        nodes = tuple(_nodes(cluster, names))
    empty = Snapshot(cluster)
    holds = [our_name(name) for name in names if name == "memory" or "/" in name or name == "gpu"]
    return Site(
        nodes,
        tuple(_job(arrival, free, empty, nodes if kueue.nodes else ()) for arrival in arrivals),
        {
            "name": "kueue",
            "queues": {queue.name: {"capacity": 0.0} for queue in cluster.queues},
            "cluster": cluster,
            "resources": {name: our_name(name) for name in names if our_name(name) != name},
            "nodes": kueue.nodes,
        },
        mechanisms=("kill", "checkpoint", "image") if kueue.nodes else (),
        usual={
            "scheduler": {"mechanism": "kill", "allocation": {"release_s": 0.0}},
            "protocol": {"kill_timeout_s": _TIMEOUT_S},
            "cluster": {"max_suspended_per_node": 100_000, "suspended_hold": tuple(holds)},
        },
    )


def _quotas(cluster: Cluster) -> dict[str, Counter[str]]:
    """For each flavor, all nominal quota of each resource; by "" where one podset may have several flavors."""
    several = any(len(queue.groups) > 1 for queue in cluster.queues)
    found: dict[str, Counter[str]] = {}
    for of in (*cluster.cohorts, *cluster.queues):
        for flavor in (flavor for group in of.groups for flavor in group.flavors):
            amounts = {name: quota.nominal for name, quota in flavor.quotas.items()}
            found.setdefault("" if several else flavor.name, Counter()).update(amounts)
    return found


def _nodes(cluster: Cluster, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    for flavor, has in _quotas(cluster).items():
        resources = {our_name(name): our_amount(name, has[name], up=True) for name in names}
        labels = {FLAVOR: flavor} if flavor else {}
        needed = {} if resources.keys() & set(_USUAL) else {"cpu": float(MANY)}
        yield {
            "name": flavor or "all-flavors",
            "count": 1,
            "resources": {PODS: float(MANY), **needed, **resources},
            "labels": labels,
        }


def _have_room(nodes: Iterable[dict[str, Any]], podsets: Iterable[PodSet]) -> bool:
    """Whether the fewest pods that are enough have room on the empty nodes at once."""
    has = [node["resources"] for node in nodes]
    requests = [asked(each.of_node) for each in podsets for _ in range(each.count - each.spare)]
    names = [*dict.fromkeys(name for each in (*has, *requests) for name in each)]
    return have_capacity((vector_of(each, names) for each in requests), (vector_of(each, names) for each in has))


def _job(arrival: Arrival, free: dict[str, float], empty: Snapshot, nodes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``nodes``: those that kube-scheduler knows; none: it has no part."""
    workload = arrival.workload
    may_start = nominate(empty, workload, first_name).assignment.mode is not Mode.NO_FIT
    may_start = may_start and (not nodes or _have_room(nodes, workload.podsets))
    groups = tuple(
        tasks(
            f"podset-{number}" if number else "pod",
            podset.count,
            arrival.duration_ns,
            {**free, **asked(podset.of_node if may_start else {})},
        )
        for number, podset in enumerate(workload.podsets)
    )
    pods, spare = (sum(getattr(podset, of) for podset in workload.podsets) for of in ("count", "spare"))
    gang = {"minimum": max(1, pods - spare)} if may_start and spare else may_start and pods > 1
    return job(workload, workload.queue, workload.created_ns, arrival.details, groups, gang=gang)
