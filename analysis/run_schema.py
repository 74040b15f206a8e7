"""The schema of the files in a run directory.

It is checked once, when runs are loaded, so that later code can trust what it reads.  An altered or foreign file gives
one message that names the file and the column or key.  Columns and keys may be added within a release; known ones keep
their names, types and ranges.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NotRequired

import msgspec
import pyarrow
import pyarrow.compute as compute
from typing_extensions import TypedDict

from emulator.core.messages import JobState, Kind, Outcome
from emulator.errors import ConfigError, printable
from emulator.files.json_values import decoded
from emulator.records.history import Chooser, History
from emulator.records.history.overheads import OPERATIONS
from emulator.records.parquet_tables import tables_of

_LARGEST_SECONDS = 1e10
_LARGEST_COUNT = 2**31 - 1
_LARGEST_BYTES = 2**62
_OPTIONAL: dict[str, set[str]] = {
    "jobs": {"start_s", "finish_s", "completion_s", "deadline_s", "margin_s"},
    "tasks": {"outcome", "start_s", "finish_s"},
    "attempts": {
        *("outcome", "launched_s", "first_key_s", "input_ready_s", "suspend_asked_s", "ended_s", "slot_freed_s"),
        *("keys_done", "resumed_from"),
    },
    "operations": {"mechanism_real_ms", "key_real_ms"},
    "decisions": {
        *("requester", "kind", "task", "attempt", "container", "node", "score_name", "score", "containers"),
        *("reclaimable", "priority", "deadline_s", "laxity_s", "progress", "keys_done", "keys_total"),
        *("remaining_s", "started_s", "mechanism", "mechanism_numbers"),
    },
}
"""Columns that may have no value."""
_WORDS: dict[tuple[str, str], frozenset[str]] = {
    ("jobs", "state"): frozenset(JobState),
    ("operations", "operation"): frozenset(OPERATIONS),
    ("decisions", "by"): frozenset(Chooser),
    **{(table, "kind"): frozenset(Kind) for table in ("tasks", "attempts", "decisions")},
    **{(table, "outcome"): frozenset(Outcome) for table in ("tasks", "attempts")},
}
OF_A_CHOICE = ("decision", "t_s", "by", "rule", "requester", "left_out")
"""Columns of decisions that all candidates of one choice share."""
_OF_A_TASK = ("kind", "container", "node")
"""Columns of decisions that have values where tasks were chosen, and none where jobs were."""
_DISTINCT = {("jobs", "name"), ("attempts", "attempt"), ("attempts", "container")}
_NEGATIVE = {("jobs", "margin_s"), ("decisions", "priority"), ("decisions", "laxity_s"), ("decisions", "score")}


@cache
def _schemas() -> dict[str, pyarrow.Schema]:
    return {name: table.schema for name, table in tables_of(History([], [], [], [], 0)).items()}


def check_table(file: Path, name: str, table: pyarrow.Table) -> None:
    """Raise ConfigError unless ``table`` is a valid ``<name>.parquet`` of a run."""
    if name == "jobs" and not len(table):
        raise ConfigError(f"{file}: has no job; {_FOREIGN}")
    for field in _schemas()[name]:
        if table.column_names.count(field.name) != 1:
            often = "is missing" if field.name not in table.column_names else "appears twice"
            raise ConfigError(f"{file}: column '{field.name}' {often}; {_FOREIGN}")
        column = table.column(field.name)
        if column.type != field.type:
            raise ConfigError(f"{file}: column '{field.name}' is {column.type}, not {field.type}; {_FOREIGN}")
        if problem := _column_problem(name, field.name, column):
            raise ConfigError(f"{file}: column '{field.name}' {problem}; {_FOREIGN}")
    if name == "decisions" and (problem := _choices_problem(table)):
        raise ConfigError(f"{file}: {problem}; {_FOREIGN}")


def _choices_problem(table: pyarrow.Table) -> str | None:
    choices = table.group_by([*OF_A_CHOICE]).aggregate([])
    if len(choices) != len(table.column("decision").unique()):
        return "candidates of one decision differ in a column that they share"
    of_a_task = [by != Chooser.PREEMPTOR for by in table.column("by").to_pylist()]
    for column in _OF_A_TASK:
        if table.column(column).is_valid().to_pylist() != of_a_task:
            return f"column '{column}' does not fit column 'by'"
    return None


_FOREIGN = "it was altered since the run, or made by another release"


def _column_problem(table: str, name: str, column: pyarrow.ChunkedArray) -> str | None:
    if column.null_count and name not in _OPTIONAL[table]:
        return "lacks values"
    if pyarrow.types.is_list(column.type):
        return _spans_problem(column, "stopped_s" if name == "suspended_spans" else "began_s")
    known = column.drop_null()
    if (table, name) in _DISTINCT and len(known.unique()) < len(known):
        return "has a value twice"
    words = _WORDS.get((table, name))
    if words is not None and (others := set(known.unique().to_pylist()) - words):
        return f"holds {printable(min(others))!r:.60}, which is none of {', '.join(sorted(words))}"
    if pyarrow.types.is_string(column.type) or not len(known):
        return None
    return _range_problem(known, name, (table, name) in _NEGATIVE)


def _range_problem(known: Any, name: str, may_be_negative: bool) -> str | None:
    bounds = compute.call_function("min_max", [known]).as_py()
    low, high = bounds["min"], bounds["max"]
    is_time, most = name.endswith("_s"), _LARGEST_COUNT
    if not pyarrow.types.is_integer(known.type):
        most = _LARGEST_SECONDS
    elif name.endswith("_bytes"):
        most = _LARGEST_BYTES
    if pyarrow.types.is_floating(known.type) and not _all_finite(known):
        return "has a value that is not a number"
    if max(-low, high) > most or (low < 0 and not may_be_negative):
        return f"holds {low if low < 0 else high:g}, which {'no time' if is_time else 'no value there'} can be"
    return None


def _all_finite(values: Any) -> bool:
    return compute.call_function("all", [compute.call_function("is_finite", [values])]).as_py()


def _spans_problem(column: pyarrow.ChunkedArray, known_field: str) -> str | None:
    flat = column.combine_chunks().flatten()
    if flat.null_count or flat.field(known_field).null_count:
        return "lacks values"
    for field in flat.type:
        known = flat.field(field.name).drop_null()
        if len(known) and (problem := _range_problem(known, field.name, False)):
            return problem
    return None


# ---- summary.json ----


class _Job(TypedDict):
    name: str
    queue: str
    submit_s: float
    start_s: float | None
    finish_s: float | None
    completion_s: float | None
    deadline_s: float | None
    margin_s: float | None
    state: JobState
    attempts: int
    suspensions: int
    kills: int
    lost_work_s: float
    reason: str


class _Spread(TypedDict):
    p50: float | None
    p99: float | None


class _RealParts(TypedDict):
    heartbeat: _Spread
    key: _Spread
    mechanism: _Spread
    total: _Spread


class _Overhead(TypedDict):
    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    overruns: int
    real_ms: _RealParts


class _Work(TypedDict):
    useful_s: float
    lost_s: float
    overhead_s: NotRequired[float]
    wasted_fraction: float
    wasted_of_capacity: NotRequired[float | None]
    utilization: float | None


class _Storage(TypedDict):
    peak_bytes: int
    mean_bytes: NotRequired[float | None]
    io_fraction: float | None


class _Transactional(TypedDict):
    shortfall_container_s: float
    withheld_container_s: float


class _Latency(TypedDict):
    requests: int
    failed: int
    p50_real_ms: float | None
    p95_real_ms: float | None
    p99_real_ms: float | None


class _Web(_Latency):
    preempting: _Latency


class _Gap(TypedDict):
    process: str
    emulated_s: float
    until_s: float


class _Lag(TypedDict):
    p50_real_ms: float
    p99_real_ms: float
    max_real_ms: float
    p99_emulated_s: float
    bound_emulated_s: NotRequired[float]
    within_bound: NotRequired[bool]
    gaps: NotRequired[list[_Gap]]
    gap_bound_emulated_s: NotRequired[float]


class _Output(TypedDict):
    verified: bool
    keys_expected: int
    keys_written: int
    keys_lost: int
    keys_duplicated: int
    files_differing: int
    files_missing: int
    files_extra: int
    extra: list[str]
    files_expected: NotRequired[int]
    programs: NotRequired[int]
    programs_compared: NotRequired[int]
    files_given: NotRequired[int]


class _Machine(TypedDict):
    name: str
    clock_offset_ns: int
    hosts: NotRequired[list[str]]


class _Summary(TypedDict):
    name: str
    engine: str
    time_scale: float
    seed: int
    versions: dict[str, str]
    machines: list[_Machine]
    makespan_s: float | None
    real_s: float | None
    jobs: list[_Job]
    overheads: dict[str, _Overhead]
    work: _Work
    storage: NotRequired[_Storage]
    energy_j: NotRequired[float | None]
    transactional: NotRequired[_Transactional | None]
    web: NotRequired[_Web]
    swap_bytes: int
    checkpoint_bytes: int
    lag: _Lag | None
    output: _Output | None
    disturbed: NotRequired[bool]
    state: NotRequired[str]
    reason: NotRequired[str]
    files: NotRequired[dict[str, str]]


@cache
def _summary_decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Summary)


def decode_json_object(file: Path, data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``.  Raises ConfigError, which names ``file``."""
    try:
        return decoded(data, _object_decoder.decode, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{file}: {printable(error.message)}") from None


_object_decoder = msgspec.json.Decoder(dict[str, Any])


def check_summary(file: Path, data: bytes) -> None:
    """Raise ConfigError unless ``data`` is a valid ``summary.json`` of a run."""
    try:
        decoded(data, _summary_decoder().decode, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{file}: {printable(error.message)}; {_FOREIGN}") from None
