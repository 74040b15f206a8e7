"""Machines that are reached by SSH: what SSH's configuration says of them, and whether they can form a cluster."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import ConfigError, RunError

_CONNECT_REAL_S = 10
_PATIENCE_REAL_S = 40.0
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
        said = subprocess.run(["ssh", "-G", *options, name], capture_output=True, text=True, timeout=_PATIENCE_REAL_S)
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
        said = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=_PATIENCE_REAL_S)
    except subprocess.TimeoutExpired:
        return Answer(host, (f"has not answered within {_PATIENCE_REAL_S:g} s",), "")
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
