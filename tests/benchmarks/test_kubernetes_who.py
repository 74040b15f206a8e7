"""How long ``natjam who`` takes on 200 nodes with 2,000 pods, from what kubectl prints and from the file of an import.

The objects have what kubectl prints of each, most of which decides nothing; the cluster is full, so the pod preempts.
What is held is processor time against that of an event of a bare heap.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bare_heap import bare_event_s

pytestmark = pytest.mark.slow

_NODES, _PODS = 200, 2_000
_TIME = "2026-01-05T09:01:00Z"
_SHAPES = (("500m", "1Gi"), ("1", "4Gi"), ("2", "8Gi"))
"""What pods request, cpu and memory."""


def _object(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    metadata = {"creationTimestamp": _TIME, "name": name, "resourceVersion": "815", "uid": f"uid-{name}"}
    version = {"PriorityClass": "scheduling.k8s.io/v1", "ReplicaSet": "apps/v1"}.get(kind, "v1")
    return {"apiVersion": version, "kind": kind, "metadata": metadata | parts.pop("metadata", {}), **parts}


def _node(number: int) -> dict[str, Any]:
    name, has = f"node-{number}", {"cpu": "16", "ephemeral-storage": "98Gi", "memory": "64Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": "abc"[number % 3],
    }
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    status = {
        "addresses": [{"address": f"10.0.0.{number}", "type": "InternalIP"}, {"address": name, "type": "Hostname"}],
        "allocatable": has,
        "capacity": has,
        "conditions": [
            {
                "lastHeartbeatTime": _TIME,
                "lastTransitionTime": _TIME,
                "message": "kubelet",
                "reason": each,
                "status": str(each == "Ready"),
                "type": each,
            }
            for each in kinds
        ],
        "images": [
            {"names": [f"registry.example/app-{n}@sha256:{n:064}", f"registry.example/app-{n}:1"], "sizeBytes": 10**8}
            for n in range(30)
        ],
        "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1.36.4", "operatingSystem": "linux"},
    }
    return _object("Node", name, metadata={"labels": labels}, spec={"podCIDR": f"10.1.{number}.0/24"}, status=status)


def _pod(number: int, node: int, service: int, shape: tuple[str, str]) -> dict[str, Any]:
    """A pod of one of 50 services: one in ten is spread over zones, and one keeps off its like."""
    labels = {"app": f"a{service}", "pod-template-hash": "5d9c7b6f4"}
    mine = {"labelSelector": {"matchLabels": {"app": f"a{service}"}}}
    spec: dict[str, Any] = {
        "containers": [
            {
                "env": [{"name": f"KEY_{n}", "value": f"value-{n}"} for n in range(8)],
                "image": f"registry.example/app-{service}:1",
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": {
                    "failureThreshold": 3,
                    "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                    "periodSeconds": 10,
                },
                "name": "main",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"memory": shape[1]}, "requests": {"cpu": shape[0], "memory": shape[1]}},
                "terminationMessagePath": "/dev/termination-log",
                "volumeMounts": [{"mountPath": "/var/run/secrets", "name": "kube-api-access-x", "readOnly": True}],
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "nodeName": f"node-{node}",
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": service % 2 * 100,
        "priorityClassName": "high" if service % 2 else "low",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"effect": "NoExecute", "key": f"node.kubernetes.io/{each}", "operator": "Exists", "tolerationSeconds": 300}
            for each in ("not-ready", "unreachable")
        ],
        "volumes": [
            {
                "name": "kube-api-access-x",
                "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token"}}]},
            }
        ],
    }
    if service % 10 == 0:
        spec["topologySpreadConstraints"] = [
            mine | {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ]
    if service % 10 == 1:
        term = mine | {"topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term, "weight": 50}]
            }
        }
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status = {
        "conditions": [
            {"lastProbeTime": None, "lastTransitionTime": _TIME, "status": "True", "type": each} for each in conditions
        ],
        "containerStatuses": [
            {
                "containerID": f"containerd://{number:064}",
                "image": f"registry.example/app-{service}:1",
                "imageID": f"registry.example/app-{service}@sha256:{service:064}",
                "lastState": {},
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": _TIME}},
            }
        ],
        "hostIP": f"10.0.0.{node}",
        "phase": "Running",
        "podIP": f"10.1.{node}.{number % 250}",
        "qosClass": "Burstable",
        "startTime": _TIME,
    }
    owner = {
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": "ReplicaSet",
        "name": f"a{service}-5d9c7b6f4",
        "uid": "cd",
    }
    metadata = {
        "generateName": f"a{service}-5d9c7b6f4-",
        "labels": labels,
        "namespace": "shop",
        "ownerReferences": [owner],
    }
    return _object("Pod", f"a{service}-5d9c7b6f4-{number:05}", metadata=metadata, spec=spec, status=status)


def _cluster() -> dict[str, Any]:
    """What kubectl get -o json prints."""
    random = Random(1)
    pods = [_pod(n, n % _NODES, random.randrange(50), random.choice(_SHAPES)) for n in range(_PODS)]
    owners = [
        _object(
            "ReplicaSet",
            f"a{n}-5d9c7b6f4",
            metadata={"namespace": "shop"},
            spec={"replicas": 40, "selector": {"matchLabels": {"app": f"a{n}"}}},
        )
        for n in range(50)
    ]
    classes = [
        _object("PriorityClass", name, value=value) for name, value in (("low", 0), ("high", 100), ("urgent", 1000))
    ]
    return {
        "apiVersion": "v1",
        "items": [*map(_node, range(_NODES)), *classes, *owners, *pods],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


_INCOMING = _object(
    "Pod",
    "urgent",
    metadata={"namespace": "shop"},
    spec={
        "priorityClassName": "urgent",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "14", "memory": "8Gi"}}}],
    },
)


def _cpu_s(*arguments: str) -> tuple[float, str]:
    """The processor seconds of a command, and what it prints."""
    command = [sys.executable, "-c", "from emulator.cli.script import main; main()", *arguments]
    before = os.times()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, done.stdout


def test_who_answers_from_kubectl_and_from_an_import(tmp_path: Path) -> None:
    raw, manifest, imported = tmp_path / "cluster.json", tmp_path / "urgent.json", tmp_path / "mine.yaml"
    raw.write_text(json.dumps(_cluster(), indent=4))
    manifest.write_text(json.dumps(_INCOMING))
    import_s, _ = _cpu_s("import", "kubernetes", str(raw), "--out", str(imported))
    raw_s, answer = _cpu_s("who", str(raw), str(manifest))
    imported_s, again = _cpu_s("who", str(imported), str(manifest))
    size = raw.stat().st_size / 2**20
    print(
        f"\n{_PODS:,} pods on {_NODES} nodes, {size:.1f} MB: who takes {raw_s:.2f} s of CPU, from the file of an import"
    )
    print(f"{imported_s:.2f} s; the import itself {import_s:.2f} s")
    assert "preempts on" in answer
    assert answer == again
    assert raw_s / bare_event_s() <= 10_000_000
