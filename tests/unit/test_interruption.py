"""Ctrl-C, SIGTERM and SIGHUP end a command once, in bounded time, without a traceback, whatever it is doing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import NatjamProcess, write_campaign
from tests.live_runs import send, until, wait
from tests.simulated_runs import FIG4

REPOSITORY = Path(__file__).resolve().parents[2]
INTERRUPTED = 130
BOUND_S = 30


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
    )


PREAMBLE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from emulator import interruption as i
def slow(): time.sleep(float(sys.argv[1]))
"""


def begun(code: str, *, slow_s: float = 60) -> subprocess.Popen[str]:
    """A process that has said that it has begun."""
    process = python(PREAMBLE + code, str(slow_s))
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_others_do_not_stop_the_cleaning_up(number: signal.Signals) -> None:
    code = """
with i.interruptible():
    try:
        print("begun")
        slow()
    except KeyboardInterrupt:
        print("cleaning")
        time.sleep(0.3)
        print("clean")
"""
    process = python(PREAMBLE + code, "60")
    assert process.stdout is not None
    for said in ("begun\n", "cleaning\n"):
        assert process.stdout.readline() == said
        process.send_signal(number)
    assert process.communicate()[0] == "clean\n"
    assert process.returncode == 0


def test_under_nohup_the_end_of_a_terminal_ends_nothing() -> None:
    code = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with i.interruptible():
    print("begun")
    sys.stdin.readline()
print("done")
"""
    process = begun(code)
    process.send_signal(signal.SIGHUP)
    assert process.communicate("go on\n")[0] == "done\n"
    assert process.returncode == 0


def test_a_deferred_signal_waits_for_the_next_look() -> None:
    code = """
with i.interruptible():
    try:
        with i.deferred():
            print("begun")
            while not i._state.asked: time.sleep(0.01)
            print("noted")
            i.check_interrupted()
            print("never")
    except KeyboardInterrupt:
        print("interrupted")
"""
    process = begun(code)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == "noted\ninterrupted\n"


def test_what_does_not_come_to_its_end_is_ended() -> None:
    code = """
i.END_TIMEOUT_REAL_S = 0.2
with i.interruptible(), i.deferred():
    print("begun")
    slow()
"""
    process = begun(code)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "natjam: interrupted\n"
    assert process.returncode == INTERRUPTED


def test_an_interrupt_is_not_lost_wherever_pydantic_is() -> None:
    """It drops errors as it makes a schema or writes a union, which experiments have, and tries something else."""
    code = """
from pydantic import BaseModel
from emulator.experiment.load import load_experiment
experiment = load_experiment(sys.argv[1])
def use_pydantic():
    experiment.model_dump_json()
    class Tree(BaseModel):
        children: "list[Tree] | dict[str, Tree] | int"
    Tree(children=[Tree(children=1)]).model_dump_json()
def interrupt_at(point):
    calls = 0
    def profile(*_):
        nonlocal calls
        calls += 1
        if calls == point:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)
    sys.setprofile(profile)
    try:
        use_pydantic()
    finally:
        sys.setprofile(None)
    return calls
interrupt_at(0)  # what it makes once only
lost = []
for point in range(1, interrupt_at(0), 4):
    try:
        with i.interruptible():
            interrupt_at(point)
            time.sleep(2)
        lost.append(point)
    except KeyboardInterrupt:
        pass
print(point > 1000, lost)
"""
    assert python(PREAMBLE + code, str(FIG4)).communicate(timeout=BOUND_S)[0] == "True []\n"


def test_an_interrupt_of_which_a_library_makes_an_error_of_its_own_is_one() -> None:
    """pydantic does, where a signal comes while it makes a model: as natjam is imported."""
    code = """
try:
    with i.interruptible():
        try:
            print("begun")
            slow()
        except KeyboardInterrupt as interrupt:
            raise ValueError("the library's") from interrupt
except KeyboardInterrupt:
    print("interrupted")
"""
    process = begun(code)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "interrupted\n"


def test_an_interrupt_in_a_destructor_is_not_lost_on_a_slow_machine() -> None:
    code = """
import os, threading
def profile(frame, *_):
    if frame.f_code.co_filename.endswith(("interruption.py", "threading.py")):
        time.sleep(0.005)
class Thing:
    def __del__(self):
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        sys.setprofile(profile)
        slow()
with i.interruptible():
    try:
        Thing()
        sys.setprofile(None)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.setprofile(None)
        print("interrupted")
"""
    assert python(PREAMBLE + code, "60").communicate(timeout=BOUND_S)[0] == "interrupted\n"


def test_handlers_that_a_library_takes_are_taken_back() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
import ctypes
def library():
    ctypes.CDLL(None).signal(signal.SIGTERM, 0)
    slow()
with i.interruptible(), ThreadPoolExecutor(1) as pool:
    try:
        i.result_of(pool.submit(library))
        print("begun")
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
"""
    process = begun(code, slow_s=0.1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == "interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_simulation_is_ended_without_a_traceback_however_often_it_is_asked(
    tmp_path: Path, number: signal.Signals
) -> None:
    # Nothing ever ends under these: the simulation goes on until it is ended.
    options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--set", "workload.jobs.0.reduce_s=[1000000]"]
    with NatjamProcess("run", FIG4, *options, "--out", tmp_path / "out") as natjam:
        until(lambda: list((tmp_path / "out").glob("journal*")), "the simulation to begin")

        def has_ended() -> bool:
            natjam.process.send_signal(number)
            return natjam.process.poll() is not None

        until(has_ended, "its end")
        output = natjam.output()
        assert natjam.process.returncode == INTERRUPTED, output
        assert "Traceback" not in output
        had_begun = (tmp_path / "out").exists()
        assert (f"'natjam report {tmp_path / 'out'}' shows the run as far as it got" in output) == had_begun


def test_repeats_that_have_ended_are_shown(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with NatjamProcess("run", FIG4, "--engine", "sim", "--repeats", "1000", "--out", out) as natjam:
        until(lambda: (out / "repeat-2" / "summary.json").exists(), "two repeats")
        natjam.process.send_signal(signal.SIGINT)
        natjam.process.wait(BOUND_S)
        said = natjam.output()
    ended = len([*out.glob("repeat-*/summary.json")])
    assert f"natjam: {ended} repeats ended; 'natjam report {out}' shows them" in said


@pytest.mark.parametrize("delay_s", [0.0, 0.3, 0.8])
def test_a_campaign_is_ended_while_its_workers_start(tmp_path: Path, delay_s: float) -> None:
    with NatjamProcess("campaign", write_campaign(tmp_path), "--out", tmp_path / "out") as natjam:
        until(lambda: len(natjam.family()) > 1, "a second process")
        wait(delay_s)
        send(natjam.process, signal.SIGINT)
        output = natjam.output()
        assert natjam.process.returncode == INTERRUPTED, output
        assert "Traceback" not in output
        natjam.leaves_nothing()
