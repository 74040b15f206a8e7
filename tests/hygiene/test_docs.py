"""The pages build, every page is in the menu, and the commands and files that they name are there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from emulator.cli.main import app
from emulator.experiment.catalog import PREFIX, located
from tests.commands import invoked

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
COMMANDS: Any = get_command(app)
_CALL = re.compile(r"^(?:    )?(?:\$ |\S*bin/|.*&& )?natjam ([a-z]+)(?: ([a-z]+))?(.*?)(?:  +#.*)?$", re.MULTILINE)


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    # Not --quiet: then mkdocs counts no warnings, and is not strict.
    built = subprocess.run(build, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    assert all((site / f"{page.stem}.html").exists() for page in PAGES[1:])
    for page in site.glob("*.html"):
        from_afar = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?:', page.read_text())
        assert not from_afar, f"{page} loads what is not in the site"
    labels = re.findall(r'<span class="md-ellipsis">\s*(.*?)\s*</span>', (site / "404.html").read_text(), re.DOTALL)
    assert len(labels) >= len(PAGES) - 1
    assert all(count == 1 for label, count in Counter(labels).items() if label != "natjam"), "two pages of one name"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"`((?:emulator|workloads|analysis|tests|docs)/[\w./-]*\w)`", text):
        assert (REPOSITORY / path).exists(), path
    for name in re.findall(rf"{PREFIX}[\w-]+", text):
        assert located(name).exists()


def commands_of(text: str) -> str:
    """The lines of a page that are commands: indented ones, and those between fences for a shell."""
    fenced = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return "\n".join(re.findall(r"^    \S.*$", text, re.MULTILINE)) + "\n" + fenced


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_of_a_page_are_there(page: Path) -> None:
    for name, second, rest in _CALL.findall(commands_of(page.read_text())):
        command = COMMANDS.commands[name]
        if second in getattr(command, "commands", {}):
            command = command.commands[second]
        known = {option for parameter in command.params for option in parameter.opts}
        given = rest.split(" -- ")[0]
        assert set(re.findall(r"(?<= )--[a-z-]+", given)) <= known, (name, rest)


@pytest.mark.parametrize(
    ("page", "program"), [("policy-fields", "policy_fields"), ("columns", "columns"), ("settings", "settings")]
)
def test_pages_that_are_made_from_the_source_are_up_to_date(page: str, program: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", f"import {program}; print({program}.page(), end='')"],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'docs'}:{REPOSITORY}"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert (REPOSITORY / f"docs/{page}.md").read_text() == made, f"run python docs/{program}.py"
    rows = [line.split(" | ") for line in made.splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert all(len(row) >= 3 and len(row[2]) > len("A. |") for row in rows if page != "settings"), "a field has no text"


def test_what_pages_say_of_reproductions_is_what_the_kept_runs_give() -> None:
    pages = "{str(path): text for path, text in reproductions.pages().items()}"
    shown = f"import json, reproductions; print(json.dumps({pages}))"
    made = subprocess.run(
        [sys.executable, "-c", shown],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'docs'}:{REPOSITORY}"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    texts = {Path(path): text for path, text in json.loads(made).items()}
    whole = {REPOSITORY / "README.md", *REPOSITORY.glob("docs/values-*.md"), REPOSITORY / "docs/choices.md"}
    assert whole <= set(texts)
    assert [path for path, text in texts.items() if path.read_text() != text] == [], "run python docs/reproductions.py"


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGES[0].read_text())
    assert len(links) > 20
    assert not [link for link in links if not (REPOSITORY / link).exists()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_readme_shows_what_the_command_prints(tmp_path: Path) -> None:
    (block,) = re.findall(r"<!-- advise:begin -->\n(.*?)<!-- advise:end -->", PAGES[0].read_text(), re.DOTALL)
    call, *shown = [line.removeprefix("    ") for line in block.splitlines()]
    printed = invoked(*call.split()[2:], "--out", tmp_path / "advice").stdout
    assert not [line for line in shown if line not in printed.splitlines()]
