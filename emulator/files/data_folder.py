"""The folder for what natjam has measured or fetched on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """``natjam`` below ``XDG_DATA_HOME`` (``~/.local/share`` if not set).  It may not exist."""
    data_home = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(data_home) if os.path.isabs(data_home) else _home() / ".local" / "share"
    return base / "natjam"


def _home() -> Path:
    """The user's home directory; the top one for a user without HOME and without an entry in the list of users.

    Only root can write there, so nobody can leave a program or costs for that user.
    """
    home = os.path.expanduser("~")
    return Path(home if os.path.isabs(home) else "/")
