"""Replaying the journal of a run directory, with machines made from the experiment beside it."""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from emulator.assemble import make_machine
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.records.journal import EffectsDiffer, EffectsDigest, JournalError, Record, read_journal
from emulator.records.replay import Divergence, replay, with_effects
from emulator.records.run_directory import EXPERIMENT_NAME, JOURNAL_NAME
from emulator.resolved import Resolved, resolve
from emulator.vocabulary import Frozen


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
        made = EffectsDigest()
        header, records = read_journal(journal, made)
        run = resolve(load_experiment(beside))
        if run.engine == "fluid":
            raise ConfigError(f"{journal}: is of a fluid run, which has no machines to replay")
        if hashlib.sha256(beside.read_bytes()).hexdigest() != header.config_sha256:  # the hash of the file's bytes
            raise ConfigError(
                f"{journal}: was not made from {beside}: the hash of the experiment in its header differs; "
                "replay a journal beside the experiment.yaml that its run wrote"
            )
        count = _Count()
        counted = count.each(records)
        make = partial(make_machine, settings=run.settings, jobs=run.jobs_by_name)
        difference = replay(counted, make, made if header.journal == "messages" else None)
        with contextlib.suppress(EffectsDiffer):
            deque(counted, maxlen=0)  # read to the end: a broken journal is reported before a difference in it
    except EffectsDiffer as error:
        raise RunError(error.message) from None
    except JournalError as error:
        raise ConfigError(error.message) from None
    return Replayed(journal, count.records, len(count.actors), difference)


def whole_records(journal: Path, run: Resolved) -> Iterator[Record]:
    """Records of the journal of ``run`` with their effects.  Fresh machines make those that the journal left out.

    Raises JournalError.
    """
    header, records = read_journal(journal)
    if header.journal == "full":
        return records
    return with_effects(records, partial(make_machine, settings=run.settings, jobs=run.jobs_by_name))


class _Count:
    """Counts records and their machines while they are read."""

    def __init__(self) -> None:
        self.records = 0
        self.actors: set[str] = set()

    def each(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            self.records += 1
            self.actors.add(record.actor)
            yield record
