"""A user's policy that does what it must not: the run ends, with a message and what there is of results."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.live_runs import REPOSITORY, SMALL, natjam, until, with_variable

BOUND_S = 60
SETTINGS = ("--set", "overheads=hadoop-0.23")
PROGRAM = "from emulator.cli.script import main; main()"
IMAGE = """
from emulator.policies.views import MechanismDecision
from emulator.vocabulary import Mechanism
def mine(cluster, task):
    return MechanismDecision(Mechanism.IMAGE)
"""

STARTS = """
import multiprocessing, os, signal, threading, time
from emulator.policies.views import MechanismDecision
from emulator.vocabulary import Mechanism
def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open("pids", "a") as file:
        file.write(f"{os.getpid()} ")
    while True:
        time.sleep(60)
started = []
def mine(cluster, task):
    if not started:
        started.append(multiprocessing.get_context("fork").Process(target=stay))
        started[0].start()
    threading.Thread(target=threading.Event().wait).start()
    return MechanismDecision(Mechanism.KILL)
"""
"""A process that does not go by itself, and a thread for each decision."""


def simulate(directory: Path, policy: str) -> subprocess.CompletedProcess[str]:
    (directory / "hostile.py").write_text(policy)
    (directory / "mine.yaml").write_text(SMALL.replace("mechanism: suspend", "mechanism: hostile:mine"))
    return natjam("run", "mine.yaml", "--engine", "sim", *SETTINGS, "--out", "out", cwd=directory, PATH="")


def test_what_a_policy_has_started_does_not_keep_natjam_alive(tmp_path: Path) -> None:
    done = simulate(tmp_path, STARTS)
    assert done.returncode == 0, done.stderr
    assert "results in out" in done.stdout
    assert natjam("verify", "out", cwd=tmp_path).returncode == 0
    (tmp_path / "many.yaml").write_text(
        "name: many\nexperiment: mine.yaml\nset: {engine: sim, overheads: hadoop-0.23}\nseeds: 2\n"
    )
    assert natjam("campaign", "many.yaml", "--out", "campaign", cwd=tmp_path, PATH="").returncode == 0
    pids = [int(pid) for path in tmp_path.glob("pids") for pid in path.read_text().split()]
    assert pids
    until(lambda: not any(map(psutil.pid_exists, pids)), "no process of the policy")


def test_images_without_a_device_are_refused_when_they_are_chosen(tmp_path: Path) -> None:
    done = simulate(tmp_path, IMAGE)
    assert done.returncode == 1
    assert "mechanism policy hostile:mine returned 'image'" in done.stderr
    assert "set storage.tier" in done.stderr
    assert "Traceback" not in done.stderr
    assert "storage.tier" in json.loads((tmp_path / "out" / "summary.json").read_text())["reason"]


ENDS = {
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "_exit": "os._exit(0)",
    "another program": "os.execv('/bin/true', ['true'])",
    "_exit, leaving a process": "os.fork() and os._exit(0); signal.alarm(5); signal.pause()",
    "killed": "os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_policy_cannot_end_natjam_as_if_all_were_well(tmp_path: Path, end: str) -> None:
    done = simulate(tmp_path, f"import os, signal\ndef mine(cluster, task):\n    {end}\n")
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stderr
    assert ("has not come to its end: code of yours" in done.stderr) == ("_exit" in end or "execv" in end)


@pytest.mark.parametrize("command", [["validate", "mine.yaml"], ["campaign", "many.yaml", "--out", "campaign"]])
def test_a_module_that_exits_with_0_as_it_is_imported_ends_no_command_well(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "hostile.py").write_text("import os\nos._exit(0)\n")
    (tmp_path / "mine.yaml").write_text(SMALL.replace("mechanism: suspend", "mechanism: hostile:mine"))
    (tmp_path / "many.yaml").write_text("name: many\nexperiment: mine.yaml\nset: {engine: sim}\nseeds: 2\n")
    assert natjam(*command, cwd=tmp_path, PATH="").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_ends_a_command_with_a_policy_ends_both_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "hostile.py").write_text(
        "import os, time\nwith open('pid', 'w') as file:\n    file.write(f'{os.getpid()} ')\ntime.sleep(60)\n"
    )
    (tmp_path / "mine.yaml").write_text(SMALL.replace("mechanism: suspend", "mechanism: hostile:mine"))
    command = [sys.executable, "-c", PROGRAM, "validate", "mine.yaml"]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": ""}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        pids = until(lambda: [path.read_text() for path in tmp_path.glob("pid") if " " in path.read_text()], "a policy")
        process.send_signal(number)
        said = process.communicate(timeout=BOUND_S)[1]
    assert int(pids[0]) != process.pid
    until(lambda: not psutil.pid_exists(int(pids[0])), "the process of the policy to end")
    assert process.returncode == (-number if number is signal.SIGKILL else 130)
    assert said == ("" if number is signal.SIGKILL else "natjam: interrupted\n")


DEAF = "import itertools\ndef mine(cluster, task):\n    open('begun', 'w').close()\n    sum(itertools.repeat(0))\n"
"""A policy that never comes back to where Python would hear a signal, or another thread could do anything."""


@pytest.mark.parametrize(
    ("command", "number"),
    [("run mine.yaml --out out", signal.SIGKILL), ("campaign many.yaml --out out", signal.SIGTERM)],
)
def test_a_policy_that_never_comes_back_ends_with_the_command(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    (tmp_path / "hostile.py").write_text(DEAF)
    settings = SMALL.replace("mechanism: suspend", "mechanism: hostile:mine").replace("native", "hadoop-0.23")
    (tmp_path / "mine.yaml").write_text(settings + "engine: sim\n")
    (tmp_path / "many.yaml").write_text("name: many\nexperiment: mine.yaml\nseeds: 2\n")
    impatient = f"import emulator.own_code; emulator.own_code.TIMEOUT_REAL_S = 0.2; {PROGRAM}"
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "", "OF_TEST": str(tmp_path)}
    arguments = [sys.executable, "-c", impatient, *command.split()]
    with subprocess.Popen(arguments, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as process:
        until(lambda: (tmp_path / "begun").exists(), "the policy")
        process.send_signal(number)
        said = process.communicate(timeout=BOUND_S)[1]
    assert process.returncode == (130 if number is signal.SIGTERM else -number)
    assert (b"natjam: interrupted" in said) == (number is signal.SIGTERM)
    until(lambda: not with_variable("OF_TEST", str(tmp_path)), "the end of all its processes")


def test_a_module_that_ends_the_process_as_it_is_imported_is_named(tmp_path: Path) -> None:
    done = simulate(tmp_path, "import sys\n\nsys.exit(0)\n")
    assert done.returncode == 2
    assert "'hostile:mine': module 'hostile' cannot be imported: SystemExit(0)" in done.stderr
