"""How urgent pending jobs are: ``priority/multifactor`` (priority_multifactor.html, fair_tree.html,
classic_fair_share.html).

A job's priority is the sum of its factors, each between 0 and 1 and times its weight, less its ``--nice``.  All but the
age and the fair share are known when it is submitted.  These two are calculated every ``PriorityCalcPeriod``, from the
controller's start on: until then a new job has no age, as recorded runs show; they show the size, too, as the mean of
its shares of nodes and of CPUs.

Usage is what jobs have had of the cluster, in seconds times what ``TRESBillingWeights`` bills; it decays by half in
``PriorityDecayHalfLife``.  Before the first job nobody has used anything: a site's own usage is in no file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import inf

from emulator.sites.slurm import CPU, MEMORY, NODE, SECOND_NS, Association, Cluster, Job, Partition, Weights

Named = tuple[str, str]
"""An account, and a user of it or, blank, the account itself."""
_ROOT = "root"


def size_factor(nodes: int, cpus: int, all_nodes: int, all_cpus: int, favors_small: bool = False) -> float:
    """The larger a job the higher, or the smaller the higher (``PriorityFavorSmall``)."""
    share = (nodes / all_nodes + cpus / all_cpus) / 2
    return 1 - share if favors_small else share


def age_factor(waited_ns: int, max_age_ns: int) -> float:
    """1 for jobs that have waited ``PriorityMaxAge`` or longer since they were eligible."""
    return min(1.0, max(0, waited_ns) / max_age_ns) if max_age_ns else 1.0


def decay(passed_ns: int, half_life_ns: int) -> float:
    """What is left of usage after some time; a half-life of 0: all of it."""
    return 0.5 ** (passed_ns / half_life_ns) if half_life_ns else 1.0


class FairShares:
    """Accounts and users with their shares."""

    def __init__(self, associations: Iterable[Association]) -> None:
        """A user or an account that shares what its parent has (``Fairshare=parent``) counts as one share."""
        associations = [*associations]
        self._shares = {(each.account, each.user): 1 if each.shares is None else each.shares for each in associations}
        self._shares.setdefault((_ROOT, ""), 1)
        accounts = {account for account, user in self._shares if not user}
        parents = ((each.account, each.parent) for each in associations if not each.user and each.account != _ROOT)
        self._parent = {account: parent if parent in accounts else _ROOT for account, parent in parents}
        self._below: dict[str, list[Named]] = defaultdict(list)
        for account, user in self._shares:
            self._below[account if user else self._parent.get(account, "")].append((account, user))
        self.users = [name for name in self._shares if name[1]]

    def usage(self, of_users: Mapping[Named, float]) -> Mapping[Named, float]:
        """The usage of users and of all accounts above them."""
        found = defaultdict[Named, float](float)
        for (account, user), used in of_users.items():
            found[account, user] += used
            seen: set[str] = set()
            while account and account not in seen:
                seen.add(account)
                found[account, ""] += used
                account = self._parent.get(account, "")
        return found

    def fair_tree(self, of_users: Mapping[Named, float]) -> dict[Named, float]:
        """The factor of each user by Fair Tree, the algorithm since Slurm 19.05: its rank among all users.

        Of siblings the one with more shares for its usage goes first, with all that is below it.  Siblings that are
        equal are ranked together.
        """
        usage, found = self.usage(of_users), dict[Named, float]()

        def level(name: Named) -> float:
            siblings = self._siblings(name)
            shares, used = sum(self._shares[each] for each in siblings), sum(usage[each] for each in siblings)
            share = self._shares[name] / shares if shares else 0.0
            return share * used / usage[name] if usage[name] else inf

        def rank(names: Sequence[Named], place: int, tied: Sequence[Named]) -> int:
            for _, group in groupby(sorted(names, key=lambda each: -levels[each]), levels.__getitem__):
                together = [*group]
                users = [*tied, *(each for each in together if each[1])]
                tied = ()
                below = [child for account, user in together if not user for child in self._below[account]]
                if below:
                    place = rank(below, place, users)
                else:
                    found.update(dict.fromkeys(users, place / len(self.users)))
                    place -= len(users)
            return place

        levels = {name: level(name) for name in self._shares}
        rank(self._below[""], len(self.users), ())
        return found

    def classic(self, of_users: Mapping[Named, float], dampening: int = 1) -> dict[Named, float]:
        """The factor of each user by the classic algorithm (``PriorityFlags=NO_FAIR_TREE``): 2 to the power of minus
        its effective usage by its share, by the dampening factor."""
        usage = self.usage(of_users)
        total = sum(of_users.values())
        effective: dict[Named, tuple[float, float]] = {}

        def of(name: Named) -> tuple[float, float]:
            """Its effective usage, and its share."""
            if name not in effective:
                siblings = sum(self._shares[each] for each in self._siblings(name))
                part, used = self._shares[name] / siblings if siblings else 0.0, usage[name] / total
                above = name[0] if name[1] else self._parent[name[0]]
                if above == _ROOT:
                    effective[name] = used, part
                else:
                    above_used, share = of((above, ""))
                    effective[name] = used + (above_used - used) * part, share * part
            return effective[name]

        if not total:
            return dict.fromkeys(self.users, 1.0)
        return {
            name: 2 ** (-used / share / dampening) if share else 0.0
            for name in self.users
            for used, share in [of(name)]
        }

    def _siblings(self, name: Named) -> list[Named]:
        account, user = name
        return self._below[account if user else self._parent.get(account, "")]


def billed(tres: Mapping[str, int], weights: Mapping[str, float], only_most: bool = False) -> float:
    """What a second of a job counts as usage: its TRES by ``TRESBillingWeights``, or the most of these
    (``PriorityFlags=MAX_TRES``); without weights its CPUs."""
    if not weights:
        return float(tres[CPU])
    parts = [weight * tres.get(name, 0) for name, weight in weights.items()]
    return max(parts) if only_most else sum(parts)


class Priorities:
    """The priorities of a site's jobs, and what they go by."""

    def __init__(self, cluster: Cluster, weights: Weights, boot_ns: int) -> None:
        self._cluster, self._weights, self._calculated_ns = cluster, weights, boot_ns
        self._all_cpus = sum(node.cpus for node in cluster.nodes.values())
        self._partitions = {each.name: each for each in cluster.partitions}
        self._qos = {each.name: each for each in cluster.qos}
        self._most_of_partitions = max((each.job_factor for each in cluster.partitions), default=0)
        self._most_of_qos = max((each.priority for each in cluster.qos), default=0)
        self._of_associations = {(each.account, each.user): each.priority for each in cluster.associations}
        self._most_of_associations = max(self._of_associations.values(), default=0)
        self._shares = FairShares(cluster.associations)
        self._used = defaultdict[Named, float](float)
        self._fair = dict[Named, float]()
        self._share_out()
        self._there = {each.name: self._amounts_of(each) for each in cluster.partitions}

    def _amounts_of(self, partition: Partition) -> Counter[str]:
        found: Counter[str] = Counter()
        for node in map(self._cluster.nodes.__getitem__, partition.nodes):
            found.update({CPU: node.cpus, MEMORY: node.memory_mb, NODE: 1, **node.gres})
        return found

    def of(self, job: Job, eligible_ns: int) -> int:
        """The priority of a job, as it was last calculated; at least 1."""
        if job.priority:
            return job.priority
        weights, partition = self._weights, self._partitions[job.partition]
        shape = job.nodes, job.nodes * job.cpus, len(self._cluster.nodes), self._all_cpus
        waited_ns = self._calculated_ns - (job.submit_ns if "accrue_always" in weights.flags else eligible_ns)
        qos, association = self._qos.get(job.qos), self._of_associations.get((job.account, job.user), 0)
        found = (
            weights.age * age_factor(waited_ns, weights.max_age_ns)
            + weights.fair_share * self._fair.get((job.account, job.user), 0.0)
            + weights.assoc * self._normal("assoc", association, self._most_of_associations)
            + weights.job_size * size_factor(*shape, weights.favors_small)
            + weights.partition * self._normal("part", partition.job_factor, self._most_of_partitions)
            + weights.qos * self._normal("qos", 0 if qos is None else qos.priority, self._most_of_qos)
        )
        amounts, there = job.tres, self._there[job.partition]
        found += sum(weight * self._normal("tres", amounts[name], there[name]) for name, weight in weights.tres.items())
        return max(1, int(found) - job.nice)

    def _normal(self, what: str, value: int, most: int) -> float:
        """A factor: its share of the highest, unless a flag leaves it as it is (``NO_NORMAL_...``)."""
        if {f"no_normal_{what}", "no_normal_all"}.intersection(self._weights.flags):
            return value
        return value / most if most else 0.0

    # ---- usage ----

    def is_due(self, now_ns: int) -> bool:
        """Whether priorities are to be calculated again."""
        return now_ns - self._calculated_ns >= self._weights.calc_period_ns

    def calculate(self, now_ns: int, running: Iterable[tuple[Job, int]]) -> None:
        """Ages and fair shares are as of the last period's end; ``running``: jobs with the times of their starts."""
        period_ns = self._weights.calc_period_ns
        at_ns = now_ns - (now_ns - self._calculated_ns) % period_ns
        if self._weights.fair_share:
            for job, start_ns in running:
                self.charge(job, start_ns, at_ns)
            left = decay(at_ns - self._calculated_ns, self._weights.half_life_ns)
            for name in self._used:
                self._used[name] *= left
            self._share_out()
        self._calculated_ns = at_ns

    def charge(self, job: Job, start_ns: int, end_ns: int) -> None:
        """A job that started then has used its nodes until ``end_ns``; what was charged before is not charged again."""
        since_ns = max(start_ns, self._calculated_ns)
        qos = self._qos.get(job.qos)
        weights = self._partitions[job.partition].billing
        factor = billed(job.tres, weights, "max_tres" in self._weights.flags)
        factor *= 1.0 if qos is None else qos.usage_factor
        self._used[job.account, job.user] += max(0, end_ns - since_ns) / SECOND_NS * factor

    def _share_out(self) -> None:
        if not self._shares.users or not self._weights.fair_share:
            return
        is_classic = "no_fair_tree" in self._weights.flags
        used, dampening = self._used, self._weights.dampening
        self._fair = self._shares.classic(used, dampening) if is_classic else self._shares.fair_tree(used)
