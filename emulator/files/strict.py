"""The base class of all models of files, and what a name may be in all of them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NAME_RULE = "1 to 80 printable characters"
LONGEST_FILE_NAME = 200
"""Most bytes of a job's name, quoted for the file system, which allows 255 with our suffixes."""


def is_name(text: str) -> bool:
    """Whether a job, a queue or a task of a trace may be called that: it appears in tables, on terminals and pages."""
    return 0 < len(text) <= 80 and text.isprintable()


def _checked(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"a name must be {NAME_RULE}")
    return text


Name = Annotated[str, AfterValidator(_checked)]


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions (``"3"`` is not 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


PATTERN_WORDS: dict[str, str] = {}
"""By regular expression of a field: what its text must have, in words, for messages."""


def written_as(pattern: str, words: str, most_characters: int | None = None) -> Any:
    """The constraint of a text that must match ``pattern``; ``words`` complete the message "must have ..."."""
    PATTERN_WORDS[pattern] = words
    return Field(pattern=pattern, max_length=most_characters)
