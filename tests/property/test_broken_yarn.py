"""Damaged configuration of YARN: it gives an experiment, or its documented error, and nothing else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from emulator.errors import ConfigError
from tests.damage import damaged, taken_or_refused
from tests.examples import DAMAGED
from tests.traces import YARN, YARN_APPS
from workloads.yarn.experiment import Sources, import_yarn

PIECES = (b"<", b">", b"</", b"&amp;", b"&x;", b"]]>", b"<!--", b"<![CDATA[", b"${a}", b"w", b"%", b"[memory=1]", b",")
FILES = ("yarn-site.xml", "capacity-scheduler.xml", "fair-scheduler-allocation.xml")


def one(folder: Path, seed: int) -> bool:
    """Import damaged files; whether they were refused."""
    rng = random.Random(f"yarn-{seed}")
    for name in FILES:
        shutil.copy(YARN / "sls" / name, folder)
    (folder / "apps.json").write_bytes(YARN_APPS.read_bytes())
    victim = folder / rng.choice((*FILES, "apps.json"))
    raw = victim.read_bytes()
    if rng.random() < 0.5:
        at = rng.randrange(len(raw))
        raw = raw[:at] + rng.choice(PIECES) + raw[at + rng.randrange(3) :]
    victim.write_bytes(damaged(rng, raw))
    fair = folder / FILES[2] if rng.random() < 0.5 else None
    sources = Sources(folder / FILES[0], folder / FILES[1], fair, folder / "apps.json", 6, lenient=rng.random() < 0.5)
    found = taken_or_refused(lambda: import_yarn(sources, "mine"), folder, refusal=ConfigError)
    if found is None:
        return True
    queues = found.experiment["scheduler"]["allocation"]["queues"]
    assert queues
    assert sum(queue["capacity"] for queue in queues.values()) <= 1 + 1e-5
    assert all(0 <= queue["capacity"] <= queue["maximum"] + 1e-9 <= 1 + 2e-9 for queue in queues.values())
    assert found.applications is not None
    assert {job.queue for job in found.applications.jobs} <= set(queues)
    return False


def test_damaged_files(tmp_path: Path):
    refused = sum(one(tmp_path, seed) for seed in range(DAMAGED["files of YARN"]))
    assert 20 < refused < 190


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_damaged_files(tmp_path: Path):
    refused = sum(one(tmp_path, seed) for seed in range(400, 20_000))
    assert 2_000 < refused < 19_000
