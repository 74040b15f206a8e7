"""What evictions cost by mechanism and by the choice of victims: python docs/kubernetes_days.py

Plays the recorded days of tests/data/kubernetes through the whole machines, prints the table of docs/kubernetes.md, and
draws docs/kubernetes-days.png.  The last lines compare news at once with heartbeats.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.figures import style  # noqa: E402
from emulator.experiment.load import load_experiment  # noqa: E402
from emulator.policies.kubernetes.terms import Victims  # noqa: E402
from emulator.records.history import History  # noqa: E402
from emulator.resolved import resolve  # noqa: E402
from emulator.sim.session import simulated_history  # noqa: E402
from tests.peers.holding import records  # noqa: E402
from tests.peers.kube import imported_day  # noqa: E402
from workloads.saved import write_saved  # noqa: E402

DAYS = ROOT / "tests/data/kubernetes/days.jsonl.gz"
PICTURE = Path(__file__).with_name("kubernetes-days.png")
SAVES = "deleted, saves each minute"
MECHANISMS = {
    "deleted": ("scheduler.mechanism=kill",),
    SAVES: ("scheduler.mechanism=kill",),
    "stopped": ("scheduler.mechanism=suspend",),
    "saved, by the second": ("scheduler.mechanism=checkpoint",),
    "image, on an SSD": ("scheduler.mechanism=image", "storage.tier=ssd"),
}
HEARTBEATS = ("protocol.news=heartbeat",)


class Outcome(NamedTuple):
    """What all days together cost."""

    lost_h: float
    """Pod-hours that were done again, or for nothing, and those that images took."""
    evictions: int
    urgent_wait_s: float
    """Mean, of pods of the highest priority of each day."""
    longest_s: float
    starts_s: dict[tuple[int, str], float]
    """When each pod first started."""


def played(folder: Path, options: tuple[str, ...], saves_s: int = 0) -> Outcome:
    """All days, with these options; pods save by themselves so often, if they do."""
    lost_ns, evictions, waits_s, starts_s = 0, 0, list[float](), dict[tuple[int, str], float]()
    for number, file in enumerate(sorted(folder.glob("day-*.yaml"))):
        queues = load_experiment(file).scheduler.allocation.queues
        terms = [f"scheduler.allocation.queues.{queue}.checkpoint_period_s={saves_s}" for queue in queues if saves_s]
        urgent, history = next(iter(queues)), simulated_history(resolve(load_experiment(file, [*options, *terms])))
        lost_ns += sum(each.lost_ns + each.overhead_ns for each in history.attempts)
        evictions += sum(getattr(each.why, "is_taken", False) for each in history.decisions)
        starts_s |= {(number, job): start_s for job, start_s in _starts(history)}
        jobs = (each for each in history.jobs if each.queue == urgent and (number, each.name) in starts_s)
        waits_s += (starts_s[number, each.name] - each.submit_ns / 1e9 for each in jobs)
    return Outcome(lost_ns / 3.6e12, evictions, fmean(waits_s), max(waits_s), starts_s)


def _starts(history: History) -> Iterator[tuple[str, float]]:
    for each in sorted(history.attempts, key=lambda each: each.launched_ns or 0, reverse=True):
        if each.kind == "pod" and each.launched_ns is not None:
            yield each.job, each.launched_ns / 1e9


def main() -> None:
    """Print the table, and draw it."""
    found: dict[tuple[str, str], Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="natjam-days-") as name:
        for number, day in enumerate(records(DAYS)):
            write_saved(Path(name) / f"day-{number}.yaml", imported_day(day), ())
        print(
            "| a victim is | victims by | evictions | pod-hours lost | urgent wait s | longest |\n" + "|---" * 6 + "|"
        )
        for how, options in MECHANISMS.items():
            for victims in Victims:
                chosen = (*options, f"scheduler.allocation.victims={victims}")
                one = found[how, victims] = played(Path(name), chosen, 60 * (how == SAVES))
                waits = f"{one.urgent_wait_s:.1f} | {one.longest_s:.0f}"
                print(f"| {how} | {victims} | {one.evictions} | {one.lost_h:.2f} | {waits} |", flush=True)
        late = played(Path(name), HEARTBEATS)
    at_once = found["deleted", Victims.IMPORTANCE]
    apart_s = [abs(late.starts_s[pod] - at_s) for pod, at_s in at_once.starts_s.items() if pod in late.starts_s]
    near = sum(each <= 2 for each in apart_s)
    print(
        f"heartbeats: {late.evictions} evictions, {late.lost_h:.2f} pod-hours lost,"
        f" urgent wait {late.urgent_wait_s:.1f} s;"
        f" {near} of {len(apart_s)} pods start within 2 s of when they do at once"
    )
    draw(found)


def draw(found: dict[tuple[str, str], Outcome]) -> None:
    """Pod-hours lost and the wait of urgent pods, in bars."""
    figure, panels = style.new_figure(columns=2, width=5.0, height=3.2)
    for panel, field, title in zip(
        panels, ("lost_h", "urgent_wait_s"), ("pod-hours lost", "mean wait of urgent pods, s"), strict=True
    ):
        for index, victims in enumerate(Victims):
            heights = [getattr(found[how, victims], field) for how in MECHANISMS]
            places = [place + (index - 1) * 0.27 for place in range(len(MECHANISMS))]
            panel.bar(places, heights, 0.25, label=victims.value, color=style.line(index)["color"])
        panel.set_xticks(range(len(MECHANISMS)), [how.replace(", ", ",\n") for how in MECHANISMS])
        style.finish(panel, "what happens to a victim", title, legend=False)
    style.legend_below(figure, panels[0])
    style.save(figure, [PICTURE])


if __name__ == "__main__":
    main()
