"""The folder that natjam keeps what it has measured or fetched on this machine in."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """``natjam`` below ``XDG_DATA_HOME``, which is ``~/.local/share`` where it is not set; need not exist."""
    data_home = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(data_home) if os.path.isabs(data_home) else Path.home() / ".local" / "share"
    return base / "natjam"
