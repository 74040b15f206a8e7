"""What all machines have in common: revisions that grow by themselves."""

from __future__ import annotations

import pytest

from emulator.core.effects import Effect
from emulator.core.machine import IllegalTransition, StateMachine
from emulator.core.messages import Message, NodeLost, Start, Tick
from emulator.sim.kernel import Kernel


class Listener(StateMachine):
    """Takes note of its start; its ticks change nothing."""

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        return []

    def _tick(self, message: Tick, now_ns: int) -> list[Effect]:
        self.skip_journal()
        return []

    handlers = {Start: _start, Tick: _tick}  # noqa: RUF012


def test_a_revision_grows_with_every_message_that_does_not_say_otherwise() -> None:
    machine = Listener("somebody")
    messages: list[Message] = [Start(), Tick(1), Tick(2), Start(), Tick(3)]
    revisions = []
    for message in messages:
        assert machine.handle(message, 5) == []
        revisions.append(machine.revision)
    assert revisions == [1, 1, 1, 2, 2]


def test_a_message_for_somebody_else_is_refused_and_changes_nothing() -> None:
    machine = Listener("somebody")
    with pytest.raises(IllegalTransition, match="somebody: NodeLost is not for this machine"):
        machine.handle(NodeLost("node-1"), 5)
    assert machine.revision == 0


def test_what_comes_last_at_an_instant_comes_after_all_that_the_others_lead_to_and_before_the_next_beat() -> None:
    kernel, happened = Kernel(), list[str]()

    def event() -> None:
        happened.append("event")
        kernel.soon(lambda: happened.append("what it leads to"))

    def beat(name: str) -> None:
        happened.append(name)
        kernel.last(kernel.now_ns, lambda: happened.append(f"last after {name}"))
        kernel.soon(lambda: happened.append(f"of {name}"))

    kernel.heartbeat(5, 1, lambda: beat("beat 1"))
    kernel.heartbeat(5, 2, lambda: beat("beat 2"))
    kernel.last(5, lambda: happened.append("last"))
    kernel.at(5, event)
    kernel.at(6, kernel.stop)
    kernel.run(10)
    assert happened == [
        *("event", "what it leads to", "last"),
        *("beat 1", "of beat 1", "last after beat 1", "beat 2", "of beat 2", "last after beat 2"),
    ]
