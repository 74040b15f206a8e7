"""``timeline.perfetto.json``: a run as Chrome trace events, for ui.perfetto.dev or chrome://tracing.

Nodes are processes and their containers threads.  An attempt is a slice, and its states are slices inside it.  Where
containers have sizes, what they hold of each resource of a node is a counter.  Times are emulated microseconds.  Each
eviction in which work was kept is one slice of category ``suspension``.  An arrow (flow) goes from there, or from a
kill, to the next attempt in the container.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy
import orjson
import pyarrow

from analysis.timeline import STATES, Timeline
from emulator.policies.resources import PARTS

_CHUNK_EVENTS = 2000
_SUSPENSIONS = frozenset({"checkpointing", "suspending"})
_ARGUMENTS = (
    "job",
    "queue",
    "kind",
    "task",
    "container",
    "outcome",
    "reason",
    "keys_done",
    "keys_total",
    "resumed_from",
)
Event = dict[str, Any]


def write_perfetto(path: Path, attempts: pyarrow.Table, timeline: Timeline) -> None:
    """Write the file as a stream.  Raises OSError."""
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        first = True
        for chunk in _chunks(trace_events(attempts, timeline)):
            file.write((b"" if first else b",\n") + b",\n".join(map(orjson.dumps, chunk)))
            first = False
        file.write(b"]}\n")


def _chunks(events: Iterable[Event]) -> Iterator[list[Event]]:
    rest = iter(events)
    while chunk := list(itertools.islice(rest, _CHUNK_EVENTS)):
        yield chunk


def trace_events(attempts: pyarrow.Table, timeline: Timeline) -> Iterator[Event]:
    """The events in order: names of processes and threads, counters, slices, flows."""
    processes = {node: number for number, node in enumerate(dict.fromkeys(lane.node for lane in timeline.lanes), 1)}
    places = [(processes[lane.node], 2 * lane.number + lane.stopped) for lane in timeline.lanes]
    yield from _names(processes, places, timeline)
    yield from _counters(places, timeline)
    rows = attempts.select(["attempt", *_ARGUMENTS]).to_pylist()
    yield from _slices(rows, places, timeline)
    yield from _flows(places, timeline)


def _names(processes: dict[str, int], places: list[tuple[int, int]], timeline: Timeline) -> Iterator[Event]:
    for node, process in processes.items():
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": node}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    for lane, (process, thread) in zip(timeline.lanes, places, strict=True):
        if lane.resource:
            continue  # a counter needs no thread
        order = lane.number + (1_000_000 if lane.stopped else 0)
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": lane.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": order}}


def _counters(places: list[tuple[int, int]], timeline: Timeline) -> Iterator[Event]:
    for use in timeline.uses:
        lane, (process, _) = timeline.lanes[use.lane], places[use.lane]
        times_s, amounts = use.curve
        for at_us, amount in zip(_us(times_s).tolist(), (amounts / PARTS).tolist(), strict=True):
            counter: Event = {"ph": "C", "name": lane.name, "pid": process, "tid": 0, "ts": at_us}
            yield {**counter, "args": {lane.resource: amount}}


def _slices(rows: list[Event], places: list[tuple[int, int]], timeline: Timeline) -> Iterator[Event]:
    """An attempt's stays on lanes as slices, with their states inside."""
    columns = (timeline.lane, timeline.attempt, timeline.state, _us(timeline.start_s), _us(timeline.end_s))
    segments = zip(*(column.tolist() for column in columns), strict=True)
    for (lane, attempt), stay in itertools.groupby(segments, key=lambda segment: segment[:2]):
        parts = list(stay)
        process, thread = places[lane]
        row = rows[attempt]
        arguments = {name: row[name] for name in _ARGUMENTS}
        where: Event = {"ph": "X", "pid": process, "tid": thread}
        yield {**where, "name": row["attempt"], "cat": "attempt", **_time(parts[0][3], parts[-1][4]), "args": arguments}
        for _, _, state, start_us, end_us in parts:
            name = STATES[state]
            category = "suspension" if name in _SUSPENSIONS else "state"
            yield {**where, "name": name, "cat": category, **_time(start_us, end_us)}


def _flows(places: list[tuple[int, int]], timeline: Timeline) -> Iterator[Event]:
    """Arrows from evicted attempts to their successors."""
    for number, handover in enumerate(timeline.handovers, 1):
        process, thread = places[handover.lane]
        for phase, at_s in (("s", handover.from_s), ("f", handover.to_s)):
            flow: Event = {"name": "eviction", "cat": "eviction", "id": number}
            yield {"ph": phase, "bp": "e", "pid": process, "tid": thread, "ts": round(at_s * 1e6, 3), **flow}


def _us(seconds: numpy.ndarray) -> numpy.ndarray:
    return numpy.round(seconds * 1e6, 3)


def _time(start_us: float, end_us: float) -> Event:
    return {"ts": start_us, "dur": round(end_us - start_us, 3)}
