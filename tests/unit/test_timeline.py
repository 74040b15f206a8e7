"""The timeline and its Perfetto file: containers hold one attempt at a time, and times and counts are the tables'."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
from msgspec import structs

from analysis.load import read_table
from analysis.timeline import STATES, Timeline, make_timeline
from emulator.experiment.load import load_experiment
from emulator.records.history import AttemptRow, PagingSpan
from emulator.records.parquet_tables import table_of
from emulator.resolved import nodes_of
from tests.histories import ATTEMPT, node
from tests.run_results import RunResults
from tests.simulated_runs import simulate

NODES = [node(f"node-{number}", 8) for number in range(1, 7)]
GANGS = Path(__file__).parents[2] / "workloads/catalog/gangs.yaml"


@pytest.fixture(scope="module", params=["checkpoint", "suspend", "kill"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("run"), "run", f"scheduler.mechanism={request.param}")


@pytest.fixture(scope="module")
def attempts(run: Path) -> pyarrow.Table:
    return read_table(run, "attempts")


@pytest.fixture(scope="module")
def timeline(attempts: pyarrow.Table) -> Timeline:
    return make_timeline(attempts, NODES, end_s=1e4)


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
    ends = Counter((event["id"], event["ph"]) for event in flows)
    assert flows
    assert set(ends) == {(number, ph) for number, _ in ends for ph in "sf"}
    assert set(ends.values()) == {1}
    for flow in flows:
        at, slices = flow["ts"], by_thread[flow["pid"], flow["tid"]]
        assert any(start - 1e-3 <= at <= end + 1e-3 for start, end in slices)


def test_perfetto_counts_the_suspensions_of_the_summary(run: Path, events: list[dict[str, Any]]) -> None:
    assert sum(event.get("cat") == "suspension" for event in events) == gave_way(run)
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {node.name for node in NODES}
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
    timeline = make_timeline(table_of(AttemptRow, [ATTEMPT]), [node("node-1", 2)], end_s=20.0)
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
    timeline = make_timeline(table_of(AttemptRow, [paged]), [node("node-1", 2)], end_s=20.0)
    found = [(STATES[state], start_s, end_s) for _, state, start_s, end_s, _ in segments(timeline)]
    assert found[1:3] == [("paging out", 1.7, 2.0), ("suspending", 2.0, 2.5)]
    assert found[4:7] == [("reduce", 3.0, 3.2), ("paging in", 3.2, 3.5), ("reduce", 3.5, 3.9)]


def test_a_run_in_which_nothing_has_happened_yet() -> None:
    timeline = make_timeline(table_of(AttemptRow, []), NODES, end_s=0.0)
    assert len(timeline.lanes) == 48
    assert numpy.size(timeline.lane) == 0


# ---- containers of several sizes ----


@pytest.fixture(scope="module", params=["suspend", "kill"])
def sized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = ("overheads=yarn-3", "calibration=null", f"scheduler.mechanism={request.param}")
    return simulate(tmp_path_factory.mktemp("run"), "run", *changes, file=GANGS)


def test_what_is_held_of_a_resource_is_never_more_than_the_node_has_and_adds_up(sized: Path) -> None:
    nodes = nodes_of(load_experiment(sized / "experiment.yaml").cluster)
    attempts = read_table(sized, "attempts")
    timeline = make_timeline(attempts, nodes, end_s=1e4)
    shown = [(timeline.lanes[use.lane].node, timeline.lanes[use.lane].name) for use in timeline.uses]
    sizes = {"node-1": ("cpu, of 8", "memory_gb, of 16"), "node-3": ("cpu, of 4", "memory_gb, of 32", "gpu, of 4")}
    assert shown[:2] == [("node-1", name) for name in sizes["node-1"]]
    assert shown[-3:] == [("node-3", name) for name in sizes["node-3"]]
    held = {}
    for use in timeline.uses:
        lane, (times_s, amounts) = timeline.lanes[use.lane], use.curve
        assert 0 <= min(amounts, default=0) <= max(amounts, default=0) <= lane.whole * 1000
        held[lane.node, lane.resource] = (numpy.diff(times_s) * amounts[:-1]).sum() / 1000
    wanted: Counter[tuple[str, str]] = Counter()
    for row in attempts.to_pylist():
        whole_s = row["slot_freed_s"] - row["ready_s"] if row["request"] else 0
        stopped_s = sum(span["resume_ready_s"] - span["freed_s"] for span in row["suspended_spans"])
        for name, amount in zip(("cpu", "memory_gb", "gpu"), row["request"], strict=False):
            spared_s = stopped_s if name == "cpu" else 0  # a stopped process goes on holding the others
            wanted[row["node"], name] += (whole_s - spared_s) * amount["thousandths"] / 1000
    assert held == pytest.approx({place: wanted[place] for place in held})
    assert sum(wanted.values()) == pytest.approx(sum(held.values()))


def test_perfetto_counts_what_is_held(sized: Path) -> None:
    events = json.loads((sized / "timeline.perfetto.json").read_bytes())
    counters = [event for event in events["traceEvents"] if event["ph"] == "C"]
    names = {event["pid"]: event["args"]["name"] for event in events["traceEvents"] if event["name"] == "process_name"}
    gpus = [event for event in counters if event["name"] == "gpu, of 4"]
    assert {names[event["pid"]] for event in gpus} == {"node-3"}
    assert max(event["args"]["gpu"] for event in gpus) == 4
    assert gpus[-1]["args"]["gpu"] == 0


def test_a_master_that_holds_nothing_has_no_bar_and_the_work_of_a_group_is_no_reduce(sized: Path) -> None:
    attempts = read_table(sized, "attempts")
    kinds = attempts.column("kind").to_pylist()
    assert "am" in kinds
    timeline = make_timeline(attempts, nodes_of(load_experiment(sized / "experiment.yaml").cluster), end_s=1e4)
    shown = {(kinds[attempt], STATES[state]) for _, state, _, _, attempt in segments(timeline)}
    assert not any("application master" in each or "am" in each for each in shown)
    assert {state for kind, state in shown if kind not in ("map", "reduce")}.isdisjoint({"map", "reduce"})
    assert "task" in {state for _, state in shown} or set(kinds) <= {"am", "map", "reduce"}
