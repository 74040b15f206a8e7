"""Each setting of Slurm that counts as modelled is read: with another value, or without it, another site comes of the
files.

What each then decides is in ``test_slurm_import.py``, ``test_slurm_limits.py`` and ``test_slurm_priority.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ConfigError
from workloads.setting_effects import Effect, settings_of
from workloads.slurm.sacct import read_slurm

CONF, NODE, PARTITION, NODE_SET = "slurm.conf", "slurm.conf NodeName", "slurm.conf PartitionName", "slurm.conf NodeSet"
SELECT, SCHEDULER = "slurm.conf SelectTypeParameters", "slurm.conf SchedulerParameters"
PREEMPT, QOS, ASSOCIATION, SACCT = "slurm.conf PreemptParameters", "QOS", "association", "sacct"
OPTIONS_OF = {SELECT: "SelectTypeParameters", SCHEDULER: "SchedulerParameters", PREEMPT: "PreemptParameters"}
Rows = dict[str, dict[str, str]]
"""A site's files: of each list the keys of one line, of the QOS and associations of one row."""
SITE: Rows = {
    CONF: {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageEnforce": "limits",
        "ClusterName": "c",
        "PreemptMode": "REQUEUE",
        "PreemptType": "preempt/partition_prio",
        "PriorityWeightFairshare": "1",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
    },
    NODE: {"NodeName": "n[1-2]", "Sockets": "2", "CoresPerSocket": "8", "ThreadsPerCore": "2", "RealMemory": "9000"},
    NODE_SET: {"NodeSet": "some", "Nodes": "n1", "Feature": "fast"},
    PARTITION: {"PartitionName": "p", "Nodes": "some"},
    QOS: {"Name": "q", "Preempt": ""},
    ASSOCIATION: {"Account": "a", "User": "", "Share": "1"},
    SACCT: {
        "JobIDRaw": "5",
        "JobID": "5",
        "Partition": "p",
        "QOS": "q",
        "User": "u",
        "Account": "a",
        "Submit": "2026-11-02T10:00:00",
        "ElapsedRaw": "600",
        "State": "COMPLETED",
        "NNodes": "1",
        "NCPUS": "5",
        "TimelimitRaw": "60",
    },
}
Change = str | None | tuple[str | None, Mapping[tuple[str, str], str | None]]
"""Another value, None for no such key; with what the files have then before and after."""
NO_ASSOCIATIONS = {(ASSOCIATION, "Account"): None}
BY_QOS = {(CONF, "PreemptType"): "preempt/qos"}
BY_CPUS = {(CONF, "SelectTypeParameters"): "CR_CPU"}
BY_CORES = {(CONF, "SelectTypeParameters"): "CR_Core"}
NO_SOCKETS = {(NODE, "Sockets"): None}
CHANGES: dict[str, dict[str, Change]] = {
    CONF: {
        "AccountingStorageEnforce": "associations",
        "AuthInfo": "cred_expire=7",
        "DefMemPerCPU": "100",
        "DefMemPerNode": "100",
        "FairShareDampeningFactor": "3",
        "PriorityCalcPeriod": "1",
        "PriorityDecayHalfLife": "1",
        "PriorityMaxAge": "1",
        "PriorityFavorSmall": "YES",
        "PriorityType": "priority/basic",
        "PriorityWeightAge": "5",
        "PriorityWeightAssoc": "5",
        "PriorityWeightFairshare": "5",
        "PriorityWeightJobSize": "5",
        "PriorityWeightPartition": "5",
        "PriorityWeightTRES": "CPU=5",
        "PriorityWeightQOS": "5",
        "PreemptMode": "CANCEL",
        "PreemptParameters": "youngest_first",
        "SchedulerParameters": "bf_interval=7",
        "SelectTypeParameters": "CR_CPU",
        "PreemptType": "preempt/qos",
        "PreemptExemptTime": "5",
        "SchedulerTimeSlice": "7",
        "SchedulerType": "sched/builtin",
    },
    SELECT: {
        "CR_CPU": ("set", BY_CORES),
        "CR_CPU_Memory": ("set", BY_CPUS),
        "CR_Core": "set",
        "CR_Memory": ("set", BY_CORES),
        "CR_Socket": ("set", BY_CPUS),
        "CR_Core_Memory": ("set", BY_CPUS),
        "CR_Socket_Memory": ("set", BY_CPUS),
    },
    PREEMPT: {"reorder_count": "7", "strict_order": "set", "youngest_first": "set"},
    SCHEDULER: {
        "preempt_reorder_count": "7",
        "preempt_strict_order": "set",
        "preempt_youngest_first": "set",
        "batch_sched_delay": "7",
        "bf_interval": "7",
        "bf_max_job_test": "7",
        "bf_resolution": "7",
        "bf_window": "7",
        "bf_window_linear": "7",
        "default_queue_depth": "7",
        "sched_interval": "7",
        "sched_min_interval": "7",
        "assoc_limit_stop": "set",
    },
    NODE: {
        "NodeName": "n[1-3]",
        "Boards": ("3", NO_SOCKETS | {(NODE, "SocketsPerBoard"): "2"}),
        "CoresPerSocket": "9",
        "CPUs": ("64", NO_SOCKETS),
        "Procs": ("64", NO_SOCKETS),
        "Sockets": "7",
        "SocketsPerBoard": ("7", NO_SOCKETS),
        "ThreadsPerCore": "3",
        "Feature": "fast",
        "Features": "fast",
        "Gres": "gpu:2",
        "RealMemory": "7000",
        "MemSpecLimit": "100",
        "Weight": "7",
    },
    NODE_SET: {"NodeSet": "others", "Nodes": "n2", "Feature": ("new", {(NODE, "Feature"): "fast"})},
    PARTITION: {
        "DefaultTime": "7",
        "GraceTime": "7",
        "MaxTime": "7",
        "Nodes": "n2",
        "PartitionName": "other",
        "Priority": "7",
        "PriorityTier": "7",
        "PreemptMode": "CANCEL",
        "MaxNodes": "7",
        "OverSubscribe": "FORCE:7",
        "Shared": "FORCE:7",
        "DefMemPerCPU": "100",
        "DefMemPerNode": "100",
        "PriorityJobFactor": "7",
        "QOS": "q",
        "SelectTypeParameters": "CR_Socket_Memory",
        "TRESBillingWeights": "CPU=7",
    },
    QOS: {
        "Name": "r",
        "Preempt": ("low", BY_QOS),
        "GraceTime": ("7", BY_QOS),
        "PreemptExemptTime": ("7", BY_QOS),
        "PreemptMode": ("cancel", BY_QOS),
        "Priority": "7",
        "UsageFactor": "7",
        **dict.fromkeys(("GrpCPUs", "GrpNodes", "MaxCpusPerUser", "MaxJobs", "MaxNodesPerUser", "GrpJobs"), "7"),
        **dict.fromkeys(("MaxJobsPA", "MaxJobsPerAccount", "MaxJobsPerUser", "MaxJobsPU"), "7"),
        **dict.fromkeys(
            ("GrpTRESRunMins", "GrpTRES", "MaxTRESPA", "MaxTRESPerAccount", "MaxTRESPerUser", "MaxTRESPU"), "cpu=7"
        ),
        **dict.fromkeys(("MaxTRES", "MaxTRESPerJob", "MaxTRESPJ"), "cpu=7"),
        **dict.fromkeys(("MaxWall", "MaxWallDurationPerJob"), "7"),
    },
    ASSOCIATION: {
        "Account": "b",
        "User": "u",
        "ParentName": "b",
        "Fairshare": ("7", {(ASSOCIATION, "Share"): None}),
        "Share": "7",
        "Priority": "7",
        "Cluster": "elsewhere",
        **dict.fromkeys(("GrpJobs", "GrpCPUs", "GrpNodes", "MaxJobs", "MaxCPUs", "MaxNodes"), "7"),
        **dict.fromkeys(("GrpTRESRunMins", "GrpTRES", "MaxTRES", "MaxTRESPerJob"), "cpu=7"),
        **dict.fromkeys(("GrpCPURunMins", "MaxWall", "MaxWallDurationPerJob"), "7"),
    },
    SACCT: {
        "ElapsedRaw": "7",
        "JobIDRaw": "7",
        "NCPUS": "7",
        "NNodes": ("2", {(PARTITION, "Nodes"): "ALL"}),
        "Partition": "gone",
        "QOS": "r",
        "State": "PENDING",
        "Submit": "2026-11-02T09:00:00",
        "TimelimitRaw": "7",
        "Eligible": "2026-11-02T11:00:00",
        "AllocTRES": "mem=7M",
        "ReqTRES": "mem=7M",
        "AllocGRES": ("gpu:1", {(NODE, "Gres"): "gpu:2"}),
        "ReqGRES": ("gpu:1", {(NODE, "Gres"): "gpu:2"}),
        "ReqMem": "7M",
        "Constraints": ("fast", {(NODE, "Feature"): "fast"}),
        "Exclusive": "NODE",
        "Priority": ("7", NO_ASSOCIATIONS),
        "Account": "b",
        "JobID": "4_[1-9%2]",
        "User": "v",
        "Start": ("2026-11-02T09:55:00", {(SACCT, "Start"): "2026-11-02T10:00:00"}),
    },
}
EXCEPTIONS = {(CONF, "SlurmctldParameters"): "none of its options is modelled; each has a row of its own"}
MODELLED = [(each.of, each.key) for each in settings_of("slurm").settings if each.effect is Effect.MODELLED]


def line(pairs: Mapping[str, str], *first: str) -> str:
    """Pairs of a ``slurm.conf``, those of ``first`` before the others."""
    return " ".join(f"{key}={pairs[key]}" for key in sorted(pairs, key=lambda key: (key not in first, key)))


def table(*rows: Mapping[str, str]) -> str:
    return "\n".join("|".join(row) for row in (rows[0].keys(), *(each.values() for each in rows)))


def read(files: Rows, folder: Path) -> tuple[Any, ...]:
    """What decides: the cluster and the jobs; or why the files are refused."""
    files = deepcopy(files)
    for of, key in OPTIONS_OF.items():
        for option, value in files.pop(of, {}).items():
            name = option if value == "set" else f"{option}={value}"
            before = files[CONF].get(key)
            files[CONF][key] = f"{before},{name}" if before and of != SELECT else name
    lines = [*(f"{key}={value}" for key, value in files[CONF].items())]
    lines += [line(files[of], key) for of, key in ((NODE, "NodeName"), (NODE_SET, "NodeSet"))]
    lines += [line(files[PARTITION], "PartitionName")]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    row, *others = files[QOS], {**dict.fromkeys(files[QOS], ""), "Name": "low"}
    (folder / "qos.txt").write_text(table(row, *others))
    job = files[SACCT]
    (folder / "jobs.txt").write_text(
        table(job, {**job, "JobIDRaw": "6", "JobID": "6", "Submit": SITE[SACCT]["Submit"]})
    )
    associations = folder / "assoc.txt" if files[ASSOCIATION].get("Account") else None
    if associations:
        associations.write_text(table(files[ASSOCIATION]))
    since = datetime(2026, 11, 2, 10, 5) if "Start" in files[SACCT] else None
    try:
        site, _ = read_slurm(folder / "slurm.conf", folder / "jobs.txt", folder / "qos.txt", associations, since)
    except ConfigError as error:
        return (type(error), error.message.partition(": ")[2])
    return site.cluster, site.jobs


def changed(files: Rows, changes: Mapping[tuple[str, str], str | None]) -> Rows:
    files = deepcopy(files)
    for (of, key), value in changes.items():
        files.setdefault(of, {}).pop(key, None)
        if value is not None:
            files[of][key] = value
    return files


def test_each_modelled_setting_has_a_change_or_a_reason_why_not() -> None:
    tried = {(of, key) for of, keys in CHANGES.items() for key in keys}
    assert tried.isdisjoint(EXCEPTIONS)
    assert tried | EXCEPTIONS.keys() == {*MODELLED}


@pytest.mark.parametrize(("of", "key"), [each for each in MODELLED if each not in EXCEPTIONS])
def test_a_setting_that_is_modelled_is_read(of: str, key: str, tmp_path: Path) -> None:
    change = CHANGES[of][key]
    value, others = change if isinstance(change, tuple) else (change, {})
    before = changed(SITE, others)
    found = read(before, tmp_path)
    assert found[0] is not ConfigError, found
    assert read(changed(before, {(of, key): value}), tmp_path) != found
