"""A small campaign, and ``natjam`` as a process of its own that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow
import pyarrow.parquet

from tests.live_runs import REPOSITORY, SMALL, until

CAMPAIGN = """\
name: small
experiment: experiment.yaml
set: {engine: sim, overheads: hadoop-0.23}
grid: {scheduler.task_eviction: [srt, lrt]}
seeds: 30
"""

# A shell's background jobs, and so what they start, ignore SIGINT; a run in the foreground does not.
_NATJAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from emulator.cli.script import main
main()
"""


def write_campaign(folder: Path, campaign: str = CAMPAIGN) -> Path:
    """The campaign file, its experiment beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(SMALL)
    path = folder / "campaign.yaml"
    path.write_text(campaign)
    return path


def table(directory: Path) -> pyarrow.Table:
    """``campaign.parquet``."""
    return pyarrow.parquet.read_table(directory / "campaign.parquet")


class NatjamProcess:
    """``natjam ARGUMENTS`` as a process of its own; killed, with what it has started, if it has not ended."""

    def __init__(self, *arguments: str | Path, **variables: str) -> None:
        """``variables`` are added to its environment."""
        self._arguments = [str(argument) for argument in arguments]
        self._variables = variables

    def __enter__(self) -> NatjamProcess:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _NATJAM, *self._arguments],
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
        """The process and all it has started."""
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

    def leaves_nothing(self) -> None:
        """Wait until it and all it has started are gone."""
        self.process.wait()
        until(lambda: not self.family(), lambda: f"still there: {self.family()}", bound_s=10)

    def output(self) -> str:
        """What it has printed, once it has ended."""
        return self.process.communicate()[0]
