"""The only error that trace importers raise, and how broken rows are skipped and counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from emulator.errors import ConfigError, printable


class TraceError(ConfigError):
    """A trace file cannot be used; the message names file, line, column (if any) and reason."""

    def __init__(self, path: Path, line: int | None, column: str | None, reason: str) -> None:
        self.path, self.line, self.column, self.reason = path, line, column, reason
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(printable(f"{where}: {reason}" if column is None else f"{where}: {column}: {reason}"))


class Problems:
    """Handles the broken rows of a trace: the first one raises; if lenient, each is skipped and counted."""

    def __init__(self, lenient: bool = False, most_kept: int = 100, switch: str = "--lenient") -> None:
        """``switch`` is what a user writes to have broken rows skipped."""
        self.lenient, self._switch = lenient, switch
        self.most_kept = most_kept
        self.count = 0
        self.kept: list[TraceError] = []
        """The first broken rows."""

    def add(self, path: Path, line: int | None, column: str | None, reason: str) -> None:
        """Report one broken row.  Raises TraceError unless lenient."""
        if not self.lenient:
            raise TraceError(path, line, column, f"{reason}; correct it, or skip broken rows with {self._switch}")
        self.count += 1
        if len(self.kept) < self.most_kept:
            self.kept.append(TraceError(path, line, column, reason))

    @contextlib.contextmanager
    def reported(self, path: Path, line: int) -> Iterator[None]:
        """A BrokenRow that is raised inside is a broken row of this line.  Raises TraceError unless lenient."""
        try:
            yield
        except BrokenRow as broken:
            self.add(path, line, broken.column, broken.reason)


class BrokenRow(Exception):
    """Raised inside an importer for a wrong field; the caller that knows file and line reports it."""

    def __init__(self, column: str | None, reason: str) -> None:
        super().__init__(reason)
        self.column, self.reason = column, reason

    def at(self, path: Path, line: int | None = None) -> TraceError:
        """The same as an error of the whole file."""
        return TraceError(path, line, self.column, self.reason)
