"""Nothing that natjam is given can disturb the terminal: names, paths and arguments are escaped or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.text import Text

from emulator.display.console import printable_lines, results_console
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from tests.commands import invoked
from tests.live_runs import REPOSITORY, SMALL, natjam

HOSTILE = "a\x9b31mb\x1b[31mc\u202ed\x7fe\x07f"
"""C1, ESC, the order of writing reversed, DEL and BEL."""
SIMULATED = ("--engine", "sim", "--set", "overheads=hadoop-0.23")


def unprintable(text: str) -> set[str]:
    return {character for character in text if not character.isprintable()} - {"\n"}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / HOSTILE
    path.mkdir()
    (path / "experiment.yaml").write_text(SMALL)
    return path


def test_a_hostile_path_does_not_reach_the_terminal(hostile: Path) -> None:
    out = hostile / "out"
    for command in (
        ("run", hostile / "experiment.yaml", *SIMULATED, "--out", out),
        ("run", hostile / "experiment.yaml", *SIMULATED, "--out", out),
        *(
            ("report", out, "--out", hostile / "a.html"),
            ("verify", out),
            ("explain", out),
            ("compare", out, out, "--out", hostile / "both"),
        ),
        ("replay", out),
        *(
            ("validate", hostile / "experiment.yaml"),
            ("status", out),
            ("report", hostile, "--out", hostile / "b.html"),
            ("run", hostile / "none"),
        ),
        *(("init", hostile / "first"), (HOSTILE,), ("run", f"--{HOSTILE}"), ("run", "a", HOSTILE)),
        ("run", hostile / "experiment.yaml", "--set", f"{HOSTILE}={HOSTILE}"),
    ):
        done = invoked(*command)
        assert not unprintable(done.stdout + done.stderr), command
        assert done.exception is None or isinstance(done.exception, SystemExit), command


def test_what_another_has_written_into_a_log_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(HOSTILE.encode() + b"\n\xff\n")
    done = natjam("attach", tmp_path / "run")
    assert done.stdout == "a\\x9b31mb\\x1b[31mc\\u202ed\\x7fe\\x07f\n\\xff\n"


def test_a_path_that_is_not_utf_8_is_refused_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SMALL)
    out = os.fsencode(tmp_path) + b"/\xff"
    program = "from emulator.cli.script import main; main()"
    command = [sys.executable, "-c", program, "run", tmp_path / "mine.yaml", *SIMULATED, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 2
    assert done.stderr.startswith("natjam: ")
    assert "\\udcff': is not UTF-8; name another path" in done.stderr
    assert not os.path.exists(out)


@pytest.mark.parametrize("character", ["\x07", "\x1b", "\x7f", "\x9b", "\u202e", "\u2028", "\u200b", ""])
def test_a_name_is_printable(tmp_path: Path, character: str) -> None:
    name = character and f"a{character}b"
    (tmp_path / "mine.yaml").write_text(
        SMALL.replace("name: production", f'name: "{name.encode("unicode_escape").decode()}"')
    )
    with pytest.raises(ConfigError, match="printable characters") as refused:
        load_experiment(tmp_path / "mine.yaml")
    assert not unprintable(refused.value.message)


@given(st.text())
def test_any_text_is_escaped_and_escaped_text_stays(text: str) -> None:
    shown = printable_lines(text)
    assert not unprintable(shown)
    assert shown.count("\n") == text.count("\n")
    assert printable_lines(shown) == shown


def test_the_console_keeps_its_own_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = results_console()
    with Live(Text(HOSTILE), console=console, auto_refresh=False):
        console.print(Text(HOSTILE, "bold yellow"))
    said = capsys.readouterr().out
    assert "\x1b[1;33ma\\x9b31mb\\x1b[31mc" in said
    assert not {"\x9b", "\u202e", "\x07"} & set(said)
    assert "\x1b[31m" not in said
