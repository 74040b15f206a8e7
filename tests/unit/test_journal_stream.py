"""A live run's journal grows in order, and is on the disk as far as nothing older can come."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.messages import Start
from emulator.engine import Records
from emulator.live.hosts.host_reports import JournalStream
from emulator.records.journal import (
    JournalError,
    JournalHeader,
    JournalWriter,
    Record,
    encode_record,
    merge,
    read_journal,
)

HEADER = JournalHeader("live", 1, 1.0, "00" * 32, {})


class Sink(Records):
    """Keeps what it was given, and how much of it was brought to the disk."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.flushed = 0
        super().__init__(self.records.extend)

    def flush(self) -> None:
        self.flushed = len(self.records)


def record(t_ns: int, actor: str = "rm", seq: int = 0) -> Record:
    return Record(t_ns, seq, actor, Start(), ())


def take(stream: JournalStream, host: str, until_ns: int, *records: Record) -> None:
    stream.take(host, [encode_record(each) for each in records], until_ns)


def test_what_may_still_be_preceded_is_held_back() -> None:
    sink = Sink()
    stream = JournalStream(sink)
    take(stream, "a", 10, record(9), record(3, "nm:n"))
    take(stream, "b", 5, record(4, "client"))
    stream.write_settled()
    assert [each.t_ns for each in sink.records] == [3, 4]
    take(stream, "b", 9, record(5, "client", 1), record(8, "client", 2))
    stream.write_settled()
    assert [each.t_ns for each in sink.records] == [3, 4, 5, 8]
    assert sink.flushed == 4


def test_a_host_that_died_holds_nothing_back_and_the_end_nothing_at_all() -> None:
    sink = Sink()
    stream = JournalStream(sink)
    take(stream, "a", 10, record(9))
    take(stream, "b", 5)
    stream.forget("b")
    stream.write_settled()
    assert [each.t_ns for each in sink.records] == [9]
    take(stream, "a", 20, record(22, seq=1), record(25, seq=2))
    stream.write_all()
    assert [each.t_ns for each in sink.records] == [9, 22, 25]
    assert sink.flushed == 3


def test_a_host_that_replaces_one_repeats_what_is_known_and_adds_what_was_not_told() -> None:
    sink = Sink()
    stream = JournalStream(sink)
    take(stream, "a", 10, record(3), record(9, seq=1))
    take(stream, "a", 30, record(3), record(9, seq=1), record(12, seq=2))
    stream.write_all()
    assert [each.t_ns for each in sink.records] == [3, 9, 12]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=40), st.lists(st.integers(0, 30)))
def test_however_it_comes_it_is_written_in_the_order_of_a_journal(
    happened: list[tuple[int, str]], asked_ns: list[int]
) -> None:
    sink = Sink()
    stream = JournalStream(sink)
    records = merge(record(t_ns, actor, seq) for seq, (t_ns, actor) in enumerate(sorted(happened)))
    before_ns = 0
    for now_ns in [*sorted(asked_ns), 31]:
        for skew_ns, host in enumerate("cba"):  # one is asked after the other
            until_ns = now_ns - skew_ns
            since_ns = max(0, before_ns - skew_ns)
            mine = [each for each in records if each.actor == host and since_ns <= each.t_ns < until_ns]
            take(stream, host, until_ns, *mine)
        stream.write_settled()
        assert sink.records == records[: len(sink.records)]
        assert all(each.t_ns < now_ns for each in sink.records)
        before_ns = now_ns
    for skew_ns, host in enumerate("cba"):
        take(stream, host, 40, *(each for each in records if each.actor == host and each.t_ns >= 31 - skew_ns))
    stream.write_all()
    assert sink.records == records


def test_what_was_flushed_can_be_read_while_the_file_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    records = [record(t_ns, seq=t_ns) for t_ns in range(200)]
    with JournalWriter(path, HEADER) as writer:
        for each in records:
            writer.write(each)
            if each.t_ns % 50 == 49:
                writer.flush()
                assert _readable(path) == records[: each.t_ns + 1]
    header, read = read_journal(path)
    assert (header, list(read)) == (HEADER, records)


def _readable(path: Path) -> list[Record]:
    found: list[Record] = []
    _, records = read_journal(path)
    with pytest.raises(JournalError, match="truncated"):
        found.extend(records)
    return found
