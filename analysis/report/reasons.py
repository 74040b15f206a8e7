"""Why each attempt was chosen to give back its container, from ``decisions.parquet``, in words for the timeline."""

from __future__ import annotations

from collections import Counter

import pyarrow

from analysis.evictions import why_text
from emulator.records.history import Chooser


def eviction_reasons(decisions: pyarrow.Table) -> dict[str, str]:
    """By attempt: for each time it was chosen, a clause with the reason for it and for its job.

    Args:
        decisions: the table of ``decisions.parquet``; see ``analysis.load.load_decisions``.
    """
    candidates = _candidates(decisions)
    asked: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for row in decisions.to_pylist():  # Arrow's own filter would import pyarrow.compute: a twentieth of a short run
        if not row["chosen"]:
            continue
        text = why_text(row["rule"], row["by"], row, candidates[row["decision"]])
        if row["by"] == Chooser.PREEMPTOR:
            asked[row["job"]] = f"{text}, for {row['requester']}"
            continue
        of_its_own = row["by"] == Chooser.APPLICATION_MASTER  # so nobody asked its job
        job = "" if of_its_own else asked.get(row["job"], "")
        because = f"; its job by {job}" if job else ""
        reasons.setdefault(row["attempt"], []).append(f"at {row['t_s']:.1f} s by {text}{because}")
    return {attempt: "; ".join(clauses) for attempt, clauses in reasons.items()}


def _candidates(decisions: pyarrow.Table) -> dict[int, int]:
    """How many candidates each choice had, including those that are not in the table."""
    numbers, left_out = (decisions.column(name).to_pylist() for name in ("decision", "left_out"))
    kept = Counter(numbers)
    return {number: kept[number] + more for number, more in zip(numbers, left_out, strict=True)}
