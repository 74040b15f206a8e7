"""What the ResourceManager does unasked under ``protocol.news: at-once``.

Theory of operation
-------------------
In heartbeats, it answers.  At once, it offers every free container whenever something has changed, orders kills, and
sends an ApplicationMaster its news in a response to no heartbeat.  The numbers of these news are those of
answers (``emulator.core.resource_manager.master_news``): the next are sent when the last have been heard, which the
ApplicationMaster says at once, and periodic heartbeats repeat what was lost.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.core.effects import Effect, Send
from emulator.core.messages import ApplicationHeartbeatResponse
from emulator.core.resource_manager.allocation import Allocation, Asked, Occasion
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Contracts

Ask = Callable[[Asked], "list[Effect] | None"]
"""Asks the allocation and carries out what it decides; None: nothing has changed."""


class Notifier:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self, state: ClusterState, contracts: Contracts, allocation: Allocation) -> None:
        self._state = state
        self._contracts = contracts
        self._allocation = allocation

    def notify(self, ask: Ask, now_ns: int) -> list[Effect]:
        """What is offered, ordered and sent after a message that has changed something.  Raises PolicyError."""
        effects, attention = self._offer(ask, now_ns), self._state.attention
        for address in dict.fromkeys(attention.newly_awaited):
            role, name = address[:3], address[3:]
            if role == "nm:":
                effects += self._contracts.kills_on(self._state.nodes[name], now_ns) or ()
                continue
            application = self._state.applications.get(name)
            if application is not None and application.news.can_be_sent:
                answer = self._contracts.answer(application, application.news.heard_id)
                effects.append(Send(address, ApplicationHeartbeatResponse(application.last_heartbeat_id, answer)))
        return effects

    def _offer(self, ask: Ask, now_ns: int) -> list[Effect]:
        """Offer the containers of every free node, in the order in which they came free."""
        effects: list[Effect] = []
        attention, has_given = self._state.attention, False
        if not attention.awaited and self._allocation.asked_ns(Occasion.HEARTBEAT, now_ns) != now_ns:
            return effects
        for name in list(self._state.free_nodes):
            node = self._state.nodes[name]
            is_due = self._allocation.asked_ns(Occasion.HEARTBEAT, now_ns) == now_ns
            if (not is_due or node.address in attention.too_small) and node.address not in attention.awaited:
                continue
            attention.arrived(node.address)
            given = ask(Asked(Occasion.HEARTBEAT, now_ns, node))
            has_given |= given is not None
            effects += given or ()
        if has_given:
            attention.changed_after_refusals()
        return effects
