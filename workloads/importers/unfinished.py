"""Lengths of tasks without a successful run in the trace: killed, failed, or cut off by the end of the trace."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from workloads.record import Source
from workloads.schema import Unfinished


def fill_lengths(
    finished_ns: Sequence[int | None], observed_ns: Sequence[int], rule: Unfinished
) -> list[tuple[int, Source] | None]:
    """Length and source of each task of one kind of one job; None: the task is left out.

    Args:
        finished_ns: measured lengths; None if there was no successful run.
        observed_ns: the longest observed run of each task; 0 if there was none.
        rule: for those without a measured length.
    """
    if None not in finished_ns:
        return [(max(1, length or 0), "measured") for length in finished_ns]
    typical_ns = 0
    if rule == "median":
        known = [length for length in finished_ns if length is not None] or [length for length in observed_ns if length]
        typical_ns = int(statistics.median(known)) if known else 0
    modelled_ns = {"median": lambda _: typical_ns, "observed": lambda seen: seen, "drop": lambda _: 0}[rule]
    filled: list[tuple[int, Source] | None] = []
    for length, seen in zip(finished_ns, observed_ns, strict=True):
        given = modelled_ns(seen)
        if length is not None:
            filled.append((max(1, length), "measured"))
        else:
            filled.append((given, "modelled") if given else None)
    return filled
