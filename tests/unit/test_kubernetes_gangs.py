"""Gangs of pods through days and whole machines, from an import to an answer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from emulator.core.messages import JobState
from emulator.core.messages import Outcome as AttemptOutcome
from emulator.experiment.load import load_experiment
from emulator.policies.kubernetes.cycle import Decision
from emulator.policies.kubernetes.gangs import GangDecision
from emulator.policies.kubernetes.scheduler import pods_player
from emulator.policies.schedulers.play import Player
from emulator.policies.schedulers.protocol import SchedulerError
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kubernetes import Arrival, Group, Kubernetes, Node, Pod, Replacement, State
from tests.commands import invoked
from workloads.kubernetes.cluster import read_kubernetes
from workloads.saved import write_saved
from workloads.setting_effects import Effect

S, GIB = 10**9, 1 << 30
NODES = (Node("a", {"cpu": 2000, "memory": 8 * GIB}), Node("b", {"cpu": 1000, "memory": 8 * GIB}))
CPU = {"cpu": 1000, "memory": GIB}
PAIR = Group("g", 9, min_count=2)


def pod(name: str, priority: int = 0, group: str = "") -> Pod:
    """A pod of one CPU."""
    return Pod(name, priority, requests=CPU, group=group)


LOW = [Arrival(pod(f"low-{number}"), 0, 100 * S, 3 * S) for number in range(3)]
GANG = [Arrival(pod(f"g-{number}", 9, "g"), (5 + number) * S, 20 * S) for number in range(2)]


def player_of(*arrivals: Arrival) -> Player:
    return pods_player(Kubernetes(State(NODES, groups=(PAIR,)), arrivals=arrivals))


def evictions(player: Player) -> int:
    return sum(one.was_ended for each in player.executions.values() for one in each)


def test_a_gang_waits_until_enough_of_it_are_there_and_starts_when_its_victims_are_gone() -> None:
    player = player_of(*LOW, *GANG)
    decided: list[tuple[float, bool, list[str]]] = []
    for decision in (each for cycle in player.play() for each in cycle.decisions):
        assert isinstance(decision, Decision | GangDecision)
        decided.append((player.now_ns / S, bool(decision.bound), [*decision.bound, *decision.evicted]))
    of_gang = [each for each in decided if 0 < each[0] < 10 and each[2]]
    assert of_gang == [
        (6, False, ["low-1", "low-2"]),
        (9, True, ["g-0", "g-1"]),
    ]
    assert {player.executions[name][0].start_ns for name in ("g-0", "g-1")} == {9 * S}
    assert evictions(player) == 2


def test_a_gang_with_too_few_pods_is_never_tried() -> None:
    player = player_of(*GANG[:1])
    assert (player.finish(), player.decisions) == ({"g-0": []}, 0)


def test_who_comes_in_a_victims_place_at_once_does_not_take_the_room_of_the_gang() -> None:
    low = [replace(each, grace_ns=0) for each in LOW]
    player = player_of(*low, *GANG)
    assert (player.finish()["g-0"][0].start_ns, evictions(player)) == (6 * S, 2)


def test_evictions_that_go_round_in_a_circle_end_the_play() -> None:
    gang = [replace(each, pod=replace(each.pod, priority=-1)) for each in GANG]
    low = [replace(each, grace_ns=0) for each in LOW]
    with pytest.raises(SchedulerError, match="at 6 s evictions of low-1 go round in a circle"):
        player_of(*low, *gang).finish()


def drawn(random: Random) -> Kubernetes:
    """Lone pods and gangs, some of which go whole."""
    nodes = tuple(Node(f"n{number}", {"cpu": 1000 * random.randint(1, 4), "memory": 8 * GIB}) for number in range(4))
    arrivals, groups = list[Arrival](), list[Group]()
    for number in range(14):
        submit_ns, length_ns = random.randrange(60) * S, random.randrange(5, 40) * S
        priority, grace_ns = random.choice((0, 0, 5, 9)), random.choice((0, 2, 7)) * S
        count = random.choice((1, 1, 2, 3, 4))
        if count > 1:
            groups.append(Group(f"g{number}", priority, random.random() < 0.5, random.randint(1, count)))
        for member in range(count):
            one = pod(f"p{number}-{member}", priority, f"g{number}" if count > 1 else "")
            at_ns = submit_ns + random.choice((0, 0, 3)) * S
            arrivals.append(Arrival(one, at_ns, length_ns, grace_ns, random.choice([*Replacement])))
    return Kubernetes(State(nodes, groups=tuple(groups)), arrivals=tuple(arrivals))


@pytest.mark.parametrize("seed", range(8))
def test_no_gang_runs_with_fewer_than_it_needs_when_it_starts(seed: int) -> None:
    cluster = drawn(Random(f"gangs-{seed}"))
    needs = {group.name: group.min_count for group in cluster.state.groups}
    first: Counter[str] = Counter()

    for decision in (each for cycle in pods_player(cluster).play() for each in cycle.decisions):
        if isinstance(decision, GangDecision) and decision.bound and not first[decision.pod.group]:
            first[decision.pod.group] = len(decision.bound)
    assert first, "some gang starts"
    assert all(count >= needs[group] for group, count in first.items())


@pytest.mark.parametrize("seed", [*range(6), 16, 33])
def test_gangs_go_through_the_machines_as_they_are_played(seed: int, tmp_path: Path) -> None:
    """In the last two a pod is evicted when it was just bound, and holds its room for its grace without a process."""
    cluster = drawn(Random(f"gangs-{seed}"))
    played = ((name, one) for name, each in pods_player(cluster).finish().items() for one in each)
    expected = {(name, one.nodes[0], one.start_ns) for name, one in played if one.start_ns != one.end_ns}
    write_saved(tmp_path / "mine.yaml", cluster, ())
    attempts = simulated_history(resolve(load_experiment(tmp_path / "mine.yaml"))).attempts
    assert {(row.job, row.node, row.launched_ns) for row in attempts if row.kind == "pod"} == expected


@pytest.mark.parametrize("mechanism", ["suspend", "checkpoint", "image"])
def test_what_is_taken_for_a_gang_goes_on_afterwards(mechanism: str, tmp_path: Path) -> None:
    write_saved(tmp_path / "mine.yaml", Kubernetes(State(NODES, groups=(PAIR,)), arrivals=(*LOW, *GANG)), ())
    options = [f"scheduler.mechanism={mechanism}", "protocol.kill_timeout_s=60", "storage.tier=ssd"]
    history = simulated_history(resolve(load_experiment(tmp_path / "mine.yaml", options)))
    assert len(history.jobs) == len(LOW) + len(GANG)
    assert {job.state for job in history.jobs} == {JobState.SUCCEEDED}
    assert {row.outcome for row in history.attempts if row.job.startswith("g-")} == {AttemptOutcome.SUCCEEDED}


OBJECTS = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "2"}}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
    {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": "PodGroup",
            "priorityClassName": "high",
        },
    },
    *(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ml"},
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "schedulingGroup": {"podGroupName": group},
                "priority": 9,
            },
        }
        for name, group in (("train-0", "train"), ("train-1", "train"), ("other", "unknown"))
    ),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": "ml"},
        "spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": 1}}}]},
    },
]


def test_who_answers_for_the_whole_gang(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    found = read_kubernetes([path])
    assert found.cluster.state.groups == (Group("ml/train", 9, True, 2),)
    decides = [each for each in found.losses if each.effect is Effect.DECIDES]
    assert [each.what for each in decides] == ["Pod ml/other.spec.schedulingGroup"]
    done = invoked("who", path, "train-1")
    title, gap, *answer = done.output.splitlines()
    assert title.startswith("decides at this site")
    assert "1 of 4 pods: its PodGroup is not in the files: it is placed without the others" in gap
    assert answer == [
        "ml/train (priority 9, 2 pods, 2 of them together) preempts",
        "ml/train-1 fits on a, and waits for the others",
        "ml/old (priority 0) would go",
    ]
