"""The message form between node host, supervisor and tasks: msgpack values one after the other."""

from __future__ import annotations

import msgpack


def pack(message: object) -> bytes:
    """One message as bytes.

    Raises TypeError for types that msgpack does not know, OverflowError beyond 64 bits.
    """
    packed = msgpack.packb(message)
    assert packed is not None  # only a packer without automatic reset gives none
    return packed
