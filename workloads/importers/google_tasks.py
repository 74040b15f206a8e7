"""The state of each task in a stream of task events: a sorted table of the tasks of jobs that are still open.

The table consists of numpy arrays; a task's position is found by bisection of its key.  So a block of events takes a
few passes over the block and over the table, and the table is no longer than the number of tasks in open jobs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.importers.google_events import MAX_INDEX, Arrays

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(7)
_INDEX_BITS = 24
assert 1 << _INDEX_BITS > MAX_INDEX
NEVER = 2**62
NOTHING = -1
"""Value of ``last_event`` before any event."""

_COLUMNS: dict[str, int] = {
    "submit_us": NEVER,
    "last_event": NOTHING,
    "last_us": 0,
    "priority": 0,
    "attempts": 0,
    "evictions": 0,
    "lost_us": 0,
    "length_us": -1,
    "observed_us": 0,
    "start_us": -1,
    "machine": -1,
    "cpu": -1,
    "memory": -1,
}
"""By column of the table: the value for a new task."""


class TaskTable:
    """The tasks of open jobs."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)
        """Job and index of each task in one number; sorted."""
        self.columns: Arrays = {name: np.empty(0, np.int64) for name in _COLUMNS}

    def feed(self, events: Arrays) -> dict[str, Any]:
        """Add the next events.  Returns the runs that end in them: ``length_us``, ``how`` (the event), ``priority``."""
        is_state = events["event"] <= LOST
        keys = (events["job"][is_state] << _INDEX_BITS) | events["index"][is_state]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        time, event, machine, priority = (
            events[name][is_state][order] for name in ("time", "event", "machine", "priority")
        )
        if not len(keys):
            return {"length_us": keys, "how": keys, "priority": keys}
        is_first = np.append(True, keys[1:] != keys[:-1])
        is_last = np.append(is_first[1:], True)
        slots = self._slots(keys[is_first])
        slot = slots[np.cumsum(is_first) - 1]
        columns = self.columns
        before, before_us = np.empty_like(event), np.empty_like(time)
        before[1:], before_us[1:] = event[:-1], time[:-1]
        before[is_first], before_us[is_first] = columns["last_event"][slots], columns["last_us"][slots]
        ran = (event >= EVICT) & (before == SCHEDULE)
        length_us = np.where(ran, time - before_us, 0)
        self._add_up(slot, time, event, ran, length_us, before_us, machine)
        columns["priority"][slots] = priority[is_last]
        for name in ("cpu", "memory"):
            if name in events:
                columns[name][slots] = events[name][is_state][order][is_last]
        columns["last_event"][slots] = event[is_last]
        columns["last_us"][slots] = time[is_last]
        return {"length_us": length_us[ran], "how": event[ran], "priority": priority[ran]}

    def _add_up(self, slot: Any, time: Any, event: Any, ran: Any, length_us: Any, before_us: Any, machine: Any) -> None:
        columns = self.columns
        submitted = event == SUBMIT
        np.minimum.at(columns["submit_us"], slot[submitted], time[submitted])
        np.add.at(columns["attempts"], slot[event == SCHEDULE], 1)
        np.add.at(columns["evictions"], slot[event == EVICT], 1)
        lost = ran & (event != FINISH)
        np.add.at(columns["lost_us"], slot[lost], length_us[lost])
        np.maximum.at(columns["observed_us"], slot[ran], length_us[ran])
        done = ran & (event == FINISH)  # if there are several, the last one counts
        for name, values in (("length_us", length_us), ("start_us", before_us), ("machine", machine)):
            columns[name][slot[done]] = values[done]

    def _slots(self, keys: Any) -> Any:
        """Positions of these tasks (sorted, without duplicates); new tasks are inserted."""
        places = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), bool)
        inside = places < len(self.keys)
        known[inside] = self.keys[places[inside]] == keys[inside]
        new = ~known
        if new.any():
            self.columns = {name: np.insert(self.columns[name], places[new], first) for name, first in _COLUMNS.items()}
            self.keys = np.insert(self.keys, places[new], keys[new])
            places = np.searchsorted(self.keys, keys)
        return places

    def of_jobs(self, jobs: Any) -> tuple[Any, Any]:
        """For each of these jobs (an array of numbers): the first position of its tasks, and one past the last."""
        return np.searchsorted(self.keys, jobs << _INDEX_BITS), np.searchsorted(self.keys, (jobs + 1) << _INDEX_BITS)

    def remove(self, spans: list[tuple[int, int]]) -> None:
        """Remove the tasks at these positions."""
        if not spans:
            return
        keep = np.ones(len(self.keys), bool)
        for first, past in spans:
            keep[first:past] = False
        self.keys = self.keys[keep]
        self.columns = {name: column[keep] for name, column in self.columns.items()}
