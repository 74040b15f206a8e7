"""The journal of a run that is going on: its records as they are written."""

from __future__ import annotations

from pathlib import Path

import zstandard

from emulator.records.journal import CHUNK_BYTES, MAX_LINE_BYTES, JournalError, Record, decode_record

_MARK_BEGINS = b'{"natjam_journal'
"""Of the header and of the end mark."""


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
