"""How long gangs of real processes take to start, beside single tasks in the same live run.

Run with ``pytest tests/benchmarks/test_gang_launch.py -s``.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from emulator.core.messages import ApplicationHeartbeatResponse
from emulator.vocabulary import MASTER
from tests.live_runs import NatjamRun

pytestmark = pytest.mark.slow

_ROUNDS = 10
_MEMBERS = 4
_EVERY_S = 8
_TIME_SCALE = 2
_EXPERIMENT = f"""\
name: gang-launch
engine: live
time_scale: {_TIME_SCALE}
overheads: native
cluster:
  application_masters: outside
  node_groups: [{{count: 2, resources: {{cpu: 4, memory_gb: 8}}}}]
scheduler:
  mechanism: checkpoint
  allocation: {{name: two-queue, queues: {{production: {{capacity: 0.5}}, research: {{capacity: 0.5}}}}}}
workload:
  jobs:
"""


def _jobs() -> str:
    """A gang and a single task by turns, none of them beside another."""
    kinds = {"gang": f"reduces: {_MEMBERS}, gang: true", "single": "reduces: 1"}
    lines = [
        f"    - {{name: {name}-{number}, queue: research, submit_s: {at_s}, reduce_s: 1, key_s: 1, {tasks}}}\n"
        for number in range(_ROUNDS)
        for at_s, (name, tasks) in zip(range(2 * number * _EVERY_S, 10**6, _EVERY_S), kinds.items(), strict=False)
    ]
    return "".join(lines)


def test_a_gang_of_four_starts_in_less_than_twice_the_time_of_a_single_task(tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=_EXPERIMENT + _jobs()) as run:
        assert run.process.wait(600) == 0, run.log
        first_keys_s = {row["container"]: row["first_key_s"] for row in run.table("attempts") if row["kind"] != "am"}
        granted_ns: dict[str, dict[str, int]] = {}
        for record in run.records():
            if isinstance(record.message, ApplicationHeartbeatResponse) and record.message.answer is not None:
                for given in record.message.answer.allocated:
                    if given.group != MASTER:
                        granted_ns.setdefault(record.actor, {}).setdefault(given.container, record.t_ns)
    took_ms: dict[str, list[float]] = {"gang": [], "single": []}
    for job, containers in granted_ns.items():
        assert len(containers) == (_MEMBERS if "gang" in job else 1)
        last_key_s = max(first_keys_s[container] for container in containers)
        took_ms["gang" if "gang" in job else "single"].append(
            (last_key_s - max(containers.values()) / 1e9) * 1e3 / _TIME_SCALE
        )
    medians = {kind: statistics.median(times) for kind, times in took_ms.items()}
    for kind, times in took_ms.items():
        print(f"\n{kind:<8}n {len(times):<4} median {medians[kind]:7.2f} ms   max {max(times):7.2f} ms", end="")
    print(f"\nratio {medians['gang'] / medians['single']:.2f}")
    assert medians["gang"] < 2 * medians["single"]
