"""The history of a run, computed from its journal: the single source of summaries and Parquet files."""

from emulator.records.history.columns import columns_of
from emulator.records.history.containers import Operation, PagingSpan, SuspendedSpan
from emulator.records.history.decisions import Candidate, Chooser, Decision
from emulator.records.history.fold import HistoryBuilder
from emulator.records.history.overheads import OverheadTimes, percentiles
from emulator.records.history.rows import AttemptRow, GroupRow, ImageRow, JobRow, TaskRow, WaitRow
from emulator.records.history.tables import History, joined

__all__ = [
    "AttemptRow",
    "Candidate",
    "Chooser",
    "Decision",
    "GroupRow",
    "History",
    "HistoryBuilder",
    "ImageRow",
    "JobRow",
    "Operation",
    "OverheadTimes",
    "PagingSpan",
    "SuspendedSpan",
    "TaskRow",
    "WaitRow",
    "columns_of",
    "joined",
    "percentiles",
]
