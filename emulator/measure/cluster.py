"""Operations on a whole cluster, measured from the journal of a small live run.

First, ApplicationMasters with one map each arrive slowly: messages, timers, starts and heartbeats are timed under this
light load.  Then come jobs whose reduces all start at once, to measure how fast the hosts can launch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from emulator.core.completions import FirstKey, Launched
from emulator.core.effects import Launch, Send
from emulator.core.messages import CLIENT, NodeHeartbeatResponse, Start, StartContainer, Tick, TimerFired
from emulator.engine import Records
from emulator.experiment.model import Experiment
from emulator.live.session.session import LiveSession
from emulator.measure.processes import REFERENCE_MAPS
from emulator.measure.samples import WARM_UP_ROUNDS, Samples, Surroundings
from emulator.records.journal import Record
from emulator.resolved import resolve
from emulator.vocabulary import Work

_BETWEEN_SMALL_S, _FIRST_S, _SETTLE_S = 0.035, 0.5, 1.0
_BURST_REDUCES, _BETWEEN_BURSTS_S, _BURST_REDUCE_S = 47, 2.2, 0.6
_BURST_KEY_S = 0.05
"""Real seconds, as everything here.  Keys of 2 ms would use all cores while the rest of a burst is launched."""
_NODES, _CONTAINERS_PER_NODE = 6, 8
_HEARTBEAT_S = 0.1
_START_UP_REAL_S = 8.0


def measure_cluster(around: Surroundings) -> Samples:
    """Make the live run.  Besides the operations, the samples have one of ``hosts`` for each computer of the cluster.

    Raises:
        RunError: the run failed.
    """
    run = resolve(_experiment(around.rounds))
    last_ns = run.jobs[-1].submit_ns + round(_BETWEEN_BURSTS_S * 1e9)
    began_real_s = time.monotonic()

    def progress(_: object) -> None:
        around.progress(min(1.0, (time.monotonic() - began_real_s) / (last_ns / 1e9 + _START_UP_REAL_S)))

    output_dir = around.directory / "output"
    output_dir.mkdir()
    records: list[Record] = []
    with LiveSession(run, around.directory, str(output_dir), progress, began_real_s) as session:
        result = session.run(Records(records.extend))
    bursts_ns = round(_bursts_begin_s(around.rounds) * 1e9)
    samples = Samples()
    _time_light_load([record for record in records if _FIRST_S * 1e9 <= record.t_ns < bursts_ns], samples)
    _time_bursts(records, samples)
    for _ in result.machines:
        samples.add("hosts", 0)
    return samples


def _bursts_begin_s(rounds: int) -> float:
    return _FIRST_S + _BETWEEN_SMALL_S * (rounds + WARM_UP_ROUNDS) + _SETTLE_S


def _experiment(rounds: int) -> Experiment:
    small = rounds + WARM_UP_ROUNDS
    bursts = -(-rounds // (_BURST_REDUCES - 1)) + 1
    jobs: list[dict[str, Any]] = [
        {"name": f"small-{number}", "queue": "all", "submit_s": _FIRST_S + number * _BETWEEN_SMALL_S, "maps": 1}
        | {"map_s": 0.02, "reduces": 0}
        for number in range(small)
    ]
    jobs += [
        {"name": f"burst-{number}", "queue": "all", "submit_s": _bursts_begin_s(rounds) + number * _BETWEEN_BURSTS_S}
        | {"maps": REFERENCE_MAPS, "map_s": 0.1, "reduces": _BURST_REDUCES, "reduce_s": _BURST_REDUCE_S}
        | {"key_s": _BURST_KEY_S}
        for number in range(bursts)
    ]
    return Experiment.model_validate(
        {
            "name": "measure",
            "heartbeat_s": _HEARTBEAT_S,
            "protocol": {"slow_start": 1.0},
            "cluster": {"nodes": _NODES, "containers_per_node": _CONTAINERS_PER_NODE},
            "scheduler": {"allocation": {"name": "soft-cap", "queues": {"all": {"capacity": 1.0}}}},
            "workload": {"jobs": tuple(jobs)},
        }
    )


# ---- light load ----


def _time_light_load(records: list[Record], samples: Samples) -> None:
    for sent_ns, sender, record in _journeys(records):
        took_real_ns = record.t_ns - sent_ns
        if CLIENT in (sender, record.actor):
            continue  # it is on the ResourceManager's own host
        samples.add("message", took_real_ns)
        if type(record.message) is NodeHeartbeatResponse:
            samples.add("heartbeat_round_trip", record.t_ns - record.message.id)
    ordered_ns: dict[str, int] = {}
    for record in records:
        if isinstance(record.message, Tick | TimerFired):
            samples.add("timer_lag", record.t_ns - record.message.due_ns)
        elif type(record.message) is Start and record.message.container in ordered_ns:
            samples.add("application_start", record.t_ns - ordered_ns[record.message.container])
        for effect in record.effects:
            if type(effect) is Launch and effect.work is Work.MASTER:
                ordered_ns[effect.container] = record.t_ns


def _journeys(records: Iterable[Record]) -> Iterator[tuple[int, str, Record]]:
    """Every handled message from another machine: when it was sent, by whom, and its record."""
    under_way: dict[tuple[str, str], deque[tuple[int, str]]] = {}
    for record in records:
        for effect in record.effects:
            if type(effect) is Send:
                key = (effect.to, repr(effect.message))
                under_way.setdefault(key, deque()).append((record.t_ns, record.actor))
    for record in records:
        sent = under_way.get((record.actor, repr(record.message)))
        if sent:
            yield (*sent.popleft(), record)


# ---- bursts ----


def _time_bursts(records: list[Record], samples: Samples) -> None:
    """Times launches, from the journal: when each was ordered, and how long after that the process was forked."""
    ordered_ns: dict[str, int] = {}
    reduces: dict[str, str] = {}
    ready_ns: dict[str, int] = {}
    forked_ns: dict[str, list[int]] = {}
    for record in records:
        for effect in record.effects:
            if type(effect) is Launch and effect.work is Work.KEYS:
                ordered_ns[effect.container] = record.t_ns
                reduces[effect.container] = effect.job
        message = record.message
        if type(message) is StartContainer and message.work is Work.KEYS:
            ready_ns[message.container] = message.ready_ns
        elif type(message) is Launched and message.container in reduces:
            forked = ordered_ns[message.container] + message.cost.mechanism_real_ns
            forked_ns.setdefault(reduces[message.container], []).append(forked)
        elif type(message) is FirstKey and message.container in reduces:
            samples.add("schedule", message.at_ns - ready_ns[message.container])
    for job in sorted(forked_ns)[1:]:  # the first one warms up
        instants = sorted(forked_ns[job])
        for one, other in pairwise(instants):
            samples.add("launch_spacing", other - one)
