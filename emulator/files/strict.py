"""The base class of all models of files."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions (``"3"`` is not 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


PATTERN_WORDS: dict[str, str] = {}
"""By regular expression of a field: what its text must have, in words, for messages."""


def written_as(pattern: str, words: str, most_characters: int | None = None) -> Any:
    """The constraint of a text that must match ``pattern``; ``words`` complete the message "must have ..."."""
    PATTERN_WORDS[pattern] = words
    return Field(pattern=pattern, max_length=most_characters)
