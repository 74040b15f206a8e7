"""Jobs as ``sacct --parsable2 --duplicates`` prints them: one row for each time that a job was started.

A job's work is the elapsed time of its last row, in which sacct does not count the time that it was suspended
(``_cluster_get_jobs`` in Slurm's as_mysql_jobacct_process.c).  Steps (``12.batch``) are left out.  Jobs that never ran,
or have not ended, have no known length and are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from emulator.errors import printable
from emulator.sites.slurm import FOREVER_NS, MINUTE_NS, SECOND_NS, Cluster, Job
from workloads.setting_effects import Loss
from workloads.slurm.lines import Where, read_table, time_ns, whole

COMMAND = (
    "sacct --allusers --duplicates --parsable2 --units=K "
    "--format=JobIDRaw,Partition,Submit,ElapsedRaw,State,NNodes,NCPUS,TimelimitRaw,QOS"
)
"""Prints what is read here."""
NEEDED = ("JobIDRaw", "Partition", "Submit", "ElapsedRaw", "State", "NNodes", "NCPUS")
_RAN_TO_ITS_END = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED")


def read_sacct(path: Path, cluster: Cluster) -> tuple[tuple[Job, ...], list[Loss]]:
    """The jobs of a table, from the first submission on, and what was left out.

    Raises:
        ConfigError: it cannot be read, a column is missing, or a value is none.
    """
    rows: dict[str, tuple[Where, dict[str, str]]] = {}
    first_submits: dict[str, datetime] = {}
    needed = (*NEEDED, "QOS") if cluster.qos else NEEDED
    for where, row in read_table(path, needed, COMMAND):
        name = row["JobIDRaw"]
        if "." in name:
            continue
        rows[name] = where, row
        first_submits.setdefault(name, _submit(where, row["Submit"]))
    partitions = {each.name for each in cluster.partitions}
    jobs: list[Job] = []
    left_out: list[Loss] = []
    begin = min(first_submits.values(), default=datetime.min)
    for name, (where, row) in rows.items():
        why = _why_not(row, partitions, cluster)
        if why:
            left_out.append(Loss(f"job {printable(name[:40])}", str(where), why))
            continue
        submit_ns = round((first_submits[name] - begin).total_seconds()) * SECOND_NS
        jobs.append(_job(where, row, submit_ns, bool(cluster.qos)))
    return tuple(sorted(jobs, key=lambda each: (each.submit_ns, each.name))), left_out


def _submit(where: Where, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise where.error("Submit", f"'{printable(text[:40])}' is not a time such as 2026-11-24T10:00:00") from None


def _why_not(row: Mapping[str, str], partitions: set[str], cluster: Cluster) -> str:
    state = row["State"].split(" ")[0]
    if row["Partition"] not in partitions:
        return f"there is no partition '{printable(row['Partition'][:40])}' in slurm.conf"
    if cluster.qos and row["QOS"] not in {each.name for each in cluster.qos}:
        return f"there is no QOS '{printable(row['QOS'][:40])}' in the table of QOS"
    if state not in _RAN_TO_ITS_END:
        return f"how long it works is not known: it is {printable(state[:20])}"
    if row["ElapsedRaw"] == "0" or row["NNodes"] == "0":
        return "it never ran"
    nodes, cpus = _shape(row)
    if not cluster.can_hold(row["Partition"], nodes, cpus):
        return f"{nodes} nodes with {cpus} CPUs each are not in its partition"
    return ""


def _shape(row: Mapping[str, str]) -> tuple[int, int]:
    """Nodes, and CPUs on each."""
    digits = [int(row[column]) if re.fullmatch(r"\d{1,9}", row[column]) else 1 for column in ("NNodes", "NCPUS")]
    nodes = max(1, digits[0])
    return nodes, max(1, -(-digits[1] // nodes))


def _job(where: Where, row: Mapping[str, str], submit_ns: int, has_qos: bool) -> Job:
    elapsed_ns = whole(where, "ElapsedRaw", row["ElapsedRaw"]) * SECOND_NS
    for column in ("NNodes", "NCPUS"):
        whole(where, column, row[column])
    nodes, cpus = _shape(row)
    limit, limit_ns = row.get("TimelimitRaw", ""), None
    if limit and limit != "Partition_Limit":
        limit_ns = time_ns(where, "TimelimitRaw", limit, MINUTE_NS) or FOREVER_NS
    return Job(
        row["JobIDRaw"],
        row["Partition"],
        nodes,
        cpus,
        elapsed_ns,
        submit_ns,
        limit_ns,
        qos=row.get("QOS", "") if has_qos else "",
    )
