"""Recorded decisions of other systems, given from outside to the whole machines: all happens when it was recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from emulator.errors import RunError
from tests.peers.holding import records
from tests.peers.played import KINDS, PLAYER, Recorded, play

ROOT = Path(__file__).resolve().parents[2]
DATA, SLURM = ROOT / "tests/data", ROOT / "analysis/claims/slurm"
PROGRAM = ROOT / "tests/peers/played.py"


def recorded(kind: str, *paths: Path, count: int | None = None) -> Iterator[Recorded]:
    found = (each for path in paths for each in records(path))
    return (KINDS[kind](each) for each in islice(found, count))


FEW = (
    *recorded("kube", DATA / "kubernetes/ten-days.jsonl.gz", count=1),
    *recorded("kueue", DATA / "kueue/ten-days.jsonl.gz", count=1),
    *recorded("slurm", SLURM / "runs-1.json"),
)


@pytest.mark.parametrize("each", FEW, ids=lambda each: each.name)
def test_each_start_eviction_stop_and_end_is_at_its_time(tmp_path: Path, each: Recorded) -> None:
    assert [*play(each, tmp_path)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("kube", [DATA / "kubernetes/ten-days.jsonl.gz"]),
        ("kueue", [DATA / "kueue/ten-days.jsonl.gz"]),
        ("slurm", [SLURM / "runs-1.json", SLURM / "runs-2.json"]),
    ],
)
def test_all_of_them(kind: str, files: list[Path]) -> None:
    command = [sys.executable, str(PROGRAM), kind, *map(str, files)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_pod_more_than_a_node_holds_is_refused(tmp_path: Path) -> None:
    """The day again, with nodes of which each lacks one cpu: the player does not look, the machines do."""
    (day,) = recorded("kube", DATA / "kubernetes/ten-days.jsonl.gz", count=1)
    blind = tmp_path / "blind.py"
    blind.write_text(PLAYER.read_text().replace("if not has_room or len", "if len"))
    assert blind.read_text() != PLAYER.read_text()
    nodes = {name: {**has, "cpu": has["cpu"] - 1} for name, has in day.nodes.items()}
    with pytest.raises(RunError, match=r'"decision": "grant", .* lacks .* cpu of '):
        list(play(replace(day, nodes=nodes), tmp_path, blind))
