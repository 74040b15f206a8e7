"""What ``natjam hosts`` writes for hosts that are there already, but for what the tests' hosts lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from emulator.live.machines import for_hosts
from tests.hosts.host_init import HOME
from tests.hosts.namespaces import ENVIRONMENT, Network

_PREPARED = """\
test -x ~/natjam-venv/bin/python || {{ python3 -m venv --without-pip ~/natjam-venv
&& for script in pip ray; do sed "1s|.*|#!$HOME/natjam-venv/bin/python|" {environment}/bin/$script
> ~/natjam-venv/bin/$script; chmod +x ~/natjam-venv/bin/$script; done
&& for packages in ~/natjam-venv/lib/python3*/site-packages; do echo {packages} > $packages/prepared.pth; done; }}"""


def cluster_file(network: Network, head: str, workers: Sequence[str]) -> str:
    """The text of ``cluster.local.yaml``."""
    addresses = [network.addresses[host] for host in (head, *workers)]
    cluster: dict[str, Any] = yaml.safe_load(for_hosts(addresses[0], addresses[1:], "root", f"{HOME}/.ssh/key"))
    cluster["file_mounts"]["~/natjam"] = "."
    commands = cluster["setup_commands"]
    # They reach no package index.  What it would give is the tests' own environment's, where Ray has no extras.
    packages = next((ENVIRONMENT / "lib").glob("python3*")) / "site-packages"
    prepared = _PREPARED.format(environment=ENVIRONMENT, packages=packages).replace("\n", " ")
    made = next(command for command in commands if "python3 -m venv" in command)
    cluster["setup_commands"] = [
        prepared if command is made else command.replace("ray[default]", "ray") for command in commands
    ]
    return yaml.safe_dump(cluster, sort_keys=False)
