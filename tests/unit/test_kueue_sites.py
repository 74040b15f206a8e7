"""What sites with Kueue have beside amounts: read from their objects, and what it decides in a run."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from emulator.errors import ConfigError
from emulator.policies.kueue.model import Assignment, first_name
from emulator.policies.kueue.phases import TRANSITIONS, EvictedBy, Life, Phase, Phases, Step
from emulator.policies.kueue.scheduler import Eviction, workloads_player
from emulator.policies.kueue.why import why_assignment
from emulator.policies.schedulers.play import End
from emulator.sites.kueue import (
    AdmissionCheck,
    Arrival,
    Cluster,
    ClusterQueue,
    FlavorQuotas,
    Kueue,
    PodSet,
    PodsReady,
    Preference,
    Quota,
    RequeuingTimestamp,
    ResourceGroup,
    Workload,
)
from emulator.vocabulary import SECOND_NS
from tests.kueue_questions import State, assign
from tests.peers.kueue import HeldBy, held_by
from tests.refusals import changed
from workloads.kueue.state import read_kueue
from workloads.setting_effects import Effect

GPU = "nvidia.com/gpu"

FLAVORS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec:
  nodeLabels: {gpu: a100}
  nodeTaints: [{key: spot, value: "true", effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {gpu: h100, zone: b}}
---
"""
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}
    - {name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: q}
"""
WORKLOAD = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w, namespace: team, creationTimestamp: "2026-11-27T10:00:00Z"}
spec:
  queueName: lq
  podSets:
  - name: main
    count: 8
    template:
      spec:
        containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]
"""


def read(tmp_path: Path, text: str) -> tuple[Kueue, list[str]]:
    """What is read of objects, and the reasons why not all of it is."""
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    kueue, losses = read_kueue([path])
    return kueue, [each.why for each in losses if each.effect is Effect.DECIDES]


def chosen(kueue: Kueue) -> Assignment:
    """The flavors of the only workload, in the empty cluster."""
    return assign(State(kueue.cluster), kueue.arrivals[0].workload, first_name)


def with_pods(more: str) -> str:
    return WORKLOAD.replace("      spec:\n", f"      spec:\n        {more}\n")


AFFINITY = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"
TOLERATES = "tolerations: [{key: spot, operator: Exists}]"


@pytest.mark.parametrize(
    ("more", "flavor"),
    [
        ("", "h100"),
        (TOLERATES, "spot"),
        ("nodeSelector: {gpu: h100}", "h100"),
        (f"{TOLERATES}\n        nodeSelector: {{gpu: h100}}", "h100"),
        (f"{TOLERATES}\n        nodeSelector: {{zone: a}}", "spot"),
        (
            f"{TOLERATES}\n        {AFFINITY}" % "{matchExpressions: [{key: gpu, operator: NotIn, values: [a100]}]}",
            "h100",
        ),
        (f"{TOLERATES}\n        {AFFINITY}" % "{matchExpressions: [{key: other, operator: Exists}]}", "spot"),
    ],
)
def test_a_podset_gets_a_flavor_that_its_pods_allow(tmp_path: Path, more: str, flavor: str) -> None:
    """A flavor that has no label ``zone`` does not exclude who selects by it: as Kueue 0.19.2 does."""
    kueue, losses = read(tmp_path, FLAVORS + QUEUE + with_pods(more))
    assert chosen(kueue).flavors == ({GPU: flavor},)
    assert losses == []


def test_why_a_flavor_is_passed_over_is_said(tmp_path: Path) -> None:
    lines = [*why_assignment(chosen(read(tmp_path, FLAVORS + QUEUE + with_pods("nodeSelector: {gpu: a100}"))[0]))]
    assert lines == [
        "main in spot: its pods do not tolerate the taint spot=true:NoSchedule",
        "main in h100: its pods select nodes with gpu=a100, and these have h100",
    ]


def test_the_tolerations_of_a_flavor_count_for_all_of_its_pods(tmp_path: Path) -> None:
    tolerant = FLAVORS.replace("  nodeTaints", "  tolerations: [{key: spot, operator: Exists}]\n  nodeTaints")
    assert chosen(read(tmp_path, tolerant + QUEUE + WORKLOAD)[0]).flavors == ({GPU: "spot"},)


def test_a_workload_may_do_with_fewer_pods(tmp_path: Path) -> None:
    fewer = WORKLOAD.replace("count: 8", "count: 12\n    minCount: 2")
    found = chosen(read(tmp_path, FLAVORS + QUEUE + fewer)[0])
    assert (found.flavors, found.counts) == (({GPU: "h100"},), (8,))


@pytest.mark.parametrize(
    ("old", "new", "held"),
    [
        ("namespaceSelector: {}", "namespaceSelector: {}\n  stopPolicy: Hold", HeldBy.CLUSTER_QUEUE),
        ("spec: {clusterQueue: q}", "spec: {clusterQueue: q, stopPolicy: HoldAndDrain}", HeldBy.LOCAL_QUEUE),
        ("namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}", HeldBy.NAMESPACE),
        ("namespaceSelector: {}", "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}", None),
    ],
)
def test_a_queue_that_is_stopped_or_for_others_admits_nobody(
    tmp_path: Path, old: str, new: str, held: HeldBy | None
) -> None:
    namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    kueue, losses = read(tmp_path, FLAVORS + changed(QUEUE, old, new) + WORKLOAD + namespace)
    assert held_by(kueue.cluster, kueue.arrivals[0].workload) is held
    assert losses == []
    played = workloads_player(kueue.cluster, kueue.arrivals).finish()
    assert bool(played["team/w"]) is (held is None)


def test_a_namespace_that_is_not_in_the_files_counts_as_selected_and_is_said(tmp_path: Path) -> None:
    text = QUEUE.replace("namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}")
    kueue, losses = read(tmp_path, FLAVORS + text + WORKLOAD)
    assert held_by(kueue.cluster, kueue.arrivals[0].workload) is None
    assert losses == ["its Namespace is not in the files: it counts as selected by its queue's namespaceSelector"]


def test_a_queue_without_a_namespace_selector_is_said_to_select_nothing_in_kueue(tmp_path: Path) -> None:
    kueue, losses = read(tmp_path, FLAVORS + QUEUE.replace("  namespaceSelector: {}\n", "") + WORKLOAD)
    assert held_by(kueue.cluster, kueue.arrivals[0].workload) is None
    why = "so Kueue admits no workload to it: here it counts as {}, which selects all namespaces"
    assert losses == [f"it has no namespaceSelector, {why}"]


CONFIGURATION = """---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
"""


def test_resources_are_counted_as_the_configuration_says(tmp_path: Path) -> None:
    configuration = (
        f"{CONFIGURATION}resources:\n  excludeResourcePrefixes: [example.com/]\n  transformations:\n"
        "  - {input: nvidia.com/mig, strategy: Replace, outputs: {nvidia.com/gpu: 500m, memory: 5Gi}}\n"
        "  - {input: nvidia.com/vgpu, strategy: Replace, multiplyBy: example.com/share, outputs: {cpu: 250m}}\n"
    )
    asks = '{nvidia.com/mig: "3", nvidia.com/vgpu: "2", example.com/share: "7"}'
    workload = WORKLOAD.replace('{nvidia.com/gpu: "1"}', asks)
    kueue, losses = read(tmp_path, FLAVORS + QUEUE + workload + configuration)
    # Half of three is rounded up; what is excluded multiplies nothing.
    assert kueue.arrivals[0].workload.podsets[0].requests == {GPU: 2, "memory": 15 * 2**30, "cpu": 500}
    assert losses == []


def test_the_gate_of_priorities_and_pods_that_must_be_ready_are_read(tmp_path: Path) -> None:
    configuration = (
        f"{CONFIGURATION}featureGates: {{PrioritySortingWithinCohort: false}}\nwaitForPodsReady:\n  timeout: 1h30m\n"
        "  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 5}\n"
    )
    cluster = read(tmp_path, FLAVORS + QUEUE + configuration)[0].cluster
    assert not cluster.sorts_by_priority
    times_ns = (5400 * SECOND_NS, 5 * SECOND_NS, 3600 * SECOND_NS)
    assert cluster.pods_ready == PodsReady(times_ns[0], RequeuingTimestamp.CREATION, *times_ns[1:], limit=3)
    preference = "flavorFungibility: {whenCanBorrow: TryNextFlavor, preference: PreemptionOverBorrowing}"
    queue = QUEUE.replace("namespaceSelector: {}", preference)
    fungibility = read(tmp_path, FLAVORS + queue)[0].cluster.queues[0].fungibility
    assert (fungibility.preference, fungibility.prefers_preemption) == (Preference.PREEMPTION, True)


@pytest.mark.parametrize(
    ("version", "configuration", "expected"),
    [
        ("v1beta2", "", (1800, False)),
        ("v1beta2", "waitForPodsReady: {timeout: 10m, blockAdmission: true}", (600, True)),
        ("v1beta2", "featureGates: {DisableWaitForPodsReady: true}", None),
        ("v1beta1", "", None),
        ("v1beta1", "waitForPodsReady: {enable: true}", (300, True)),
        ("v1beta1", "waitForPodsReady: {enable: true, blockAdmission: false}", (300, False)),
    ],
)
def test_the_defaults_of_pods_that_must_be_ready_are_those_of_the_version(
    tmp_path: Path, version: str, configuration: str, expected: tuple[int, bool] | None
) -> None:
    text = CONFIGURATION.replace("v1beta2", version) + configuration
    kueue, losses = read(tmp_path, FLAVORS + QUEUE + text)
    rule = kueue.cluster.pods_ready
    assert (None if rule is None else (rule.timeout_ns // SECOND_NS, rule.blocks)) == expected
    assert losses == []
    assert read(tmp_path, FLAVORS + QUEUE)[0].cluster.pods_ready == PodsReady(1800 * SECOND_NS)


def test_how_long_checks_take_is_read_of_those_who_have_passed(tmp_path: Path) -> None:
    queue = QUEUE.replace(
        "namespaceSelector: {}",
        "namespaceSelector: {}\n  admissionChecksStrategy:\n"
        "    admissionChecks: [{name: nodes, onFlavors: [h100]}, {name: budget}]",
    )
    status = (
        "status:\n  conditions:\n"
        '  - {type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-27T10:00:05Z"}\n'
        '  - {type: Admitted, status: "True", lastTransitionTime: "2026-11-27T10:02:05Z"}\n'
        '  - {type: PodsReady, status: "True", lastTransitionTime: "2026-11-27T10:02:15Z"}\n'
        '  admissionChecks: [{name: nodes, state: Ready, lastTransitionTime: "2026-11-27T10:02:05Z"}]\n'
    )
    kueue, losses = read(tmp_path, FLAVORS + queue + WORKLOAD + status)
    checks = (AdmissionCheck("nodes", (120 * SECOND_NS,)), AdmissionCheck("budget"))
    assert (kueue.cluster.checks, kueue.arrivals[0].ready_ns) == (checks, (10 * SECOND_NS,))
    assert kueue.cluster.queues[0].checks == {"nodes": ("h100",), "budget": ()}
    assert losses == ["no Workload of the files shows how long this admission check takes: here it passes at once"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "{withinClusterQueue: LowerPriority}",
            "{borrowWithinCohort: {policy: LowerPriority}}",
            "borrowWithinCohort.policy: must be left out, or Never, where reclaimWithinCohort is Never",
        ),
        ("nominalQuota: 8}", "nominalQuota: 8, borrowingLimit: 4}", "borrowingLimit: needs a cohort"),
        ("nominalQuota: 8}", "nominalQuota: 8, lendingLimit: 4}", "lendingLimit: needs a cohort"),
        ("namespaceSelector: {}", "stopPolicy: Stop", "spec.stopPolicy: must be one of None, Hold, HoldAndDrain"),
    ],
)
def test_what_the_api_refuses_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(tmp_path, FLAVORS + changed(QUEUE, old, new))


# ---- the two phases ----


def cluster(**more: object) -> Cluster:
    group = ResourceGroup(("cpu",), (FlavorQuotas("default", {"cpu": Quota(4)}),))
    checks = {each.name: () for each in more.get("checks", ())}  # type: ignore[attr-defined]
    return Cluster((ClusterQueue("q", groups=(group,), checks=checks),), **more)  # type: ignore[arg-type]


def arrival(name: str, length_s: int, cpus: int = 4, **more: object) -> Arrival:
    ready_ns = more.pop("ready_ns", ())
    workload = Workload(name, "q", (PodSet("main", 1, {"cpu": cpus}),), **more)  # type: ignore[arg-type]
    return Arrival(workload, length_s * SECOND_NS, ready_ns)  # type: ignore[arg-type]


def test_a_workload_starts_when_its_checks_have_passed() -> None:
    checks = (AdmissionCheck("nodes", (60 * SECOND_NS,)), AdmissionCheck("budget"))
    (one,) = workloads_player(cluster(checks=checks), [arrival("w", 10)]).finish()["w"]
    assert (one.start_ns, one.end_ns) == (60 * SECOND_NS, 70 * SECOND_NS)


def test_whose_pods_are_not_ready_goes_waits_longer_each_time_and_is_deactivated() -> None:
    rule = PodsReady(30 * SECOND_NS, backoff_base_ns=10 * SECOND_NS, limit=2)
    player = workloads_player(cluster(pods_ready=rule), [arrival("w", 1000, ready_ns=(None,))])
    reasons = [each.reason for cycle in player.play() for each in cycle.decisions if isinstance(each, Eviction)]
    spans = [(one.start_ns // SECOND_NS, (one.end_ns or 0) // SECOND_NS) for one in player.executions["w"]]
    assert spans == [(0, 30), (40, 70), (90, 120)]
    assert reasons == [EvictedBy.PODS_READY, EvictedBy.PODS_READY, EvictedBy.REQUEUING_LIMIT]


def test_while_pods_are_not_ready_no_other_workload_is_admitted() -> None:
    """A cycle waits before each admission."""
    rule = PodsReady(100 * SECOND_NS, blocks=True)
    more = [("a", 1, 20), ("b", 1, 50), ("c", 1, 0)]
    arrivals = [arrival(name, 1000, cpus, ready_ns=(ready * SECOND_NS,)) for name, cpus, ready in more]
    found = workloads_player(cluster(pods_ready=rule), arrivals).finish()
    assert [found[name][0].start_ns // SECOND_NS for name, *_ in more] == [0, 20, 70]


def test_who_has_run_for_its_time_ends_and_its_quota_is_free() -> None:
    first, second = arrival("a", 1000, max_execution_ns=600 * SECOND_NS), arrival("b", 10, created_ns=1)
    found = workloads_player(cluster(), [first, second]).finish()
    assert (found["a"][0].end, (found["a"][0].end_ns or 0) // SECOND_NS) == (End.TIMEOUT, 600)
    assert found["b"][0].start_ns // SECOND_NS == 601, "those set aside are tried again a second later"


def test_a_workload_goes_only_as_the_table_says() -> None:
    """Random steps: one that is not in the table raises and changes nothing."""
    random, refused = Random(1), 0
    life = Life(arrival("w", 1).workload)
    for _ in range(300):
        step, before = random.choice([*Step]), life.phase
        if (after := TRANSITIONS.get((before, step))) is None:
            refused += 1
            with pytest.raises(ValueError, match=f"{step} while {before}"):
                life.step(step)
            assert life.phase is before
        else:
            life.step(step)
            assert life.phase is after
        if life.phase is Phase.DEACTIVATED:
            life = Life(life.workload)
    assert refused > 30


def test_checks_are_drawn_from_the_times_that_were_seen_by_the_seed() -> None:
    def start_ns(seed: int) -> int | None:
        phases = Phases(cluster(checks=(AdmissionCheck("nodes", tuple(range(1, 1000))),)))
        phases.seed = seed
        life = phases.submitted(arrival("w", 1).workload, ())
        assert not [*phases.reserved(life, ({"cpu": "default"},), 0)]
        return phases.next_ns

    times = {start_ns(seed) for seed in range(10)}
    assert len(times) > 5
    assert start_ns(3) == start_ns(3)
