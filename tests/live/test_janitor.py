"""The janitor ends what the driver leaves: by goodbye, by crash, stopped processes too, and nobody else's."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.live.janitor import RUN_VARIABLE, Janitor, find_run_processes, start_janitor
from tests.live_runs import until

_REPOSITORY = Path(__file__).resolve().parents[2]
_BOUND_S = 20.0


@pytest.fixture
def run_id() -> str:
    return secrets.token_hex(4)


class Sleeper:
    """A process of some run."""

    def __init__(self, run_id: str) -> None:
        self.process = subprocess.Popen(["sleep", "120"], env={**os.environ, RUN_VARIABLE: run_id})

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)


@pytest.fixture
def sleepers(run_id: str) -> Iterator[list[Sleeper]]:
    made = [Sleeper(run_id), Sleeper(run_id), Sleeper(run_id + "0"), Sleeper(run_id[:-1])]
    yield made
    for sleeper in made:
        sleeper.process.kill()
        sleeper.process.wait()


def test_only_processes_of_exactly_this_run_are_found(run_id: str, sleepers: list[Sleeper]) -> None:
    ours = sorted(sleeper.process.pid for sleeper in sleepers[:2])
    until(lambda: find_run_processes(run_id) == ours, "both")  # before exec a process still has our environment
    assert find_run_processes(secrets.token_hex(4)) == []


def test_goodbye_of_a_clean_run(run_id: str, tmp_path: Path) -> None:
    janitor = start_janitor(run_id, [tmp_path / "never made"])
    assert janitor.goodbye() == 0


def test_goodbye_ends_and_removes_what_was_left(run_id: str, sleepers: list[Sleeper], tmp_path: Path) -> None:
    (tmp_path / "work/deep").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    sleepers[1].stop()
    janitor = start_janitor(run_id, [tmp_path / "work"])
    assert janitor.goodbye() == 2
    assert [sleeper.process.wait(_BOUND_S) for sleeper in sleepers[:2]] == [-signal.SIGKILL] * 2
    assert [sleeper.process.poll() for sleeper in sleepers[2:]] == [None, None]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


_DRIVER = """
import sys, time
from emulator.live.janitor import start_janitor
janitor = start_janitor(sys.argv[1], [sys.argv[2]])
print(janitor.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_driver_is_cleaned_up_after(run_id: str, sleepers: list[Sleeper], tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (work / "deep/file").write_text("x")
    sleepers[0].stop()
    driver = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, run_id, str(work)], stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY
    )
    with driver:
        assert driver.stdout is not None
        janitor_pid = int(driver.stdout.readline())
        ended = os.pidfd_open(janitor_pid)
        driver.kill()
        try:
            assert select.select([ended], [], [], _BOUND_S)[0], "the janitor does not end"
        finally:
            os.close(ended)
    assert [sleeper.process.wait(_BOUND_S) for sleeper in sleepers[:2]] == [-signal.SIGKILL] * 2
    assert [sleeper.process.poll() for sleeper in sleepers[2:]] == [None, None]
    assert not work.exists()


def test_who_writes_into_the_runs_directory_is_ended_without_its_mark_and_who_reads_is_not(
    run_id: str, tmp_path: Path
) -> None:
    work, beside = tmp_path / "work", tmp_path / "work-beside"
    for directory in (work, beside):
        directory.mkdir()
        (directory / "log").touch()
    opened = [(work, "a"), (work, "r"), (beside, "a")]
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context((directory / "log").open(mode)) for directory, mode in opened]
        writer, *others = [
            stack.enter_context(subprocess.Popen(["sleep", "120"], stdin=subprocess.DEVNULL, pass_fds=[log.fileno()]))
            for log in logs
        ]
        try:
            for log in logs:
                log.close()  # in this process
            assert start_janitor(run_id, [work]).goodbye() == 1
            assert writer.wait(_BOUND_S) == -signal.SIGKILL
            assert [other.poll() for other in others] == [None, None]
        finally:
            for process in (writer, *others):
                process.kill()


def test_a_dead_janitor_is_told(run_id: str) -> None:
    janitor: Janitor = start_janitor(run_id, [])
    os.kill(janitor.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="the janitor ended with status -9"):
        janitor.goodbye()
