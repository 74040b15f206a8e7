"""What importers share: checks of single fields, which raise BrokenRow, and lengths of tasks that did not finish."""

from __future__ import annotations

import bisect
import re
import statistics
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from emulator.files.strict import LONGEST_FILE_NAME, NAME_RULE, is_name
from workloads.errors import BrokenRow
from workloads.record import KINDS, Kind, Source
from workloads.schema import Unfinished

MAX_NS = 2**62
"""Latest time of any clock: over a hundred years after 1970; sums of such times fit in 64 bits."""
MAX_LENGTH_NS = 10**17
"""Longest length: about three years."""
MAX_BYTES = 10**18
_MAX_PRIORITY = 10**6
_MS = 10**6
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,17})", re.DOTALL)


def job_id(value: Any, column: str) -> str:
    """An id that can name a job and, quoted, its files; the rules are those for jobs of an experiment file."""
    if not isinstance(value, str):
        raise BrokenRow(column, f"{_shown(value)} is not text")
    if not is_name(value):
        raise BrokenRow(column, f"{_shown(value)} is not {NAME_RULE}")
    if value.startswith((".", "_")):
        raise BrokenRow(column, f"{_shown(value)} must not start with '.' or '_'")
    if len(quote(value, safe="")) > LONGEST_FILE_NAME:
        raise BrokenRow(column, f"{_shown(value)} is too long for a file name; shorten it")
    return value


def whole(value: Any, column: str, most: int, least: int = 0) -> int:
    """A whole number on [least, most]."""
    if type(value) is not int:
        raise BrokenRow(column, "is missing" if value is None else f"{_shown(value)} is not a whole number")
    if not least <= value <= most:
        raise BrokenRow(column, f"{value} is negative" if value < 0 <= least else f"{value} is not {least} to {most}")
    return value


def ms_to_ns(value: Any, column: str, most_ns: int = MAX_NS) -> int:
    """A whole number of milliseconds, in nanoseconds on [0, most_ns]."""
    return whole(value, column, most_ns // _MS) * _MS


def task_priority(value: Any, column: str) -> int | None:
    """The priority of a task, or None if there is none."""
    return None if value is None else whole(value, column, _MAX_PRIORITY, least=-_MAX_PRIORITY)


def task_kind(value: Any, column: str) -> Kind:
    """``map`` or ``reduce``."""
    if value not in KINDS:
        raise BrokenRow(column, f"{str(value)[:40]!r} is neither map nor reduce")
    return value


def text(value: Any, column: str) -> str | None:
    """Printable text, or None if there is none."""
    if value is None or (isinstance(value, str) and len(value) <= 1000 and value.isprintable()):
        return value or None
    raise BrokenRow(column, f"{_shown(value)} is not printable text of at most 1000 characters")


def json_object(value: Any, column: str | None) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BrokenRow(column, "is not an object")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


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


class SeenIds:
    """The ids so far, in little memory.

    Ids that end in a number are kept as ranges of numbers after a common prefix, so that ``job0``, ``job1``, ... of a
    trace of any length need only a few words.
    """

    def __init__(self) -> None:
        self._runs: dict[str, tuple[list[int], list[int]]] = {}
        """By prefix: the first and the last numbers of its ranges, sorted."""
        self._others: set[str] = set()

    def add(self, name: str | int, column: str | None, what: str = "id", of: str = "job") -> None:
        """Add an id, which the trace calls ``what``, of a job or what else it has.

        Raises BrokenRow: it is already that of an earlier one.
        """
        if not self._is_new(str(name)):
            raise BrokenRow(column, f"{name!r} is already the {what} of an earlier {of}; make {what}s unique")

    def _is_new(self, name: str) -> bool:
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None:
            known = name in self._others
            self._others.add(name)
            return not known
        firsts, lasts = self._runs.setdefault(numbered[1], ([], []))
        return _add_to_runs(firsts, lasts, int(numbered[2]))


def _add_to_runs(firsts: list[int], lasts: list[int], number: int) -> bool:
    place = bisect.bisect_right(firsts, number)
    if place and number <= lasts[place - 1]:
        return False
    joins_left = bool(place) and lasts[place - 1] == number - 1
    joins_right = place < len(firsts) and firsts[place] == number + 1
    if joins_left and joins_right:
        lasts[place - 1] = lasts.pop(place)
        firsts.pop(place)
    elif joins_left:
        lasts[place - 1] = number
    elif joins_right:
        firsts[place] = number
    else:
        firsts.insert(place, number)
        lasts.insert(place, number)
    return True
