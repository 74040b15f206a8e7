"""Where the sockets of a run are: a short directory that no other user can enter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.live.janitor import _is_own, end_left_over_runs, run_directory, short_place, socket_directory
from emulator.live.session.ray_runtime import RayRuntime
from tests.other_user import as_another_user, needs_root

LONGEST_PATH_BYTES = 107


@pytest.mark.parametrize("long", [False, True])
def test_a_local_ray_has_its_directories_for_its_user_alone_until_it_ends(
    tmp_path: Path, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path) if long else "/tmp")
    runtime = RayRuntime()
    runtime._prepare_local()
    directories = {run_directory(runtime._id), socket_directory(runtime._id)}
    try:
        assert {directory.stat().st_mode & 0o777 for directory in directories} == {0o700}
    finally:
        runtime.stop()
    assert not any(directory.exists() for directory in directories)


@pytest.mark.parametrize("temporary", ["/tmp", "/scratch/" + "job-0123456789/" * 20])
def test_it_is_short_whatever_the_temporary_directory_is(temporary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", temporary)
    directory = socket_directory("ray-01234567")
    assert directory.parent in (Path("/tmp"), Path(f"/run/user/{os.getuid()}"))
    assert len(os.fsencode(directory / "r" / "plasma_store")) < LONGEST_PATH_BYTES


def test_the_users_own_directory_counts_only_if_nobody_else_can_enter_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert not _is_own(own)
    own.mkdir(mode=0o700)
    assert _is_own(own)
    (tmp_path / "link").symlink_to(own)
    assert not _is_own(tmp_path / "link"), "it may lead anywhere"
    own.chmod(0o710)
    assert not _is_own(own)


def test_the_users_own_directory_is_used_if_it_is_private_and_stays_when_the_user_logs_out(tmp_path: Path) -> None:
    own, lingering = tmp_path / "own", tmp_path / "lingering"
    own.mkdir(mode=0o700)
    assert short_place(own, lingering) == Path("/tmp")
    lingering.touch()
    assert short_place(own, lingering) == own
    own.chmod(0o755)
    assert short_place(own, lingering) == Path("/tmp")


@needs_root
def test_the_directory_of_another_user_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    os.chown(own, 12345, 12345)
    assert not _is_own(own)


@needs_root
def test_what_another_user_leaves_under_such_a_name_stays() -> None:
    directory = Path("/tmp/natjam-ray-0badcafe")
    as_another_user(lambda: directory.mkdir())
    try:
        end_left_over_runs()
        assert directory.is_dir()
    finally:
        directory.rmdir()
