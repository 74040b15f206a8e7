"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text


def new_table(title: str | Text | None, words: Iterable[str | Text], numbers: Iterable[str | Text] = ()) -> Table:
    """A table without rows: first columns of words, aligned to the left, then columns of numbers, to the right."""
    table = Table(title=title, title_justify="left")
    for name in words:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
