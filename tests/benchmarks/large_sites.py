"""Large made-up sites, in the form of their real files: of Slurm, Kubernetes, Kueue and YARN.

What jobs ask for, and when, is drawn as in the benchmarks of the schedulers; most jobs have ended, as in a site's
records.  Each object has fields that decide nothing too (images, environment, owners), as what kubectl prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from synthetic_day import day_jobs
from test_kubernetes_day import arrivals as pods_of_a_day
from test_kueue_day import arrivals as workloads_of_a_day
from test_kueue_day import cluster as kueue_cluster
from test_slurm_week import jobs as jobs_of_a_week

from emulator.files.yaml_values import dump_yaml
from emulator.sites.kubernetes import Arrival, Pod
from emulator.sites.slurm import MINUTE_NS
from workloads.kubernetes.quantities import quantity
from workloads.kueue.manifests import cluster_manifests

_FIRST = datetime(2026, 11, 2)
_DAY_NS = 24 * 60 * MINUTE_NS
_UID = "00000000-0000-4000-8000-{:012}"


def _time(ns: int) -> str:
    """A time so long after the first one, to the second."""
    return (_FIRST + timedelta(seconds=ns // 10**9)).isoformat()


def write_slurm(folder: Path, nodes: int = 300, jobs: int = 20_000, load: float = 0.9) -> list[Path]:
    """``slurm.conf``, and what sacct prints of a week's jobs: as many rows."""
    conf, sacct = folder / "slurm.conf", folder / "jobs.txt"
    conf.write_text(
        "ClusterName=made-up\nSlurmctldHost=head\nStateSaveLocation=/var/spool/slurmctld\nSchedulerType=sched/backfill\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"
        "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
        f"NodeName=n[0-{nodes - 1}] CPUs=8 State=UNKNOWN\n"
        f"PartitionName=low Nodes=n[0-{nodes - 1}] Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n"
        f"PartitionName=high Nodes=n[0-{nodes - 1}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF\n"
    )
    with sacct.open("w") as table:
        print(
            "JobIDRaw|Partition|Submit|Eligible|ElapsedRaw|State|NNodes|NCPUS|TimelimitRaw|QOS|AllocTRES|ReqMem",
            file=table,
        )
        drawn = jobs_of_a_week(jobs, nodes, load, 7 * _DAY_NS)
        for number, job in enumerate(sorted(drawn, key=lambda each: each.submit_ns), start=1001):
            at, cpus = _time(job.submit_ns), job.nodes * job.cpus
            limit = (job.limit_ns or 0) // MINUTE_NS
            work = f"{job.length_ns // 10**9}|COMPLETED|{job.nodes}|{cpus}|{limit}|normal"
            print(f"{number}|{job.partition}|{at}|{at}|{work}|billing={cpus},cpu={cpus},node={job.nodes}|0", file=table)
    return [conf, sacct]


# ---- Kubernetes ----


def write_kubernetes(folder: Path, nodes: int = 200, pods: int = 2000) -> tuple[Path, str]:
    """What ``kubectl get -o json`` prints of nodes and pods at the end of a day, at which most run and some wait; and
    the name of one that waits, of the highest priority."""
    path, machines = folder / "cluster.json", [f"node-{number}" for number in range(nodes)]
    drawn = sorted(pods_of_a_day(nodes, 3.0, 0.05, pods), key=lambda each: each.submit_ns)
    free = {name: {"cpu": 16_000, "memory": 64 << 30} for name in machines}
    items, waiting = [_node(number, name) for number, name in enumerate(machines)], list[Pod]()
    items += (_priority_class(value) for value in (0, 100, 1000))
    for number, each in enumerate(drawn):
        ends = each.submit_ns + (each.duration_ns or 0) <= _DAY_NS
        where = machines[number % nodes] if ends else _first_fit(free, each.pod)
        if where is None:
            waiting.append(each.pod)
        items.append(_pod(number, each, where, ends))
    with path.open("w") as file:
        json.dump(
            {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}, file, indent=4
        )
    return path, max(waiting, key=lambda each: each.priority).name


def _first_fit(free: dict[str, dict[str, int]], pod: Pod) -> str | None:
    """The node that a pod is put on, with less room from then on; None: it waits."""
    for name, room in free.items():
        if all(room[resource] >= amount for resource, amount in pod.requests.items()):
            for resource, amount in pod.requests.items():
                room[resource] -= amount
            return name
    return None


def _node(number: int, name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    has = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": _UID.format(number), "labels": labels, "creationTimestamp": f"{_time(0)}Z"},
        "spec": {"podCIDR": f"10.{number // 256}.{number % 256}.0/24"},
        "status": {"allocatable": has, "capacity": has, "nodeInfo": {"kubeletVersion": "v1.36.0"}},
    }


def _priority_class(value: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"class-{value}"}}
    return {**head, "value": value, "globalDefault": False}


def _pod(number: int, arrival: Arrival, node: str | None, ended: bool) -> dict[str, Any]:
    pod, created = arrival.pod, f"{_time(arrival.submit_ns)}Z"
    terms = [
        {"topologyKey": each.topology, "labelSelector": {"matchLabels": dict(each.selector.labels)}}
        for each in pod.anti_affinity
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    ends = {"terminated": {"exitCode": 0, "finishedAt": f"{_time(arrival.submit_ns + (arrival.duration_ns or 0))}Z"}}
    status = {
        "phase": "Succeeded" if ended else "Pending" if node is None else "Running",
        "qosClass": "Burstable",
        "conditions": [{"type": "PodScheduled", "status": str(node is not None), "lastTransitionTime": created}],
    }
    if node is not None:
        state = ends if ended else {"running": {"startedAt": created}}
        status |= {"startTime": created, "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": "work",
            "uid": _UID.format(number),
            "labels": dict(pod.labels),
            "creationTimestamp": created,
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number}", "controller": True, "uid": "0"}
            ],
        },
        "spec": {
            **({} if node is None else {"nodeName": node}),
            **({"affinity": affinity} if terms else {}),
            "containers": [_container(pod.requests)],
            "priority": pod.priority,
            "priorityClassName": f"class-{pod.priority}",
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420}}],
        },
        "status": status,
    }


def _container(requests: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "registry.example.org/work:1.0",
        "env": [{"name": f"VARIABLE_{number}", "value": "a value"} for number in range(5)],
        "resources": {"requests": {name: quantity(name, amount) for name, amount in requests.items()}},
        "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }


# ---- Kueue ----


def write_kueue(folder: Path, queues: int = 50, workloads: int = 2000) -> list[Path]:
    """Kueue's queues, and what ``kubectl get workloads -o yaml`` prints of a day's workloads that have ended."""
    of_queues, of_workloads = folder / "queues.yaml", folder / "workloads.yaml"
    of_queues.write_text(cluster_manifests(kueue_cluster(queues, fair=False)))
    items = [*_workloads(queues, workloads)]
    of_workloads.write_text(dump_yaml({"apiVersion": "v1", "kind": "List", "items": items}))
    return [of_queues, of_workloads]


def _workloads(queues: int, workloads: int) -> Iterator[dict[str, Any]]:
    for number, each in enumerate(workloads_of_a_day(queues, workloads, 0.9)):
        workload, (podset,) = each.workload, each.workload.podsets
        created_ns, length_ns = workload.created_ns, each.duration_ns or 0
        times_ns = {"QuotaReserved": created_ns, "Admitted": created_ns, "Finished": created_ns + length_ns}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": workload.name, "controller": True, "uid": "0"}
        yield {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": workload.name,
                "namespace": "natjam-loop",
                "uid": _UID.format(number),
                "creationTimestamp": f"{_time(created_ns)}Z",
                "ownerReferences": [owner],
            },
            "spec": {
                "active": True,
                "queueName": workload.queue,
                "priority": workload.priority,
                "podSets": [
                    {
                        "name": podset.name,
                        "count": podset.count,
                        "template": {
                            "metadata": {},
                            "spec": {"restartPolicy": "Never", "containers": [_container(podset.requests)]},
                        },
                    }
                ],
            },
            "status": {
                "conditions": [
                    {
                        "type": kind,
                        "status": "True",
                        "reason": kind,
                        "message": "",
                        "lastTransitionTime": f"{_time(ns)}Z",
                    }
                    for kind, ns in times_ns.items()
                ]
            },
        }


# ---- YARN ----

_CONTAINER_MB = 4096
_YARN = {
    "yarn.nodemanager.resource.memory-mb": 2 * _CONTAINER_MB,
    "yarn.scheduler.minimum-allocation-mb": _CONTAINER_MB,
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
}
_QUEUES = {
    "queues": "production,research",
    **{f"{name}.capacity": share for name, share in (("production", 25), ("research", 75))},
}
NODES_OF_YARN = 250


def write_yarn(folder: Path, applications: int = 300) -> dict[str, Path]:
    """``yarn-site.xml``, ``capacity-scheduler.xml``, and the ResourceManager's answer on a day's applications: each was
    held by half as many containers as it has tasks in the synthetic day."""
    paths = {"site": "yarn-site.xml", "scheduler": "capacity-scheduler.xml", "apps": "apps.json"}
    found = {option: folder / name for option, name in paths.items()}
    found["site"].write_text(_xml(_YARN))
    found["scheduler"].write_text(_xml({f"yarn.scheduler.capacity.root.{key}": of for key, of in _QUEUES.items()}))
    first_ms, answers = 1_794_000_000_000, list[dict[str, Any]]()
    for number, job in enumerate(day_jobs(applications / 15_000), start=1):
        lengths_ns, start_ms = (*job.map_ns, *job.reduce_ns), first_ms + job.submit_ns // 10**6
        took_s = 2 * sum(lengths_ns) // len(lengths_ns) // 10**9
        held_s = sum(lengths_ns) // 10**9 + took_s
        answers.append(
            {
                "id": f"application_{first_ms}_{number:04}",
                "user": "ann",
                "name": job.facts.name,
                "queue": f"root.{job.facts.queue}",
                "state": "FINISHED",
                "finalStatus": "SUCCEEDED",
                "startedTime": start_ms,
                "launchTime": start_ms,
                "finishedTime": start_ms + 1000 * took_s,
                "elapsedTime": 1000 * took_s,
                "allocatedMB": -1,
                "allocatedVCores": -1,
                "runningContainers": -1,
                "memorySeconds": _CONTAINER_MB * held_s,
                "vcoreSeconds": held_s,
                "priority": 0,
            }
        )
    found["apps"].write_text(json.dumps({"apps": {"app": answers}}))
    return found


def _xml(values: Mapping[str, object]) -> str:
    each = (f"  <property><name>{name}</name><value>{value}</value></property>\n" for name, value in values.items())
    return f"<configuration>\n{''.join(each)}</configuration>\n"
