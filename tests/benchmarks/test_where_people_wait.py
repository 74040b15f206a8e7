"""Where people wait: calls a task with one size and several, start-up, growth, an event's plumbing, launches.

``pytest -s tests/benchmarks/test_where_people_wait.py`` prints the table of docs/limits.md with the figures of this
machine, and asserts none of them.  Calls of Python functions are the same on every machine; seconds are processor time
of the user, which a busy machine makes longer too.  ``LARGE=0`` leaves out what takes minutes: 60,000 tasks, the first
round of a paper, and the live measurement.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from random import Random

import pytest
import yaml
from msgspec.structs import replace
from synthetic_day import day_experiment, day_jobs

from emulator.core.job import JobSpec
from emulator.experiment.model import Experiment
from emulator.policies.resources import vector_of
from emulator.resolved import resolve
from emulator.run import without_collector
from emulator.sim.session import simulate
from emulator.vocabulary import JobFacts, map_reduce

IS_LARGE = os.environ.get("LARGE", "1") != "0"
SMALL = """
name: small
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 6, containers_per_node: 8}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
workload:
  jobs: [{name: XL, queue: research, maps: 4, map_s: 1.0, reduces: 47, reduce_s: {uniform: [0.5, 1.0], longest: 182.7}}]
"""
PLUMBING = {
    ("emulator/sim/cluster.py", "tell"),
    ("emulator/sim/cluster.py", "_send"),
    ("emulator/records/journal.py", "handle"),
    ("emulator/core/machine.py", "handle"),
    ("emulator/sim/kernel.py", "run"),
    ("emulator/sim/kernel.py", "_start_next"),
    ("emulator/sim/heartbeats.py", "catch_up"),
    ("emulator/sim/session.py", "pass_on"),
}
"""By file and function; see ``plumbing``."""


def cpu_s(run: Callable[[], object]) -> float:
    """Processor time of the user."""
    before_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before_s


def simulated(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> Callable[[], object]:
    """Its simulation, without files."""
    run = resolve(experiment, jobs)
    return lambda: simulate(run, lambda records: None)


def profile(run: Callable[[], object]) -> Profile:
    """Counts calls of Python functions, and their own times."""
    profiler = Profile(builtins=False)
    with without_collector():
        profiler.runcall(run)
    return profiler


def tasks_of(jobs: tuple[JobSpec, ...]) -> int:
    return sum(len(job.map_ns) + len(job.reduce_ns) for job in jobs)


def calls(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> float:
    """Calls of Python functions a task."""
    return sum(entry.callcount for entry in profile(simulated(experiment, jobs)).getstats()) / tasks_of(jobs)


def plumbing(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> float:
    """The share of own time of what brings a message to its machine and its record to the journal.

    Raises AssertionError if one of the functions was not called, as it is if it has another name now.
    """
    own_s = parts_s = 0.0
    missing = set(PLUMBING)
    for entry in profile(simulated(experiment, jobs)).getstats():
        own_s += entry.inlinetime
        code = entry.code
        if not isinstance(code, str):
            parts = {
                (file, name) for file, name in PLUMBING if name == code.co_name and code.co_filename.endswith(file)
            }
            parts_s += entry.inlinetime * bool(parts)
            missing -= parts
    assert not missing, f"never called: {missing}"
    return parts_s / own_s


def with_sizes(scale: float) -> tuple[Experiment, tuple[JobSpec, ...]]:
    """The day with containers of twelve sizes, on nodes of two kinds."""
    random, names, nodes = Random(7), ("cpu", "memory_gb"), round(2000 * scale)

    def sized(job: JobSpec) -> JobSpec:
        requests = ({"cpu": random.randint(1, 3), "memory_gb": random.randint(1, 4)} for _ in job.facts.groups)
        groups = (
            replace(group, request=vector_of(request, names))
            for group, request in zip(job.facts.groups, requests, strict=True)
        )
        return replace(job, facts=replace(job.facts, groups=tuple(groups)))

    settings = day_experiment(scale).model_dump(exclude_unset=True)
    kinds = ({"cpu": 4, "memory_gb": 8}, {"cpu": 4, "memory_gb": 6})
    settings["cluster"] = {"node_groups": tuple({"count": nodes, "resources": kind} for kind in kinds)}
    return Experiment.model_validate(settings), tuple(map(sized, day_jobs(scale)))


def one_task_jobs(count: int, **scheduler: object) -> tuple[Experiment, tuple[JobSpec, ...]]:
    """Jobs of one reduce, one every 3 s, of ten priorities, on 128 containers."""
    random, at_s, jobs = Random(1), 0.0, []
    for number in range(count):
        at_s += random.expovariate(1 / 3.0)
        length_ns = max(1, round(random.lognormvariate(5, 1))) * 10**9
        facts = JobFacts(f"job-{number}", "research", map_reduce(0, 1), priority=random.randrange(10))
        jobs.append(JobSpec(facts, round(at_s * 1e9), (), (length_ns,), (length_ns // 10**9,)))
    settings = day_experiment(0.01).model_dump(exclude_unset=True)
    settings["cluster"] = {"nodes": 8, "containers_per_node": 16}
    settings["scheduler"] |= scheduler
    return Experiment.model_validate(settings), tuple(jobs)


def command_s(*arguments: str | Path) -> float:
    """Processor time of the user that ``natjam`` takes with these arguments; 1 is the status of claims that fail."""
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    natjam = [sys.executable, "-c", "from emulator.cli.script import main; main()"]
    command = [*natjam, *map(str, arguments)]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode < 2
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before_s


def row(where: str, seen: str, wanted: str) -> None:
    print(f"| {where} | {seen} | {wanted} |", flush=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_table_of_limits(tmp_path: Path) -> None:
    print("\n| where | today | wanted |\n|---|---|---|")
    for scale in (0.003, 0.01):
        one, sizes = calls(day_experiment(scale), day_jobs(scale)), calls(*with_sizes(scale))
        tasks = tasks_of(day_jobs(scale))
        seen = f"{sizes:,.0f} and {one:,.0f}: {sizes / one:.2f} times as many"
        row(f"calls a task with several sizes and with one, {tasks:,} tasks", seen, "1.4")
    queue = {"name": "single-queue", "queues": {"research": {"capacity": 1.0}}}
    single = {"allocation": queue, "job_selection": "auto", "job_eviction": "priority"}
    few, many = (calls(*one_task_jobs(count, **single)) for count in (300, 1200))
    row("single queue, calls a job of one task: 300 and 1,200 jobs", f"{few:,.0f} and {many:,.0f}", "equal")
    row("an event's plumbing, of own time", f"{plumbing(day_experiment(0.01), day_jobs(0.01)):.1%}", "-")
    (tmp_path / "small.yaml").write_text(SMALL)
    row("natjam --help", f"{command_s('--help'):.2f} s", "0.15 s")
    row("natjam run, 51 tasks", f"{command_s('run', tmp_path / 'small.yaml', '--out', tmp_path / 'run'):.2f} s", "-")
    if not IS_LARGE:
        return
    twelve, sixty = (simulated(day_experiment(scale), day_jobs(scale)) for scale in (0.02, 0.1))
    with without_collector():
        growth = cpu_s(sixty) / cpu_s(twelve) / 5
    row("what a task takes of 60,000, beside one of 12,000", f"{growth:.2f} times", "1.15")
    before_s = time.monotonic()
    command_s("reproduce", "natjam", "--quick", "--engine", "sim", "--out", tmp_path / "natjam")
    row("the first whole page of natjam reproduce natjam, simulated", f"{time.monotonic() - before_s:.0f} s", "300 s")
    command_s("measure", "--quick", "--out", tmp_path / "measured")
    operations = yaml.safe_load((tmp_path / "measured/calibration.yaml").read_text())["operations"]
    for operation, wanted_ms in (
        ("launch", "-"),
        ("launch_spacing", "0.85 ms"),
        ("suspend", "0.5 ms"),
        ("resume", "0.15 ms"),
    ):
        row(f"live: {operation}, at the median", f"{operations[operation]['p50_real_ns'][0] / 1e6:.2f} ms", wanted_ms)
