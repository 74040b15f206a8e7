"""Recorded days and cases of other systems as the files that their own tools would print, for ``natjam import``.

The records are those of ``tests/data`` and ``analysis/claims/slurm``; where they come from is in the PROVENANCE.md
beside them.  Nothing here is of natjam, so that the same files serve any version of it.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

BEGIN = datetime(2026, 1, 1)
Record = Mapping[str, Any]


def records(path: Path) -> list[Record]:
    """The records of a file, one a line."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def _write_list(path: Path, objects: Iterable[Record]) -> None:
    """Write objects as ``kubectl get -o json`` does."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=1))


def _time(at_s: float) -> str:
    return f"{BEGIN + timedelta(seconds=at_s):%Y-%m-%dT%H:%M:%SZ}"


def _quantity(resource: str, amount: int) -> str:
    """CPUs are recorded in thousandths."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def _quantities(amounts: Record) -> dict[str, str]:
    return {resource: _quantity(resource, amount) for resource, amount in amounts.items()}


# ---- Kueue ----


def write_kueue_day(day: Record, folder: Path) -> None:
    """``queues.json``, the cohorts and queues; ``arrivals.csv``, the workloads, each of one pod set."""
    _write_list(folder / "queues.json", _kueue_objects(day))
    resources = sorted({resource for each in day["workloads"] for resource in each["podsets"][0]["requests"]})
    with (folder / "arrivals.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", "queue", "submit_s", "priority", "duration_s", "count", *resources])
        for each in day["workloads"]:
            (podset,) = each["podsets"]
            requests = _quantities(podset["requests"])
            facts = (each["name"], each["queue"], each["submit"], each["priority"], each["duration"], podset["count"])
            table.writerow([*facts, *(requests.get(resource, "0") for resource in resources)])


def _kueue_objects(day: Record) -> Iterator[Record]:
    if day["fair_sharing"] is not None:
        fair = {"preemptionStrategies": day["fair_sharing"]["strategies"] or []}
        yield {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "fairSharing": fair}
    for each in day["cohorts"] or ():
        parent = {"parentName": each["parent"]} if each.get("parent") else {}
        yield _kueue_object("Cohort", each, {**parent, **_groups(each)})
    for each in day["queues"]:
        preemption, fungibility = each["preemption"], each["fungibility"]
        borrow = preemption.get("borrow") or {}
        most = {} if borrow.get("max_priority") is None else {"maxPriorityThreshold": borrow["max_priority"]}
        spec = {
            **({"cohortName": each["cohort"]} if each.get("cohort") else {}),
            "queueingStrategy": each.get("strategy") or "BestEffortFIFO",
            "preemption": {
                "withinClusterQueue": preemption.get("within_queue") or "Never",
                "reclaimWithinCohort": preemption.get("reclaim") or "Never",
                "borrowWithinCohort": {"policy": borrow.get("policy") or "Never", **most},
            },
            "flavorFungibility": {
                "whenCanBorrow": fungibility.get("when_can_borrow") or "MayStopSearch",
                "whenCanPreempt": fungibility.get("when_can_preempt") or "TryNextFlavor",
            },
        }
        yield _kueue_object("ClusterQueue", each, {**spec, **_groups(each)})


def _kueue_object(kind: str, record: Record, spec: dict[str, Any]) -> Record:
    if record.get("weight") is not None:
        spec["fairSharing"] = {"weight": str(record["weight"])}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": record["name"]},
        "spec": spec,
    }


_LIMITS = (("nominalQuota", "nominal"), ("borrowingLimit", "borrowing"), ("lendingLimit", "lending"))


def _groups(record: Record) -> dict[str, Any]:
    groups = [
        {
            "coveredResources": group["resources"],
            "flavors": [
                {
                    "name": flavor["name"],
                    "resources": [
                        {"name": resource}
                        | {theirs: _quantity(resource, quota[ours]) for theirs, ours in _LIMITS if ours in quota}
                        for resource in group["resources"]
                        for quota in (flavor["quotas"][resource],)
                    ],
                }
                for flavor in group["flavors"]
            ],
        }
        for group in record.get("groups") or ()
    ]
    return {"resourceGroups": groups}


# ---- Kubernetes ----


def write_kubernetes_day(day: Record, path: Path) -> None:
    """Every pod of a day as it is when all have ended, each as long as it works; its owner replaces an evicted one."""
    owner = {"kind": "StatefulSet" if day["replace"] == "gone" else "ReplicaSet", "controller": True}
    pods = []
    for each in day["workloads"]:
        for number in range(each["count"]):
            pod = _pod(f"{each['name']}-{number}", each, each["submit"])
            pod["metadata"]["ownerReferences"] = [{**owner, "name": each["name"]}]
            pod["spec"]["terminationGracePeriodSeconds"] = each["grace"]
            ended = {"state": {"terminated": {"finishedAt": _time(each["submit"] + each["duration"])}}}
            pod["status"] = {
                "phase": "Succeeded",
                "startTime": _time(each["submit"]),
                "containerStatuses": [ended],
            }
            pods.append(pod)
    _write_list(path, [*_kubernetes_objects(day), *pods])


def write_kubernetes_case(case: Record, path: Path) -> str:
    """The pods on their nodes, and those that wait; the name of the pod that is asked about, or of one of its gang."""
    pods = []
    for each in case["pods"]:
        pod = _pod(each["name"], each, each.get("start", 0))
        pod["spec"]["nodeName"] = each["node"]
        conditions = [{"type": "DisruptionTarget", "status": "True"}] if each.get("preempted") else []
        start = _time(each.get("start", 0))
        pod["status"] = {"phase": "Running", "startTime": start, "conditions": conditions}
        if each.get("terminating"):
            pod["metadata"]["deletionTimestamp"] = _time(case["now"])
        pods.append(pod)
    incoming, gang = case["incoming"], case.get("gang")
    count = case["count"] if gang else 1
    names = [f"{incoming['name']}-{number}" for number in range(count)] if gang else [incoming["name"]]
    for name in names:
        pods.append(_pod(name, {**incoming, **({"group": gang["name"]} if gang else {})}, case["now"]))
    groups = [_pod_group(each) for each in [*(case.get("groups") or ()), *([gang] if gang else [])]]
    _write_list(path, [*_kubernetes_objects(case), *groups, *pods])
    return names[0]


def _kubernetes_objects(record: Record) -> Iterator[Record]:
    """Nodes, priority classes and disruption budgets."""
    for each in record["nodes"]:
        spec = {"taints": each.get("taints", []), "unschedulable": each.get("unschedulable", False)}
        status = {"allocatable": _quantities(each["capacity"])}
        metadata = {"name": each["name"], "labels": each.get("labels", {})}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
    for each in record.get("classes", ()):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": each["name"]},
            "value": each["value"],
            "preemptionPolicy": each.get("policy") or "PreemptLowerPriority",
        }
    for each in record.get("budgets") or ():
        allowed = {} if "allowed" not in each else {"disruptionsAllowed": each["allowed"]}
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": each["name"]},
            "spec": {"selector": {"matchLabels": each["selector"] or {}}, "minAvailable": each.get("min_available", 0)},
            "status": allowed,
        }


def _pod_group(given: Record) -> Record:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": given["name"]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": given["min"]}}, "priority": given["priority"]},
    }


def _pod(name: str, given: Record, created_s: float) -> dict[str, Any]:
    """A pod without a node and a state."""
    required = [
        {"labelSelector": {"matchLabels": each["labels"]}, "topologyKey": each["topology"]}
        for each in given.get("anti_affinity", ())
    ]
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": _quantities(given.get("requests", {}))}}],
        "nodeSelector": given.get("selector", {}),
        "tolerations": given.get("tolerations", []),
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
    if given.get("class"):
        spec["priorityClassName"] = given["class"]
    else:
        spec |= {
            "priority": given.get("priority", 0),
            "preemptionPolicy": given.get("policy") or "PreemptLowerPriority",
        }
    if given.get("group"):
        spec["schedulingGroup"] = {"podGroupName": given["group"]}
    metadata = {"name": name, "labels": given.get("labels", {}), "creationTimestamp": _time(created_s)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# ---- Slurm ----


def write_slurm_run(run: Record, folder: Path) -> None:
    """``slurm.conf`` and ``sacct.txt``; times are rounded to whole seconds, as sacct has them."""
    (folder / "slurm.conf").write_text(run["slurm_conf"])
    lines = ["JobIDRaw|Partition|Submit|ElapsedRaw|State|NNodes|NCPUS|TimelimitRaw"]
    for number, job in enumerate(run["jobs"], 1):
        submit = f"{BEGIN + timedelta(seconds=round(job['submit'])):%Y-%m-%dT%H:%M:%S}"
        facts = (number, job["partition"], submit, max(1, round(job["length"])), "COMPLETED", job["nodes"])
        lines.append("|".join(map(str, (*facts, job["nodes"] * job["cpus"], max(1, job["limit"] // 60)))))
    (folder / "sacct.txt").write_text("\n".join(lines) + "\n")
