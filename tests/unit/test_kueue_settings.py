"""Each setting of Kueue that counts as modelled is read: without it, another cluster, or none, comes of the files.

What each then decides is compared with Kueue's own code (``tests/peers/kueue.py``, ``test_kueue_sites.py``).
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ConfigError
from emulator.sites.kueue import Kueue
from workloads.kueue.state import read_kueue
from workloads.setting_effects import Effect, settings_of

Object = dict[str, Any]
GROUP, NOW, BEFORE = "kueue.x-k8s.io", "v1beta2", "v1beta1"


def of_kueue(kind: str, name: str, version: str = NOW, **fields: Any) -> Object:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}, **fields}


def resource_groups(flavor: str) -> list[Object]:
    quota = {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": "2"}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}]


def workload(name: str, version: str, spec: Object, pod: Object) -> Object:
    created = {"name": name, "namespace": "team", "creationTimestamp": f"2026-11-27T10:00:0{len(name)}Z"}
    conditions = {"QuotaReserved": "10:00:05", "Admitted": "10:01:05", "PodsReady": "10:01:09", "Finished": "11:00:00"}
    times = [
        {"type": kind, "status": "True", "lastTransitionTime": f"2026-11-27T{at}Z"} for kind, at in conditions.items()
    ]
    check = {"name": "budget", "state": "Ready", "lastTransitionTime": "2026-11-27T10:00:45Z"}
    podset = {"name": "workers", "count": 4, "minCount": 2, "template": {"spec": pod}}
    whole = {"queueName": "lq", "maximumExecutionTimeSeconds": 900, "podSets": [podset], **spec}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Workload",
        "metadata": created,
        "spec": whole,
        "status": {"conditions": times, "admissionChecks": [check]},
    }


def container(requests: Object, limits: Object, **more: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}
POD = {
    "containers": [container({"cpu": "1"}, {"memory": "1Gi"})],
    "initContainers": [
        container({"cpu": "2"}, {"memory": "4Gi"}, restartPolicy="Always"),
        container({"cpu": "9"}, {"memory": "16Gi"}),
    ],
    "overhead": {"cpu": "250m"},
    "nodeSelector": {"pool": "a"},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
}
POD_LEVEL = {
    "containers": [container({}, {}, restartPolicy="Always")],
    "resources": {"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}},
}
PLAIN = {"containers": [container({"cpu": "1"}, {"memory": "1Gi"})]}
LIMITED_INIT = {"containers": [container({}, {})], "initContainers": [container({}, {"memory": "3Gi"})]}
OBJECTS = [
    of_kueue(
        "ClusterQueue",
        "q",
        spec={
            "cohortName": "c",
            "resourceGroups": resource_groups("f"),
            "queueingStrategy": "StrictFIFO",
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "flavorFungibility": {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "MayStopSearch",
                "preference": "PreemptionOverBorrowing",
            },
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7},
            },
            "fairSharing": {"weight": "3"},
            "stopPolicy": "Hold",
            "admissionChecksStrategy": {"admissionChecks": [{"name": "budget", "onFlavors": ["f"]}]},
        },
    ),
    of_kueue("ClusterQueue", "old", BEFORE, spec={"cohort": "c", "namespaceSelector": {}, "admissionChecks": ["x"]}),
    of_kueue(
        "Cohort",
        "c",
        "v1beta1",
        spec={"parentName": "root", "resourceGroups": resource_groups("g"), "fairSharing": {"weight": "2"}},
    ),
    of_kueue("Cohort", "d", "v1alpha1", spec={"parent": "root"}),
    {
        **of_kueue("LocalQueue", "lq", spec={"clusterQueue": "q", "stopPolicy": "Hold"}),
        "metadata": {"name": "lq", "namespace": "team"},
    },
    of_kueue(
        "ResourceFlavor",
        "f",
        spec={
            "nodeLabels": {"pool": "a"},
            "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
            "tolerations": [{"key": "x", "operator": "Exists"}],
        },
    ),
    of_kueue("WorkloadPriorityClass", "urgent", value=100),
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 50},
    workload("a", NOW, {"priorityClassRef": {"group": GROUP, "kind": "WorkloadPriorityClass", "name": "urgent"}}, POD),
    workload("bb", BEFORE, {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"}, {}),
    workload("ccc", NOW, {"priority": 5}, POD_LEVEL),
    workload("dddd", NOW, {"active": False}, {}),
    workload("eeeee", NOW, {}, LIMITED_INIT),
    workload("ffffff", NOW, {}, PLAIN),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"team": "a"}}},
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"pool": "a"}},
        "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "cordoned", "labels": {"pool": "a"}},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "8"}},
    },
]
RESOURCES = {
    "excludeResourcePrefixes": ["memory"],
    "transformations": [{"input": "cpu", "strategy": "Replace", "outputs": {"units": "2"}}],
}
READY = {
    "timeout": "10m",
    "blockAdmission": True,
    "requeuingStrategy": {
        "timestamp": "Creation",
        "backoffLimitCount": 2,
        "backoffBaseSeconds": 5,
        "backoffMaxSeconds": 50,
    },
}
SHARES = {"preemptionStrategies": ["LessThanInitialShare"]}
CONFIGURATIONS = {
    NOW: {"fairSharing": SHARES, "waitForPodsReady": READY, "resources": RESOURCES},
    BEFORE: {
        "fairSharing": {"enable": True, **SHARES},
        "waitForPodsReady": {"enable": True, **READY},
        "resources": RESOURCES,
    },
}
MODELLED = [(each.of, each.key) for each in settings_of("kueue").settings if each.effect is Effect.MODELLED]


def objects(of: str, key: str) -> list[Object]:
    """All objects; Kueue's Configuration only where the setting is its, since it changes what counts."""
    if of not in ("Configuration", "feature gate"):
        return deepcopy(OBJECTS)
    version = BEFORE if key.endswith(".enable") else NOW
    configuration = {"apiVersion": f"config.{GROUP}/{version}", "kind": "Configuration", **CONFIGURATIONS[version]}
    gates = {"PrioritySortingWithinCohort": False} if key != "DisableWaitForPodsReady" else {key: True}
    return deepcopy([*OBJECTS, {**configuration, "featureGates": gates}])


def remove(value: Any, path: list[str]) -> int:
    """Take a field out wherever it is; how often it was there."""
    if isinstance(value, list):
        return sum(remove(each, path) for each in value)
    if not isinstance(value, dict) or path[0] not in value:
        return 0
    if len(path) > 1:
        return remove(value[path[0]], path[1:])
    del value[path[0]]
    return 1


def read(of: list[Object], folder: Path) -> Kueue | ConfigError:
    path = folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": of}))
    try:
        return read_kueue([path])[0]
    except ConfigError as error:
        return error


def told(found: Kueue | ConfigError) -> tuple[Any, ...]:
    """What decides."""
    if isinstance(found, ConfigError):
        return (type(found),)
    return found.cluster, found.priorities, found.arrivals, found.nodes


@pytest.mark.parametrize(("of", "key"), MODELLED)
def test_a_setting_that_is_modelled_is_read(of: str, key: str, tmp_path: Path) -> None:
    kind, path = ("Configuration", f"featureGates.{key}") if of == "feature gate" else (of, key)
    whole = objects(of, key)
    before = read(whole, tmp_path)
    assert isinstance(before, Kueue)
    assert sum(remove(each, path.split(".")) for each in whole if each["kind"] == kind), "the files have it"
    assert told(read(whole, tmp_path)) != told(before)
