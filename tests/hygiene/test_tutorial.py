"""The tutorial's commands, run as they are written there by natjam from its wheel, in an empty directory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.hygiene.wheels import environment_with, installed_wheel
from tests.live_runs import REPOSITORY


def commands() -> list[str]:
    """The indented lines of the page."""
    return re.findall(r"^    (\S.*)$", (REPOSITORY / "docs" / "tutorial.md").read_text(), re.MULTILINE)


def test_the_commands_run_as_written(tmp_path: Path) -> None:
    site, empty = installed_wheel(tmp_path), tmp_path / "empty"
    empty.mkdir()
    where = f"{sys.executable} -c 'import emulator, natjam; print(emulator.__file__, natjam.__file__)'"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join([where, *commands()])],
        cwd=empty,
        env=environment_with(site, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[0] == f"{site}/emulator/__init__.py {site}/natjam/__init__.py"
    assert "Choose " in done.stdout
    mine = empty / "mine"
    for made in ("live/output", "compared/compare.png", "both.html", "campaign/campaign.parquet", "advice/advise.png"):
        assert (mine / made).exists(), made
