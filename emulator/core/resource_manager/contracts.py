"""Contracts: jobs are told what they must give, and what they do not give in time is killed.

Theory of operation
-------------------
A contract asks a job for a container, of its ApplicationMaster's choice.  If none has come back after
``kill_timeout``, the container that the task eviction order puts first is killed, at once (natjam, section 3.2).  Where
tasks are ranked across jobs, the contract names the container, and that one is killed.  Of a gang that is too small
without it, all tasks are killed, and all of them are taken by a strict contract with one.

A strict contract names the container.  Such a container counts as gone for its queue and its job, although its node
still holds it.  If the mechanism leaves nothing to do for the job, the container's node is told in answer to its next
heartbeat, as in YARN.  Otherwise the job is asked for that container and applies the mechanism; if it is not given
within ``kill_timeout``, its node is told.

A contract about a node asks for at least so much there, again of the ApplicationMaster's choice
(``emulator.core.resource_manager.node_contracts``).  What is not given within ``kill_timeout`` is killed at once: of
the job's tasks there, in the task eviction order, those that make it free, none of them in vain.

A job may have a grace between SIGTERM and SIGKILL.  Where its ApplicationMaster kills, this counts after the kill
timeout: only then is it known that the job has not answered, and what it has not given is killed without a grace.
"""

from __future__ import annotations

from emulator.core.decisions import order_tasks
from emulator.core.delivery import CommandLedger
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.mechanisms import keeps_processes, needs_no_job
from emulator.core.messages import KillContainer
from emulator.core.resource_manager.allocation import Contract, NodeContract, StrictContract
from emulator.core.resource_manager.applications import Application, HeldContainer, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.node_contracts import OpenContract
from emulator.core.resource_manager.preemptor import Preemptor, Reclaim
from emulator.core.settings import Settings
from emulator.policies.resources import irreducible
from emulator.policies.views import TaskView

PREEMPTED = "preempted by name"
"""Why a container was killed."""
NOT_GIVEN = "asked back and not given in time"
"""Why others were killed."""


class Contracts:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor, orders: CommandLedger) -> None:
        self._scheduler = settings.scheduler
        self._seed = settings.seed
        self._kill_timeout_ns = settings.protocol.kill_timeout_ns
        self._may_stop = keeps_processes(settings.scheduler.mechanism.among)
        self._nodes_kill = needs_no_job(settings.scheduler.mechanism.among)
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        self._kills = 0
        self._asked_ns: dict[str, int] = {}
        """Containers that their jobs were asked for by name, and when the grace from then on is over."""

    @property
    def due_ns(self) -> int | None:
        """When something asked for may have to be killed (never too late); None: nothing is asked for."""
        strict_ns = min(self._asked_ns.values()) + self._kill_timeout_ns if self._asked_ns else None
        times_ns = (self._preemptor.due_ns, self._state.node_contracts.due_ns, strict_ns)
        return min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def wait_anew(self, now_ns: int) -> None:
        """The ResourceManager was away: what it has asked for may take its full time from now on."""
        self._preemptor.wait_anew(now_ns)
        self._state.node_contracts.wait_anew(now_ns)
        self._asked_ns = {name: now_ns + self._grace_ns(self._state.containers.get(name)) for name in self._asked_ns}

    def make(self, contract: Contract | NodeContract | StrictContract, now_ns: int) -> None:
        """Tell the victim in the next answer to it, or its node."""
        if isinstance(contract, StrictContract):
            self._make_strict(contract, now_ns)
        elif isinstance(contract, NodeContract):
            job, node, amount = contract
            victim = self._state.applications[job]
            self._state.node_contracts.ask(OpenContract(job, node, amount, now_ns, victim.facts.grace_ns))
            victim.news.change_keeps()
        else:
            self._make_one(contract, now_ns)

    def _make_one(self, contract: Contract, now_ns: int) -> None:
        victim = self._state.applications[contract.victim]
        self._preemptor.ask(contract.requester, victim.name, now_ns, contract.container, victim.facts.grace_ns)
        news = victim.news
        if contract.container is None:
            news.ask_back()
        else:
            news.ask_by_name(contract.container, contract.queue_ns)

    def _make_strict(self, contract: StrictContract, now_ns: int) -> None:
        """Take the container: it counts as gone from now on.  A gang that is too small without it goes whole."""
        held, application = contract.held, self._state.applications[contract.held.job]
        going = [held]
        if application.goes_whole:
            going += [each for each in application.containers.values() if each.id in application.victims]
        for each in going:
            if not each.taken:
                self._take(application, each, contract, now_ns)

    def forget_job(self, application: Application) -> None:
        """The job has ended: all that it owes, and more, is being killed."""
        self._preemptor.forget_job(application.name)
        owed = self._state.node_contracts.owed_by(application.name)
        self._state.node_contracts.forget_job(application.name)
        for held in application.containers.values():
            held.taken = held.taken or (held.node in owed and self._state.on_slot(held))

    def _take(self, application: Application, held: HeldContainer, contract: StrictContract, now_ns: int) -> None:
        self._count_as_gone(application, held)
        if self._nodes_kill:
            self._kill_later(held, contract.stays_ns)
            return
        self._asked_ns[held.id] = now_ns + self._grace_ns(held)
        application.news.ask_by_name(held.id, contract.queue_ns if held is contract.held else None)

    def _count_as_gone(self, application: Application, held: HeldContainer) -> None:
        held.taken = True
        application.taken += 1
        self._state.queues.note(application)

    def _grace_ns(self, held: HeldContainer | None) -> int:
        """That of the container's job; 0 if one of them has ended."""
        application = None if held is None else self._state.applications.get(held.job)
        return 0 if application is None else application.facts.grace_ns

    def _kill_later(self, held: HeldContainer, stays_ns: int = 0) -> None:
        node = self._state.nodes[held.node]
        node.to_kill[held.id] = stays_ns
        self._state.attention.newly_awaited.append(node.address)

    # ---- what was not given in time ----

    def enforce(self, now_ns: int) -> list[Effect] | None:
        """Kill what was not given in time; None: nothing has changed.  Raises PolicyError."""
        effects: list[Effect] = []
        expired = self._preemptor.expire(now_ns, lambda entry: self._kill_one(entry, now_ns, effects))
        lost_patience = self._lose_patience(now_ns)
        late = list(self._state.node_contracts.expire(now_ns))
        for contract in late:
            effects += self._kill_on_node(contract, now_ns)
        return effects if expired or lost_patience or late else None

    def _kill_one(self, entry: Reclaim, now_ns: int, effects: list[Effect]) -> bool:
        """Kill the container named, or the victim job's first in the task eviction order; returns whether there was
        one."""
        state, victim = self._state, entry.victim
        tasks = tuple(
            task
            for task in state.task_views(victim, now_ns)
            if state.may_be_victim(task, now_ns)
            and task.container not in self._orders
            and entry.container in (None, task.container)
        )
        if not tasks:
            return state.applications[victim].facts.gang is not None and self._is_dying(victim)
        order = self._order_to_kill(tasks, now_ns)
        if not order:
            return False
        whole = state.applications[victim].goes_whole
        going = [task.container for task in state.task_views(victim, now_ns)] if whole else order[:1]
        rule = self._scheduler.task_eviction.name
        effects.append(explain_tasks(rule, victim, tasks, order, len(tasks) if whole else 1))
        effects += [self._kill_now(state.containers[container], now_ns) for container in going]
        if entry.container is None:
            state.applications[victim].news.withdraw()  # this container replaces one of those asked for
        return True

    def _kill_on_node(self, contract: OpenContract, now_ns: int) -> list[Effect]:
        """Kill what makes free what the job still owes there."""
        state, application = self._state, self._state.applications[contract.job]
        application.news.change_keeps()  # what is killed replaces what was asked for
        tasks = tuple(
            task
            for task in state.task_views(contract.job, now_ns)
            if task.node == contract.node and state.may_be_victim(task, now_ns) and task.container not in self._orders
        )
        if not tasks:
            return []
        rule, frees = self._scheduler.task_eviction.name, state.nodes[contract.node].settings.freed_for_certain
        order = self._order_to_kill(tasks, now_ns)
        requests = {task.container: task.request for task in tasks}
        going = irreducible(contract.amount, order, lambda name: frees(requests[name], self._may_stop)) or order
        in_order = [*going, *(name for name in order if name not in going)]
        effects: list[Effect] = [explain_tasks(rule, contract.job, tasks, in_order, len(going))]
        for held in map(state.containers.__getitem__, going):
            self._count_as_gone(application, held)
            effects.append(self._kill_now(held, now_ns))
        return effects

    def _order_to_kill(self, tasks: tuple[TaskView, ...], now_ns: int) -> tuple[str, ...]:
        """The containers of these tasks by the task eviction policy.  Raises PolicyError."""
        self._kills += 1
        random = keyed_random(self._seed, "rm", "kill", self._kills)
        return order_tasks(self._scheduler.task_eviction, self._state.view(now_ns), tasks, random)

    def _kill_now(self, held: HeldContainer, now_ns: int) -> Effect:
        return self._orders.send(held.id, held.node, KillContainer(held.id, held.job, NOT_GIVEN), now_ns)

    def _is_dying(self, gang: str) -> bool:
        """Whether containers of it are being killed: with the first that was not given in time, all are."""
        return any(task.container in self._orders for task in self._state.task_views(gang, 0))

    def _lose_patience(self, now_ns: int) -> bool:
        """Kill containers that a job was asked for and still holds; returns whether any request has timed out."""
        late = [name for name, from_ns in self._asked_ns.items() if from_ns + self._kill_timeout_ns <= now_ns]
        for container in late:
            del self._asked_ns[container]
            held = self._state.containers.get(container)
            if held is not None and held.taken:
                self._kill_later(held)
        return bool(late)

    def kills_on(self, node: Node, now_ns: int) -> list[Effect] | None:
        """Kill orders in answer to a heartbeat of ``node``; None: nothing has changed."""
        if not node.to_kill:
            return None
        effects: list[Effect] = []
        for container, stays_ns in node.to_kill.items():
            held = self._state.containers.get(container)
            if held is not None and held.taken:
                grace_ns = self._grace_ns(held) if self._nodes_kill else 0
                kill = KillContainer(held.id, held.job, PREEMPTED, stays_ns, grace_ns)
                effects.append(self._orders.send(held.id, held.node, kill, now_ns))
        node.to_kill.clear()
        return effects
