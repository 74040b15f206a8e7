"""The pages build, every page is in the menu, and the commands and files that they name are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from emulator.cli.main import app
from emulator.experiment.catalog import PREFIX, located

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
COMMANDS: Any = get_command(app)
_CALL = re.compile(r"^    (?:.*&& )?natjam ([a-z]+)(?: ([a-z]+))?(.*?)(?:  +#.*)?$", re.MULTILINE)


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    assert all((tmp_path / "site" / page.stem / "index.html").exists() for page in PAGES[1:] if page.stem != "index")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"`((?:emulator|workloads|analysis|tests|docs)/[\w./-]*\w)`", text):
        assert (REPOSITORY / path).exists(), path
    for name in re.findall(rf"{PREFIX}[\w-]+", text):
        assert located(name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_of_a_page_are_there(page: Path) -> None:
    for name, second, rest in _CALL.findall(page.read_text()):
        command = COMMANDS.commands[name]
        if second in getattr(command, "commands", {}):
            command = command.commands[second]
        known = {option for parameter in command.params for option in parameter.opts}
        given = rest.split(" -- ")[0]
        assert set(re.findall(r"(?<= )--[a-z-]+", given)) <= known, (name, rest)
