"""What the pods of a cluster mean for one pod, by domain of the topology: spread, affinity and anti-affinity.

A domain is a node label's key and value, or all nodes that have it.  For each pod it is counted once in which domains
others match its terms, or have terms that match it; then the counts follow whoever comes and goes.  A dry run has a
``TopologyChange`` for the pods that it puts onto its node or takes away.

Counts follow kube-scheduler in what seems odd: a constraint does not count pods that terminate, nor any if its selector
is empty; but in a dry run it counts those that are put or taken, whoever they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from math import floor
from operator import itemgetter

from emulator.policies.kubernetes.filters import Filter, FitError
from emulator.sites.kubernetes import HOSTNAME, AffinityTerm, Bound, Node, Pod, Spread

Domain = tuple[str, str]
"""A node label's key and value: the nodes that have it."""
_NO_COUNT = 1 << 62


def _places(terms: Iterable[AffinityTerm], node: Node) -> Iterator[Domain]:
    """The domains of these terms in which a node is."""
    for term in terms:
        value = node.label(term.topology)
        if value is not None:
            yield term.topology, value


def conflicts(pod: Pod, other: Pod, node: Node) -> Iterator[Domain]:
    """The domains that ``other`` on its node closes to ``pod``: by the anti-affinity of either."""
    for these, those in ((pod, other), (other, pod)):
        yield from _places((term for term in these.anti_affinity if term.matches(those)), node)


def matches_all(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    """Whether a pod is one of those that all of the terms are about."""
    return all(term.matches(pod) for term in terms)


def _preferences(pod: Pod, other: Pod, node: Node) -> Iterator[tuple[Domain, int]]:
    """How much ``other`` on its node makes domains better for ``pod``.

    The preferences of both count, and required terms of ``other``, which has to be together with such pods."""
    for these, those in ((pod, other), (other, pod)):
        for each in these.prefers_pods:
            if each.term.matches(those):
                yield from ((domain, each.weight) for domain in _places((each.term,), node))
    yield from ((domain, 1) for domain in _places((t for t in other.affinity if t.matches(pod)), node))


class SpreadCounts:
    """How many pods that match a constraint are in each domain, on the nodes that count."""

    __slots__ = ("_least", "constraint", "counts", "domain_of", "itself")

    def __init__(self, constraint: Spread, pod: Pod, nodes: Iterable[Node], is_by_node: bool) -> None:
        """``nodes``: those that count.  ``is_by_node``: each of them is a domain of its own."""
        key = constraint.topology
        self.constraint = constraint
        self.domain_of = {each.name: each.name if is_by_node else each.label(key) or "" for each in nodes}
        self.counts = dict.fromkeys(self.domain_of.values(), 0)
        self.itself = int(constraint.matches(pod, pod))
        """1 if the pod itself matches."""
        self._least: list[tuple[str, int]] | None = None

    def add(self, node: str, sign: int) -> None:
        """A pod that matches comes to a node that counts, or goes."""
        self.counts[self.domain_of[node]] += sign
        self._least = None

    @property
    def least(self) -> list[tuple[str, int]]:
        """The two domains with the fewest such pods."""
        if self._least is None:
            self._least = nsmallest(2, self.counts.items(), key=itemgetter(1))
        return self._least

    def exceeds(self, value: str, more: int) -> bool:
        """Whether one more pod in a domain is too many, if that had ``more`` than it has."""
        there = self.counts.get(value, _NO_COUNT)
        least = 0
        if len(self.counts) >= self.constraint.min_domains:
            others = (count for domain, count in self.least if domain != value)
            least = min(next(others, _NO_COUNT), there + more)
        there = 0 if there == _NO_COUNT else there
        return there + more + self.itself - least > self.constraint.max_skew


class TopologyChange:
    """What a dry run has changed by what it put onto its node or took away."""

    __slots__ = ("affinity", "closed", "spread")

    def __init__(self) -> None:
        self.spread: Counter[int] = Counter()
        """By number of the constraint, in the node's domain."""
        self.affinity: Counter[Domain] = Counter()
        self.closed: Counter[Domain] = Counter()


class Topology:
    """The counts for one pod, as all others are now."""

    __slots__ = ("affinity", "closed", "follows_all", "pod", "preferences", "preferred_spread", "required_spread")

    def __init__(self, pod: Pod, nodes: Iterable[Node]) -> None:
        self.pod = pod
        self.required_spread = _counts(pod, nodes, True)
        self.preferred_spread = _counts(pod, nodes, False)
        self.affinity: Counter[Domain] = Counter()
        """By domain, how many pods match all terms of the pod's affinity, once for each term."""
        self.closed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By key and value, how many reasons close a domain to the pod: its own anti-affinity, or that of others."""
        self.preferences: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By key and value, the sum of the weights for a domain."""
        self.follows_all = bool(pod.spread or pod.affinity or pod.anti_affinity or pod.prefers_pods)
        """Whether pods count that have no terms themselves."""

    def follow(self, moves: Iterable[tuple[Bound, int, Node]]) -> set[Domain] | None:
        """Count those who came (1) and went (-1), with their nodes.

        Returns the domains for which the pod may now fit, or preempt, in another way; None: any.
        """
        lowest = [each.least for each in self.required_spread]
        had_affinity, had_closed = bool(self.affinity), bool(self.closed)
        changed: set[Domain] = set()
        for bound, sign, node in moves:
            changed.update(self._move(bound, sign, node))
        if had_affinity is not bool(self.affinity) or had_closed is not bool(self.closed):
            return None
        return changed if lowest == [each.least for each in self.required_spread] else None

    def _move(self, bound: Bound, sign: int, node: Node) -> Iterator[Domain]:
        pod, other = self.pod, bound.pod
        for each in () if bound.terminating else (*self.required_spread, *self.preferred_spread):
            constraint = each.constraint
            if constraint.selector.is_empty or node.name not in each.domain_of or not constraint.matches(pod, other):
                continue
            each.add(node.name, sign)
            if constraint.is_required:
                yield constraint.topology, each.domain_of[node.name]
        for domain in self._together(other, node):
            yield domain
            self.affinity[domain] += sign
            if not self.affinity[domain]:
                del self.affinity[domain]
        for key, value in conflicts(pod, other, node):
            yield key, value
            _add(self.closed, key, value, sign)
        for (key, value), weight in _preferences(pod, other, node):
            _add(self.preferences, key, value, sign * weight)

    def _together(self, other: Pod, node: Node) -> Iterator[Domain]:
        terms = self.pod.affinity
        return _places(terms, node) if terms and matches_all(terms, other) else iter(())

    def change(self, change: TopologyChange, other: Pod, node: Node, sign: int) -> None:
        """A dry run puts ``other`` onto its node; with ``sign`` -1 it takes it away."""
        pod = self.pod
        for number, each in enumerate(self.required_spread):
            if node.name in each.domain_of and each.constraint.matches(pod, other):
                change.spread[number] += sign
        for domain in self._together(other, node):
            change.affinity[domain] += sign
        if pod.anti_affinity or other.anti_affinity:
            for domain in conflicts(pod, other, node):
                change.closed[domain] += sign

    def fit_error(self, node: Node, change: TopologyChange | None) -> FitError | None:
        """What keeps the pod off a node because of others: spread, affinity, anti-affinity, in this order."""
        for number, each in enumerate(self.required_spread):
            key = each.constraint.topology
            value = node.label(key)
            if value is None:
                return FitError(Filter.SPREAD, True, key)
            if each.exceeds(value, 0 if change is None else change.spread[number]):
                return FitError(Filter.SPREAD, False, key)
        pod = self.pod
        if not (pod.affinity or pod.anti_affinity or self.closed):
            return None
        if pod.affinity and (key := self._away_from(node, change)) is not None:
            return FitError(Filter.AFFINITY, True, key)
        changed = {} if change is None else change.closed
        for key in dict.fromkeys((*self.closed, *(key for key, _ in changed))):
            value = node.label(key)
            if value is not None and self._closed(key, value) + changed.get((key, value), 0) > 0:
                return FitError(Filter.ANTI_AFFINITY, False, key)
        return None

    def _closed(self, key: str, value: str) -> int:
        values = self.closed.get(key)
        return 0 if values is None else values[value]

    def _away_from(self, node: Node, change: TopologyChange | None) -> str | None:
        """The topology of a term of the pod's affinity that does not hold on a node; None: all do.

        Where nobody is that all terms are about, and the pod is one of them itself, it may be the first.
        """
        changed = Counter[Domain]() if change is None else change.affinity
        missing: str | None = None
        for term in self.pod.affinity:
            value = node.label(term.topology)
            if value is None:
                return term.topology
            domain = term.topology, value
            if missing is None and self.affinity[domain] + changed[domain] <= 0:
                missing = term.topology
        if missing is not None and matches_all(self.pod.affinity, self.pod):
            is_first = len(self.affinity) <= len(changed) and not any(
                self.affinity[domain] + changed[domain] for domain in {*self.affinity, *changed}
            )
            return None if is_first else missing
        return missing

    def preference(self, node: Node) -> int:
        """The sum of the weights for a node, by the pods in its domains."""
        values = ((counts, node.label(key)) for key, counts in self.preferences.items())
        return sum(counts[value] for counts, value in values if value is not None)


def _add(to: defaultdict[str, Counter[str]], key: str, value: str, amount: int) -> None:
    """Add to a count, of which none is left there that is 0."""
    counts = to[key]
    counts[value] += amount
    if not counts[value]:
        del counts[value]
        if not counts:
            del to[key]


def _counts(pod: Pod, nodes: Iterable[Node], is_required: bool) -> list[SpreadCounts]:
    """The constraints of a pod of one kind; nodes count that have the labels of all, and as the policies say."""
    constraints = [each for each in pod.spread if each.is_required is is_required]
    if not constraints:
        return []
    keys = [each.topology for each in constraints if not each.is_default]
    complete = [node for node in nodes if all(node.label(key) is not None for key in keys)]
    found = []
    for each in constraints:
        counted = [node for node in complete if _counts_for(each, pod, node)]
        by_node = each.topology == HOSTNAME and not is_required
        found.append(SpreadCounts(each, pod, nodes if by_node else counted, by_node))
    return found


def _counts_for(constraint: Spread, pod: Pod, node: Node) -> bool:
    if node.label(constraint.topology) is None:
        return False
    if not constraint.ignores_affinity and not pod.may_be_on(node):
        return False
    return not constraint.honors_taints or pod.tolerates_all(node.taints)


def domains_of(constraints: Iterable[SpreadCounts], nodes: Sequence[Node]) -> Iterator[tuple[SpreadCounts, int]]:
    """With each preferred constraint of a pod, how many domains it has among the nodes where the pod fits."""
    constraints = list(constraints)
    complete = [node for node in nodes if all(_is_in(each.constraint, node) for each in constraints)]
    for each in constraints:
        key = each.constraint.topology
        yield each, len(complete if key == HOSTNAME else {node.label(key) for node in complete})


def spread_score(constraints: Iterable[tuple[SpreadCounts, float]], node: Node) -> int | None:
    """The pods in a node's domains, each constraint with its weight, rounded; None: it lacks a label."""
    total = 0.0
    for each, weight in constraints:
        constraint = each.constraint
        value = node.label(constraint.topology)
        if value is None:
            if constraint.is_default:
                continue
            return None
        there = each.counts.get(node.name if constraint.topology == HOSTNAME else value, 0)
        total += there * weight + (constraint.max_skew - 1)
    return floor(total + 0.5)


def _is_in(constraint: Spread, node: Node) -> bool:
    return constraint.is_default or node.label(constraint.topology) is not None
