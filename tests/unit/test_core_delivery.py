"""What is void, and what must be delivered again: commands that are not needed, and map outputs of nodes that died."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.application_master.map_outputs import MapOutputLedger
from emulator.core.delivery import CommandLedger
from emulator.core.messages import (
    ContainerReport,
    ContainerState,
    KillContainer,
    StartContainer,
    SuspendContainer,
)
from emulator.vocabulary import REDUCE, Mechanism


def test_a_newer_command_is_the_one_that_is_repeated() -> None:
    ledger, kill = CommandLedger(4), KillContainer("c1", "job", "why")
    ledger.send("c1", "node", SuspendContainer("c1", Mechanism.SUSPEND, 0), 0)
    ledger.send("c1", "node", kill, 3)
    assert ledger.repeat(6) == []
    assert [again.message for again in ledger.repeat(7)] == [kill]


def test_a_command_that_its_node_is_at_is_repeated_less_and_less_often() -> None:
    """A restore takes hours; that its end is told may be lost, so the command is not forgotten."""
    start = StartContainer("c1", "job", REDUCE, 0, "attempt", 0)
    launching = ContainerReport("c1", "job", REDUCE, "node", 1, ContainerState.LAUNCHING)
    ledger = CommandLedger(4)
    ledger.send("c1", "node", start, 0)
    repeated_ns: list[int] = []
    for now_ns in range(100):
        if ledger.repeat(now_ns):
            repeated_ns.append(now_ns)
            if now_ns >= 8:  # the node has not had it before
                ledger.acknowledge(launching)
    assert repeated_ns == [4, 8, 12, 20, 36, 68]
    assert ledger.due_ns == 132
    ledger.acknowledge(replace(launching, revision=2, state=ContainerState.RUNNING))
    assert ledger.due_ns is None


def told(version_of: int = 1) -> MapOutputLedger:
    """Outputs that are complete for that time, and of which node-1 was told at 0."""
    outputs = MapOutputLedger("job", 4)
    for _ in range(version_of):
        outputs.complete(("node-9",))
    assert len(outputs.notify("node-1", 0)) == 1
    assert outputs.notify("node-1", 0) == []
    return outputs


def test_a_node_that_is_there_again_is_told_again_and_its_earlier_receipt_does_not_count() -> None:
    outputs = told()
    outputs.registered("node-1", 7)
    assert len(outputs.notify("node-1", 10)) == 1
    outputs.received("node-1", 1, 0)
    assert outputs.due_ns == 14
    outputs.received("node-1", 1, 7)
    assert outputs.due_ns is None


def test_what_a_lost_node_has_not_acknowledged_is_void() -> None:
    outputs = told()
    outputs.forget_node("node-1")
    assert (outputs.due_ns, list(outputs.repeat(100))) == (None, [])
