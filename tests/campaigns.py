"""A small campaign, and ``natjam`` as a separate process that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow
import pyarrow.parquet

from tests.live_runs import NATJAM, REPOSITORY, SMALL, until

CAMPAIGN = """\
name: small
experiment: experiment.yaml
set: {engine: sim, overheads: hadoop-0.23}
grid: {scheduler.task_eviction: [srt, lrt]}
seeds: 20
"""


def write_campaign(folder: Path, campaign: str = CAMPAIGN) -> Path:
    """Write the campaign file, with its experiment beside it; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(SMALL)
    path = folder / "campaign.yaml"
    path.write_text(campaign)
    return path


def table(directory: Path) -> pyarrow.Table:
    """Read ``campaign.parquet``."""
    return pyarrow.parquet.read_table(directory / "campaign.parquet")


class NatjamProcess:
    """``natjam ARGUMENTS`` as a separate process; if it has not ended, it is killed with all that it has started."""

    def __init__(self, *arguments: str | Path, **variables: str) -> None:
        """``variables`` are added to its environment."""
        self._arguments = [str(argument) for argument in arguments]
        self._variables = variables

    def __enter__(self) -> NatjamProcess:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", NATJAM, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment | self._variables,
            cwd=REPOSITORY,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.family():
            process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def family(self) -> list[psutil.Process]:
        """The process and all processes it has started."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def has_done(self, directory: Path, runs: int) -> None:
        """Wait until that many runs of the campaign in ``directory`` are complete."""

        def enough() -> bool:
            assert self.process.poll() is None, "it ended too soon"
            return len(list(directory.glob("runs/*/*/summary.json"))) >= runs

        until(enough, f"{runs} runs in {directory}")

    def named_semaphores(self) -> set[str]:
        """Those that its processes have open: they stay on the machine if all of these are killed."""
        maps = [Path("/proc", str(process.pid), "maps").read_text() for process in self.family()]
        return {word for text in maps for word in text.split() if word.startswith("/dev/shm/sem.")}

    def leaves_nothing(self) -> None:
        """Wait until it and all processes it has started are gone."""
        self.process.wait()
        until(lambda: not self.family(), lambda: f"still there: {self.family()}", bound_s=10)

    def output(self) -> str:
        """What it has printed; waits for its end."""
        return self.process.communicate()[0]
