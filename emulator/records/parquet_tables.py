"""The tables of a history as Arrow tables (``*.parquet`` of a run directory), with times in emulated seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy
import pyarrow
from pyarrow.lib import StringBuilder

from emulator.core.completions import RealCost
from emulator.core.effects import ExplainJobEviction
from emulator.core.resource_manager.preemptor import TRANSACTIONAL
from emulator.files.times import ns_to_seconds
from emulator.records.history import AttemptRow, Candidate, Decision, History, JobRow, Operation, TaskRow

_Column = tuple[str, Callable[[Sequence[Any]], pyarrow.Array]]
"""The column's name, and the function that makes its values from rows."""

_STRING, _COUNT, _SECONDS = pyarrow.string(), pyarrow.int64(), pyarrow.float64()


def _each(name: str, kind: pyarrow.DataType, value: Callable[[Any], Any]) -> _Column:
    return name, lambda rows: _array(list(map(value, rows)), kind)


def _array(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """What ``pyarrow.array`` makes; that imports pandas, which takes longer than all tables of a usual run."""
    if kind == _STRING:
        builder = StringBuilder()
        builder.append_values(values)
        return builder.finish()
    known = None
    if None in values:
        known = pyarrow.py_buffer(numpy.packbits([value is not None for value in values], bitorder="little"))
        values = [value or 0 for value in values]
    return pyarrow.Array.from_buffers(
        kind, len(values), [known, pyarrow.py_buffer(numpy.array(values, kind.to_pandas_dtype()))]
    )


def _each_list(name: str, columns: Sequence[_Column]) -> _Column:
    """Column of field ``name``, which has a list of items: a list of structs with these columns of the items."""
    get = attrgetter(name)

    def values(rows: Sequence[Any]) -> pyarrow.Array:
        lists = list(map(get, rows))
        items = list(chain.from_iterable(lists))
        ends = _array(list(accumulate(map(len, lists), initial=0)), pyarrow.int32())
        fields = {field: of_items(items) for field, of_items in columns}
        return pyarrow.ListArray.from_arrays(ends, pyarrow.StructArray.from_arrays(fields.values(), list(fields)))

    return name, values


def _text(name: str) -> _Column:
    return _each(name, _STRING, attrgetter(name))


def _enum(name: str) -> _Column:
    get = attrgetter(name)

    def value(row: Any) -> str | None:
        member = get(row)
        return None if member is None else member.value

    return _each(name, _STRING, value)


def _count(name: str) -> _Column:
    return _each(name, _COUNT, attrgetter(name))


def _seconds_of(name: str, field: str) -> _Column:
    get = attrgetter(field)

    def values(rows: Sequence[Any]) -> pyarrow.Array:
        return _array(list(map(ns_to_seconds, map(get, rows))), _SECONDS)

    return name, values


def _time(name: str) -> _Column:
    """Column ``<name>_s`` of field ``<name>_ns``."""
    return _seconds_of(f"{name}_s", f"{name}_ns")


def _real_ms(field: str) -> Callable[[Operation], float | None]:
    def value(row: Operation) -> float | None:
        cost: RealCost | None = row.cost
        return None if cost is None else getattr(cost, field) / 1e6

    return value


def _score(row: Candidate) -> float | None:
    is_time = row.score_name is not None and row.score_name.endswith("_ns")
    return ns_to_seconds(row.score) if is_time else row.score


def _mechanism_numbers(row: Candidate) -> str | None:
    return row.mechanism and " ".join(f"{what}={much}" for what, much in row.mechanism.numbers)


_JOB_COLUMNS = [
    _text("name"),
    _text("queue"),
    *map(_time, ("submit", "start", "finish", "completion", "deadline", "margin")),
    _enum("state"),
    *map(_count, ("attempts", "suspensions", "kills")),
    _time("useful"),
    _seconds_of("lost_work_s", "lost_ns"),
    _time("overhead"),
    _text("reason"),
]
_TASK_COLUMNS = [
    *map(_text, ("job", "queue")),
    _enum("kind"),
    _count("task"),
    _enum("outcome"),
    _time("length"),
    *map(_count, ("keys_total", "attempts", "suspensions", "kills")),
    *map(_time, ("start", "finish", "useful", "lost")),
]
_ATTEMPT_COLUMNS = [
    *map(_text, ("job", "queue")),
    _enum("kind"),
    _count("task"),
    *map(_text, ("attempt", "container", "node")),
    _enum("outcome"),
    _text("reason"),
    *map(_time, ("ready", "launched", "first_key", "input_ready", "suspend_asked", "ended", "slot_freed")),
    *map(_count, ("keys_start", "keys_done", "keys_total")),
    _text("resumed_from"),
    _each_list("suspended_spans", list(map(_time, ("stopped", "resumed", "asked", "freed", "resume_ready")))),
    *map(_time, ("busy", "active", "useful", "lost", "overhead")),
    _count("swapped_bytes"),
    _each_list("paging_spans", [*map(_time, ("began", "ended")), *map(_count, ("out_bytes", "in_bytes"))]),
]
_OPERATION_COLUMNS = [
    _each("operation", _STRING, attrgetter("name")),
    _text("container"),
    *map(_time, ("begin", "end")),
    _each("total_s", _SECONDS, lambda row: (row.end_ns - row.begin_ns) / 1e9),
    _each("mechanism_real_ms", _SECONDS, _real_ms("mechanism_real_ns")),
    _each("key_real_ms", _SECONDS, _real_ms("key_real_ns")),
    _count("swapped_bytes"),
]
_CANDIDATE_COLUMNS = [
    *map(_text, ("job",)),
    _each("kind", _STRING, lambda row: row.kind and row.kind.value),
    _count("task"),
    *map(_text, ("container", "node")),
    *map(_count, ("place", "chosen")),
    _each("score_name", _STRING, lambda row: row.score_name and row.score_name.replace("_ns", "_s")),
    _each("score", _SECONDS, _score),
    *map(_count, ("containers", "reclaimable", "priority")),
    *map(_time, ("deadline", "laxity")),
    _each("progress", _SECONDS, attrgetter("progress")),
    *map(_count, ("keys_done", "keys_total")),
    *map(_time, ("remaining", "started")),
    _each("mechanism", _STRING, lambda row: row.mechanism and row.mechanism.mechanism.value),
    _each("mechanism_numbers", _STRING, _mechanism_numbers),
]
_DECISIONS_A_CHUNK = 512


def _table(columns: list[_Column], rows: Sequence[Any]) -> pyarrow.Table:
    return pyarrow.table({name: values(rows) for name, values in columns})


def tables_of(history: History) -> dict[str, pyarrow.Table]:
    """All tables of a run, by name."""
    return {
        "jobs": jobs_table(history.jobs),
        "tasks": tasks_table(history.tasks),
        "attempts": attempts_table(history.attempts),
        "operations": operations_table(history.operations),
        "decisions": decisions_table(history.decisions, {row.container: row.attempt for row in history.attempts}),
    }


def jobs_table(rows: Sequence[JobRow]) -> pyarrow.Table:
    """One row for each job."""
    return _table(_JOB_COLUMNS, rows)


def tasks_table(rows: Sequence[TaskRow]) -> pyarrow.Table:
    """One row for each map or reduce."""
    return _table(_TASK_COLUMNS, rows)


def attempts_table(rows: Sequence[AttemptRow]) -> pyarrow.Table:
    """One row for each attempt, including those of ApplicationMasters."""
    return _table(_ATTEMPT_COLUMNS, rows)


def operations_table(rows: Sequence[Operation]) -> pyarrow.Table:
    """One row for each measured overhead; the real parts are null if the driver did not report them."""
    return _table(_OPERATION_COLUMNS, rows)


def decisions_table(decisions: Sequence[Decision], attempt_of: Mapping[str, str]) -> pyarrow.Table:
    """One row for each candidate of a choice of victims.

    The rows of one choice are consecutive and have the same ``decision``.  ``attempt_of`` has the attempt of each
    container.
    """
    chunks = range(0, max(1, len(decisions)), _DECISIONS_A_CHUNK)
    return pyarrow.concat_tables(
        _decisions_chunk(decisions[start : start + _DECISIONS_A_CHUNK], start, attempt_of) for start in chunks
    )


def _decisions_chunk(decisions: Sequence[Decision], start: int, attempt_of: Mapping[str, str]) -> pyarrow.Table:
    candidates: list[Candidate] = []
    heads: list[tuple[int, float, str, str, str | None, int]] = []
    for number, decision in enumerate(decisions, start=start + 1):
        mine = list(decision.candidates())
        candidates += mine
        why = decision.why
        requester = why.requester if isinstance(why, ExplainJobEviction) else None
        requester = "the transactional workload" if requester == TRANSACTIONAL else requester
        heads += [(number, decision.t_ns / 1e9, decision.by.value, why.rule, requester, why.left_out)] * len(mine)
    names = ("decision", "t_s", "by", "rule", "requester", "left_out")
    kinds = (_COUNT, _SECONDS, _STRING, _STRING, _STRING, _COUNT)
    columns = zip(*heads, strict=True) if heads else [()] * len(names)
    head = {name: _array(values, kind) for name, kind, values in zip(names, kinds, columns, strict=True)}
    attempts = [attempt_of.get(candidate.container or "") for candidate in candidates]
    table = _table(_CANDIDATE_COLUMNS, candidates)
    of_candidates = dict(zip(table.column_names, table.columns, strict=True))
    return pyarrow.table({**head, "attempt": _array(attempts, _STRING), **of_candidates})
