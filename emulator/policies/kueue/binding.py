"""kube-scheduler beside Kueue: the pods of admitted workloads, and the nodes that they get.

Theory of operation
-------------------
Kueue admits a workload by its quota, and knows no nodes.  Then its pods come to kube-scheduler
(``emulator.policies.kubernetes``), which knows no quotas.  Each has the node labels and the tolerations of its flavors,
as Kueue gives them to it, and is bound by itself.  A workload starts when all of its pods are bound.  Until then those
that are bound hold their nodes, and the others wait until pods of others leave.

The pods do not preempt: a Job's pods have the priority that Kueue has compared already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from emulator.policies.kubernetes.controller import Controller
from emulator.policies.kubernetes.cycle import Decision
from emulator.policies.kubernetes.placement import Placement
from emulator.policies.kubernetes.terms import first_of_best
from emulator.policies.kubernetes.why import why_placement
from emulator.policies.kueue.model import Counts, Flavors
from emulator.sites.kubernetes import Node, Pod, Policy
from emulator.sites.kueue import Flavor, PodSet, Workload


class Binding(NamedTuple):
    """What kube-scheduler has found for the pods of a workload."""

    workload: str
    places: tuple[tuple[int, str], ...] = ()
    """The podset and the node of each pod; empty: some have none."""
    why: str = ""
    """Why some fit on no node."""


class _Pods:
    """The pods of a workload."""

    def __init__(self, podsets: dict[str, int]) -> None:
        self.podsets = podsets
        """The podset of each pod, by the pod's name."""
        self.nodes: dict[str, str] = {}
        """The node of each pod that is bound, by the pod's name."""
        self.unplaced: dict[str, Placement] = {}
        """The last answer for each pod that fits on no node, by its name."""

    @property
    def wait(self) -> bool:
        """Whether some of the pods are not bound."""
        return len(self.nodes) < len(self.podsets)


class Binder:
    """kube-scheduler for the pods of admitted workloads; see the module's theory of operation."""

    def __init__(self, nodes: Iterable[Node], flavors: Iterable[Flavor]) -> None:
        self._controller = Controller(nodes, (), (), first_of_best)
        self._flavors = {each.name: each for each in flavors}
        self._pods: dict[str, _Pods] = {}
        """The pods of each admitted workload, by its name."""
        self._workload_of: dict[str, str] = {}
        """The workload of each pod, by the pod's name."""

    @property
    def has_ready(self) -> bool:
        """Whether kube-scheduler would find a pod to look at."""
        return self._controller.queue.has_ready

    def __contains__(self, workload: str) -> bool:
        return workload in self._pods

    def create(self, workload: Workload, flavors: Flavors, counts: Counts, now_ns: int) -> None:
        """A workload was admitted: its pods come, in these flavors; ``counts``: how many, if not all."""
        self._controller.begin(now_ns)
        podsets: dict[str, int] = {}
        for number, podset in enumerate(workload.podsets):
            for index in range(counts[number] if counts else podset.count):
                pod = self._pod(f"{workload.name}-{podset.name}-{index}", podset, flavors[number])
                podsets[pod.name] = number
                self._workload_of[pod.name] = workload.name
                self._controller.arrive(pod, self._controller.step())
        self._pods[workload.name] = _Pods(podsets)

    def _pod(self, name: str, podset: PodSet, chosen: Mapping[str, str]) -> Pod:
        flavors = [self._flavors[each] for each in dict.fromkeys(chosen.values()) if each in self._flavors]
        return Pod(
            name,
            policy=Policy.NEVER,
            requests={resource: amount for resource, amount in podset.of_node.items() if resource != "pods"},
            selector={**podset.selector, **{key: value for each in flavors for key, value in each.labels.items()}},
            node_affinity=podset.affinity,
            tolerations=(*podset.tolerations, *(one for each in flavors for one in each.tolerations)),
        )

    def remove(self, workload: str, now_ns: int) -> None:
        """A workload has ended, or was evicted: its pods leave their nodes, or wait no longer; a no-op without pods."""
        self._controller.begin(now_ns)
        if workload not in self._pods:
            return
        pods = self._pods.pop(workload)
        for pod in pods.podsets:
            del self._workload_of[pod]
            if pod in pods.nodes:
                self._controller.leave(pod)
            else:
                self._controller.queue.discard(pod)

    def bind(self, now_ns: int) -> Iterator[Binding]:
        """What kube-scheduler decides until no pod is ready: for workloads of which it has looked at a pod."""
        self._controller.begin(now_ns)
        looked_at: dict[str, None] = {}
        for decision in self._controller.cycle_by_cycle():
            assert isinstance(decision, Decision), "no pod is of a PodGroup"
            name = decision.pod.name
            workload = self._workload_of[name]
            looked_at[workload] = None
            pods = self._pods[workload]
            if decision.node is None:
                pods.unplaced[name] = decision.placement
            else:
                pods.nodes[name] = decision.node
                pods.unplaced.pop(name, None)
        for workload in looked_at:
            pods = self._pods[workload]
            if pods.wait:
                yield Binding(workload, why=_why(workload, pods))
            else:
                yield Binding(workload, tuple((number, pods.nodes[pod]) for pod, number in pods.podsets.items()))


def _why(workload: str, pods: _Pods) -> str:
    """Why a workload waits that has its quota: the nodes by what keeps its first pod off."""
    count, of = len(pods.unplaced), len(pods.podsets)
    _, *reasons = why_placement(next(iter(pods.unplaced.values())), best=0)
    return f"{workload}: admitted by Kueue, no node fits {count} of {of} pods: {'; '.join(reasons)}"
