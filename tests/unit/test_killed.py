"""What is killed in the middle and continued leaves what an undisturbed one does; campaigns: ``test_campaign.py``."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from emulator.records.run_directory import sha256_of
from tests.campaigns import NatjamProcess
from tests.experiment_files import VALID, write

_TOLD = {".parquet", ".zst"}
"""All tables and journals."""


_OF_THE_MAKING = ("command", "date")
"""What a file with results says of how they were made."""


def results(directory: Path, name: str) -> dict[str, Any]:
    """The digests of all that was computed, and what the file of this name says of the results."""
    files = [path for path in directory.rglob("*") if path.suffix in _TOLD]
    found: dict[str, Any] = {path.relative_to(directory).as_posix(): sha256_of(path) for path in files}
    found[name] = json.loads((directory / name).read_bytes())
    for figure in found[name].get("figures", ()):
        for fact in _OF_THE_MAKING:
            del figure[fact]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "runs", "result"),
    [
        (("advise", "{file}", "--seeds", "2"), "simulated", "advise.json"),
        (("reproduce", "natjam/fig4", "--seeds", "5"), ".", "claims.json"),
    ],
    ids=["advise", "reproduce"],
)
def test_one_that_is_killed_twice_and_continued_is_as_an_undisturbed_one(
    tmp_path: Path, command: tuple[str, ...], runs: str, result: str
) -> None:
    arguments = [part.format(file=write(tmp_path, VALID)) for part in command]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for number, count in ((signal.SIGKILL, 5), (signal.SIGINT, 12)):
        with NatjamProcess(*arguments, "--out", killed) as process:
            process.has_done(killed / runs, count)
            process.process.send_signal(number)
            process.leaves_nothing()
            assert process.process.returncode == (130 if number is signal.SIGINT else -number)
            assert "Traceback" not in process.output()
        assert not (killed / result).exists()
    for out in (killed, whole):
        with NatjamProcess(*arguments, "--out", out) as process:
            assert "Traceback" not in process.output()
            assert process.process.returncode == 0
    assert results(killed, result) == results(whole, result)
    assert any(name.endswith("campaign.parquet") for name in results(whole, result))  # every run's rows are in it
