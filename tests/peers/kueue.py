"""Holds recorded answers of Kueue's own code against natjam: kueue.py cases|days|rules|loops FILE.jsonl.gz ...

Prints what differs, and ``N of M equal`` last; exit status 1 if any differs.  ``rules`` plays days through natjam's
whole machines, under ``news: at-once`` and ``overheads: none``.  Two more take recorded loops: ``search`` finds one
from the configuration alone in two minutes of CPU; ``changes`` finds none with each change that is proposed to end
it.  tests/data/PROVENANCE.md says where the records come from, docs/kueue.md how to hold natjam against
a newer Kueue.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.experiment.load import load_experiment
from emulator.loops.fixes import fixes
from emulator.loops.play import Loop, RunningSetDetector
from emulator.loops.search import search, shrunk
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import Mode, Ties, first_name
from emulator.policies.kueue.scheduler import Eviction, workloads_player
from emulator.policies.schedulers.play import End, Execution
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kueue import (
    DEFAULT_STRATEGIES,
    AdmissionCheck,
    Arrival,
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorPolicy,
    FlavorQuotas,
    Fungibility,
    Kueue,
    LocalQueue,
    PodSet,
    PodsReady,
    Policy,
    Preemption,
    Preference,
    QueueingStrategy,
    Quota,
    RequeuingTimestamp,
    ResourceGroup,
    ShareStrategy,
    StopChange,
    StopPolicy,
    Workload,
)
from emulator.sites.labels import Expression, LabelOperator, NodeTerm, Selector
from emulator.vocabulary import SECOND_NS
from tests.kueue_questions import Admitted, Incoming, State, assign, victims
from tests.peers import played
from tests.peers.holding import Differs, hold
from tests.peers.kube import taints_of, tolerations_of
from workloads.kubernetes.quantities import exact
from workloads.kueue.state import Counting, Transformation, TransformationStrategy
from workloads.saved import write_saved

MODES = {Mode.NO_FIT: "NoFit", Mode.PREEMPT: "Preempt", Mode.FIT: "Fit"}


# ---- the recorded form as our values ----

_ALL_AS_REQUESTED = Counting()


def cluster_of(record: Mapping[str, Any]) -> Cluster:
    """The cluster of a case or a day."""
    fair = record["fair_sharing"]
    strategies = None if fair is None else tuple(map(ShareStrategy, fair["strategies"] or ())) or DEFAULT_STRATEGIES
    cohorts = tuple(
        Cohort(each["name"], each.get("parent"), _groups(each.get("groups")), _weight(each))
        for each in record["cohorts"] or ()
    )
    local_queues = tuple(
        LocalQueue(each["name"], each.get("namespace", _NAMESPACE), each["queue"], _stop(each))
        for each in record.get("local_queues") or ()
    )
    flavors = tuple(
        Flavor(
            each["name"],
            each.get("labels") or {},
            taints_of(each),
            tolerations_of(each),
        )
        for each in record.get("flavors") or ()
    )
    queues, checks = tuple(map(_queue, record["queues"])), record.get("checks") or ()
    return Cluster(
        queues,
        cohorts,
        strategies,
        flavors,
        local_queues,
        {_NAMESPACE: {}, **(record.get("namespaces") or {})},
        tuple(AdmissionCheck(each["name"], (each["delay"] * SECOND_NS,)) for each in checks),
        _pods_ready(record.get("pods_ready")),
        tuple(
            StopChange(each["at"] * SECOND_NS, _stop(each), each.get("queue", ""), _local_queue(each))
            for each in record.get("changes") or ()
        ),
    )


def _local_queue(change: Mapping[str, Any]) -> tuple[str, str]:
    namespace, _, name = change.get("local", "").partition("/")
    return namespace, name


def _pods_ready(given: Mapping[str, Any] | None) -> PodsReady | None:
    if given is None:
        return None
    timeout_ns, base_ns, max_ns = (given[each] * SECOND_NS for each in ("timeout", "backoff_base", "backoff_max"))
    timestamp = RequeuingTimestamp(given.get("timestamp") or "Eviction")
    return PodsReady(timeout_ns, timestamp, base_ns, max_ns, given.get("limit"), bool(given.get("block")))


def _queue(given: Mapping[str, Any]) -> ClusterQueue:
    preemption, fungibility = given["preemption"], given["fungibility"]
    selector = given.get("namespace_selector") or {}
    borrow = preemption.get("borrow") or {}
    return ClusterQueue(
        given["name"],
        given.get("cohort"),
        _groups(given["groups"]),
        _weight(given),
        QueueingStrategy(given.get("strategy") or "BestEffortFIFO"),
        Preemption(
            Policy(preemption.get("within_queue") or "Never"),
            Policy(preemption.get("reclaim") or "Never"),
            BorrowWithinCohort(Policy(borrow.get("policy") or "Never"), borrow.get("max_priority")),
        ),
        Fungibility(
            FlavorPolicy(fungibility.get("when_can_borrow") or "MayStopSearch"),
            FlavorPolicy(fungibility.get("when_can_preempt") or "TryNextFlavor"),
            Preference(fungibility.get("preference") or "BorrowingOverPreemption"),
        ),
        _stop(given),
        Selector(selector.get("labels") or {}, tuple(map(_expression, selector.get("expressions") or ()))),
        {each["name"]: tuple(each.get("flavors") or ()) for each in given.get("checks") or ()},
    )


_NAMESPACE = "ns"
"""Where a workload is if its record does not say."""


def _stop(given: Mapping[str, Any]) -> StopPolicy:
    return StopPolicy(given.get("stop") or "None")


def _expression(given: Mapping[str, Any]) -> Expression:
    return Expression(given["key"], LabelOperator(given["op"]), tuple(given.get("values") or ()))


def _weight(given: Mapping[str, Any]) -> float:
    weight = given.get("weight")
    return 1.0 if weight is None else float(weight)


def _groups(given: list[dict[str, Any]] | None) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            tuple(group["resources"] or ()),
            tuple(
                FlavorQuotas(
                    flavor["name"],
                    {
                        resource: Quota(quota["nominal"], quota.get("borrowing"), quota.get("lending"))
                        for resource, quota in flavor["quotas"].items()
                    },
                )
                for flavor in group["flavors"]
            ),
        )
        for group in given or ()
    )


def workload_of(given: Mapping[str, Any], created: str = "created", counting: Counting = _ALL_AS_REQUESTED) -> Workload:
    """A workload, waiting or admitted; ``counting``: what of its requests counts."""
    podsets = tuple(
        PodSet(
            each["name"],
            each["count"],
            counting.counted(each["requests"]),
            selector=each.get("selector") or {},
            affinity=tuple(NodeTerm(tuple(map(_expression, term))) for term in each.get("affinity") or ()),
            tolerations=tolerations_of(each),
            min_count=each.get("min_count"),
        )
        for each in given["podsets"]
    )
    created_ns, namespace = given[created] * SECOND_NS, given.get("namespace", _NAMESPACE)
    local, most = (namespace, given.get("local", "")), given.get("max_execution")
    most_ns = None if most is None else most * SECOND_NS
    return Workload(given["name"], given["queue"], podsets, given["priority"], created_ns, *local, most_ns)


def _counting_of(record: Mapping[str, Any]) -> Counting:
    """What of the requests counts in a case or a day."""
    resources = record.get("resources") or {}
    return Counting(
        tuple(resources.get("exclude_prefixes") or ()),
        {
            each["input"]: Transformation(
                {name: exact(factor) for name, factor in each["outputs"].items()},
                TransformationStrategy(each.get("strategy") or "Retain"),
                each.get("multiply_by", ""),
            )
            for each in resources.get("transformations") or ()
        },
    )


def state_of(case: Mapping[str, Any]) -> State:
    """The cluster of a case, with what is admitted."""
    admitted = tuple(
        Admitted(
            workload_of(each),
            tuple(podset.get("flavors") or {} for podset in each["podsets"]),
            each.get("reserved", 0) * SECOND_NS,
            each.get("evicted", False),
        )
        for each in case["admitted"]
    )
    return State(cluster_of(case), admitted)


# ---- cases ----


class HeldBy(StrEnum):
    """Why no flavors are looked for."""

    LOCAL_QUEUE = "LocalQueueStopped"
    CLUSTER_QUEUE = "ClusterQueueStopped"
    NAMESPACE = "NamespaceMismatch"


def held_by(cluster: Cluster, workload: Workload) -> HeldBy | None:
    """What holds a workload back; the first that does."""
    if any(
        (each.namespace, each.name) == workload.local and each.stop is not StopPolicy.NONE
        for each in cluster.local_queues
    ):
        return HeldBy.LOCAL_QUEUE
    queue = next(each for each in cluster.queues if each.name == workload.queue)
    if queue.stop is not StopPolicy.NONE:
        return HeldBy.CLUSTER_QUEUE
    return None if queue.selects(workload.namespace, cluster.namespaces) else HeldBy.NAMESPACE


def differs_in_case(case: Mapping[str, Any]) -> str | None:
    """What natjam answers differently, whichever way ties between cohorts are broken: in Kueue that is chance."""
    found = _differs_with(case, first_name)
    if found is not None and any(_differs_with(case, Random(f"ties/{seed}").choice) is None for seed in range(_TIES)):
        return None
    return found


_TIES = 20


def _differs_with(case: Mapping[str, Any], ties: Ties) -> str | None:
    """What differs: the victims for the recorded flavors, or the flavors where Kueue chose them."""
    state, given, answer = state_of(case), case["incoming"], case["answer"]
    workload, counts = workload_of(given, counting=_counting_of(case)), tuple(answer.get("counts", {}).values())
    counted = _pods_counted(workload)
    if answer.get("counted", counted) != counted:
        return f"counted {counted}, recorded {answer['counted']}"
    held = held_by(state.cluster, workload)
    if held != answer.get("why"):
        return f"held by {held}, recorded {answer.get('why')}"
    if held is not None:
        return None
    if "borrow" in answer:
        assignment = assign(state, workload, ties)
        mode = MODES[assignment.mode]
        if mode != answer["mode"]:
            return f"mode {mode}, recorded {answer['mode']}"
        if mode != "NoFit":
            all_pods = tuple(each.count for each in workload.podsets)
            mine = (assignment.borrow, list(map(dict, assignment.flavors)), sorted(assignment.contested))
            recorded = (answer["borrow"], [each.get("flavors") or {} for each in given["podsets"]], _contested(given))
            mine, recorded = (*mine, assignment.counts or all_pods), (*recorded, counts or all_pods)
            if mine != recorded:
                return f"borrow, flavors, contested, pods {mine}, recorded {recorded}"
    if answer["mode"] != "Preempt":
        return None
    flavors = tuple(each.get("flavors") or {} for each in given["podsets"])
    chosen = victims(state, Incoming(workload, flavors, tuple(_contested(given)), counts), ties)
    mine = [{"name": each.name, "reason": each.reason.value} for each in chosen]
    if mine not in (answer["targets"], *answer.get("other", ())):
        return f"victims {mine}, recorded {answer['targets']}"
    return None


def _pods_counted(workload: Workload) -> dict[str, dict[str, int]]:
    """By podset, what counts of all of its pods."""
    return {each.name: {name: each.count * value for name, value in each.requests.items()} for each in workload.podsets}


def _contested(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = {(each["flavors"][resource], resource) for each in given["podsets"] for resource in each.get("preempt", ())}
    return sorted(pairs)


# ---- days and loops ----


def arrivals_of(day: Mapping[str, Any]) -> list[Arrival]:
    """The workloads of a day, or of a loop."""
    counting = _counting_of(day)
    return [
        Arrival(
            workload_of(each, "submit", counting),
            each["duration"] * SECOND_NS,
            tuple(None if ready < 0 else ready * SECOND_NS for ready in each.get("ready") or ()),
        )
        for each in day["workloads"]
    ]


def differs_in_day(record: Mapping[str, Any]) -> str | None:
    """The workload that differs first; else the loop, if it is another."""
    player = workloads_player(cluster_of(record), arrivals_of(record), record["release"] * SECOND_NS)
    detector, loop, happened = RunningSetDetector(), None, defaultdict[str, list[tuple[Any, ...]]](list)
    for cycle in player.play():
        now_s = player.now_ns // SECOND_NS
        for name in cycle.starts:
            happened[name].append((now_s, "admitted"))
        for decision in cycle.decisions:
            if isinstance(decision, Eviction):
                happened[decision.workload.name].append((now_s, "evicted", "", decision.reason.value))
                continue
            assert isinstance(decision, Decision)
            if decision.outcome is Outcome.ADMITTED:
                flavors = list(map(dict, decision.assignment.flavors))
                happened[decision.workload.name].append((now_s, "reserved", flavors, decision.assignment.counts))
            for victim in decision.victims:
                if victim.name in decision.evicted:
                    line = (now_s, "evicted", decision.workload.name, victim.reason.value)
                    happened[victim.name].append(line)
        if loop := detector.look(player, cycle):
            break
    answer, found = record["answer"], []
    for outcome in answer["outcomes"]:
        name = outcome["name"]
        mine, recorded = _lines(happened[name], player.executions[name]), _recorded_lines(outcome)
        differences = [line[0] for line in (*mine, *recorded) if (line in mine) != (line in recorded)]
        if differences:
            found.append((min(differences), outcome["name"], mine, recorded))
    if found:
        at, name, mine, recorded = min(found, key=lambda each: each[:2])
        return f"{len(found)} of {len(answer['outcomes'])} workloads; first at {at}: {name} {mine}, recorded {recorded}"
    seconds = None if loop is None else _seconds_of(loop)
    return None if seconds == answer.get("loop") else f"loop {seconds}, recorded {answer.get('loop')}"


def _lines(happened: Iterable[tuple[Any, ...]], executions: Iterable[Execution]) -> list[tuple[Any, ...]]:
    """What became of a workload, as (time, what, details)."""
    found, since_s = list[tuple[Any, ...]](), None
    for line in happened:
        at_s, what, *_ = line
        if what == "admitted":
            since_s = at_s
        if what == "evicted":
            line, since_s = (*line, 0 if since_s is None else at_s - since_s), None
        found.append(line)
    done = [
        (one.end_ns // SECOND_NS, "finished") for one in executions if one.end is End.DONE and one.end_ns is not None
    ]
    return sorted([*found, *done], key=lambda line: line[0])


def _recorded_lines(outcome: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    admitted = [(each["at"], "admitted") for each in outcome["admissions"]]
    reserved = [
        (each["at"], "reserved", list(each["flavors"].values()), tuple(each.get("counts", {}).values()))
        for each in outcome.get("reservations", outcome["admissions"])
    ]
    evictions = [(each["at"], "evicted", each["by"], each["reason"], each["lost"]) for each in outcome["evictions"]]
    finish = [] if outcome["finish"] is None else [(outcome["finish"], "finished")]
    return sorted([*admitted, *reserved, *evictions, *finish], key=lambda line: line[0])


def _seconds_of(loop: Loop) -> dict[str, Any]:
    times = {"at": loop.at_ns, "since": loop.since_ns, "period": loop.period_ns}
    return {**{name: value // SECOND_NS for name, value in times.items()}, "workloads": list(loop.workloads)}


# ---- days by the rules in the whole machines ----


def differs_by_rules(record: Mapping[str, Any]) -> str | None:
    """The first workload that does not start, leave or end in the machines when it did in the day."""
    with tempfile.TemporaryDirectory(prefix="natjam-rules-") as folder:
        imported = Kueue(cluster_of(record), arrivals=tuple(arrivals_of(record)))
        write_saved(Path(folder) / "day.yaml", imported, ())
        release = f"scheduler.allocation.release_s={record['release']}"
        experiment = load_experiment(Path(folder) / "day.yaml", [release])
    jobs = [replace(job, stays_ns=0) for job in played.kueue(record).jobs]  # its room is free before its quota is
    return next(played.differences(simulated_history(resolve(experiment)), jobs), None)


# ---- from the configuration alone ----

FIND_S, FIX_S, AGAIN_S = 120, 60, 5


def not_found(record: Mapping[str, Any]) -> str | None:
    """Whether no loop is found."""
    searched = search(cluster_of(record), (), "1", _seconds(FIND_S))
    return f"nothing found in {searched.plays} plays" if searched.found is None else None


def not_gone(record: Mapping[str, Any]) -> str | None:
    """Whether a loop is found, by other draws, with a change that was proposed to end it."""
    searched = search(cluster_of(record), (), "1", _seconds(FIND_S))
    if searched.found is None:
        return "nothing found"
    found = fixes(shrunk(searched.found), (), "1", _seconds(FIX_S))
    plays = []
    for fix in (*found.argued, *found.searched):
        again = search(fix.cluster, (), "another", _seconds(AGAIN_S))
        if again.found is not None:
            shown = fix.argument or f"{fix.plays} plays found none"
            return f"another after {again.plays} plays with {fix.text} ({shown})"
        plays.append(again.plays)
    least = min((fix.plays for fix in found.searched), default=0)
    print(
        f"{record['name']}: gone with {len(found.argued)} changes by argument, and {len(found.searched)} searched in"
        f" {least} plays or more; {len(found.refuted)} refuted before; tried again in {min(plays)} plays or more"
    )
    return None


def _seconds(most: float) -> Callable[[], bool]:
    """Whether so much CPU time has not passed yet."""
    end_s = time.process_time() + most
    return lambda: time.process_time() < end_s


DIFFERS: dict[str, Differs] = {
    "cases": differs_in_case,
    "days": differs_in_day,
    "loops": differs_in_day,
    "rules": differs_by_rules,
    "search": not_found,
    "changes": not_gone,
}


main = partial(hold, DIFFERS, __doc__ or "")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
