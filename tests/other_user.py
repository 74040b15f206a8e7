"""What another user of this machine could reach."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def reached_by_another_user(directory: Path) -> list[str]:
    """What below ``directory`` another user can see at all, knowing its name, without the entries of ``directory``."""
    directory.chmod(0o755)
    files = [str(path) for path in directory.glob("*/**/*")]
    assert files, "there is nothing to protect"
    command = ["stat", "--format=%A %n", *files]
    seen = subprocess.run(command, user=_NOBODY, group=_NOBODY, extra_groups=[], capture_output=True, text=True)
    assert seen.returncode in (0, 1), seen.stderr
    return seen.stdout.splitlines()
