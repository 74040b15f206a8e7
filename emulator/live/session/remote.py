"""A cluster made by ``ray up``, seen from the user's machine: commands and files go over Ray's own SSH.

Every command is short and has its own connection, so a lost connection costs one try and never the run.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from emulator.errors import ConfigError, RunError
from emulator.interruption import check_interrupted

RUNS = "natjam-runs"
"""Directory of the runs, in the home directory of the cluster's user."""
_PERIOD_REAL_S = 3.0
_CONNECT_TIMEOUT_REAL_S = 120.0
_TRIES_REAL_S = (2, 5, 10, 20, 40, 60, 60, 60)
"""Waits between tries to reach a cluster that was reached before."""
_MAX_SENT_BYTES = 100 * 2**20
_NOT_SENT = {".git", ".venv", "runs", "__pycache__"}
_PAGE = re.compile(rb"http://127\.0\.0\.1:(\d+)/[\w-]+/")
"""Where the page of a run with ``--watch`` is: at a port of the head, and then at the same port here."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ANSWER = re.compile(rb"natjam:(\d+):([A-Za-z0-9+/=]*):")


class UnreachableError(RunError):
    """The cluster does not answer."""


class RemoteCluster:
    """The cluster of a cluster file."""

    def __init__(self, file: Path) -> None:
        """Raises ConfigError if there is no such file."""
        if not file.is_file():
            raise ConfigError(f"--cluster {file}: is no file; name what `ray up` was given")
        self.file = file

    def run(self, command: str, *options: str) -> tuple[int, bytes]:
        """Run a shell command on the head; returns its exit status and its output.  Raises UnreachableError.

        ``options`` are for ``ray exec``.
        """
        # Ray and SSH print too, through a terminal, so our part of the output is marked.
        marked = f'said=$({{ {command}; }} 2>&1 | base64 -w0; exit "${{PIPESTATUS[0]}}"); echo "natjam:$?:$said:"'
        answer = _ANSWER.search(self._ray("exec", str(self.file), marked, *options))
        if answer is None:
            raise UnreachableError(f"the cluster of {self.file} does not answer")
        return int(answer[1]), base64.b64decode(answer[2])

    def call(self, command: str) -> str:
        """Like ``run``, for a command that must succeed; otherwise raises RunError with its output."""
        status, said = self.run(command)
        text = said.decode(errors="replace").strip()
        if status:
            raise (ConfigError if status == ConfigError.exit_code else RunError)(text.removeprefix("natjam: "))
        return text

    def start(self, name: str, command: Sequence[str], sent: bool) -> None:
        """Start a command of natjam in the background; if files were ``sent``, in their directory.

        Raises ConfigError, RunError with natjam's message.
        """
        at = f"~/{RUNS}/{_checked(name)}.files" if sent else f"~/{RUNS}"
        natjam = f'{shlex.join(["natjam", *command, "--detach"])} --out "$HOME"/{RUNS}/{_checked(name)}'
        self.call(f"mkdir -p {at} && cd {at} && RAY_ADDRESS=auto {natjam}")

    def natjam(self, command: str, name: str, *arguments: str) -> str:
        """The output of ``natjam status``, or the like, about a run on the head.  Raises ConfigError, RunError."""
        return self.call(f"cd ~/{RUNS} && natjam {shlex.join([command, _checked(name), *arguments])}")

    def send(self, directory: Path, name: str) -> None:
        """Copy a directory to the head, as ``RUNS/name.files``.  Raises ConfigError if it is too large, RunError."""
        if _size(directory) > _MAX_SENT_BYTES:
            raise ConfigError(
                f"{directory}: holds more than {_MAX_SENT_BYTES // 2**20} MiB, and all that lies beside an experiment "
                "goes to the cluster; put the experiment, with what it names, in a directory of its own"
            )
        self.call(f"mkdir -p ~/{RUNS}/{_checked(name)}.files")
        self._copy("rsync-up", f"{directory}/", f"~/{RUNS}/{name}.files/")

    def fetch(self, name: str, directory: Path) -> None:
        """Copy a run's directory from the head.  Raises RunError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._copy("rsync-down", f"~/{RUNS}/{name}/", f"{directory}/")

    def _copy(self, command: str, source: str, target: str) -> None:
        if b"natjam-copied" not in self._ray(command, str(self.file), source, target, then=b"natjam-copied"):
            raise UnreachableError(f"the cluster of {self.file} does not answer: {source} has not been copied")

    def _ray(self, *arguments: str, then: bytes = b"") -> bytes:
        """The output of ``ray``, followed by ``then`` if it succeeds."""
        command = [str(Path(sys.executable).with_name("ray")), *arguments]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            said, _ = process.communicate(timeout=_CONNECT_TIMEOUT_REAL_S)
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"the cluster of {self.file} has not answered in time") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return said + then if process.returncode == 0 else said

    def printed(self, name: str) -> Iterator[bytes]:
        """The output of a run from its start to its end, as it comes, even if connections are lost.

        Meanwhile the page of a run with ``--watch`` is at the same address here: Ray's SSH keeps a connection, and the
        ports that it forwards, for ten seconds after each command.

        Raises UnreachableError if the cluster cannot be reached any more, ConfigError if there is no such run.
        """
        log, address = f"{_checked(name)}.log", f"{name}.page"  # see emulator.live.session.detached
        self.call(f"cd ~/{RUNS} && test -e {log} || {{ echo {name}: no such run on the cluster; exit 2; }}")
        told, tries, forward = 0, 0, ()
        while True:
            # First ask whether it runs, then read: so its last output is not missed.
            running = f'cd ~/{RUNS} && grep -lsxzFe"$(pwd -P)"/{log} /proc/[0-9]*/cmdline | wc -l'
            try:  # every second try forwards nothing: the port may be in use here
                asked = f"{running}; cat {address} 2>/dev/null || echo; tail -c +{told + 1} {log}"
                _, said = self.run(asked, *(() if tries % 2 else forward))
                tries = 0
            except UnreachableError:
                if tries == len(_TRIES_REAL_S):
                    raise
                self._wait(_TRIES_REAL_S[tries])
                tries += 1
                continue
            count, at, piece = said.split(b"\n", 2)
            told += len(piece)
            if not forward and (page := _PAGE.fullmatch(at)):
                forward = ("--port-forward", page[1].decode())
                yield b"watch it at %s\n" % at
            if piece:
                yield piece
            if count.strip() == b"0":
                return
            self._wait(_PERIOD_REAL_S)

    def _wait(self, real_s: float) -> None:
        time.sleep(real_s)
        check_interrupted()


def _checked(name: str) -> str:
    """Check the name of a run, which must need no quotes anywhere.  Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"'{name}': on a cluster, the name of a run's directory has letters, digits and ._- only")
    return name


def _size(directory: Path) -> int:
    """Bytes below a directory that would be sent; stops counting above the limit."""
    total = 0
    for path, names, files in os.walk(directory):
        names[:] = [name for name in names if name not in _NOT_SENT]
        total += sum(os.lstat(os.path.join(path, name)).st_size for name in files)
        if total > _MAX_SENT_BYTES:
            break
    return total
