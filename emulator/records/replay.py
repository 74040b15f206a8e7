"""Replay: feed a journal to fresh machines, made from the experiment beside it, and check that they do the same again.

Machines are pure.  So the same messages at the same times must give the same effects, whichever engine wrote the
journal.  A difference means another configuration, another version of the code, or an impure machine.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from emulator.core.effects import Effect
from emulator.core.machine import StateMachine
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.records.journal import EffectsDiffer, JournalError, Record, encode_effects, read_journal
from emulator.records.run_directory import EXPERIMENT_NAME, JOURNAL_NAME
from emulator.resolved import Resolved, make_machine, resolve
from emulator.vocabulary import Frozen


class Divergence(Frozen):
    """The first record that a fresh machine does not repeat."""

    number: int
    """Number of the record among all given records, from 1."""
    record: Record
    """The record, as it is in the journal."""
    got: tuple[Effect, ...] | None
    """The effects that the fresh machine returned; None if it was not called, or raised."""
    problem: str
    """A description of the difference."""

    def __str__(self) -> str:
        of = self.record
        place = f"record {self.number} ({of.actor}, seq {of.seq}, at {of.t_ns / 1e9:.9f} s)"
        return f"{place}: {self.problem}\n  message  {of.message}"


def with_effects(records: Iterable[Record], make_machine: Callable[[str], StateMachine]) -> Iterator[Record]:
    """Records of a journal of messages, with the effects that fresh machines return.

    Raises JournalError if a machine raises anything.
    """
    machines: dict[str, StateMachine] = {}
    for record in records:
        try:
            if record.actor not in machines:
                machines[record.actor] = make_machine(record.actor)
            effects = tuple(machines[record.actor].handle(record.message, record.t_ns))
        except Exception as error:
            raise JournalError(f"{record.actor}, seq {record.seq}: raised {type(error).__name__}: {error}") from error
        yield Record(record.t_ns, record.seq, record.actor, record.message, effects)


def replay(
    records: Iterable[Record], make_machine: Callable[[str], StateMachine], made: hashlib._Hash | None = None
) -> Divergence | None:
    """The first difference between a journal and the effects of fresh machines for its messages, or None.

    Args:
        records: in an order that keeps the order of each actor.
        make_machine: makes the machine of an address, as the run did.  Any exception it raises counts as a difference
            (the configuration does not have this actor).
        made: gets the effects of records that have no effects to compare with; see ``read_journal``.
    """
    machines: dict[str, StateMachine] = {}
    next_seq: dict[str, int] = {}
    for number, record in enumerate(records, start=1):
        expected_seq = next_seq.get(record.actor, 0)
        if record.seq != expected_seq:
            return Divergence(number, record, None, f"expected seq {expected_seq}: records of this actor are missing")
        next_seq[record.actor] = expected_seq + 1
        try:
            if record.actor not in machines:
                machines[record.actor] = make_machine(record.actor)
            got = tuple(machines[record.actor].handle(record.message, record.t_ns))
        except Exception as error:
            return Divergence(number, record, None, f"raised {type(error).__name__}: {error}")
        if made is not None:
            made.update(encode_effects([got]))
        elif got != record.effects:
            return Divergence(number, record, got, _first_unequal(record.effects, got))
    return None


def _first_unequal(expected: tuple[Effect, ...], got: tuple[Effect, ...]) -> str:
    for place, (one, other) in enumerate(zip_longest(expected, got), start=1):
        if one != other:
            return f"effect {place} differs\n  expected {one or 'none'}\n  got      {other or 'none'}"
    raise AssertionError("equal effects do not differ")


class Replayed(Frozen):
    """The result of replaying one journal."""

    journal: Path
    records: int
    """Records of the journal; replay stops at the first difference."""
    machines: int
    difference: Divergence | None


def journals_of(path: Path) -> list[Path]:
    """The journals at a path: the file itself, the journal of a run directory, or those of its repeats.

    Raises:
        ConfigError: there is none.
    """
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory; name a journal or a run directory")
    if path.is_file():
        return [path]
    if (path / JOURNAL_NAME).is_file():
        return [path / JOURNAL_NAME]
    found = sorted(path.glob(f"repeat-*/{JOURNAL_NAME}"))
    if not found:
        raise ConfigError(f"{path}: has no {JOURNAL_NAME}; name the directory of a finished run with a journal")
    return found


def replay_journal(journal: Path) -> Replayed:
    """Feed a journal to fresh machines made from ``experiment.yaml`` beside it.

    Raises:
        ConfigError: journal or experiment cannot be read, or the journal was not made from that experiment.
        RunError: it is a journal of messages, and their effects are different now.
    """
    beside = journal.parent / EXPERIMENT_NAME
    try:
        made = hashlib.sha256()
        header, records = read_journal(journal, made)
        run = resolve(load_experiment(beside))
        if run.experiment.engine == "fluid":
            raise ConfigError(f"{journal}: is of a fluid run, which has no machines to replay")
        if hashlib.sha256(beside.read_bytes()).hexdigest() != header.config_sha256:  # the hash of the file's bytes
            raise ConfigError(
                f"{journal}: was not made from {beside}: the hash of the experiment in its header differs; "
                "replay a journal beside the experiment.yaml that its run wrote"
            )
        counts: Counter[str] = Counter()
        """Number of records read of each machine."""

        def counted_as_read() -> Iterator[Record]:
            for record in records:
                counts[record.actor] += 1
                yield record

        counted = counted_as_read()
        make = partial(make_machine, settings=run.settings, jobs=run.jobs_by_name)
        difference = replay(counted, make, made if header.journal == "messages" else None)
        with contextlib.suppress(EffectsDiffer):
            deque(counted, maxlen=0)  # read to the end: a broken journal is reported before a difference in it
    except EffectsDiffer as error:
        raise RunError(error.message) from None
    except JournalError as error:
        raise ConfigError(error.message) from None
    return Replayed(journal, counts.total(), len(counts), difference)


def whole_records(journal: Path, run: Resolved) -> Iterator[Record]:
    """Records of the journal of ``run`` with their effects.  Fresh machines make those that the journal left out.

    Raises JournalError.
    """
    header, records = read_journal(journal)
    if header.journal == "full":
        return records
    return with_effects(records, partial(make_machine, settings=run.settings, jobs=run.jobs_by_name))
