"""Kubernetes' objects as natjam reads them, the file that it writes, and the questions asked of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.sites.basis import Basis
from emulator.sites.kubernetes import (
    HOSTNAME,
    ZONE,
    AffinityTerm,
    Budget,
    BudgetSpec,
    Kubernetes,
    Operator,
    Pod,
    Policy,
    PriorityClass,
    Replacement,
    Taint,
    Toleration,
)
from emulator.sites.kubernetes import Effect as TaintEffect
from emulator.sites.labels import NAME_FIELD, Expression, LabelOperator, NodeTerm, Selector
from emulator.vocabulary import MINUTE_NS, SECOND_NS
from tests.commands import invoked, run_natjam
from tests.refusals import changed, refused
from workloads.arrivals import read_pods
from workloads.kubernetes.cluster import Imported, read_kubernetes
from workloads.kubernetes.objects import Container, Requesting, Resources
from workloads.kubernetes.pods import requests_of
from workloads.saved import read_saved, write_saved
from workloads.setting_effects import Effect

OBJECTS = Path(__file__).resolve().parents[1] / "data/kubernetes/objects"
GIB = 2**30
MIB = 2**20


@pytest.fixture(scope="module")
def imported() -> Imported:
    return read_kubernetes([OBJECTS])


@pytest.fixture(scope="module")
def cluster(imported: Imported) -> Kubernetes:
    return imported.cluster


def pod_named(cluster: Kubernetes, name: str) -> Pod:
    (found,) = (each.pod for each in cluster.arrivals if each.pod.name == name)
    return found


def test_nodes_with_what_they_have(cluster: Kubernetes) -> None:
    nodes = {each.name: each for each in cluster.state.nodes}
    assert nodes["worker-1"].allocatable["cpu"] == 3920
    assert nodes["worker-1"].allocatable["memory"] == 15 * GIB
    assert nodes["gpu-1"].allocatable["nvidia.com/gpu"] == 4
    assert nodes["gpu-1"].taints == (Taint("nvidia.com/gpu", TaintEffect.NO_SCHEDULE, "present"),)
    assert nodes["gpu-1"].labels["gpu"] == "a100"
    assert [name for name, node in nodes.items() if node.unschedulable] == ["worker-3"]


def test_pods_where_they_are(cluster: Kubernetes) -> None:
    bound = {each.pod.name: each for each in cluster.state.bound}
    assert len(bound) == 8
    train = bound["ml/train-w8f2k"]
    # The latest time of the files is 10:00:10; this pod started at 9:30:02.
    assert (train.node, train.start_ns, train.pod.priority) == ("worker-1", -1808 * SECOND_NS, -10)
    assert train.pod.policy is Policy.LOWER_PRIORITY  # its own field says so, not its class
    assert [each.pod.name for each in cluster.state.waiting] == ["db/postgres-1", "ml/sweep-0", "ml/sweep-1"]


def test_requests_count_init_containers_sidecars_and_overhead(cluster: Kubernetes) -> None:
    # fetch runs beside the sidecar proxy and asks for more cpu than lab beside it; the overhead comes on top.
    assert pod_named(cluster, "ml/notebook").requests == {"cpu": 850, "memory": (1024 + 128 + 64) * MIB}


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        (Requesting((_c := Container(Resources({"cpu": "1"})), _c)), {"cpu": 2000}),
        (Requesting((_c,), (Container(Resources({"cpu": "3"})), _c)), {"cpu": 3000}),
        # A sidecar counts for init containers after it, not for those before.
        (
            Requesting((_c,), (Container(Resources({"cpu": "3"})), Container(Resources({"cpu": "2"}), "Always"))),
            {"cpu": 3000},
        ),
        (
            Requesting((_c,), (Container(Resources({"cpu": "2"}), "Always"), Container(Resources({"cpu": "3"})))),
            {"cpu": 5000},
        ),
        (Requesting((_c,), (), {"cpu": "250m"}), {"cpu": 1250}),
        (Requesting((_c,), (), {"cpu": "250m"}, Resources({"cpu": "3"})), {"cpu": 3250}),
        (
            Requesting((Container(Resources({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})),)),
            {"cpu": 1000, "memory": GIB},
        ),
    ],
)
def test_sums_of_requests(pod: Requesting, requests: dict[str, int]) -> None:
    assert requests_of(pod) == requests


def test_selectors_tolerations_and_anti_affinity(cluster: Kubernetes) -> None:
    sweep, postgres = pod_named(cluster, "ml/sweep-0"), pod_named(cluster, "db/postgres-1")
    assert sweep.selector == {"gpu": "a100"}
    assert sweep.tolerations == (Toleration("nvidia.com/gpu", Operator.EXISTS),)
    assert (sweep.priority, sweep.policy) == (-10, Policy.NEVER)
    # Anti-affinity is about pods of its own namespace.
    is_postgres = Selector(expressions=(Expression("app", LabelOperator.IN, ("postgres",)),))
    assert postgres.anti_affinity == (AffinityTerm(is_postgres, HOSTNAME, ("db",)),)
    assert postgres.namespace == "db"
    # A DaemonSet's pod has its node in a required node affinity.
    on_worker = Expression(NAME_FIELD, LabelOperator.IN, ("worker-1",))
    assert pod_named(cluster, "kube-system/kube-proxy-7xk2p").node_affinity == (NodeTerm(fields=(on_worker,)),)


def test_classes_and_budgets(cluster: Kubernetes) -> None:
    assert PriorityClass("batch", -10, Policy.NEVER) in cluster.classes
    selector = Selector({"app": "web"})
    others = Selector(expressions=(Expression("app", LabelOperator.NOT_IN, ("web",)),))
    budgets = (Budget("shop/web", selector, 1, namespace="shop"), Budget("shop/odd", others, 0, namespace="shop"))
    assert cluster.state.budgets == budgets
    # 30% of 3 pods, rounded up, is one that may be missing.
    assert cluster.budgets == (BudgetSpec("shop/web", selector, 2, "shop"), BudgetSpec("shop/odd", others, 1, "shop"))


def test_pods_arrive_when_they_were_created_and_run_as_long_as_their_like(cluster: Kubernetes) -> None:
    arrivals = {each.pod.name: each for each in cluster.arrivals}
    assert arrivals["kube-system/kube-proxy-7xk2p"].submit_ns == 0
    done, runs = arrivals["ml/train-q8f2k"], arrivals["ml/train-w8f2k"]
    assert runs.submit_ns - done.submit_ns == 90 * MINUTE_NS
    assert (done.duration_ns, runs.duration_ns) == (40 * MINUTE_NS, 40 * MINUTE_NS)
    assert arrivals["shop/web-5d9c7b6f4-k2ax"].duration_ns is None
    assert {name: arrivals[name].replacement for name in ("ml/train-w8f2k", "ml/notebook", "db/postgres-0")} == {
        "ml/train-w8f2k": Replacement.GONE,  # podReplacementPolicy: Failed
        "ml/notebook": Replacement.NEVER,
        "db/postgres-0": Replacement.GONE,
    }
    assert arrivals["shop/web-5d9c7b6f4-k2ax"].replacement is Replacement.TERMINATING
    assert arrivals["db/postgres-0"].grace_ns == 120 * SECOND_NS
    assert "ml/old-train" not in arrivals  # it was evicted, and the Job made another


def test_what_is_not_carried_over_is_listed_with_its_line(imported: Imported) -> None:
    listed = {each.what: each for each in imported.losses}
    other = listed["Pod ml/other-scheduler"]
    assert (other.effect, other.why) == (Effect.LEFT_OUT, "another scheduler places it (spec.schedulerName)")
    assert listed["ConfigMap shop/settings"].effect is Effect.NOTHING
    assert listed["Job ml/sweep.spec.completions"].why == "pods of a Job beyond its parallelism are not made"
    assert not any("Deployment" in what for what in listed if listed[what].effect is Effect.DECIDES)
    (spread,) = pod_named(imported.cluster, "db/postgres-1").spread
    assert (spread.topology, spread.max_skew, spread.is_required) == (ZONE, 1, True)
    basis = imported.cluster.basis
    assert [(each.number, each.total, each.kind) for each in basis.decides] == [
        *((5, 5, "nodes"), (1, 14, "pods"), (1, 14, "pods"), (1, 2, "jobs"))
    ]
    assert [(each.number, each.total, each.kind) for each in basis.left_out] == [(1, 14, "pods"), (1, 14, "pods")]


def test_values_of_environment_arguments_and_annotations_appear_nowhere(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = run_natjam("import", "kubernetes", OBJECTS, "--out", out)
    assert "5 nodes, 8 pods on them, 3 that wait, 11 that arrive" in done.output
    assert "SECRET" not in done.output
    assert "SECRET" not in out.read_text()
    assert "SECRET-environment" in (OBJECTS / "cluster.json").read_text()


def test_the_written_file_is_read_again(cluster: Kubernetes, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write_saved(path, cluster, ["Not carried over:", "  a\nb"])
    assert read_saved(path, Kubernetes) == cluster
    assert load_experiment(path).scheduler.allocation.name == "kube-scheduler"


@pytest.mark.parametrize("of", ["objects", "imported"])
def test_who_goes_for_a_pod_that_waits(of: str, cluster: Kubernetes, tmp_path: Path) -> None:
    file = OBJECTS
    if of == "imported":
        file = tmp_path / "mine.yaml"
        write_saved(file, cluster, [])
    done = run_natjam("who", file, "postgres-1")
    basis, begin, rest = done.stdout.partition("\ndb/postgres-1")
    assert basis.startswith("decides at this site and is not modelled")
    lines = f"{begin}{rest}".strip().splitlines()
    assert lines[0].startswith("db/postgres-1 (priority 1000) preempts on worker-1")
    assert lines[1].startswith("worker-1: ml/train-w8f2k (priority -10) would go; ")
    assert [line.partition(":")[0] for line in lines[2:]] == ["control-1", "worker-2", "worker-3", "gpu-1"]
    assert "would have too many of the pods that the pod is spread among" in lines[3]


MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: big, namespace: shop}
spec:
  template:
    spec:
      priorityClassName: critical
      containers:
      - {name: a, env: [{name: TOKEN, value: SECRET}], resources: {requests: {cpu: 2, memory: 8Gi}}}
"""


def test_a_folder_may_hold_what_was_imported_from_it(imported: Imported, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    shutil.copytree(OBJECTS, folder)
    write_saved(folder / "mine.yaml", imported.cluster, [])
    again = read_kubernetes([folder]).cluster
    assert replace(again, basis=Basis()) == replace(imported.cluster, basis=Basis())
    assert [each.number for each in again.basis.decides] == [each.number for each in imported.cluster.basis.decides]
    assert read_saved(folder / "mine.yaml", Kubernetes) == imported.cluster


def test_who_goes_for_a_pod_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(MANIFEST)
    done = run_natjam("who", OBJECTS, path)
    assert "worker-1: ml/notebook (priority 0), ml/train-w8f2k (priority -10) would go" in done.stdout
    assert "(priority 100, against its budget)" in done.stdout
    assert "worker-1 is better: fewest victims that a budget protects" in done.stdout
    path.write_text(MANIFEST.replace("cpu: 2, memory: 8Gi", "cpu: 20m"))
    done = invoked("who", OBJECTS, path)
    assert "\nshop/big-0 (priority 1000) goes to worker-1\n" in done.stdout
    path.write_text(MANIFEST.replace("critical", "unknown"))
    done = run_natjam("who", OBJECTS, path, status=2)
    assert "spec.priorityClassName: there is no PriorityClass 'unknown'" in done.output


def test_a_name_forges_no_line_of_who(tmp_path: Path) -> None:
    forged = "n2: is better"
    file = tmp_path / "cluster.yaml"
    pod = "spec: {containers: [{name: c, resources: {requests: {cpu: 8}}}], priority: "
    file.write_text(
        "{kind: Node, apiVersion: v1, metadata: {name: n1}, status: {allocatable: {cpu: 10, pods: 9}}}\n"
        f'---\nkind: Pod\napiVersion: v1\nmetadata: {{namespace: a, name: "train\\n{forged}"}}\n'
        f"{pod}0, nodeName: n1}}\nstatus: {{phase: Running}}\n"
        f"---\nkind: Pod\napiVersion: v1\nmetadata: {{namespace: a, name: db}}\n{pod}9}}\nstatus: {{phase: Pending}}\n"
    )
    done = run_natjam("who", file, "a/db")
    assert f"n1: a/train\\n{forged} (priority 0) would go" in done.stdout
    assert not any(line.startswith(forged) for line in done.stdout.splitlines())


@pytest.mark.parametrize("cpu", ["010", '"010"'])
def test_a_number_that_begins_with_0_is_what_kubectl_takes_it_for(cpu: str, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(
        f"{{kind: Node, apiVersion: v1, metadata: {{name: n}}, status: {{allocatable: {{cpu: {cpu}, pods: 9}}}}}}"
    )
    (node,) = read_kubernetes([tmp_path / "node.yaml"]).cluster.state.nodes
    assert dict(node.allocatable)["cpu"] == (8000 if cpu == "010" else 10_000)


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ("nobody", "these wait: db/postgres-1, ml/sweep-0, ml/sweep-1; or name"),
        ("db/postgres-0", "it is on worker-2 already"),
        ("none.yaml", "none.yaml"),
    ],
)
def test_problems_of_who(pod: str, problem: str) -> None:
    done = run_natjam("who", OBJECTS, pod, status=2)
    assert problem in done.output


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("rest.yaml", "{cpu: 1500m, memory: 4Gi}", "{cpu: 1500mm}", None),  # the Job has its pods: it is not asked
        ("rest.yaml", 'requests: {cpu: "2"}', "requests: {cpu: SECRET}", "Job ml/sweep: resources: is not a quantity"),
        ("rest.yaml", "maxUnavailable: 30%", "maxUnavailable: few", "spec.maxUnavailable: must be a whole number"),
        ("rest.yaml", "maxUnavailable: 30%", "", "spec: has neither minAvailable nor maxUnavailable"),
        ("rest.yaml", "value: 100\n", "value: many\n", "PriorityClass service: value: is of another type"),
        ("rest.yaml", "preemptionPolicy: Never", "preemptionPolicy: No", "preemptionPolicy: must be one of"),
        ("rest.yaml", "operator: Exists}", "operator: Like}", "spec.tolerations, operator: must be one of"),
        ("rest.yaml", "name: critical", "name: batch", "PriorityClass batch: metadata.name: is in"),
        ("cluster.json", '"3920m"', '"SECRET"', "Node control-1: status.allocatable: is not a quantity"),
        ("cluster.json", '"2026-02-03T08:40:01Z"', '"SECRET"', "status, finishedAt: is not a time"),
        ("cluster.json", '"startTime": "', '"startTime": "2', "status.startTime: is not a time"),
        ("cluster.json", '"notebook"', '"train-q8f2k"', "metadata.name: is in"),
        ("cluster.json", '"items": [', '"items": [[', "is neither YAML nor JSON"),
    ],
)
def test_problems_name_file_line_and_field(tmp_path: Path, file: str, old: str, new: str, problem: str | None) -> None:
    for each in OBJECTS.iterdir():
        text = each.read_text()
        (tmp_path / each.name).write_text(changed(text, old, new) if each.name == file else text)
    if problem is None:
        read_kubernetes([tmp_path])
        return
    message = refused(read_kubernetes, [tmp_path])
    assert problem in message
    assert message.startswith(f"{tmp_path / file}:")
    assert message.split(":")[1].isdigit()
    assert "SECRET" not in message


TABLE = """submit_s,name,class,duration_s,count,cpu,memory
30.5,urgent,critical,60,2,500m,1Gi
0,,,,,2,
"""


def test_pods_from_a_table_arrive_on_the_cluster_as_it_stands(tmp_path: Path) -> None:
    path, out = tmp_path / "arrivals.csv", tmp_path / "mine.yaml"
    path.write_text(TABLE)
    run_natjam("import", "kubernetes", OBJECTS, "--arrivals", path, "--out", out)
    arrivals = read_saved(out, Kubernetes).arrivals
    *present, first, second, last = arrivals
    assert (first.pod.name, second.pod.name, last.pod.name) == ("urgent-0", "urgent-1", "row-3")
    assert (first.pod.priority, first.submit_ns, first.duration_ns) == (1000, 30_500_000_000, 60 * SECOND_NS)
    assert first.pod.requests == {"cpu": 500, "memory": GIB}
    assert (last.submit_ns, last.duration_ns, last.pod.priority, last.node) == (0, None, 0, None)
    assert len(present) == 11
    assert all(each.submit_ns <= (0 if each.node else SECOND_NS) for each in present)
    assert {each.pod.name for each in present if each.node is None} == {"db/postgres-1", "ml/sweep-0", "ml/sweep-1"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("submit_s", "submit", ":1: column submit_s: is missing"),
        ("critical", "none", ":2: column class: no PriorityClass"),
        ("500m", "half", ":2: column cpu: is not a quantity"),
        (",60,2,", ",60,0,", ":2: column count: must be 1"),
        ("0,,,,", "0,ml/notebook,,,", ":3: column name: another pod"),
    ],
)
def test_problems_of_a_table(cluster: Kubernetes, tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(changed(TABLE, old, new))
    assert refused(read_pods, path, cluster).startswith(f"{path}{problem}")


def test_drawn_pods_are_like_those_that_ended(tmp_path: Path) -> None:
    drawn = []
    for seed in (1, 1, 2):
        out = tmp_path / "mine.yaml"
        arguments = ["import", "kubernetes", str(OBJECTS), "--draw", "50", "--over-h", "10", "--seed", str(seed)]
        run_natjam(*arguments, "--out", out)
        drawn.append([each for each in read_saved(out, Kubernetes).arrivals if each.pod.name.startswith("drawn-")])
    first, same, other = drawn
    assert first == same != other
    assert len(first) == 50
    assert {each.duration_ns for each in first} == {40 * MINUTE_NS}
    assert 5 < first[-1].submit_ns / (60 * MINUTE_NS) < 20


def test_a_play_of_an_imported_cluster(tmp_path: Path) -> None:
    """Two pods on a node of 4 cores; one of higher priority comes, and the Job's pod comes back when it can."""
    table, out, rows = tmp_path / "arrivals.csv", tmp_path / "mine.yaml", tmp_path / "pods.csv"
    table.write_text("submit_s,name,class,duration_s,grace_s,cpu\n0,low,batch,100,0,3\n10,high,critical,50,0,3\n")
    nodes = tmp_path / "nodes.yaml"
    node = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 4, memory: 4Gi}}}\n---\n"
    nodes.write_text(node + (OBJECTS / "rest.yaml").read_text().partition("- apiVersion: policy")[0] + "kind: List\n")
    arguments = ["import", "kubernetes", str(nodes), "--arrivals", str(table), "--out", str(out)]
    done = run_natjam(*arguments)
    done = run_natjam("play", out, "--out", rows)
    cells = [[cell.strip() for cell in line.split("│")[1:5]] for line in done.stdout.splitlines() if "│" in line]
    assert cells == [["critical", "1,000", "1", "1"], ["batch", "-10", "1", "1"]]
    assert "1 eviction;" in done.stdout
    assert rows.read_text().splitlines()[1:] == [
        "low,0.0,0.0,10.0,n,high,10.0",
        "high,10.0,10.0,60.0,n,,0.0",
        "low.1,10.0,60.0,160.0,n,,0.0",
    ]
    run_natjam("play", out, "--mode", "a=OFF", status=2)


@pytest.mark.parametrize("null", ["null", "~", ""])
def test_a_field_that_is_null_is_not_given(tmp_path: Path, null: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 4}}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p, deletionTimestamp: NULL}, spec: {nodeName: NULL}}".replace(
            "NULL", null
        )
    )
    assert [each.pod.name for each in read_kubernetes([path]).cluster.state.waiting] == ["p"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ("a: " * 100_000, "is neither YAML nor JSON"),
        ("&a {apiVersion: v1, kind: List, items: [*a]}", "a list must not be in another list"),
        ("{kind: List, items: [{kind: List, items: [{kind: List, items: []}]}]}", "a list must not be in another list"),
    ],
)
def test_what_never_ends_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_kubernetes([path])


def test_items_of_a_typed_list_need_not_say_their_kind(tmp_path: Path) -> None:
    items = [{"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1e1"}}} for name in "ab"]
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": items}))
    nodes = read_kubernetes([tmp_path]).cluster.state.nodes
    assert [(node.name, node.allocatable) for node in nodes] == [("a", {"cpu": 10_000}), ("b", {"cpu": 10_000})]


def test_tolerations_that_compare_numbers_are_listed_and_left_out(tmp_path: Path) -> None:
    comparing = [{"key": "sla", "operator": "Gt", "value": "3"}, {"key": "spot", "operator": "Exists"}]
    spec = {"containers": [], "tolerations": comparing}
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec},
    ]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    found = read_kubernetes([tmp_path])
    assert found.cluster.state.waiting[0].pod.tolerations == (Toleration("spot", Operator.EXISTS),)
    decides = [each for each in found.losses if each.effect is Effect.DECIDES]
    assert [each.what for each in decides] == ["Pod p.spec.tolerations.operator"]


def test_merged_fields_count(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 9}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: &m {name: p, <<: *m}\nspec:\n  containers:\n"
        "  - resources: &small {requests: &one {cpu: 1}}\n  - resources: {<<: *small}\n"
        "  - resources: {requests: {cpu: 500m, <<: [*one, {cpu: 7, memory: 3}]}}\n"
    )
    (waiting,) = read_kubernetes([path]).cluster.state.waiting
    assert waiting.pod.requests == {"cpu": 2500, "memory": 3}


def test_classes_that_every_cluster_has_need_not_be_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {priorityClassName: system-node-critical}\n"
    )
    (waiting,) = read_kubernetes([path]).cluster.state.waiting
    assert waiting.pod.priority == 2_000_001_000


@pytest.mark.parametrize("indent", [None, 4])
def test_json_says_what_the_same_text_says_as_yaml(indent: int | None, tmp_path: Path) -> None:
    objects = json.loads((OBJECTS / "cluster.json").read_text())
    others = [each for each in objects["items"] if each["kind"] != "Node"]
    nodes = [each for each in objects["items"] if each.get("kind") == "Node"]
    for each in nodes:
        del each["kind"], each["apiVersion"]
    lists = (
        {"apiVersion": "v1", "kind": "NodeList", "items": nodes},
        {"apiVersion": "v1", "kind": "List", "items": others},
    )
    text = "\n".join(json.dumps(each, indent=indent) for each in lists)
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "a.yaml").write_text(
        text.replace("\n{", "\n--- {") if indent is None else text.replace("\n{", "\n---\n{")
    )
    (as_json, losses), (as_yaml, expected) = (
        (each.cluster, each.losses) for each in (read_kubernetes([tmp_path / name]) for name in ("a.json", "a.yaml"))
    )
    assert replace(as_json, basis=Basis()) == replace(as_yaml, basis=Basis())
    assert [each.what for each in losses] == [each.what for each in expected]
    if indent is not None:  # in YAML the second list begins one line later
        lines = [[int(each.where.rpartition(":")[2]) for each in both] for both in (losses, expected)]
        assert {there - here for here, there in zip(*lines, strict=True)} == {0, 1}


def test_a_name_that_is_twice_in_json_is_refused(tmp_path: Path) -> None:
    text = (
        (OBJECTS / "cluster.json")
        .read_text()
        .replace('"unschedulable": true', '"unschedulable": true,\n"unschedulable": false')
    )
    (tmp_path / "cluster.json").write_text(text)
    line = text[: text.index('"unschedulable": false')].count("\n") + 1
    with pytest.raises(ConfigError, match=rf"cluster.json:{line}: Node \S+ unschedulable: is there twice"):
        read_kubernetes([tmp_path])


def test_json_that_is_nested_too_deeply_or_cut_off_is_refused(tmp_path: Path) -> None:
    for text, problem in (
        ("[" * 2000, "nested too deeply"),
        ('{"kind": "List", "items": [{"kind": "Pod"', "neither YAML nor JSON"),
    ):
        (tmp_path / "cluster.json").write_text('{"a": ' + text)
        with pytest.raises(ConfigError, match=problem):
            read_kubernetes([tmp_path])


def test_documents_without_anything_in_them_are_passed_over(tmp_path: Path) -> None:
    text = (OBJECTS / "rest.yaml").read_text()
    (tmp_path / "rest.yaml").write_text(
        f"---\n# Source: chart/templates/off.yaml\n---\n{text}\n---\nnull\n---\n# end\n"
    )
    names = [
        [each.name for each in read_kubernetes([OBJECTS / "cluster.json", path]).cluster.classes]
        for path in (tmp_path / "rest.yaml", OBJECTS / "rest.yaml")
    ]
    assert names[0] == names[1] != []
