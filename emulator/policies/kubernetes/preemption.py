"""Whom a pod preempts: on each node the least important of lower priority that it needs gone, then the best node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import FitError
from emulator.policies.kubernetes.snapshot import DryRun, NodeInfo, Snapshot
from emulator.policies.kubernetes.terms import Ties, Victims
from emulator.policies.kubernetes.topology import Topology
from emulator.sites.kubernetes import Bound, Budget, Pod, Policy
from emulator.vocabulary import Frozen

LOWEST = 1 << 31
"""Added to each victim's priority in their sum, so that no priority is negative."""


class Verdict(StrEnum):
    """What came of the search for victims."""

    PREEMPTS = "preempts"
    NO_CANDIDATE = "no candidate"
    NEVER = "never"
    """The pod's policy is not to preempt."""
    WAITS = "waits"
    """Those that it preempted before are still going."""


class Criterion(StrEnum):
    """What distinguishes two candidates, in order."""

    VIOLATIONS = "fewest victims that a budget protects"
    HIGHEST_PRIORITY = "lowest priority of its most important victim"
    COST = "least to lose"
    SUM_OF_PRIORITIES = "lowest sum of its victims' priorities"
    COUNT = "fewest victims"
    START = "its most important victims started last"


class Candidate(Frozen):
    """A node where preemption would make room."""

    node: str
    victims: tuple[Bound, ...]
    """The most important first."""
    violating: tuple[str, ...] = ()
    """Those of the victims that a budget protects."""
    spared: tuple[str, ...] = ()
    """Pods of lower priority that may stay."""
    cost: int | None = None
    """What all of its victims lose together; None: nobody asked."""

    def rank(self) -> tuple[float, ...]:
        """By the criteria in order; the lowest wins."""
        highest = max(victim.pod.priority for victim in self.victims)
        start = min(start_of(victim) for victim in self.victims if victim.pod.priority == highest)
        total = sum(victim.pod.priority + LOWEST for victim in self.victims)
        cost = () if self.cost is None else (self.cost,)
        return len(self.violating), highest, *cost, total, len(self.victims), -start


class Preemption(Frozen):
    """Whom one pod preempts, and where."""

    pod: Pod
    verdict: Verdict
    node: str | None = None
    candidates: tuple[Candidate, ...] = ()
    """Every node where it would help, in the scheduler's order."""
    fit_errors: Mapping[str, FitError] = {}
    """Why the pod does not fit on the others, with all of lower priority gone if that was tried."""
    untried: tuple[str, ...] = ()
    """The other nodes, which have no pod of lower priority."""
    cleared: tuple[str, ...] = ()
    """Pods of lower priority that wait for the node and lose it."""

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that is taken."""
        return next((each for each in self.candidates if each.node == self.node), None)

    def lost_by(self, node: str) -> Criterion | None:
        """By what the chosen candidate is better than that on another node; None: they are as good."""
        other = next(each for each in self.candidates if each.node == node)
        if self.chosen is None:
            return None
        criteria = (each for each in Criterion if each is not Criterion.COST or self.chosen.cost is not None)
        pairs = zip(criteria, self.chosen.rank(), other.rank(), strict=True)
        return next((criterion for criterion, mine, its in pairs if mine != its), None)


class _Untried(Frozen):
    """A node with nobody of lower priority."""

    fit_error: FitError


_Answer = Candidate | FitError | _Untried
_Sorted = tuple[tuple[Candidate, ...], Mapping[str, FitError], tuple[str, ...]]


def preempt_in(
    snapshot: Snapshot, pod: Pod, nominated: str | None, fit_errors: Mapping[str, FitError], ties: Ties, now_ns: int = 0
) -> Preemption:
    """The victims of a pod that fits nowhere; ``misfits`` says why, for each node.

    Above 100 nodes kube-scheduler looks for some candidates only; here all nodes are looked at.
    """
    if pod.policy is Policy.NEVER:
        return Preemption(pod, Verdict.NEVER, fit_errors=fit_errors)
    if _victims_are_going(snapshot, pod, nominated, fit_errors):
        return Preemption(pod, Verdict.WAITS, fit_errors=fit_errors)
    candidates, useless, untried = _look_at_all(snapshot, pod, nominated, fit_errors, now_ns)
    if not candidates:
        return Preemption(pod, Verdict.NO_CANDIDATE, fit_errors=useless, untried=untried)
    if snapshot.terms.victims is not Victims.IMPORTANCE:
        candidates = tuple(replace(each, cost=_cost(snapshot, each, now_ns)) for each in candidates)
    node = _choose(candidates, ties)
    cleared = (each.name for each in snapshot.node_infos[node].nominated.values() if each.priority < pod.priority)
    return Preemption(pod, Verdict.PREEMPTS, node, candidates, useless, untried, tuple(cleared))


def _cost(snapshot: Snapshot, candidate: Candidate, now_ns: int) -> int:
    return sum(snapshot.terms.cost(each, now_ns) for each in candidate.victims)


def _look_at_all(
    snapshot: Snapshot, pod: Pod, nominated: str | None, fit_errors: Mapping[str, FitError], now_ns: int
) -> _Sorted:
    """The candidates; why not the others; and which of the others were not tried."""
    view = snapshot.view(pod)
    others = snapshot.fit_errors(view)

    def ask(name: str, of: Pod, misfit: FitError) -> _Answer:
        if misfit.is_hard:
            return misfit
        return _candidate(snapshot, snapshot.node_infos[name], of, misfit, view.topology, now_ns)

    def ask_for_any(name: str) -> _Answer | None:
        misfit = others[name]
        return misfit and ask(name, view.pod, misfit)

    if snapshot.terms.victims is Victims.LEAST_WORK_LOST:  # who loses least changes with time
        return _sort_out({name: ask(name, pod, misfit) for name, misfit in fit_errors.items()})
    answers = snapshot.victims(view, ask_for_any)
    if nominated in snapshot.node_infos:
        answers = {**answers, nominated: ask(nominated, pod, fit_errors[nominated])}
    return view.made_of("victims", answers, _sort_out)


def _sort_out(answers: Mapping[str, _Answer | None]) -> _Sorted:
    candidates: list[Candidate] = []
    useless: dict[str, FitError] = {}
    untried: list[str] = []
    for name, each in answers.items():
        if isinstance(each, Candidate):
            candidates.append(each)
        elif isinstance(each, _Untried):
            untried.append(name)
            useless[name] = each.fit_error
        elif each is not None:
            useless[name] = each
    return tuple(candidates), useless, tuple(untried)


def by_importance(bound: Bound) -> tuple[int, float]:
    """The most important first: higher priority, then earlier start."""
    return -bound.pod.priority, start_of(bound)


def violating(pods: Iterable[Bound], allowed: dict[str, int], budgets: Sequence[Budget]) -> set[str]:
    """Those whose eviction a budget forbids, if all go in this order.

    ``allowed`` is what each budget has left, and is counted down.
    """
    found: set[str] = set()
    for bound in pods:
        for budget in budgets:
            if budget.counts(bound.pod):
                allowed[budget.name] -= 1
                if allowed[budget.name] < 0:
                    found.add(bound.pod.name)
    return found


def start_of(bound: Bound) -> float:
    """When a pod started; without a start later than any other."""
    return float("inf") if bound.start_ns is None else bound.start_ns


def _victims_are_going(snapshot: Snapshot, pod: Pod, nominated: str | None, fit_errors: Mapping[str, FitError]) -> bool:
    if nominated not in snapshot.node_infos or fit_errors[nominated].is_hard:
        return False
    there = snapshot.node_infos[nominated].bound.values()
    return any(each.preempted and each.terminating and each.pod.priority < pod.priority for each in there)


def _candidate(
    snapshot: Snapshot, node_info: NodeInfo, pod: Pod, error: FitError, topology: Topology, now_ns: int
) -> Candidate | FitError | _Untried:
    """The victims on a node, or why the pod would not fit without them."""
    if not any(count and priority < pod.priority for priority, count in node_info.priorities.items()):
        return _Untried(error)
    terms = snapshot.terms
    lower = sorted((each for each in node_info.bound.values() if each.pod.priority < pod.priority), key=by_importance)
    if terms.victims is not Victims.IMPORTANCE:  # those first that are to stay
        lower.sort(key=lambda each: (-each.pod.priority, -terms.cost(each, now_ns)))
    trial = DryRun(node_info, pod, topology)
    trial.put((terms.freed(each.pod) for each in lower), -1)
    still = trial.fit_error()
    if still is not None:
        return still
    protected = violating(lower, {each.name: each.allowed for each in snapshot.budgets}, snapshot.budgets)
    order = sorted(lower, key=lambda each: each.pod.name not in protected)  # stable: the most important ones first
    spared: set[str] = set()
    for bound in order:
        trial.put((terms.freed(bound.pod),))
        if trial.fit_error() is None:
            spared.add(bound.pod.name)
        else:
            trial.put((terms.freed(bound.pod),), -1)
    victims = tuple(sorted((each for each in order if each.pod.name not in spared), key=by_importance))
    names = tuple(each.pod.name for each in victims if each.pod.name in protected)
    stay = tuple(each.pod.name for each in lower if each.pod.name in spared)
    return Candidate(node_info.node.name, victims, names, stay)


def _choose(candidates: Sequence[Candidate], ties: Ties) -> str:
    """The best node.  Among equal ones kube-scheduler takes whichever its map has first, which is chance."""
    ranks = [each.rank() for each in candidates]
    best = min(ranks)
    return ties([(each.node, 0) for each, rank in zip(candidates, ranks, strict=True) if rank == best])
