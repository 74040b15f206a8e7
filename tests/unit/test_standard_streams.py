"""Who reads what a command prints may go: the command goes on to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_runs import REPOSITORY
from tests.simulated_runs import FIG4

PROGRAM = "from emulator.cli.script import main; main()"
BOUND_S = 60


def without_reader(*arguments: object, errors_too: bool = False) -> subprocess.CompletedProcess[bytes]:
    """A command whose standard output has no reader any more, and neither has standard error if ``errors_too``."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            cwd=REPOSITORY,
            stdout=write_end,
            stderr=write_end if errors_too else subprocess.PIPE,
            timeout=BOUND_S,
        )
    finally:
        os.close(write_end)


@pytest.mark.parametrize("errors_too", [False, True])
def test_a_run_comes_to_its_end_when_nobody_reads_what_it_prints(tmp_path: Path, errors_too: bool) -> None:
    options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--out", tmp_path / "out"]
    done = without_reader("run", FIG4, *options, errors_too=errors_too)
    assert (done.returncode, done.stderr or b"") == (0, b"")
    assert json.loads((tmp_path / "out/summary.json").read_text())["state"] == "finished"


def test_what_is_wrong_is_still_said(tmp_path: Path) -> None:
    done = without_reader("verify", tmp_path)
    assert done.returncode == 2
    assert b"has no finished run" in done.stderr


def test_what_is_printed_to_a_full_disk_is_one_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", PROGRAM, "validate", FIG4]
        done = subprocess.run(command, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, timeout=BOUND_S)
    assert (done.returncode, done.stderr) == (1, b"natjam: standard output: No space left on device\n")
