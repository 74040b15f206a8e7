"""What cannot happen is told with what came before it."""

from __future__ import annotations

import pytest
from simulated import SECOND_NS, make_settings

from emulator.core.completions import Exited, Launched, RealCost, Resumed
from emulator.core.machine import IllegalTransition
from emulator.core.messages import Start, StartContainer
from emulator.core.node_manager.node_manager import NodeManager
from emulator.records.journal import Record, Recorder
from emulator.vocabulary import REDUCE


def test_an_illegal_transition_says_machine_state_event_and_the_last_records() -> None:
    settings = make_settings()
    records: list[Record] = []
    recorder = Recorder(NodeManager(settings.nodes[0], settings), records.append)
    recorder.handle(Start(), 0)
    for number in range(9):  # older ones are not told
        recorder.handle(StartContainer(f"c{number}", "a", REDUCE, number, f"a/r00{number}.0", 0), number * SECOND_NS)
    recorder.handle(Launched("c0", RealCost(1)), 10 * SECOND_NS)
    with pytest.raises(IllegalTransition) as caught:
        recorder.handle(Resumed("c0", RealCost(1)), 11 * SECOND_NS)
    told = str(caught.value)
    assert "Container c0: no arc for Resumed in running" in told
    assert "nm:node-1 at 11.000 s on Resumed(c0), after" in told
    assert "10.000 s Launched(c0)" in told
    assert "8.000 s StartContainer(c8)" in told
    assert "0.000 s StartContainer(c0)" not in told
    assert len(records) == 11
    recorder.handle(Exited("c0", 0, None, 3), 12 * SECOND_NS)  # nothing had been changed
    assert len(records) == 12
