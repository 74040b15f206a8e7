"""The first process of a host made of namespaces: makes the host its own, runs its ``sshd``, takes in its orphans.

Started by ``tests.hosts.namespaces`` as process 1 of a pid namespace, with a pipe as standard input.  It begins with
the first line of the pipe, which says in JSON what the host is to be, and ends with the pipe; the kernel then ends
every process of the host, and its mounts, links and names are gone with it.  Standard library only.

What the machine's own files are, the host sees read-only.  Its own are in memory: ``/tmp``, ``/home``, ``/run`` and
``/dev/shm``.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

COVERED = ("/tmp", "/home", "/run", "/dev/shm")
HOME = "/home/natjam"
SHARED = "/srv"
"""A directory that all hosts see, as a shared disk would be."""


def main() -> None:
    """Be the host."""
    host: dict[str, Any] = json.loads(sys.stdin.readline())
    _mount_own(host["kept"], host["shared"])
    _write_own(host)
    subprocess.run(["hostname", host["name"]], check=True)
    if host["ssh"]:
        subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", "/run/sshd_config"], stdin=subprocess.DEVNULL)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.5)[0]:
        _take_in_orphans()


def _take_in_orphans() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _mount_own(kept: list[str], shared: str) -> None:
    """Cover what must be the host's own; what lies below and is needed all the same stays where it was."""
    held = {path: os.open(path, os.O_PATH) for path in [*kept, shared]}
    _mount("--bind", _of(held[shared]), SHARED)
    for covered in COVERED:
        _mount("-t", "tmpfs", "-o", "mode=1777" if covered in ("/tmp", "/dev/shm") else "mode=755", "tmpfs", covered)
    for path in kept:
        os.makedirs(path, exist_ok=True)
        _mount("--no-canonicalize", "--bind", _of(held[path]), path)  # by its name it is covered by now
        _mount("-o", "remount,bind,ro", path)
    for name in ("resolv.conf", "hosts", "passwd"):
        Path("/run", name).touch()
        target = Path("/etc", name).resolve()
        if not target.exists():  # a link to what was below /run
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        _mount("--bind", f"/run/{name}", str(target))
    # Machines are told apart by it.
    Path("/run/boot_id").write_text(Path("/proc/sys/kernel/random/uuid").read_text())
    _mount("--bind", "/run/boot_id", "/proc/sys/kernel/random/boot_id")
    _mount("-o", "remount,bind,ro", "/")


def _of(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _write_own(host: dict[str, Any]) -> None:
    Path("/etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in host["hosts"].items()))
    Path("/etc/passwd").write_text(
        f"root:x:0:0:root:{HOME}:/bin/bash\n"
        "sshd:x:102:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
    )
    for directory in ("/run/sshd", HOME, f"{HOME}/.ssh"):
        os.makedirs(directory, mode=0o700)
    for path, (mode, text) in host["files"].items():
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=mode)
        path.write_text(text)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
