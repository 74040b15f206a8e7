"""The timeline and its Perfetto file: containers hold one attempt at a time, and times and counts are the tables'."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy
import pyarrow
import pytest
from msgspec import structs

from analysis.load import read_table
from analysis.timeline import STATES, Timeline, make_timeline
from emulator.records.history import AttemptRow, PagingSpan
from emulator.records.parquet_tables import table_of
from tests.histories import ATTEMPT
from tests.run_results import RunResults
from tests.simulated_runs import simulate

NODES = [f"node-{number}" for number in range(1, 7)]
NUMBER = {"type": "number", "minimum": 0}
TRACE_EVENTS = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "pid", "tid", "name"],
                "properties": {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "name": {"type": "string"}},
                "oneOf": [
                    {
                        "properties": {"ph": {"const": "X"}, "ts": NUMBER, "dur": NUMBER, "cat": {"type": "string"}},
                        "required": ["ts", "dur", "cat"],
                    },
                    {
                        "properties": {
                            "ph": {"const": "M"},
                            "name": {
                                "enum": ["process_name", "process_sort_index", "thread_name", "thread_sort_index"]
                            },
                            "args": {"type": "object", "minProperties": 1, "maxProperties": 1},
                        },
                        "required": ["args"],
                    },
                    {
                        "properties": {
                            "ph": {"enum": ["s", "f"]},
                            "ts": NUMBER,
                            "id": {"type": "integer"},
                            "cat": {"type": "string"},
                            "bp": {"const": "e"},
                        },
                        "required": ["ts", "id", "cat"],
                    },
                ],
            },
        },
    },
}
"""Of the trace event format, what these files use: complete events, metadata, flows (JSON object format).

Perfetto's trace processor is no test dependency: its Python package downloads the program itself when it is used."""


@pytest.fixture(scope="module", params=["checkpoint", "suspend", "kill"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("run"), "run", f"scheduler.mechanism={request.param}")


@pytest.fixture(scope="module")
def attempts(run: Path) -> pyarrow.Table:
    return read_table(run, "attempts")


@pytest.fixture(scope="module")
def timeline(attempts: pyarrow.Table) -> Timeline:
    return make_timeline(attempts, NODES, 8, end_s=1e4)


@pytest.fixture(scope="module")
def events(run: Path) -> list[dict[str, Any]]:
    return json.loads((run / "timeline.perfetto.json").read_bytes())["traceEvents"]


def gave_way(run: Path) -> int:
    return sum(job["suspensions"] for job in RunResults(run).summary["jobs"])


def segments(timeline: Timeline) -> Iterator[tuple[int, int, float, float, int]]:
    """Lane, state, start, end and attempt of each."""
    columns = (timeline.lane, timeline.state, timeline.start_s, timeline.end_s, timeline.attempt)
    return zip(*(column.tolist() for column in columns), strict=True)


def test_a_container_holds_one_attempt_at_a_time(timeline: Timeline) -> None:
    same = timeline.lane[1:] == timeline.lane[:-1]
    assert (timeline.start_s[1:][same] >= timeline.end_s[:-1][same]).all()
    assert (timeline.end_s >= timeline.start_s).all()
    assert sum(not lane.stopped for lane in timeline.lanes) == 48, "as many rows as the cluster has containers"


def test_attempts_lie_on_their_node_and_work_for_as_long_as_the_table_says(
    timeline: Timeline, attempts: pyarrow.Table
) -> None:
    rows = attempts.to_pylist()
    spent: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for lane, state, start_s, end_s, attempt in segments(timeline):
        assert timeline.lanes[lane].node == rows[attempt]["node"]
        assert timeline.lanes[lane].stopped == (STATES[state] == "suspended")
        spent[attempt][STATES[state]] += end_s - start_s
    for attempt, row in enumerate(rows):
        stopped_s = sum(span["resume_ready_s"] - span["freed_s"] for span in row["suspended_spans"])
        until_s = row["slot_freed_s"] if row["outcome"] == "checkpointed" else row["ended_s"]
        assert sum(spent[attempt].values()) == pytest.approx(until_s - row["ready_s"])
        assert spent[attempt]["suspended"] == pytest.approx(stopped_s)


def test_the_perfetto_file_is_in_the_trace_event_format(run: Path) -> None:
    jsonschema.Draft202012Validator(TRACE_EVENTS).validate(json.loads((run / "timeline.perfetto.json").read_bytes()))


def test_perfetto_slices_nest_and_flows_begin_and_end_in_slices(events: list[dict[str, Any]]) -> None:
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in by_thread.values():
        open_until: list[float] = []
        for start, end in sorted(slices, key=lambda times: (times[0], -times[1])):
            while open_until and open_until[-1] <= start + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-3
            open_until.append(end)
    flows = [event for event in events if event["ph"] in "sf"]
    assert Counter(event["ph"] for event in flows)["s"] == Counter(event["ph"] for event in flows)["f"] > 0
    for flow in flows:
        at, slices = flow["ts"], by_thread[flow["pid"], flow["tid"]]
        assert any(start - 1e-3 <= at <= end + 1e-3 for start, end in slices)


def test_perfetto_counts_the_suspensions_of_the_summary(run: Path, events: list[dict[str, Any]]) -> None:
    assert sum(event.get("cat") == "suspension" for event in events) == gave_way(run)
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == set(NODES)
    attempts = {event["name"]: event["args"] for event in events if event.get("cat") == "attempt"}
    for row in RunResults(run).table("attempts"):
        assert attempts[row["attempt"]].items() <= row.items()


def test_handovers_lead_from_a_victim_to_what_came_in_its_place(timeline: Timeline, attempts: pyarrow.Table) -> None:
    rows = attempts.to_pylist()
    assert timeline.handovers
    for handover in timeline.handovers:
        victim, successor = rows[handover.victim], rows[handover.successor]
        assert victim["node"] == successor["node"]
        assert victim["queue"] == "research"
        assert successor["queue"] == "production"
        assert handover.from_s <= handover.to_s


def test_a_process_that_was_never_resumed_and_one_whose_container_was_not_freed() -> None:
    timeline = make_timeline(table_of(AttemptRow, [ATTEMPT]), ["node-1"], 2, end_s=20.0)
    found = [
        (STATES[state], timeline.lanes[lane].stopped, start_s, end_s)
        for lane, state, start_s, end_s, _ in segments(timeline)
    ]
    assert found == [
        ("starting", False, 1.5, 1.7),
        ("reduce", False, 1.7, 2.0),
        ("suspending", False, 2.0, 2.5),
        ("resuming", False, 2.9, 3.0),
        ("reduce", False, 3.0, 3.9),
        ("suspending", False, 3.9, 4.0),
        ("suspended", False, 4.0, 9.0),
        ("suspended", True, 2.5, 2.9),
    ]


def test_paging_is_shown_as_part_of_the_work() -> None:
    """Of two spans in one attempt, one is cut where it was stopped."""
    spans = (PagingSpan(1_700_000_000, 2_050_000_000, 5, 0), PagingSpan(3_200_000_000, 3_500_000_000, 2, 9))
    paged = structs.replace(ATTEMPT, paging_spans=spans)
    timeline = make_timeline(table_of(AttemptRow, [paged]), ["node-1"], 2, end_s=20.0)
    found = [(STATES[state], start_s, end_s) for _, state, start_s, end_s, _ in segments(timeline)]
    assert found[1:3] == [("paging out", 1.7, 2.0), ("suspending", 2.0, 2.5)]
    assert found[4:7] == [("reduce", 3.0, 3.2), ("paging in", 3.2, 3.5), ("reduce", 3.5, 3.9)]


def test_a_run_in_which_nothing_has_happened_yet() -> None:
    timeline = make_timeline(table_of(AttemptRow, []), NODES, 8, end_s=0.0)
    assert len(timeline.lanes) == 48
    assert numpy.size(timeline.lane) == 0
