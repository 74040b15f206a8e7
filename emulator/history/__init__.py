"""What happened in a run, folded from its journal: the single source of summaries and Parquet files."""

from emulator.history.decisions import Candidate, Decision
from emulator.history.fold import HistoryBuilder, fold
from emulator.history.overheads import overhead_statistics
from emulator.history.rows import AttemptRow, History, JobRow, Operation, SuspendedSpan, TaskRow

__all__ = [
    "AttemptRow",
    "Candidate",
    "Decision",
    "History",
    "HistoryBuilder",
    "JobRow",
    "Operation",
    "SuspendedSpan",
    "TaskRow",
    "fold",
    "overhead_statistics",
]
