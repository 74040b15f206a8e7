"""The processor time of a whole command beside AccaSim's, on the same 5,000 jobs of one task (FIFO, first fit).

``pytest -s tests/benchmarks/test_beside_accasim.py -m slow`` installs AccaSim aside, in a virtual environment that goes
with the test: natjam does not depend on it.  The commands take turns, so that a busy machine counts for both; the ratio
is printed with its interval.  AccaSim starts jobs in no time; natjam launches an ApplicationMaster and a task for each.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import venv
from pathlib import Path

import pytest

JOBS, SLOTS = int(os.environ.get("JOBS", "5000")), 128
ROUNDS = int(os.environ.get("ROUNDS", "5"))
ACCASIM = """
import collections, collections.abc, warnings
for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable", "Set", "MutableSet"):
    setattr(collections, name, getattr(collections.abc, name))  # it is of Python 3.6
warnings.filterwarnings("ignore")
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import FirstInFirstOut
from accasim.base.simulator_class import Simulator
Simulator("jobs.swf", "system.json", FirstInFirstOut(FirstFit())).start_simulation()
"""


def write_jobs(folder: Path) -> None:
    """The same jobs as both programs read them: one every 3 s, lognormal lengths with a median of 150 s."""
    draw, at_s, jobs = random.Random(1), 0.0, []
    for number in range(1, JOBS + 1):
        at_s += draw.expovariate(1 / 3.0)
        jobs.append((number, round(at_s), max(1, round(draw.lognormvariate(5, 1)))))
    lines = (f"{n} {at} 0 {length} 1 -1 -1 1 {length} -1 1 1 1 1 1 1 -1 -1" for n, at, length in jobs)
    (folder / "jobs.swf").write_text("\n".join(["; UnixStartTime: 0", f"; MaxProcs: {SLOTS}", *lines, ""]))
    cores = {"groups": {"g0": {"core": 1}}, "resources": {"g0": SLOTS}, "equivalence": {"processor": {"core": 1}}}
    (folder / "system.json").write_text(json.dumps({"system_name": "one", "start_time": 0, **cores}))
    queues = {"production": {"capacity": 0.25}, "research": {"capacity": 0.75}}
    experiment = {
        "name": "serial",
        "engine": "sim",
        "seed": 1,
        # Twice the slots, because each job's ApplicationMaster takes one.
        "cluster": {"nodes": SLOTS // 8, "containers_per_node": 16, "container_memory_gb": 1},
        "overheads": "hadoop-0.23",
        "scheduler": {"allocation": {"name": "soft-cap", "queues": queues}},
        "workload": {
            "jobs": [
                {"name": f"j{n}", "queue": "research", "submit_s": at, "maps": 1, "map_s": length, "reduces": 0}
                for n, at, length in jobs
            ]
        },
    }
    (folder / "experiment.yaml").write_text(json.dumps(experiment))


def cpu_s(command: list[str], folder: Path) -> float:
    """Processor time of the command, in seconds."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whole_commands_take_turns(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    theirs = str(tmp_path / "venv/bin/python")
    subprocess.run([theirs, "-m", "pip", "install", "-q", "accasim", "psutil"], check=True)
    write_jobs(tmp_path)
    script = "from emulator.cli.script import main; main()"
    natjam = [sys.executable, "-c", script, "run", "experiment.yaml", "--out"]
    ratios = []
    for number in range(ROUNDS):
        accasim_s = cpu_s([theirs, "-c", ACCASIM], tmp_path)
        natjam_s = cpu_s([*natjam, f"run-{number}"], tmp_path)
        ratios.append(natjam_s / accasim_s)
        print(f"\nAccaSim {accasim_s:.2f} s, natjam {natjam_s:.2f} s: {ratios[-1]:.2f}", end="")
    logs = [math.log(ratio) for ratio in ratios]
    middle, half = statistics.mean(logs), 2 * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    print(f"\n{JOBS} jobs: natjam takes {math.exp(middle):.2f} times ({low:.2f} to {high:.2f}) the processor time")
    summary = json.loads((tmp_path / "run-0/summary.json").read_text())
    assert {job["state"] for job in summary["jobs"]} == {"succeeded"}
