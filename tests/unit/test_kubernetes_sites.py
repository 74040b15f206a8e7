"""What clusters have that decides where a pod goes and whom it preempts, from manifests to the answer of ``who``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.policies.kubernetes.placement import enough_nodes
from emulator.sites.kubernetes import HOSTNAME, ZONE
from tests.commands import run_natjam
from tests.kubernetes_objects import node, of, pod, written
from workloads.kubernetes.cluster import read_kubernetes

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}
NOT_WEB = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
BY_ZONE: dict[str, Any] = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": WEB,
}
APPS = "apps/v1"


def affinity(kind: str, *terms: Mapping[str, Any], how: str = REQUIRED) -> dict[str, Any]:
    """The ``affinity`` of a pod's spec."""
    return {"affinity": {kind: {how: list(terms)}}}


def about(selector: Mapping[str, Any], topology: str = ZONE, **more: Any) -> dict[str, Any]:
    """A term about other pods."""
    return {"topologyKey": topology, "labelSelector": selector, **more}


def who(path: Path, name: str, *objects: Mapping[str, Any]) -> list[str]:
    """What ``natjam who`` prints for a pod."""
    return run_natjam("who", written(path / "c.yaml", *objects), name).stdout.splitlines()


ON_A1 = {"nodeSelector": {HOSTNAME: "a1"}}
PORT = {"containers": [{"ports": [{"hostPort": 80}]}]}
UDP = {"containers": [{"ports": [{"hostPort": 80, "protocol": "UDP"}]}]}
HERE = {"containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]}
THERE = {"containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.2"}]}]}
OF_HOST = {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}
BESIDE = {"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}]}
BEFORE = {"initContainers": [{"ports": [{"hostPort": 80}]}]}
HAS_APP = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
IN_ALL_ZONES = {**BY_ZONE, "nodeAffinityPolicy": "Ignore"}
NAMED_B1 = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b1"]}]}]}
TAINTED = {**node("c1"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
ON_TWO = {"weight": 5, "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["a2"]}]}}


@pytest.mark.parametrize(
    ("there", "spec", "first_line"),
    [
        # Required affinity: with a pod in the zone; a pod of lower priority is no reason to preempt.
        ([pod("x", "b1", app="web")], affinity("podAffinity", about(WEB)), "goes to b1"),
        ([], affinity("podAffinity", about(WEB)), "finds no node where preemption would help"),
        ([], {**affinity("podAffinity", about(WEB)), "app": "web"}, "goes to a1"),  # it is the first of them
        ([pod("x", "b1", app="web")], {**affinity("podAffinity", about(NOT_WEB)), "app": "web"}, "finds no node"),
        # Anti-affinity, of the pod and of those there.
        ([pod("x", "a1", app="web")], affinity("podAntiAffinity", about(WEB)), "goes to b1"),
        ([pod("x", "a1", **affinity("podAntiAffinity", about(NOT_WEB)))], {}, "goes to b1"),
        ([pod("x", "a1", **affinity("podAntiAffinity", about(NOT_WEB)))], {"app": "web", **ON_A1}, "goes to a1"),
        # Preferences.
        ([], affinity("nodeAffinity", ON_TWO, how=PREFERRED), "goes to a2"),
        (
            [pod("x", "b1", app="web")],
            affinity("podAffinity", {"weight": 9, "podAffinityTerm": about(WEB)}, how=PREFERRED),
            "goes to b1",
        ),
        (
            [pod("x", "a1", app="web")],
            affinity("podAntiAffinity", {"weight": 9, "podAffinityTerm": about(WEB)}, how=PREFERRED),
            "goes to b1",
        ),
        # Spread: required, preferred, not over the nodes that the pod cannot have.
        ([pod("x", "a1", app="web")], {"app": "web", "topologySpreadConstraints": [BY_ZONE]}, "goes to b1"),
        (
            [pod("x", "a1", app="web"), pod("y", "a2", app="web")],
            {"app": "web", "topologySpreadConstraints": [{**BY_ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]},
            "goes to b1",
        ),
        (
            [pod("x", "a1", app="web")],
            {"app": "web", "nodeSelector": {ZONE: "a"}, "topologySpreadConstraints": [BY_ZONE]},
            "goes to a2",
        ),
        (
            [pod("x", "a1", app="web")],
            {
                "app": "web",
                "nodeSelector": {ZONE: "a"},
                "topologySpreadConstraints": [{**BY_ZONE, "nodeAffinityPolicy": "Ignore"}],
            },
            "preempts on a1",
        ),
        ([], {"app": "web", "topologySpreadConstraints": [{**BY_ZONE, "minDomains": 3}]}, "goes to a1"),
        (
            [pod("x", "a1", app="web"), pod("y", "b1", app="web")],
            {"app": "web", "topologySpreadConstraints": [{**BY_ZONE, "minDomains": 3}]},
            "preempts on a1",
        ),
        # Ports of the node.
        ([pod("x", "a1", **PORT), pod("y", "a2", **PORT)], PORT, "goes to b1"),
        ([pod("x", "a1", **PORT)], {**UDP, **ON_A1}, "goes to a1"),
        ([pod("x", "a1", **HERE)], {**THERE, **ON_A1}, "goes to a1"),
        ([pod("x", "a1", **HERE)], {**PORT, **ON_A1}, "preempts on a1"),
        ([pod("x", "a1", **OF_HOST)], {**PORT, **ON_A1}, "preempts on a1"),
        ([pod("x", "a1", **BESIDE)], {**PORT, **ON_A1}, "preempts on a1"),
        ([pod("x", "a1", **BEFORE)], {**PORT, **ON_A1}, "goes to a1"),
        # Values of the pod's own labels, nodes by their names, and taints of the nodes over which a pod is spread.
        (
            [pod("x", "a1", app="web")],
            {**affinity("podAntiAffinity", about(WEB, matchLabelKeys=["app"])), **ON_A1},
            "goes to a1",
        ),
        (
            [pod("x", "a1", app="web")],
            {"app": "web", **affinity("podAntiAffinity", about({}, mismatchLabelKeys=["app"])), **ON_A1},
            "goes to a1",
        ),
        (
            [pod("x", "a1", app="web")],
            {"topologySpreadConstraints": [{**BY_ZONE, "labelSelector": HAS_APP, "matchLabelKeys": ["app"]}], **ON_A1},
            "goes to a1",
        ),
        ([], {"affinity": {"nodeAffinity": {REQUIRED: NAMED_B1}}}, "goes to b1"),
        (
            [TAINTED, pod("x", "a1", app="web"), pod("y", "b1", app="web")],
            {"app": "web", "topologySpreadConstraints": [IN_ALL_ZONES], **ON_A1},
            "preempts on a1",
        ),
        (
            [TAINTED, pod("x", "a1", app="web"), pod("y", "b1", app="web")],
            {"app": "web", "topologySpreadConstraints": [{**IN_ALL_ZONES, "nodeTaintsPolicy": "Honor"}], **ON_A1},
            "goes to a1",
        ),
    ],
)
def test_where_a_pod_goes(there: list[dict[str, Any]], spec: Any, first_line: str, tmp_path: Path) -> None:
    asked = pod("new", priority=9, **spec)
    first, *_ = who(tmp_path, "new", node("a1"), node("a2"), node("b1"), *there, asked)
    assert first.startswith(f"d/new (priority 9) {first_line}")


def test_pods_are_taken_as_they_are(tmp_path: Path) -> None:
    """One that was preempted still holds its room; for the one that waits for it room is kept on its node."""
    going = pod("going", "a1", 8)
    going["metadata"]["deletionTimestamp"] = "2026-01-05T09:01:00Z"
    going["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    waits = pod("waits", "", 8, 5)
    waits["status"]["nominatedNodeName"] = "a1"
    path = written(tmp_path / "c.yaml", node("a1"), node("b1", 4), going, waits, pod("new", "", 8, 5))
    state = read_kubernetes([path]).cluster.state
    (bound,) = state.bound
    assert (bound.terminating, bound.preempted) == (True, True)
    assert [(each.pod.name, each.nominated) for each in state.waiting] == [("d/waits", "a1"), ("d/new", None)]
    assert "finds no node where preemption would help" in run_natjam("who", path, "new").stdout
    assert (
        "d/waits (priority 5) waits: those whom it preempted before are still going"
        in run_natjam("who", path, "waits").stdout
    )


def test_a_budget_is_as_its_status_says(tmp_path: Path) -> None:
    """40% of ten expected pods are four, of which three are there; one is counted already."""
    budget = of("PodDisruptionBudget", "b", "policy/v1", selector=WEB, minAvailable="40%")
    budget["status"] = {"disruptionsAllowed": 2, "expectedPods": 10, "disruptedPods": {"w0": "2026-01-05T09:01:00Z"}}
    pods = [pod(f"w{number}", "a1", app="web") for number in range(3)]
    cluster = read_kubernetes([written(tmp_path / "c.yaml", node("a1"), budget, *pods)]).cluster
    assert [each.min_available for each in cluster.budgets] == [4]
    (standing,) = cluster.state.budgets
    assert (standing.allowed, standing.disrupted) == (2, ("d/w0",))
    assert [standing.counts(each.pod) for each in cluster.state.bound] == [False, True, True]


@pytest.mark.parametrize(
    ("spec", "status", "pods"),
    [
        ({"parallelism": 2}, {}, 2),
        ({"parallelism": 2, "completions": 1}, {}, 1),
        ({"parallelism": 2, "suspend": True}, {}, 0),
        ({"parallelism": 2}, {"active": 1}, 0),
        ({"parallelism": 2}, {"succeeded": 1}, 0),
        ({"parallelism": 2}, {"failed": 1}, 0),
    ],
)
def test_a_job_that_has_not_begun_makes_its_pods(
    spec: dict[str, Any], status: dict[str, Any], pods: int, tmp_path: Path
) -> None:
    job = {**of("Job", "j", "batch/v1", template={"spec": {"containers": []}}, **spec), "status": status}
    assert len(read_kubernetes([written(tmp_path / "c.yaml", node("a1"), job)]).cluster.state.waiting) == pods


def test_pods_that_name_no_class_have_the_usual_one(tmp_path: Path) -> None:
    usual = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}}
    usual |= {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    asked = pod("new")
    del asked["spec"]["priority"]
    found = read_kubernetes([written(tmp_path / "c.yaml", node("a1"), usual, asked)])
    (waiting,) = found.cluster.state.waiting
    assert (waiting.pod.priority, waiting.pod.policy.value) == (7, "Never")


def test_preemption_sees_what_a_victims_leaving_satisfies(tmp_path: Path) -> None:
    """Of two nodes with a pod of lower priority, only where the port becomes free does preemption help."""
    taken = [pod("low", "a1", **PORT), pod("high", "b1", priority=50, **PORT), pod("other", "b1")]
    lines = who(tmp_path, "new", node("a1"), node("b1"), *taken, pod("new", priority=9, **PORT))
    assert lines[1:] == [
        "a1: d/low (priority 0) would go; taken",
        "b1: its port 80/TCP is taken even with all of lower priority gone",
    ]


def test_preemption_sees_that_the_pod_goes_that_another_has_to_be_with(tmp_path: Path) -> None:
    """All of lower priority are taken away first; then nobody is there with whom the pod may be."""
    asked = pod("new", "", 4, 9, **affinity("podAffinity", about(WEB, HOSTNAME)))
    beside, low = pod("with", "a1", 4, 50, app="web"), pod("low", "a1", 4, 1)
    lines = who(tmp_path, "new", node("a1"), node("b1"), beside, low, asked)
    assert lines[1] == "a1: d/low (priority 1) would go; taken"
    beside["spec"]["priority"] = 0
    lines = who(tmp_path, "new", node("a1"), node("b1"), beside, low, asked)
    assert lines[0] == "d/new (priority 9) finds no node where preemption would help"


def test_namespaces_are_selected_by_their_labels(tmp_path: Path) -> None:
    term = about(WEB, namespaceSelector={"matchLabels": {"team": "x"}})
    other = pod("x", "a1", app="web")
    other["metadata"]["namespace"] = "theirs"
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs", "labels": {"team": "x"}}}
    objects = [node("a1", 32), node("b1"), other, pod("new", **affinity("podAntiAffinity", term))]
    assert who(tmp_path, "new", *objects, theirs)[0] == "d/new (priority 0) goes to b1"
    theirs["metadata"]["labels"] = {"team": "y"}
    assert who(tmp_path, "new", *objects, theirs)[0] == "d/new (priority 0) goes to a1"


def test_the_volume_of_a_claim_says_where_its_pod_may_be(tmp_path: Path) -> None:
    in_b = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]}
    volume = of("PersistentVolume", "v", nodeAffinity={"required": in_b})
    claim = of("PersistentVolumeClaim", "c", volumeName="v")
    asked = pod("new", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
    lines = who(tmp_path, "new", node("a1"), node("b1"), volume, claim, asked)
    assert lines[:2] == ["d/new (priority 0) goes to b1", "a1: a volume of the pod cannot be reached from it"]
    volume["spec"]["claimRef"] = {"namespace": "d", "name": "new-data"}
    asked["spec"]["volumes"] = [{"name": "data", "ephemeral": {}}]
    assert who(tmp_path, "new", node("a1"), node("b1"), volume, asked)[0] == "d/new (priority 0) goes to b1"


@pytest.mark.parametrize("by", ["Service", "ReplicaSet", "Deployment", "StatefulSet"])
def test_pods_of_a_service_or_an_owner_are_spread_by_default(by: str, tmp_path: Path) -> None:
    there, new = pod("web-h1-a", "b1", app="web"), pod("web-h1-b", app="web")
    for each in (there, new):
        each["metadata"]["labels"]["pod-template-hash"] = "h1"
        if by != "Service":
            kind, name = ("ReplicaSet", "web-h1") if by == "Deployment" else (by, "web-h1")
            each["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
    maker = {
        "Service": of("Service", "web", selector={"app": "web"}),
        "Deployment": of("Deployment", "web", APPS, selector=WEB),
    }.get(by, of(by, "web-h1", APPS, selector=WEB, replicas=0))
    objects = [node("b1", 16), node("a1"), there, new]
    assert who(tmp_path, "web-h1-b", *objects, maker)[0] == "d/web-h1-b (priority 0) goes to a1"
    there["metadata"]["ownerReferences"] = new["metadata"]["ownerReferences"] = []
    assert who(tmp_path, "web-h1-b", *objects)[0] == "d/web-h1-b (priority 0) goes to b1"


def test_sets_make_the_pods_that_they_lack(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}
    claims = [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}]
    stateful = of("StatefulSet", "db", APPS, replicas=3, template=template, volumeClaimTemplates=claims)
    stateful["spec"]["ordinals"] = {"start": 1}
    on_ssd = {"containers": [], "nodeSelector": {"disk": "ssd"}}
    daemon = of("DaemonSet", "agent", APPS, template={"spec": on_ssd})
    there = pod("db-1", "a1")
    there["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "db", "controller": True}]
    nodes = [node("a1"), node("a2", disk="ssd"), node("b1", disk="ssd")]
    nodes[1]["spec"] = {"unschedulable": True}
    found = read_kubernetes([written(tmp_path / "c.yaml", *nodes, stateful, daemon, there)])
    waiting = {each.pod.name: each.pod for each in found.cluster.state.waiting}
    assert list(waiting) == ["d/db-2", "d/db-3", "d/agent-a2", "d/agent-b1"]
    assert waiting["d/db-3"].labels["apps.kubernetes.io/pod-index"] == "3"
    claimed = [each.has_it for each in found.losses if "its claim is not bound" in each.why]
    assert claimed == ["d/db-2", "d/db-3"]
    assert "d/agent-a2 (priority 0) goes to a2" in run_natjam("who", tmp_path / "c.yaml", "agent-a2").stdout


def test_a_sample_of_many_nodes_is_looked_at(tmp_path: Path) -> None:
    assert [enough_nodes(count) for count in (50, 100, 250, 1_000, 6_000)] == [100, 100, 120, 420, 300]
    nodes = [node(f"a{number}", 8 if number < 150 else 64) for number in range(250)]
    lines = who(tmp_path, "new", *nodes, pod("new"))
    assert lines[0] == "d/new (priority 0) goes to a0"  # the larger ones would be better, and are not looked at


def test_who_answers_for_all_pods_of_a_workload_in_turn(tmp_path: Path) -> None:
    """Each sees those before it: the anti-affinity of one keeps the next off its node, and a budget has less left."""
    low = [pod(f"low-{name}", name, 6, app="low") for name in ("a1", "b1", "c1")]
    budget = of("PodDisruptionBudget", "low", "policy/v1", selector={"matchLabels": {"app": "low"}}, minAvailable=2)
    budget["status"] = {"disruptionsAllowed": 1}
    path = written(tmp_path / "c.yaml", *map(node, ("a1", "b1", "c1")), node("d1", 4), *low, budget)
    requests = [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]
    spec = {"containers": requests, "priority": 9, **affinity("podAntiAffinity", about(WEB, HOSTNAME))}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    web = of("Deployment", "web", APPS, replicas=5, selector=WEB, template=template)
    lines = run_natjam("who", path, written(tmp_path / "web.yaml", web)).stdout.splitlines()
    assert lines[0] == "d/web-0 (priority 9) goes to d1"
    assert [line for line in lines if line.startswith("d/web-")][1:] == [
        "d/web-1 (priority 9) preempts on a1, and waits for its victims to go",
        "d/web-2 (priority 9) preempts on b1, and waits for its victims to go",
        "d/web-3 (priority 9) preempts on c1, and waits for its victims to go",
        "d/web-4 (priority 9) finds no node where preemption would help",
    ]
    assert "a1: d/low-a1 (priority 0) would go; taken" in lines
    assert "b1: d/low-b1 (priority 0, against its budget) would go; taken" in lines
    assert lines[-1] == "of 5 pods 1 fit, 3 preempt, 1 wait; evicted: d/low-a1, d/low-b1, d/low-c1"


def test_who_says_when_another_start_would_choose_another_node(tmp_path: Path) -> None:
    nodes = [node(f"a{number}", 8 if number < 150 else 64) for number in range(250)]
    lines = who(tmp_path, "new", *nodes, pod("new"))
    (sample,) = (line for line in lines if line.startswith("kube-scheduler looked at"))
    assert "looked at 120 of 250 nodes" in sample
    assert "from 24 starts all around it takes a0 1 times" in sample
    assert lines[lines.index(sample) + 1].startswith("  and a150 ")


def test_a_play_begins_with_the_pods_that_run(tmp_path: Path) -> None:
    high = pod("high", "", 8, 9)
    path = written(tmp_path / "c.yaml", node("a1"), pod("low", "a1", 8, terminationGracePeriodSeconds=0), high)
    run_natjam("import", "kubernetes", path, "--out", tmp_path / "mine.yaml")
    done = run_natjam("play", tmp_path / "mine.yaml", "--out", tmp_path / "played.csv")
    assert "lost work counts from the start of a pod" in done.stdout
    assert "until" not in done.stdout  # one node: all are looked at
    rows = (tmp_path / "played.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == ["d/low", "d/high"]
    assert "d/high" in rows[1]  # by whom it was evicted


def test_a_play_of_many_nodes_says_that_kube_scheduler_looks_at_some(tmp_path: Path) -> None:
    path = written(tmp_path / "c.yaml", *(node(f"a{number}") for number in range(250)), pod("new"))
    run_natjam("import", "kubernetes", path, "--out", tmp_path / "mine.yaml")
    lines = run_natjam("play", tmp_path / "mine.yaml").stdout.splitlines()
    assert lines[-1].startswith("kube-scheduler looks for a place until 120 of 250 nodes fit")


def test_compare_says_who_would_now_be_evicted_also_where_no_pod_ends(tmp_path: Path) -> None:
    pools = Path(__file__).resolve().parents[1] / "data/kubernetes/pools"
    objects = pools / "pools.yaml", pools / "chat.yaml"
    run_natjam("import", "kubernetes", *objects, "--class", "inference=-20", "--out", tmp_path / "before.yaml")
    run_natjam("import", "kubernetes", *objects, "--out", tmp_path / "after.yaml")
    out = tmp_path / "compared"
    done = run_natjam("compare", tmp_path / "before.yaml", tmp_path / "after.yaml", "--out", out)
    assert "who is evicted is compared all the same" in " ".join(done.stderr.split())
    found = json.loads((out / "compare.json").read_text())["evictions"]
    assert (found["newly"], found["no_longer"]) == (["ml/sweep-1", "ml/sweep-2"], [])
    assert {each["by"] for each in found["after"]} == {"ml/chat-0", "ml/chat-1"}


def test_compare_says_who_is_elsewhere_when_a_pool_is_gone(tmp_path: Path) -> None:
    """The pods of its nodes come again: one evicts another, which has no node then; one without an owner is gone."""
    nodes = node("a1"), node("b1", 4)
    there = [pod("low", "a1", 4), pod("web", "b1", 4, 9), pod("bare", "b1", 0), pod("agent", "b1", 0)]
    for each, kind in ((there[1], "ReplicaSet"), (there[3], "DaemonSet")):
        each["metadata"]["ownerReferences"] = [{"kind": kind, "name": "x", "controller": True}]
    there[0]["spec"]["terminationGracePeriodSeconds"] = 5
    full = pod("full", "a1", 4, 50)
    for name, kept in (("before", nodes), ("after", nodes[:1])):
        path = written(tmp_path / f"{name}-objects.yaml", *kept, full, *there)
        done = run_natjam("import", "kubernetes", path, "--out", tmp_path / f"{name}.yaml")
    lines = [line for line in done.stdout.splitlines() if "its node is not in the files" in line]
    assert [line.split(":")[0].strip() for line in lines] == ["2 of 5 pods", "1 of 5 pods"]
    out = tmp_path / "compared"
    run_natjam("compare", tmp_path / "before.yaml", tmp_path / "after.yaml", "--out", out)
    found = json.loads((out / "compare.json").read_text())["evictions"]
    assert (found["newly"], found["no_longer"]) == (["d/low"], [])
    assert found["moved"] == [
        {"job": "d/low", "before": "a1", "after": None},
        {"job": "d/web", "before": "b1", "after": "a1"},
    ]
