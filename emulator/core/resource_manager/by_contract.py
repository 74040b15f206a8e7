"""The base of allocations that offer a node's free containers, and take back by contract once per period.

Theory of operation
-------------------
The heartbeat of a node with a free container is the occasion to give one.  The period of the Preemptor is the occasion
to take one back (natjam, section 3.2).  Containers for a transactional workload are asked for first
(``emulator.core.resource_manager.withholding``), then those that jobs lack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emulator.core.effects import Effect
from emulator.core.resource_manager.allocation import (
    Asked,
    Contract,
    Decision,
    Grant,
    NodeContract,
    Occasion,
    StrictContract,
)
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.offers import Offer, Offers
from emulator.core.resource_manager.preemptor import Preemptor
from emulator.core.resource_manager.victim_jobs import VictimJobs
from emulator.core.resource_manager.withholding import Withholding
from emulator.core.settings import Settings
from emulator.policies.views import JobView


class Parts(NamedTuple):
    """The parts of a ResourceManager that allocations look at."""

    settings: Settings
    state: ClusterState
    preemptor: Preemptor
    withholding: Withholding


class ByContract(ABC):
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        self._scheduler = parts.settings.scheduler
        self._preempts = self._scheduler.preempts
        self._state = parts.state
        self._preemptor = parts.preemptor
        self._withholding = parts.withholding
        self._offers = Offers(parts.settings, parts.state)
        self._victim_jobs = VictimJobs(parts.settings, parts.state, parts.preemptor)

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return self._offers.given_up + self._offers.gangs.explained

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if occasion is Occasion.HEARTBEAT:
            return self._offers.due_ns(now_ns)
        if occasion is not Occasion.TIME or not self._preempts:
            return None
        return now_ns if self._withholding.lacking > 0 else self._lack_due_ns(now_ns)

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if asked.node is not None:
            return self._offers.answer(asked.node, asked.now_ns, self._choose)
        return self._take_back(asked.now_ns) if asked.occasion is Occasion.TIME else iter(())

    def _take_back(self, now_ns: int) -> Iterator[Decision]:
        if self.asked_ns(Occasion.TIME, now_ns) != now_ns:
            return
        yield from self._withholding.contracts(self._givers(now_ns), self._victim_jobs, now_ns)
        if self._lack_due_ns(now_ns) == now_ns:
            yield from self._for_jobs(now_ns)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        return [*self._offers.gangs.explain(), *self._victim_jobs.explain()]

    def _givers(self, now_ns: int) -> Iterator[dict[str, JobView]]:
        """Groups of jobs with a task to give, in the order in which they must give to a transactional workload."""
        for queue in reversed(self._scheduler.queues):
            yield self._victim_jobs.among(self._state.queues.job_views(queue.name, now_ns))

    def _note_host(self, offer: Offer) -> None:
        """Not all jobs were asked: one of those left out may have a suspended task that waits for this very node."""
        offer.is_host = offer.is_host or self._offers.is_awaited(offer.node)

    @abstractmethod
    def _choose(self, offer: Offer) -> Sequence[Grant]:
        """The next request to get the container offered, or all requests of a gang."""

    @abstractmethod
    def _lack_due_ns(self, now_ns: int) -> int | None:
        """When a job may next take a container back; None: not until something changes."""

    @abstractmethod
    def _for_jobs(self, now_ns: int) -> Iterator[Contract | NodeContract | StrictContract]:
        """Ask for the containers that jobs lack.  Raises PolicyError."""
