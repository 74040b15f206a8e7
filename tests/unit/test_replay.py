"""Replay: the same machines repeat a journal; anything else is found and named."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.messages import Message, NodeHeartbeat, NodeHeartbeatResponse, Start, Tick
from emulator.records.journal import Record, Recorder
from emulator.records.replay import replay


class Metronome:
    """Sends a count each time it is started; its heartbeats say nothing."""

    def __init__(self, address: str, step: int = 1) -> None:
        self.address = address
        self.revision = 0
        self._step = step

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        if isinstance(message, NodeHeartbeat):
            raise ValueError("no heartbeats here")
        if isinstance(message, Start):
            self.revision += self._step
            return [Send("rm", Start(str(self.revision))), SetTimer("count", now_ns + 5, 0)]
        return []

    def validate_state(self) -> None:
        assert self.revision >= 0


def journal() -> list[Record]:
    records: list[Record] = []
    one, two = Recorder(Metronome("a"), records.append), Recorder(Metronome("b"), records.append)
    for now_ns in range(0, 40, 10):
        one.handle(Start(), now_ns)
        one.handle(Tick(now_ns + 5), now_ns + 5)
        two.handle(Start(), now_ns + 7)
    return records


def test_the_same_machines_repeat_a_journal_without_its_empty_heartbeats() -> None:
    assert len(journal()) == 8
    assert replay(journal(), Metronome) is None


def test_the_first_differing_effect_is_reported() -> None:
    difference = replay(journal(), lambda address: Metronome(address, step=1 if address == "a" else 2))
    assert difference is not None
    assert (difference.number, difference.actor, difference.seq, difference.t_ns) == (2, "b", 0, 7)
    assert difference.message == Start()
    assert difference.expected == (Send("rm", Start("1")), SetTimer("count", 12, 0))
    assert difference.got == (Send("rm", Start("2")), SetTimer("count", 12, 0))
    text = str(difference)
    assert "record 2 (b, seq 0, at 0.000000007 s): effect 1 differs" in text
    assert "expected Send(to='rm', message=Start(container='1'))" in text
    assert "got      Send(to='rm', message=Start(container='2'))" in text


def test_one_effect_too_few_and_one_too_many() -> None:
    records = journal()
    fewer = replay([replace(records[0], effects=records[0].effects[:1])], Metronome)
    assert fewer is not None
    assert "effect 2 differs\n  expected none\n  got      SetTimer" in fewer.problem
    more = replay([replace(records[0], effects=(*records[0].effects, SetTimer("x", 1, 1)))], Metronome)
    assert more is not None
    assert "effect 3 differs\n  expected SetTimer(name='x'" in more.problem


def test_what_a_machine_raises_is_a_difference() -> None:
    records = [*journal(), Record(50, 4, "a", NodeHeartbeat("n", 1), (Send("a", NodeHeartbeatResponse(1)),))]
    difference = replay(records, Metronome)
    assert difference is not None
    assert (difference.number, difference.got) == (9, None)
    assert difference.problem == "raised ValueError: no heartbeats here"


def test_an_actor_the_configuration_does_not_have_is_a_difference() -> None:
    def make(address: str) -> Metronome:
        raise KeyError(address)

    difference = replay(journal(), make)
    assert difference is not None
    assert difference.problem == "raised KeyError: 'a'"


def test_a_missing_record_is_a_difference() -> None:
    records = journal()
    del records[2]  # of actor a
    difference = replay(records, Metronome)
    assert difference is not None
    assert (difference.number, difference.actor, difference.seq) == (4, "a", 2)  # b's record comes in between
    assert difference.problem == "expected seq 1: records of this actor are missing"
