"""Replay: feed a journal to fresh machines and check that they do the same again.

Machines are pure.  So the same messages at the same times must give the same effects, whichever engine wrote the
journal.  A difference means another configuration, another version of the code, or an impure machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from emulator.core.effects import Effect
from emulator.core.machine import Machine
from emulator.core.messages import Message
from emulator.records.journal import EffectsDigest, JournalError, Record
from emulator.vocabulary import Frozen


class Divergence(Frozen):
    """The first record that a fresh machine does not repeat."""

    number: int
    """Number of the record among all given records, from 1."""
    actor: str
    seq: int
    t_ns: int
    message: Message
    expected: tuple[Effect, ...]
    """The effects in the journal."""
    got: tuple[Effect, ...] | None
    """The effects that the fresh machine returned; None if it was not called, or raised."""
    problem: str
    """A description of the difference."""

    def __str__(self) -> str:
        place = f"record {self.number} ({self.actor}, seq {self.seq}, at {self.t_ns / 1e9:.9f} s)"
        return f"{place}: {self.problem}\n  message  {self.message}"


def with_effects(records: Iterable[Record], make_machine: Callable[[str], Machine]) -> Iterator[Record]:
    """Records of a journal of messages, with the effects that fresh machines return.

    Raises JournalError if a machine raises anything.
    """
    machines: dict[str, Machine] = {}
    for record in records:
        try:
            if record.actor not in machines:
                machines[record.actor] = make_machine(record.actor)
            effects = tuple(machines[record.actor].handle(record.message, record.t_ns))
        except Exception as error:
            raise JournalError(f"{record.actor}, seq {record.seq}: raised {type(error).__name__}: {error}") from error
        yield Record(record.t_ns, record.seq, record.actor, record.message, effects)


def replay(
    records: Iterable[Record], make_machine: Callable[[str], Machine], made: EffectsDigest | None = None
) -> Divergence | None:
    """The first difference between a journal and the effects of fresh machines for its messages, or None.

    Args:
        records: in an order that keeps the order of each actor.
        make_machine: makes the machine of an address, as the run did.  Any exception it raises counts as a difference
            (the configuration does not have this actor).
        made: gets the effects of records that have no effects to compare with; see ``read_journal``.
    """
    machines: dict[str, Machine] = {}
    next_seq: dict[str, int] = {}
    for number, record in enumerate(records, start=1):
        expected_seq = next_seq.get(record.actor, 0)
        if record.seq != expected_seq:
            return _difference(number, record, None, f"expected seq {expected_seq}: records of this actor are missing")
        next_seq[record.actor] = expected_seq + 1
        try:
            if record.actor not in machines:
                machines[record.actor] = make_machine(record.actor)
            got = tuple(machines[record.actor].handle(record.message, record.t_ns))
        except Exception as error:
            return _difference(number, record, None, f"raised {type(error).__name__}: {error}")
        if made is not None:
            made.add([got])
        elif got != record.effects:
            return _difference(number, record, got, _first_unequal(record.effects, got))
    return None


def _difference(number: int, record: Record, got: tuple[Effect, ...] | None, problem: str) -> Divergence:
    return Divergence(number, record.actor, record.seq, record.t_ns, record.message, record.effects, got, problem)


def _first_unequal(expected: tuple[Effect, ...], got: tuple[Effect, ...]) -> str:
    for place, (one, other) in enumerate(zip_longest(expected, got), start=1):
        if one != other:
            return f"effect {place} differs\n  expected {one or 'none'}\n  got      {other or 'none'}"
    raise AssertionError("equal effects do not differ")
