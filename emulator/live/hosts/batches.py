"""Batches of messages as bytes: all that one host sends another at a time, as one line of JSON.

Messages between machines have the form they have in a journal, and so have the hosts' own notes.  Nothing that comes
from a socket is ever unpickled.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from emulator.core.messages import Message
from emulator.errors import NatjamError
from emulator.files.json_values import decoded
from emulator.live.hosts.plan import Note

Batch: TypeAlias = list[tuple[str, Message | Note]]
"""Messages for the machines of one host: (address, message); the address ``HOST`` is the host itself."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Batch)


class BatchError(NatjamError):
    """Bytes that are not a batch; the message says what is wrong with them."""


def encode_batch(batch: Batch) -> bytes:
    """One line, without the newline."""
    return _encoder.encode(batch)


def decode_batch(line: bytes) -> Batch:
    """The batch in one line.  Raises BatchError for anything else."""
    return decoded(line, _decoder.decode, BatchError)
