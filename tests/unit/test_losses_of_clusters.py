"""What a cluster's objects say and natjam does not model: each is counted first, by what it does to the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from emulator.errors import ConfigError
from emulator.sites.kubernetes import Kubernetes
from emulator.sites.kueue import Kueue
from tests.commands import run_natjam
from tests.kubernetes_objects import node, pod, written
from tests.refusals import changed
from workloads.kubernetes import objects as of_kubernetes
from workloads.kubernetes.cluster import read_kubernetes
from workloads.kueue import objects as of_kueue
from workloads.kueue.state import read_kueue
from workloads.saved import read_saved
from workloads.setting_effects import Effect, settings_of

TITLE = "decides at this site and is not modelled, so the site may act otherwise:"


def with_images(name: str, images: list[Any]) -> dict[str, Any]:
    """A node that has these images."""
    found = node(name)
    found["status"]["images"] = images
    return found


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IN_TWO = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["general", "spot"]}]}
EXISTS = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
ANTI = {"topologyKey": "kubernetes.io/hostname", "labelSelector": EXISTS}
CONTROLLER = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "s"}}
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.mark.parametrize(
    ("spec", "more", "counted", "reason"),
    [
        (
            {},
            (pod("x", "a1", affinity={"podAntiAffinity": {REQUIRED: [{**ANTI, "namespaceSelector": IN_TWO}]}}),),
            "1 of 4 pods",
            "namespaces are selected by labels",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            (),
            "1 of 3 pods",
            "its volume is not in the files",
        ),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, (), "1 of 3 pods", "its volume is not in the files"),
        ({"resourceClaims": [{"name": "g"}]}, (), "1 of 3 pods", "dynamic resource allocation"),
        (
            {"tolerations": [{"key": "k", "operator": "Gt", "value": "3"}]},
            (),
            "1 of 3 pods",
            "tolerations that compare",
        ),
        ({"somethingNew": 1}, (), "1 of 3 pods", "natjam does not know this setting of Pod"),
        ({}, ({**CONFIGURATION, "percentageOfNodesToScore": 20},), "1 setting", "a sample of the nodes"),
        ({}, ({**CONFIGURATION, "extenders": [{"urlPrefix": "http://x"}]},), "1 setting", "extenders are not modelled"),
        (
            {},
            ({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "s"}},),
            "1 object",
            "default spread",
        ),
        ({}, (with_images("a2", [{"names": ["x"]}]),), "1 of 3 nodes", "image locality"),
    ],
)
def test_what_decides_in_kubernetes_is_the_first_line_of_an_import_and_of_who(
    spec: dict[str, Any], more: tuple[Any, ...], counted: str, reason: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "cluster.yaml", tmp_path / "mine.yaml"
    written(path, node("a1"), node("b1"), pod("low", "b1"), pod("full", "a1"), pod("new", priority=9, **spec), *more)
    for done in (run_natjam("import", "kubernetes", path, "--out", out), run_natjam("who", out, "new")):
        title, first, *_ = done.stdout.splitlines()
        assert title == TITLE
        assert first.startswith(f"  {counted}: ")
        assert reason in first
        assert f"({path}:" in first
    (gap,) = read_saved(out, Kubernetes).basis.decides
    assert reason in gap.reason


def test_values_at_which_a_field_decides_nothing_are_no_loss(tmp_path: Path) -> None:
    inert = pod(
        "p", tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 300}], volumes=[{"name": "v"}]
    )
    inert["spec"] |= {
        "hostNetwork": False,
        "topologySpreadConstraints": [],
        "resourceClaims": [],
        "affinity": {"podAffinity": {}},
    }
    inert["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 0}]
    scheduler = {**CONFIGURATION, "percentageOfNodesToScore": 0, "podMaxBackoffSeconds": 10, "leaderElection": {"x": 1}}
    service = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}}
    path = written(tmp_path / "c.yaml", with_images("a", []), inert, scheduler, service)
    found = read_kubernetes([path])
    assert not found.cluster.basis
    assert {each.effect for each in found.losses} == {Effect.NOTHING}
    assert any(each.why.startswith("kube-scheduler does not read objects of this kind") for each in found.losses)


def test_fields_that_decide_nothing_are_listed_once_however_many_have_them(tmp_path: Path) -> None:
    few = read_kubernetes([written(tmp_path / "few.yaml", node("a"), *(pod(f"p{n}") for n in range(2)))])
    many = read_kubernetes([written(tmp_path / "many.yaml", node("a"), *(pod(f"p{n}") for n in range(50)))])
    both = read_kubernetes([tmp_path / "few.yaml", written(tmp_path / "more.yaml", pod("another"))])
    assert few.cluster.basis.rest == many.cluster.basis.rest == both.cluster.basis.rest > 0


def test_only_pods_that_are_there_count(tmp_path: Path) -> None:
    """A Job with pods has its template in them, and a pod that is left out decides nothing."""
    spread: dict[str, Any] = {"resourceClaims": [{"name": "g"}]}
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "d"}}
    job["spec"] = {"parallelism": 3, "backoffLimit": 0, "template": {"spec": {"containers": [], **spread}}}
    gated = pod("gated", **spread, schedulingGates=[{"name": "g"}])
    path = tmp_path / "c.yaml"
    basis = read_kubernetes([written(path, node("a"), job, gated)]).cluster.basis
    job_gap, spread_gap = sorted(basis.decides, key=lambda gap: gap.kind)
    assert (job_gap.number, job_gap.total, job_gap.kind) == (1, 1, "jobs")
    assert (spread_gap.number, spread_gap.total, spread_gap.kind) == (3, 4, "pods")
    assert [(gap.number, gap.total, gap.reason) for gap in basis.left_out] == [
        (1, 4, "it waits for its scheduling gates")
    ]
    owned = pod("j-0")
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    basis = read_kubernetes([written(path, node("a"), job, owned)]).cluster.basis
    assert [gap.kind for gap in basis.decides] == ["jobs"]


def test_pods_of_a_template_for_another_scheduler_are_not_made(tmp_path: Path) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "d"}}
    template = {"spec": {"containers": [], "schedulerName": "volcano"}}
    found = read_kubernetes([written(tmp_path / "c.yaml", node("a"), {**deployment, "spec": {"template": template}})])
    assert found.cluster.state.waiting == ()
    (gap,) = found.cluster.basis.left_out
    assert (gap.kind, gap.reason) == ("owners", "another scheduler places it (spec.schedulerName)")


TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("v1", "ReplicationController", {"template": TEMPLATE}),
        ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
        ("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"minReplicas": 2, "template": TEMPLATE}]}),
        ("monitoring.coreos.com/v1", "Prometheus", {"replicas": 2}),
    ],
)
def test_an_owner_without_pods_is_left_out(version: str, kind: str, spec: dict[str, Any], tmp_path: Path) -> None:
    owner = {"apiVersion": version, "kind": kind, "metadata": {"name": "s", "namespace": "d"}, "spec": spec}
    (gap,) = read_kubernetes([written(tmp_path / "c.yaml", node("a"), owner)]).cluster.basis.left_out
    assert str(gap).startswith("1 owner: it has no pods in the files, and natjam makes none of it; for")
    mine = pod("s-0")
    mine["metadata"]["ownerReferences"] = [{"kind": kind, "name": "s", "controller": True}]
    basis = read_kubernetes([written(tmp_path / "c.yaml", node("a"), owner, mine)]).cluster.basis
    assert not basis.left_out
    by_set = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "t", "namespace": "d"}}
    by_set["metadata"]["ownerReferences"] = mine["metadata"]["ownerReferences"]  # type: ignore[index]
    by_set["spec"] = {"replicas": 0, "template": TEMPLATE}  # type: ignore[assignment]
    assert not read_kubernetes([written(tmp_path / "c.yaml", node("a"), owner, by_set)]).cluster.basis.left_out


def test_two_owners_of_one_name_are_refused(tmp_path: Path) -> None:
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": TEMPLATE}}
    with pytest.raises(ConfigError, match=r"b.yaml:1: Deployment web: metadata.name: is in .*a.yaml:\d+ too; give one"):
        read_kubernetes([written(tmp_path / "a.yaml", node("a"), web), written(tmp_path / "b.yaml", web)])


def test_a_name_that_the_api_server_would_make_is_made(tmp_path: Path) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "run-", "namespace": "d"}}
    job["spec"] = {"template": TEMPLATE}  # type: ignore[assignment]
    found = read_kubernetes([written(tmp_path / "c.yaml", node("a"), job, job)])
    assert [each.pod.name for each in found.cluster.state.waiting] == ["d/run-1-0", "d/run-2-0"]


@pytest.mark.parametrize(
    ("key", "seconds", "is_lost"), [("k", None, False), ("k", 300, True), ("other", None, True), ("", None, False)]
)
def test_a_pod_on_a_node_whose_taint_evicts_it_is_counted(
    key: str, seconds: int | None, is_lost: bool, tmp_path: Path
) -> None:
    tainted = node("a")
    tainted["spec"] = {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "s", "effect": "NoSchedule"}]}
    toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    there = pod("p", "a", tolerations=[toleration])
    basis = read_kubernetes([written(tmp_path / "c.yaml", tainted, there)]).cluster.basis
    assert [gap.reason[:44] for gap in basis.decides] == [
        "it is on a node with a NoExecute taint that i"[:44]
    ] * is_lost


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        ({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2"}, "for its load"),
        ({"kind": "LimitRange", "apiVersion": "v1"}, "default requests"),
        ({"kind": "CSINode", "apiVersion": "storage.k8s.io/v1"}, "how many volumes"),
        (
            {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {"accessModes": ["ReadWriteOncePod"]}},
            "only one pod may use",
        ),
        (
            {
                "kind": "StatefulSet",
                "apiVersion": "apps/v1",
                "spec": {"replicas": 2, "selector": {}, "template": TEMPLATE},
            },
            "wait at once",
        ),
        (
            {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [], "runtimeClassName": "gvisor"}},
            "its runtime class",
        ),
    ],
)
def test_what_decides_beside_pods_is_counted(thing: dict[str, Any], reason: str, tmp_path: Path) -> None:
    thing = {**thing, "metadata": {"name": "x", "namespace": "d"}}
    (gap,) = read_kubernetes([written(tmp_path / "c.yaml", node("a"), thing)]).cluster.basis.decides
    assert reason in gap.reason


def test_another_value_of_a_class_is_for_pods_that_come(tmp_path: Path) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("batch", 10), ("prod", 100))
    ]
    path, out, table = tmp_path / "c.yaml", tmp_path / "mine.yaml", tmp_path / "t.csv"
    pods = pod("b", "n1", 8, 10, priorityClassName="batch"), pod("new", "", 8, 100, priorityClassName="prod")
    written(path, *classes, node("n1"), *pods)
    run_natjam("import", "kubernetes", path, "--class", "batch=5000", "--out", out)
    assert "n1: d/b (priority 10) would go; taken" in run_natjam("who", out, "new").stdout
    there = {each.pod.name: each.pod.priority for each in read_saved(out, Kubernetes).arrivals}
    assert there == {"d/b": 10, "d/new": 100}, "pods that are there keep what they were admitted with"
    run_natjam("import", "kubernetes", path, "--class", "batch=5000", "--from-empty", "--out", out)
    anew = {each.pod.name: each.pod.priority for each in read_saved(out, Kubernetes).arrivals}
    assert anew == {"d/b": 5000, "d/new": 100}, "from an empty cluster all pods come anew"
    table.write_text("submit_s,name,class,cpu\n5,later,batch,1\n")
    run_natjam("import", "kubernetes", path, "--class", "batch=5000", "--arrivals", table, "--out", out)
    arrivals = {each.pod.name: each.pod.priority for each in read_saved(out, Kubernetes).arrivals}
    assert arrivals == {"d/b": 10, "d/new": 100, "later": 5000}


# ---- files ----


@pytest.mark.parametrize("between", ["\n", "", "\n\n  "])
@pytest.mark.parametrize("indent", [None, 1])
def test_values_of_json_may_follow_one_another(tmp_path: Path, between: str, indent: int | None) -> None:
    lists = [
        {"kind": "NodeList", "apiVersion": "v1", "items": [node("a")]},
        {"kind": "PodList", "apiVersion": "v1", "items": [pod("p", resourceClaims=[{"name": "g"}])]},
    ]
    path = tmp_path / "all.json"
    path.write_text(between.join(json.dumps(each, indent=indent) for each in lists) + "\n")
    found = read_kubernetes([path])
    assert [each.pod.name for each in found.cluster.state.waiting] == ["d/p"]
    (loss,) = (each for each in found.losses if each.effect is Effect.DECIDES)
    lines = path.read_text().splitlines()
    assert loss.where == f"{path}:{1 + next(n for n, line in enumerate(lines) if 'resourceClaims' in line)}"


QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
"""


def test_a_folder_may_have_files_that_are_no_objects(tmp_path: Path) -> None:
    folder, out = tmp_path / "site", tmp_path / "mine.yaml"
    (folder / "chart/templates").mkdir(parents=True)
    (folder / "queues.yaml").write_text(QUEUE.replace("NAME", "q"))
    (folder / "kustomization.yaml").write_text("resources:\n- queues.yaml\n")
    (folder / "package.json").write_text('["a", {"b": 1}]')
    (folder / "chart/values.yaml").write_text("replicas: 3\nimage: {tag: x}\n")
    (folder / "chart/templates/queue.yaml").write_text(QUEUE.replace("NAME", "{{ .Values.name }}"))
    (folder / "chart/templates/loop.yaml").write_text("{{- range .Values.queues }}\n" + QUEUE + "{{- end }}\n")
    done = run_natjam("import", "kueue", folder, "--out", out)
    assert done.stdout.splitlines()[:2] == [
        "left out:",
        f"  2 files: it is a template, not an object; give what it renders to (helm template); for example loop.yaml"
        f" ({folder / 'chart/templates/loop.yaml'}:1)",
    ]
    kueue = read_saved(out, Kueue)
    assert [queue.name for queue in kueue.cluster.queues] == ["q"]
    no_objects = [each for each in read_kueue([folder])[1] if "it has no kind" in each.why]
    assert sorted(each.what for each in no_objects) == ["kustomization.yaml", "package.json", "values.yaml"]
    done = run_natjam("import", "kueue", folder / "queues.yaml", folder / "kustomization.yaml", "--out", out, status=2)
    assert "kustomization.yaml:1: kind: is missing; every object of Kubernetes has one" in done.output


def test_a_key_that_is_there_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"apiVersion": "v1", "kind": "Node",\n"metadata": {"name": "n",\n"name": "m"}}')
    done = run_natjam("import", "kubernetes", path, "--out", tmp_path / "o.yaml", status=2)
    assert f"{path}:3: name: is there twice in one object" in done.output


# ---- who ----


def test_who_shows_the_best_nodes_and_the_others_by_reason(tmp_path: Path) -> None:
    nodes = [node(f"a{n}") for n in range(200)]
    for each in nodes[100:150]:
        each["spec"] = {"unschedulable": True}
    for each in nodes[150:]:
        each["status"]["allocatable"]["cpu"] = "1"
    lows = [pod(f"low{n}", f"a{n}", 8, n % 7) for n in range(100)]
    path = written(tmp_path / "c.yaml", *nodes, *lows, pod("new", "", 4, 50), pod("tiny", "", "100m", 50))
    lines = run_natjam("who", path, "new").stdout.splitlines()
    assert lines[1] == "a0: d/low0 (priority 0) would go; taken"
    assert [line.partition(":")[0] for line in lines[2:6]] == ["a7", "a14", "a21", "a28"]
    assert lines[6:] == [
        "85 more nodes where others would go; a0 is better: lowest priority of its most important victim",
        "10 more nodes where others would go; as good as a0",
        "50 nodes: it is cordoned; nobody's leaving helps (a100, a101, a102, ...)",
        "50 nodes: 4 cpu asked, it has less in all; nobody's leaving helps (a150, a151, a152, ...)",
    ]
    lines = run_natjam("who", path, "tiny").stdout.splitlines()
    assert len(lines) == 1 + 5 + 1 + 2 + 1 + 5
    assert lines[9].startswith("kube-scheduler looked at 200 of 200 nodes, from a start that moves on with each pod; ")
    assert lines[6].startswith("45 more nodes: scores from ")
    assert lines[7] == "100 nodes: 0.1 cpu asked, less is left (a0, a1, a2, ...)"


def test_who_says_first_what_of_a_manifest_is_not_modelled(tmp_path: Path) -> None:
    path = written(tmp_path / "c.yaml", node("a"))
    asked = written(tmp_path / "asked.yaml", pod("p", resourceClaims=[{"name": "g"}]))
    first, second, *_ = run_natjam("who", path, asked).stdout.splitlines()
    assert first.startswith("of this pod, spec.resourceClaims: devices of dynamic resource allocation are not modelled")
    assert second == "d/p (priority 0) goes to a"
    done = run_natjam("who", path, asked, "--strict", status=1)
    assert "d/p" not in done.stdout
    owner = {**CONTROLLER, "spec": {"template": TEMPLATE}}
    done = run_natjam("who", path, written(asked, owner, pod("p")))
    assert f"left out: ReplicationController s ({asked}:1): it has no pods" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "s"}},
            "natjam does not take ReplicationController s",
        ),
        (pod("p", schedulingGates=[{"name": "g"}]), "natjam leaves out Pod d/p"),
    ],
)
def test_who_names_what_it_does_not_take(manifest: dict[str, Any], said: str, tmp_path: Path) -> None:
    path, asked = written(tmp_path / "c.yaml", node("a")), written(tmp_path / "asked.yaml", manifest)
    done = run_natjam("who", path, asked, status=2)
    assert "has no Pod, nor anything with pods that wait" in " ".join(done.output.split())
    assert f"{said} ({asked}:1)" in " ".join(done.output.split())


# ---- Kueue ----

FLAVORS = """\
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}, spec: {nodeLabels: {gpu: a100}}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: t}, spec: {clusterQueue: q}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w, namespace: t, creationTimestamp: "2026-11-27T10:00:00Z"}
spec:
  queueName: q
  podSets:
  - name: main
    count: 2
    template:
      spec:
        containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]
"""
SITE = QUEUE.replace("NAME", "q") + FLAVORS
CONFIG = "---\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


@pytest.mark.parametrize(
    ("old", "new", "counted", "reason"),
    [
        (
            "spec:\n  namespaceSelector",
            "status: {conditions: [{type: Active, status: 'False'}]}\nspec:\n  namespaceSelector",
            "1 of 1 queues",
            "not active, says Kueue",
        ),
        (
            "count: 2",
            "count: 2\n    topologyRequest: {required: rack}",
            "1 of 1 workloads",
            "topology-aware scheduling is not modelled",
        ),
        (
            "$",
            f"{CONFIG.replace('v1beta2', 'v1beta1')}waitForPodsReady: {{enable: true, recoveryTimeout: 1m}}\n",
            "1 setting",
            "(recoveryTimeout)",
        ),
        (
            "$",
            f"{CONFIG}integrations: {{somethingNew: 1}}\n",
            "1 setting",
            "does not know this setting of Configuration",
        ),
        (
            "$",
            f"{CONFIG}featureGates: {{FairSharingPreemptWithinNominal: false}}\n",
            "1 setting",
            "FairSharingPreemptWithinNominal",
        ),
        (
            "$",
            f"{CONFIG}featureGates: {{OfAnotherVersion: false}}\n",
            "1 setting",
            "does not know this setting of feature",
        ),
        (
            "  namespaceSelector: {}",
            "  namespaceSelector: {matchLabels: {a: b}}",
            "1 of 1 workloads",
            "its Namespace is not in the files",
        ),
        (
            "  namespaceSelector",
            "  admissionChecksStrategy: {admissionChecks: [{name: x}]}\n  namespaceSelector",
            "1 setting",
            "this admission check",
        ),
        (
            "queueName: q",
            "queueName: q\n  somethingNew: 1",
            "1 of 1 workloads",
            "does not know this setting of Workload",
        ),
    ],
)
def test_what_decides_in_kueue_is_the_first_line_of_an_import(
    old: str, new: str, counted: str, reason: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "site.yaml", tmp_path / "mine.yaml"
    path.write_text(SITE + new if old == "$" else changed(SITE, old, new))
    done = run_natjam("import", "kueue", path, "--out", out)
    title, first, *_ = done.stdout.splitlines()
    assert title == TITLE
    assert first.startswith(f"  {counted}")
    assert reason in first
    (gap,) = read_saved(out, Kueue).basis.decides
    assert reason in gap.reason


def test_loops_says_first_what_is_not_modelled(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(SITE.replace("count: 2", "count: 2\n    topologyRequest: {required: rack}"))
    done = run_natjam("loops", path, "--seconds", "1", "--out", tmp_path / "loops")
    title, first, *_ = done.stdout.splitlines()
    assert title == TITLE
    assert "topology-aware scheduling is not modelled" in first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  namespaceSelector", "  stopPolicy: None\n  namespaceSelector"),
        ("spec:\n  name", "status: {conditions: [{type: Active, status: 'True'}]}\nspec:\n  name"),
        ("containers:", "nodeSelector: {other: label}\n        containers:"),
        ("containers:", "tolerations: [{operator: Exists}]\n        containers:"),
        ("containers:", "nodeSelector: {gpu: h100}\n        containers:"),
        ("nodeLabels: {", "nodeTaints: [{key: spot, effect: NoSchedule}], nodeLabels: {"),
        ("count: 2", "count: 2\n    minCount: 1"),
        ("  namespaceSelector", "  stopPolicy: HoldAndDrain\n  namespaceSelector"),
        ("queueName: q", "queueName: q\n  maximumExecutionTimeSeconds: 600"),
        ("$", f"{CONFIG}resources: {{transformations: [{{input: x}}]}}\n"),
        (
            "$",
            f"{CONFIG}featureGates: {{PartialAdmission: true, MultiKueue: true, TASCacheTopologyTree: true}}\n",
        ),
        (
            "$",
            f"{CONFIG.replace('v1beta2', 'v1beta1')}waitForPodsReady: {{enable: false, timeout: 5m}}\n"
            "fairSharing: {enable: true}\n",
        ),
        ("$", f"{CONFIG}integrations: {{frameworks: [batch/job]}}\nmetrics: {{}}\nfairSharing: {{}}\n"),
    ],
)
def test_what_kueue_does_anyway_is_no_loss(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(SITE + new if old == "$" else changed(SITE, old, new))
    assert not read_kueue([path])[0].basis


def test_flavors_below_one_cpu_run(tmp_path: Path) -> None:
    path, table, out = tmp_path / "q.yaml", tmp_path / "w.csv", tmp_path / "mine.yaml"
    small = QUEUE.replace("nominalQuota: 4", "nominalQuota: 100m")
    lender, borrower = small.replace("NAME", "g"), small.replace("NAME", "be").replace("100m", "0")
    lender = lender.replace("spec:", "spec:\n  cohortName: c\n  preemption: {reclaimWithinCohort: Any}")
    path.write_text(f"{lender}---\n{borrower.replace('spec:', 'spec:' + chr(10) + '  cohortName: c')}")
    table.write_text("queue,submit_s,name,duration_s,cpu\nbe,0,be,3600,100m\ng,60,g,600,100m\n")
    run_natjam("import", "kueue", path, "--arrivals", table, "--out", out)
    done = run_natjam("run", out, "--out", tmp_path / "run")
    jobs = {job["name"]: job for job in json.loads((tmp_path / "run/summary.json").read_text())["jobs"]}
    assert (jobs["be"]["kills"], jobs["g"]["kills"], jobs["g"]["start_s"]) == (1, 0, 60.0)
    assert "utilization" in done.output


def test_a_run_that_ends_in_endless_preemption_shows_its_figures_so_far(tmp_path: Path) -> None:
    table, out = tmp_path / "w.csv", tmp_path / "mine.yaml"
    queues = Path(__file__).resolve().parents[2] / "docs/kueue-queues.yaml"
    table.write_text(
        "queue,submit_s,name,priority,duration_s,cpu\nserving,1,early,1,100,1\n"
        "serving,500,w00,1,,6\nresearch,501,w01,0,,8\nresearch,502,w02,0,,4\n"
    )
    run_natjam("import", "kueue", queues, "--arrivals", table, "--out", out)
    done = run_natjam("run", out, "--out", tmp_path / "run", status=1)
    shown = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("│")}
    assert "succeeded" in shown["early"] or "1" in shown["early"]
    assert {"w00", "w01", "w02"} <= shown.keys()
    assert "useful 100.0 s" in done.stdout
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["state"] == "failed"
    assert {job["name"]: job["kills"] for job in summary["jobs"]} == {"early": 0, "w00": 100, "w01": 100, "w02": 100}


# ---- tables and readers ----

_ALWAYS = ("apiVersion", "kind", "metadata")
_ALSO_READ = {
    ("kueue", "Node.spec.taints.key"),
    ("kueue", "Node.spec.taints.effect"),
    ("kueue", "Node.spec.taints.value"),
    ("kueue", "PriorityClass.globalDefault"),
    ("kueue", "PriorityClass.preemptionPolicy"),
    ("kueue", "Workload.spec.podSets.template.spec.containers.restartPolicy"),
}
"""What Kueue's import reads because kube-scheduler's does, or because init containers have it."""
_IMPLIED = {
    ("kubernetes", "PodGroup.spec.schedulingPolicy.basic"),
    ("kubernetes", "Job.spec.template.spec"),
    *(
        ("kubernetes", f"{kind}.spec.template.spec")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
}
"""What is modelled without a look: its absence says the same, or it is in another list."""


def keys_read(of: inspect.Type, settings: str, path: str = "") -> Iterator[tuple[str, str]]:
    """The list and the key of each field that a struct reads."""
    if isinstance(of, inspect.UnionType | inspect.VarTupleType):
        for each in of.types if isinstance(of, inspect.UnionType) else (of.item_type,):
            if not isinstance(each, inspect.NoneType):
                yield from keys_read(each, settings, path)
        return
    if not isinstance(of, inspect.StructType):
        yield settings, path
        return
    listed = getattr(of.cls, "LISTED_IN", {"of": settings, "key": path})
    for field in of.fields:
        key = f"{listed['key']}.{field.encode_name}".lstrip(".")
        yield from keys_read(field.type, listed["of"], key)


@pytest.mark.parametrize(("system", "kinds"), [("kubernetes", of_kubernetes.KINDS), ("kueue", of_kueue.KINDS)])
def test_tables_say_of_what_is_read_that_it_decides_and_of_what_is_modelled_that_it_is_read(
    system: str, kinds: Sequence[type[of_kubernetes.Object]]
) -> None:
    table = settings_of(system)
    read = {pair for kind in kinds for pair in keys_read(inspect.type_info(kind), kind.__name__)}
    for of, key in read:
        setting = table.find(of, key)
        if key.partition(".")[0] in _ALWAYS or (system, f"{of}.{key}") in _ALSO_READ:
            continue
        assert setting is not None, (of, key)
        assert setting.effect is not Effect.NOTHING, setting
    keys = {(of, key) for of, key in read}
    for each in table.settings:
        if each.effect is Effect.MODELLED and each.of in {kind.__name__ for kind in kinds}:
            is_read = any(of == each.of and f"{key}.".startswith(f"{each.key}.") for of, key in keys)
            assert is_read or (system, f"{each.of}.{each.key}") in _IMPLIED, each
