"""The error that every trace importer raises, and the only one."""

from __future__ import annotations

from pathlib import Path

from emulator.errors import ConfigError


class TraceError(ConfigError):
    """A trace file that cannot be used: names file, line, column where there is one, and reason."""

    def __init__(self, path: Path, line: int | None, column: str | None, reason: str) -> None:
        self.path, self.line, self.column, self.reason = path, line, column, reason
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {reason}" if column is None else f"{where}: {column}: {reason}")
