"""The page of a live run in a browser: it moves, it says what the run says, and it ends with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browsing import Browser
from tests.live_runs import NatjamRun

_STATE = """
if (!watched) return null;
const { run } = watched;
const states = new Set(Array.from(run.segment_state, (state) => run.states[state]));
return { end_s: run.end_s, attempts: run.attempt, segments: run.segment_lane.length, states: [...states] };
"""


def drawn(browser: Browser) -> dict[str, Any] | None:
    return browser.driver.execute_script(_STATE)


def said(browser: Browser, name: str) -> str:
    return browser.one(f"[data-said={name}]").text


@pytest.mark.timeout(240)
def test_a_live_run_is_seen_to_move_and_to_end(browser: Browser, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, "--watch", "--time-scale", "4") as run:
        (address,) = run.until(
            lambda: re.findall(r"watch it at (http://127\.0\.0\.1:\d+/\S+/)\n", run.log), "the address"
        )
        browser.driver.get(address)
        first = browser.wait_until(lambda: (found := drawn(browser)) and found["segments"] and found)
        assert said(browser, "phase") == "running"
        later = browser.wait_until(lambda: (found := drawn(browser)) and found["end_s"] > first["end_s"] + 1 and found)
        assert later["segments"] >= first["segments"]
        browser.wait_until(lambda: "suspended" in (drawn(browser) or later)["states"])
        browser.wait_until(lambda: re.fullmatch(r"[\d.]+ ms", said(browser, "lag")))
        browser.wait_until(lambda: any(row.text.startswith("research research running") for row in rows(browser)))
        run.check_verified()
        browser.wait_until(lambda: browser.all("#run-0[data-ready]"))  # the page has given way to the report
        attempts = browser.driver.execute_async_script("showRun(0).then((view) => arguments[0](view.run.attempt));")
        assert attempts == [row["attempt"] for row in run.table("attempts")]


def rows(browser: Browser) -> list[Any]:
    return browser.all("[data-table=jobs] tbody tr")
