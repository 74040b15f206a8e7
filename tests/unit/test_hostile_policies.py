"""A user's policy that does what it must not: the run ends, with a message and what there is of results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.live_runs import REPOSITORY, SMALL, until

BOUND_S = 60
PROGRAM = "from emulator.cli.script import main; main()"
THREAD = """
import threading
from emulator.policies.views import MechanismDecision
from emulator.vocabulary import Mechanism
def mine(cluster, task):
    threading.Thread(target=threading.Event().wait).start()
    return MechanismDecision(Mechanism.KILL)
"""

PROCESS = """
import multiprocessing, os, signal, time
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
    return MechanismDecision(Mechanism.KILL)
"""


def natjam(directory: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=directory,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
    )


def simulate(directory: Path, policy: str) -> subprocess.CompletedProcess[str]:
    (directory / "hostile.py").write_text(policy)
    (directory / "mine.yaml").write_text(SMALL.replace("mechanism: suspend", "mechanism: hostile:mine"))
    return natjam(directory, "run", "mine.yaml", "--engine", "sim", "--set", "overheads=hadoop-0.23", "--out", "out")


@pytest.mark.parametrize("policy", [THREAD, PROCESS], ids=["thread", "process"])
def test_what_a_policy_has_started_does_not_keep_natjam_alive(tmp_path: Path, policy: str) -> None:
    done = simulate(tmp_path, policy)
    assert done.returncode == 0, done.stderr
    assert "results in out" in done.stdout
    assert natjam(tmp_path, "verify", "out").returncode == 0
    (tmp_path / "many.yaml").write_text(
        "name: many\nexperiment: mine.yaml\nset: {engine: sim, overheads: hadoop-0.23}\nseeds: 2\n"
    )
    assert natjam(tmp_path, "campaign", "many.yaml", "--out", "campaign").returncode == 0
    pids = [int(pid) for path in tmp_path.glob("pids") for pid in path.read_text().split()]
    assert bool(pids) == (policy is PROCESS)
    until(lambda: not any(map(psutil.pid_exists, pids)), "no process of the policy")


def test_images_without_a_device_are_refused_when_they_are_chosen(tmp_path: Path) -> None:
    done = simulate(tmp_path, THREAD.replace("Mechanism.KILL", "Mechanism.IMAGE"))
    assert done.returncode == 1
    assert "mechanism policy hostile:mine returned 'image'" in done.stderr
    assert "set storage.tier" in done.stderr
    assert "Traceback" not in done.stderr
    assert "storage.tier" in json.loads((tmp_path / "out" / "summary.json").read_text())["reason"]


@pytest.mark.parametrize("end", ["raise SystemExit", "raise KeyboardInterrupt", "raise GeneratorExit"])
def test_a_policy_cannot_end_natjam_as_if_all_were_well(tmp_path: Path, end: str) -> None:
    done = simulate(tmp_path, f"def mine(cluster, task):\n    {end}\n")
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stderr


def test_a_module_that_ends_the_process_as_it_is_imported_is_named(tmp_path: Path) -> None:
    done = simulate(tmp_path, "import sys\n\nsys.exit(0)\n")
    assert done.returncode == 2
    assert "'hostile:mine': module 'hostile' cannot be imported: SystemExit(0)" in done.stderr
