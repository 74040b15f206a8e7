"""Imported clusters and the files that they are made from, damaged: taken or refused in words, as in
``test_damaged_inputs.py``; and what is taken can be run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kubernetes.model import (
    HOSTNAME,
    AntiAffinity,
    Bound,
    BudgetSpec,
    Effect,
    Node,
    Pending,
    Pod,
    PriorityClass,
    State,
    Taint,
    Toleration,
)
from emulator.policies.kubernetes.player import Arrival, Replacement
from emulator.resolved import resolve
from tests.damage import damaged, try_many
from tests.property.test_damaged_inputs import ALL_PIECES, altered
from tests.unit.test_slurm_import import CONF, SACCT
from workloads.kubernetes import arrivals as kubernetes_arrivals
from workloads.kubernetes.cluster import Kubernetes, read_kubernetes
from workloads.kubernetes.saved import write_saved as write_kubernetes
from workloads.kueue import table as kueue_table
from workloads.kueue.saved import write_saved as write_kueue
from workloads.kueue.state import read_kueue
from workloads.slurm.conf import read_conf
from workloads.slurm.sacct import read_sacct
from workloads.slurm.saved import Slurm
from workloads.slurm.saved import write_saved as write_slurm

DATA = Path(__file__).resolve().parents[1] / "data"
S = 10**9
HALF = {"cpu": 1000, "memory": 1 << 30}
WEB = Pod("web", 5, requests=HALF, labels={"app": "web"}, anti_affinity=(AntiAffinity({"app": "web"}, HOSTNAME),))
CLUSTER = Kubernetes(
    State(
        (Node("a", {"cpu": 2000, "memory": 4 << 30, "pods": 9}, {"disk": "ssd"}, (Taint("x", Effect.NO_SCHEDULE),)),),
        (Bound(WEB, "a", -5 * S, True, True),),
        (Pending(Pod("urgent", 10, requests=HALF, selector={"disk": "ssd"}), "a", 1),),
    ),
    (PriorityClass("urgent", 10),),
    (BudgetSpec("b", {"app": "web"}, 1),),
    (
        Arrival(WEB, -5 * S, None, S, Replacement.GONE, "a"),
        Arrival(Pod("batch", requests=HALF, tolerations=(Toleration("x"),)), 0, 9 * S, S),
        Arrival(Pod("urgent", 10, requests=HALF, tolerations=(Toleration(),)), 3 * S, 3 * S, 0, Replacement.NEVER),
    ),
)
TABLE = b"submit_s,name,class,duration_s,grace_s,count,cpu,memory\n0,x,urgent,5,1,2,500m,1Gi\n1e1,y,,,,,1.5,2e3\n"
QUEUES = "queue,submit_s,name,priority,duration_s,count,cpu\n{queue},0,x,5,9,2,500m\n{queue},3.5,y,,,1,1e1\n"


def kubernetes(path: Path) -> None:
    write_kubernetes(path, CLUSTER, ())


def kueue(path: Path) -> None:
    write_kueue(path, read_kueue([DATA / "kueue/objects"])[0], ())


def slurm(path: Path) -> None:
    (path.parent / "slurm.conf").write_text(CONF)
    (path.parent / "sacct.txt").write_text(SACCT)
    cluster, _ = read_conf(path.parent / "slurm.conf")
    write_slurm(path, Slurm(cluster, read_sacct(path.parent / "sacct.txt", cluster)[0]), ())


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


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("kubernetes/objects/cluster.json", read_kubernetes),
        (
            "kubernetes/objects/rest.yaml",
            lambda paths: read_kubernetes([DATA / "kubernetes/objects/cluster.json", *paths]),
        ),
        ("kueue/objects/queues.yaml", read_kueue),
        ("kueue/objects/workloads.json", lambda paths: read_kueue([DATA / "kueue/objects/queues.yaml", *paths])),
    ],
)
def test_objects(tmp_path: Path, file: str, read: Callable[[list[Path]], object]) -> None:
    whole, path = (DATA / file).read_bytes(), tmp_path / Path(file).name

    def one(rng: random.Random) -> None:
        path.write_bytes(damaged(rng, whole, ALL_PIECES))
        read([path])

    try_many("objects", one)


def test_tables_of_arrivals(tmp_path: Path) -> None:
    path, cluster = tmp_path / "arrivals.csv", read_kueue([DATA / "kueue/objects"])[0].cluster
    queues = QUEUES.format(queue=cluster.queues[0].name).encode()

    def one(rng: random.Random) -> None:
        whole, of_kueue = rng.choice(((TABLE, False), (queues, True)))
        path.write_bytes(damaged(rng, whole, ALL_PIECES))
        if of_kueue:
            kueue_table.read_arrivals(path, cluster)
        else:
            kubernetes_arrivals.read_arrivals(path, CLUSTER)

    try_many("tables of arrivals", one)
