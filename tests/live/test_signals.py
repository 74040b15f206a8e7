"""Ctrl-C and SIGTERM, once and twice, at random moments of all that takes long: 130 in bounded time, nothing left.

``NATJAM_SIGNALS=100 pytest -s -m slow tests/live/test_signals.py`` tries as many of each kind; without it, some.
``NATJAM_SIGNALS_FROM`` is the seed to begin with.  It prints a table.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.interruption import EXIT_CODE
from tests.campaigns import NatjamProcess, write_campaign
from tests.live_runs import ENDLESS, command_line, send, short_directory, until, wait, with_variable
from tests.simulated_runs import FIG4

END_BOUND_S = 10.0
"""From the first signal to the end of the process."""
LEFT_BOUND_S = 5.0
COUNT = int(os.environ.get("NATJAM_SIGNALS", "6"))
FIRST = int(os.environ.get("NATJAM_SIGNALS_FROM", "0"))


def run(folder: Path) -> list[str | Path]:
    (folder / "endless.yaml").write_text(ENDLESS.replace("reduce_s: [10]", "reduce_s: [5000]"))
    return ["run", folder / "endless.yaml", "--out", folder / "out"]


def simulation(folder: Path) -> list[str | Path]:
    options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--set", "sim.every_heartbeat=true"]
    options += ["--set", "workload.jobs.0.reduce_s=[1000000]"]
    return ["run", FIG4, *options, "--out", folder / "out"]


def campaign(folder: Path) -> list[str | Path]:
    many = "name: c\nexperiment: experiment.yaml\nset: {engine: sim, overheads: hadoop-0.23}\nseeds: 3000\n"
    return ["campaign", write_campaign(folder, many), "--out", folder / "out"]


def reproduction(folder: Path) -> list[str | Path]:
    return ["reproduce", "natjam/fig3", "natjam/fig4", "natjam/fig5", "--out", folder / "out"]


def chaos(folder: Path) -> list[str | Path]:
    return ["chaos", FIG4, "--seeds", "100000", "--from", "0", "--out", folder / "out"]


KINDS: dict[str, tuple[Callable[[Path], list[str | Path]], float]] = {
    "run": (run, 12.0),
    "simulation": (simulation, 4.0),
    "campaign": (campaign, 5.0),
    "reproduction": (reproduction, 6.0),
    "chaos": (chaos, 5.0),
}
"""What is begun, and how long after that the signal may come."""


@dataclass(frozen=True)
class Ended:
    """How one was ended."""

    seed: int
    signal: str
    twice: bool
    after_s: float
    took_s: float
    wrong: str


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Two processes that take all the processor time they get."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def end_one(folder: Path, kind: str, seed: int) -> Ended:
    """Begin it, end it at a moment drawn by ``seed``, and say what was wrong with that, if anything."""
    draw = random.Random(f"{kind}-{seed}")
    make, longest_s = KINDS[kind]
    number, twice = draw.choice((signal.SIGINT, signal.SIGTERM)), draw.random() < 0.5
    after_s, between_s = draw.uniform(0, longest_s), draw.uniform(0, 1)
    with short_directory() as temporary, NatjamProcess(*make(folder), TMPDIR=str(temporary)) as natjam:
        process = natjam.process
        until(lambda: _catches(process.pid, signal.SIGTERM), "handlers of signals")
        wait(after_s)
        began_s = time.monotonic()
        send(process, number)
        if twice:
            wait(between_s)
            send(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3 * END_BOUND_S)
        took_s = time.monotonic() - began_s
        return Ended(seed, number.name, twice, after_s, took_s, _wrong(natjam, temporary, took_s))


def _wrong(natjam: NatjamProcess, temporary: Path, took_s: float) -> str:
    if natjam.process.poll() is None:
        return f"still there after {took_s:.0f} s"
    wrong = []
    output = natjam.output()
    if natjam.process.returncode != EXIT_CODE:
        wrong.append(f"status {natjam.process.returncode}")
    if took_s > END_BOUND_S:
        wrong.append(f"took {took_s:.1f} s")
    if "Traceback" in output or "Error" in output:
        wrong.append(output[-1500:])
    left: list[str] = []

    def look() -> bool:
        pids = {*with_variable("TMPDIR", str(temporary)), *(process.pid for process in natjam.family())}
        left[:] = [*(command_line(pid)[:80] for pid in pids), *(path.name for path in temporary.iterdir())]
        return not left

    try:
        until(look, "nothing left", LEFT_BOUND_S)
    except AssertionError:
        wrong.append(f"left: {left}")
    return "; ".join(wrong)


def _catches(pid: int, number: signal.Signals) -> bool:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (number - 1) & 1)
    return False


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", list(KINDS))
def test_signals_at_random_moments(tmp_path: Path, kind: str) -> None:
    ended = []
    with load():
        for seed in range(FIRST, FIRST + COUNT):
            folder = tmp_path / str(seed)
            folder.mkdir()
            ended.append(end_one(folder, kind, seed))
            shutil.rmtree(folder, ignore_errors=True)
    took_s = sorted(one.took_s for one in ended)
    print(
        f"\n{kind}: {len(ended)} ended, {statistics.median(took_s):.2f} s after the signal, at most {took_s[-1]:.2f} s"
    )
    wrong = [one for one in ended if one.wrong]
    for one in wrong:
        print(f"  seed {one.seed}, {one.signal}{' twice' if one.twice else ''} after {one.after_s:.2f} s: {one.wrong}")
    assert not wrong, f"{len(wrong)} of {len(ended)}: seeds {[one.seed for one in wrong]}"
