"""The data for the pages' JavaScript: one run's timeline and curves as compact columns.

A payload has the length of its JSON header as a little-endian u32, the header, padding to 8 bytes, and the columns in
order, each padded to 8 bytes.  For each column the header has its type (``u1``, ``i4``, ``f4``), its offset after the
header, and its number of values.  Times are whole ticks of ``tick_s``; -1 means none.
``analysis/report/web/payload.js`` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import orjson
import pyarrow
from numpy.typing import NDArray

from analysis.curves import Curve, at_work_of, floats, steps
from analysis.evictions import Decision, decisions_in, why
from analysis.timeline import STATES, Lane, Timeline, make_timeline
from emulator.core.settings import NodeSettings
from emulator.policies.capacity import Capacity
from emulator.policies.resources import PARTS
from emulator.records.history import Chooser
from emulator.vocabulary import Frozen

_TICKS = 2**31 - 2
_NONE = -1
_Array = NDArray[Any]


class RunTables(Frozen):
    """The tables of one run, as in its Parquet files, and other values for its timeline."""

    jobs: pyarrow.Table
    attempts: pyarrow.Table
    operations: pyarrow.Table
    decisions: pyarrow.Table
    nodes: Sequence[NodeSettings]
    """The nodes of the cluster, in the order to show."""
    end_s: float
    """When the run ended, or now."""
    available: Capacity | None = None
    """Containers available to jobs over time; None: always all."""

    def timeline(self) -> Timeline:
        """The attempts placed on containers."""
        return make_timeline(self.attempts, self.nodes, self.end_s)


def last_instant_s(jobs: pyarrow.Table, attempts: pyarrow.Table) -> float:
    """The end of a run: the last time in its tables."""
    columns = [
        _floats(jobs, "finish_s"),
        *(_floats(attempts, f"{name}_s") for name in ("ready", "first_key", "ended", "slot_freed")),
    ]
    known = numpy.concatenate(columns)
    return float(numpy.nanmax(known)) if numpy.any(~numpy.isnan(known)) else 0.0


def make_payload(tables: RunTables, timeline: Timeline, **more: Any) -> bytes:
    """The payload of one run; ``more`` goes into the header."""
    tick_s = max(0.001, tables.end_s / _TICKS)
    columns = _segments(timeline, tick_s) | _attempts(tables.attempts, tick_s) | _curves(tables, timeline)
    columns |= _handovers(timeline, tick_s) | _overheads(tables.operations) | _uses(timeline, tick_s)
    header = {
        "tick_s": tick_s,
        "end_s": tables.end_s,
        "containers": sum(node.containers for node in tables.nodes),
        "states": STATES,
        "lanes": [_lane(lane) for lane in timeline.lanes],
        "resources": list(timeline.total_use()),
        "jobs": tables.jobs.select(["name", "queue", "state", "submit_s", "completion_s", "deadline_s"]).to_pylist(),
        **_names(tables.attempts),
        "why": _reasons(tables),
        **more,
    }
    return _packed(header, columns)


def _lane(lane: Lane) -> dict[str, Any]:
    shown = {"node": lane.node, "name": lane.name, "stopped": lane.stopped}
    return {**shown, "resource": lane.resource, "whole": lane.whole} if lane.resource else shown


def _segments(timeline: Timeline, tick_s: float) -> dict[str, _Array]:
    return {
        "segment_lane": timeline.lane,
        "segment_state": timeline.state,
        "segment_start": _to_ticks(timeline.start_s, tick_s),
        "segment_end": _to_ticks(timeline.end_s, tick_s),
        "segment_attempt": timeline.attempt,
    }


def _handovers(timeline: Timeline, tick_s: float) -> dict[str, _Array]:
    found = timeline.handovers
    return {
        "handover_victim": numpy.array([handover.victim for handover in found], dtype=numpy.int32),
        "handover_successor": numpy.array([handover.successor for handover in found], dtype=numpy.int32),
        "handover_at": _to_ticks(numpy.array([handover.to_s for handover in found], dtype=float), tick_s),
    }


def _uses(timeline: Timeline, tick_s: float) -> dict[str, _Array]:
    """What containers hold of each resource: of each node, by its lane, and of the cluster as a share."""
    found = timeline.uses
    counts = [len(use.curve[0]) for use in found]
    times_s, amounts = (numpy.concatenate([use.curve[part] for use in found] or [[]]) for part in (0, 1))
    columns: dict[str, _Array] = {
        "use_lane": numpy.repeat(numpy.array([use.lane for use in found], dtype=numpy.int32), counts),
        "use_at": _to_ticks(times_s, tick_s),
        "use_amount": (amounts / PARTS).astype(numpy.float32),
    }
    for number, (whole, (at_s, held)) in enumerate(timeline.total_use().values()):
        columns[f"resource_{number}_s"] = at_s.astype(numpy.float32)
        columns[f"resource_{number}_share"] = (held / PARTS / (whole or 1)).astype(numpy.float32)
    return columns


def _attempts(attempts: pyarrow.Table, tick_s: float) -> dict[str, _Array]:
    rows = {name: place for place, name in enumerate(attempts.column("attempt").to_pylist())}
    resumed_from = [rows.get(name, _NONE) for name in attempts.column("resumed_from").to_pylist()]
    columns: dict[str, _Array] = {
        f"attempt_{name}": _to_ticks(_floats(attempts, f"{name}_s"), tick_s) for name in ("ready", "first_key", "ended")
    }
    counts = {
        f"attempt_{name}": _integers(attempts, name) for name in ("task", "keys_start", "keys_done", "keys_total")
    }
    return {**columns, **counts, "attempt_resumed_from": numpy.array(resumed_from, dtype=numpy.int32)}


def _names(attempts: pyarrow.Table) -> dict[str, Any]:
    """Texts of the attempts: one name for each; other texts as indices in a list of distinct ones."""
    texts: dict[str, Any] = {name: attempts.column(name).to_pylist() for name in ("attempt", "container")}
    for name in ("job", "kind", "outcome", "reason"):
        values = attempts.column(name).to_pylist()
        distinct = dict.fromkeys(text for text in values if text is not None)
        places = {text: place for place, text in enumerate(distinct)}
        texts[f"{name}_names"] = list(places)
        texts[f"{name}_places"] = [places.get(text, _NONE) for text in values]
    return texts


def _reasons(tables: RunTables) -> dict[str, str]:
    """Why attempts were chosen for eviction, by their rows."""
    reasons = _eviction_reasons(decisions_in(tables.decisions.to_pylist()))
    attempts = tables.attempts.column("attempt").to_pylist()
    return {str(row): reasons[attempt] for row, attempt in enumerate(attempts) if attempt in reasons}


def _curves(tables: RunTables, timeline: Timeline) -> dict[str, _Array]:
    """Step functions: times in seconds, each with the count from then on."""
    jobs, attempts = tables.jobs, tables.attempts
    stopped = numpy.flatnonzero(timeline.state == STATES.index("suspended"))
    left, came = _checkpointed(attempts)
    suspended_s = numpy.concatenate([timeline.start_s[stopped], left])
    resumed_s = numpy.concatenate([timeline.end_s[stopped], came])
    curves = {
        "at_work": at_work_of(attempts),
        "waiting_jobs": steps(_floats(jobs, "submit_s"), _first(_floats(jobs, "start_s"), _floats(jobs, "finish_s"))),
        "suspended": steps(suspended_s, resumed_s),
    }
    if tables.available is not None:
        curves["available"] = _available(tables.available, tables.end_s)
    columns: dict[str, _Array] = {}
    for name, (times_s, counts) in curves.items():
        columns |= {f"{name}_s": times_s.astype(numpy.float32), f"{name}_n": counts.astype(numpy.int32)}
    return columns


def _available(capacity: Capacity, end_s: float) -> Curve:
    steps = list(capacity.until_end(round(end_s * 1e9)))
    return numpy.array([start_ns / 1e9 for start_ns, _ in steps]), numpy.array([count for _, count in steps])


def _checkpointed(attempts: pyarrow.Table) -> tuple[_Array, _Array]:
    """When checkpointed tasks left their containers, and when they got one again (NaN: never)."""
    names = attempts.column("attempt").to_pylist()
    resumed = dict(zip(attempts.column("resumed_from").to_pylist(), _floats(attempts, "ready_s").tolist(), strict=True))
    outcomes, ended = attempts.column("outcome").to_pylist(), _floats(attempts, "ended_s").tolist()
    kept = [place for place, outcome in enumerate(outcomes) if outcome == "checkpointed"]
    left = numpy.array([ended[place] for place in kept], dtype=float)
    return left, numpy.array([resumed.get(names[place], float("nan")) for place in kept], dtype=float)


def _overheads(operations: pyarrow.Table) -> dict[str, _Array]:
    """The durations of each operation, in emulated seconds, sorted."""
    names = numpy.array(operations.column("operation").to_pylist(), dtype=object)
    totals = _floats(operations, "total_s")
    return {
        f"overhead_{name}": numpy.sort(totals[names == name]).astype(numpy.float32)
        for name in dict.fromkeys(names.tolist())
    }


# ---- columns ----


def _floats(table: pyarrow.Table, name: str) -> NDArray[numpy.float64]:
    return floats(table.column(name))


def _integers(table: pyarrow.Table, name: str) -> NDArray[numpy.int32]:
    return numpy.nan_to_num(_floats(table, name), nan=_NONE).astype(numpy.int32)


def _first(values: _Array, otherwise: _Array) -> _Array:
    return numpy.where(numpy.isnan(values), otherwise, values)


def _to_ticks(seconds: _Array, tick_s: float) -> NDArray[numpy.int32]:
    known = numpy.nan_to_num(seconds, nan=_NONE * tick_s)
    return numpy.rint(known / tick_s).astype(numpy.int32)


def _packed(header: Mapping[str, Any], columns: Mapping[str, _Array]) -> bytes:
    parts: list[bytes] = []
    places: dict[str, Sequence[Any]] = {}
    at = 0
    for name, values in columns.items():
        data = values.tobytes()
        places[name] = (values.dtype.str[1:], at, len(values))
        data += bytes(-len(data) % 8)
        parts.append(data)
        at += len(data)
    text = orjson.dumps({**header, "columns": places}, option=orjson.OPT_SERIALIZE_NUMPY)
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([struct.pack("<I", len(text)), text, *parts])


def _eviction_reasons(decisions: Iterable[Decision]) -> dict[str, str]:
    """By attempt, for the timeline: for each time it was chosen, a clause with the reason for it and for its job."""
    asked: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for decision in decisions:
        for row in decision.candidates:
            if not row["chosen"]:
                continue
            text = why(decision, row)
            if decision.by == Chooser.PREEMPTOR:
                asked[row["job"]] = f"{text}, for {decision.requester}"
                continue
            of_its_own = decision.by == Chooser.APPLICATION_MASTER  # so nobody asked its job
            job = "" if of_its_own else asked.get(row["job"], "")
            because = f"; its job by {job}" if job else ""
            reasons.setdefault(row["attempt"], []).append(f"at {decision.t_s:.1f} s by {text}{because}")
    return {attempt: "; ".join(clauses) for attempt, clauses in reasons.items()}
