"""The schema of the files in a run directory.

It is checked once, when runs are loaded, so that later code can trust what it reads.  An altered or foreign file gives
one message that names the file and the column or key.  Columns and keys may be added within a release; known ones keep
their names, types and ranges.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired

import msgspec
import pyarrow
from typing_extensions import TypedDict

from emulator.errors import ConfigError, printable
from emulator.files.json_values import decoded
from emulator.records.history import Chooser
from emulator.records.history.columns import Column, Mark, Unit, columns_of
from emulator.records.history.decisions import Choice
from emulator.records.parquet_tables import ROW_TYPES, type_of
from emulator.records.summary import JOB_COLUMNS

_LARGEST = {Unit.SECONDS: 1e10, Unit.NUMBER: 1e10, Unit.COUNT: 2**31 - 1, Unit.BYTES: 2**62}
OF_A_CHOICE = tuple(column.name for column in columns_of(Choice))
"""Columns of decisions that all candidates of one choice share."""
_OF_A_TASK = ("kind", "container", "node")
"""Columns of decisions that have values where tasks were chosen, and none where jobs were."""


def check_table(file: Path, name: str, table: pyarrow.Table) -> None:
    """Raise ConfigError unless ``table`` is a valid ``<name>.parquet`` of a run."""
    if name == "jobs" and not len(table):
        raise ConfigError(f"{file}: has no job; {_FOREIGN}")
    for column in columns_of(ROW_TYPES[name]):
        if table.column_names.count(column.name) != 1:
            often = "is missing" if column.name not in table.column_names else "appears twice"
            raise ConfigError(f"{file}: column '{column.name}' {often}; {_FOREIGN}")
        values = table.column(column.name)
        if values.type != type_of(column):
            raise ConfigError(f"{file}: column '{column.name}' is {values.type}, not {type_of(column)}; {_FOREIGN}")
        if problem := _column_problem(column, values):
            raise ConfigError(f"{file}: column '{column.name}' {problem}; {_FOREIGN}")
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


def _column_problem(column: Column, values: Any) -> str | None:
    if values.null_count and not column.nullable:
        return "lacks values"
    if column.unit is Unit.ROWS:
        structs = values.combine_chunks().flatten()
        problems = (_column_problem(field, structs.field(field.name)) for field in column.columns)
        return "lacks values" if structs.null_count else next(filter(None, problems), None)
    known = values.drop_null()
    if Mark.DISTINCT in column.marks and len(known.unique()) < len(known):
        return "has a value twice"
    if column.words and (others := set(known.unique().to_pylist()) - column.words):
        return f"holds {printable(min(others))!r:.60}, which is none of {', '.join(sorted(column.words))}"
    return _range_problem(column, known) if column.unit is not Unit.TEXT and len(known) else None


def _range_problem(column: Column, known: Any) -> str | None:
    bounds = _computed("min_max", known).as_py()
    low, high = bounds["min"], bounds["max"]
    if pyarrow.types.is_floating(known.type) and not _all_finite(known):
        return "has a value that is not a number"
    if max(-low, high) > _LARGEST[column.unit] or (low < 0 and Mark.SIGNED not in column.marks):
        what = "no time" if column.unit is Unit.SECONDS else "no value there"
        return f"holds {low if low < 0 else high:g}, which {what} can be"
    return None


def _all_finite(values: Any) -> bool:
    return _computed("all", _computed("is_finite", values)).as_py()


def _computed(what: str, values: Any) -> Any:
    import pyarrow.compute as compute  # here, because a run that only writes tables does not need this import

    return compute.call_function(what, [values])


# ---- summary.json ----


_JSON_TYPES: dict[Unit, Any] = {Unit.TEXT: str, Unit.COUNT: int, Unit.SECONDS: float}


def _json_type(column: Column) -> Any:
    words: Any = tuple(sorted(column.words))
    kind: Any = Literal[words] if words else _JSON_TYPES[column.unit]  # type: ignore
    return kind | None if column.nullable else kind


if TYPE_CHECKING:
    _Job = dict[str, Any]
else:
    _Job = msgspec.defstruct("Job", [(column.name, _json_type(column)) for column in JOB_COLUMNS])


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
    files_cancelled: NotRequired[int]


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
