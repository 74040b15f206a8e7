"""Kueue beside kube-scheduler: a workload that has its quota waits until nodes fit all of its pods, and says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.policies.kueue.binding import Binder, Binding
from emulator.policies.kueue.phases import EvictedBy
from emulator.policies.kueue.scheduler import Eviction, workloads_player
from emulator.sites.kubernetes import Effect, Node, Operator, Taint, Toleration
from emulator.sites.kueue import (
    Arrival,
    Cluster,
    ClusterQueue,
    Flavor,
    FlavorQuotas,
    PodSet,
    PodsReady,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Workload,
)
from emulator.vocabulary import SECOND_NS
from tests.commands import run_natjam
from tests.peers.holding import records
from tests.peers.kueue import arrivals_of, cluster_of

DAYS = Path(__file__).parent.parent / "data/kueue/days.jsonl.gz"
SPOT = Taint("spot", Effect.NO_SCHEDULE, "true")


def nodes(*cpus: int, labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> tuple[Node, ...]:
    names = zip("nmopqr", cpus, strict=False)
    return tuple(Node(name, {"cpu": cpu * 1000}, labels or {}, taints) for name, cpu in names)


def cluster(cpus: int = 100, *flavors: Flavor, pods_ready: PodsReady | None = None) -> Cluster:
    of = tuple(FlavorQuotas(each.name, {"cpu": Quota(cpus * 1000)}) for each in flavors or (Flavor("f"),))
    queue = ClusterQueue("q", groups=(ResourceGroup(("cpu",), of),))
    return Cluster((queue,), flavors=flavors or (Flavor("f"),), pods_ready=pods_ready)


def arrival(name: str, at_s: int, length_s: int | None, pods: int, cpus: int, **more: object) -> Arrival:
    podset = PodSet("main", pods, {"cpu": cpus * 1000}, **more)  # type: ignore[arg-type]
    duration_ns = None if length_s is None else length_s * SECOND_NS
    return Arrival(Workload(name, "q", (podset,), created_ns=at_s * SECOND_NS), duration_ns)


def spans(of: Cluster, arrivals: list[Arrival], on: tuple[Node, ...]) -> dict[str, list[tuple[float, float | None]]]:
    """When each workload was on its nodes, in seconds."""
    found = workloads_player(of, arrivals, nodes=on).finish()
    return {
        name: [(one.start_ns / SECOND_NS, None if one.end_ns is None else one.end_ns / SECOND_NS) for one in each]
        for name, each in found.items()
    }


def test_fragments_keep_a_workload_with_quota_waiting() -> None:
    """Each node has three of its four cpus used: the quota has room for two more cpus, no node has."""
    arrivals = [arrival("a", 0, 100, 1, 3), arrival("b", 1, 50, 1, 3), arrival("c", 2, 10, 1, 2)]
    assert spans(cluster(8), arrivals, nodes(4, 4)) == {"a": [(0, 100)], "b": [(1, 51)], "c": [(51, 61)]}
    assert spans(cluster(8), arrivals, nodes(8))["c"] == [(2, 12)]


def test_pods_that_are_bound_hold_their_nodes_until_the_others_are() -> None:
    """One of two pods of ``b`` gets a node at once, and so ``c`` finds none."""
    arrivals = [arrival("a", 0, 100, 1, 4), arrival("b", 1, 10, 2, 4), arrival("c", 2, 10, 1, 4)]
    assert spans(cluster(), arrivals, nodes(4, 4)) == {"a": [(0, 100)], "b": [(100, 110)], "c": [(110, 120)]}


def test_pods_have_the_labels_and_tolerations_of_their_flavors() -> None:
    flavor = Flavor("f", {"pool": "a"}, tolerations=(Toleration("spot", Operator.EXISTS),))
    on = (Node("x", {"cpu": 8000}), Node("y", {"cpu": 8000}, {"pool": "a"}, (SPOT,)))
    found = workloads_player(cluster(100, flavor), [arrival("a", 0, 10, 2, 1)], nodes=on).finish()
    assert [*found["a"][0].nodes] == ["y", "y"]


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        (nodes(4, 4), "2 nodes: 5 cpu asked, it has less in all (n, m)"),
        (nodes(8, taints=(SPOT,)), "n: the pod does not tolerate its taint spot"),
        (nodes(8, labels={"pool": "b"}), "n: it has no label pool=a, which the pod's node selector wants"),
    ],
)
def test_why_a_workload_waits_is_said_by_node(on: tuple[Node, ...], reason: str) -> None:
    binder = Binder(on, [Flavor("f", {"pool": "a"} if "pool" in reason else {})])
    binder.create(arrival("w", 0, 1, 2, 5).workload, ({"cpu": "f"},), (), 0)
    assert [*binder.bind(0)] == [Binding("w", (), f"w: admitted by Kueue, no node fits 2 of 2 pods: {reason}")]
    binder.remove("w", 1)
    assert not binder.has_ready


def test_a_pod_that_leaves_makes_room_for_those_that_wait() -> None:
    binder = Binder(nodes(4), [])
    for name in ("a", "b"):
        binder.create(arrival(name, 0, 1, 1, 3).workload, ({"cpu": "f"},), (), 0)
    assert [bool(each.places) for each in binder.bind(0)] == [True, False]
    assert not binder.has_ready
    binder.remove("a", 1)
    assert [*binder.bind(1)] == [Binding("b", ((0, "n"),))]


def test_whose_pods_find_no_node_in_time_goes_and_others_get_its_quota() -> None:
    rule = PodsReady(60 * SECOND_NS, backoff_base_ns=30 * SECOND_NS)
    arrivals = [arrival("large", 0, 10, 1, 5), arrival("small", 1, 500, 1, 4)]
    player = workloads_player(cluster(8, pods_ready=rule), arrivals, nodes=nodes(4))
    reasons = [each.reason for cycle in player.play() for each in cycle.decisions if isinstance(each, Eviction)]
    assert player.executions["large"] == []
    assert [one.start_ns // SECOND_NS for one in player.executions["small"]] == [61]
    assert reasons[0] is EvictedBy.PODS_READY


def test_a_workload_that_waits_for_nodes_is_preempted_like_others() -> None:
    """``urgent`` needs the quota of ``wide``, whose second pod has no node; then ``wide`` starts after it."""
    group = ResourceGroup(("cpu",), (FlavorQuotas("f", {"cpu": Quota(8000)}),))
    queue = ClusterQueue("q", groups=(group,), preemption=Preemption(Policy.LOWER_PRIORITY))
    wide, urgent = arrival("wide", 0, 10, 2, 3), arrival("urgent", 5, 20, 1, 4)
    urgent = replace(urgent, workload=replace(urgent.workload, priority=1))
    player = workloads_player(Cluster((queue,)), [wide, urgent, arrival("a", 0, 60, 1, 2)], nodes=nodes(4, 4))
    found = {name: [one.start_ns // SECOND_NS for one in each] for name, each in player.finish().items()}
    assert found == {"wide": [60], "urgent": [5], "a": [0]}


def test_a_day_on_nodes_that_are_large_enough_is_the_day_of_quotas() -> None:
    record = next(iter(records(DAYS)))
    arrivals, of = arrivals_of(record), cluster_of(record)
    names = {name for each in arrivals for podset in each.workload.podsets for name in podset.requests}
    huge = Node("huge", dict.fromkeys(names, 1 << 60))
    plain, placed = (
        workloads_player(of, arrivals, record["release"] * SECOND_NS, nodes=on).finish() for on in ((), (huge,))
    )
    assert sum(map(len, plain.values())) > len(arrivals)
    for name, executions in plain.items():
        mine = [(one.start_ns, one.end_ns, one.by) for one in placed[name]]
        assert mine == [(one.start_ns, one.end_ns, one.by) for one in executions]


SITE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: gpu
      resources: [{name: cpu, nominalQuota: 16}, {name: nvidia.com/gpu, nominalQuota: 16}]
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, nvidia.com/gpu: 8, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: 8, nvidia.com/gpu: 8, pods: 110}}}
"""
TABLE = """name,queue,submit_s,duration_s,count,cpu,nvidia.com/gpu
a,q,0,1200,1,2,3
b,q,10,3000,1,2,3
c,q,20,1200,1,2,8
never,q,30,600,1,1,9
"""


def test_a_run_says_who_had_quota_and_no_node(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "table.csv").write_text(TABLE)
    arrivals, out = ("--arrivals", tmp_path / "table.csv"), tmp_path / "run"
    run_natjam("import", "kueue", tmp_path / "site.yaml", *arrivals, "--out", tmp_path / "mine.yaml")
    shown = " ".join(run_natjam("run", tmp_path / "mine.yaml", "--engine", "sim", "--out", out).output.split())
    assert "waited although they may run" in shown
    summary = json.loads((out / "summary.json").read_text())
    first, *others = summary["waits"]
    assert (first["job"], first["since_s"], first["until_s"]) == ("c", 20, 1200)
    assert first["why"].endswith("no node fits 1 of 1 pods: 2 nodes: 8 nvidia.com/gpu asked, less is left (n1, n2)")
    assert {each["job"] for each in others} == {"never"}
    jobs = {each["name"]: each for each in summary["jobs"]}
    assert (jobs["c"]["start_s"], jobs["never"]["start_s"], jobs["never"]["state"]) == (1200, None, "killed")
    assert "never: admitted by Kueue, no node fits" in jobs["never"]["reason"]
    explained = " ".join(run_natjam("explain", out).output.split())
    assert "from 20.0 s to 1200.0 s c: admitted by Kueue, no node fits 1 of 1 pods" in explained
    assert "verified" in run_natjam("verify", out).output
