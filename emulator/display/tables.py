"""Tables for the terminal, which never cut a number or a name.

Every column has an importance.  Where a window is too narrow, the least important columns are left out, and a line
below the table names them; if the most important ones alone are too wide, each row becomes a block of lines.  Columns
of words wrap.  A column of numbers in which every figure is 0 or missing is named below the table instead of shown.
Output that does not go to a terminal has all columns.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from emulator.vocabulary import Frozen

ALWAYS = sys.maxsize
"""The importance of columns that are never left out."""
_USUAL = 2
_TEXT_WIDTH = 140
"""Words wrap at this width where the output is not a terminal."""
_NARROW, _LONGEST_WORD = 12, 30
"""No column of words gets narrower than the first, nor wider than the second for the sake of one long word."""
_ZERO = re.compile(r"-|[-+]?0*(\.0*)?( ?%)?")
_WIDER = "a wider window, or '| less -S', shows all"


class Kind(Enum):
    """What a column holds."""

    NAME = "name"
    WORDS = "words"
    NUMBER = "number"


class Column(Frozen):
    """A column's head, what it holds, and how important it is: of equal ones, the one on the right goes first."""

    head: str | Text
    kind: Kind
    importance: int


def names(*heads: str | Text, importance: int = ALWAYS) -> list[Column]:
    """Columns of names, on the left, which users copy: they never wrap."""
    return [Column(head, Kind.NAME, importance) for head in heads]


def words(*heads: str | Text, importance: int = ALWAYS) -> list[Column]:
    """Columns of words, on the left, which wrap."""
    return [Column(head, Kind.WORDS, importance) for head in heads]


def numbers(*heads: str | Text, importance: int = _USUAL) -> list[Column]:
    """Columns of numbers, on the right."""
    return [Column(head, Kind.NUMBER, importance) for head in heads]


def or_dash(value: float | None, form: str) -> str:
    """The cell of a number, in a form as ``,.1f``; a dash for None."""
    return "-" if value is None else format(value, form)


def number(value: float | None, decimals: tuple[int, int, int] = (1, 2, 3), form: str = ",") -> str:
    """A number with so many decimals from 100 on, from 10 on, and below that; a dash for None or NaN."""
    if value is None or math.isnan(value):
        return "-"
    places = decimals[0] if abs(value) >= 100 else decimals[1] if abs(value) >= 10 else decimals[2]
    return f"{value:{form}.{places}f}"


def new_table(
    title: str | Text | None, columns: Sequence[Column], *, also_in: str = "", plain: bool = False
) -> FittedTable:
    """A table without rows.

    Args:
        title: the line above it; empty: none.
        columns: from ``names``, ``words`` and ``numbers``.
        also_in: the file that has all columns, where the command cannot simply be given again in a wider window.
        plain: without heads and lines.
    """
    return FittedTable(title, columns, also_in, plain)


def new_facts() -> Table:
    """A table of facts without rows: a name and some words, without heads and lines."""
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    return table


class FittedTable(Table):
    """Chooses its columns and their widths when it is printed, for the width that it then has."""

    def __init__(self, title: str | Text | None, columns: Sequence[Column], also_in: str, plain: bool) -> None:
        super().__init__(title=title or None, show_header=not plain)
        self.specs, self._also_in = tuple(columns), also_in
        if plain:
            self.box = None
        for column in columns:
            justify = "right" if column.kind is Kind.NUMBER else "left"
            self.add_column(_text(column.head), justify=justify, overflow="fold")

    def add_row(self, *cells: object, style: StyleType | None = None, end_section: bool = False) -> None:
        """A row; cells are words as they are, without markup."""
        super().add_row(*map(_text, cells), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = [place for place in range(len(self.columns)) if not self._is_empty(place)]
        empty = [place for place in range(len(self.columns)) if place not in shown]
        narrow: list[int] = []
        least = {place: self._width(place, least=True) for place in shown}
        while self._with_lines(shown, least) > options.max_width:
            place = self._least_important(shown)
            if place is None:
                break
            shown.remove(place)
            narrow.append(place)
        if self.title:
            yield Text.assemble(_text(self.title), style="table.title")
        if self._with_lines(shown, least) > options.max_width:
            yield from self._stacked(shown)
        else:
            room = options.max_width if console.is_terminal else min(options.max_width, _TEXT_WIDTH)
            yield from self._chosen(shown, least, room).__rich_console__(console, options)
        yield from self._below(empty, sorted(narrow), options.max_width)

    def _below(self, empty: Sequence[int], narrow: Sequence[int], width: int) -> Iterator[Text]:
        if self.caption:
            yield Text(str(self.caption), "table.caption")
        if empty:
            yield Text(f"not shown, only 0 or -: {self._heads(empty)}", "table.caption")
        if narrow:
            how = f"{self._also_in} has all" if self._also_in else _WIDER
            yield Text(f"not shown in {width} columns: {self._heads(narrow)} ({how})", "table.caption")

    def _heads(self, places: Sequence[int]) -> str:
        return "; ".join(" ".join(_text(self.specs[place].head).plain.split()) for place in places)

    def _is_empty(self, place: int) -> bool:
        spec, cells = self.specs[place], [*self.columns[place].cells]
        if spec.kind is not Kind.NUMBER or spec.importance == ALWAYS or not cells:
            return False
        return all(_ZERO.fullmatch(_text(cell).plain) for cell in cells)

    def _least_important(self, shown: Sequence[int]) -> int | None:
        ranked = [(self.specs[place].importance, -place) for place in shown]
        importance, place = min(ranked, default=(ALWAYS, 0))
        return None if importance == ALWAYS else -place

    def _lines(self, place: int) -> tuple[list[str], list[str]]:
        """The lines of a column's head, and of its cells."""
        cells = [line for cell in self.columns[place].cells for line in _text(cell).plain.split("\n")]
        return (_text(self.specs[place].head).plain.split("\n") if self.show_header else []), cells

    def _width(self, place: int, *, least: bool) -> int:
        head, cells = self._lines(place)
        if not least:
            return max(map(cell_len, [*head, *cells]), default=0)
        longest = [cell_len(word) for line in head for word in line.split()]
        if self.specs[place].kind is not Kind.WORDS:
            return max([*longest, *map(cell_len, cells)], default=0)
        longest += [cell_len(word) for line in cells for word in line.split()]
        least_width = max(_NARROW, min(max(longest, default=0), _LONGEST_WORD))
        return min(least_width, self._width(place, least=False))

    def _with_lines(self, shown: Sequence[int], widths: Mapping[int, int]) -> int:
        """The width of a table of some columns, with the padding and the lines between them."""
        lines = 0 if self.box is None else len(shown) + 1
        return sum(widths[place] + 2 for place in shown) + lines

    def _chosen(self, shown: Sequence[int], least: Mapping[int, int], room: int) -> Table:
        """The table of the shown columns; what room is left goes to the columns that would wrap most."""
        widths = dict(least)
        natural = {place: self._width(place, least=False) for place in shown}
        for _ in range(room - self._with_lines(shown, least)):
            wrapped = [place for place in shown if widths[place] < natural[place]]
            if not wrapped:
                break
            widths[max(wrapped, key=lambda place: natural[place] / widths[place])] += 1
        found = Table(show_header=self.show_header, box=self.box)
        columns = [self.columns[place] for place in shown]
        for place, column in zip(shown, columns, strict=True):
            found.add_column(column.header, justify=column.justify, overflow=column.overflow, width=widths[place])
        for row, *cells in zip(self.rows, *(column.cells for column in columns), strict=True):
            found.add_row(*cells, style=row.style, end_section=row.end_section)
        return found

    def _stacked(self, shown: Sequence[int]) -> Iterator[Text]:
        """A block of lines for each row."""
        for cells in zip(*(self.columns[place].cells for place in shown), strict=True):
            for place, cell in zip(shown, map(_text, cells), strict=True):
                head = " ".join(_text(self.specs[place].head).plain.split())
                if cell.plain:
                    yield Text.assemble(f"{head}: " if head else "", cell, overflow="fold")
            yield Text()


def _text(value: object) -> Text:
    return value if isinstance(value, Text) else Text(str(value))
