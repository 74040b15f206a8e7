"""``natjam hosts``: cluster files that Ray accepts, and machines asked by a stand-in for SSH that asks this one."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import yaml
from typer.testing import Result

from emulator.live.machines import CHECKOUT, CLOUDS, CLUSTER_FILE
from tests.commands import invoked

SCHEMA = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
BASE = yaml.safe_load(CLUSTER_FILE.read_text())
SSH = """#!/bin/bash
for last; do :; done
if [ "$1" = -G ]; then
  case "$last" in
    unknown) echo "hostname no-such-name.invalid"; echo "user me"; echo "port 22";;
    proxied) echo "hostname 127.0.0.1"; echo "user me"; echo "port 22"; echo "proxyjump b";;
    *) echo "hostname $last"; echo "user me"; echo "port 22"; echo "identityfile ~/none";;
  esac
  exit 0
fi
case " $* " in *" 127.0.0.66 "*) echo "me@127.0.0.66: Permission denied (publickey)." >&2; exit 255;; esac
sed 's|/22"|/PORT"|' | bash -s
"""


def hosts(*arguments: str | Path) -> Result:
    return invoked("hosts", *arguments)


def accepted(path: Path) -> Any:
    """A cluster file that Ray's schema accepts."""
    cluster = yaml.safe_load(path.read_text())
    assert [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(cluster)] == []
    return cluster


@pytest.fixture
def _reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in for ssh, and a home with the secrets of a cluster; something listens where the head's sshd would."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        (tmp_path / "bin").mkdir()
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text(SSH.replace("PORT", str(listening.getsockname()[1])))
        ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
        for program in ("rsync", "openssl"):
            (tmp_path / "bin" / program).symlink_to("/bin/true")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".ray").mkdir()
        for name in ("auth_token", "authority.key", "authority.pem"):
            (tmp_path / ".ray" / name).touch()
        yield


def test_googles_own_file_is_accepted() -> None:
    accepted(CLUSTER_FILE)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_cloud_differs_only_in_who_gives_the_machines(cloud: str, tmp_path: Path) -> None:
    done = hosts("--write", tmp_path / "c.yaml", "--cloud", cloud)
    assert done.exit_code == 0, done.output
    cluster = accepted(tmp_path / "c.yaml")
    assert cluster["provider"]["type"] == cloud
    assert not any("google" in command for command in cluster["head_setup_commands"])
    own = {"provider", "auth", "available_node_types", "head_setup_commands", "file_mounts"}
    assert {key: value for key, value in cluster.items() if key not in own} == {
        key: value for key, value in BASE.items() if key not in own
    }
    assert f"ray up -y {tmp_path / 'c.yaml'}" in done.stdout
    assert CLOUDS[cloud].to_set[0] in done.stdout


@pytest.mark.usefixtures("_reached")
def test_machines_that_can_take_part(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    done = hosts("--write", path, "127.0.0.1", "127.0.0.2", "127.0.0.3")
    assert done.exit_code == 0, done.output
    assert done.stdout.count(": ready, Python 3.") == 3
    cluster = accepted(path)
    assert cluster["provider"] == {"type": "local", "head_ip": "127.0.0.1", "worker_ips": ["127.0.0.2", "127.0.0.3"]}
    assert cluster["auth"] == {"ssh_user": "me"}
    assert cluster["file_mounts"]["~/natjam"] == str(CHECKOUT), "ray up may be called from anywhere"
    assert not any("sudo" in command for command in cluster["setup_commands"])
    assert done.stdout.splitlines()[-2:] == [
        f"  RAY_UP_enable_autoscaler_v2=0 ray up -y {path}",
        f"  natjam run catalog:natjam-fig4 --cluster {path} --time-scale 20 --set storage.url=/mnt/shared",
    ]
    again = hosts("--write", path, "127.0.0.1")
    assert (again.exit_code, "exists already" in again.stderr) == (2, True)


@pytest.mark.usefixtures("_reached")
def test_nothing_is_written_if_a_machine_cannot_take_part(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    refused = hosts("--write", path, "127.0.0.1", "127.0.0.66")
    assert refused.exit_code == 1
    assert "127.0.0.66: SSH cannot log in as me: me@127.0.0.66: Permission denied (publickey)." in refused.stdout
    assert "not ready: 127.0.0.66; nothing was written" in refused.stderr
    lost = hosts("--write", path, "127.0.0.99", "127.0.0.2")  # where nothing listens
    assert lost.exit_code == 1
    assert "127.0.0.2: lacks a way to the head, 127.0.0.99" in lost.stdout
    assert not path.exists()


@pytest.mark.usefixtures("_reached")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the machines"),
        (["unknown"], "there is no address of no-such-name.invalid"),
        (["proxied"], "by another port or by a proxy"),
        (["127.0.0.1", "127.0.0.1", "localhost"], "localhost: has the address of another machine"),
        (["--cloud", "gcp"], "must be aws or azure"),
        (["--cloud", "aws", "127.0.0.1"], "must be aws or azure, without names of machines"),
        (["--", "-oProxyCommand=touch /tmp/x"], "is no name of a machine"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    refused = hosts("--write", tmp_path / "c.yaml", *arguments)
    assert refused.exit_code == 2, refused.output
    assert said in refused.stderr
    assert not (tmp_path / "c.yaml").exists()
