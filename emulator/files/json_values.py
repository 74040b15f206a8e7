"""JSON from outside, of which only what its decoder allows will do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from emulator.errors import NatjamError

DecodedT = TypeVar("DecodedT")


def decoded(data: bytes, decode: Callable[[bytes], DecodedT], wrong: type[NatjamError]) -> DecodedT:
    """What a decoder of msgspec makes of ``data``; for anything else raises ``wrong``, saying what is wrong with it."""
    try:
        return decode(data)
    except msgspec.ValidationError as error:
        raise wrong(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"not JSON: {error}") from None
