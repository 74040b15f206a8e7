"""How far simulations are from live runs in containers of several sizes, with gangs: ten random experiments.

Run with ``pytest tests/benchmarks/test_fidelity_of_sizes.py -s`` on an otherwise idle machine, after
``natjam measure``; ``TIME_SCALE`` in the environment sets another time scale.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emulator.files.yaml_values import dump_yaml
from tests.live_runs import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SEEDS = (3801, 3802, 3803, 3804, 3805, 3806, 3807, 3808, 3809, 3810)
"""Written down before the first run."""
_MECHANISMS = {"two-queue": ("kill", "checkpoint", "suspend"), "yarn-capacity": ("kill", "checkpoint")}


def drawn(seed: int) -> dict[str, Any]:
    """An experiment: two groups of nodes, a job that fills the first, then gangs and single tasks of several sizes."""
    random = Random(seed)
    plain, gpus = random.randint(2, 3), random.choice((2, 4))
    allocation = random.choice(sorted(_MECHANISMS))
    jobs: list[dict[str, Any]] = [
        {"name": "fill", "reduces": plain * 6, "reduce_s": _lengths(random, 40, 80), "resources": {"cpu": 1}},
        {"name": "train", "reduces": gpus, "reduce_s": _lengths(random, 40, 80), "resources": {"cpu": 1, "gpu": 1}},
    ]
    for number in range(random.randint(2, 4)):
        tasks = random.randint(2, 4)
        jobs.append(
            {
                "name": f"job-{number + 1}",
                "queue": random.choice(("production", "production", "research")),
                "submit_s": round(random.uniform(8, 50), 1),
                "reduces": tasks,
                "reduce_s": _lengths(random, 10, 30),
                "resources": {"cpu": random.choice((1, 2, 3)), "memory_gb": random.choice((1, 2, 6))},
                **random.choice(({"gang": True}, {"gang": {"minimum": tasks // 2}}, {})),
            }
        )
        if allocation == "yarn-capacity":  # it starts containers one by one
            jobs[-1].pop("gang", None)
    return {
        "name": f"sizes-{seed}",
        "engine": "live",
        "time_scale": float(os.environ.get("TIME_SCALE", 5)),
        "seed": seed,
        "overheads": "hadoop-0.23",
        "cluster": {
            "application_masters": "outside",
            "node_groups": [
                {"count": plain, "resources": {"cpu": 6, "memory_gb": 16}},
                {"count": 1, "resources": {"cpu": 4, "memory_gb": 16, "gpu": gpus}},
            ],
        },
        "scheduler": {
            "allocation": {
                "name": allocation,
                "queues": {"production": {"capacity": 0.4}, "research": {"capacity": 0.6}},
            },
            "task_eviction": random.choice(("srt", "lrt", "newest")),
            "mechanism": random.choice(_MECHANISMS[allocation]),
        },
        "workload": {"jobs": [{"queue": "research", "key_s": 1.0, **job} for job in jobs]},
    }


def _lengths(random: Random, least_s: float, most_s: float) -> dict[str, Any]:
    return {"uniform": [0.5, 1.0], "longest": round(random.uniform(least_s, most_s), 1)}


def test_simulations_of_sizes_and_gangs_are_close_to_live_runs(tmp_path: Path) -> None:
    files = []
    for seed in SEEDS:
        files.append(tmp_path / f"sizes-{seed}.yaml")
        files[-1].write_text(dump_yaml(drawn(seed)))
    out = tmp_path / "fidelity"
    command = ["fidelity", *map(str, files), "--repeats", "1", "--out", str(out)]
    natjam = "from emulator.cli.script import main\nif __name__ == '__main__':\n    main()"
    subprocess.run([sys.executable, "-c", natjam, *command], cwd=REPOSITORY, check=True, timeout=3600)
    found = json.loads((out / "fidelity.json").read_text())
    for file in found["files"]:
        for job in file["jobs"]:
            print(
                f"\n{file['name']:<12} {job['job']:<8} {job['live_s']:8.1f} {job['sim_s']:8.1f} {job['error']:8.2%}",
                end="",
            )
    print(f"\nmean {found['mean_abs_error']:.2%}, worst {found['worst_abs_error']:.2%}")
    assert found["mean_abs_error"] <= 0.015
    assert found["worst_abs_error"] <= 0.06
