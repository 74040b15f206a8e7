"""Hosts of one machine: each has its own network, processes, mounts, name and clock, and a link of a set bandwidth.

A host is a set of Linux namespaces.  All hosts hang on a switch, a bridge in a network namespace of its own, so that no
address or route of the machine is touched, and none of its processes or files can be seen to be changed by a host.  A
host ends when its pipe does (see ``tests.hosts.host_init``), and with it everything that runs on it: nothing has to be
found and nothing can be left.  Needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.hosts.host_init import HOME

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = Path(sys.prefix).resolve()
"""The virtual environment that the tests run in."""
LAPTOP = "laptop"
_SSHD = "/usr/sbin/sshd"
_START_BOUND_S = 30


def missing() -> str | None:
    """Why hosts cannot be made here; None where they can."""
    if os.geteuid() != 0:
        return "hosts made of namespaces need root"
    programs = ("unshare", "nsenter", "ip", "tc", "ssh", "ssh-keygen", "rsync", _SSHD)
    if absent := [program for program in programs if shutil.which(program) is None]:
        return f"not installed: {', '.join(absent)} (`make cluster-test` installs them)"
    tried = subprocess.run([*_UNSHARE, "--time", "true"], capture_output=True, text=True, timeout=_START_BOUND_S)
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else None


_UNSHARE = ["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]


@dataclass(frozen=True)
class Host:
    """One of them."""

    name: str
    address: str
    process: subprocess.Popen[str]
    pid: int
    """Its first process, as seen from the machine."""

    def command(self, *arguments: str, variables: Mapping[str, str] | None = None, cwd: str = HOME) -> list[str]:
        """What the machine is to run for ``arguments`` to be run on the host."""
        given = {"HOME": HOME, "USER": "root", "LANG": "C.UTF-8", "TERM": "dumb", "PATH": _PATH}
        given |= ({"PYTHONPATH": str(REPOSITORY)} if self.name == LAPTOP else {}) | dict(variables or {})
        inside = ["env", "-i", "-C", cwd, *(f"{name}={value}" for name, value in given.items()), *arguments]
        return ["nsenter", "--target", str(self.pid), "--all", *inside]

    def run(
        self, *arguments: str, bound_s: float = 60, variables: Mapping[str, str] | None = None, cwd: str = HOME
    ) -> str:
        """Run a program on the host; what it prints.  Raises CalledProcessError, TimeoutExpired."""
        command = self.command(*arguments, variables=variables, cwd=cwd)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=bound_s)
        if done.returncode:
            print(done.stdout)
        done.check_returncode()
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Make a file on the host."""
        subprocess.run(self.command("tee", path), input=text, stdout=subprocess.DEVNULL, text=True, check=True)

    def processes(self) -> dict[int, str]:
        """Command lines of all that runs on the host, by the machine's process ids."""
        own = _processes_of(self.pid)
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                if _processes_of(process.pid) == own and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = " ".join(process.cmdline())
        return found

    def end(self) -> None:
        """Have the host and all that runs on it be gone."""
        _end(self.process)


def _processes_of(pid: int) -> str:
    """Name of a process' pid namespace."""
    return os.readlink(f"/proc/{pid}/ns/pid")


_PATH = f"{ENVIRONMENT}/bin:{sys.base_prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Network:
    """A switch and the hosts on it; see ``network``."""

    def __init__(
        self, directory: Path, names: Sequence[str], mbit_s: int, captured: bool, held: contextlib.ExitStack
    ) -> None:
        self._directory = directory
        self._mbit_s = mbit_s
        self._held = held
        self._switch = self._start(["unshare", "--net", "--pid", "--fork", "--kill-child", "cat"])[1]
        self._ip(self._switch, "link", "add", "switch", "type", "bridge")
        self._ip(self._switch, "link", "set", "switch", "up")
        self.packets = directory / "packets"
        """All that goes over the links, if it is captured; see ``tests.hosts.packets``."""
        if captured:
            self._capture()
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, start=1)}
        self.key = directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self.shared = directory / "shared"
        """What the hosts see as ``SHARED``."""
        self.shared.mkdir()
        self.hosts: dict[str, Host] = {}
        for number, name in enumerate(names):
            self.hosts[name] = self._add(name, number)

    def _add(self, name: str, number: int) -> Host:
        """A host with its link.  Its clock is as far from the machine's as if it had started at another time."""
        laptop = name == LAPTOP
        own = self._directory / name
        own.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own / "host-key"], check=True)
        told = {
            "name": name,
            "hosts": self.addresses,
            "ssh": not laptop,
            "kept": [str(path) for path in (sys.base_prefix, REPOSITORY if laptop else ENVIRONMENT, ENVIRONMENT)],
            "shared": str(self.shared),
            "files": self._files(own, self.addresses[name], laptop),
        }
        clock = ["--time", "--monotonic", str(1000 * (number + 1)), "--boottime", str(1000 * (number + 1))]
        init = [sys.executable, str(Path(__file__).with_name("host_init.py"))]
        process, pid = self._start([*_UNSHARE, *clock, *init])
        self._link(name, pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(told)}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n", f"{name} does not start"
        return Host(name, self.addresses[name], process, pid)

    def _files(self, own: Path, address: str, laptop: bool) -> dict[str, tuple[int, str]]:
        """Path on the host: mode and text."""
        python = f"export PATH={sys.base_prefix}/bin:$PATH\n"
        files = {
            f"{HOME}/.profile": (0o644, python),
            f"{HOME}/.bashrc": (0o644, ""),
            f"{HOME}/.config/pip/pip.conf": (0o644, _PIP),
        }
        if laptop:
            return files | {f"{HOME}/.ssh/key": (0o600, self.key.read_text())}
        return files | {
            f"{HOME}/.ssh/authorized_keys": (0o600, self.key.with_suffix(".pub").read_text()),
            "/run/host-key": (0o600, (own / "host-key").read_text()),
            "/run/sshd_config": (0o600, _SSHD_CONFIG.format(address=address)),
        }

    def _start(self, command: list[str]) -> tuple[subprocess.Popen[str], int]:
        """Start the first process of a namespace: the one that ``unshare`` forks."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        self._held.callback(_end, process)
        while not (children := psutil.Process(process.pid).children()):
            assert process.poll() is None, f"{command[0]} has ended"
        return process, children[0].pid

    def _capture(self) -> None:
        capture = [sys.executable, str(Path(__file__).with_name("packets.py")), str(self.packets)]
        process = subprocess.Popen(
            ["nsenter", "--target", str(self._switch), "--net", *capture],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._held.callback(_end, process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "packets cannot be captured"

    def _link(self, name: str, pid: int) -> None:
        self._ip(self._switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self._ip(self._switch, "link", "set", name, "master", "switch", "up")
        self._ip(pid, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip(pid, "link", "set", device, "up")
        self._ip(pid, "route", "add", "default", "dev", "eth0")
        self._shape(name, pid, self._mbit_s)

    def set_speed(self, mbit_s: int) -> None:
        """Change the speed of all links."""
        for host in self.hosts.values():
            self._shape(host.name, host.pid, mbit_s)

    def _shape(self, name: str, pid: int, mbit_s: int) -> None:
        for at, device in ((self._switch, name), (pid, "eth0")):
            shape = ["rate", f"{mbit_s}mbit", "burst", "256kb", "latency", "50ms"]
            _inside(at, "tc", "qdisc", "replace", "dev", device, "root", "tbf", *shape)

    def cut(self, name: str) -> None:
        """Nothing goes over the link of this host any more; neither end is told."""
        self._ip(self._switch, "link", "set", name, "nomaster")

    def mend(self, name: str) -> None:
        """It does again."""
        self._ip(self._switch, "link", "set", name, "master", "switch")

    def _ip(self, pid: int, *arguments: str) -> None:
        _inside(pid, "ip", *arguments)


_PIP = "[global]\nno-index = true\ndisable-pip-version-check = true\n[install]\nno-build-isolation = false\n"
"""Hosts reach no package index: all that pip is to install must be there already.  (pip turns the last value round.)"""
_SSHD_CONFIG = """\
ListenAddress {address}
HostKey /run/host-key
PidFile none
AuthenticationMethods publickey
PermitRootLogin prohibit-password
AllowUsers root
UsePAM no
UseDNS no
StrictModes yes
Subsystem sftp internal-sftp
"""


def _inside(pid: int, *command: str) -> None:
    """Run a program of the machine in the network of a process."""
    subprocess.run(["nsenter", "--target", str(pid), "--net", *command], check=True)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_START_BOUND_S)
    except subprocess.TimeoutExpired:
        process.kill()  # and with it what it has started
        process.wait()


@contextlib.contextmanager
def network(directory: Path, names: Sequence[str], mbit_s: int, captured: bool) -> Iterator[Network]:
    """Hosts of these names, each with a link of ``mbit_s``; gone at the end.  ``captured``: keep all packets.

    The one called ``LAPTOP`` has the tests' own checkout and no ``sshd``.
    """
    with contextlib.ExitStack() as held:
        yield Network(directory, names, mbit_s, captured, held)
