"""What ``--watch``, with a page open, costs a live run: its lag with and without, in turns.

``PAIRS=10 pytest -s tests/benchmarks/test_watch_cost.py`` prints it as a share of the lag that a run may have; it wants
the machine for itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.run import LAG_BOUND_HEARTBEATS
from tests.live_runs import NatjamRun

FIG4 = (Path(__file__).resolve().parents[2] / "workloads/catalog/natjam-fig4.yaml").read_text()
PAIRS = int(os.environ.get("PAIRS", "4"))
PAGE_PERIOD_S = 0.5
"""How often an open page asks for the newest state."""
TIME_SCALE = 20
BUDGET_MS = 1000 * LAG_BOUND_HEARTBEATS / TIME_SCALE
"""Of a heartbeat of a second, real."""
SHARE = 0.02


@contextlib.contextmanager
def page_open(run: NatjamRun) -> Iterator[None]:
    """Ask as a browser does, until the block is left."""
    (address,) = run.until(lambda: re.findall(r"watch it at (http://\S+/)\n", run.log), "the page's address")
    over = threading.Event()

    def ask() -> None:
        have = ""
        while not over.wait(PAGE_PERIOD_S):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}state?have={have}") as answer:
                answer.read()
                have = answer.headers.get("X-State", have)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def lags_ms(directory: Path, watched: bool) -> tuple[float, float]:
    """Median and 99th percentile of the lag of one run, in real milliseconds."""
    directory.mkdir()
    options = ["--set", "engine=live", "--time-scale", str(TIME_SCALE), *(["--watch"] if watched else [])]
    with (
        NatjamRun(directory, *options, experiment=FIG4) as run,
        page_open(run) if watched else contextlib.nullcontext(),
    ):
        lag = run.check_verified()["lag"]
    return lag["p50_real_ms"], lag["p99_real_ms"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_page_costs_little_of_the_lag_budget(tmp_path: Path) -> None:
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(PAIRS):
        for watched in (False, True) if number % 2 else (True, False):
            found[watched].append(lags_ms(tmp_path / f"{number}-{watched}", watched))
    print(f"\nlag of {PAIRS} runs of Fig. 4 each, real ms; the budget is {BUDGET_MS:g} ms")
    for place, name in enumerate(("p50", "p99")):
        without, with_page = ([lags[place] for lags in found[watched]] for watched in (False, True))
        cost = statistics.mean(with_page) - statistics.mean(without)
        print(
            f"{name}: {statistics.mean(without):.3f} +- {_sd(without):.3f} without,"
            f" {statistics.mean(with_page):.3f} +- {_sd(with_page):.3f} with the page:"
            f" {cost:+.3f} ms, {cost / BUDGET_MS:+.1%} of the budget"
        )
    medians = [statistics.mean(lags[0] for lags in found[watched]) for watched in (False, True)]
    assert medians[1] - medians[0] < SHARE * BUDGET_MS


def _sd(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else float("nan")
