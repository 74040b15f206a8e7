"""The clock of the players: what happens at an instant, and in which order."""

from __future__ import annotations

from functools import partial

from emulator.policies.agenda import Agenda


def test_events_happen_by_time_then_order_then_as_they_were_added() -> None:
    agenda, happened = Agenda(), list[tuple[int, str]]()

    def happens(name: str) -> None:
        happened.append((agenda.now_ns, name))

    def goes_on() -> None:
        happens("first")
        agenda.add(5, 1, partial(happens, "added meanwhile"))

    agenda.add(9, 0, partial(happens, "last"))
    agenda.add(5, 2, partial(happens, "third"))
    agenda.add(5, 0, goes_on)
    agenda.add(5, 2, partial(happens, "fourth"))
    agenda.go_on()
    assert happened == [(5, "first"), (5, "added meanwhile"), (5, "third"), (5, "fourth")]
    assert agenda
    agenda.go_on()
    assert happened[4:] == [(9, "last")]
    assert not agenda


def test_named_events_tell_how_far_they_are() -> None:
    agenda = Agenda()
    for at_ns, order, what in ((3, 0, ""), (7, 1, "later"), (7, 0, "wake"), (5, 1, "soon"), (5, 1, "")):
        agenda.add(at_ns, order, lambda: None, what)
    agenda.go_on()
    assert list(agenda.to_come()) == [(2, "soon"), (4, "wake"), (4, "later")]
