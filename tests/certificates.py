"""The certificates of a cluster, as ``cluster.yaml`` has them made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from emulator.live.encryption import AUTHORITY, CERTIFICATE, KEY, SWITCH

_CLUSTER_FILE = Path(__file__).resolve().parents[1] / "cluster.yaml"


def before_the_first_up() -> str:
    """The commands that the head of the file says are to be given once."""
    lines = _CLUSTER_FILE.read_text().splitlines()
    return "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))


def machine_certificate() -> str:
    """The command by which a machine makes its own."""
    (command,) = [c for c in yaml.safe_load(_CLUSTER_FILE.read_text())["setup_commands"] if "openssl" in c]
    return command


def certificates_in(home: Path, *addresses: str) -> dict[str, str]:
    """Make an authority and a certificate of this machine below ``home``; the variables of Ray that name them.

    ``addresses``: what `hostname -I` is to say, in place of the machine's own.
    """
    said = f"hostname() {{ echo {' '.join(addresses)}; }}; " if addresses else ""
    folder = home / ".ray"
    folder.mkdir(parents=True)
    authority = before_the_first_up()
    for command in (authority[authority.index("openssl") :], machine_certificate()):
        subprocess.run(
            ["bash", "-c", f"{said}{command}"], env={**os.environ, "HOME": str(home)}, capture_output=True, check=True
        )
    files = {CERTIFICATE: "machine.pem", KEY: "machine.key", AUTHORITY: "authority.pem"}
    return {SWITCH: "1"} | {variable: str(folder / name) for variable, name in files.items()}
