"""Kueue's objects as natjam reads them, and the file that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.sites.kueue import (
    Arrival,
    BorrowWithinCohort,
    FlavorPolicy,
    Kueue,
    PodSet,
    Policy,
    Preemption,
    QueueingStrategy,
    Quota,
    ShareStrategy,
)
from emulator.vocabulary import SECOND_NS
from tests.commands import run_natjam
from tests.refusals import changed, refused
from workloads.arrivals import read_workloads
from workloads.kubernetes.quantities import amount, quantity
from workloads.kueue.state import read_kueue
from workloads.saved import read_saved, write_saved
from workloads.setting_effects import Effect

OBJECTS = Path(__file__).resolve().parents[1] / "data/kueue/objects"
GIB = 2**30


@pytest.fixture(scope="module")
def imported() -> Kueue:
    return read_kueue([OBJECTS])[0]


def test_queues_and_cohorts_of_both_versions(imported: Kueue) -> None:
    research, batch = imported.cluster.queues
    assert (research.name, research.cohort, research.weight) == ("research", "all", 1.0)
    assert research.groups[0].flavors[0].quotas == {"cpu": Quota(4000), "memory": Quota(16 * GIB, None, 8 * GIB)}
    assert research.preemption == Preemption(Policy.LOWER_PRIORITY, Policy.ANY, BorrowWithinCohort())
    assert (batch.cohort, batch.strategy, batch.weight) == ("team", QueueingStrategy.STRICT_FIFO, 0.5)
    assert batch.groups[0].flavors[0].quotas == {"cpu": Quota(3500, 0)}
    assert batch.fungibility.when_can_preempt is FlavorPolicy.MAY_STOP_SEARCH
    assert [(cohort.name, cohort.parent) for cohort in imported.cluster.cohorts] == [("team", "all")]
    assert imported.cluster.fair_sharing == (ShareStrategy.FINAL_SHARE,)
    assert imported.priorities == {"urgent": 100}


def test_workloads_arrive_when_they_were_made(imported: Kueue) -> None:
    first, train = imported.arrivals
    assert (first.workload.name, first.workload.priority, first.workload.created_ns) == ("team-a/job-first", 7, 0)
    assert first.duration_ns is None
    assert (train.workload.priority, train.workload.created_ns) == (100, 30 * SECOND_NS)
    assert train.duration_ns == 150 * SECOND_NS
    # The init container asks for more cpu than both containers together; a limit counts as a request.
    assert train.workload.podsets == (PodSet("main", 3, {"cpu": 2000, "memory": GIB}),)


def test_what_is_not_carried_over_is_listed_with_its_line(tmp_path: Path) -> None:
    text = (OBJECTS / "queues.yaml").read_text()
    text = text.replace("stopPolicy: None", "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}")
    (tmp_path / "queues.yaml").write_text(text)
    _, losses = read_kueue([tmp_path, OBJECTS / "workloads.json"])
    listed = {each.what: each for each in losses}
    stop = 1 + next(number for number, line in enumerate(text.splitlines()) if "admissionScope" in line)
    assert (
        listed["ClusterQueue research.spec.admissionScope.admissionMode"].where == f"{tmp_path / 'queues.yaml'}:{stop}"
    )
    lost = listed["Workload team-b/job-lost"]
    assert (lost.effect, lost.kind, lost.why) == (
        Effect.LEFT_OUT,
        "workloads",
        "its LocalQueue, or that one's ClusterQueue, is not in the files",
    )
    decides = [each.what for each in read_kueue([OBJECTS])[1] if each.effect is Effect.DECIDES]
    assert decides == [], "stopPolicy None and a namespaceSelector of all are what Kueue does anyway"


@pytest.mark.parametrize(
    ("version", "text", "is_fair"),
    [
        ("v1beta1", "fairSharing: {preemptionStrategies: [LessThanInitialShare]}", False),
        ("v1beta1", "fairSharing: {enable: true}", True),
        ("v1beta2", "fairSharing: {}", True),
    ],
)
def test_fair_sharing_is_off_in_v1beta1_unless_it_is_enabled(
    tmp_path: Path, version: str, text: str, is_fair: bool
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{text}\n")
    queues = tmp_path / "queues.yaml"
    queues.write_text("apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\n")
    assert (read_kueue([queues, path])[0].cluster.fair_sharing is not None) is is_fair


def test_what_of_kueues_configuration_changes_admission_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\n"
        "spec: {namespaceSelector: {}}\n---\n"
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady: {recoveryTimeout: 5m}\n"
        "resources:\n  quotaCheckStrategy: IgnoreUndeclared\nmetrics: {}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue-manager-config, namespace: kueue-system}\n"
    )
    losses = [each for each in read_kueue([path])[1] if each.effect is Effect.DECIDES]
    assert [(each.what, each.where) for each in losses] == [
        ("Configuration.waitForPodsReady.recoveryTimeout", f"{path}:8"),
        ("Configuration.resources.quotaCheckStrategy", f"{path}:10"),
        ("ConfigMap kueue-system/kueue-manager-config", f"{path}:13"),
    ]


def test_what_no_quota_covers_is_said(tmp_path: Path) -> None:
    queues, table = tmp_path / "queues.yaml", tmp_path / "arrivals.csv"
    queues.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\nspec:\n  resourceGroups:\n"
        "  - coveredResources: [cpu]\n    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]\n"
    )
    table.write_text("queue,submit_s,cpu,nvidia.com/gpu\na,0,1,1\na,0,1,2\na,0,1,0\n")
    done = run_natjam("import", "kueue", queues, "--arrivals", table, "--out", tmp_path / "mine.yaml")
    said = "ClusterQueue a has no quota of nvidia.com/gpu, for which 2 of its workloads ask: they are never admitted"
    assert said in " ".join(done.output.split())


def test_values_of_environment_arguments_and_annotations_appear_nowhere(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = run_natjam("import", "kueue", OBJECTS, "--out", out)
    assert "2 queues, 2 workloads" in done.output
    assert "SECRET" not in done.output
    assert "SECRET" not in out.read_text()
    assert "SECRET" in (OBJECTS / "workloads.json").read_text()


def test_the_written_file_is_read_again(imported: Kueue, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write_saved(path, imported, ["Not carried over:", "  a\nb"])
    assert read_saved(path, Kueue) == imported


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("nominalQuota: 4}", "nominalQuota: four}", "resource cpu: nominalQuota: is not a quantity"),
        ("nominalQuota: 4}", "nominalQuota: -4}", "must be from 0"),
        ("nominalQuota: 4}", "nominalQuota: [4]}", "is of another type"),
        ("reclaimWithinCohort: Any", "reclaimWithinCohort: All", "reclaimWithinCohort: must be one of Never,"),
        ("parentName: all", "parentName: team", "Cohort team: spec.parentName: goes round in a circle"),
        ("metadata: {name: batch}", "metadata: {name: research}", "ClusterQueue research: metadata.name: is in"),
        ("{clusterQueue: research}", "{}", "LocalQueue team-a/main: spec: is missing"),
        ("items:", "items: [", "is neither YAML nor JSON"),
        ("cohortName: all", "cohort: all", "unknown field spec.cohort in v1beta2; v1beta1 has it"),
        ("cohort: team", "cohortName: team", "unknown field spec.cohortName in v1beta1; v1beta2 has it"),
        ("cohort: team", "cohort: team\n    cohort: team", "ClusterQueue batch: cohort: is there twice in one object"),
        ("{policy: Never}", "Never", "spec.preemption.borrowWithinCohort: must be an object, with maxPriorityThr"),
        (
            "[cpu, memory]",
            "[memory, cpu]",
            "resources: must be those of the group's coveredResources, in the same order",
        ),
        ("[cpu]", "[cpu, memory]", "flavor default, resources: must be those of the group's coveredResources"),
    ],
)
def test_problems_name_file_line_and_field(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(changed((OBJECTS / "queues.yaml").read_text(), old, new))
    message = refused(read_kueue, [path])
    assert problem in message
    assert message.startswith(f"{path}:")
    assert message.split(":")[1].isdigit()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("nominal: 4000", "nominal: many", "kueue.cluster.queues[0].groups[0].flavors[0].quotas"),
        ("first\n      queue: research", "first\n      queue: other", "team-a/job-first: its queue is not one of"),
        ("imported: kueue 0.19", "imported: kueue 0.1", "kueue: another natjam has imported it; import it again"),
        ("within_queue:", "within:", "unknown field"),
    ],
)
def test_problems_of_the_written_file(imported: Kueue, tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    write_saved(path, imported, [])
    path.write_text(changed(path.read_text(), old, new))
    message = refused(read_saved, path, Kueue)
    assert problem in message
    assert message.startswith(str(path))


TABLE = """queue,submit_s,duration_s,name,priority,count,cpu,memory
research,30.5,60,,5,2,500m,1Gi
batch,0,,first,,,2,
"""


def test_workloads_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(TABLE)
    out = tmp_path / "mine.yaml"
    run_natjam("import", "kueue", OBJECTS / "queues.yaml", "--arrivals", path, "--out", out)
    first, second = read_saved(out, Kueue).arrivals
    assert (first.workload.name, first.workload.queue, first.duration_ns) == ("first", "batch", None)
    assert first.workload.podsets == (PodSet("main", 1, {"cpu": 2000}),)
    assert (second.workload.name, second.workload.priority) == ("row-2", 5)
    assert (second.workload.created_ns, second.duration_ns) == (30_500_000_000, 60 * SECOND_NS)
    assert second.workload.podsets == (PodSet("main", 2, {"cpu": 500, "memory": GIB}),)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("submit_s", "submit", ":1: column submit_s: is missing"),
        ("30.5", "nan", ":2: column submit_s: must be from 0"),
        ("30.5", "soon", ":2: column submit_s: must be a number"),
        ("500m", "half", ":2: column cpu: is not a quantity"),
        ("batch,", "other,", ":3: column queue: no ClusterQueue"),
        (",5,2,", ",5,0,", ":2: column count: must be 1"),
        (",,2,\n", ",,2\n", ":3: has another number of fields"),
        ("first", "row-2", ": column name: two workloads"),
        ("memory", "cpu", ":1: two columns"),
    ],
)
def test_problems_of_a_table(imported: Kueue, tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(changed(TABLE, old, new))
    assert refused(read_workloads, path, imported.cluster).startswith(f"{path}{problem}")


def test_workloads_are_drawn_from_those_with_a_known_length(tmp_path: Path) -> None:
    def drawn(*more: str) -> tuple[Arrival, ...]:
        out = tmp_path / "mine.yaml"
        arguments = ["import", "kueue", str(OBJECTS / "queues.yaml"), "--out", str(out), "--draw", "200", *more]
        run_natjam(*arguments)
        return read_saved(out, Kueue).arrivals

    table = tmp_path / "arrivals.csv"
    table.write_text(TABLE)
    found = drawn("--arrivals", str(table), "--over-h", "2")
    assert len({each.workload.name for each in found}) == 200
    assert {each.duration_ns for each in found} == {60 * SECOND_NS}, "the other has no known length"
    assert {each.workload.queue for each in found} == {"research"}
    times_ns = [each.workload.created_ns for each in found]
    assert times_ns == sorted(times_ns)
    assert 1.5 < times_ns[-1] / SECOND_NS / 3600 < 2.5
    assert found == drawn("--arrivals", str(table), "--over-h", "2")
    assert found != drawn("--arrivals", str(table), "--over-h", "2", "--seed", "2")
    arguments = ["import", "kueue", str(OBJECTS / "queues.yaml"), "--out", str(tmp_path / "x.yaml"), "--draw", "2"]
    refused = run_natjam(*arguments, status=2)
    assert "no Workload has ended" in refused.output


@pytest.mark.parametrize(
    ("resource", "text", "value"),
    [
        ("cpu", "500m", 500),
        ("cpu", 2, 2000),
        ("cpu", "0.0001", 1),
        ("memory", "16Gi", 16 * GIB),
        ("memory", "1e3", 1000),
        ("memory", "1k", 1000),
        ("memory", "1500m", 2),
        ("nvidia.com/gpu", "8", 8),
    ],
)
def test_quantities(resource: str, text: str | int, value: int) -> None:
    assert amount(resource, text) == value
    assert amount(resource, quantity(resource, value)) == value


@pytest.mark.parametrize("text", ["", "4 cpus", "Gi", "1e400", "10E", "-1", True, "1_000", "\uff10"])
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|must be"):
        amount("memory", text)


NODES = """
apiVersion: v1
kind: List
items:
  - {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: spot}, spec: {nodeLabels: {pool: spot}}}
  - apiVersion: v1
    kind: Node
    metadata: {name: a, labels: {pool: default}}
    status: {allocatable: {cpu: "2", memory: 4Ti}}
  - {apiVersion: v1, kind: Node, metadata: {name: b, labels: {pool: default}}, status: {allocatable: {cpu: 1500m}}}
  - {apiVersion: v1, kind: Node, metadata: {name: c, labels: {pool: default}}, spec: {unschedulable: true}}
  - {apiVersion: v1, kind: Node, metadata: {name: d}, status: {allocatable: {cpu: "64"}}}
"""


def test_nodes_belong_to_the_flavors_whose_labels_they_have(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES)
    done = run_natjam("import", "kueue", OBJECTS, tmp_path / "nodes.yaml", "--out", tmp_path / "mine.yaml")
    saved = read_saved(tmp_path / "mine.yaml", Kueue)
    assert [(each.name, each.allocatable["cpu"]) for each in saved.nodes] == [("a", 2000), ("b", 1500)]
    text = " ".join(done.output.split())
    assert "1 of 4 nodes: it is cordoned; for example Node c " in text
    assert "1 of 4 nodes: it has the labels of no ResourceFlavor; for example Node d " in text
    assert "ResourceFlavor default: quotas of 7500m cpu, its nodes have 3500m" in text
    assert "memory, its nodes have" not in text
    assert text.endswith(": 2 queues, 2 workloads, 2 nodes")
