"""Kubernetes' times, such as ``2026-01-31T12:00:00Z``."""

from __future__ import annotations

from datetime import UTC, datetime

from emulator.vocabulary import SECOND_NS


def time_ns(text: str) -> int | None:
    """Nanoseconds since 1970, in whole seconds; None for no text.

    Raises ValueError, which does not repeat the text.
    """
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return int(when.timestamp()) * SECOND_NS
    except (ValueError, OverflowError):
        raise ValueError("is not a time such as 2026-01-31T12:00:00Z") from None
