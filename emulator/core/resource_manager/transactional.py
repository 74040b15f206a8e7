"""Withholding: a transactional workload has first call on containers (reverse-adaptive, section III).

Theory of operation
-------------------
``cluster.availability`` says how many containers jobs may hold, anywhere in the cluster; the others are withheld for
the transactional workload.  Each run of the Preemptor reads the number.  No container is given out above it.  What jobs
hold above it is the *surplus*.  It is asked back like a container that another job needs
(``emulator.core.resource_manager.offers``); the requester of such an entry in the Preemptor's list is
``TRANSACTIONAL``.  A container that becomes free while there is a surplus goes to the transactional workload and
fulfils an entry.

If an entry is not fulfilled in time, a container is killed, early enough that it is known to be free when the grace
ends.  Under *wait* nothing is asked back or killed.  What jobs hold after the grace is the shortfall of the
transactional workload; ``emulator.records.measures`` computes it from what the processes did.  An ApplicationMaster in
a container counts as one, and is never taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.core.delivery import CommandLedger
from emulator.core.effects import TRANSACTIONAL
from emulator.core.resource_manager.allocation import Contract
from emulator.core.resource_manager.applications import HeldContainer
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Preemptor
from emulator.core.resource_manager.victims import VictimJobs
from emulator.core.settings import Settings
from emulator.policies.views import JobView
from emulator.vocabulary import MASTER_GROUP


class TransactionalLoad:
    """Withholds containers for the transactional load (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor, orders: CommandLedger) -> None:
        self._availability = settings.availability
        self._state = state
        self._preemptor = preemptor
        self._orders = orders
        self.due_ns = None if self._availability is None else self._availability.capacity.next_change_ns(0)
        """When the number of containers changes next; None: never."""

    def step(self, now_ns: int) -> bool:
        """Record how many containers jobs may hold now; returns whether the number has changed."""
        if self._availability is None or self.due_ns is None or now_ns < self.due_ns:
            return False
        self.due_ns = self._availability.capacity.next_change_ns(now_ns)
        was_full = self._state.used >= self._state.limit
        self._state.limit = self._availability.capacity.at(now_ns)
        if was_full and self._state.used < self._state.limit:
            self._state.capacity_freed_ns = now_ns
        self._preemptor.withdraw_surplus(TRANSACTIONAL, self._state.surplus)
        return True

    def contracts(
        self, groups: Iterable[dict[str, JobView]], victim_jobs: VictimJobs, now_ns: int
    ) -> Iterator[Contract]:
        """Ask for the containers that it lacks, of the jobs of one group after another."""
        lacking, view = self.shortfall, self._state.view(now_ns)
        for jobs in groups if lacking > 0 else ():
            while jobs and lacking > 0:
                contracts = victim_jobs.choose(TRANSACTIONAL, tuple(jobs.values()), jobs, view, lacking)
                yield from contracts
                lacking -= len(contracts)

    @property
    def shortfall(self) -> int:
        """Containers of the surplus that have not been asked for yet."""
        surplus = self._state.surplus
        if not surplus:
            return 0
        ending = sum(
            self._state.on_slot(held) and (held.job not in self._state.applications or self._is_being_killed(held))
            for held in self._state.containers.values()
        )
        return surplus - ending - len(self._preemptor.reclaims.get(TRANSACTIONAL, ()))

    def _is_being_killed(self, held: HeldContainer) -> bool:
        return held.group is not MASTER_GROUP and held.id in self._orders

    def freed(self, former_owner: str, now_ns: int) -> None:
        """A container has become free: if there is, or was until now, a surplus, it is withheld."""
        if self._state.used == self._state.limit - 1:
            self._state.capacity_freed_ns = now_ns
        if self._state.used >= self._state.limit:
            self._preemptor.allocated(TRANSACTIONAL, former_owner, self._state.surplus)
