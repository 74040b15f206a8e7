"""The folder for what natjam has measured or fetched on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """``natjam`` below ``XDG_DATA_HOME`` (``~/.local/share`` if not set).  It may not exist."""
    data_home = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(data_home) if os.path.isabs(data_home) else Path.home() / ".local" / "share"
    return base / "natjam"
