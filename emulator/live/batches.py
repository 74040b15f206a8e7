"""Batches of messages as bytes: what one host sends another at a time, a line of JSON.

Messages of machines look as in a journal (``emulator.journal_codec``), the hosts' own notes likewise; nothing that
comes from a socket is ever unpickled.
"""

from __future__ import annotations

from typing import Any

import orjson

from emulator.core.messages import Message
from emulator.errors import NatjamError
from emulator.journal_codec import MESSAGE_TYPES, Decoder, Mismatch, dataclass_decoder
from emulator.live.plan import NOTE_TYPES, Note

Batch = list[tuple[str, Message | Note]]
"""Messages for the machines of one host: (address, message); the address ``HOST`` is the host itself."""

_DECODERS: dict[str, Decoder] = {name: dataclass_decoder(cls) for name, cls in (MESSAGE_TYPES | NOTE_TYPES).items()}


class BatchError(NatjamError):
    """Bytes that are no batch; says what is wrong with them."""


def encode_batch(batch: Batch) -> bytes:
    """One line, without its newline."""
    return orjson.dumps([(address, type(message).__name__, message) for address, message in batch])


def decode_batch(line: bytes) -> Batch:
    """The batch of one line.  Raises BatchError for anything else."""
    try:
        return [_decode_item(item) for item in _list(orjson.loads(line))]
    except orjson.JSONDecodeError as error:
        raise BatchError(f"not JSON: {error}") from None
    except Mismatch as error:
        raise BatchError(str(error)) from None


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Mismatch(f"expected a list, found {type(value).__name__}")
    return value


def _decode_item(item: Any) -> tuple[str, Message | Note]:
    parts = _list(item)
    if len(parts) != 3 or type(parts[0]) is not str:
        raise Mismatch("expected an address, a type and a message")
    decode = _DECODERS.get(parts[1]) if type(parts[1]) is str else None
    if decode is None:
        raise Mismatch("no such type of message")
    return parts[0], decode(parts[2])
