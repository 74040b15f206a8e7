"""The attempt of each container, which the rows of decisions name: packed by job, because a large run has millions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

import msgspec
import zstandard

from emulator.records.history.rows import AttemptRow

pack = msgspec.msgpack.Encoder().encode
_compress = zstandard.ZstdCompressor(level=1).compress
decompress = zstandard.ZstdDecompressor().decompress


def compressed(value: object) -> bytes:
    """The value, packed and compressed; ``decompress`` gives what ``pack`` would."""
    # A copy, because the library's own result keeps all the memory that the worst case would have needed.
    return bytes(memoryview(_compress(pack(value))))


_UNPACKED_JOBS = 16
"""Decisions about one job often follow each other."""
_unpack = msgspec.msgpack.Decoder(dict[str, str]).decode


class AttemptNames:
    """The names of attempts (see the module's docstring)."""

    def __init__(self, attempts: Iterable[AttemptRow] = ()) -> None:
        """``attempts``: as for ``add``."""
        self._by_job: dict[str, bytes] = {}
        self._unpacked = lru_cache(_UNPACKED_JOBS)(self._unpack)
        self.add(attempts)

    def add(self, attempts: Iterable[AttemptRow]) -> None:
        """Add those of further jobs, each with all its attempts together."""
        for job, rows in groupby(attempts, attrgetter("job")):
            self._by_job[job] = compressed({row.container: row.attempt for row in rows})
        self._unpacked.cache_clear()

    def of(self, job: str) -> Mapping[str, str]:
        """By container of this job."""
        return self._unpacked(job)

    def _unpack(self, job: str) -> Mapping[str, str]:
        packed = self._by_job.get(job)
        return {} if packed is None else _unpack(decompress(packed))
