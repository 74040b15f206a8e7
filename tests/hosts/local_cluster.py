"""``cluster.yaml`` for hosts that are there already: what differs is here, and why; all else is the file's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from tests.hosts.host_init import HOME
from tests.hosts.namespaces import ENVIRONMENT, REPOSITORY, Network

_PREPARED = """\
test -x ~/natjam-venv/bin/python || {{ python3 -m venv --without-pip ~/natjam-venv
&& for script in pip ray; do sed "1s|.*|#!$HOME/natjam-venv/bin/python|" {environment}/bin/$script
> ~/natjam-venv/bin/$script; chmod +x ~/natjam-venv/bin/$script; done
&& for packages in ~/natjam-venv/lib/python3*/site-packages; do echo {packages} > $packages/prepared.pth; done; }}"""


def cluster_file(network: Network, head: str, workers: Sequence[str]) -> str:
    """The text of ``cluster.local.yaml``."""
    cluster: dict[str, Any] = yaml.safe_load((REPOSITORY / "cluster.yaml").read_text())
    # The hosts are not to be had from a cloud: they have names and addresses.
    del cluster["available_node_types"], cluster["head_node_type"], cluster["max_workers"]
    cluster["provider"] = {
        "type": "local",
        "head_ip": network.addresses[head],
        "worker_ips": [network.addresses[worker] for worker in workers],
    }
    cluster["auth"] = {"ssh_user": "root", "ssh_private_key": f"{HOME}/.ssh/key"}
    # The hosts see Debian's packages of this machine.
    commands = _without(cluster["setup_commands"], "sudo apt-get")
    # They reach no package index.  What it would give is the tests' own environment's, where Ray has no extras.
    packages = next((ENVIRONMENT / "lib").glob("python3*")) / "site-packages"
    prepared = _PREPARED.format(environment=ENVIRONMENT, packages=packages).replace("\n", " ")
    made = next(command for command in commands if "python3 -m venv" in command)
    cluster["setup_commands"] = [
        prepared if command is made else command.replace("ray[default]", "ray") for command in commands
    ]
    # For Google's machines only.
    cluster["head_setup_commands"] = _without(cluster["head_setup_commands"], "google-api-python-client")
    return yaml.safe_dump(cluster, sort_keys=False)


def _without(commands: list[str], text: str) -> list[str]:
    left = [command for command in commands if text not in command]
    assert len(left) == len(commands) - 1, f"cluster.yaml has no single command with {text!r}"
    return left
