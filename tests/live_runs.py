"""``natjam run`` as a separate process, for the live tests: its processes seen from outside, and what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from emulator.core.messages import Message
from emulator.live.janitor import HOST_VARIABLE, RUN_VARIABLE, find_run_processes, socket_directory
from emulator.live.tasks.progress_page import SLOT_BYTES, Progress, ProgressPage, WorkState
from emulator.records.journal import JournalError, read_journal
from tests.memory import groups_of, swaps_below
from tests.run_results import RunResults, matching

REPOSITORY = Path(__file__).resolve().parents[1]
START_BOUND_S = 120.0
END_BOUND_S = 120.0
COMMAND_BOUND_S = 200.0
LEFT_BOUND_S = 5.0
"""After its end, for any reason, a run must leave nothing behind within this time."""

TWO_QUEUES = """\
time_scale: 20
overheads: native
scheduler:
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.25, maximum: 1.0}, research: {capacity: 0.75, maximum: 1.0}}
  mechanism: checkpoint
"""
"""Start of an experiment file: production may take everything from research."""

SMALL = """\
name: small
time_scale: 20
overheads: native
cluster: {nodes: 2, containers_per_node: 4}
scheduler:
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.25, maximum: 1.0}, research: {capacity: 0.75, maximum: 1.0}}
  mechanism: suspend
workload:
  jobs:
    - {name: research, queue: research, submit_s: 0, maps: 2, map_s: 1, reduces: 7, reduce_s: [30], key_s: 1}
    - {name: production, queue: production, submit_s: 12, maps: 2, map_s: 1, reduces: 3, reduce_s: [10], key_s: 1}
"""
"""Fills its eight containers with research, then production asks for some of them."""

ENDLESS = SMALL.replace("reduce_s: [30]", "reduce_s: [5000]")
"""As ``SMALL``, but research does not end by itself."""

# Background jobs of a shell, and processes they start, ignore SIGINT; a run in the foreground does not.
NATJAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from emulator.cli.script import main
main()
"""

T = TypeVar("T")


@dataclass(frozen=True)
class RayCluster:
    """The tests' own Ray cluster."""

    address: str
    token: str
    directory: str
    """Directory of its temporary files."""

    def processes(self) -> set[int]:
        """Its processes, without those that work for runs and without idle workers, which Ray starts and ends
        freely."""
        found = with_variable("RAY_TMPDIR", self.directory)
        return {pid for pid in found if variable_of(pid, RUN_VARIABLE) is None and not _is_idle_worker(pid)}

    def raylet(self, address: str) -> int:
        """The raylet of its node at that IP address."""
        lines = {pid: command_line(pid) for pid in self.processes()}
        (pid,) = [pid for pid, line in lines.items() if "/raylet/raylet " in line and address in line]
        return pid


@contextlib.contextmanager
def ray_nodes(count: int, variables: Mapping[str, str] | None = None) -> Iterator[RayCluster]:
    """Ray nodes on this machine that are not of any run, with these variables in their environment."""
    command = [sys.executable, "-m", "tests.ray_nodes", *(f"127.0.0.{number}" for number in range(1, count + 1))]
    environment = {**os.environ, **(variables or {})}
    with helper(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as cluster:
        yield RayCluster(**cluster)


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """A temporary directory that is not below pytest's: the paths of Ray's sockets must be short."""
    directory = Path(tempfile.mkdtemp(prefix="nj-", dir="/tmp"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def helper(command: Sequence[str], **options: Any) -> Iterator[Any]:
    """A program of the tests that runs until its standard input ends; what its first line says, in JSON."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, cwd=REPOSITORY, **options) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"it does not start: {command}"
        yield json.loads(line)
    assert process.returncode == 0


def until(true: Callable[[], T], what: str | Callable[[], str], bound_s: float = START_BOUND_S) -> T:
    """Ask often until ``true()`` holds; returns its value.  Fails after a bound, and says what it waited for.

    Asking takes a fifth of a core at most, for what is asked about needs the rest.
    """
    deadline = time.monotonic() + bound_s
    while True:
        asked_s = time.thread_time()
        if value := true():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {bound_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(max(0.005, 4 * (time.thread_time() - asked_s)))


@dataclass(frozen=True)
class TaskProcess:
    """A map or reduce, as seen in /proc."""

    pid: int
    started: int
    """Start time, in clock ticks since the machine's start."""
    stopped: bool
    writes: str | None
    """Job of the partial output that it has open; a reduce that is not stopped has one."""


class LiveRun(RunResults, ABC):
    """A live run, wherever its hosts are: what can be seen of its processes and files."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The run's id."""

    @property
    @abstractmethod
    def log(self) -> str:
        """What it has printed, or why it has failed."""

    @abstractmethod
    def is_going_on(self) -> bool:
        """Whether it has not ended."""

    @abstractmethod
    def wait(self) -> int:
        """Wait for its end; returns its exit status."""

    @abstractmethod
    def work_directories(self) -> list[Path]:
        """The work directories of the run's node hosts."""

    def until(self, true: Callable[[], T], what: str) -> T:
        """Ask often until ``true()`` holds; fails after a bound, or if the run ends."""

        def asked() -> T:
            assert self.is_going_on(), f"the run has ended before {what}:\n{self.log}"
            return true()

        return until(asked, what)

    def supervisor(self, host: str | None = None) -> int:
        """The supervisor of a node host, or of the only one."""
        return self.until(lambda: self.modules("tasks.supervisor", host), f"supervisor of {host}")[0]

    def shuffle_service(self, host: str | None = None) -> int:
        """The shuffle service of a node host, or of the only one."""
        return self.until(lambda: self.modules("services.shuffle_service", host), f"shuffle service of {host}")[0]

    def modules(self, name: str, host: str | None = None) -> list[int]:
        """Processes that run one of the modules of ``emulator.live``, without their forks."""
        ours = find_run_processes(self.run_id, host)
        found = [pid for pid in ours if f"-m emulator.live.{name} " in command_line(pid)]
        return [pid for pid in found if _parent(pid) not in found]

    def tasks(self, host: str | None = None) -> list[TaskProcess]:
        """Map and reduce processes of all node hosts, or of ``host``."""
        supervisors = self.modules("tasks.supervisor", host)
        found = [_task(pid, self.out) for pid in find_run_processes(self.run_id, host) if _parent(pid) in supervisors]
        return [task for task in found if task is not None]

    def walking(self, job: str, keys: int = 3) -> list[TaskProcess]:
        """Running reduces of ``job``, the oldest first; waits until one has done some keys."""
        self.until(
            lambda: any(p.keys_done >= keys for p in self.progress() if p.state is WorkState.RUNNING), "keys done"
        )
        return sorted((task for task in self.tasks() if task.writes == job), key=lambda task: task.started)

    def progress(self) -> list[Progress]:
        """The slots of all progress pages found."""
        found = []
        for path in (path for directory in self.work_directories() for path in matching(directory, "page-*")):
            try:
                page = ProgressPage.open(path, path.stat().st_size // SLOT_BYTES)
            except (OSError, ValueError):
                continue  # not yet complete, or gone
            found += [page.read(slot) for slot in range(page.slots)]
            page.close()
        return found

    def stopped(self) -> list[TaskProcess]:
        """Suspended reduces."""
        return [task for task in self.tasks() if task.stopped]

    def journalled(self, kind: type[Message]) -> Callable[[], bool]:
        """A test whether the journal on disk already has such a message."""

        def look() -> bool:
            with contextlib.suppress(JournalError):  # the journal is not complete yet
                _, records = read_journal(self.out / "journal.jsonl.zst.unfinished")
                return any(type(record.message) is kind for record in records)
            return False

        return look

    def check_verified(self) -> dict[str, Any]:
        """Check that it has succeeded with the right output; returns its summary."""
        assert self.wait() == 0, self.log
        summary = self.summary
        output = summary["output"]
        assert output["verified"] is True
        assert output["keys_lost"] == output["keys_duplicated"] == output["files_differing"] == 0
        assert output["keys_written"] == output["keys_expected"] > 0
        assert {job["state"] for job in summary["jobs"]} == {"succeeded"}
        return summary


class NatjamRun(LiveRun):
    """A ``natjam run`` in a temporary directory of its own; leaving the block ends it and checks what is left.

    ``options`` are options of the command line.  It starts its own Ray unless a ``cluster`` is given.  ``variables``
    are added to its environment.  ``program`` is run instead of natjam, with the same arguments.
    """

    def __init__(
        self,
        directory: Path,
        *options: str,
        experiment: str = SMALL,
        program: str = NATJAM,
        cluster: RayCluster | None = None,
        out: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(out or directory / "out")
        self._log = directory / "log"
        self._file = directory / "experiment.yaml"
        self._file.write_text(experiment)
        self._options = options
        self._program = program
        self._cluster = cluster
        self._variables = dict(variables or {})
        self._held = contextlib.ExitStack()

    def __enter__(self) -> NatjamRun:
        own = self._variables.get("TMPDIR")
        self.temporary = Path(own) if own else self._held.enter_context(short_directory())
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment["TMPDIR"] = str(self.temporary)
        if self._cluster is not None:
            environment |= {"RAY_ADDRESS": self._cluster.address, "RAY_AUTH_TOKEN": self._cluster.token}
        environment |= self._variables
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self._program, "run", str(self._file), "--out", str(self.out), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=REPOSITORY,
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(END_BOUND_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
            if kind is None:
                self.check_nothing_left()
        finally:
            if kind is not None:
                print(self.log)
            self._held.close()

    @property
    def log(self) -> str:
        """Its output."""
        return self._log.read_text(errors="replace")

    def is_going_on(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        return self.process.wait(END_BOUND_S)

    def check_nothing_left(self) -> None:
        """Within a bound, all processes, swap, memory cgroups and temporary files of the run must be gone."""
        until(lambda: not self.left(), lambda: f"nothing left of the run, but {self.left()}", LEFT_BOUND_S)

    def left(self) -> list[str]:
        """Processes, swap, memory cgroups and temporary files of the run."""
        pids = self.processes()
        files = [*self.temporary.iterdir(), *swaps_below(self.temporary)]
        if self._found_run_id is not None:  # else it has hardly started
            pids += find_run_processes(self._found_run_id, directories=[self.temporary])
            files += [*self.work_directories(), *groups_of(self._found_run_id)]
        return [*(f"{pid} {command_line(pid)}" for pid in pids), *map(str, files)]

    def processes(self) -> list[int]:
        """All processes it has started, including its own Ray's."""
        return with_variable("TMPDIR", str(self.temporary))

    def socket_directories(self) -> list[Path]:
        """Those of its own Ray, as long as it has processes."""
        ids = {variable_of(pid, RUN_VARIABLE) or "" for pid in self.processes()}
        return [socket_directory(name) for name in ids if name.startswith("ray-")]

    def work_directories(self) -> list[Path]:
        """The work directories of the run's node hosts."""
        places = [self.temporary / f"natjam-{self.run_id}"]
        if self._cluster is not None:
            places.append(Path(self._cluster.directory))
        return [path for place in places for path in matching(place, f"natjam-{self.run_id}-*")]

    # ---- while it runs ----

    _found_run_id: str | None = None

    @property
    def run_id(self) -> str:
        """The run's id; waits until its work directory exists."""
        if self._found_run_id is None:
            names = until(lambda: [path.name for path in self.temporary.glob("natjam-????????")], "a work directory")
            self._found_run_id = names[0].removeprefix("natjam-")
        return self._found_run_id

    def host(self, name: str) -> int:
        """Process of a Ray actor: ``rm``, ``nodes-1``, ``applications-1``, ..."""

        def find() -> list[int]:
            return [pid for pid in find_run_processes(self.run_id, name) if command_line(pid).startswith("ray::")]

        return self.until(find, f"host {name}")[0]

    def hosts(self) -> dict[str, int]:
        """The processes of all Ray actors that live, by name."""
        pids = [pid for pid in find_run_processes(self.run_id) if command_line(pid).startswith("ray::")]
        return {name: pid for pid in pids if (name := variable_of(pid, HOST_VARIABLE)) is not None}

    def janitor(self) -> int:
        """The process that cleans up after the driver."""
        return next(pid for pid in _children(self.process.pid) if "emulator.live.janitor" in command_line(pid))

    # ---- afterwards ----

    def check_failed(self, *said: str) -> None:
        """Check that it has ended with status 1, a message that has all texts of ``said``, and no traceback."""
        assert self.wait() == 1, self.log
        message = "\n".join(line for line in self.log.splitlines() if line.startswith("natjam: "))
        for text in said:
            assert text in message, self.log
        assert "Traceback" not in self.log


def natjam(*arguments: str | Path, cwd: Path = REPOSITORY, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """What a command says and its exit status, within a bound.  ``variables`` are added to its environment."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "COLUMNS": "160",
        **{name: str(value) for name, value in variables.items()},
    }
    # -P: Python finds no more than for an installed script
    command = [sys.executable, "-P", "-c", "from emulator.cli.script import main; main()", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=COMMAND_BOUND_S, check=False
    )


# ---- /proc ----


def wait(for_s: float) -> None:
    """Until a moment that a test tries: anything may be under way then."""
    until_s = time.monotonic() + for_s
    until(lambda: time.monotonic() >= until_s, "the moment")


def send(process: subprocess.Popen[bytes] | subprocess.Popen[str], number: signal.Signals) -> None:
    """To the leader of a group; SIGINT to all of the group, as a terminal does.  It may have ended."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)


def command_line(pid: int) -> str:
    """Arguments of a process; empty if it is gone."""
    return _read(pid, "cmdline").replace("\0", " ").strip()


def gone(pids: Iterable[int]) -> bool:
    """Whether none of these processes lives; their ids are not reused so soon."""
    return all(_stat(pid)[:1] in ([], ["Z"], ["X"]) for pid in pids)


def listening(*pids: int) -> set[tuple[str, int]]:
    """Addresses and ports on which processes accept TCP connections."""
    found: set[tuple[str, int]] = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # tasks come and go
            connections = psutil.Process(pid).net_connections("tcp")
            accepts = [c.laddr for c in connections if c.status == psutil.CONN_LISTEN]
            found |= {(at.ip.removeprefix("::ffff:"), at.port) for at in accepts}
    return found


def with_variable(name: str, value: str) -> list[int]:
    """Processes with a variable in their initial environment."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    return [pid for pid in pids if pid != os.getpid() and variable_of(pid, name) == value]


def variable_of(pid: int, name: str) -> str | None:
    """The value of a variable in a process' initial environment; None: not set."""
    for entry in _read(pid, "environ").split("\0"):
        if entry.startswith(f"{name}="):
            return entry.partition("=")[2]
    return None


def _is_idle_worker(pid: int) -> bool:
    command = _read(pid, "cmdline").split("\0")
    return command[0].startswith("ray::IDLE") or any(part.endswith("/default_worker.py") for part in command)


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on; empty if it is gone."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and _parent(int(entry)) == pid]


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _task(pid: int, out: Path) -> TaskProcess | None:
    fields = _stat(pid)
    if not fields or fields[0] in "ZX":
        return None
    partial = out / "output" / "_partial"
    writes = None
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = Path(os.readlink(descriptor))
            if target.is_relative_to(partial):
                writes = target.relative_to(partial).parts[0]
    except OSError:
        pass  # it has ended, or closed the file, meanwhile
    return TaskProcess(pid, int(fields[19]), fields[0] == "T", writes)
