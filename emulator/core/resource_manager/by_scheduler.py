"""Allocation by a scheduler that chooses the nodes: Kueue, kube-scheduler, Slurm, YARN, or a process outside.

Theory of operation
-------------------
All speak one protocol (``emulator.policies.schedulers.protocol``).  Whenever anything has changed, the scheduler is
notified of it, and answers what follows at once.  When its answer holds no longer, it decides, after all else that
happens at that instant: a timer brings that time.  What it has decided it is notified of next; if a container
that it has given has come and gone by then, and nothing else has happened, it decides anew.  One that decides nothing
many times in a row, and wants to be asked again at once, is asked after a short time.

YARN's asks for the heartbeats of nodes too, because it gives containers then: those of nodes with something free, as
long as anything is requested, and those of nodes that it names.

A process outside is asked a question instead, by an effect; its answer comes later, as a message.  One question is open
at a time; what happens meanwhile is in the next.  A decision that could be carried out as far as the process knew, but
that something it was not notified of has overtaken, is void: it changes nothing, and the process is notified of that.
Any other decision that cannot be carried out ends the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.core.completions import ExternalDecisions
from emulator.core.decisions import PolicyError
from emulator.core.effects import AskExternalScheduler, Effect
from emulator.core.machine import Timers
from emulator.core.messages import TimerFired, node_address
from emulator.core.resource_manager.allocation import Decision, SchedulerEvent, SchedulerEventType
from emulator.core.resource_manager.applications import Node
from emulator.core.resource_manager.checked_decisions import CheckedDecisions, InvalidDecisionError
from emulator.core.resource_manager.events import Events, first_event
from emulator.core.resource_manager.offers import Components
from emulator.policies.policy import LEAST_WAIT_NS, SchedulerAllocation
from emulator.policies.schedulers.protocol import (
    Answer,
    DecisionRejected,
    Event,
    ExternalScheduler,
    GrantContainer,
    NodeHeartbeat,
    Question,
    Scheduler,
    SchedulerDecision,
    SchedulerError,
    shown,
)

_TIMER = "ask the scheduler"
"""For the time until which its answer holds."""
_MAX_NO_OP_ANSWERS = 100
"""More than a scheduler needs that looks again after short times; time would hardly pass for one that never ends."""


class ByScheduler:
    """An ``Allocation`` by a scheduler of the protocol (see the module's theory of operation)."""

    def __init__(self, parts: Components) -> None:
        allocation = parts.settings.scheduler.allocation
        assert isinstance(allocation, SchedulerAllocation)
        self.changes = 0
        self._name = allocation.name
        self._scheduler: Scheduler = allocation.function()
        self._first = first_event(parts.settings)
        self._state = parts.state
        self._events = Events(parts.state, parts.settings.scheduler.may_take)
        self._decisions = CheckedDecisions(parts)
        self._timers = Timers()
        self._is_due = False
        """Whether its answer holds no longer."""
        self._was_notified = False
        """Whether its last answer is to events; else it was asked because it was due."""
        self._has_given = False
        """Whether its last answer gave containers, of which it was not notified yet."""
        self._to_notify: list[Event] = [self._first]
        """What it is notified of next, before what has happened since."""
        self._until_ns: int | None = None
        """The time until which its last answer holds."""
        self._hears_nodes = False
        """Whether it is to be notified of the heartbeats of nodes."""
        self._question: int | None = None
        """The one that is open."""
        self._answer: ExternalDecisions | None = None
        """To the open question."""
        self._effects: list[Effect] = []
        self._no_op_answers = 0
        """Answers in a row that have decided nothing though it was its own time, and name one that is as near."""

    # ---- an allocation ----

    def due_ns(self, event_type: SchedulerEventType, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        if event_type is SchedulerEventType.HEARTBEAT and self._hears_nodes and self._state.free_nodes:
            return self._state.awaited.free_node_ns(now_ns, len(self._state.free_nodes))
        return None if event_type in (SchedulerEventType.HEARTBEAT, SchedulerEventType.TIME) else now_ns

    def decide(self, event: SchedulerEvent) -> Iterator[Decision]:
        """See ``Allocation``.  It takes in its messages first: it is asked after every message, and then decides."""
        match event.message:
            case TimerFired() as fired:
                self._is_due |= self._timers.take(fired)
            case ExternalDecisions(question=question) as answer if question == self._question:
                self._answer = answer
        if event.type is SchedulerEventType.START:
            self._start(event.now_ns)
        elif event.node is not None and self._hears_nodes:
            return self._heartbeat(event.node, event.now_ns)
        elif event.message is None and self.due_ns(event.type, event.now_ns) is not None:
            return self._decide(event.now_ns)
        return iter(())

    def explain(self) -> list[Effect]:
        """See ``Allocation``; and its timer, and its question."""
        effects, self._effects = self._effects, []
        return effects

    # ---- the scheduler ----

    def _start(self, now_ns: int) -> None:
        """The ResourceManager was away, and its timers with it."""
        self.changes += 1
        if self._scheduler.outlives_restarts:
            self._effects += self._timers.again(now_ns)
        else:
            self._events, self._question = self._events.restarted(), None
            self._to_notify = [self._first]

    def _decide(self, now_ns: int) -> Iterator[Decision]:
        if self._answer is not None:
            yield from self._answered(self._answer, now_ns)
        if self._question is not None:
            return
        events, self._to_notify = [*self._to_notify, *self._events.take()], []
        if not events and not self._is_due and not self._has_given:
            return
        self._is_due = self._has_given = False
        try:
            answer = self._scheduler.notify(events, now_ns) if events else self._scheduler.decide(now_ns)
        except SchedulerError as error:
            raise self._error(error) from None
        if isinstance(answer, Question):
            self.changes += 1
            self._question, self._was_notified = answer.number, bool(events)
            self._effects.append(AskExternalScheduler(answer.number, answer.events))
            return
        self._await_nodes(answer)
        if not answer.is_no_op:
            self._was_notified = bool(events)
            yield from self._carried_out(answer, (), now_ns)

    def _heartbeat(self, node: Node, now_ns: int) -> Iterator[Decision]:
        before = self.changes
        self._to_notify += [*self._events.take(), NodeHeartbeat(node.name)]
        yield from self._decide(now_ns)
        if self.changes == before and node.is_free:
            self._state.awaited.refused_one_node(node.address, None)

    def _answered(self, reply: ExternalDecisions, now_ns: int) -> Iterator[Decision]:
        """A process has answered the open question."""
        assert isinstance(self._scheduler, ExternalScheduler)
        overtaking = self._events.take()
        try:
            answer = self._scheduler.answered(reply.lines, reply.first_line, reply.again_ns)
        except SchedulerError as error:
            raise self._error(error) from None
        yield from self._carried_out(answer, overtaking, now_ns)
        self._to_notify += overtaking
        self._question = self._answer = None

    def _carried_out(self, answer: Answer, overtaking: Sequence[Event], now_ns: int) -> Iterator[Decision]:
        """Its decisions, each checked when the one before was carried out; ``overtaking``: what it did not know."""
        self.changes += 1
        unknown = {pair for event in overtaking for pair in _named_by(event)}
        self._has_given = any(isinstance(decision, GrantContainer) for decision in answer.decisions)
        self._decisions.begin(answer.decisions)
        for place, decision in enumerate(answer.decisions):
            try:
                checked = self._decisions.checked(decision, now_ns)
                if checked is not None:
                    yield checked
            except InvalidDecisionError as error:
                if not unknown & self._decisions.concerns(decision):
                    what = shown(*answer.lines[place]) if answer.lines else str(decision)
                    raise self._error(f"{what}: {error}") from None
                self._to_notify.append(DecisionRejected(answer.lines[place][0], str(error)))
                continue
            self._effects += self._decisions.explained(decision)
        before_ns, self._until_ns = self._until_ns, answer.valid_until_ns
        if answer.valid_until_ns is None:
            self._no_op_answers = 0
            self._timers.forget(_TIMER)
        elif answer.heartbeats is None or before_ns != answer.valid_until_ns:
            until_ns = self._held_until_ns(answer.decisions, answer.valid_until_ns, now_ns)
            self._effects.append(self._timers.set(_TIMER, until_ns, is_last=True))

    def _held_until_ns(self, decisions: Sequence[SchedulerDecision], until_ns: int, now_ns: int) -> int:
        """When it decides again.  After many times in a row at which it decides nothing, no sooner than after
        ``LEAST_WAIT_NS``: time would stand still for a scheduler that always wants to be asked at once."""
        soonest_ns = now_ns + LEAST_WAIT_NS
        if decisions or until_ns >= soonest_ns:
            self._no_op_answers = 0
        elif not self._was_notified:
            self._no_op_answers += 1
        return soonest_ns if self._no_op_answers > _MAX_NO_OP_ANSWERS else max(now_ns, until_ns)

    def _await_nodes(self, answer: Answer) -> None:
        """It is notified of these heartbeats from now on."""
        self._hears_nodes = answer.heartbeats is not None
        for node in answer.heartbeats or ():
            self._state.awaited.expect(node_address(node))

    def _error(self, why: object) -> PolicyError:
        return PolicyError(f"allocation {self._name}: {why}")


def _named_by(event: Event) -> Iterator[tuple[str, str]]:
    for what in ("job", "node", "container"):
        name = getattr(event, what, None)
        if name is not None:
            yield what, name
