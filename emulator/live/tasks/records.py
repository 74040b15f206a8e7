"""Intermediate files: what a map writes for the reduces, and the merged input of one reduce.

A record is ``key length, value length`` (two big-endian u32), the key and the value.  A map writes two files, like
Hadoop.  ``file.out`` holds the partitions one after the other, each sorted by key.  ``file.out.index`` gives for each
partition ``r`` its offset, its number of records and its CRC-32.  The index is renamed into place last, so a map output
is complete if its index exists.  A reduce merges its partition of every map into one file of the same records, followed
by the offset of each key's first record and a footer; a file with a footer is complete.

None of this is synced to the disk: as in Hadoop, intermediate files do not outlive their machine.
"""

from __future__ import annotations

import heapq
import itertools
import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from emulator.storage.local import atomic_file, job_directory_name

Record = tuple[bytes, bytes]

MAXIMUM_KEY_BYTES = 1 << 16
MAXIMUM_VALUE_BYTES = 1 << 20
DATA_NAME = "file.out"
INDEX_NAME = "file.out.index"

_RECORD = struct.Struct(">II")
_INDEX_HEADER = struct.Struct(">8sI")
_INDEX_ENTRY = struct.Struct(">QQII")
_INDEX_MAGIC = b"NJMINDX1"
_CRC = struct.Struct(">I")
_FOOTER = struct.Struct(">QQQI8s")
_FOOTER_MAGIC = b"NJMINPT1"
_BLOCK_BYTES = 1 << 18
_MAXIMUM_PARTITIONS = 1 << 20


class RecordError(Exception):
    """An intermediate file that is damaged or not one of ours; the message names the file and the problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"intermediate file {path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of a map output's index."""

    offset: int
    length: int
    records: int
    crc32: int


def map_directory(work_directory: str, job: str, map_index: int) -> str:
    """Directory where a node keeps the output of one map."""
    return os.path.join(work_directory, "map", job_directory_name(job), str(map_index))


def input_path(work_directory: str, job: str, reduce_index: int) -> str:
    """Path where a node keeps the merged input of one reduce."""
    return os.path.join(work_directory, "local", job_directory_name(job), str(reduce_index))


def write_map_output(
    directory: str,
    partitions: Iterable[Iterable[Record]],
    before_publishing: Callable[[], None] = lambda: None,
) -> list[Partition]:
    """Write one map's output into ``directory``; returns its index.

    Each of ``partitions`` gives the records of one reduce, sorted by key.  ``before_publishing`` is called when all is
    written, no file is open and nothing is visible yet (a map waits there for the end of its duration).  Raises
    OSError, and ValueError for records that are too large or not in order.
    """
    index: list[Partition] = []
    path = os.path.join(directory, DATA_NAME)
    with atomic_file(path, durable=False, before_publishing=before_publishing) as file:
        offset = 0
        for records in partitions:
            partition = _write_partition(file.write, records, offset)
            offset += partition.length
            index.append(partition)
    packed = _INDEX_HEADER.pack(_INDEX_MAGIC, len(index))
    packed += b"".join(_INDEX_ENTRY.pack(p.offset, p.length, p.records, p.crc32) for p in index)
    with atomic_file(os.path.join(directory, INDEX_NAME), durable=False) as file:
        file.write(packed + _CRC.pack(zlib.crc32(packed)))
    return index


def _write_partition(write: Callable[[bytes], object], records: Iterable[Record], offset: int) -> Partition:
    length = count = crc = 0
    previous = b""
    pending: list[bytes] = []
    size = 0
    for key, value in records:
        if key < previous:
            raise ValueError(f"key {key!r} comes after {previous!r}")
        previous = key
        pending += (_pack_lengths(key, value), key, value)
        size += _RECORD.size + len(key) + len(value)
        count += 1
        if size >= _BLOCK_BYTES:
            block = b"".join(pending)
            write(block)
            crc, length, size = zlib.crc32(block, crc), length + size, 0
            pending.clear()
    block = b"".join(pending)
    write(block)
    return Partition(offset, length + size, count, zlib.crc32(block, crc))


def _pack_lengths(key: bytes, value: bytes) -> bytes:
    if len(key) > MAXIMUM_KEY_BYTES or len(value) > MAXIMUM_VALUE_BYTES:
        raise ValueError(f"record of {len(key)} and {len(value)} bytes is too large")
    return _RECORD.pack(len(key), len(value))


def partition_in(packed: bytes, number: int, path: str) -> Partition:
    """Partition ``number`` of an index, given as bytes; only this one is unpacked, as an index may have thousands.

    Raises :class:`RecordError` (naming ``path``) if the index is malformed, IndexError if it has no such partition.
    """
    if len(packed) < _INDEX_HEADER.size + _CRC.size:
        raise RecordError(path, f"an index of {len(packed)} bytes")
    magic, count = _INDEX_HEADER.unpack_from(packed)
    if magic != _INDEX_MAGIC:
        raise RecordError(path, "not an index")
    body = len(packed) - _CRC.size
    if count > _MAXIMUM_PARTITIONS or body != _INDEX_HEADER.size + count * _INDEX_ENTRY.size:
        raise RecordError(path, f"an index of {len(packed)} bytes cannot hold {count} partitions")
    if zlib.crc32(memoryview(packed)[:body]) != _CRC.unpack_from(packed, body)[0]:
        raise RecordError(path, "the index is damaged (CRC)")
    if not 0 <= number < count:
        raise IndexError(f"{path} has {count} partitions, none of number {number}")
    return Partition(*_INDEX_ENTRY.unpack_from(packed, _INDEX_HEADER.size + number * _INDEX_ENTRY.size))


def partition_of(directory: str, number: int) -> Partition:
    """Partition ``number`` of the map output in ``directory``.  Raises FileNotFoundError while there is none,
    :class:`RecordError` if the index is damaged, IndexError if it has no such partition."""
    path = os.path.join(directory, INDEX_NAME)
    with open(path, "rb", buffering=0) as file:
        return partition_in(file.read(), number, path)


class PartitionSource:
    """A sorted partition in memory or in a file; can be iterated several times; checks its length and CRC."""

    def __init__(self, name: str, partition: Partition, read: Callable[[int, int], bytes]) -> None:
        """``read(size, offset)`` returns bytes like ``os.pread``; ``name`` is for messages."""
        self.name = name
        self.partition = partition
        self._read = read

    def __iter__(self) -> Iterator[Record]:
        """The records.  Raises :class:`RecordError` at the end, or before, if they differ from those written."""
        count = 0
        previous = b""
        for record in records_from(self._blocks(), self.name):
            if record[0] < previous:
                raise RecordError(self.name, "keys are not in order")
            previous = record[0]
            count += 1
            yield record
        if count != self.partition.records:
            raise RecordError(self.name, f"{count} records, the index says {self.partition.records}")

    def _blocks(self) -> Iterator[bytes]:
        position, end, crc = self.partition.offset, self.partition.offset + self.partition.length, 0
        while position < end:
            block = self._read(min(_BLOCK_BYTES, end - position), position)
            if not block:
                raise RecordError(self.name, f"ends {end - position} bytes too early")
            crc = zlib.crc32(block, crc)
            position += len(block)
            if position == end and crc != self.partition.crc32:
                raise RecordError(self.name, "the data is damaged (CRC)")
            yield block


def records_from(blocks: Iterable[bytes], name: str) -> Iterator[Record]:
    """Split consecutive blocks of bytes into records.  Raises :class:`RecordError` if they are malformed."""
    buffer = b""
    unpack, header = _RECORD.unpack_from, _RECORD.size
    for block in blocks:
        buffer = buffer + block if buffer else block
        position, size = 0, len(buffer)
        while size - position >= header:
            key_length, value_length = unpack(buffer, position)
            if key_length > MAXIMUM_KEY_BYTES or value_length > MAXIMUM_VALUE_BYTES:
                raise RecordError(name, f"a record of {key_length} and {value_length} bytes")
            value_at = position + header + key_length
            end = value_at + value_length
            if end > size:
                break
            yield buffer[position + header : value_at], buffer[value_at:end]
            position = end
        buffer = buffer[position:]
    if buffer:
        raise RecordError(name, "the last record is not complete")


def merge(sources: Sequence[Iterable[Record]], path: str) -> int:
    """Merge sorted sources, given in map order, into the reduce input ``path``; returns the number of keys.

    Equal keys come out in the order of the sources.  Memory holds one block of each source, and 8 bytes per key.
    Raises OSError, and what the sources raise; then nothing is left at ``path``.
    """
    offsets = array("Q")
    with atomic_file(path, durable=False) as file:
        length = count = 0
        last: bytes | None = None
        pending: list[bytes] = []
        # heapq.merge takes equal keys in the order of the iterables.
        for key, value in heapq.merge(*sources, key=itemgetter(0)):
            if key != last:
                offsets.append(length)
                last = key
            pending += (_pack_lengths(key, value), key, value)
            length += _RECORD.size + len(key) + len(value)
            count += 1
            if len(value) >= 4096 or not count % 256:
                file.write(b"".join(pending))
                pending.clear()
        pending.append(offsets.tobytes())
        pending.append(_FOOTER.pack(len(offsets), count, length, zlib.crc32(offsets), _FOOTER_MAGIC))
        file.write(b"".join(pending))
    return len(offsets)


class KeyReader:
    """Iterates over the keys of a merged reduce input: ``for key, values in reader``, values in map order.

    Holds one open file; :meth:`close` closes it between two keys, and the next step opens it again at the same place.
    """

    def __init__(self, path: str, skip: int = 0) -> None:
        """Open ``path`` after its first ``skip`` keys.  Raises OSError, :class:`RecordError` if the file is not
        complete, ValueError if it has fewer than ``skip`` keys."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._offsets, self._length = _read_footer(path, self._descriptor)
        except BaseException:
            self.close()
            raise
        self.keys = len(self._offsets)
        """Keys in the whole file, skipped ones included."""
        if skip > self.keys:
            self.close()
            raise ValueError(f"{path} has {self.keys} keys, {skip} to skip")
        self._next = skip

    def __iter__(self) -> Iterator[tuple[bytes, list[bytes]]]:
        return self

    def __next__(self) -> tuple[bytes, list[bytes]]:
        """The next key and its values.  Raises StopIteration, OSError, :class:`RecordError`."""
        if self._next >= self.keys:
            raise StopIteration
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        start = self._offsets[self._next]
        end = self._offsets[self._next + 1] if self._next + 1 < self.keys else self._length
        key, values = None, []
        for found, value in records_from(self._blocks(start, end), self.path):
            if key is not None and found != key:
                raise RecordError(self.path, f"two keys where key {self._next} should be")
            key = found
            values.append(value)
        if key is None:
            raise RecordError(self.path, f"no record where key {self._next} should be")
        self._next += 1
        return key, values

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _blocks(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            block = os.pread(self._descriptor, min(_BLOCK_BYTES, end - start), start)
            if not block:
                raise RecordError(self.path, "ends too early")
            start += len(block)
            yield block


def input_keys(path: str) -> int:
    """Number of keys of the reduce input ``path``.  Raises FileNotFoundError, :class:`RecordError` if it is not
    complete."""
    reader = KeyReader(path)
    reader.close()
    return reader.keys


def _read_footer(path: str, descriptor: int) -> tuple[array[int], int]:
    """Offsets of the keys, and the offset of the end of the records."""
    size = os.fstat(descriptor).st_size
    if size < _FOOTER.size:
        raise RecordError(path, f"a reduce input of {size} bytes")
    keys, count, length, crc, magic = _FOOTER.unpack(os.pread(descriptor, _FOOTER.size, size - _FOOTER.size))
    if magic != _FOOTER_MAGIC:
        raise RecordError(path, "not a complete reduce input")
    if length + keys * 8 + _FOOTER.size != size or count < keys or (not keys and length):
        raise RecordError(path, f"{size} bytes cannot hold {keys} keys in {count} records of {length} bytes")
    packed = os.pread(descriptor, keys * 8, length)
    if len(packed) != keys * 8 or zlib.crc32(packed) != crc:
        raise RecordError(path, "the offsets of the keys are damaged (CRC)")
    offsets = array("Q", packed)
    bounds = [*offsets, length]
    if bounds[0] != 0 or any(start >= end for start, end in itertools.pairwise(bounds)):
        raise RecordError(path, "the offsets of the keys are out of order")
    return offsets, length
