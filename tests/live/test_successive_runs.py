"""Live runs one after another share one Ray; each is apart from the others, and nothing is left of any."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns import NatjamProcess, table, write_campaign
from tests.live_runs import command_line, short_directory, until, with_variable
from tests.other_user import reached_by_another_user

CAMPAIGN = """\
name: small
experiment: experiment.yaml
set: {engine: live, time_scale: 50, overheads: native}
seeds: 2
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """The temporary directory of the campaign."""
    with short_directory() as directory:
        yield directory


def campaign(tmp_path: Path, temporary: Path) -> NatjamProcess:
    file = write_campaign(tmp_path, CAMPAIGN)
    return NatjamProcess("campaign", file, "--out", tmp_path / "out", TMPDIR=str(temporary))


def raylets(temporary: Path) -> list[int]:
    return [
        pid for pid in with_variable("TMPDIR", str(temporary)) if command_line(pid).split(" ")[0].endswith("/raylet")
    ]


def hosts(temporary: Path) -> set[int]:
    found = with_variable("TMPDIR", str(temporary))
    return {pid for pid in found if command_line(pid).startswith("ray::NodeHostActor")}


def leaves_nothing(natjam: NatjamProcess, temporary: Path) -> None:
    natjam.process.wait()

    def left() -> list[object]:
        return [*with_variable("TMPDIR", str(temporary)), *os.listdir(temporary)]

    until(lambda: not left(), lambda: f"still there: {left()}", bound_s=10)


def test_runs_of_a_campaign_share_one_ray_and_no_process_of_theirs(tmp_path: Path, temporary: Path) -> None:
    with campaign(tmp_path, temporary) as natjam:
        first = until(lambda: hosts(temporary), "hosts of the first run")
        ray = raylets(temporary)
        if os.geteuid() == 0:
            assert reached_by_another_user(temporary) == []
        natjam.has_done(tmp_path / "out", runs=1)
        until(lambda: hosts(temporary) - first, "hosts of the second run")
        assert raylets(temporary) == ray
        assert not hosts(temporary) & first
        natjam.process.wait()
        assert natjam.process.returncode == 0
        assert natjam.process.stdout is not None
        assert "raylet" not in natjam.process.stdout.read(), "Ray complains of processes that were killed"
        leaves_nothing(natjam, temporary)
    assert table(tmp_path / "out").num_rows == 4


@pytest.mark.slow
def test_a_ray_under_which_a_run_has_failed_serves_no_other(tmp_path: Path, temporary: Path) -> None:
    with campaign(tmp_path, temporary) as natjam:
        until(lambda: hosts(temporary), "hosts of the first run")
        (ray,) = raylets(temporary)
        os.kill(ray, signal.SIGKILL)
        natjam.process.wait()
        assert natjam.process.returncode == 1
        leaves_nothing(natjam, temporary)
    states = [(row["seed"], row["state"]) for row in table(tmp_path / "out").to_pylist()]
    assert states == [(1, None), (2, "succeeded"), (2, "succeeded")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_campaign_that_is_ended_leaves_nothing(
    tmp_path: Path, temporary: Path, number: signal.Signals, status: int
) -> None:
    with campaign(tmp_path, temporary) as natjam:
        until(lambda: hosts(temporary), "hosts of a run")
        natjam.process.send_signal(number)
        natjam.process.wait()
        assert natjam.process.returncode == status
        leaves_nothing(natjam, temporary)
