"""Imported clusters as experiments, and tables of pods, damaged: taken or refused in words, as in
``test_damaged_inputs.py``."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.loops.search import search
from emulator.policies.kubernetes.terms import first_of_best
from emulator.resolved import resolve
from emulator.sites.kubernetes import (
    HOSTNAME,
    AffinityTerm,
    Arrival,
    Bound,
    BudgetSpec,
    Effect,
    Kubernetes,
    Node,
    Pending,
    Pod,
    PriorityClass,
    Replacement,
    State,
    Taint,
    Toleration,
)
from emulator.sites.kueue import Kueue
from emulator.sites.labels import Selector
from tests.damage import damaged, taken_or_refused, try_many
from tests.examples import DAMAGED
from tests.kubernetes_questions import place
from tests.property.test_damaged_inputs import ALL_PIECES, altered
from tests.unit.test_slurm_import import CONF, SACCT
from workloads.arrivals import read_pods
from workloads.kubernetes.cluster import read_kubernetes
from workloads.kueue.state import read_kueue
from workloads.saved import read_saved, write_saved
from workloads.slurm.sacct import read_slurm

DATA = Path(__file__).resolve().parents[1] / "data"
S = 10**9
HALF = {"cpu": 1000, "memory": 1 << 30}
WEB_LABELS = {"app": "web"}
APART = (AffinityTerm(Selector(WEB_LABELS), HOSTNAME),)
WEB = Pod("web", 5, requests=HALF, labels=WEB_LABELS, anti_affinity=APART)
CLUSTER = Kubernetes(
    State(
        (Node("a", {"cpu": 2000, "memory": 4 << 30, "pods": 9}, {"disk": "ssd"}, (Taint("x", Effect.NO_SCHEDULE),)),),
        (Bound(WEB, "a", -5 * S, True, True),),
        (Pending(Pod("urgent", 10, requests=HALF, selector={"disk": "ssd"}), "a", 1),),
    ),
    (PriorityClass("urgent", 10),),
    (BudgetSpec("b", Selector({"app": "web"}), 1),),
    (
        Arrival(WEB, -5 * S, None, S, Replacement.GONE, "a"),
        Arrival(Pod("batch", requests=HALF, tolerations=(Toleration("x"),)), 0, 9 * S, S),
        Arrival(Pod("urgent", 10, requests=HALF, tolerations=(Toleration(),)), 3 * S, 3 * S, 0, Replacement.NEVER),
    ),
)
TABLE = b"submit_s,name,class,duration_s,grace_s,count,cpu,memory\n0,x,urgent,5,1,2,500m,1Gi\n1e1,y,,,,,1.5,2e3\n"


def kubernetes(path: Path) -> None:
    write_saved(path, CLUSTER, ())


def kueue(path: Path) -> None:
    write_saved(path, read_kueue([DATA / "kueue/objects"])[0], ())


def slurm(path: Path) -> None:
    (path.parent / "slurm.conf").write_text(CONF)
    (path.parent / "sacct.txt").write_text(SACCT)
    write_saved(path, read_slurm(path.parent / "slurm.conf", path.parent / "sacct.txt")[0], ())


@pytest.mark.parametrize("write", [kubernetes, kueue, slurm])
def test_sites(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path, theirs = tmp_path / "mine.yaml", tmp_path / "theirs.yaml"
    write(path)
    whole, text = path.read_bytes(), path.read_text()
    beside = dump_yaml({"name": "x", "site": "mine.yaml", "scheduler": {"mechanism": "kill"}}).encode()

    def one(rng: random.Random) -> None:
        theirs.write_bytes(damaged(rng, beside, ALL_PIECES) if rng.random() < 0.2 else beside)
        if rng.random() < 0.5:
            path.write_bytes(damaged(rng, whole, ALL_PIECES))
        else:
            data: Any = yaml.load(text, yaml.CSafeLoader)
            path.write_text(yaml.dump(altered(rng, data), Dumper=yaml.CSafeDumper, sort_keys=False))
        resolve(load_experiment(rng.choice((path, theirs))))

    try_many("sites", one)


def of_kueue(folder: Path) -> Any:
    kueue = read_kueue([folder])[0]
    search(kueue.cluster, (), "1", iter([True, True, False]).__next__)
    return kueue


def of_kubernetes(folder: Path) -> Any:
    cluster = read_kubernetes([folder]).cluster
    for each in cluster.state.waiting:
        place(cluster.state, each.pod, first_of_best)
    return cluster


@pytest.mark.parametrize(
    ("system", "read", "kind", "secret"),
    [("kueue", of_kueue, Kueue, "SECRET-e"), ("kubernetes", of_kubernetes, Kubernetes, "SECRET-")],
)
def test_objects(tmp_path: Path, system: str, read: Callable[[Path], Any], kind: Any, secret: str) -> None:
    raw = {path.name: path.read_bytes() for path in sorted((DATA / system / "objects").iterdir())}
    folder, path = tmp_path / "objects", tmp_path / "mine.yaml"
    folder.mkdir()
    seeds = range(DAMAGED[f"objects of {system}"])
    refused = 0
    for seed in seeds:
        rng = random.Random(f"{system}-{seed}")
        for name, content in raw.items():
            (folder / name).write_bytes(damaged(rng, content) if rng.random() < 0.6 else content)
        found = taken_or_refused(lambda: read(folder), folder, secret)
        refused += found is None
        if found is not None:
            write_saved(path, found, [])
            assert read_saved(path, kind) == found
    assert 0.1 * len(seeds) < refused < 0.95 * len(seeds)


def test_tables_of_pods(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"

    def one(rng: random.Random) -> None:
        path.write_bytes(damaged(rng, TABLE, ALL_PIECES))
        read_pods(path, CLUSTER)

    try_many("tables of pods", one)
