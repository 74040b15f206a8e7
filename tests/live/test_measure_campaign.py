"""``natjam measure`` as a user runs it: stopped, gone on with, and what it leaves."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pyarrow.parquet
import pytest

from emulator.costs.calibration import this_machine
from emulator.costs.calibration_file import load_calibration
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import held_directory
from emulator.measure import campaign
from emulator.measure.samples import Part, Samples, Surroundings
from tests.campaigns import NatjamProcess
from tests.live_runs import send, short_directory, until
from tests.other_user import reached_by_another_user

_BOUND_S = 200.0


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_campaign_that_is_stopped_leaves_no_process_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def parts() -> dict[str, bytes]:
        return {path.stem: path.read_bytes() for path in (out / "parts").glob("*.parquet")}

    def measuring() -> NatjamProcess:
        return NatjamProcess("measure", "--quick", "--out", out, TMPDIR=str(temporary), PYTHONUNBUFFERED="1")

    with short_directory() as temporary:
        with measuring() as stopped:
            until(lambda: "files" in parts(), "two parts done", _BOUND_S)
            send(stopped.process, signal.SIGINT)
            assert stopped.process.wait(60) == 130, stopped.output()
        kept = parts()
        assert set(kept) == {"processes", "files"}
        assert not (out / "calibration.yaml").exists()
        with measuring() as going_on:
            until(lambda: "crowds" in parts(), "the next part done", _BOUND_S)
            if os.geteuid() == 0:
                until(lambda: any(temporary.glob("*/**/*")), "files of the part after it", _BOUND_S)
                assert reached_by_another_user(temporary) == []
            assert kept.items() <= parts().items()
            log = going_on.output()
            assert going_on.process.returncode == 0, log
        assert "| processes |" not in log
        until(lambda: not os.listdir(temporary), "no temporary file left", 10)
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
        with pytest.raises(ConfigError, match="another natjam command is at work there"):
            campaign.run_campaign(tmp_path / "out", True, lambda status: None)
        raise OSError(errno.ENOSPC, "enough", str(around.directory))

    monkeypatch.setattr(campaign, "PARTS", (Part("look", look, real_s=1, quick_real_s=1),))
    with pytest.raises(RunError, match="measuring look failed: enough"):
        campaign.run_campaign(tmp_path / "out", True, lambda status: None)
