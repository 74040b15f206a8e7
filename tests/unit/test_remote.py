"""What a cluster answers, read out of what Ray and SSH print around it; what is sent to it."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.errors import ConfigError, RunError
from emulator.live.session import remote
from emulator.live.session.remote import RemoteCluster, UnreachableError

FAKE_RAY = """#!/bin/bash
echo "2026-01-01 INFO Fetched IP: 10.0.0.1"
case $1 in
exec) {how} ;;
*) exit 1 ;;
esac
"""


def _cluster(directory: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> RemoteCluster:
    """A cluster whose ``ray exec`` runs commands here, in a home of its own."""
    (directory / "bin").mkdir()
    program = directory / "bin" / "ray"
    program.write_text(FAKE_RAY.format(how=how))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(directory / "bin" / "python"))
    monkeypatch.setenv("HOME", str(directory))
    (directory / "cluster.yaml").touch()
    return RemoteCluster(directory / "cluster.yaml")


def test_what_a_command_says_and_its_status_are_found_in_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _cluster(tmp_path, monkeypatch, 'bash -c "$3" | sed "s/$/\\r/"; echo Shared connection closed.')
    assert cluster.run("echo a; echo natjam:0:: ; echo b >&2") == (0, b"a\nnatjam:0::\nb\n")
    assert cluster.run("false") == (1, b"")
    assert cluster.call("echo ' text '") == "text"
    with pytest.raises(ConfigError, match=r"^no such thing$"):
        cluster.call("echo natjam: no such thing; (exit 2)")
    with pytest.raises(RunError, match=r"^it has failed$"):
        cluster.call("echo it has failed; (exit 1)")


def test_a_connection_that_ends_early_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = base64.b64encode(b"half").decode()
    cluster = _cluster(tmp_path, monkeypatch, f"echo natjam:0:{said}; exit 1")
    with pytest.raises(UnreachableError, match="does not answer"):
        cluster.run("true")


def test_the_page_of_a_run_is_at_the_same_port_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    lost = f'[ -z "$4" ] || [ -e {asked}.lost ] || {{ touch {asked}.lost; exit 1; }}'
    cluster = _cluster(tmp_path, monkeypatch, f'echo "$4 $5" >> {asked}; {lost}; bash -c "$3"')
    monkeypatch.setattr(remote, "_PERIOD_REAL_S", 0)
    monkeypatch.setattr(remote, "_TRIES_REAL_S", (0,) * 8)
    runs = tmp_path / "natjam-runs"
    runs.mkdir()
    log = runs / "mine.log"
    log.write_text("starting\n")
    with subprocess.Popen(["tail", "-f", log], stdout=subprocess.DEVNULL) as running:  # its command line names the log
        pieces = cluster.printed("mine")
        assert next(pieces) == b"starting\n"
        (runs / "mine.page").write_text("http://127.0.0.1:4711/key/\n")
        with log.open("a") as file:
            file.write("more\n")
        assert next(pieces) == b"watch it at http://127.0.0.1:4711/key/\n"
        assert next(pieces) == b"more\n"
        with log.open("a") as file:
            file.write("still more\n")
        assert next(pieces) == b"still more\n"
        running.kill()
    assert b"".join(pieces) == b""
    forwarded = [line.strip() for line in asked.read_text().splitlines()]
    # The first try to forward it is lost; the next does without, in case that the port is in use here.
    assert forwarded[3:6] == ["--port-forward 4711", "", "--port-forward 4711"]


def test_a_run_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(tmp_path, monkeypatch, 'bash -c "$3"')
    (tmp_path / "natjam-runs").mkdir()
    with pytest.raises(ConfigError, match="mine: no such run on the cluster"):
        next(cluster.printed("mine"))


def test_a_large_directory_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(tmp_path, monkeypatch, 'bash -c "$3"')
    mine = tmp_path / "mine"
    (mine / "runs").mkdir(parents=True)
    _make_sparse(mine / "runs" / "old")  # it would not be sent
    with pytest.raises(UnreachableError, match="has not been copied"):  # the ray of this test cannot copy
        cluster.send(mine, "name")
    _make_sparse(mine / "data")
    with pytest.raises(ConfigError, match="more than 100 MiB"):
        cluster.send(mine, "name")


def _make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 200 * 2**20)


def test_the_cluster_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no file"):
        RemoteCluster(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("name", ["", "..", "a b", "a;b", "$(a)", "-a", "a/b", "a'b"])
def test_a_name_that_a_shell_would_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cluster = _cluster(tmp_path, monkeypatch, 'bash -c "$3"')
    with pytest.raises(ConfigError, match="letters, digits"):
        cluster.start(name, [], sent=False)
    with pytest.raises(ConfigError, match="letters, digits"):
        next(cluster.printed(name))
