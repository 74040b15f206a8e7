"""The base class of all models of files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions (``"3"`` is not 3)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
