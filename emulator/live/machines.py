"""The machines that a cluster is made of, before anything runs on them (``natjam hosts``).

Cluster files for ``ray up`` are the checkout's ``cluster.yaml``, which is Google's, for other machines.  Setup and
start commands stay as they are there.  Only what depends on who gives the machines is replaced.

Of machines that are there already, SSH's configuration says how they are reached, and they themselves whether they can
form a cluster.
"""

from __future__ import annotations

import copy
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from emulator.errors import ConfigError, RunError

CHECKOUT = Path(__file__).resolve().parents[2]
CLUSTER_FILE = CHECKOUT / "cluster.yaml"
_GOOGLE_ONLY = "google-api-python-client"
_SYSTEM_PACKAGES = "sudo apt-get"
_PIP = "~/natjam-venv/bin/pip install -q"


@dataclass(frozen=True, slots=True)
class Cloud:
    """What Ray needs to know about a cloud."""

    provider: Mapping[str, Any]
    auth: Mapping[str, Any]
    machine: Mapping[str, Any]
    """``node_config`` of head and workers: four cores, 16 GB, Ubuntu 24.04."""
    packages: str
    """What the head must install to ask for machines."""
    to_set: tuple[str, ...]
    """What the user must look at before the first ``ray up``."""


_AMI = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
CLOUDS: dict[str, Cloud] = {
    "aws": Cloud(
        {"type": "aws", "region": "us-west-2", "cache_stopped_nodes": False},
        {"ssh_user": "ubuntu"},
        {
            "InstanceType": "m7i.xlarge",
            "ImageId": None,
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, "VolumeType": "gp3"}}],
        },
        "boto3",
        (
            "provider.region, and ImageId twice: Ubuntu 24.04 in that region, which this prints:",
            f"  aws ssm get-parameter --region us-west-2 --query Parameter.Value --name {_AMI}",
        ),
    ),
    "azure": Cloud(
        {"type": "azure", "location": "westus2", "resource_group": "natjam"},
        {"ssh_user": "ubuntu"},
        {
            "azure_arm_parameters": {
                "vmSize": "Standard_D4s_v5",
                "imagePublisher": "Canonical",
                "imageOffer": "ubuntu-24_04-lts",
                "imageSku": "server",
                "imageVersion": "latest",
            }
        },
        "azure-cli azure-core azure-identity azure-mgmt-compute azure-mgmt-network azure-mgmt-resource",
        ("provider.location and provider.resource_group; log in with 'az login'",),
    ),
}


def for_cloud(name: str) -> str:
    """The text of a cluster file for a cloud.  Raises ConfigError."""
    cloud, cluster = CLOUDS[name], _base()
    cluster |= {"provider": dict(cloud.provider), "auth": dict(cloud.auth)}
    for kind in cluster["available_node_types"].values():
        kind["node_config"] = copy.deepcopy(dict(cloud.machine))
    cluster["head_setup_commands"] = [
        *_without(cluster["head_setup_commands"], _GOOGLE_ONLY),
        f"{_PIP} {cloud.packages}",
    ]
    return _text(cluster, cloud.to_set)


def for_hosts(head: str, workers: Sequence[str], user: str, key: str | None) -> str:
    """The text of a cluster file for machines that are there already, by their addresses.

    They need Python with its venv module, and nothing of it is installed with ``sudo``.  Raises ConfigError.
    """
    cluster = _base()
    for name in ("available_node_types", "head_node_type", "max_workers"):
        del cluster[name]
    cluster["provider"] = {"type": "local", "head_ip": head, "worker_ips": list(workers)}
    cluster["auth"] = {"ssh_user": user, **({"ssh_private_key": key} if key else {})}
    cluster["setup_commands"] = _without(cluster["setup_commands"], _SYSTEM_PACKAGES)
    cluster["head_setup_commands"] = _without(cluster["head_setup_commands"], _GOOGLE_ONLY)
    return _text(cluster, ())


def _base() -> dict[str, Any]:
    if not CLUSTER_FILE.is_file():
        raise ConfigError(
            "the machines install natjam from its checkout, which is not here: clone it, and call its natjam"
        )
    cluster: dict[str, Any] = yaml.safe_load(CLUSTER_FILE.read_text())
    # so that `ray up` may be called from any directory
    mounts = {target: str(CHECKOUT) if source == "." else source for target, source in cluster["file_mounts"].items()}
    return {**cluster, "file_mounts": mounts}


def _without(commands: Sequence[str], text: str) -> list[str]:
    left = [command for command in commands if text not in command]
    assert len(left) == len(commands) - 1, f"cluster.yaml has no single command with {text!r}"
    return left


def _text(cluster: Mapping[str, Any], to_set: Sequence[str]) -> str:
    lines = ["Made by natjam hosts from natjam's cluster.yaml, whose comments explain the commands."]
    lines += [f"Set before the first `ray up`: {to_set[0]}", *to_set[1:]] if to_set else []
    return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(dict(cluster), sort_keys=False, width=4096)


_CONNECT_REAL_S = 10
_TIMEOUT_REAL_S = 40.0
_SSH_PORT = "22"
_ASKED = r"""
for needed in openssl rsync; do command -v $needed >/dev/null || echo "lacks=$needed"; done
python3 -c 'import ensurepip, venv' 2>/dev/null || echo "lacks=python3 with its venv module (python3-venv)"
echo "python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
timeout 10 bash -c "exec 3<>/dev/tcp/HEAD/22" 2>/dev/null || echo "lacks=a way to the head, HEAD"
echo asked
"""
"""What each machine is asked; its answer has a line for each thing that it lacks."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, as SSH's configuration describes it."""

    name: str
    """As the user gives it."""
    address: str
    user: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine said."""

    host: Host
    problems: tuple[str, ...]
    python: str


def known_host(name: str, user: str | None, key: str | None) -> Host:
    """What SSH would do with a name (``ssh -G``).  Raises ConfigError."""
    if not name or name.startswith("-"):
        raise ConfigError(f"'{name}': is no name of a machine")
    options = [*(["-l", user] if user else []), *(["-i", key] if key else [])]
    try:
        said = subprocess.run(["ssh", "-G", *options, name], capture_output=True, text=True, timeout=_TIMEOUT_REAL_S)
    except FileNotFoundError:
        raise ConfigError("there is no ssh here; install the OpenSSH client") from None
    if said.returncode:
        raise ConfigError(f"{name}: {said.stderr.strip() or 'SSH does not know it'}")
    lines = [line.partition(" ") for line in said.stdout.splitlines()]
    found = {key: value for key, _, value in reversed(lines)}  # of several keys, the first
    if found.get("port", _SSH_PORT) != _SSH_PORT or found.get("proxyjump"):
        raise ConfigError(f"{name}: SSH reaches it by another port or by a proxy; Ray's launcher can do neither")
    try:
        address = socket.gethostbyname(found["hostname"])
    except OSError:
        raise ConfigError(f"{name}: there is no address of {found['hostname']}; is the name right?") from None
    given = Path(key or found.get("identityfile", "")).expanduser()
    return Host(name, address, found["user"], str(given) if given.is_file() else None)


def ask(hosts: Sequence[Host], on_answer: Callable[[Answer], None]) -> list[Answer]:
    """Ask all machines at once whether they can take part; the first one is the head.

    ``on_answer`` is called for each as it answers.  The result is in the order of ``hosts``.
    """
    asked = _ASKED.replace("HEAD", hosts[0].address)
    answers: dict[str, Answer] = {}
    with ThreadPoolExecutor(len(hosts)) as pool:
        waiting = [pool.submit(_ask, host, asked) for host in hosts]
        for done in as_completed(waiting):
            answer = done.result()
            answers[answer.host.name] = answer
            on_answer(answer)
    return [answers[host.name] for host in hosts]


def _ask(host: Host, asked: str) -> Answer:
    options = [
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={_CONNECT_REAL_S}",
        "-o",
        "StrictHostKeyChecking=accept-new",
    ]
    key = ["-i", host.key] if host.key else []
    command = ["ssh", *options, *key, "-l", host.user, host.address, "bash -s"]
    try:
        said = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=_TIMEOUT_REAL_S)
    except subprocess.TimeoutExpired:
        return Answer(host, (f"has not answered within {_TIMEOUT_REAL_S:g} s",), "")
    lines = said.stdout.splitlines()
    if "asked" not in lines:
        why = (said.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Answer(host, (f"SSH cannot log in as {host.user}: {why}",), "")
    problems = [f"lacks {line.removeprefix('lacks=')}" for line in lines if line.startswith("lacks=")]
    python = next((line.removeprefix("python=") for line in lines if line.startswith("python=")), "")
    return Answer(host, tuple(problems), python)


def make_secrets() -> None:
    """The cluster's token and the authority of its certificates in ``~/.ray``, where they are missing.

    Raises RunError.
    """
    home = Path.home() / ".ray"
    if not (home / "auth_token").exists():
        _call([str(Path(sys.executable).with_name("ray")), "get-auth-token", "--generate"])
        (home / "auth_token").chmod(0o600)
    key, certificate = home / "authority.key", home / "authority.pem"
    if key.exists() and certificate.exists():
        return
    if shutil.which("openssl") is None:
        raise RunError("there is no openssl here, which makes the authority of the machines' certificates; install it")
    home.mkdir(exist_ok=True)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", "/CN=natjam"]
    use = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _call(["openssl", "req", "-x509", *new, *use, "-keyout", str(key), "-out", str(certificate)])


def _call(command: Sequence[str]) -> None:
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if said.returncode:
        raise RunError(f"{' '.join(command[:2])} failed: {said.stderr.strip().splitlines()[-1:] or said.returncode}")
