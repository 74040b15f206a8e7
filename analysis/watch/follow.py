"""The state of a run in progress: tables made from its journal as it grows, and the payload that the page draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from analysis.report.payload import RunTables, last_instant_s, make_payload
from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.records.history import HistoryBuilder
from emulator.records.journal import decode_record
from emulator.records.parquet_tables import tables_of

_LAGS_KEPT = 2000


class FollowedRun:
    """One run, from its ``begin`` message on; later messages are ``status``."""

    def __init__(self, begin: Mapping[str, Any]) -> None:
        self.version = 0
        """Increases with every message."""
        self._title: str = begin["title"]
        self._nodes = msgspec.convert(begin["nodes"], list[NodeSettings])
        self._history = HistoryBuilder(msgspec.convert(begin["jobs"], list[JobSpec]))
        self._status: Mapping[str, Any] = {}
        self._lag: list[tuple[float, float]] = []

    def take(self, status: Mapping[str, Any]) -> None:
        """Add a newer status, and the records in it.  Raises JournalError."""
        for line in status["journal"]:
            self._history.add(decode_record(line))
        self._status = {name: value for name, value in status.items() if name not in ("kind", "journal")}
        if status["lag_p99_real_ms"] is not None:
            self._lag.append((status["emulated_s"], status["lag_p99_real_ms"]))
        if len(self._lag) > _LAGS_KEPT:
            del self._lag[::2]
        self.version += 1

    def payload(self, ended: str | None) -> bytes:
        """The data that the page draws; ``ended`` says how the run ended, None while it is running."""
        history = self._history.tables()
        made = tables_of(history)
        jobs, attempts = made["jobs"], made["attempts"]
        end_s = max(self._status.get("emulated_s", 0.0), last_instant_s(jobs, attempts))
        tables = RunTables(jobs, attempts, made["operations"], made["decisions"], self._nodes, end_s)
        lag = {"lag_s": [at_s for at_s, _ in self._lag], "lag_p99_real_ms": [lag_ms for _, lag_ms in self._lag]}
        return make_payload(
            tables, tables.timeline(), title=self._title, status=self._status, version=self.version, ended=ended, **lag
        )
