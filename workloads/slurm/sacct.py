"""Jobs as ``sacct --parsable2 --duplicates`` prints them: one row for each time that a job was started.

A job's work is the elapsed time of its last row, in which sacct does not count the time that it was suspended.  Steps
(``12.batch``) are no jobs.  Jobs that never ran, or have not ended, have no known length and are left out, each with
its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from emulator.errors import ConfigError, printable
from emulator.sites.slurm import FOREVER_NS, MINUTE_NS, SECOND_NS, TURNS, Cluster, Job, turn_takers
from emulator.vocabulary import Frozen
from workloads.saved import check_saved_jobs
from workloads.setting_effects import Effect, Loss, settings_of
from workloads.slurm.conf import ReadConf
from workloads.slurm.lines import Where, read_table, time_ns, whole

COMMAND = (
    "sacct --allusers --duplicates --parsable2 --units=K "
    "--format=JobIDRaw,Partition,Submit,Eligible,ElapsedRaw,State,NNodes,NCPUS,TimelimitRaw,QOS,AllocTRES,ReqMem,"
    "Constraints,Reservation,Licenses"
)
"""Prints what is read here."""
NEEDED = ("JobIDRaw", "Partition", "Submit", "ElapsedRaw", "State", "NNodes", "NCPUS")
_RAN_TO_ITS_END = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED")
_BROKEN = "its row has more or fewer values than there are columns"
_UNREADABLE = "a value of its row cannot be read"
_SACCT = "sacct"
_AS_JOB = (Effect.LEFT_OUT, "jobs")


class ReadJobs(Frozen):
    """The jobs of a table, and what was not taken from it."""

    jobs: tuple[Job, ...] = ()
    """From the first submission on."""
    losses: tuple[Loss, ...] = ()
    total: int = 0
    """How many jobs the table has; a row that cannot be read counts as one."""
    work_s: float = 0.0
    """The work of all of them, in seconds of CPUs, as far as it is known."""


def read_sacct(path: Path, conf: ReadConf) -> ReadJobs:
    """The jobs of a table.

    Raises:
        ConfigError: it cannot be read, a column is missing, it has more jobs than an imported file can, or the values
            of no row can be read.
    """
    cluster, broken = conf.cluster, list[tuple[Where, dict[str, str]]]()
    first: dict[str, tuple[Where, dict[str, str]]] = {}
    last: dict[str, tuple[Where, dict[str, str]]] = {}
    for where, row in read_table(path, (*NEEDED, "QOS") if cluster.qos else NEEDED, COMMAND, broken):
        if "." not in row["JobIDRaw"]:
            first.setdefault(row["JobIDRaw"], (where, row))
            last[row["JobIDRaw"]] = where, row
    check_saved_jobs(path, len(last))
    losses = [*_broken_rows(broken)]
    submits, unreadable = _submits(first)
    begin = min(submits.values(), default=datetime.min)
    columns = _DecidingColumns([*last.values()], conf.counts_memory)
    jobs: dict[str, Job] = {}
    why_not, fits = _WhyNot(cluster), cluster.fitting()
    for name, (where, row) in last.items():
        if name in unreadable:
            continue
        if why := why_not(row):
            losses.append(Loss(_named(name), str(where), why, *_AS_JOB, work=_work_s(row)))
            continue
        try:
            submit_ns = round((submits[name] - begin).total_seconds()) * SECOND_NS
            job = _job(where, row, submit_ns, bool(cluster.qos))
        except ConfigError as error:
            unreadable[name] = error
            continue
        if not fits(job):
            why = "it has more nodes, or more CPUs on each, than its partition"
            losses.append(Loss(_named(name), str(where), why, *_AS_JOB, work=_work_s(row)))
            continue
        jobs[name] = job
        losses += columns.losses(where, name, row, first[name])
    if unreadable and len(unreadable) == len(last):
        raise next(iter(unreadable.values()))
    losses += [
        Loss(_named(name), str(last[name][0]), _UNREADABLE, *_AS_JOB, work=_work_s(last[name][1]))
        for name in unreadable
    ]
    losses += _turns(cluster, jobs.values(), last)
    in_order = tuple(sorted(jobs.values(), key=lambda each: (each.submit_ns, each.name)))
    work_s = sum(_work_s(row) for _, row in last.values())
    total = len(last) + sum(each.why == _BROKEN for each in losses)
    return ReadJobs(in_order, tuple(losses), total, work_s)


def _broken_rows(broken: Sequence[tuple[Where, Mapping[str, str]]]) -> Iterator[Loss]:
    """Rows with more or fewer values than columns, without those of steps, which are no jobs."""
    for where, row in broken:
        name = row.get("JobIDRaw", "")
        if "." not in name:
            yield Loss(f"the row of {_named(name)}", str(where), _BROKEN, *_AS_JOB)


def _named(job: str) -> str:
    return f"job {printable(job[:40])}"


def _submits(
    rows: Mapping[str, tuple[Where, Mapping[str, str]]],
) -> tuple[dict[str, datetime], dict[str, ConfigError]]:
    """When each job was submitted, and why this cannot be read of others."""
    submits: dict[str, datetime] = {}
    unreadable: dict[str, ConfigError] = {}
    for name, (where, row) in rows.items():
        try:
            submits[name] = _time(where, "Submit", row["Submit"])
        except ConfigError as error:
            unreadable[name] = error
    return submits, unreadable


def _time(where: Where, column: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise where.error(column, f"'{printable(text[:40])}' is not a time such as 2026-11-24T10:00:00") from None


class _WhyNot:
    """Why a row gives no job; blank: it gives one."""

    def __init__(self, cluster: Cluster) -> None:
        self._partitions = {each.name for each in cluster.partitions}
        self._qos = {each.name for each in cluster.qos}

    def __call__(self, row: Mapping[str, str]) -> str:
        """The reason of a row."""
        state = row["State"].split(" ")[0]
        if row["Partition"] not in self._partitions:
            return f"there is no partition '{printable(row['Partition'][:40])}' in slurm.conf"
        if self._qos and row["QOS"] not in self._qos:
            return f"there is no QOS '{printable(row['QOS'][:40])}' in the table of QOS"
        if state == "PREEMPTED":
            return "it was preempted for good (PREEMPTED): how long it would have worked is not known"
        if state not in _RAN_TO_ITS_END:
            return f"how long it works is not known: it is {printable(state[:20])}"
        if row["ElapsedRaw"] == "0" or row["NNodes"] == "0":
            return "it never ran"
        return ""


def _shape(row: Mapping[str, str]) -> tuple[int, int]:
    """Nodes, and CPUs on each."""
    nodes = max(1, _count(row["NNodes"], 1))
    return nodes, max(1, -(-_count(row["NCPUS"], 1) // nodes))


def _count(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else default


def _work_s(row: Mapping[str, str]) -> float:
    """Seconds of CPUs that a job had; 0: they are not known."""
    return float(_count(row["ElapsedRaw"], 0) * _count(row["NCPUS"], 0))


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


# ---- what decides about jobs, and is not modelled ----

_TRES = ("AllocTRES", "ReqTRES")
"""Columns with amounts of all kinds; GRES and licences are what is not modelled."""
_NONE = ("", "None", "Unknown", "(null)")


class _DecidingColumns:
    """The columns of a table that decide and are not modelled."""

    def __init__(self, rows: Sequence[tuple[Where, Mapping[str, str]]], counts_memory: bool) -> None:
        self._table = settings_of("slurm")
        self._columns: list[str] = []
        for column in rows[0][1] if rows else ():
            setting = self._table.find(_SACCT, column)
            is_lost = setting is None or setting.effect is Effect.DECIDES
            if column and is_lost and (column != "ReqMem" or counts_memory):
                self._columns.append(column)

    def losses(
        self, where: Where, job: str, row: Mapping[str, str], first: tuple[Where, Mapping[str, str]]
    ) -> Iterator[Loss]:
        """What is lost of a job, whose ``first`` row says since when it could start."""
        for column in self._columns:
            if column == "Eligible":
                value = _delayed(*first)
            elif column in _TRES:
                value = ",".join(part for part in row[column].split(",") if part.startswith("gres/"))
            else:
                value = row[column]
            if value in _NONE:
                continue
            what = f"{column}={printable(value[:60])} of {_named(job)}"
            loss = self._table.loss(_SACCT, column, value, str(where), what=what, kind="jobs", has_it=job)
            if loss is not None:
                yield loss


def _delayed(where: Where, row: Mapping[str, str]) -> str:
    """When a job could start, if that was not at once; else blank."""
    eligible = row["Eligible"]
    try:
        is_later = eligible not in _NONE and _time(where, "Eligible", eligible) > _time(where, "Submit", row["Submit"])
    except ConfigError:
        return ""
    return eligible if is_later else ""


def _turns(
    cluster: Cluster, jobs: Iterable[Job], rows: Mapping[str, tuple[Where, Mapping[str, str]]]
) -> Iterator[Loss]:
    """Jobs that would take turns with others."""
    for job in turn_takers(cluster, jobs):
        what = f"QOS {printable(job.qos[:40])} of {_named(job.name)}"
        yield Loss(what, str(rows[job.name][0]), TURNS, Effect.DECIDES, "jobs", job.name)
