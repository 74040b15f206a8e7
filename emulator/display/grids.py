"""Tables that the terminal and the pages of ``natjam report`` both show: figures, each with its text, in columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from emulator.display.tables import Column, FittedTable, Kind, new_table
from emulator.vocabulary import Frozen

ONLY_ON_PAGES = -1
"""The importance of columns that the terminal never shows."""
_COLOURS = {"good": "green", "bad": "red"}


class Cell(Frozen):
    """One figure: its exact value, and the text to show."""

    value: float | int | str | None
    text: str
    tone: str = ""
    """``good``, ``bad`` or nothing."""

    @property
    def is_text(self) -> bool:
        """Whether it is left-aligned, as words are."""
        return isinstance(self.value, str)


class Grid(Frozen):
    """A table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def heads(self) -> list[str]:
        """Of all columns."""
        return [str(column.head) for column in self.columns]

    def is_text(self, column: int) -> bool:
        """Whether a column has words."""
        return self.columns[column].kind is not Kind.NUMBER


def text(value: object, tone: str = "") -> Cell:
    """A cell with text."""
    return Cell(str(value), str(value), tone)


def figure(value: float | None, unit: str = "", tone: str = "") -> Cell:
    """A number with three or four significant digits, or a dash for None."""
    if value is None:
        return Cell(None, "-", tone)
    if isinstance(value, int):
        return Cell(value, f"{value:,}{unit}", tone)
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return Cell(value, f"{value:,.{decimals}f}{unit}", tone)


def percent(value: float | None) -> Cell:
    """A share as percent."""
    return Cell(value, "-" if value is None else f"{100 * value:.1f}%")


def on_terminal(title: str, grid: Grid, also_in: str, most: int | None = None) -> FittedTable:
    """The table for the terminal, with ``most`` rows; ``also_in`` is the file or page that has all."""
    shown = [place for place, column in enumerate(grid.columns) if column.importance != ONLY_ON_PAGES]
    table = new_table(title, [grid.columns[place] for place in shown], also_in=also_in)
    for row in grid.rows[:most]:
        table.add_row(*(_coloured(row[place]) for place in shown))
    if most is not None and len(grid.rows) > most:
        table.caption = f"... and {len(grid.rows) - most} more"
    return table


def in_columns(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Grid:
    """The grid of these rows."""
    return Grid(tuple(columns), tuple(map(tuple, rows)))


def _coloured(cell: Cell) -> Text:
    return Text(cell.text, _COLOURS.get(cell.tone, ""))
