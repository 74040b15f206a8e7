"""``natjam measure`` as a user runs it: stopped, gone on with, and what it leaves."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet
import pytest

from emulator.costs.calibration import this_machine
from emulator.costs.calibration_file import load_calibration
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import held_directory
from emulator.measure import campaign
from emulator.measure.samples import Part, Samples, Surroundings
from tests.live_runs import REPOSITORY, until
from tests.other_user import reached_by_another_user

_PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from emulator.cli.script import main
main()
"""
_BOUND_S = 200.0


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_campaign_that_is_stopped_leaves_no_process_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    temporary = tempfile.mkdtemp(prefix="nj-", dir="/tmp")  # the paths of Ray's sockets must be short
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"TMPDIR": temporary, "PYTHONUNBUFFERED": "1"}

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _PROGRAM, "measure", "--quick", "--out", str(out)]
        with log.open("wb") as file:
            return subprocess.Popen(
                command, env=environment, cwd=REPOSITORY, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def parts() -> set[str]:
        return {path.stem for path in (out / "parts").glob("*.parquet")}

    try:
        with start() as stopped:
            until(lambda: "files" in parts(), "two parts done", _BOUND_S)
            os.killpg(stopped.pid, signal.SIGINT)
            assert stopped.wait(60) == 130, log.read_text()
        assert parts() == {"processes", "files"}
        assert not (out / "calibration.yaml").exists()
        kept = {path.name: path.read_bytes() for path in (out / "parts").glob("*.parquet")}
        with start() as going_on:
            until(lambda: "crowds" in parts(), "the next part done", _BOUND_S)
            if os.geteuid() == 0:
                until(lambda: any(Path(temporary).glob("*/**/*")), "files of the part after it", _BOUND_S)
                assert reached_by_another_user(Path(temporary)) == []
            assert kept.items() <= {path.name: path.read_bytes() for path in (out / "parts").glob("*.parquet")}.items()
            assert going_on.wait(_BOUND_S) == 0, log.read_text()
        assert "| processes |" not in log.read_text()
        until(lambda: not os.listdir(temporary), "no temporary file left", 10)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    calibration = load_calibration(out / "calibration.yaml")
    assert "measured on another machine" not in (calibration.warning(out) or "")
    assert calibration.machine == this_machine()
    assert {path.name for path in out.iterdir()} == {"calibration.yaml", "samples.parquet", "distributions.png"}
    names = set(pyarrow.parquet.read_table(out / "samples.parquet")["operation"].to_pylist())
    for group in (calibration.operations, calibration.observations, calibration.series):
        assert {name for name, _ in group} <= names
    assert all(distribution.n >= 100 for _, distribution in calibration.operations)


def test_what_a_part_writes_is_held_against_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(around: Surroundings) -> Samples:
        with pytest.raises(ConfigError, match="taken"), held_directory(around.directory, "taken"):
            pass
        with pytest.raises(ConfigError, match="another measurement is going on there"):
            campaign.run_campaign(tmp_path / "out", True, lambda status: None)
        raise OSError(errno.ENOSPC, "enough", str(around.directory))

    monkeypatch.setattr(campaign, "PARTS", (Part("look", look, real_s=1, quick_real_s=1),))
    with pytest.raises(RunError, match="measuring look failed: enough"):
        campaign.run_campaign(tmp_path / "out", True, lambda status: None)
