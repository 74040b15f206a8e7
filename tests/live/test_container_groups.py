"""``live.memory: container``: each container has the memory that its task asks for, and a share of the processors."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.live import cgroups
from emulator.live.cgroups import members, mounted
from emulator.live.memory.fitting import fitted_to_machine, memory_warnings
from emulator.live.memory.nodes import NodeMemories
from emulator.resolved import nodes_of
from tests.hosts_here import HostsHere
from tests.live_runs import until
from tests.memory import MIB, groups_of, needs_containers
from tests.run_results import job_of

SIZES = """\
name: held
time_scale: 20
overheads: native
cluster:
  application_masters: outside
  node_groups: [{count: 1, resources: {cpu: 4, memory_gb: 8}}]
live: {memory: container, memory_scale: 0.03125}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  mechanism: suspend
workload:
  jobs:
    - {name: small, queue: research, reduces: 2, reduce_s: 60, memory_gb: 1, resources: {cpu: 1, memory_gb: 1}}
    - {name: large, queue: research, reduces: 1, reduce_s: 60, memory_gb: 2, resources: {cpu: 1.5, memory_gb: 3}}
    - name: greedy
      queue: production
      submit_s: 30
      resources: {cpu: 0.5, memory_gb: 1}
      tasks: {command: ["{python}", -c, "bytearray(300 << 20)"], length_s: 5}
"""
"""A gigabyte is 32 MiB, and each container has 16 MiB more for its process."""


@needs_containers
@pytest.mark.skipif(mounted("memory") is None, reason="reads the files of version 1")
def test_a_task_that_uses_more_than_it_asks_for_is_killed_alone(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=SIZES) as run:
        assert len(run.walking("small")) == 2
        run.walking("large")
        of_node = {group.parent.name: group for group in groups_of(run.run_id)}
        assert (of_node["cpu"] / "cpu.shares").read_text() == "4096\n"
        found = {folder.name: folder for folder in of_node["memory"].iterdir() if folder.is_dir()}
        limits = sorted(int((folder / "memory.limit_in_bytes").read_text()) // MIB for folder in found.values())
        assert limits == [48, 48, 112]
        for container, folder in found.items():
            of_processors = of_node["cpu"] / container
            asked = 1.5 if (folder / "memory.memsw.limit_in_bytes").read_text() == f"{112 * MIB}\n" else 1
            assert (of_processors / "cpu.shares").read_text() == f"{asked * 1024:.0f}\n"
            (process,) = members(folder)
            assert members(of_processors) == [process]
            assert int((folder / "memory.usage_in_bytes").read_text()) > (64 if asked == 1.5 else 32) * MIB
        assert run.wait() == 1
        assert (
            "the kernel killed it: it used more than the 48 MiB of its container"
            in job_of(run.summary, "greedy")["reason"]
        )
        assert job_of(run.summary, "small")["state"] == job_of(run.summary, "large")["state"] == "succeeded"


_BUSY = """
import json, os, sys
from emulator.live.tasks.task import join_groups
join_groups(json.loads(sys.argv[1]))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    pass
"""


@needs_containers
def test_processors_are_shared_in_proportion_to_what_is_asked_for(tmp_path: Path) -> None:
    (node,) = nodes_of(load_experiment(_written(tmp_path)).cluster)
    mark = secrets.token_hex(4)
    memories = NodeMemories(mark, tmp_path, 1.0, [node], limits_containers=True)
    memories.open()
    processes = []
    try:
        for container, cpu in (("one", 1000), ("three", 3000)):
            groups = memories.container_groups(node.name, container, (cpu, 1000))
            processes.append(subprocess.Popen([sys.executable, "-c", _BUSY, json.dumps({"container_groups": groups})]))
        until(lambda: sum(_cpu_s(process.pid) for process in processes) > 2, "two seconds of one processor")
        one, three = (_cpu_s(process.pid) for process in processes)
        assert 2 < three / one < 4
    finally:
        for process in processes:
            process.kill()
            process.wait()
        memories.ended(node.name, "one")
        assert not [folder for group in groups_of(mark) for folder in group.glob("one")]
        memories.close()
    assert groups_of(mark) == []


def test_a_machine_without_the_groups_is_said_and_limits_nodes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_experiment(_written(tmp_path))
    mounts = tmp_path / "mounts"
    mounts.write_text("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    monkeypatch.setattr(cgroups, "_MOUNTS", mounts)
    (warning,) = memory_warnings(experiment)
    assert warning.startswith("live.memory container is taken for node: limiting single containers needs ")
    assert fitted_to_machine(experiment, expand(experiment, 1)).live.memory == "node"


def _written(directory: Path) -> Path:
    file = directory / "experiment.yaml"
    file.write_text(SIZES)
    return file


def _cpu_s(pid: int) -> float:
    return psutil.Process(pid).cpu_times().user
