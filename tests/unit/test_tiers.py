"""Storage tiers: those that come with natjam, this machine's, one's own, and what is wrong with a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.costs.calibration import dump_calibration
from emulator.costs.overheads import TierNumbers, load_tier, tier_names
from emulator.errors import ConfigError
from tests.calibrations import make_calibration

FIVE_GIGABYTES = 5 * 10**9


@pytest.mark.parametrize(("name", "published_s"), [("hdd", 169.18), ("ssd", 43.73), ("nvm", 2.92)])
def test_the_published_tiers_take_as_long_as_published(name: str, published_s: float) -> None:
    tier = load_tier(name)
    assert tier.write_ns(FIVE_GIGABYTES) / 1e9 == pytest.approx(published_s, rel=0.001)
    assert tier.held
    assert tier.at_once == 1


def test_numbers_of_one_s_own() -> None:
    tier = load_tier(TierNumbers(write_mb_s=100.0, read_mb_s=200.5, network_mb_s=50.0, latency_ms=2.0, at_once=3))
    assert (tier.write_bytes_s, tier.read_bytes_s, tier.network_bytes_s) == (100_000_000, 200_500_000, 50_000_000)
    assert tier.write_ns(100) == 2_000_000 + 1000
    assert tier.read_ns(401) == 2_000_000 + 2000
    assert tier.at_once == 3


def test_native_is_what_was_measured_here_and_is_not_held_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="natjam measure"):
        load_tier("native")
    (tmp_path / "natjam").mkdir()
    path = tmp_path / "natjam" / "calibration.yaml"
    calibration = make_calibration()
    path.write_text(dump_calibration(calibration))
    tier = load_tier("native")
    assert tier.write_bytes_s == 1_000_000 * 10**9 // 2_000_000
    assert not tier.held
    old = calibration.model_copy(update={"series": calibration.series.model_copy(update={"storage_read": None})})
    path.write_text(dump_calibration(old) + "\n")
    with pytest.raises(ConfigError, match="again"):
        load_tier("native")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("hddd", "did you mean 'hdd'"),
        ("nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_a_wrong_tier_is_named(spec: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_tier(spec)


def test_a_probe_s_file_is_a_tier(tmp_path: Path) -> None:
    path = tmp_path / "probe.yaml"
    store = "{write_mb_s: 100.0, read_mb_s: 200.0}"
    head = "natjam_probe: 1\nname: n\nsource: s\nschedule_s: 0.1\nsuspend_s: 0.1\nresume_s: 0.1\ntiers:\n"
    path.write_text(f"{head}  scratch: {store}\n")
    assert load_tier("./probe.yaml", tmp_path).write_bytes_s == 100_000_000
    path.write_text(f"{head}  scratch: {store}\n  share: {store}\n")
    assert load_tier("probe.yaml:share", tmp_path).name == "share"
    with pytest.raises(ConfigError, match="several stores"):
        load_tier("probe.yaml", tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'share'"):
        load_tier("probe.yaml:shore", tmp_path)


def test_every_tier_by_name() -> None:
    assert tier_names() == ["hdd", "ssd", "nvm", "native"]
