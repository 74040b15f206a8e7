"""The output of ``natjam probe``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from emulator.costs.probe_result import ImageCost, Probed
from emulator.display.tables import names, new_table, numbers, words


def probe_tables(probed: Probed) -> Iterator[RenderableType]:
    """The tables of a probe, and notes on them."""
    memory = probed.memory
    yield Text(
        f"{' '.join(probed.command)}: {memory.processes} process{'es' if memory.processes > 1 else ''},"
        f" {memory.resident_bytes / 1e6:.1f} MB resident, {memory.own_bytes / 1e6:.1f} MB private"
        f", {memory.swapped_bytes / 1e6:.1f} MB swapped"
    )
    yield Text(f"stop (SIGTSTP) {_milliseconds(probed.stop_s)}, continue (SIGCONT) {_milliseconds(probed.go_on_s)}")
    if probed.stores:
        yield _images_table(probed)
        yield Text(
            "break-even: if the program has done less than this since it was last saved, kill it; if more, save it.\n"
            f"Incremental: only the pages changed in one second, found by {probed.changed_pages_by}."
        )
    for note in probed.notes:
        yield Text(note)


def _images_table(probed: Probed) -> Table:
    columns = [*words("store"), *names("image"), *numbers("written MB", "dump s", "restore s")]
    columns += numbers("break-even s", importance=3)
    table = new_table(f"images, by {probed.dumper}", columns, also_in="probe.json")
    for store in probed.stores:
        speeds = f"{store.write_mb_s:.0f}, {store.read_mb_s:.0f} MB/s"
        how = "measured" if store.measured else "estimated"
        table.add_row(Text(f"{store.name} ({how})"), "full", *_cells(store.full))
        table.add_row(Text(speeds), "incremental", *_cells(store.incremental), end_section=True)
    return table


def _cells(cost: ImageCost) -> list[str]:
    return [f"{cost.written_bytes / 1e6:.2f}", *(f"{s:.3f}" for s in (cost.dump_s, cost.restore_s, cost.break_even_s))]


def _milliseconds(seconds: float | None) -> str:
    return "could not be measured" if seconds is None else f"{seconds * 1e3:.3f} ms"
