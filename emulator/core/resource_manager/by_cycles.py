"""Allocation by cycles: the policy chooses a node for each request (Slurm, kube-scheduler and Kueue work like this).

Theory of operation
-------------------
A cycle runs when something has changed, and when the last one said that the next is due.  It sees the whole cluster,
gives containers of nodes to jobs, and takes containers back by strict contracts; what it has taken and not got back yet
counts as gone for its job, and is not free yet at its node.  A gang gets all that it needs at once in one cycle
(``JobView.at_once``), after the single containers of that cycle, or nothing.  No node is offered, so heartbeats of free
nodes are not awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from emulator.core.decisions import PolicyError, cycle
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.resource_manager.allocation import Asked, Decision, Grant, Occasion, StrictContract
from emulator.core.resource_manager.applications import Application, HeldContainer, Node
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.offers import TASKS, Offer, Offers
from emulator.policies.views import ClusterView
from emulator.vocabulary import counted


class ByCycles:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        self.changes = 0
        self._policy = parts.settings.scheduler.allocation
        self._state = parts.state
        self._offers = Offers(parts.settings, parts.state)
        self._due_ns: int | None = None
        """When the next cycle begins even if nothing changes; None: only when something does."""
        self._whys: list[Effect] = []

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if occasion is Occasion.HEARTBEAT or not self._state.queues.pending:
            return None
        return self._due_ns if occasion is Occasion.TIME else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        due_ns = self.asked_ns(asked.occasion, asked.now_ns)
        if due_ns is None or due_ns > asked.now_ns:
            return
        view = self._state.view(asked.now_ns)
        decision = cycle(self._policy, view)
        self._due_ns = decision.valid_until_ns
        self.changes += 1
        taken = [self._state.containers[container] for container in decision.takes]
        gangs: dict[str, list[Node]] = {}
        for job, name in decision.grants:
            application, node = self._state.applications[job], self._state.nodes[name]
            if self._offers.gangs.waits(application):
                gangs.setdefault(job, []).append(node)
                continue
            grant = self._grant(application, node, view)
            if grant is not None:
                yield grant
        for job, nodes in gangs.items():
            yield from self._whole(self._state.applications[job], nodes)
        for held in taken:
            self._whys.append(self._why(held, view))
            yield StrictContract(held)

    def _grant(self, application: Application, node: Node, view: ClusterView) -> Grant | None:
        """The job's first request that can use a container of the node; None: it has none that can."""
        if not node.is_free or self._state.used >= self._state.limit:
            raise self._full(application, node)
        offer = Offer(node, view, given=0)
        master = self._offers.master_of(application, offer)
        return master or self._offers.task_of(application, offer, TASKS)

    def _whole(self, gang: Application, nodes: list[Node]) -> list[Grant]:
        """Containers for all that the gang needs at once; none if its requests cannot use those of the nodes."""
        at_once, free = gang.requests.at_once, Counter(node.name for node in nodes)
        if len(nodes) < at_once:
            reason = f"gives {gang.name} {counted(len(nodes), 'container')}; its gang needs {at_once} at once, or none"
            raise PolicyError(f"allocation policy {self._policy.name} {reason}")
        for name, count in free.items():
            if count > len(self._state.nodes[name].free):
                raise self._full(gang, self._state.nodes[name])
        if len(nodes) > self._state.limit - self._state.used:
            raise self._full(gang, nodes[-1])
        grants = self._offers.gangs.placed(gang, free, len(nodes))
        return grants if len(grants) >= at_once else []

    def _full(self, application: Application, node: Node) -> PolicyError:
        name = application.name
        return PolicyError(f"allocation policy {self._policy.name} gives {name} a container of {node.name}, full")

    def _why(self, held: HeldContainer, view: ClusterView) -> Effect:
        tasks = view.tasks(held.job)
        order = (held.id, *(task.container for task in tasks if task.container != held.id))
        return explain_tasks(self._policy.name, held.job, tasks, order, 1)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys, self._whys = self._whys, []
        return whys
