"""A cluster of Kubernetes as an experiment: its nodes, each pod as a job of one task, and kube-scheduler's rules.

kube-scheduler counts memory in bytes, and an experiment in thousandths of a GiB.  Nodes are rounded up and requests
down, so that there is room for whatever the rules place; and a node has room for all that it holds at the beginning,
also if that is more than it has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.experiment.sites.site import MANY, PODS, Site, asked, job, our_amount, our_name, short, tasks
from emulator.experiment.warnings import TOO_LARGE
from emulator.files.yaml_positions import Document
from emulator.policies.kubernetes.terms import Victims
from emulator.policies.resources import amount_text
from emulator.sites.kubernetes import Arrival, Kubernetes, Node, Pod, PriorityClass
from workloads.saved import taken_over


def kubernetes_site(document: Document) -> Site:
    """The site of a file that ``natjam import kubernetes`` wrote.  Raises ConfigError."""
    cluster = taken_over(document, Kubernetes)
    nodes, arriving = cluster.state.nodes, _from_0(cluster.arrivals)
    too_large = {each.pod.name: lack for each in arriving if each.node is None and (lack := _lack(each.pod, nodes))}
    pods = tuple(each for each in arriving if each.pod.name not in too_large)
    if not pods:
        raise ConfigError(
            f"{document.path}: kubernetes.arrivals: no pod arrives that any node is large enough for; import the pods,"
            " or give --arrivals or --draw"
        )
    names = dict.fromkeys(name for node in nodes for name in node.allocatable)
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for each in pods:
        held[each.node or ""].update({PODS: 1, **each.pod.requests})
    priorities = sorted({each.pod.priority for each in pods}, reverse=True)
    holds = [our_name(name) for name in names if name == "memory" or "/" in name]
    return Site(
        tuple(node_entry(each, names, held[each.name]) for each in nodes),
        tuple(_job(each, cluster.classes) for each in pods),
        {
            "name": "kube-scheduler",
            "queues": {_queue(priority, cluster.classes): {"capacity": 0.0} for priority in priorities},
            "nodes": nodes,
            "budgets": cluster.budgets,
            "groups": cluster.state.groups,
            TOO_LARGE: too_large,
        },
        cluster={"suspended_hold": tuple(holds)},
        usual={
            "cluster": {"max_suspended_per_node": 1000},
            "scheduler": {"allocation": {"victims": Victims.IMPORTANCE.value}},
        },
    )


def _from_0(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """Arrivals of which none is before 0, but for pods without an end that were there before."""
    others = (each for each in arrivals if each.node is None or each.duration_ns is not None)
    first_ns = min(0, min((each.submit_ns for each in others), default=0))
    return tuple(replace(each, submit_ns=each.submit_ns - first_ns) for each in arrivals)


def _lack(pod: Pod, nodes: Iterable[Node]) -> str:
    """What keeps a pod off every node, also if that is empty; empty: one is large enough.  Such a pod waits for ever,
    and changes nothing for the others."""
    wanted = {PODS: 1, **pod.requests}
    short = [[name for name in wanted if wanted[name] > _has(node, name)] for node in nodes]
    if not all(short):
        return ""
    name = next((name for name in wanted if all(name in each for each in short)), None)
    if name is None:
        return f"no node has {', '.join(amount_text(name, wanted[name]) for name in wanted)} at once"
    most = max(_has(node, name) for node in nodes)
    return f"{amount_text(name, wanted[name])} asked, no node has more than {amount_text(name, most)}"


def _has(node: Node, name: str) -> int:
    return node.allocatable.get(name, MANY if name == PODS else 0)


def node_entry(node: Node, names: Iterable[str], held: Mapping[str, int]) -> dict[str, Any]:
    """A node as ``cluster.node_groups`` has it, of these resources; it has room for ``held`` in any case."""
    amounts = {**dict.fromkeys(names, 0), PODS: MANY, **node.allocatable}
    amounts = {name: max(amount, held.get(name, 0)) for name, amount in amounts.items()}
    has = {our_name(name): our_amount(name, amount, up=True) for name, amount in amounts.items()}
    labels = {key: value for key, value in node.labels.items() if key}
    return {"name": node.name, "count": 1, "resources": has, "labels": labels}


def _job(arrival: Arrival, classes: Iterable[PriorityClass]) -> dict[str, Any]:
    pod = arrival.pod
    task = tasks("pod", 1, arrival.duration_ns, {"cpu": 0.0, "memory_gb": 0.0, **asked(pod.requests)})
    return job(pod, _queue(pod.priority, classes), max(0, arrival.submit_ns), arrival.details, (task,))


def _queue(priority: int, classes: Iterable[PriorityClass]) -> str:
    """The PriorityClasses of this value, else the value itself."""
    return short(", ".join(each.name for each in classes if each.value == priority) or f"priority {priority}")
