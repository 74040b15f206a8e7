"""The journal of a run that is going on is read as it grows, each record once."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from emulator.core.messages import Start
from emulator.records.journal import JournalError, JournalHeader, JournalTail, JournalWriter, Record
from tests.damage import damaged

HEADER = JournalHeader("live", 1, 1.0, "00" * 32, {})


def records(first: int, count: int) -> list[Record]:
    return [Record(seq, seq, "rm", Start(f"container-{seq:06d}")) for seq in range(first, first + count)]


def test_each_record_comes_once_when_it_has_been_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with JournalWriter(path, HEADER) as writer, contextlib.closing(JournalTail(path)) as tail:
        assert tail.news() == []
        for first in (0, 3):
            for record in records(first, 3):
                writer.write(record)
            writer.flush()
            assert tail.news() == records(first, 3)
            assert tail.news() == []
        for record in records(6, 10_000):
            writer.write(record)
        path.rename(tmp_path / "of a run that is over")
        writer.close()
        assert tail.news() == records(6, 10_000)
        assert tail.news() == []


def test_what_is_written_in_part_is_waited_for(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    with JournalWriter(whole, HEADER) as writer:
        for record in records(0, 20):
            writer.write(record)
            writer.flush()
    found = []
    with part.open("wb") as file, contextlib.closing(JournalTail(part)) as tail:
        for byte in whole.read_bytes():
            file.write(bytes([byte]))
            file.flush()
            found += tail.news()
    assert found == records(0, 20)


def test_a_damaged_journal_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with JournalWriter(path, HEADER) as writer:
        for record in records(0, 20):
            writer.write(record)
    whole, said = path.read_bytes(), []
    for seed in range(100):
        path.write_bytes(damaged(random.Random(seed), whole))
        with contextlib.closing(JournalTail(path)) as tail:
            try:
                assert all(isinstance(record, Record) for record in tail.news())
            except JournalError as error:
                said.append(str(error))
    assert len(said) > 20
    assert all(text.startswith(f"{path}: cannot be read: ") for text in said)
    with pytest.raises(JournalError, match="nowhere: cannot be read"):
        JournalTail(tmp_path / "nowhere")
