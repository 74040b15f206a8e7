"""Which limits keep a pending job from starting, in ``squeue``'s words (resource_limits.html, job_reason_codes.html).

Of each limit that one holds which is given first: by the QOS of the partition, the job's QOS, the association of its
user, the accounts above it.  Limits of groups (``Grp...``) are another matter: those of all associations hold.  A
partition's own limits, of time and of nodes, hold whatever else is given.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from emulator.sites.slurm import CPU, FOREVER_NS, MEMORY, MINUTE_NS, NO_LIMITS, NODE, Cluster, Job, Limits

_Key = tuple[str, ...]
_JOBS, _WALL = "jobs", "wall"
"""In the place of a TRES: how many jobs, and the longest time limit of a job."""
_MINUTES_OF = "minutes of "
"""With this before a TRES: how much of it, times what is left of time limits (``GrpTRESRunMins``)."""
_Check = tuple[str, str, int, _Key | None]
"""A reason, of what it is, the most that is allowed, and whose usage counts; None: only the job's own."""
_NAMES = {CPU: "Cpu", MEMORY: "Memory", NODE: "Node"}
_WITH_LIMIT = ("Cpu", "Node")
_OF_MINUTES = {CPU: "CPURunMinutesLimit", MEMORY: "MemRunMinutes", NODE: "NodeRunMinutes"}


@dataclass(slots=True)
class _Scope:
    """A QOS or an association that may limit a job."""

    of: str
    """``QOS`` or ``Assoc``, with which reasons begin."""
    limits: Limits
    group: _Key
    """Under which the usage of all its jobs is counted; also that of one user and one account."""
    user: _Key
    account: _Key

    def parts(self) -> Iterator[tuple[str, str, dict[str, int], _Key | None]]:
        """The beginning and the end of a reason, the limits of TRES and jobs, and whose usage counts; None: only the
        job's own."""
        limits = self.limits
        minutes = {_MINUTES_OF + name: most for name, most in limits.group_run_minutes.items()}
        yield "Grp", "", _with_jobs(limits.group_tres, limits.group_jobs) | minutes, self.group
        yield "Max", "PerUser", _with_jobs(limits.user_tres, limits.user_jobs), self.user
        yield "Max", "PerAccount", _with_jobs(limits.account_tres, limits.account_jobs), self.account
        yield "Max", "PerJob", _with_wall(limits.job_tres, limits.wall_ns), None


def _with_jobs(tres: Mapping[str, int], jobs: int | None) -> dict[str, int]:
    return dict(tres) if jobs is None else {**tres, _JOBS: jobs}


def _with_wall(tres: Mapping[str, int], wall_ns: int | None) -> dict[str, int]:
    return dict(tres) if wall_ns is None else {**tres, _WALL: wall_ns}


def _that_hold(scopes: Iterable[_Scope]) -> Iterator[_Check]:
    """The limits of these that hold: of groups all of associations, of others the first that is given."""
    given: set[_Key] = set()
    for scope in scopes:
        for begin, end, limits, key in scope.parts():
            for name, most in limits.items():
                if (begin, end, name) not in given:
                    yield _reason(scope, begin, end, name), name, most, key
                if scope.of == "QOS" or begin != "Grp":
                    given.add((begin, end, name))


def _reason(scope: _Scope, begin: str, end: str, name: str) -> str:
    if name == _JOBS:
        end = "" if scope.of == "Assoc" else end
        return f"{scope.of}{begin}Jobs{end}Limit"
    if name == _WALL:
        return f"{scope.of}MaxWallDurationPerJobLimit"
    if name.startswith(_MINUTES_OF):
        return f"{scope.of}Grp{_OF_MINUTES.get(name.removeprefix(_MINUTES_OF), 'GRESRunMinutes')}"
    what = _NAMES.get(name, "GRES")
    if what == "Memory" and begin == "Grp":
        return f"{scope.of}GrpMemLimit"
    return f"{scope.of}{begin}{what}{end}" + ("Limit" if what in _WITH_LIMIT else "")


def _needs(job: Job) -> Counter[str]:
    return job.tres | Counter({_JOBS: 1})


def _whose(job: Job) -> _Key:
    """What the limits of a job depend on."""
    return job.partition, job.qos, job.account, job.user


class LimitUsage:
    """What the running jobs of each QOS, user, account and array have, and what these may have."""

    def __init__(self, cluster: Cluster) -> None:
        self._enforces = cluster.settings.enforces_limits
        self._partitions = {each.name: each for each in cluster.partitions}
        self._qos = {each.name: each.limits for each in cluster.qos}
        self._associations = {(each.account, each.user): each.limits for each in cluster.associations}
        self._parents = {each.account: each.parent for each in cluster.associations if not each.user}
        self._used: dict[_Key, Counter[str]] = defaultdict(Counter)
        self.now_ns = 0
        """What time it is for those who ask."""
        self._ends_ns: dict[str, int] = {}
        """When the time limit of each running job is over, without the time for which it is stopped."""
        self._scopes: dict[_Key, list[_Scope]] = {}
        self._checks: dict[_Key, list[_Check]] = {}

    def start(self, job: Job) -> None:
        """A job runs from now on."""
        self._ends_ns[job.name] = self.now_ns + self._limit_ns(job)
        self._count(job, 1)

    def end(self, job: Job) -> None:
        """It runs no longer."""
        self._count(job, -1)
        del self._ends_ns[job.name]

    def _count(self, job: Job, sign: int) -> None:
        keys = {key for scope in self._of(job) for key in (scope.group, scope.user, scope.account)}
        if job.array_limit:
            keys.add(("array", job.array))
        if not keys:
            return
        needs, end_ns = _needs(job), self._ends_ns[job.name]
        until = {_MINUTES_OF + name: amount * end_ns for name, amount in needs.items()}
        for key in keys:
            self._used[key].update({name: sign * amount for name, amount in (needs | until).items()})

    def _limit_ns(self, job: Job) -> int:
        limits = job.limit_ns, self._partitions[job.partition].limit_ns, FOREVER_NS
        return next(limit for limit in limits if limit is not None)

    def _has_minutes(self, job: Job, name: str, most: int, key: _Key) -> bool:
        """Whether TRES times what is left of time limits stays below a limit with this job."""
        used, amount = self._used[key], job.tres[name]
        left = used[_MINUTES_OF + name] - used[name] * self.now_ns + amount * self._limit_ns(job)
        return not amount or left <= most * MINUTE_NS

    def why_waits(self, job: Job) -> str:
        """Why a job may not start now, whatever is free; blank: it may."""
        partition = self._partitions[job.partition]
        if partition.max_nodes is not None and job.nodes > partition.max_nodes:
            return "PartitionNodeLimit"
        if partition.max_ns is not None and (job.limit_ns or 0) > partition.max_ns:
            return "PartitionTimeLimit"
        if job.array_limit and self._used["array", job.array][_JOBS] >= job.array_limit:
            return "JobArrayTaskLimit"
        return self._over_limit(job) if self._enforces else ""

    def _over_limit(self, job: Job) -> str:
        checks = self._checks_of(job)
        needs = _needs(job) if checks else {}
        for reason, name, most, key in checks:
            if name == _WALL:
                if job.limit_ns is not None and job.limit_ns > most:
                    return reason
            elif name.startswith(_MINUTES_OF) and key is not None:
                if not self._has_minutes(job, name.removeprefix(_MINUTES_OF), most, key):
                    return reason
            elif needs[name] and (0 if key is None else self._used[key][name]) + needs[name] > most:
                return reason
        return ""

    def _checks_of(self, job: Job) -> list[_Check]:
        """The limits that hold for a job."""
        whose = _whose(job)
        if whose not in self._checks:
            self._checks[whose] = [*_that_hold(self._of(job))]
        return self._checks[whose]

    def _of(self, job: Job) -> list[_Scope]:
        """What may limit a job, first what holds before others."""
        whose = _whose(job)
        if whose not in self._scopes:
            self._scopes[whose] = [*self._scopes_of(job)] if self._enforces else []
        return self._scopes[whose]

    def _scopes_of(self, job: Job) -> Iterator[_Scope]:
        for name in dict.fromkeys((self._partitions[job.partition].qos, job.qos)):
            if name in self._qos:
                group = "qos", name
                yield _Scope(
                    "QOS", self._qos[name], group, (*group, "user", job.user), (*group, "account", job.account)
                )
        account, user, seen = job.account, job.user, set[str]()
        while (account or user) and account not in seen:
            key = "assoc", account, user
            yield _Scope("Assoc", self._associations.get((account, user), NO_LIMITS), key, key, key)
            if not user:
                seen.add(account)
                account = self._parents.get(account, "")
            user = ""
