"""The calibration file: what is written is read back; what is missing or impossible is refused by name."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.costs.calibration import (
    PPB,
    QUANTILE_LEVELS_PPM,
    Calibration,
    Distribution,
    busy_warning,
    dump_calibration,
)
from emulator.costs.calibration_file import chosen_path, load_calibration
from emulator.costs.overheads import load_overheads
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from tests.calibrations import calibration_data, distribution, make_calibration
from tests.commands import invoked, run_natjam
from tests.refusals import refused

FIG4 = Path(__file__).resolve().parents[2] / "workloads/catalog/natjam-fig4.yaml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory of the user's; where this machine's calibration would be."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data/natjam/calibration.yaml"


def write(path: Path, calibration: Calibration) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_calibration(calibration))
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    calibration = make_calibration(10, 5_000_000, launch=7)
    assert load_calibration(write(tmp_path / "mine.yaml", calibration)) == calibration


def change(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    *parents, last = path.split("/")
    at: Any = changed
    for part in parents:
        at = at[int(part) if part.isdigit() else part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("operations/launch", None, "operations.launch: is missing"),
        ("operations/launch/n", None, "operations.launch.n: is missing"),
        ("operations/launch/n", 0, "operations.launch.n: must be at least 1"),
        ("operations/kill/mean_real_ns", -5, "operations.kill.mean_real_ns: must be at least 0"),
        ("operations/kill/mean_real_ns", float("nan"), "operations.kill.mean_real_ns"),
        ("operations/kill/mean_real_ns", 9e8, "operations.kill: mean_real_ns: 900000000.0 lies outside"),
        ("operations/kill/mean_real_ns", "fast", "operations.kill.mean_real_ns: must be a number"),
        ("operations/kill/p50_real_ns", (5, 9, 2), "operations.kill: p50_real_ns: the interval's end (2) is below"),
        ("operations/commit/quantiles_real_ns", (1, 2), "operations.commit.quantiles_real_ns"),
        ("operations/commit/quantiles_real_ns", (9, *[5] * 53), "quantiles_real_ns: number 2 (5) is below the one"),
        ("operations/warp", distribution(5), "operations.warp"),
        ("series/fork/points", (), "series.fork.points"),
        ("series/fork/points", ({"at": 5, "distribution": distribution(1)},) * 2, "points: their 'at' must increase"),
        ("machine/cores", 0, "machine.cores: must be at least 1"),
        ("machine/cores", 10**400, "machine.cores: must be at most 1e+06"),
        ("natjam_calibration", 2, "natjam_calibration"),
    ],
)
def test_what_is_missing_or_impossible_is_refused_by_name(tmp_path: Path, path: str, value: Any, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(dump_yaml(change(calibration_data(), path, value)))
    message = refused(load_calibration, file)
    assert words in message
    assert f"{file}:" in message


@given(st.lists(st.integers(0, 10**9), min_size=54, max_size=54), st.integers(0, PPB))
def test_quantiles_lie_on_the_lines_between_the_levels(values: list[int], level_ppb: int) -> None:
    values.sort()
    data = {**distribution(0), "mean_real_ns": values[0], "quantiles_real_ns": tuple(values)}
    found = Distribution.model_validate(data)
    assert [found.at(level * 1000) for level in QUANTILE_LEVELS_PPM] == values
    below = max(index for index, level in enumerate(QUANTILE_LEVELS_PPM) if level * 1000 <= level_ppb)
    assert values[below] <= found.at(level_ppb) <= values[min(below + 1, 53)]


def test_which_file_a_simulation_rests_on(tmp_path: Path, home: Path) -> None:
    mine = write(tmp_path / "mine.yaml", make_calibration())
    assert chosen_path("hadoop-0.23", None) is None
    assert chosen_path("hadoop-0.23", str(mine)) == mine
    assert chosen_path(str(mine), None) == mine
    for overheads, calibration in (("native", None), ("hadoop-0.23", "auto")):
        with pytest.raises(ConfigError, match="run 'natjam measure' first"):
            chosen_path(overheads, calibration)
    write(home, make_calibration())
    assert chosen_path("native", None) == chosen_path("hadoop-0.23", "auto") == home


def test_an_experiment_takes_a_calibration_for_overheads_and_pads_nothing(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.yaml", make_calibration())
    experiment = load_experiment(FIG4, [f"overheads={mine}"])
    profile = load_overheads(experiment.overheads, tmp_path)
    assert (profile.schedule_ns, profile.suspend_ns, profile.resume_ns) == (0, 0, 0)
    broken = tmp_path / "broken.yaml"
    broken.write_text(mine.read_text().replace("n: 200", "n: 0", 1))
    for key in ("overheads", "calibration"):
        with pytest.raises(ConfigError, match=r"broken.yaml:\d+: .*n: must be at least 1"):
            load_experiment(FIG4, [f"{key}={broken}"])


def test_who_measures_a_busy_machine_is_warned() -> None:
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        warning = busy_warning()
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    assert warning is not None
    assert "of this machine's cores: measurements are now too slow" in warning


def test_another_machines_calibration_is_used_with_a_warning(tmp_path: Path, home: Path) -> None:
    data = calibration_data()
    arguments = ["run", str(FIG4), "--engine", "sim", "--set", "overheads=native", "--out"]
    write(home, Calibration.model_validate(data))
    quiet = invoked(*arguments, tmp_path / "one")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    there = {**data["machine"], "cpu_model": "Abacus", "kernel": "0.1"}
    write(home, Calibration.model_validate({**data, "machine": there}))
    warned = run_natjam(*arguments, tmp_path / "other")
    assert "natjam: warning" in warned.stderr
    assert "cpu model Abacus there" in warned.stderr
    assert "kernel 0.1 there" in warned.stderr
    (costs,) = [line for line in warned.stdout.splitlines() if line.strip().startswith("costs")]
    assert f"on {there['cores']} cores of Abacus" in costs
    told = json.loads((tmp_path / "other/summary.json").read_text())["calibration"]
    assert (told["path"], told["age_days"], told["machine"]["cpu_model"]) == (str(home), 0, "Abacus")
    journals = [(tmp_path / name / "journal.jsonl.zst").read_bytes() for name in ("one", "other")]
    assert journals[0] == journals[1]


@pytest.mark.parametrize(
    ("campaign", "said"),
    [
        ({"load_average": 100.0}, "was measured under load (100 on"),
        ({"measured_at": "2020-02-03T00:00:00Z"}, "days old (2020-02-03T00:00:00Z)"),
        ({"measured_at": "2020-02-03"}, "days old (2020-02-03)"),
        ({"measured_at": "a while ago"}, "does not say when it was measured ('a while ago')"),
        ({}, None),
    ],
)
def test_a_calibration_made_under_load_or_long_ago_is_not_used_in_silence(
    campaign: dict[str, object], said: str | None
) -> None:
    data = calibration_data()
    warning = Calibration.model_validate({**data, "campaign": {**data["campaign"], **campaign}}).warning(Path("c.yaml"))
    assert (warning is None) == (said is None)
    if said is not None:
        assert said in (warning or "")
