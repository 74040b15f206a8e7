"""Overhead profiles: the packaged one, files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.core.settings import OverheadSettings
from emulator.costs.overheads import load_overheads, profile_names
from emulator.errors import ConfigError
from tests.refusals import changed, refused

PROFILE = "name: mine\nsource: my cluster\nschedule_s: 2.5\nsuspend_s: 1\nresume_s: 3\n"


def test_native_pads_nothing(tmp_path: Path) -> None:
    assert load_overheads("native", tmp_path) == OverheadSettings()


def test_the_published_profile(tmp_path: Path) -> None:
    """natjam, section 5: 2.63 s to schedule, 1.35 s to suspend, 3.88 s to resume a task."""
    assert load_overheads("hadoop-0.23", tmp_path) == OverheadSettings(2_630_000_000, 1_350_000_000, 3_880_000_000)
    assert profile_names() == ["native", "hadoop-0.23", "hadoop-1", "none", "slurm-22", "yarn-3"]


def test_what_a_kill_pays_for_is_in_the_profiles_that_know_it(tmp_path: Path) -> None:
    """os-assisted-preemption, section IV-C: a cleanup task, which takes a measured launch of a container of Hadoop
    (profile yarn-3).  Slurm: the time its victims took to go."""
    cleanup_ns = {name: load_overheads(name, tmp_path).cleanup_ns for name in profile_names()}
    launch_ns = load_overheads("yarn-3", tmp_path).launch_ns
    paid = {"hadoop-1": launch_ns, "slurm-22": 86_000_000}
    assert cleanup_ns == {**dict.fromkeys(profile_names(), 0), **paid}


def test_a_file_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PROFILE + "heartbeat_s: 0.5\n")
    expected = OverheadSettings(2_500_000_000, 1_000_000_000, 3_000_000_000)
    assert load_overheads("mine.yaml", tmp_path) == expected
    assert load_overheads(str(tmp_path / "mine.yaml"), Path("/")) == expected


@pytest.mark.parametrize(
    ("text", "change", "message"),
    [
        ("suspend_s: 1\n", "", "1: suspend_s: is missing"),
        ("suspend_s: 1", "suspend_s: -1", "4: suspend_s: must be at least 0, not -1"),
        ("suspend_s: 1", "suspend_s: .nan", "4: suspend_s: must be"),
        ("suspend_s: 1", "suspend_s: 1e9", "4: suspend_s: must be at most 1e+06"),
        ("suspend_s: 1", "suspend_s: fast", "4: suspend_s: must be a number, not 'fast'"),
        ("suspend_s: 1", "suspend_s: 1\nsupend_s: 1", "5: supend_s: unknown key; did you mean 'suspend_s'?"),
        ("resume_s: 3", "resume_s: 3\nheartbeat_s: 0", "6: heartbeat_s: must be greater than 0"),
    ],
)
def test_missing_and_impossible_numbers(tmp_path: Path, text: str, change: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(changed(PROFILE, text, change))
    assert refused(load_overheads, "mine.yaml", tmp_path).startswith(f"{path}:{message}")


def test_a_name_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no overhead profile 'hadop-0.23'; did you mean 'hadoop-0.23'"):
        load_overheads("hadop-0.23", tmp_path)
