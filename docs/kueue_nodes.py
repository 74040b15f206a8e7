"""A workload that has its quota and no node: python docs/kueue_nodes.py

Runs docs/kueue-flavors.yaml with the nodes of docs/kueue-nodes.yaml, as docs/kueue.md does, and draws
docs/kueue-nodes.svg: when each workload ran, and when it had its quota and waited for nodes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.figures import style  # noqa: E402
from emulator.experiment.load import load_experiment  # noqa: E402
from emulator.records.history import History  # noqa: E402
from emulator.resolved import resolve  # noqa: E402
from emulator.sim.session import simulated_history  # noqa: E402
from workloads.kueue.state import read_kueue  # noqa: E402
from workloads.saved import write_saved  # noqa: E402

FILES = [ROOT / "docs/kueue-flavors.yaml", ROOT / "docs/kueue-nodes.yaml"]
PICTURE = Path(__file__).with_name("kueue-nodes.svg")
_MINUTE_NS = 60 * 10**9


def played() -> History:
    """What happens to the workloads of the two files."""
    with tempfile.TemporaryDirectory(prefix="natjam-nodes-") as name:
        site = Path(name) / "gpus.yaml"
        write_saved(site, read_kueue(FILES)[0], ())
        return simulated_history(resolve(load_experiment(site)))


def draw(history: History) -> None:
    """A row for each workload, with its containers and its waits."""
    figure, (panel,) = style.new_figure(width=7.0, height=2.6)
    names = [job.name for job in history.jobs]
    for row, job in enumerate(history.jobs):
        runs = {
            (one.launched_ns, one.ended_ns)
            for one in history.attempts
            if one.job == job.name and one.kind != "am" and one.launched_ns is not None and one.ended_ns is not None
        }
        spans = [(start / _MINUTE_NS, (end - start) / _MINUTE_NS) for start, end in sorted(runs)]
        panel.broken_barh(spans, (row - 0.35, 0.7), color=style.line(0)["color"], label="runs" if row == 0 else "")
        waits = [
            (one.since_ns / _MINUTE_NS, ((one.until_ns or one.since_ns) - one.since_ns) / _MINUTE_NS)
            for one in history.waits
            if one.job == job.name
        ]
        panel.broken_barh(
            waits,
            (row - 0.35, 0.7),
            facecolor="white",
            edgecolor=style.line(1)["color"],
            hatch="////",
            label="has its quota, no node fits" if waits else "",
        )
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    style.finish(panel, "minutes", "", legend=False)
    style.legend_below(figure)
    style.save(figure, [PICTURE])


if __name__ == "__main__":
    draw(played())
