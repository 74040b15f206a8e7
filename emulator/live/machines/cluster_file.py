"""Cluster files for ``ray up``: the checkout's ``cluster.yaml``, which is Google's, for other machines.

Setup and start commands stay as they are there.  Only what depends on who gives the machines is replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from emulator.errors import ConfigError

CHECKOUT = Path(__file__).resolve().parents[3]
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
