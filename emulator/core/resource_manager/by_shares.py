"""Allocation by shares: every job has a number of containers to hold (flex; reverse-adaptive).

Theory of operation
-------------------
The shares alone decide (``emulator.core.resource_manager.shares``).  First come ApplicationMasters, then the most
underallocated job; in that job first maps, then suspended tasks, then new reduces.  Jobs below their share take from
jobs above theirs, as long as no suitable container is free.  For a transactional workload, jobs that hold more than
their share give first.

A run that finds nothing to take back would find nothing again until a message or a contract changes something, the
shares are no longer valid, or a task has run for its job's minimum.  So it is not run until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from emulator.core.resource_manager.allocation import Asked, Contract, Decision, Grant, Occasion
from emulator.core.resource_manager.offers import ByContract, Offer, Parts
from emulator.core.resource_manager.shares import Instance, Shares
from emulator.core.resource_manager.victims import net_of
from emulator.policies.views import ClusterView, JobView
from emulator.vocabulary import Work


class ByShares(ByContract):
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._shares = Shares(parts.settings, parts.state)
        self._in_vain: tuple[int, int] | None = None
        """State of ResourceManager and Preemptor when nothing could be taken back."""
        self._holds_until_ns: int | None = None
        """When more may be taken back even if nothing changes, with the same shares."""

    @property
    def changes(self) -> int:
        """See ``Allocation``: each answer of the policy may change what is given from then on."""
        return super().changes + self._shares.asked

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if asked.occasion is Occasion.CAPACITY:
            self._shares.ask_again()
        return super().decide(asked)

    def _choose(self, offer: Offer) -> Sequence[Grant]:
        node = offer.node
        if node.has_free(Work.MASTER):
            for application in self._state.applications.values():
                master = self._offers.master_of(application, offer)
                if master is not None:
                    return (master,)
        for instance in self._shares.instances(offer.view.now_ns):
            if not node.has_free(instance.works[0]):
                offer.is_for_others = True
                continue
            offer.holds_until(instance.until_ns)
            for application in self._shares.served(instance):
                grant = self._offers.task_of(application, offer, instance.works)
                if grant is not None:
                    return (grant,)
        self._note_host(offer)  # a job without a share now may have one later
        return ()

    def _lack_due_ns(self, now_ns: int) -> int | None:
        # Also while containers are free: they may be for other tasks.
        if not self._state.queues.pending:
            return None
        if self._in_vain != self._stands:
            return now_ns
        until_ns = self._shares.until_ns
        return max(now_ns, until_ns if self._holds_until_ns is None else min(until_ns, self._holds_until_ns))

    @property
    def _stands(self) -> tuple[int, int]:
        return self._state.changes, self._preemptor.changes

    def _givers(self, now_ns: int) -> Iterator[dict[str, JobView]]:
        for instance in self._shares.instances(now_ns):
            yield self._above(instance, now_ns)
        yield from super()._givers(now_ns)

    def _for_jobs(self, now_ns: int) -> Iterator[Contract]:
        view, found = self._state.view(now_ns), False
        for instance in self._shares.instances(now_ns):
            for contract in self._surplus(instance, view):
                found = True
                yield contract
        if not found:
            self._in_vain, self._holds_until_ns = self._stands, self._state.next_victim_ns(now_ns)

    def _surplus(self, instance: Instance, view: ClusterView) -> Iterator[Contract]:
        """Ask jobs above their share for the containers that others lack of theirs, or need for a master."""
        if self._scheduler.victims.isdisjoint(instance.works):
            return
        state = self._state
        if state.used < state.limit and any(node.has_free(instance.works[0]) for node in state.nodes.values()):
            return
        surplus = self._above(instance, view.now_ns)
        applications = self._state.applications.values()
        masters = [each for each in applications if each.requests.application_master is not None]
        for application in [*masters, *instance.below(applications)]:
            requests = application.requests
            movable = min(requests.for_any_node, instance.wanted(application))
            lacking = 1 if application in masters else min(movable, instance.lacking(application))
            for _ in range(lacking - self._preemptor.outstanding(application.name)):
                if not surplus:
                    return
                yield from self._victim_jobs.choose(application.name, tuple(surplus.values()), surplus, view, 1)

    def _above(self, instance: Instance, now_ns: int) -> dict[str, JobView]:
        """Jobs that hold more than their share, each with its excess as the number it can give."""
        asked = self._preemptor.asked()
        found: dict[str, JobView] = {}
        for application in self._state.applications.values():
            above = min(-instance.lacking(application), application.reclaimable(now_ns)) - asked.get(
                application.name, 0
            )
            if above > 0:
                held = net_of(instance.source.view_of(application, now_ns), asked.get(application.name, 0))
                found[application.name] = replace(held, reclaimable=above)
        return found
