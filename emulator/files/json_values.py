"""JSON from outside, checked by its decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from emulator.errors import NatjamError

DecodedT = TypeVar("DecodedT")


def decoded(data: bytes, decode: Callable[[bytes], DecodedT], wrong: type[NatjamError]) -> DecodedT:
    """``data`` decoded by a msgspec decoder.  Raises ``wrong``, with the reason, if it is not valid."""
    try:
        return decode(data)
    except msgspec.ValidationError as error:
        raise wrong(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"not JSON: {error}") from None
