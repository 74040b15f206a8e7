"""Which node a new container gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_files import complaints
from hypothesis import given
from hypothesis import strategies as st
from views import cluster

from emulator.core.decisions import PolicyError, choose_node
from emulator.experiment.load import load_experiment
from emulator.policies.fit import FIT
from emulator.policies.views import NodeView
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

NAMES = ("cpu", "memory_gb", "gpu")
ROOMY = {
    "first-fit": ["node-1"] * 4,
    "best-fit": ["node-2", "node-2", "node-1", "node-1"],
    "worst-fit": ["node-3", "node-3", "node-3", "node-1"],  # then both would have as much left: the first
    "dominant-resource": ["node-2", "node-2", "node-1", "node-1"],
}
EXPERIMENT = """\
name: fit
engine: sim
overheads: none
cluster:
  application_masters: outside
  node_groups:
  - {count: 1, resources: {cpu: 4, memory_gb: 32}}
  - {count: 1, resources: {cpu: 2, memory_gb: 32}}
  - {count: 1, resources: {cpu: 16, memory_gb: 128}}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  mechanism: wait
  fit: FIT
workload:
  jobs:
  - {name: a, queue: research, reduces: 4, reduce_s: 20, resources: {cpu: 1, memory_gb: 1}}
"""


def node(name: str, resources: tuple[int, ...], charged: tuple[int, ...]) -> NodeView:
    return NodeView(name, "rack-1", True, 9, 9, resources=resources, charged=charged, resource_names=NAMES)


@pytest.mark.parametrize("fit", [name for name in FIT.names if name != "offered"])
def test_containers_go_where_the_policy_says(tmp_path: Path, fit: str) -> None:
    path = tmp_path / "fit.yaml"
    path.write_text(EXPERIMENT.replace("FIT", fit))
    rows = simulated_history(resolve(load_experiment(path))).attempts
    assert sorted(row.node for row in rows if row.kind == "reduce") == sorted(ROOMY[fit])


def test_the_dominant_resource_is_that_of_the_request() -> None:
    """Of gpu the first node has the least left, of all resources on average the second."""
    nodes = (
        node("a", (8000, 8000, 4000), (0, 0, 3000)),
        node("b", (8000, 8000, 4000), (7000, 7000, 2000)),
        node("c", (8000, 8000, 4000), (0, 0, 0)),
    )
    chosen = {fit: choose_node(FIT.by_name[fit], cluster(), (500, 500, 1000), nodes, nodes[2]) for fit in FIT.names}
    assert chosen == {
        "offered": "c",
        "first-fit": "a",
        "best-fit": "b",
        "worst-fit": "c",
        "dominant-resource": "a",
    }


def test_containers_of_one_size_are_one_resource() -> None:
    nodes = (NodeView("a", "r", True, 4, 2), NodeView("b", "r", True, 4, 1), NodeView("c", "r", True, 4, 4))
    chosen = {fit: choose_node(FIT.by_name[fit], cluster(), (), nodes, nodes[0]) for fit in FIT.names}
    assert chosen["best-fit"] == chosen["dominant-resource"] == "b"
    assert chosen["worst-fit"] == "c"


def test_a_fit_that_names_another_node_is_refused() -> None:
    nodes = (node("a", (1000, 0, 0), (0, 0, 0)),)
    mine = FIT.own("mine:fit", lambda view, request, nodes, offer: "b")
    with pytest.raises(PolicyError, match="mine:fit returned 'b'; it must return the name of one"):
        choose_node(mine, cluster(), (1, 0, 0), nodes, nodes[0])


@pytest.mark.parametrize("allocation", ["{name: fair}", "{name: external, command: [a]}"])
def test_who_chooses_nodes_has_no_fit(tmp_path: Path, allocation: str) -> None:
    path = tmp_path / "fit.yaml"
    head, _, rest = EXPERIMENT.replace("FIT", "best-fit").partition("  allocation: ")
    path.write_text(f"{head}  allocation: {allocation}\n{rest[rest.index('  mechanism') :]}")
    lines = complaints(path)
    assert any("scheduler.fit: " in line and "chooses the nodes itself" in line for line in lines), lines


AMOUNTS = st.tuples(*[st.integers(0, 8)] * 3)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5), AMOUNTS)
def test_best_and_worst_are_the_ends_of_one_order(
    nodes: list[tuple[tuple[int, ...], tuple[int, ...]]], need: tuple[int, ...]
) -> None:
    views = tuple(
        node(f"n{i}", tuple(map(sum, zip(need, charged, left, strict=True))), charged)
        for i, (charged, left) in enumerate(nodes)
    )
    views = tuple(view for view in views if any(view.resources))
    if not views:
        return

    def left(view: NodeView) -> float:
        shares = [
            (has - charged - asked) * 10**6 // has
            for has, charged, asked in zip(view.resources, view.charged, need, strict=True)
            if has
        ]
        return sum(shares) // len(shares)

    by_name = {view.name: left(view) for view in views}
    best, worst = (choose_node(FIT.by_name[fit], cluster(), need, views, views[0]) for fit in ("best-fit", "worst-fit"))
    assert by_name[best] == min(by_name.values())
    assert by_name[worst] == max(by_name.values())
