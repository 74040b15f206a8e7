"""What Kueue's evictions cost, by what happens to the evicted: python docs/kueue_days.py

Plays the recorded days of tests/data/kueue through the whole machines, prints the table of docs/kueue.md, and draws
docs/kueue-days.png.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.figures import style  # noqa: E402
from emulator.experiment.load import load_experiment  # noqa: E402
from emulator.records.history import History  # noqa: E402
from emulator.resolved import resolve  # noqa: E402
from emulator.sim.session import simulated_history  # noqa: E402
from emulator.sites.kueue import Kueue  # noqa: E402
from tests.peers.holding import records  # noqa: E402
from tests.peers.kueue import arrivals_of, cluster_of  # noqa: E402
from workloads.saved import write_saved  # noqa: E402

DAYS = ROOT / "tests/data/kueue/ten-days.jsonl.gz"
PICTURE = Path(__file__).with_name("kueue-days.png")
LEAST_RELEASE_S = 1
"""Where the record frees the quota at once, an evicted workload could start again and be evicted for ever at one
instant."""
Terms = dict[str, float]
MECHANISMS: dict[str, tuple[tuple[str, ...], Terms]] = {
    "ended, as Kueue does": (("scheduler.mechanism=kill",), {}),
    "ended, with 30 s of grace": (("scheduler.mechanism=kill",), {"grace_s": 30}),
    "ended, after 10 min at the earliest": (("scheduler.mechanism=kill",), {"minimum_runtime_s": 600}),
    "ended, saves every 5 min": (("scheduler.mechanism=kill",), {"checkpoint_period_s": 300}),
    "stopped, keeps memory and gpu": (("scheduler.mechanism=suspend",), {}),
    "saved as an image on an SSD": (("scheduler.mechanism=image", "storage.tier=ssd"), {}),
}


class Outcome(NamedTuple):
    """What all days together cost."""

    evictions: int
    """How many workloads."""
    lost_h: float
    """Pod-hours that were done again, and those that images took."""
    urgent_wait_s: float
    """Mean time until they started, of workloads of the highest priority of each day."""
    others_wait_s: float
    unstarted: int
    """Workloads that never started."""


def played(days: list[tuple[Path, dict[str, Any]]], options: tuple[str, ...], terms: Terms) -> Outcome:
    """All days, with these options, and these terms for every queue."""
    lost_ns, evictions, unstarted = 0, 0, 0
    waits_s: dict[bool, list[float]] = {True: [], False: []}
    for file, day in days:
        of_queues = [
            f"scheduler.allocation.queues.{queue['name']}.{key}={value}"
            for queue in day["queues"]
            for key, value in terms.items()
        ]
        release = f"scheduler.allocation.release_s={max(day['release'], LEAST_RELEASE_S)}"
        history = simulated_history(resolve(load_experiment(file, [*options, *of_queues, release])))
        lost_ns += sum(each.lost_ns + each.overhead_ns for each in history.attempts)
        evictions += sum(getattr(each.why, "is_taken", False) for each in history.decisions)
        starts_ns, most = dict(_starts(history)), max(each["priority"] for each in day["workloads"])
        for each in day["workloads"]:
            if each["name"] in starts_ns:
                wait_s = starts_ns[each["name"]] / 1e9 - each["submit"]
                waits_s[each["priority"] == most].append(wait_s)
            else:
                unstarted += 1
    return Outcome(evictions, lost_ns / 3.6e12, fmean(waits_s[True]), fmean(waits_s[False]), unstarted)


def _starts(history: History) -> Iterator[tuple[str, int]]:
    """When each job first started."""
    for each in sorted(history.attempts, key=lambda each: each.launched_ns or 0, reverse=True):
        if each.kind == "pod" and each.launched_ns is not None:
            yield each.job, each.launched_ns


def _all(days: list[tuple[Path, dict[str, Any]]]) -> Iterator[Outcome]:
    with ProcessPoolExecutor(2) as pool:
        options, terms = zip(*MECHANISMS.values(), strict=True)
        yield from pool.map(played, [days] * len(options), options, terms)


def main() -> None:
    """Print the table, and draw it."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="natjam-days-") as name:
        days = [(Path(name) / f"{day['name']}.yaml", day) for day in records(DAYS)]
        for file, day in days:
            write_saved(file, Kueue(cluster_of(day), arrivals=tuple(arrivals_of(day))), ())
        print("| an evicted workload is | evictions | pod-hours lost | urgent wait s | others | never started |")
        print("|---" * 6 + "|")
        for how, one in zip(MECHANISMS, _all(days), strict=True):
            found[how] = one
            waits = f"{one.urgent_wait_s:.0f} | {one.others_wait_s:.0f}"
            print(f"| {how} | {one.evictions} | {one.lost_h:.1f} | {waits} | {one.unstarted} |", flush=True)
    draw(found)


def draw(found: dict[str, Outcome]) -> None:
    """Evictions, pod-hours lost and the wait of urgent workloads, in bars."""
    figure, panels = style.new_figure(columns=3, width=4.2, height=3.2)
    titles = {"evictions": "evictions", "lost_h": "pod-hours lost", "urgent_wait_s": "mean wait of the urgent, s"}
    for panel, (field, title) in zip(panels, titles.items(), strict=True):
        heights = [getattr(one, field) for one in found.values()]
        panel.barh(range(len(found)), heights, 0.6, color=style.line(0)["color"])
        panel.set_yticks(range(len(found)), list(found) if panel is panels[0] else [""] * len(found))
        panel.invert_yaxis()
        style.finish(panel, title, "", legend=False)
    style.save(figure, [PICTURE])


if __name__ == "__main__":
    main()
