"""Holds recorded answers of kube-scheduler's own code against natjam: kube.py cases|days|gangs|rules FILE.jsonl.gz ...

``rules`` plays days by natjam's rules through its whole machines, under ``news: at-once`` and ``overheads: none``.

Two choices that kube-scheduler leaves to its own data are made here as it makes them: among nodes of one score the head
of its heap, and among candidates that are as good the first.  Where pods have no start, their order is not compared.

Prints what differs, and ``N of M equal`` last; exit status 1 if any differs.  Where the records come from is in
tests/data/PROVENANCE.md.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from msgspec.structs import replace

from emulator.experiment.load import load_experiment
from emulator.policies.kubernetes.cycle import Decision
from emulator.policies.kubernetes.gangs import Gang, GangOutcome, place_gang
from emulator.policies.kubernetes.placement import Placement
from emulator.policies.kubernetes.preemption import Candidate, Preemption
from emulator.policies.kubernetes.scheduler import KubeRules, KubeScheduler, pods_of, pods_player
from emulator.policies.policy import SchedulerAllocation
from emulator.policies.schedulers.play import Execution
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kubernetes import (
    AffinityTerm,
    Arrival,
    Bound,
    Budget,
    BudgetSpec,
    Effect,
    Group,
    HostPort,
    Kubernetes,
    Node,
    Operator,
    Pending,
    Pod,
    Policy,
    PreferredNodes,
    PreferredPods,
    PriorityClass,
    Replacement,
    Spread,
    State,
    Taint,
    Toleration,
    default_spread,
    own_values,
)
from emulator.sites.labels import Expression, LabelOperator, NodeTerm, Selector
from emulator.vocabulary import SECOND_NS
from tests.kubernetes_questions import place, victims
from tests.peers import played
from tests.peers.holding import Differs, hold
from tests.peers.played import Job, differences
from workloads.saved import write_saved


def head_of_heap(scored: Sequence[tuple[str, int]]) -> str:
    """kube-scheduler's choice among the highest: the head of a binary heap made of all nodes in their order."""
    heap = list(scored)
    for top in reversed(range(len(heap) // 2)):
        at = top
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1][1] > heap[child][1]:
                child += 1
            if heap[child][1] <= heap[at][1]:
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child
    return heap[0][0]


# ---- the recorded form as our values ----


def taints_of(given: Mapping[str, Any]) -> tuple[Taint, ...]:
    """The taints of a node or a flavor."""
    return tuple(
        Taint(each["key"], Effect(each["effect"]), each.get("value", "")) for each in given.get("taints") or ()
    )


def tolerations_of(given: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """The tolerations of a pod or a flavor."""
    return tuple(
        Toleration(
            each.get("key", ""),
            Operator(each.get("operator") or "Equal"),
            each.get("value", ""),
            Effect(each["effect"]) if each.get("effect") else None,
        )
        for each in given.get("tolerations") or ()
    )


def node_of(given: Mapping[str, Any]) -> Node:
    """A node."""
    labels, taints = given.get("labels", {}), taints_of(given)
    return Node(given["name"], given["capacity"], labels, taints, given.get("unschedulable", False))


def pod_of(given: Mapping[str, Any], record: Mapping[str, Any]) -> Pod:
    """A pod of a record, with the priority and policy of its class if it has one."""
    classes = classes_of(record)
    pod = Pod(
        given["name"],
        given.get("priority", 0),
        policy=_policy(given),
        requests=given.get("requests", {}),
        labels=given.get("labels", {}),
        selector=given.get("selector", {}),
        node_affinity=tuple(map(_node_term, given.get("node_affinity", ()))),
        prefers_nodes=tuple(PreferredNodes(_node_term(each), each["weight"]) for each in given.get("prefer_nodes", ())),
        affinity=tuple(map(_term, given.get("affinity", ()))),
        prefers_pods=tuple(
            PreferredPods(_term(each), sign * each["weight"])
            for sign, kind in ((1, "prefer_affinity"), (-1, "prefer_anti_affinity"))
            for each in given.get(kind, ())
        ),
        spread=tuple(_spread(each, given) for each in given.get("spread", ())) or _default_spread(given, record),
        ports=tuple(
            HostPort(each["port"], each.get("protocol") or "TCP", each.get("ip") or "0.0.0.0")
            for each in given.get("ports", ())
        ),
        tolerations=tolerations_of(given),
        anti_affinity=tuple(map(_term, given.get("anti_affinity", ()))),
        group=given.get("group", ""),
    )
    return classes[given["class"]].of(pod) if given.get("class") else pod


def selector_of(given: Mapping[str, Any], labels: str = "labels") -> Selector:
    """A selector of labels."""
    expressions = tuple(map(_expression, given.get("expressions") or ()))
    return Selector(given.get(labels) or {}, expressions)


def _expression(given: Mapping[str, Any]) -> Expression:
    return Expression(given["key"], LabelOperator(given["operator"]), tuple(given.get("values") or ()))


def _node_term(given: Mapping[str, Any]) -> NodeTerm:
    fields = tuple(map(_expression, given.get("fields") or ()))
    return NodeTerm(tuple(map(_expression, given.get("expressions") or ())), fields)


def _term(given: Mapping[str, Any]) -> AffinityTerm:
    return AffinityTerm(selector_of(given), given["topology"])


def _spread(given: Mapping[str, Any], pod: Mapping[str, Any]) -> Spread:
    return Spread(
        given["topology"],
        given["skew"],
        own_values(selector_of(given), given.get("match_label_keys") or (), pod.get("labels", {})),
        given["when"] == "DoNotSchedule",
        given.get("min_domains") or 1,
        given.get("affinity_policy") == "Ignore",
        given.get("taints_policy") == "Honor",
    )


def _default_spread(given: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[Spread, ...]:
    services = (Selector(each.get("selector") or {}) for each in record.get("services", ()))
    owners = {each["name"]: selector_of(each) for each in record.get("owners", ())}
    return default_spread(given.get("labels", {}), services, owners.get(given.get("owner", "")))


def classes_of(record: Mapping[str, Any]) -> dict[str, PriorityClass]:
    """The PriorityClasses of a record."""
    return {
        each["name"]: PriorityClass(each["name"], each["value"], _policy(each)) for each in record.get("classes", ())
    }


def state_of(case: Mapping[str, Any]) -> State:
    """The cluster of a case; its incoming pod waits there if it is nominated to a node."""
    incoming = case["incoming"]
    waiting = [*case.get("waiting", ()), *([incoming] if incoming.get("node") else [])]
    return State(
        tuple(map(node_of, case["nodes"])),
        tuple(_bound(each, case) for each in _kept(case)),
        tuple(Pending(pod_of(each, case), each["node"]) for each in waiting),
        tuple(
            Budget(
                each["name"], selector_of(each, "selector"), each.get("allowed", 0), tuple(each.get("disrupted") or ())
            )
            for each in case.get("budgets", ())
        ),
        first=case.get("first", 0),
    )


def _kept(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pods; with ``fill`` only those that do not overfill their node."""
    if not case.get("fill"):
        return case["pods"]
    left = {node["name"]: {"pods": 1 << 30, **node["capacity"]} for node in case["nodes"]}
    kept = []
    for pod in case["pods"]:
        room, asked = left[pod["node"]], {**pod.get("requests", {}), "pods": 1}
        if all(room.get(resource, 0) >= amount for resource, amount in asked.items()):
            kept.append(pod)
            room.update({resource: room.get(resource, 0) - amount for resource, amount in asked.items()})
    return kept


def _bound(given: Mapping[str, Any], case: Mapping[str, Any]) -> Bound:
    start = given.get("start")
    return Bound(
        pod_of(given, case),
        given["node"],
        None if start is None else start * SECOND_NS,
        given.get("terminating", False),
        given.get("preempted", False),
    )


def _policy(given: Mapping[str, Any]) -> Policy:
    return Policy(given.get("policy") or "PreemptLowerPriority")


# ---- cases ----


def differs_in_case(case: Mapping[str, Any]) -> str | None:
    """The first part of the answer that differs; and what Kubernetes' own test wants, if it is one."""
    state, answer = state_of(case), case["answer"]
    pod = pod_of(case["incoming"], case)
    placement = place(state, pod, head_of_heap)
    fits = placement.node is not None
    mine = _fits(placement) if fits else _preempts(victims(state, pod, head_of_heap))
    has_order = all("start" in each for each in case["pods"])
    if "looked" not in answer:
        mine.pop("looked", None)
    return _first_difference(mine, answer, has_order) or _unwanted(mine, case.get("want"))


def _fits(placement: Placement) -> dict[str, Any]:
    scores = {name: score.total for name, score in placement.scores.items()}
    return {
        "outcome": "fits",
        "node": placement.node,
        "scores": scores or None,
        "tied": _tied(scores, max),
        "looked": placement.looked,
    }


def _preempts(preemption: Preemption) -> dict[str, Any]:
    chosen = preemption.chosen
    found = {each.node: _candidate(each) for each in preemption.candidates} or None
    if chosen is None:
        return {"outcome": "unschedulable", "candidates": found}
    return {
        "outcome": "preempts",
        "node": chosen.node,
        "tied": _tied({each.node: each.rank() for each in preemption.candidates}, min),
        **_candidate(chosen),
        "candidates": found,
        "cleared": sorted(preemption.cleared) or None,
    }


def _tied(worth: Mapping[str, Any], best_of: Callable[[Iterable[Any]], Any]) -> list[str] | None:
    """The nodes that are as good as the best, if there are several."""
    best = best_of(worth.values()) if worth else None
    tied = [node for node, each in worth.items() if each == best]
    return tied if len(tied) > 1 else None


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {"victims": [each.pod.name for each in candidate.victims], "violations": len(candidate.violating)}


def _first_difference(mine: Mapping[str, Any], answer: Mapping[str, Any], has_order: bool) -> str | None:
    for part in ("outcome", "node", "victims", "violations", "candidates", "scores", "tied", "cleared", "looked"):
        ours, theirs = mine.get(part), answer.get(part)
        if part == "violations":
            ours, theirs = ours or 0, theirs or 0
        if not has_order:
            ours, theirs = _unordered(ours), _unordered(theirs)
        if ours != theirs:
            return f"{part} {ours}, recorded {theirs}"
    return None


def _unordered(value: Any) -> Any:
    """Victims as a set: of pods without a start the order says nothing."""
    if isinstance(value, Mapping):
        return {key: _unordered(each) for key, each in value.items()}
    return sorted(value) if isinstance(value, list) else value


def _unwanted(mine: Mapping[str, Any], want: Mapping[str, Any] | None) -> str | None:
    """What Kubernetes' own test would find wrong."""
    if want is None:
        return None
    if "any" in want:
        equal = mine["outcome"] == "preempts" and (mine["tied"] or [mine["node"]]) == want["any"]
    elif "candidates" in want:
        equal = _unordered(mine.get("candidates") or {}) == _unordered(want["candidates"])
    elif not (node := (want["result"] or {}).get("NominatedNodeName")):
        equal = mine["outcome"] == "unschedulable"
    else:
        chosen = node in (mine["tied"] or [mine.get("node")])
        equal = chosen and ("victims" not in want or sorted(mine["victims"]) == sorted(want["victims"]))
    return None if equal else f"{mine}, wanted {want}"


# ---- days ----


def differs_in_day(day: Mapping[str, Any]) -> str | None:
    """The first decision that differs, else the first pod of which something else became, else a sum."""
    answer, cluster = day["answer"], imported_day(day)
    player = pods_player(cluster, head_of_heap)
    decisions = [_line(player.now_ns, decision) for cycle in player.play() for decision in cycle.decisions]
    for number, (mine, recorded) in enumerate(zip_longest(decisions, answer["decisions"]), 1):
        if mine != recorded:
            return f"decision {number} of {len(answer['decisions'])}: {mine}, recorded {recorded}"
    pods = {name: (created_ns, one) for name, created_ns, one in pods_of(cluster.arrivals, player.executions)}
    evicted = [one for _, one in pods.values() if one is not None and one.was_ended]
    for recorded in answer["runs"]:
        mine = _run(recorded["pod"], *pods.pop(recorded["pod"], (0, None)))
        if mine != recorded:
            return f"run {mine}, recorded {recorded}"
    mine = {
        "further runs": list(pods),
        "preemptions": sum(line[2] == "preempt" for line in decisions),
        "evictions": len(evicted),
        "lost": sum(one.lost_ns for one in evicted) // SECOND_NS,
        "end": player.now_ns // SECOND_NS,
    }
    recorded = {name: answer.get(name, []) for name in mine}
    return None if mine == recorded else f"{mine}, recorded {recorded}"


def _arrivals(day: Mapping[str, Any]) -> Iterator[Arrival]:
    replacement = Replacement(day.get("replace") or "terminating")
    for each in day["workloads"]:
        pod, count = pod_of(each, day), each.get("count", 1)
        for number in range(max(count, 1)):
            named = replace(pod, name=f"{pod.name}-{number}") if count > 1 else pod
            submit_ns, duration_ns, grace_ns = (
                each.get(name, 0) * SECOND_NS for name in ("submit", "duration", "grace")
            )
            yield Arrival(named, submit_ns, duration_ns, grace_ns, replacement)


def _line(at_ns: int, decision: object) -> list[Any]:
    assert isinstance(decision, Decision), "the recorded days have no gangs"
    head = [at_ns // SECOND_NS, decision.pod.name]
    if decision.bound:
        return [*head, "bind", decision.node]
    return [*head, "fail"] if decision.node is None else [*head, "preempt", decision.node, list(decision.victims)]


def _run(name: str, created_ns: int, one: Execution | None) -> dict[str, Any]:
    """A pod as it is recorded: what is left out there is left out."""
    times_ns = (created_ns, None, None) if one is None else (created_ns, one.start_ns, one.end_ns)
    seconds = [None if at_ns is None else at_ns // SECOND_NS for at_ns in times_ns]
    found: dict[str, Any] = {"pod": name, **dict(zip(("submit", "start", "end"), seconds, strict=True))}
    if one is not None:
        gone_s = None if one.gone_ns is None else one.gone_ns // SECOND_NS
        more = {"node": one.nodes[0], "by": one.by, "lost": one.lost_ns // SECOND_NS or None, "gone": gone_s}
        found |= {what: value for what, value in more.items() if value is not None}
    return found


# ---- days by the rules in the whole machines ----


RULES = SchedulerAllocation(
    "kube-scheduler",
    partial(KubeScheduler, ties=head_of_heap),
    "with the ties of the recorded scheduler",
    options=KubeRules,
)


def imported_day(day: Mapping[str, Any]) -> Kubernetes:
    """A day as ``natjam import kubernetes`` would write it."""
    classes = classes_of(day)
    budgets = (
        BudgetSpec(each["name"], selector_of(each, "selector"), each["min_available"])
        for each in day.get("budgets", ())
    )
    nodes = tuple(map(node_of, day["nodes"]))
    return Kubernetes(State(nodes), tuple(classes.values()), tuple(budgets), tuple(_arrivals(day)))


def differs_by_rules(day: Mapping[str, Any]) -> str | None:
    """The first pod that does not start, leave or end in the machines when it did in the day."""
    with tempfile.TemporaryDirectory(prefix="natjam-rules-") as folder:
        write_saved(Path(folder) / "day.yaml", imported_day(day), ())
        experiment = load_experiment(Path(folder) / "day.yaml")
    scheduler = experiment.scheduler
    allocation = scheduler.allocation.model_copy(update={"name": "tests.peers.kube:RULES"})
    ruled = experiment.model_copy(update={"scheduler": scheduler.model_copy(update={"allocation": allocation})})
    return next(differences(simulated_history(resolve(ruled)), jobs_of(day)), None)


def jobs_of(day: Mapping[str, Any]) -> list[Job]:
    """The recorded runs; all that come in a pod's place are one job.  One that was evicted at the instant in which it
    was bound never has a container."""
    found: dict[str, Job] = {}
    for job in played.kube(day).jobs:
        name = job.name.partition(".")[0]
        first = found.setdefault(name, dataclasses.replace(job, name=name, stays=[], stays_ns=0))
        first.stays.extend(stay for stay in job.stays if stay.start_ns < stay.end_ns)
        found[name] = dataclasses.replace(first, stays_ns=max(first.stays_ns, job.stays_ns))
    return list(found.values())


# ---- gangs ----


def differs_in_gang(case: Mapping[str, Any]) -> str | None:
    """What natjam answers for a gang, if it is none of the recorded answers."""
    given, answer = case["gang"], case["answer"]
    pod = replace(pod_of(case["incoming"], case), group=given["name"])
    pods = tuple(replace(pod, name=f"{pod.name}-{number}") for number in range(case["count"]))
    gang = Gang(given["name"], pods, given["min"], given["priority"])
    groups = tuple(Group(each["name"], each["priority"], each.get("whole", False)) for each in case.get("groups") or ())
    decision = place_gang(replace(state_of(case), groups=groups), gang, head_of_heap)
    outcome = decision.outcome.value if decision.outcome in _GANG_OUTCOMES else "unschedulable"
    victims = [name for unit in decision.victims for name in unit.names]
    mine = (outcome, dict(Counter(decision.bound.values())), victims)
    answers = [
        (each["outcome"], each.get("nodes") or {}, each.get("victims") or [])
        for each in (answer, *answer.get("other", ()))
    ]
    return None if mine in answers else f"{mine}, recorded {answers}"


_GANG_OUTCOMES = (GangOutcome.FITS, GangOutcome.PREEMPTS)


DIFFERS: dict[str, Differs] = {
    "cases": differs_in_case,
    "days": differs_in_day,
    "gangs": differs_in_gang,
    "rules": differs_by_rules,
}


main = partial(hold, DIFFERS, __doc__ or "")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
