"""``natjam run --watch``: starts the process that serves the page, and sends it news of the run.

The news goes through a thread, so a slow page never makes the run wait.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import msgspec
from msgspec.structs import asdict

from emulator.display.status import RunStatus
from emulator.errors import RunError
from emulator.experiment.expand import expand
from emulator.experiment.model import Experiment
from emulator.live.tasks.supervisor_client import TOKEN_VARIABLES
from emulator.live.tasks.task import pack
from emulator.resolved import nodes_of

_END_TIMEOUT_REAL_S = 5.0


class WatchPage:
    """The page of one experiment with all its repeats; a context manager, to be used from one thread only.

    Raises RunError on entry if the page's process does not start.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._repeat = 0
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def __enter__(self) -> WatchPage:
        command = [sys.executable, "-m", "analysis.watch.server"]
        # In its own session, so that Ctrl-C reaches only the run; the end of the run ends the page.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=_environment()
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().decode().strip()
        """URL for a browser."""
        if not self.address:
            self._process.wait()
            raise RunError(f"the page of --watch did not start (exit status {self._process.returncode})")
        self._writer = threading.Thread(target=self._write, name="watch-page", daemon=True)
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._outgoing.put(None)
        try:
            self._process.wait(_END_TIMEOUT_REAL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._writer.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def process_id(self) -> int:
        """Id of the process that serves the page."""
        return self._process.pid

    def update(self, status: RunStatus) -> None:
        """Send the newest status and the records that came with it."""
        if status.repeat != self._repeat:
            self._repeat = status.repeat
            self._begin()
        self._tell(
            {
                "kind": "status",
                "phase": status.phase,
                "emulated_s": status.emulated_ns / 1e9,
                "real_s": status.real_s,
                "time_scale": status.time_scale,
                "lag_p99_real_ms": status.lag_p99_real_ms,
                "containers_used": dict(status.containers_used_by_queue),
                "jobs": [asdict(job) for job in status.jobs],
                "journal": status.journal,
            }
        )

    def end(self, said: str, report: Path | None) -> None:
        """Send how the run has ended, and the path of its report, which the page then shows."""
        self._tell({"kind": "end", "said": said, "report": None if report is None else str(report)})

    def _begin(self) -> None:
        experiment = self._experiment
        jobs = expand(experiment, experiment.seed + self._repeat - 1)
        self._tell(
            {
                "kind": "begin",
                "title": experiment.name,
                "nodes": msgspec.to_builtins(nodes_of(experiment.cluster)),
                "jobs": msgspec.to_builtins(jobs),
            }
        )

    def _tell(self, message: dict[str, object]) -> None:
        if self._writer.is_alive():  # else the page is gone; the run continues without it
            self._outgoing.put(pack(message))

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(OSError), pipe:
            while (packed := self._outgoing.get()) is not None:
                pipe.write(packed)
                pipe.flush()


def _environment() -> dict[str, str]:
    """The environment of the page's process, with one thread per library: more would only slow the run down."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
    return {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES} | threads
