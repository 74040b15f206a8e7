"""Queues whose requests reserve the room that they are too large for (YARN's CapacityScheduler).

Theory of operation
-------------------
Where containers have several sizes, a request may be too large for what is free of a node, although it would fit the
empty node.  Nodes that smaller requests share would never have room for it.  So, when a node is offered to a queue that
has no request which fits, the first that would fit beside the ApplicationMasters and the stopped processes there, which
both stay, reserves the room: what becomes free of the node is kept for it
(``emulator.core.resource_manager.reservations``).  As in YARN, there is one reservation on a node, a job has no more of
them than it has requests, and it gives the newest up when it gets a container elsewhere.  Where a gang holds the node,
nothing stays reserved: the two would wait for each other.  Unlike in YARN, others may use what is free of the node
beside it, and requests of saved tasks reserve nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

from emulator.core.resource_manager.allocation import Grant
from emulator.core.resource_manager.applications import Application, Node
from emulator.core.resource_manager.by_sized_queues import BySizedQueues
from emulator.core.resource_manager.offers import Offer
from emulator.policies.resources import fits, minus
from emulator.vocabulary import MASTER_GROUP, Resources, TaskGroup


class ReservingQueues(BySizedQueues):
    """See the module's theory of operation; an ``Allocation``."""

    def _is_too_small(self, node: Node) -> bool:
        """It may be reserved."""
        return False

    def _first_of(self, queue: str, resumes_first: bool, offer: Offer) -> Sequence[Grant]:
        grants = super()._first_of(queue, resumes_first, offer)
        if not grants and offer.hold is None:
            self._reserve(queue, offer)
        elif offer.is_held and any(each.node == offer.node.name for each in self._reservations.standing()):
            self._reservations.keep(lambda each: each.node != offer.node.name)
            offer.is_for_others = True
        return grants

    def _reserve(self, queue: str, offer: Offer) -> None:
        """Keep the node's room for the queue's first request that could have it, unless it is kept already."""
        node, standing = offer.node, list(self._reservations.standing())
        possible = self._can_become_free(node)
        here = next((each for each in standing if each.node == node.name), None)
        if here is not None and fits(here.request, possible):
            return
        if here is not None:  # an ApplicationMaster has come since, or a process was stopped
            self._reservations.keep(lambda each: each is not here)
            offer.is_for_others = True
        reserved = Counter((each.requester, each.group) for each in standing if each is not here)
        for application in self._state.waiting(queue, offer.view).jobs:
            for group, count in self._new(application):
                avoids = group is not MASTER_GROUP and node.name in application.requests.avoided
                short = count > reserved[application.name, group.name]
                if short and not avoids and fits(application.request_for(group), possible):
                    self._reservations.make(application, group, node.name, offer.view.now_ns)
                    offer.is_for_others = True
                    return

    def _can_become_free(self, node: Node) -> Resources:
        """What the node has without its ApplicationMasters and what stopped processes hold there."""
        masters = (
            held.request
            for held in self._state.containers.values()
            if held.node == node.name and held.group is MASTER_GROUP and self._state.on_slot(held)
        )
        return reduce(minus, masters, self._reservations.beside_stopped()[node.name])

    @staticmethod
    def _new(application: Application) -> Sequence[tuple[TaskGroup, int]]:
        """How many new containers it may get one by one now, by group, in the order in which it gets them."""
        requests = application.requests
        if requests.application_master is not None:
            return ((MASTER_GROUP, 1),)
        if requests.at_once or application.starts_whole:
            return ()
        groups = application.for_shuffle if application.maps_wait else application.others
        return [(group, len(requests.since[group.name])) for group in groups]
