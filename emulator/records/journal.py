"""The journal of a run: one record for every message that a machine handled, with the effects it returned.

Theory of operation
-------------------
A journal file is zstd-compressed JSON lines: a header, then records in the order they were written, then an end mark.
Read it with ``zstdcat journal.jsonl.zst | grep ...``.  A message or an effect is an object of its fields, the first of
them its type: ``{"type": "Launched", "container": ..., "cost": {...}}``; fields that have their default are left out.

A journal of *messages* leaves out the effects, which halves the work.  Machines are pure, so replay computes the
effects again (``emulator.records.replay.whole_records``).  The end mark of such a journal has the SHA-256 of all
effects, in the form they have in a full journal.

The end mark has the number of records of each actor and the SHA-256 of all lines before it, with their newlines.  A
journal without an end mark is truncated.  If the end mark does not match, records were lost, altered or reordered after
the run.

Heartbeats that say nothing and change nothing are left out (see ``is_empty_heartbeat``).  Numbers of records (``seq``)
count written records only, for each actor.  So they show a gap, but do not depend on whether empty heartbeats were run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import msgspec
import zstandard

from emulator.core.effects import Effect, Send
from emulator.core.machine import IllegalTransition, StateMachine
from emulator.core.messages import (
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    Tick,
)
from emulator.errors import NatjamError
from emulator.files.json_values import decoded
from emulator.vocabulary import Details, Frozen

FORMAT_VERSION = 5
COMPRESSION_LEVEL = 1
"""On journals it compresses as well as the next two levels, which take longer."""
CHUNK_BYTES = 1 << 10
"""Compressed bytes read at a time: if they are made to unpack to very much, then to 32 MiB."""
MAX_LINE_BYTES = 64 * 2**20
"""No record is so long."""
_BATCH_RECORDS = 4096
"""This many are encoded and compressed at a time."""
_Line = TypeVar("_Line")
Kept = Literal["full", "messages"]
"""The fields of a record in a journal: all, or all but its effects."""


class JournalError(NatjamError):
    """A journal cannot be read; the message names file and line if they are known."""


class EffectsDiffer(JournalError):
    """Fresh machines answer the messages of a journal with other effects than in its run."""


class Record(Frozen):
    """One message handled by one machine."""

    t_ns: int
    """Emulated time at which the machine handled it."""
    seq: int
    """Number of the record among the records of its actor, from 0."""
    actor: str
    """Address of the machine: ``rm``, ``client``, ``nm:<node>``, ``am:<job>``."""
    message: Message
    effects: tuple[Effect, ...] = ()


class JournalHeader(Frozen):
    """First line of a journal: where it comes from."""

    engine: str
    seed: int
    time_scale: float
    config_sha256: str
    """Hash of the resolved experiment (``RunDirectory.write_experiment``)."""
    versions: dict[str, str]
    journal: Kept = "full"
    """Whether its records include their effects."""


class JournalEnd(Frozen):
    """Last line of a journal: what the lines before it must contain."""

    natjam_journal_end: dict[str, int]
    """Number of records of each actor."""
    sha256: str
    effects_sha256: str | None = None
    """The SHA-256 of the effects of all records, if the journal leaves them out."""


def encode_effects(of_records: Sequence[tuple[Effect, ...]]) -> bytes:
    """The effects of some records, in the form of which a journal of messages has the SHA-256."""
    return _encoder.encode_lines(of_records)


def encode_record(record: Record) -> bytes:
    """One line of a journal, without its newline."""
    return _encoder.encode(record)


def decode_record(line: bytes) -> Record:
    """The record of one line.  Raises JournalError, which says what is wrong."""
    return decoded(line, _decoder(Record).decode, JournalError)


@cache
def _decoder(kind: type[_Line]) -> msgspec.json.Decoder[_Line]:
    """Made when it is needed: it takes longer than to write the journal of a short run."""
    return msgspec.json.Decoder(kind, dec_hook=_details)


def _details(_: type, given: Any) -> Details:
    from emulator.sites.details import read_details  # here, because few journals have any

    return read_details(given)


_encoder = msgspec.json.Encoder()
_ACTOR = attrgetter("actor")
_END_BEGINS = b'{"natjam_journal_end":'


# ---- files ----


class JournalWriter:
    """Writes a journal file as a stream, in the order of the calls; a context manager.

    Every method raises JournalError if the file cannot be written.
    """

    def __init__(self, path: Path, header: JournalHeader) -> None:
        """Create ``path``, overwriting an existing file, and write the header."""
        self._path = path
        self._records: list[Record] = []
        """Records that are not encoded yet."""
        self._digest = hashlib.sha256()
        self._effects = hashlib.sha256() if header.journal == "messages" else None
        self._counts: Counter[str] = Counter()
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL, write_checksum=True).compressobj()
        with self._errors_named():
            self._file = path.open("wb")
        self._write_lines([{"natjam_journal": FORMAT_VERSION, **msgspec.to_builtins(header)}])

    def write(self, *records: Record) -> None:
        """Append records."""
        self._records += records
        if len(self._records) >= _BATCH_RECORDS:
            self._write_records()

    def _write_records(self) -> None:
        records = self._records
        self._counts.update(map(_ACTOR, records))
        if self._effects is None:
            self._write_lines(records)
        else:
            self._effects.update(encode_effects([record.effects for record in records]))
            self._write_lines([Record(record.t_ns, record.seq, record.actor, record.message) for record in records])
        records.clear()

    def _write_lines(self, values: Sequence[object]) -> None:
        lines = _encoder.encode_lines(values)
        self._digest.update(lines)
        compressed = self._compressor.compress(lines)
        if compressed:
            with self._errors_named():
                self._file.write(compressed)

    def flush(self) -> None:
        """Write everything so far to the file, where it can be read even if this process dies."""
        self._write_records()
        with self._errors_named():
            self._file.write(self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            self._file.flush()

    def close(self) -> None:
        """End the file; further calls do nothing.  Without it the file counts as truncated."""
        if not self._file.closed:
            with self._errors_named(), self._file:
                self._write_records()
                effects_sha256 = self._effects.hexdigest() if self._effects else None
                self._write_lines([JournalEnd(dict(self._counts), self._digest.hexdigest(), effects_sha256)])
                self._file.write(self._compressor.flush())

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {error.strerror}") from None

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path, made: hashlib._Hash | None = None) -> tuple[JournalHeader, Iterator[Record]]:
    """The header of a journal, and its records, read lazily.

    Args:
        path: of the journal.
        made: for a journal of messages, a SHA-256: the caller adds the effects of each record to it
            (``encode_effects``) before it asks for the next.  At the end it must be that of the run; if not,
            EffectsDiffer is raised.

    Raises:
        JournalError: there is no such file, or a line is wrong; the error names it.  A truncated file yields its whole
            records first and then raises.  So does a file whose end mark does not match its records.
    """
    lines = _read_lines(path)
    first = next(lines, None)
    if first is None:
        raise JournalError(f"{path}: empty; expected a header line")
    try:
        header = decoded(first, _versioned_header, JournalError)
    except JournalError as error:
        raise JournalError(f"{path}: line 1: {error}") from None
    return header, _read_records(path, first, lines, made if header.journal == "messages" else None)


def _versioned_header(line: bytes) -> JournalHeader:
    value = msgspec.json.decode(line)
    if type(value) is not dict or "natjam_journal" not in value:
        raise JournalError("not the header of a natjam journal (field 'natjam_journal' is missing)")
    version = value.pop("natjam_journal")
    if version != FORMAT_VERSION:
        raise JournalError(f"natjam_journal: this release reads version {FORMAT_VERSION}, found {version!r:.60}")
    return msgspec.convert(value, JournalHeader)


def _read_records(path: Path, header: bytes, lines: Iterator[bytes], made: hashlib._Hash | None) -> Iterator[Record]:
    digest, counts, number = hashlib.sha256(header + b"\n"), Counter[str](), 1
    for number, line in enumerate(lines, start=2):
        try:
            if line.startswith(_END_BEGINS):
                end = decoded(line, _decoder(JournalEnd).decode, JournalError)
                _check_end(end, counts, digest.hexdigest())
                break
            record = decode_record(line)
        except JournalError as error:
            raise JournalError(f"{path}: line {number}: {error}") from None
        digest.update(line)
        digest.update(b"\n")
        counts[record.actor] += 1
        yield record
    else:
        raise JournalError(f"{path}: line {number + 1}: the end mark is missing: the journal is truncated")
    if next(lines, None) is not None:
        raise JournalError(f"{path}: line {number + 1}: there is more data after the end of the journal")
    if made is not None and made.hexdigest() != end.effects_sha256:
        raise EffectsDiffer(
            f"{path}: its messages have other effects now than in the run; only a run with sim.journal: full can show"
            " which ones"
        )


def _check_end(end: JournalEnd, counts: Counter[str], sha256: str) -> None:
    expected = end.natjam_journal_end
    for actor in sorted({*expected, *counts}):
        if (found := counts[actor]) != (wanted := expected.get(actor, 0)):
            raise JournalError(f"the journal has {found} records of {actor}, but {wanted} were written")
    if end.sha256 != sha256:
        raise JournalError("records of the journal were altered or reordered after it was written")


def _read_lines(path: Path) -> Iterator[bytes]:
    """Lines of a compressed file.  For a broken file, raises JournalError after the last good line, naming the next."""
    count, rest = 0, b""
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            while not frame.eof and (chunk := file.read(CHUNK_BYTES)):
                *whole, rest = (rest + frame.decompress(chunk)).split(b"\n")
                count += len(whole)
                yield from whole
                if len(rest) > MAX_LINE_BYTES:
                    raise JournalError(f"{path}: line {count + 1}: is too long for a record")
            trailing = frame.unused_data or file.read(1)
    except zstandard.ZstdError as error:
        raise JournalError(f"{path}: line {count + 1}: the compressed data is broken: {error}") from None
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
    if not frame.eof or rest:
        raise JournalError(f"{path}: line {count + 1}: the file is truncated")
    if trailing:
        raise JournalError(f"{path}: line {count + 1}: there is more data after the end of the journal")


# ---- which records are written, and their order ----


def merge(records: Iterable[Record]) -> list[Record]:
    """Records of many actors, sorted by time, then actor, then number."""
    return sorted(records, key=lambda record: (record.t_ns, record.actor, record.seq))


_HEARTBEATS = (NodeHeartbeat, ApplicationHeartbeat, NodeHeartbeatResponse, ApplicationHeartbeatResponse)
_MAY_BE_EMPTY = (Tick, *_HEARTBEATS)


def is_empty_heartbeat(message: Message, effects: Iterable[Effect], revision_before: int, revision_after: int) -> bool:
    """Whether a message and its effects can be left out: a journal without them replays the same.

    True if the machine's ``revision`` did not change, the message is a tick, a heartbeat or the response to one, and
    every effect is a heartbeat or a response that says nothing.
    """
    if revision_before != revision_after or type(message) not in _MAY_BE_EMPTY:
        return False
    for effect in effects:
        if not (type(effect) is Send and isinstance(effect.message, _HEARTBEATS) and effect.message.is_empty):
            return False
    return True


_LAST_RECORDS = 4
"""An error of a machine shows at least this many of its last messages."""


class Recorder:
    """Runs one machine, and passes every record to be kept to ``sink``; both engines use it."""

    def __init__(self, machine: StateMachine, sink: Callable[[Record], None]) -> None:
        self.machine = machine
        self.seq = 0
        """Number of the next record."""
        self._sink = sink
        self._last: list[Record] = []

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Let the machine handle ``message``; return its effects.

        Exceptions of the machine pass through, without a record.  An IllegalTransition gets the last messages added.
        """
        machine = self.machine
        revision = machine.revision
        try:
            effects = machine.handle(message, now_ns)
        except IllegalTransition as error:
            raise IllegalTransition(f"{error}; {self._history(message, now_ns)}") from error
        if machine.revision != revision or not is_empty_heartbeat(message, effects, revision, revision):
            record = Record(now_ns, self.seq, machine.address, message, tuple(effects))
            self._sink(record)
            self.seq += 1
            last = self._last
            last.append(record)
            if len(last) == 2 * _LAST_RECORDS:
                del last[:_LAST_RECORDS]  # a list, because there are many machines, and a deque takes 0.6 kB
        return effects

    def _history(self, message: Message, now_ns: int) -> str:
        """The message that could not be handled, and the last recorded ones before it."""
        told = [f"{record.t_ns / 1e9:.3f} s {_summary(record.message)}" for record in self._last]
        before = f"after {', '.join(told)}" if told else "its first message"
        return f"{self.machine.address} at {now_ns / 1e9:.3f} s on {_summary(message)}, {before}"


def _summary(message: Message) -> str:
    """A message in short: its type, and the container or job it is about."""
    report = getattr(message, "report", None)
    about = getattr(message if report is None else report, "container", None) or getattr(message, "name", None)
    state = "" if report is None else f" {report.state.value}"
    return type(message).__name__ + (f"({about}{state})" if about else "")


_MARK_BEGINS = b'{"natjam_journal'
"""The beginning of the header and of the end mark."""


class JournalTail:
    """Reads on where it stopped the last time.  Checks less than ``read_journal``: there is no end mark yet."""

    def __init__(self, path: Path) -> None:
        """Begin at the beginning of ``path``.  Raises JournalError."""
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._rest = b""

    def news(self) -> list[Record]:
        """The records written since the last call.  Raises JournalError."""
        try:
            records: list[Record] = []
            while not self._frame.eof and (chunk := self._file.read(CHUNK_BYTES)):
                *lines, self._rest = (self._rest + self._frame.decompress(chunk)).split(b"\n")
                records += [decode_record(line) for line in lines if not line.startswith(_MARK_BEGINS)]
                if len(self._rest) > MAX_LINE_BYTES:
                    raise JournalError("a line is too long for a record")
            return records
        except (OSError, zstandard.ZstdError, JournalError) as error:
            raise JournalError(f"{self._path}: cannot be read: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
