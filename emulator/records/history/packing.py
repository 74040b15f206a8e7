"""Values packed and compressed, to be kept in little memory until they are asked for."""

from __future__ import annotations

import msgspec
import zstandard

pack = msgspec.msgpack.Encoder().encode
_compress = zstandard.ZstdCompressor(level=1).compress
decompress = zstandard.ZstdDecompressor().decompress


def compressed(value: object) -> bytes:
    """The value, packed and compressed; ``decompress`` gives what ``pack`` would."""
    # A copy, because the library's own result keeps all the memory that the worst case would have needed.
    return bytes(memoryview(_compress(pack(value))))
