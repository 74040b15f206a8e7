"""How long the play of a day takes on clusters whose pods have spread, affinity and preferences.

200 nodes with 2,000 pods and 1,200 nodes with 8,000, in three zones; what is held is processor time against that of an
event of a bare heap.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from bare_heap import bare_event_s

from emulator.policies.kubernetes.scheduler import pods_player
from emulator.sites.kubernetes import (
    HOSTNAME,
    ZONE,
    AffinityTerm,
    Arrival,
    Kubernetes,
    Node,
    Pod,
    PreferredPods,
    Spread,
    State,
    default_spread,
)
from emulator.sites.labels import Selector

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_DAY_NS = 24 * 3600 * 10**9
_CPU, _MEMORY = 16_000, 64 << 30
_SHAPES = ((500, 1 << 30), (1000, 4 << 30), (2000, 8 << 30), (4000, 12 << 30), (8000, 48 << 30))
"""What pods request: thousandths of a CPU, bytes."""


def _pod(name: str, service: int, requests: tuple[int, int]) -> Pod:
    """Of ten services two are spread over zones, one over nodes, one keeps off its like and one prefers to."""
    labels = {"app": f"a{service}"}
    mine = Selector(labels)
    by_default = default_spread(labels, [mine], None)
    apart = AffinityTerm(mine, HOSTNAME)
    spread = {
        0: (Spread(ZONE, 1, mine),),
        1: (Spread(ZONE, 1, mine),),
        3: (Spread(HOSTNAME, 2, mine), Spread(ZONE, 2, mine, False)),
    }
    return Pod(
        name,
        (0, 0, 0, 100, 1000)[service % 5],
        requests=dict(zip(("cpu", "memory"), requests, strict=True)),
        labels=labels,
        spread=spread.get(service % 10, by_default),
        anti_affinity=(apart,) if service % 10 == 2 else (),
        prefers_pods=(PreferredPods(apart, -50),) if service % 10 == 4 else (),
    )


def site(nodes: int, pods: int, load: float = 0.95) -> Kubernetes:
    """A cluster, and pods that ask for ``load`` of its CPUs over a day."""
    random = Random(1)
    machines = tuple(
        Node(f"n{n}", {"cpu": _CPU, "memory": _MEMORY, "pods": 110}, {ZONE: "abc"[n % 3]}) for n in range(nodes)
    )
    drawn = [
        (random.choice(_SHAPES), random.expovariate(1.0), random.random() * _DAY_NS, random.randrange(pods // 40))
        for _ in range(pods)
    ]
    unit_ns = load * nodes * _CPU * _DAY_NS / sum(cpu * share for (cpu, _), share, _, _ in drawn)
    arrivals = (
        Arrival(_pod(f"p{n}", service, requests), round(at_ns), max(1, round(share * unit_ns)), 30 * 10**9)
        for n, (requests, share, at_ns, service) in enumerate(drawn)
    )
    return Kubernetes(State(machines), arrivals=tuple(arrivals))


@pytest.mark.parametrize(("nodes", "pods"), [(200, 2_000), (1_200, 8_000)])
def test_a_day_of_a_site(nodes: int, pods: int) -> None:
    cluster = site(nodes, pods)
    began_s = time.process_time()
    player = pods_player(cluster)
    player.finish()
    took_s = time.process_time() - began_s
    print(f"\n{pods:,} pods on {nodes:,} nodes: {player.decisions:,} cycles, {took_s:.1f} s of CPU")
    assert took_s / pods / bare_event_s() <= 60_000
