"""Jobs as ``sacct --parsable2 --duplicates`` prints them: one row for each time that a job was started.

A job's work is the elapsed time of its last row, in which sacct does not count the time that it was suspended.  Steps
(``12.batch``) are no jobs.  Of a job that was cut (it runs, was preempted for good, or its node failed) only a part of
its work is known: it works until its time limit here, which is said.  Jobs that never ran are left out, and those cut
ones that have no limit, each with its reason.  ``read_slurm`` is the whole site, with its ``slurm.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.sites.slurm import FOREVER_NS, MINUTE_NS, SECOND_NS, TURNS, Cluster, Job, Slurm, turn_takers
from emulator.vocabulary import Frozen
from workloads.saved import check_saved_jobs
from workloads.setting_effects import Effect, Loss, basis_of, settings_of
from workloads.slurm.conf import ReadConf, Usual, read_conf
from workloads.slurm.lines import UNLIMITED, Where, read_table, time_ns, whole
from workloads.slurm.tres import gres, memory_mb, tres

COMMAND = (
    "sacct --allusers --duplicates --parsable2 --units=K "
    "--format=JobIDRaw,JobID,Partition,Submit,Eligible,Start,ElapsedRaw,State,NNodes,NCPUS,TimelimitRaw,QOS,User,Account,"
    "Priority,AllocTRES,ReqMem,Constraints,Reservation,Licenses"
)
"""Prints what is read here."""
NEEDED = ("JobIDRaw", "Partition", "Submit", "ElapsedRaw", "State", "NNodes", "NCPUS")
_RAN_TO_ITS_END = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "DEADLINE")
_CUT = ("RUNNING", "SUSPENDED", "PREEMPTED", "REQUEUED", "NODE_FAIL")
_LONGER = "how long a job works that was cut, or has not ended, is not known: here it is until its time limit"
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


def read_slurm(
    conf: Path,
    sacct: Path | None = None,
    qos: Path | None = None,
    associations: Path | None = None,
    since: datetime | None = None,
) -> tuple[Slurm, tuple[Loss, ...]]:
    """The site that these files describe, and what was not taken from them; ``since``: see ``read_sacct``.

    Raises:
        ConfigError: a file cannot be read, or Slurm refuses what it says.
    """
    found = read_conf(conf, qos, associations)
    read = ReadJobs() if sacct is None else read_sacct(sacct, found, since)
    losses = (*found.losses, *read.losses)
    basis = basis_of(losses, {"jobs": read.total}, read.work_s)
    return Slurm(found.cluster, read.jobs, basis), losses


def read_sacct(path: Path, conf: ReadConf, since: datetime | None = None) -> ReadJobs:
    """The jobs of a table; ``since``: those that had not ended by then, with what was left of them.

    Raises:
        ConfigError: it cannot be read, a column is missing, it has more jobs than an imported file can, or the values
            of no row can be read.
    """
    cluster, broken = conf.cluster, list[tuple[Where, dict[str, str]]]()
    first: dict[str, tuple[Where, dict[str, str]]] = {}
    last: dict[str, tuple[Where, dict[str, str]]] = {}
    throttles: dict[str, int] = {}
    needed = (*NEEDED, *(("QOS",) if cluster.by_qos else ()), *(("Start",) if since else ()))
    for where, row in read_table(path, needed, COMMAND, broken):
        throttles |= _throttle(row.get("JobID", ""))
        if "." not in row["JobIDRaw"]:
            first.setdefault(row["JobIDRaw"], (where, row))
            last[row["JobIDRaw"]] = where, row
    if since is not None:
        last = {name: of for name, of in last.items() if _ran_ns(of[1], since) < _work_ns(of[1])}
        first = {name: first[name] for name in last}
    check_saved_jobs(path, len(last))
    losses = [*_broken_rows(broken)]
    submits, unreadable = _submits(first)
    begin = since or min(submits.values(), default=datetime.min)
    running = {name: ran_ns for name, (_, row) in last.items() if since and (ran_ns := _ran_ns(row, since)) > 0}
    columns = _DecidingColumns([*last.values()])
    jobs: dict[str, Job] = {}
    reader, fits = _JobReader(conf, throttles), cluster.fitting()
    for name, (where, row) in last.items():
        if name in unreadable:
            continue
        if why := reader.why_no_job(row):
            losses.append(Loss(_named(name), str(where), why, *_AS_JOB, work=_work_s(row)))
            continue
        try:
            job = _left(reader.job(where, row, first[name], begin), running.get(name, 0), cluster)
        except ConfigError as error:
            unreadable[name] = error
            continue
        if not fits(job):
            why = "it has more nodes, or more of a resource on each, than its partition"
            losses.append(Loss(_named(name), str(where), why, *_AS_JOB, work=_work_s(row)))
            continue
        jobs[name] = job
        if _state(row) in _CUT:
            losses.append(
                Loss(f"State={_state(row)} of {_named(name)}", str(where), _LONGER, Effect.DECIDES, "jobs", name)
            )
        losses += columns.losses(where, name, row)
    if unreadable and len(unreadable) == len(last):
        raise next(iter(unreadable.values()))
    losses += [
        Loss(_named(name), str(last[name][0]), _UNREADABLE, *_AS_JOB, work=_work_s(last[name][1]))
        for name in unreadable
    ]
    losses += _turns(cluster, jobs.values(), last)
    losses += _missing(path, conf, next(iter(last.values()), (None, {}))[1])
    order = {name: (job.submit_ns, name not in running, len(name), name) for name, job in jobs.items()}
    in_order = tuple(jobs[name] for name in sorted(jobs, key=order.__getitem__))
    work_s = sum(_work_s(row) for _, row in last.values())
    total = len(last) + sum(each.why == _BROKEN for each in losses)
    return ReadJobs(in_order, tuple(losses), total, work_s)


def _ran_ns(row: Mapping[str, str], since: datetime) -> int:
    """How long a job had run by then, as far as its row says; less than nothing: it began later."""
    try:
        return round((since - datetime.fromisoformat(row["Start"]).replace(tzinfo=None)).total_seconds()) * SECOND_NS
    except ValueError:
        return -1


def _work_ns(row: Mapping[str, str]) -> int:
    return FOREVER_NS if _state(row) in _CUT else _count(row["ElapsedRaw"], 0) * SECOND_NS


def _left(job: Job, ran_ns: int, cluster: Cluster) -> Job:
    """What is left of a job that has run so long: it is there from the beginning on."""
    if not ran_ns:
        return job
    limit_ns = job.limit_ns or cluster.partition(job.partition).limit_ns
    left_ns = None if limit_ns is None else max(SECOND_NS, limit_ns - ran_ns)
    length_ns = max(SECOND_NS, job.length_ns - ran_ns)
    return replace(job, length_ns=length_ns, limit_ns=left_ns, submit_ns=0, eligible_ns=0)


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


def _state(row: Mapping[str, str]) -> str:
    return row["State"].split(" ")[0]


def _has_own(limit: str) -> bool:
    """Whether a job names a time limit."""
    return limit not in ("", "Partition_Limit")


def _shape(row: Mapping[str, str]) -> tuple[int, int]:
    """Nodes, and CPUs on each."""
    nodes = max(1, _count(row["NNodes"], 1))
    return nodes, max(1, -(-_count(row["NCPUS"], 1) // nodes))


def _count(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else default


def _work_s(row: Mapping[str, str]) -> float:
    """Seconds of CPUs that a job had; 0: they are not known."""
    return float(_count(row["ElapsedRaw"], 0) * _count(row["NCPUS"], 0))


class _JobReader:
    """Makes jobs of rows."""

    def __init__(self, conf: ReadConf, throttles: Mapping[str, int]) -> None:
        self._conf, self._cluster, self._throttles = conf, conf.cluster, throttles
        self._gres = {name for node in self._cluster.nodes.values() for name in node.gres}
        self._partitions = {each.name: each for each in self._cluster.partitions}
        self._qos = {each.name for each in self._cluster.qos} if self._cluster.by_qos else set[str]()
        weights = self._cluster.settings.weights
        goes_by = weights is not None and (weights.fair_share or weights.assoc)
        self._takes_priority = bool(goes_by) and not self._cluster.associations

    def why_no_job(self, row: Mapping[str, str]) -> str:
        """Why a row gives no job; blank: it gives one."""
        state, partition = _state(row), row["Partition"]
        if partition not in self._partitions:
            return f"there is no partition '{printable(partition[:40])}' in slurm.conf"
        if self._qos and row["QOS"] not in self._qos:
            return f"there is no QOS '{printable(row['QOS'][:40])}' in the table of QOS"
        if state not in (*_RAN_TO_ITS_END, *_CUT):
            return f"how long it works is not known: it is {printable(state[:20])}"
        if row["ElapsedRaw"] == "0" or row["NNodes"] == "0":
            return "it never ran"
        limit, usual_ns = row.get("TimelimitRaw", ""), self._partitions[partition].limit_ns
        has_limit = limit.upper() not in UNLIMITED if _has_own(limit) else usual_ns is not None
        if state in _CUT and not has_limit:
            return f"how long it works is not known: it is {state}, and has no time limit"
        return ""

    def job(self, where: Where, row: Mapping[str, str], first: tuple[Where, Mapping[str, str]], begin: datetime) -> Job:
        """The job of a row; the ``first`` of its rows says when it was submitted, and could start.

        Raises:
            ConfigError: a value is none.
        """
        for column in ("NNodes", "NCPUS"):
            whole(where, column, row[column])
        nodes, cpus = _shape(row)
        name, partition = row["Partition"], self._partitions[row["Partition"]]
        limit, limit_ns = row.get("TimelimitRaw", ""), None
        if _has_own(limit):
            limit_ns = time_ns(where, "TimelimitRaw", limit, MINUTE_NS) or FOREVER_NS
        length_ns = whole(where, "ElapsedRaw", row["ElapsedRaw"]) * SECOND_NS
        if _state(row) in _CUT:
            length_ns = max(length_ns, limit_ns or partition.limit_ns or 0)
        usual = self._conf.usual[name]
        cpus = -(-cpus // usual.cpus_at_once) * usual.cpus_at_once
        shares = row.get("OverSubscribe", row.get("Exclusive", "")).upper() not in ("NO", "NODE", "EXCLUSIVE")
        array = row.get("JobID", "").partition("_")[0] if "_" in row.get("JobID", "") else ""
        priority = row.get("Priority", "")
        submit_ns, eligible_ns = (_since_ns(begin, *first, column) for column in ("Submit", "Eligible"))
        return Job(
            row["JobIDRaw"],
            name,
            nodes,
            cpus,
            length_ns,
            submit_ns,
            limit_ns,
            int(priority) if self._takes_priority and priority.isdecimal() else 0,
            row.get("QOS", "") if self._cluster.qos else "",
            self._memory_mb(where, row, nodes, cpus, usual) if self._conf.counts_memory else 0,
            {of: -(-amount // nodes) for of, amount in self._gres_of(where, row, nodes).items() if of in self._gres},
            "" if (wanted := row.get("Constraints", "")) in _NONE else wanted,
            usual.exclusive or not shares,
            eligible_ns if eligible_ns > submit_ns else 0,
            row.get("User", ""),
            row.get("Account", ""),
            array=array,
            array_limit=self._throttles.get(array, 0),
        )

    def _memory_mb(self, where: Where, row: Mapping[str, str], nodes: int, cpus: int, usual: Usual) -> int:
        """On each node: what was given (AllocTRES), else what was asked for (ReqTRES, ReqMem), else the default."""
        for column in ("AllocTRES", "ReqTRES"):
            if (total := tres(where, column, row.get(column, "")).get("mem")) is not None:
                return -(-total // nodes)
        asked = row.get("ReqMem", "")
        if asked and asked not in _NONE and asked.rstrip("nc") != "0":
            amount = memory_mb(where, "ReqMem", asked.rstrip("nc"))
            return amount * cpus if asked.endswith("c") else amount if asked.endswith("n") else -(-amount // nodes)
        if usual.memory_per_cpu or usual.memory_per_node:
            return usual.memory_per_cpu * cpus or usual.memory_per_node
        return 0

    def _gres_of(self, where: Where, row: Mapping[str, str], nodes: int) -> dict[str, int]:
        """Of all nodes together."""
        for column in _TRES:
            if row.get(column):
                return tres(where, column, row[column])
        given = row.get("AllocGRES") or row.get("ReqGRES") or ""
        return {} if given in _NONE else {name: nodes * many for name, many in gres(where, "GRES", given).items()}


def _throttle(job: str) -> dict[str, int]:
    """How many tasks of an array may run at once, by its number, as ``7_[3-9%2]`` says of those that wait."""
    found = re.fullmatch(r"(\d+)_\[[^%]*%(\d+)\]", job)
    return {found[1]: int(found[2])} if found else {}


def _since_ns(begin: datetime, where: Where, row: Mapping[str, str], column: str) -> int:
    """From ``begin`` on; 0: the row does not say it."""
    if row.get(column, "") in _NONE:
        return 0
    return max(0, round((_time(where, column, row[column]) - begin).total_seconds())) * SECOND_NS


# ---- what decides about jobs, and is not modelled ----

_TRES = ("AllocTRES", "ReqTRES")
"""Columns with amounts of all kinds; GRES and licences are what is not modelled."""
_NONE = ("", "None", "Unknown", "(null)")


class _DecidingColumns:
    """The columns of a table that decide and are not modelled."""

    def __init__(self, rows: Sequence[tuple[Where, Mapping[str, str]]]) -> None:
        self._table = settings_of("slurm")
        self._columns: list[str] = []
        for column in rows[0][1] if rows else ():
            setting = self._table.find(_SACCT, column)
            is_lost = setting is None or setting.effect is Effect.DECIDES
            if column and is_lost:
                self._columns.append(column)

    def losses(self, where: Where, job: str, row: Mapping[str, str]) -> Iterator[Loss]:
        """What is lost of a job."""
        for column in self._columns:
            value = row[column]
            if value in _NONE:
                continue
            what = f"{column}={printable(value[:60])} of {_named(job)}"
            loss = self._table.loss(_SACCT, column, value, str(where), what=what, kind="jobs", has_it=job)
            if loss is not None:
                yield loss


_SHARES = "priorities go by associations, their shares and usage: give the table of associations with --assoc"
_NO_USAGE_BEFORE = (
    "fair share starts from no usage: what users had used before the first of these jobs is in none of the files"
)
_PARENT = "Fairshare=parent counts as one share here, and not as a part of the account's"
_MEMORY_UNKNOWN = "memory is consumed there, and the table says of no job how much: they share nodes by CPUs"
_USERS_UNKNOWN = "limits of users and accounts hold there, and the table has no columns User and Account"


def _missing(path: Path, conf: ReadConf, row: Mapping[str, str]) -> Iterator[Loss]:
    """What decides, and the table has no column of."""
    settings, cluster = conf.cluster.settings, conf.cluster
    has_default = any(each.memory_per_cpu or each.memory_per_node for each in conf.usual.values())
    if conf.counts_memory and row and not has_default and not {"AllocTRES", "ReqTRES", "ReqMem"} & row.keys():
        yield Loss("no column ReqMem, AllocTRES", str(path), _MEMORY_UNKNOWN, Effect.DECIDES)
    if settings.enforces_limits and row and not {"User", "Account"} <= row.keys():
        yield Loss("no column User, Account", str(path), _USERS_UNKNOWN, Effect.DECIDES)
    if settings.weights is None or not (settings.weights.fair_share or settings.weights.assoc):
        return
    if cluster.associations and settings.weights.fair_share:
        yield Loss("usage", str(path), _NO_USAGE_BEFORE, Effect.DECIDES)
        if any(each.shares is None for each in cluster.associations):
            yield Loss("Share=parent", str(path), _PARENT, Effect.DECIDES)
    elif not cluster.associations:
        has_priority = "Priority" in row
        why = _SHARES + ("; until then jobs have the priority that they had (Priority)" if has_priority else "")
        yield Loss("no associations", str(path), why, Effect.DECIDES)


def _turns(
    cluster: Cluster, jobs: Iterable[Job], rows: Mapping[str, tuple[Where, Mapping[str, str]]]
) -> Iterator[Loss]:
    """Jobs that would take turns with others."""
    for job in turn_takers(cluster, jobs):
        what = f"QOS {printable(job.qos[:40])} of {_named(job.name)}"
        yield Loss(what, str(rows[job.name][0]), TURNS, Effect.DECIDES, "jobs", job.name)
