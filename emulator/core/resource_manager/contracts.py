"""Contracts: what jobs were asked to give, for whom and since when; what they do not give in time is killed.

Theory of operation
-------------------
A contract asks a job for a container, of its ApplicationMaster's choice.  The Preemptor keeps it in the *reclaim list*
of the job that it is for (natjam, section 3.2).  The victim's ApplicationMaster is notified at its next heartbeat.  An
entry is removed when the job gets a container.  After ``kill_timeout`` (12 s) it moves to the *expired list* for
``expired`` (2 s), and the container of its victim that the task eviction order puts first is killed, at once.  The
entries, expired ones included, prevent a second request for the same need.  Where tasks are ranked across jobs, the
contract names the container, and that one is killed.  Of a gang that is too small without it, all tasks are killed, and
all of them are taken by a strict contract with one.

A gang gets containers only together, so its entry is removed when the container becomes free: it is held for the gang
(``emulator.core.resource_manager.gangs``), and its former owner has given what it was asked for.  Containers that a
transactional workload wants (``emulator.core.resource_manager.transactional``) are entries too, with their own timeout.

A contract about a node asks for at least so much there, again of the ApplicationMaster's choice.  Whatever of the job's
leaves the node fulfils it, the oldest contract first, also a task that has ended by itself.  What was taken by name
does not: it is counted apart.  The ApplicationMaster receives what its job may keep of each such node: what it holds
less what it owes.  That stays right whatever is lost, late or repeated, and whichever of the two hears first that a
task has left: what has left is neither held nor owed.  When less is needed than was asked for, the newest contracts are
lowered.  What is not given within ``kill_timeout`` is killed at once: of the job's tasks there, in the task eviction
order, those that make it free, none of them superfluous.

A strict contract names the container.  Such a container counts as gone for its queue and its job, although its node
still holds it.  If the mechanism leaves nothing to do for the job, the container's node is told in answer to its next
heartbeat, as in YARN.  Otherwise the job is asked for that container and applies the mechanism; if it is not given
within ``kill_timeout``, its node is notified.

A job may have a grace between SIGTERM and SIGKILL.  Where its ApplicationMaster kills, this counts after the kill
timeout: only then is it known that the job has not answered, and what it has not given is killed without a grace.
After a restart of the ResourceManager the time begins again, because no answer could reach it meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from emulator.core.decisions import order_tasks
from emulator.core.delivery import CommandLedger
from emulator.core.effects import TRANSACTIONAL, Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.messages import PREEMPTED, AllocateResponse, KillContainer, Outcome
from emulator.core.resource_manager.allocation import Contract, StrictContract
from emulator.core.resource_manager.applications import Application, HeldContainer, Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.settings import Settings
from emulator.policies.mechanism import keeps_processes, needs_no_job
from emulator.policies.resources import common, irreducible, lacking, minus, plus, total
from emulator.policies.views import TaskView
from emulator.vocabulary import MASTER_GROUP, Resources

NOT_GIVEN = "asked back and not given in time"
"""Why containers were killed that no scheduler named."""


@dataclass(slots=True)
class OpenContract:
    """What ``victim`` was asked to give, and has not given yet: a container, or so much of a node."""

    victim: str
    since_ns: int
    grace_ns: int = 0
    """How much later than others it is too old: the victim may give its tasks so long to end."""
    requester: str = ""
    """For a container: a job, or ``TRANSACTIONAL``."""
    container: str | None = None
    """The one that was named; None: any of the victim's."""
    node: str = ""
    amount: Resources = ()
    """How much of the node; empty: a container, on any node."""


class Preemptor:
    """The open contracts: reclaim lists, expired list, and what is owed on nodes."""

    def __init__(self, settings: Settings) -> None:
        self.reclaims: dict[str, list[OpenContract]] = {}
        """The reclaim list of each requesting job, oldest first."""
        self._requested: dict[str, int] = {}
        self.changes = 0
        """Grows whenever less is being reclaimed than before."""
        self.expired: list[tuple[int, OpenContract]] = []
        """Reclaims that ended in a kill, with the instant their container is assumed dead."""
        self._kill_timeout_ns = settings.protocol.kill_timeout_ns
        self._grace_ns = settings.kill_after_ns
        self._expired_ns = settings.protocol.expired_ns
        self.due_ns: int | None = None
        """Earliest time at which something may be too old (never too late); None: there is nothing."""
        self._on_nodes: list[OpenContract] = []
        """Oldest first."""

    def outstanding(self, requester: str) -> int:
        """Number of containers being reclaimed for ``requester``."""
        dying = [reclaim for _, reclaim in self.expired if reclaim.requester == requester]
        return len(self.reclaims.get(requester, ())) + len(dying)

    def requested(self) -> Mapping[str, int]:
        """Number of containers asked back from each victim that it still holds."""
        if not self.expired:
            return self._requested
        return Counter(self._requested) + Counter(reclaim.victim for _, reclaim in self.expired)

    def requested_from(self, victim: str) -> int:
        """Number of entries in the reclaim lists that name ``victim``."""
        return self._requested.get(victim, 0)

    def ask(self, requester: str, victim: str, now_ns: int, container: str | None = None, grace_ns: int = 0) -> None:
        """``victim``, whose tasks have such a grace, is asked for a container, or for the one named, for
        ``requester``."""
        entry = OpenContract(victim, now_ns, grace_ns, requester, container)
        self.reclaims.setdefault(requester, []).append(entry)
        self._requested[victim] = self.requested_from(victim) + 1
        self._expect(entry)

    def allocated(self, requester: str, former_owner: str | None, pending: int) -> None:
        """``requester`` got a container that ``former_owner`` held before, and still wants ``pending``.

        The container fulfils an entry that names its former owner, which now has one less to give.  It is an entry of
        ``requester``, or else of another job, which must then ask again.  Any other container fulfils no entry, as long
        as more is wanted than is being reclaimed.
        """
        if former_owner is not None and self.requested_from(former_owner):
            everyones = self._naming(former_owner, self.reclaims)
            oldest_ns, other, oldest = min(everyones)
            since_ns, fulfilled, place = min(self._naming(former_owner, (requester,)) or everyones)
            if oldest_ns < since_ns:
                # The victim has answered, so what it owes to others counts from the time of the fulfilled entry.
                self.reclaims[other][oldest].since_ns = since_ns
                self.reclaims[other].sort(key=lambda entry: entry.since_ns)
            self._drop(fulfilled, place)
        self.withdraw_surplus(requester, pending)

    def kept(self, former_owner: str, gangs: Iterable[str]) -> bool:
        """A container of ``former_owner`` has become free, which one of these gangs may have asked for: then its entry
        is fulfilled, although the gang gets the container only with all others.  Returns whether there was one."""
        entries = self._naming(former_owner, gangs) if self.requested_from(former_owner) else []
        for _, requester, place in sorted(entries)[:1]:
            self._drop(requester, place)
        return bool(entries)

    def _naming(self, victim: str, requesters: Iterable[str]) -> list[tuple[int, str, int]]:
        return [
            (entry.since_ns, requester, i)
            for requester in requesters
            for i, entry in enumerate(self.reclaims.get(requester, ()))
            if entry.victim == victim
        ]

    def withdraw_surplus(self, requester: str, pending: int) -> None:
        """The job wants fewer containers than are being reclaimed for it: drop its newest entries."""
        while len(self.reclaims.get(requester, ())) > pending:
            self._drop(requester, -1)

    def forget_job(self, job: str) -> None:
        """``job`` has ended: drop all reclaims for it or from it."""
        while job in self.reclaims:
            self._drop(job, -1)
        for _, requester, index in reversed(self._naming(job, self.reclaims) if self.requested_from(job) else []):
            self._drop(requester, index)
        self._keep_expired([(at, entry) for at, entry in self.expired if job not in (entry.requester, entry.victim)])
        self._on_nodes = [each for each in self._on_nodes if each.victim != job]

    def expire(self, now_ns: int, kill: Callable[[OpenContract], bool]) -> bool:
        """Handle entries that are too old: ``kill(entry)`` kills the container named, or one of the victim, if it is
        there.

        Returns whether anything has changed.
        """
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        kept = [(until_ns, entry) for until_ns, entry in self.expired if until_ns > now_ns]
        before = self.changes
        self._keep_expired(kept)
        for requester in list(self.reclaims):
            late = [entry for entry in self.reclaims[requester] if self._expires_ns(entry) <= now_ns]
            for entry in late:
                self._drop(requester, self.reclaims[requester].index(entry))
                if kill(entry):
                    self.expired.append((now_ns + self._expired_ns, entry))
        times_ns = map(self._expires_ns, chain(self._on_nodes, *self.reclaims.values()))
        self.due_ns = min((*times_ns, *(until_ns for until_ns, _ in self.expired)), default=None)
        return self.changes != before

    def restart_timeouts(self, now_ns: int) -> None:
        """The ResourceManager was away: nobody could answer it, so the time to give a container begins again."""
        for entries in (*self.reclaims.values(), self._on_nodes):
            for entry in entries:
                entry.since_ns = now_ns

    def _expect(self, entry: OpenContract) -> None:
        expires_ns = self._expires_ns(entry)
        self.due_ns = expires_ns if self.due_ns is None else min(self.due_ns, expires_ns)

    def _expires_ns(self, entry: OpenContract) -> int:
        if entry.requester == TRANSACTIONAL:
            return entry.since_ns + self._grace_ns
        return entry.since_ns + self._kill_timeout_ns + entry.grace_ns

    def _keep_expired(self, kept: list[tuple[int, OpenContract]]) -> None:
        self.changes += len(kept) < len(self.expired)
        self.expired = kept

    def _drop(self, requester: str, index: int) -> None:
        self.changes += 1
        victim = self.reclaims[requester].pop(index).victim
        self._requested[victim] -= 1
        if not self._requested[victim]:
            del self._requested[victim]
        if not self.reclaims[requester]:
            del self.reclaims[requester]

    # ---- on nodes ----

    @property
    def has_contracts_on_nodes(self) -> bool:
        """Whether any job owes something of a node."""
        return bool(self._on_nodes)

    def ask_on_node(self, victim: str, node: str, amount: Resources, now_ns: int, grace_ns: int) -> None:
        """``victim`` owes so much more of the node."""
        entry = OpenContract(victim, now_ns, grace_ns, node=node, amount=amount)
        self._on_nodes.append(entry)
        self._expect(entry)

    def jobs_with_contracts(self) -> list[str]:
        """Jobs that owe something of a node."""
        return list(dict.fromkeys(each.victim for each in self._on_nodes))

    def nodes_with_contracts(self) -> list[str]:
        """Nodes of which something is owed."""
        return list(dict.fromkeys(each.node for each in self._on_nodes))

    def open_amounts_of(self, job: str) -> dict[str, Resources]:
        """What the job owes, by node."""
        amounts: dict[str, Resources] = {}
        for each in self._on_nodes:
            if each.victim == job:
                amounts[each.node] = plus(amounts[each.node], each.amount) if each.node in amounts else each.amount
        return amounts

    def freed(self, job: str, node: str, amount: Resources) -> None:
        """The job has left so much of the node."""
        for each in self._on_nodes:
            if (each.victim, each.node) == (job, node):
                each.amount, amount = lacking(each.amount, amount), lacking(amount, each.amount)
        self._retain_open()

    def lower(self, node: str, needed: Resources) -> list[str]:
        """No more than this is still needed there; returns the jobs that owe less now."""
        spared: list[str] = []
        for each in self._on_nodes:
            if each.node == node:
                amount = common(each.amount, needed)
                needed = minus(needed, amount)
                if amount != each.amount:
                    each.amount = amount
                    spared.append(each.victim)
        self.changes += len(spared)
        self._retain_open()
        return spared

    def forget_node(self, node: str) -> None:
        """The node is lost, with all that was there."""
        self._on_nodes = [each for each in self._on_nodes if each.node != node]

    def expire_on_nodes(self, now_ns: int) -> list[OpenContract]:
        """Those about nodes that are too old, which are forgotten."""
        late = [each for each in self._on_nodes if self._expires_ns(each) <= now_ns]
        self._on_nodes = [each for each in self._on_nodes if self._expires_ns(each) > now_ns]
        return late

    def _retain_open(self) -> None:
        self._on_nodes = [each for each in self._on_nodes if any(each.amount)]


class Contracts:
    """Makes contracts, and kills what is not given in time; see the module's theory of operation."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor, orders: CommandLedger) -> None:
        self._scheduler = settings.scheduler
        self._seed = settings.seed
        self._kill_timeout_ns = settings.protocol.kill_timeout_ns
        self._may_stop = keeps_processes(settings.scheduler.mechanism.among)
        self._nodes_kill = needs_no_job(settings.scheduler.mechanism.among)
        self._reports_kills = settings.overheads.amrm_client
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        self._kills = 0
        self._asked_ns: dict[str, int] = {}
        """Containers that their jobs were asked for by name, and when the grace from then on is over."""

    @property
    def due_ns(self) -> int | None:
        """When something asked for may have to be killed (never too late); None: nothing is asked for."""
        due_ns = self._preemptor.due_ns
        if not self._asked_ns:
            return due_ns
        strict_ns = min(self._asked_ns.values()) + self._kill_timeout_ns
        return strict_ns if due_ns is None else min(due_ns, strict_ns)

    def restart_timeouts(self, now_ns: int) -> None:
        """The ResourceManager was away: what it has asked for may take its full time from now on."""
        self._preemptor.restart_timeouts(now_ns)
        self._asked_ns = {name: now_ns + self._grace_ns(self._state.containers.get(name)) for name in self._asked_ns}

    def make(self, contract: Contract | StrictContract, now_ns: int) -> None:
        """Tell the victim in the next answer to it, or its node."""
        if isinstance(contract, StrictContract):
            self._make_strict(contract, now_ns)
        else:
            self._make(contract, now_ns)

    def _make(self, contract: Contract, now_ns: int) -> None:
        victim = self._state.applications[contract.victim]
        grace_ns = victim.facts.grace_ns
        if contract.amount:
            self._preemptor.ask_on_node(victim.name, contract.node, contract.amount, now_ns, grace_ns)
            victim.news.reduce_contract()
            return
        self._preemptor.ask(contract.requester, victim.name, now_ns, contract.container, grace_ns)
        if contract.container is None:
            victim.news.request_reclaim()
        else:
            victim.news.ask_by_name(contract.container, contract.queue_ns)

    def _make_strict(self, contract: StrictContract, now_ns: int) -> None:
        """Take the container: it counts as gone from now on.  A gang that is too small without it goes whole."""
        held, application = contract.held, self._state.applications[contract.held.job]
        going = [held]
        if application.is_evicted_whole:
            going += [each for each in application.containers.values() if each.id in application.victims]
        for each in going:
            if not each.is_reclaimed:
                self._reclaim(application, each, contract, now_ns)

    def forget_job(self, application: Application) -> None:
        """The job has ended: all that it owes, and more, is being killed."""
        owed = self._preemptor.open_amounts_of(application.name)
        self._preemptor.forget_job(application.name)
        for held in application.containers.values():
            held.is_reclaimed = held.is_reclaimed or (held.node in owed and self._state.on_slot(held))

    def _reclaim(self, application: Application, held: HeldContainer, contract: StrictContract, now_ns: int) -> None:
        self._count_as_removed(application, held)
        if self._nodes_kill:
            self._kill_later(held, contract.release_delay_ns)
            if self._reports_kills:
                application.news.ended(held.ended(Outcome.KILLED, PREEMPTED))
            return
        self._asked_ns[held.id] = now_ns + self._grace_ns(held)
        application.news.ask_by_name(held.id, contract.queue_ns if held is contract.held else None)

    def _count_as_removed(self, application: Application, held: HeldContainer) -> None:
        held.is_reclaimed = True
        application.reclaimed += 1
        self._state.queues.update(application)

    def _grace_ns(self, held: HeldContainer | None) -> int:
        """That of the container's job; 0 if one of them has ended."""
        application = None if held is None else self._state.applications.get(held.job)
        return 0 if application is None else application.facts.grace_ns

    def _kill_later(self, held: HeldContainer, release_delay_ns: int = 0) -> None:
        node = self._state.nodes[held.node]
        node.to_kill[held.id] = release_delay_ns
        self._state.awaited.newly_awaited.append(node.address)

    # ---- what was not given in time ----

    def enforce(self, now_ns: int) -> list[Effect] | None:
        """Kill what was not given in time; None: nothing has changed.  Raises PolicyError."""
        effects: list[Effect] = []
        late = self._preemptor.expire_on_nodes(now_ns)
        expired = self._preemptor.expire(now_ns, lambda entry: self._kill_one(entry, now_ns, effects))
        timed_out = self._time_out(now_ns)
        for contract in late:
            effects += self._kill_on_node(contract, now_ns)
        return effects if expired or timed_out or late else None

    def _kill_one(self, entry: OpenContract, now_ns: int, effects: list[Effect]) -> bool:
        """Kill the container named, or the victim job's first in the task eviction order; returns whether there was
        one."""
        state, victim = self._state, entry.victim
        tasks = tuple(
            task
            for task in state.victim_views(victim, now_ns)
            if task.container not in self._orders and entry.container in (None, task.container)
        )
        if not tasks:
            return state.applications[victim].facts.gang is not None and self._is_being_killed(victim)
        order = self._order_to_kill(tasks, now_ns)
        if not order:
            return False
        whole = state.applications[victim].is_evicted_whole
        going = [task.container for task in state.task_views(victim, now_ns)] if whole else order[:1]
        rule = self._scheduler.task_eviction.name
        effects.append(explain_tasks(rule, victim, tasks, order, len(tasks) if whole else 1))
        effects += [self._kill_now(state.containers[container], now_ns) for container in going]
        if entry.container is None:
            state.applications[victim].news.withdraw()  # this container replaces one of those asked for
        return True

    def _kill_on_node(self, contract: OpenContract, now_ns: int) -> list[Effect]:
        """Kill what makes free what the job still owes there."""
        state, application = self._state, self._state.applications[contract.victim]
        application.news.reduce_contract()  # what is killed replaces what was asked for
        tasks = tuple(
            task
            for task in state.victim_views(contract.victim, now_ns, (contract.node,))
            if task.container not in self._orders
        )
        if not tasks:
            return []
        rule, frees = self._scheduler.task_eviction.name, state.nodes[contract.node].settings.guaranteed_freed
        order = self._order_to_kill(tasks, now_ns)
        requests = {task.container: task.request for task in tasks}
        going = irreducible(contract.amount, order, lambda name: frees(requests[name], self._may_stop)) or order
        in_order = [*going, *(name for name in order if name not in going)]
        effects: list[Effect] = [explain_tasks(rule, contract.victim, tasks, in_order, len(going))]
        for held in map(state.containers.__getitem__, going):
            self._count_as_removed(application, held)
            effects.append(self._kill_now(held, now_ns))
        return effects

    def _order_to_kill(self, tasks: tuple[TaskView, ...], now_ns: int) -> tuple[str, ...]:
        """The containers of these tasks by the task eviction policy.  Raises PolicyError."""
        self._kills += 1
        random = keyed_random(self._seed, "rm", "kill", self._kills)
        return order_tasks(self._scheduler.task_eviction, self._state.view(now_ns), tasks, random)

    def _kill_now(self, held: HeldContainer, now_ns: int) -> Effect:
        return self._orders.send(held.id, held.node, KillContainer(held.id, held.job, NOT_GIVEN), now_ns)

    def _is_being_killed(self, gang: str) -> bool:
        """Whether containers of it are being killed: with the first that was not given in time, all are."""
        return any(task.container in self._orders for task in self._state.task_views(gang, 0))

    def _time_out(self, now_ns: int) -> bool:
        """Kill containers that a job was asked for and still holds; returns whether any request has timed out."""
        late = [name for name, from_ns in self._asked_ns.items() if from_ns + self._kill_timeout_ns <= now_ns]
        for container in late:
            del self._asked_ns[container]
            held = self._state.containers.get(container)
            if held is not None and held.is_reclaimed:
                self._kill_later(held)
        return bool(late)

    def kills_on(self, node: Node, now_ns: int) -> list[Effect] | None:
        """Kill orders in answer to a heartbeat of ``node``; None: nothing has changed."""
        if not node.to_kill:
            return None
        effects: list[Effect] = []
        for container, stays_ns in node.to_kill.items():
            held = self._state.containers.get(container)
            if held is not None and held.is_reclaimed:
                grace_ns = self._grace_ns(held) if self._nodes_kill else 0
                kill = KillContainer(held.id, held.job, PREEMPTED, stays_ns, grace_ns)
                effects.append(self._orders.send(held.id, held.node, kill, now_ns))
        node.to_kill.clear()
        return effects

    # ---- what was given ----

    def freed(self, node: Node, held: HeldContainer, amount: Resources) -> None:
        """A container there has left, or has given back so much."""
        if not self._preemptor.has_contracts_on_nodes or held.group is MASTER_GROUP:
            return
        if not held.is_reclaimed:
            self._preemptor.freed(held.job, node.name, amount)
        elif node.name in self._preemptor.open_amounts_of(held.job):
            # it has left what it may keep, and has paid nothing
            self._state.applications[held.job].news.reduce_contract()

    def answer(self, application: Application, received_id: int) -> AllocateResponse | None:
        """The answer to a heartbeat of the job (``MasterUpdates.answer``), with what it may keep of nodes."""
        owed = self._preemptor.open_amounts_of(application.name)
        keeps = tuple((node, minus(self._held_by_tasks(application, node), more)) for node, more in owed.items())
        return application.news.answer(received_id, self._state.costs.measured, keeps)

    def _held_by_tasks(self, application: Application, node: str) -> Resources:
        """What the job's tasks hold of the node, also those taken by name, and stopped processes."""
        settings = self._state.nodes[node].settings
        here = (c for c in application.containers.values() if c.node == node and c.group is not MASTER_GROUP)
        holds = (c.request if self._state.on_slot(c) else settings.held_when_stopped(c.request) for c in here)
        return total(holds, settings.resource_names)
