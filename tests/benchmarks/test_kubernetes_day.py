"""How long kube-scheduler's decisions of a day take: 5,000 pods on 100 nodes, in under three minutes.

What is held is the ratio of a scheduling cycle to an event of a bare heap, and that a cycle on 100 nodes costs little
more than one on 20, because it asks only the nodes that have changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from bare_heap import bare_event_s

from emulator.experiment.load import load_experiment
from emulator.policies.kubernetes.scheduler import pods_player
from emulator.policies.schedulers.play import Player
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kubernetes import HOSTNAME, AffinityTerm, Arrival, Kubernetes, Node, Pod, State
from emulator.sites.labels import Selector
from workloads.saved import write_saved

pytestmark = pytest.mark.slow

_DAY_NS = 24 * 3600 * 10**9
_CPU, _MEMORY = 16_000, 64 << 30
_SHAPES = ((500, 1 << 30), (1000, 4 << 30), (2000, 8 << 30), (4000, 12 << 30), (8000, 48 << 30))
"""What pods request: thousandths of a CPU, bytes."""


def arrivals(nodes: int, load: float, apart: float, pods: int = 0) -> list[Arrival]:
    """Pods of three priorities, 50 for each node or so many, which ask for ``load`` of all CPUs; a share ``apart`` of
    them keeps off nodes with others of its service."""
    random, pods = Random(1), pods or 50 * nodes
    drawn = [(random.choice(_SHAPES), random.expovariate(1.0), random.random() * _DAY_NS) for _ in range(pods)]
    unit_ns = load * nodes * _CPU * _DAY_NS / sum(cpu * share for (cpu, _), share, _ in drawn)
    found = []
    for number, ((cpu, memory), share, submit_ns) in enumerate(drawn):
        service = {"service": f"s{random.randrange(20)}"}
        keeps_off = (AffinityTerm(Selector(service), HOSTNAME),) if random.random() < apart else ()
        requests = {"cpu": cpu, "memory": memory}
        priority = random.choice((0, 0, 0, 100, 1000))
        pod = Pod(f"pod-{number}", priority, requests=requests, labels=service, anti_affinity=keeps_off)
        found.append(Arrival(pod, round(submit_ns), max(1, round(share * unit_ns)), 30 * 10**9))
    return found


def played(nodes: int, load: float, apart: float = 0.0) -> tuple[Player, float]:
    """A day, and the processor seconds that it took."""
    pods = arrivals(nodes, load, apart)
    machines = (Node(f"node-{number}", {"cpu": _CPU, "memory": _MEMORY, "pods": 110}) for number in range(nodes))
    began_s = time.process_time()
    player = pods_player(Kubernetes(State(tuple(machines)), arrivals=tuple(pods)))
    player.finish()
    return player, time.process_time() - began_s


@pytest.mark.parametrize(("load", "apart", "max_events"), [(0.95, 0.0, 300), (1.1, 0.0, 300), (0.95, 0.05, 1000)])
def test_a_day(load: float, apart: float, max_events: int) -> None:
    day, took_s = played(100, load, apart)
    events = took_s / day.decisions / bare_event_s()
    evictions = sum(one.was_ended for each in day.executions.values() for one in each)
    print(
        f"\nload {load}, {apart:.0%} apart: {day.decisions:,} cycles, {evictions:,} evictions, {took_s:.1f} s of CPU,"
        f" {day.decisions / took_s:,.0f} cycles a second; a cycle as {events:.0f} events of a heap"
    )
    assert events <= max_events


def test_a_day_in_the_whole_machines(tmp_path: Path) -> None:
    pods = arrivals(100, 0.95, 0.0)
    nodes = tuple(Node(f"node-{number}", {"cpu": _CPU, "memory": _MEMORY, "pods": 110}) for number in range(100))
    write_saved(tmp_path / "day.yaml", Kubernetes(State(nodes), arrivals=tuple(pods)), ())
    began_s = time.process_time()
    experiment = load_experiment(tmp_path / "day.yaml")
    loaded_s = time.process_time() - began_s
    history = simulated_history(resolve(experiment))
    took_s = time.process_time() - began_s
    taken = sum(getattr(each.why, "is_taken", False) for each in history.decisions)
    print(
        f"\n{len(pods):,} pods, {taken:,} evictions: {took_s:.1f} s of CPU, {loaded_s:.1f} s of them to load the site"
    )
    assert took_s / len(pods) / bare_event_s() <= 60_000


def test_a_cycle_does_not_cost_more_with_more_nodes() -> None:
    costs_s = []
    for nodes in (20, 100):
        day, took_s = played(nodes, 0.95)
        costs_s.append(took_s / day.decisions)
    print(f"\n{costs_s[1] / costs_s[0]:.2f} times on 100 nodes what a cycle takes on 20")
    assert costs_s[1] <= 2.5 * costs_s[0]
