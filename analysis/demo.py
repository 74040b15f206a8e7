"""The demonstration: natjam's Fig. 4 on real processes under four mechanisms, beside the paper's figures."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.whole_run import run_experiment
from emulator.display.closing_tables import failures
from emulator.display.run_display import RunDisplay
from emulator.display.tables import ALWAYS, names, new_table, numbers, words
from emulator.errors import RunError
from emulator.experiment.load import load_experiment

TIME_SCALE = "20"
_ALONE_S = {"research": 192.3, "production": 70.4}
"""Each job alone on the cluster (natjam, Fig. 3)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to make room, and its times in the paper (natjam, section 5); None if the paper has none."""

    name: str
    overrides: tuple[str, ...]
    production_s: float | None
    research_s: float | None


VARIANTS = (
    Variant("checkpoint (Natjam)", ("scheduler.mechanism=checkpoint",), 75.6, 197.0),
    Variant("suspend (SIGTSTP)", ("scheduler.mechanism=suspend",), None, None),
    Variant("kill", ("scheduler.mechanism=kill",), None, 1.23 * _ALONE_S["research"]),
    Variant(
        "soft cap",
        ("scheduler.allocation.name=soft-cap", "scheduler.mechanism=wait"),
        1.85 * _ALONE_S["production"],
        1.00 * _ALONE_S["research"],
    ),
)


def run_demo(console: Console) -> None:
    """Run Fig. 4 under every variant and print the table.  Raises RunError if an output is wrong."""
    console.print(
        "natjam, Fig. 4: research-XL (47 reduces) has the cluster's 48 containers; at 50 s production-S arrives.\n"
        f"Real processes, real signals and files, {TIME_SCALE} emulated seconds a second, overheads of Hadoop 0.23."
    )
    table = _table()
    broken: list[str] = []
    catalog = resources.files("workloads") / "catalog" / "natjam-fig4.yaml"
    with resources.as_file(catalog) as path, tempfile.TemporaryDirectory(prefix="natjam-demo-") as directory:
        for number, variant in enumerate(VARIANTS, start=1):
            console.print(f"[bold]{number} of {len(VARIANTS)}: {variant.name}[/]")
            experiment = load_experiment(path, (f"time_scale={TIME_SCALE}", *variant.overrides))
            out_dir = Path(directory, str(number))
            with RunDisplay(console) as display:
                summary = run_experiment(experiment, out_dir, display.update)
            table.add_row(*_row(variant, summary))
            broken += [f"{variant.name}: {failure}" for failure in failures(summary)]
    console.print(table)
    console.print(
        "[dim]Emulated seconds; in brackets the difference from the paper's figure (natjam, section 5), if it has "
        "one.\nAlone on the cluster: research 192.3 s, production 70.4 s (natjam, Fig. 3).[/]"
    )
    if broken:
        raise RunError("; ".join(broken))


def _table() -> Table:
    times = ("production-S\nmeasured s", "paper s", "research-XL\nmeasured s", "paper s")
    columns = [*names("room is made by"), *numbers(*times, importance=ALWAYS), *numbers("preempted", "work lost s")]
    return new_table("Completion times, measured and published", [*columns, *words("output")])


def _row(variant: Variant, summary: dict[str, Any]) -> list[str | Text]:
    jobs = {job["name"]: job for job in summary["jobs"]}
    cells: list[str | Text] = [variant.name]
    for name, published_s in (("production-S", variant.production_s), ("research-XL", variant.research_s)):
        measured_s = jobs[name]["completion_s"]
        if measured_s is None:
            cells += [jobs[name]["state"], "-"]
        elif published_s is None:
            cells += [f"{measured_s:.1f}", "-"]
        else:
            cells += [f"{measured_s:.1f} ({measured_s / published_s - 1:+.1%})", f"{published_s:.1f}"]
    research = jobs["research-XL"]
    cells.append(str(research["suspensions"] + research["kills"]))
    cells.append(f"{research['lost_work_s']:.0f}")
    output = Text("verified") if summary["output"]["verified"] else Text("differs", "red")
    return [*cells, output.append(", disturbed", "yellow") if summary["disturbed"] else output]
