"""The journal of a live run as it grows: the hosts' records put into one order, and on the disk.

Theory of operation
-------------------
Every host hands over a few times a second what its machines have recorded, and says up to which instant that is all.
Before the earliest of these instants nothing is to come any more: what is known of that time is sorted and written,
and brought to the disk at once.  Should the driver be killed, what is lost is what came up since it last asked, and the
little that it held back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from emulator.engine import RecordSink
from emulator.records.journal import Record, decode_record, merge


class JournalStream:
    """Takes the records of the hosts of a run and hands them to a sink in the order of a journal."""

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self._held: list[Record] = []
        self._counts: Counter[str] = Counter()
        """Records of each actor that have been taken."""
        self._until_ns: dict[str, int] = {}
        """Of each living host: it has told all before this instant."""

    def take(self, host: str, lines: Iterable[bytes], until_ns: int) -> list[bytes]:
        """A host's records since it was last asked, encoded; more of before ``until_ns`` it will never have.

        One that has been replaced begins with all that it has kept; those that are new are returned.
        """
        news: list[bytes] = []
        for line in lines:
            record = decode_record(line)
            if record.seq >= self._counts[record.actor]:
                self._counts[record.actor] = record.seq + 1
                self._held.append(record)
                news.append(line)
        self._until_ns[host] = until_ns
        return news

    def forget(self, host: str) -> None:
        """A host has died: nothing is to come from it."""
        self._until_ns.pop(host, None)

    def write_settled(self) -> None:
        """Write all before which nothing is to come any more.  Raises JournalError."""
        settled_ns = min(self._until_ns.values(), default=0)
        in_order = merge(self._held)
        count = sum(record.t_ns < settled_ns for record in in_order)
        self._write(in_order[:count])
        self._held = in_order[count:]

    def write_all(self) -> None:
        """Write what is left: the run is at its end.  Raises JournalError."""
        held, self._held = merge(self._held), []
        self._write(held)

    def _write(self, records: list[Record]) -> None:
        for record in records:
            self._sink.write(record)
        if records:
            self._sink.flush()
