"""Reclaiming: what the Preemptor does once per period (natjam, section 3.2).

Theory of operation
-------------------
The allocation policy says which queue may take containers back, and from which queues.  For each container that a job
of such a queue lacks, the Preemptor chooses a victim among the jobs that have one to give, those of the least urgent
queue first.  A victim learns of the request at its next heartbeat.  A queue that may take from itself does so between
its jobs.  If every job has a share (``emulator.core.resource_manager.shares``), jobs below their share take from jobs
above theirs, as long as no suitable container is free.  A container not given in time is killed.

Containers for a transactional workload (``emulator.core.resource_manager.withholding``) are asked for first: from jobs
that hold more than their share, then from jobs of the least urgent queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from emulator.core.command_ledger import OrderLedger
from emulator.core.decisions import allocate, order_jobs, order_tasks
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.messages import KillContainer, job_address
from emulator.core.resource_manager.applications import Node
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.preemptor import TRANSACTIONAL, Preemptor, net_of
from emulator.core.resource_manager.shares import Instance, Shares
from emulator.core.resource_manager.withholding import Withholding
from emulator.core.settings import Settings
from emulator.policies.policy import Reads
from emulator.policies.views import ClusterView, JobView


class Reclaiming:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(
        self,
        settings: Settings,
        state: ClusterState,
        preemptor: Preemptor,
        orders: OrderLedger,
        shares: Shares | None,
        withholding: Withholding,
    ) -> None:
        self._scheduler = settings.scheduler
        self._shares = shares
        self._withholding = withholding
        self._seed = settings.seed
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        reads = self._scheduler.allocation.reads - {Reads.PROGRESS}
        self._asks_again_on_change = self._scheduler.order_is_fixed and not reads
        """Whether the policies read only the queues and their jobs, in an order that never changes."""
        queues = [queue.name for queue in self._scheduler.queues]
        self._takers = queues if self._scheduler.allocation.least_urgent_takes else queues[:-1]
        """Queues that may ever take containers back."""
        self._kills = 0
        self._all_asked: tuple[int, int] | None = None
        """State of queues and Preemptor when everything possible had been asked for."""
        self._holds_until_ns: int | None = None
        """When the allocation must be asked again even if nothing changes."""

    def due_ns(self, now_ns: int) -> int | None:
        """When a run of the Preemptor may next ask for a container; None: not until something changes."""
        if not self._scheduler.preempts:
            return None
        return now_ns if self._withholding.lacking > 0 else self._jobs_due_ns(now_ns)

    def _jobs_due_ns(self, now_ns: int) -> int | None:
        """The same, for a job."""
        state = self._state
        if not any(map(state.queues.pending_in, self._takers)):
            return None
        if self._shares is not None:
            return now_ns  # free containers may be for other tasks, and shares change with time
        if state.free_nodes and state.used < state.limit:
            return None  # natjam, section 3.2: only when the cluster is full
        if self._all_asked != self._stands or not self._asks_again_on_change:
            return now_ns
        return None if self._holds_until_ns is None else max(now_ns, self._holds_until_ns)

    @property
    def _stands(self) -> tuple[int, int]:
        """Stays the same until something changes that a run of the Preemptor reads."""
        return self._state.queues.changes, self._preemptor.changes

    def wait_anew(self, now_ns: int) -> None:
        """The ResourceManager was away: what it has asked for may take its full time from now on."""
        self._preemptor.wait_anew(now_ns)

    def run(self, now_ns: int, tick_ns: int) -> list[Effect] | None:
        """One run of the Preemptor, planned for ``tick_ns``; None: nothing has changed.  Raises PolicyError."""
        effects: list[Effect] = []
        expired = self._preemptor.expire(now_ns, lambda victim: self._kill_one(victim, now_ns, effects))
        if self.due_ns(now_ns) != now_ns:
            return effects if expired else None
        asked = self._shares.asked if self._shares is not None else 0
        self._take_withheld(now_ns)
        if self._jobs_due_ns(now_ns) == now_ns:
            self._take_for_jobs(now_ns)
        effects += self._preemptor.explain()
        decided = self._shares is not None and self._shares.asked != asked
        return effects if effects or expired or decided else None

    def _take_withheld(self, now_ns: int) -> None:
        """Ask for the containers that a transactional workload needs and has not asked for yet."""
        lacking, view = self._withholding.lacking, self._state.view(now_ns)
        for jobs in self._givers(now_ns) if lacking > 0 else ():
            while jobs and lacking > 0:
                self._take(TRANSACTIONAL, tuple(jobs.values()), jobs, view)
                lacking -= 1

    def _givers(self, now_ns: int) -> Iterator[dict[str, JobView]]:
        """Groups of jobs with a task to give, in the order in which they must give."""
        for instance in self._shares.instances(now_ns) if self._shares is not None else ():
            yield self._above(instance, now_ns)
        for queue in reversed(self._scheduler.queues):
            yield self._victims(self._state.queues.job_views(queue.name, now_ns))

    def _take_for_jobs(self, now_ns: int) -> None:
        """Ask for the containers that jobs lack.  Raises PolicyError."""
        view = self._state.view(now_ns)
        if self._shares is not None:
            for instance in self._shares.instances(now_ns):
                self._take_surplus(instance, view)
            return
        decision = allocate(self._scheduler.allocation, view)
        rooms = {queue.name: queue.maximum - queue.used for queue in view.queues}
        all_asked = True
        for queue, victims in decision.reclaim:
            others = tuple(victim for victim in victims if victim != queue)
            if others:
                self._take_from_queues(queue, others, rooms[queue], now_ns)
            if queue in victims:
                all_asked &= self._take_within(queue, decision.most_reclaims_in_a_run, now_ns)
        if all_asked:
            self._all_asked, self._holds_until_ns = self._stands, decision.valid_until_ns

    def _take_from_queues(self, queue: str, victims: tuple[str, ...], room: int, now_ns: int) -> None:
        """Make the missing reclaim requests of the jobs of ``queue``, which may grow by ``room`` containers."""
        possible: list[dict[str, JobView]] | None = None
        view = self._state.view(now_ns)
        for application in self._state.waiting(queue, view).jobs:
            outstanding = self._preemptor.outstanding(application.name)
            while outstanding < min(application.requests.for_any_node, room):
                if possible is None:
                    possible = [self._victims(self._state.queues.job_views(name, now_ns)) for name in victims]
                jobs = next(filter(None, possible), None)
                if jobs is None:
                    return
                self._take(application.name, tuple(jobs.values()), jobs, view)
                outstanding += 1
            room -= outstanding

    def _take_within(self, queue: str, most: int | None, now_ns: int) -> bool:
        """The first waiting job takes from the jobs after it that have something to give (natjam, section 4).

        Each job takes as many as it lacks before it is the next one's turn; together they take at most ``most`` in one
        run.  Returns False if that limit ended the run, so that the next run may ask for more.
        """
        view = self._state.view(now_ns)
        jobs = tuple(self._state.queues.job_views(queue, now_ns))
        possible = self._victims(jobs)
        order = order_jobs(self._scheduler.preemption_order, view, jobs)
        made = 0
        for rank, name in enumerate(order):
            application = self._state.applications[name]
            lacking = application.requests.for_any_node - self._preemptor.outstanding(name)
            for _ in range(lacking):
                later = tuple([possible[job] for job in order[rank + 1 :] if job in possible])
                if not later:
                    return True
                if made == most:
                    return False
                self._take(application.name, later, possible, view)
                made += 1
        return True

    def _take_surplus(self, instance: Instance, view: ClusterView) -> None:
        """Ask jobs above their share for the containers that others lack of theirs, or need for a master."""
        if self._scheduler.victims.isdisjoint(instance.kinds):
            return
        state = self._state
        if state.used < state.limit and any(node.has_free(instance.kinds[0]) for node in state.nodes.values()):
            return
        surplus = self._above(instance, view.now_ns)
        applications = self._state.applications.values()
        masters = [each for each in applications if each.requests.application_master is not None]
        for application in [*masters, *instance.below(applications)]:
            requests = application.requests
            movable = min(requests.for_any_node, sum(map(requests.wanted, instance.kinds)))
            lacking = 1 if application in masters else min(movable, instance.lacking(application))
            for _ in range(lacking - self._preemptor.outstanding(application.name)):
                if not surplus:
                    return
                self._take(application.name, tuple(surplus.values()), surplus, view)

    def _above(self, instance: Instance, now_ns: int) -> dict[str, JobView]:
        """Jobs that hold more than their share, each with its excess as the number it can give."""
        asked = self._preemptor.asked()
        found: dict[str, JobView] = {}
        for application in self._state.applications.values():
            above = min(-instance.lacking(application), application.running_victims) - asked.get(application.name, 0)
            if above > 0:
                held = net_of(instance.source.view_of(application, now_ns), asked.get(application.name, 0))
                found[application.name] = replace(held, reclaimable=above)
        return found

    def _take(self, requester: str, among: tuple[JobView, ...], jobs: dict[str, JobView], view: ClusterView) -> None:
        """Ask one of the jobs ``among`` for a container, and update ``jobs``, all jobs that have one to give."""
        victim = self._preemptor.choose(requester, view, among)
        jobs[victim] = net_of(jobs[victim], 1)
        if not jobs[victim].reclaimable:
            del jobs[victim]
        self._state.applications[victim].reclaim += 1
        self._state.attention.expect(job_address(victim))

    def _victims(self, jobs: Iterable[JobView]) -> dict[str, JobView]:
        """Those of ``jobs`` with a task to give, without the tasks already asked back."""
        asked = self._preemptor.asked()
        views = (net_of(view, asked[view.name]) if view.name in asked else view for view in jobs if view.reclaimable)
        return {view.name: view for view in views if view.reclaimable > 0}

    def answer(self, node: Node, now_ns: int) -> list[Effect] | None:
        """Nothing in answer to a heartbeat of ``node``, because kills are sent at once (natjam, section 3.2)."""
        return None

    def _kill_one(self, victim: str, now_ns: int, effects: list[Effect]) -> bool:
        """Kill the victim job's container that is first in the task eviction order; returns whether there was one."""
        state = self._state
        tasks = tuple(
            task
            for task in state.task_views(victim, now_ns)
            if task.kind in self._scheduler.victims and task.container not in self._orders
        )
        if not tasks:
            return False
        self._kills += 1
        random = keyed_random(self._seed, "rm", "kill", self._kills)
        policy = self._scheduler.task_eviction
        order = order_tasks(policy, state.view(now_ns), tasks, random)
        if not order:
            return False
        held = state.containers[order[0]]
        kill = KillContainer(held.id, victim, "asked back and not given in time")
        why = explain_tasks(policy.name, victim, tasks, order, 1)
        effects += [why, self._orders.send(held.id, held.node, kill, now_ns)]
        application = state.applications[victim]  # ask it for one container less: this one replaces it
        if application.reclaim:
            application.reclaim -= 1
        else:
            application.withdrawn += 1
            state.attention.expect(job_address(victim))
        return True
