"""Paced preemption: the ResourceManager takes back containers by name (YARN's ProportionalCapacityPreemptionPolicy).

Theory of operation
-------------------
Once per interval the allocation says how many containers it would take back, and from which jobs.  The task eviction
order names these containers.  Each goes on a list with the current time.  If a container is chosen again in a later
round, at least ``wait`` after it went on the list, it is taken.  If it is not chosen again, it is forgotten after twice
``wait``.  A taken container counts as gone for its queue and its job, although its node still holds it.

If the mechanism is *kill*, the container's node is told in answer to its next heartbeat, as in YARN.  Otherwise the job
is asked for that container and applies the mechanism; a container not given within ``kill_timeout`` is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.core.command_ledger import OrderLedger
from emulator.core.decisions import order_tasks, takes
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.messages import KillContainer, job_address, node_address
from emulator.core.resource_manager.applications import HeldContainer, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.settings import Settings
from emulator.policies.policy import Pace
from emulator.policies.views import ClusterView, Take, TaskView
from emulator.vocabulary import Mechanism


class Candidates:
    """The list of containers that may be taken, each with the time when it went on the list."""

    def __init__(self, pace: Pace) -> None:
        self._interval_ns = pace.interval_ns
        self._wait_ns = pace.wait_ns
        self.since_ns: dict[str, int] = {}

    def round(self, chosen: Iterable[str], now_ns: int) -> list[str]:
        """The containers of ``chosen`` that are due; the others go on the list, or stay on it."""
        # Forget what the round before this one would have forgotten, even if that round was skipped.
        oldest_ns = now_ns - self._interval_ns - 2 * self._wait_ns
        self.since_ns = {container: since for container, since in self.since_ns.items() if since >= oldest_ns}
        due: list[str] = []
        for container in chosen:
            since_ns = self.since_ns.get(container)
            if since_ns is None:
                self.since_ns[container] = now_ns
            elif since_ns + self._wait_ns <= now_ns:
                del self.since_ns[container]
                due.append(container)
        return due


class PacedPreemption:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self, settings: Settings, pace: Pace, state: ClusterState, orders: OrderLedger) -> None:
        self._scheduler = settings.scheduler
        self._seed = settings.seed
        self._kill_timeout_ns = settings.protocol.kill_timeout_ns
        self._pace = pace
        self._state = state
        self._orders = orders
        self._candidates = Candidates(pace)
        self._asked_ns: dict[str, int] = {}
        """Containers that their jobs were asked for, and when."""

    def may_reclaim(self) -> bool:
        """Whether the next round may choose or take a container."""
        return self._scheduler.preempts and self._state.queues.pending > 0

    def due_ns(self, now_ns: int) -> int | None:
        """When a round may next choose or take a container, or kill one that was not given; None: never."""
        if self.may_reclaim():
            return now_ns
        return min((at_ns + self._kill_timeout_ns for at_ns in self._asked_ns.values()), default=None)

    def wait_anew(self, now_ns: int) -> None:
        """The ResourceManager was away: what it has asked for may take its full time from now on."""
        self._asked_ns = dict.fromkeys(self._asked_ns, now_ns)

    def run(self, now_ns: int, tick_ns: int) -> list[Effect] | None:
        """Run one round at ``now_ns``, planned for ``tick_ns``; the times on the list are planned times.

        Returns None if nothing has changed.  Raises PolicyError.
        """
        lost_patience = self._lose_patience(now_ns)
        if not self.may_reclaim():
            return [] if lost_patience else None
        view = self._state.view(now_ns)
        chosen: dict[str, tuple[Sequence[TaskView], tuple[str, ...]]] = {}
        for take in takes(self._scheduler.allocation, self._pace, view):
            self._choose(take, view, chosen)
        before = self._candidates.since_ns
        due = self._candidates.round(chosen, tick_ns)
        effects: list[Effect] = []
        for container in due:
            effects += self._take(self._state.containers[container], *chosen[container], now_ns)
        return effects if lost_patience or self._candidates.since_ns != before else None

    def _choose(
        self, take: Take, view: ClusterView, chosen: dict[str, tuple[Sequence[TaskView], tuple[str, ...]]]
    ) -> None:
        """Add the containers of ``take`` to ``chosen``, each with the tasks and the order that it was chosen from."""
        left = take.containers
        for job in take.jobs:
            tasks = tuple(
                task
                for task in view.tasks(job)
                if task.kind in self._scheduler.victims and task.container not in chosen
            )
            if not left:
                return
            if tasks:
                # One draw per job, so that a random order stays the same from round to round.
                random = keyed_random(self._seed, "rm", "candidates", job)
                order = order_tasks(self._scheduler.task_eviction, view, tasks, random)
                chosen |= dict.fromkeys(order[:left], (tasks, order))
                left -= len(order[:left])

    def _take(
        self, held: HeldContainer, tasks: Sequence[TaskView], order: tuple[str, ...], now_ns: int
    ) -> list[Effect]:
        """Take a container that is due."""
        state = self._state
        application = state.applications[held.job]
        held.taken = True
        application.taken += 1
        state.queues.note(application)
        if self._scheduler.mechanism.among != {Mechanism.KILL}:
            self._asked_ns[held.id] = now_ns
            application.named.append(held.id)
            state.attention.expect(job_address(held.job))
            return []
        self._kill_later(held)
        in_order = (held.id, *(container for container in order if container != held.id))
        return [explain_tasks(self._scheduler.task_eviction.name, held.job, tasks, in_order, 1)]

    def _kill_later(self, held: HeldContainer) -> None:
        self._state.nodes[held.node].to_kill.append(held.id)
        self._state.attention.expect(node_address(held.node))

    def _lose_patience(self, now_ns: int) -> bool:
        """Kill containers that a job was asked for and still holds; returns whether any request has timed out."""
        asked = len(self._asked_ns)
        for container, asked_ns in list(self._asked_ns.items()):
            if asked_ns + self._kill_timeout_ns <= now_ns:
                del self._asked_ns[container]
                held = self._state.containers.get(container)
                if held is not None and held.taken:
                    self._kill_later(held)
        return len(self._asked_ns) < asked

    def answer(self, node: Node, now_ns: int) -> list[Effect] | None:
        """Kill orders in answer to a heartbeat of ``node``; None: nothing has changed."""
        if not node.to_kill:
            return None
        effects: list[Effect] = []
        for container in node.to_kill:
            held = self._state.containers.get(container)
            if held is not None and held.taken:
                kill = KillContainer(held.id, held.job, PREEMPTED)
                effects.append(self._orders.send(held.id, held.node, kill, now_ns))
        node.to_kill.clear()
        return effects


PREEMPTED = "preempted by name"
"""Why a container was killed."""
