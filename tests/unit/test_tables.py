"""Tables of the terminal, in narrow and wide windows: no number and no name is ever cut."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from analysis.run_paths import read_summary
from emulator.display.closing_tables import closing_tables
from emulator.display.tables import ALWAYS, Column, FittedTable, Kind, names, new_table, numbers, words
from tests.commands import displayed
from tests.simulated_runs import simulate

ROOT = Path(__file__).resolve().parents[2]
JOB = "reporting-of-the-whole-quarter-2009"
SECONDS = 123456789.25


# ---- a table in a window ----


def figures() -> Table:
    table = new_table(
        "figures", [*names("job"), *numbers("p50", importance=3), *numbers("p95", "p99", "kills"), *words("why")]
    )
    table.add_row(
        JOB, f"{SECONDS:.1f}", f"{SECONDS + 1:.1f}", f"{SECONDS + 2:.1f}", "0", "because it had most time left of all"
    )
    return table


def test_the_least_important_columns_go_first_and_are_named() -> None:
    wide, narrow, narrowest = (displayed(figures(), width=width) for width in (140, 90, 76))
    assert "not shown, only 0 or -: kills" in wide
    assert "not shown in" not in wide
    assert "not shown in 90 columns: p99 (a wider window, or '| less -S', shows all)" in narrow
    assert "not shown in 76 columns: p95; p99" in narrowest
    assert all(f"{SECONDS:.1f}" in text and JOB in text for text in (wide, narrow, narrowest))


def test_a_window_too_narrow_for_the_most_important_columns_has_a_block_for_each_row() -> None:
    lines = displayed(figures(), width=44).splitlines()
    assert f"job: {JOB}" in [line.rstrip() for line in lines]
    assert "why: because it had most time left of all" in [line.rstrip() for line in lines]
    assert max(map(len, lines)) <= 44


def test_output_that_is_no_terminal_has_every_column() -> None:
    heads = [f"{percent / 10:.1f}%" for percent in range(40)]
    table = new_table(None, [*names("job"), *numbers(*heads)])
    table.add_row(JOB, *(f"{SECONDS:.2f}" for _ in heads))
    text = displayed(table, width=1000, terminal=False)
    assert all(head in text for head in heads)
    assert text.count(f"{SECONDS:.2f}") == len(heads)


def test_cells_are_words_and_never_markup() -> None:
    table = new_table("[bold]title[/]", words("job"))
    table.add_row("[red]job[/]")
    assert "[red]job[/]" in displayed(table, width=80)
    assert "[bold]title[/]" in displayed(table, width=80)


# ---- any table ----


_CELLS = {
    Kind.NAME: st.text("abcdefghij-", min_size=1, max_size=40),
    Kind.NUMBER: st.sampled_from(["0", "-", "0.000", f"{SECONDS:.1f}", f"{SECONDS} (+123.4%)"]),
    Kind.WORDS: st.lists(st.text("abcdefg", min_size=1, max_size=25), max_size=12).map(" ".join),
}


@st.composite
def tables(draw: st.DrawFn) -> FittedTable:
    """A table of any columns, with heads that differ, and cells of their kinds."""
    kinds = draw(st.lists(st.sampled_from(Kind), min_size=1, max_size=9))
    columns = [
        Column(f"{draw(st.sampled_from(['p', 'seconds of', 'production']))} {number}", kind, importance)
        for number, kind in enumerate(kinds)
        for importance in [draw(st.sampled_from([1, 2, 3, ALWAYS]))]
    ]
    table = new_table(draw(st.sampled_from(["figures", ""])), columns)
    for _ in range(draw(st.integers(0, 4))):
        table.add_row(*(draw(_CELLS[kind]) for kind in kinds))
    return table


@given(tables(), st.sampled_from([80, 100, 140]))
def test_no_number_and_no_name_is_cut(table: FittedTable, width: int) -> None:
    check(table, width)


def check(table: FittedTable, width: int) -> None:
    """Each figure and each name is whole, or its column is named below the table."""
    text = displayed(table, width=width)
    assert "…" not in text
    assert max(map(len, text.splitlines()), default=0) <= width
    heads = [" ".join(str(spec.head).split()) for spec in table.specs if spec.head]
    assert len(set(heads)) == len(heads), "a column that is named below the table must be told from the others"
    below = " ".join(text.replace("\n", " ").split())
    for spec, column in zip(table.specs, table.columns, strict=True):
        head = " ".join(str(spec.head).split())
        is_left_out = any(head in line for line in below.split("not shown, only 0 or -:")[1:]) or (
            f"not shown in {width} columns:" in below and head in below.partition(f"not shown in {width} columns:")[2]
        )
        for cell in column.cells:
            lines = [line for line in str(cell).split("\n") if len(line) <= width - 10]
            if spec.kind is not Kind.WORDS and not is_left_out:
                assert all(line.strip() in text for line in lines), (head, str(cell))


def test_no_command_makes_a_table_of_its_own() -> None:
    """Only what shows a run while it is on has lines of a bar and texts."""
    makers = set()
    for path in (path for folder in ("analysis", "emulator", "workloads") for path in (ROOT / folder).rglob("*.py")):
        if "from rich.table import " in path.read_text():
            called = {
                ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            }
            makers |= {path.name for name in called if name in ("Table", "Table.grid")}
    assert makers == {"tables.py", "work_display.py"}


def test_the_tables_of_a_simulation_are_whole_and_have_no_column_of_zeros(tmp_path: Path) -> None:
    long = [f"workload.jobs.{number}.name={JOB}-{number}" for number in (0, 1)]
    summary = read_summary(simulate(tmp_path, "run", "workload.jobs.1.deadline_s=100", *long))
    for width in (80, 100, 140):
        for table in closing_tables(summary):
            if isinstance(table, FittedTable):
                check(table, width)
            for line in zip(*rows_of(displayed(table, width=width)), strict=True):
                assert not all(cell in ("0", "0.000", "-") for cell in line), line


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
