"""The journal of a live run while it grows: brings the hosts' records into one order and writes them to disk.

Theory of operation
-------------------
A few times a second, every host hands over its machines' new records, and says up to what time they are complete.
Before the earliest of these times no more records can come.  So all records before it are sorted, written, and brought
to the disk at once.  If the driver is killed, only the records since it last asked, and the few it held back, are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from emulator.engine import RecordSink
from emulator.records.journal import Record, decode_record, merge


class JournalStream:
    """Takes the records of a run's hosts, and passes them to a sink in the order of a journal."""

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self._held: list[Record] = []
        self._counts: Counter[str] = Counter()
        """Number of records taken from each actor."""
        self._until_ns: dict[str, int] = {}
        """For each living host: it has handed over all its records before this time."""

    def take(self, host: str, lines: Iterable[bytes], until_ns: int) -> list[bytes]:
        """Take a host's encoded records since the last call; it will have no further record before ``until_ns``.

        A host that replaces another one first sends its whole journal.  Returns the lines that are new.
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
        """A host has died: no more records will come from it."""
        self._until_ns.pop(host, None)

    def write_settled(self) -> None:
        """Write all records before the time after which others may still come.  Raises JournalError."""
        settled_ns = min(self._until_ns.values(), default=0)
        in_order = merge(self._held)
        count = sum(record.t_ns < settled_ns for record in in_order)
        self._write(in_order[:count])
        self._held = in_order[count:]

    def write_all(self) -> None:
        """Write the remaining records at the end of the run.  Raises JournalError."""
        held, self._held = merge(self._held), []
        self._write(held)

    def _write(self, records: list[Record]) -> None:
        if records:
            self._sink.write(records)
            self._sink.flush()
