"""The tutorial's commands, run as they are written there, from an empty directory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.wheels import REPOSITORY, environment_with, installed_wheel

BOUND_S = 240


def commands() -> list[str]:
    """The indented lines of the page."""
    return re.findall(r"^    (\S.*)$", (REPOSITORY / "docs" / "tutorial.md").read_text(), re.MULTILINE)


@pytest.mark.timeout(BOUND_S)
@pytest.mark.parametrize("source", ["checkout", pytest.param("wheel", marks=pytest.mark.slow)])
def test_the_commands_run_as_written(source: str, tmp_path: Path) -> None:
    importable = REPOSITORY if source == "checkout" else installed_wheel(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands())],
        cwd=empty,
        env=environment_with(importable, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Choose " in done.stdout
    mine = empty / "mine"
    for made in ("live/output", "compared/compare.png", "both.html", "campaign/campaign.parquet", "advice/advise.png"):
        assert (mine / made).exists(), made


def test_there_are_ten() -> None:
    page = (REPOSITORY / "docs" / "tutorial.md").read_text()
    assert re.findall(r"^\*\*(\d+)\.", page, re.MULTILINE) == [str(number) for number in range(1, 11)]
    assert len([command for command in commands() if command.startswith("natjam ")]) == 10
