"""A report of Fig. 4 in a browser: pointing, zooming, hiding a job, and nothing on the console."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from analysis.report.page import report_of
from tests.browsing import Browser
from tests.run_results import RunResults
from tests.simulated_runs import simulate

_GAPS = """
showRun(0).then((view) => arguments[0]([...view.gaps].flatMap(([lane, gaps]) => gaps.map(({ from, to, attempt }) => ({
  attempt: view.run.attempt[attempt], x: view.xOf((from + to) / 2),
  width: view.xOf(to) - view.xOf(from), height: barHeight(view),
  bottom: AXIS_PIXELS + (lane - view.topRow) * view.rowPixels + barHeight(view),
})))));
"""
_TABLES = """
return [...document.querySelectorAll(".table, .table td")].filter((one) => one.clientWidth)
  .map((one) => [one.getAttribute("aria-label") ?? one.textContent, one.scrollWidth, one.clientWidth]);
"""

_ALL_ZERO = """
const groups = [{ name: "schedule", values: [0, 0, 0, 0, 0] }];
distributionChart(document.querySelector("[data-chart=overheads]"), groups, { xLabel: "duration", yLabel: "share" });
"""
_BROKEN_WORDS = """
const words = [...document.querySelectorAll("td.text")].filter((cell) => /^\\w{1,20}$/.test(cell.textContent));
return words.filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getClientRects().length > 1;
}).map((cell) => cell.textContent);
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("run"), "run", "scheduler.mechanism=suspend")


@pytest.fixture(scope="module")
def victim(run: Path) -> Mapping[str, Any]:
    """An attempt that gave its container back and went on later."""
    return next(row for row in RunResults(run).table("attempts") if row["suspended_spans"])


def test_the_tooltip_says_what_the_tables_say(browser: Browser, run: Path, victim: Mapping[str, Any]) -> None:
    browser.open_report(run / "report.html")
    canvas = browser.one("canvas.timeline")
    assert not browser.one(".tooltip").is_displayed()
    browser.point_at(canvas, browser.place_of(victim["attempt"], "suspended"))
    browser.wait_until(browser.one(".tooltip").is_displayed)
    said = browser.said(".tooltip")
    (span,) = victim["suspended_spans"]
    assert said["state"].startswith(
        f"suspended, {span['resume_ready_s'] - span['freed_s']:.2f} s ({span['freed_s']:.2f} s"
    )
    assert said["job"] == f"{victim['job']} ({victim['queue']})"
    assert said["task"] == f"reduce {victim['task']}"
    assert said["attempt"] == victim["attempt"]
    assert said["keys"] == f"{victim['keys_done']} of {victim['keys_total']}"
    assert victim["node"] in said["container"]
    assert said["replaced by"].startswith("production")
    assert "s left, no. " in said["chosen"]
    browser.point_at(canvas, (5, 5))
    browser.wait_until(lambda: not browser.one(".tooltip").is_displayed())


def test_a_segment_that_is_pressed_stays_and_keys_lead_to_the_next(
    browser: Browser, run: Path, victim: Mapping[str, Any]
) -> None:
    browser.open_report(run / "report.html")
    browser.press_at(browser.one("canvas.timeline"), browser.place_of(victim["attempt"], "reduce"))
    browser.wait_until(lambda: browser.said(".timeline-details").get("attempt") == victim["attempt"])
    canvas = browser.one("canvas.timeline")
    canvas.send_keys(".")
    browser.wait_until(lambda: browser.said(".timeline-details")["state"].startswith("suspending"))
    canvas.send_keys(Keys.ESCAPE)
    browser.wait_until(lambda: not browser.said(".timeline-details"))


def test_wheel_buttons_and_keys_zoom_and_pan(browser: Browser, run: Path, victim: Mapping[str, Any]) -> None:
    browser.open_report(run / "report.html")
    canvas, whole = browser.one("canvas.timeline"), browser.shown_s()
    (span,) = victim["suspended_spans"]
    browser.turn_wheel(canvas, browser.place_of(victim["attempt"], "suspended"), -300, control=True)
    browser.wait_until(lambda: browser.shown_s() != whole)
    start_s, end_s = browser.shown_s()
    assert end_s - start_s < 0.6 * (whole[1] - whole[0])
    assert start_s < (span["freed_s"] + span["resume_ready_s"]) / 2 < end_s, "what was pointed at is still there"
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert browser.shown_s()[0] > start_s
    browser.one("[data-do=in]").click()
    closer = browser.shown_s()
    assert closer[1] - closer[0] == pytest.approx((end_s - start_s) / 1.5)
    browser.one("[data-do=fit]").click()
    assert browser.shown_s() == whole


def test_a_job_that_is_not_ticked_fades(browser: Browser, run: Path, victim: Mapping[str, Any]) -> None:
    browser.open_report(run / "report.html")
    canvas = browser.one("canvas.timeline")
    mine = browser.place_of(victim["attempt"], "reduce")
    reduces = [row for row in RunResults(run).table("attempts") if row["kind"] == "reduce"]
    other = next(row for row in reduces if row["queue"] == "production")
    x, y = browser.place_of(other["attempt"], "reduce")
    theirs = (x, y - 3)  # above the line of the task that waits there, which fades with its job
    before = {place: browser.pixel(canvas, place) for place in (mine, theirs)}
    box = browser.one(f"[aria-label='show {victim['job']}']")
    box.click()
    browser.wait_until(lambda: sum(browser.pixel(canvas, mine)) > sum(before[mine]) + 100)
    assert browser.pixel(canvas, theirs) == before[theirs]
    box.click()
    browser.wait_until(lambda: browser.pixel(canvas, mine) == before[mine])


def test_bars_have_the_colours_of_queues_or_of_states_or_jobs(browser: Browser, run: Path) -> None:
    browser.open_report(run / "report.html")
    canvas = browser.one("canvas.timeline")
    reduces = [row for row in RunResults(run).table("attempts") if row["kind"] == "reduce"]
    places = [
        browser.place_of(next(row for row in reduces if row["queue"] == queue)["attempt"], "reduce")
        for queue in ("production", "research")
    ]
    line = 0.3 * browser.driver.execute_async_script("showRun(0).then((view) => arguments[0](view.rowPixels));")
    beside = [(x, y - line) for x, y in places]  # not on the line along production's bars

    def apart() -> bool:
        return browser.pixel(canvas, beside[0]) != browser.pixel(canvas, beside[1])

    browser.wait_until(apart)
    assert [item.text for item in browser.all(".legend-item")][:2] == ["production", "research"], "queues come first"
    browser.one("[data-colour] option[value=state]").click()
    browser.wait_until(lambda: not apart())  # both are reduces
    assert [item.text for item in browser.all(".legend-item")][-1] == "production", "whose bars have a line"
    browser.one("[data-colour] option[value=job]").click()
    browser.wait_until(apart)
    assert [item.text for item in browser.all(".legend-item")][:2] == ["research-XL", "production-S"]


@pytest.mark.parametrize("mechanism", ["suspend", "checkpoint"])
def test_a_task_that_waits_with_its_work_kept_is_drawn_where_it_was_evicted(
    browser: Browser, tmp_path: Path, mechanism: str
) -> None:
    page = simulate(tmp_path, mechanism, f"scheduler.mechanism={mechanism}") / "report.html"
    browser.open_report(page)
    canvas = browser.one("canvas.timeline")
    gaps = browser.driver.execute_async_script(_GAPS)
    rows = RunResults(page.parent).table("attempts")
    evicted = {row["attempt"] for row in rows if row["suspended_spans"] or row["outcome"] == "checkpointed"}
    assert {gap["attempt"] for gap in gaps} == evicted
    first = next(gap for gap in gaps if gap["width"] > 20)
    below, above = (browser.pixel(canvas, (first["x"], first["bottom"] - up)) for up in (1.5, first["height"] - 2))
    assert below != above, "the line of the task that waits, below the bar of the one that has its container"


def test_few_values_are_dots_and_no_curve(browser: Browser, run: Path) -> None:
    browser.open_report(run / "report.html")
    completion = browser.one("[data-chart=completion]")
    assert len(completion.find_elements("css selector", "circle")) == 2
    assert not completion.find_elements("css selector", "path.curve")
    assert browser.all("[data-chart=overheads] path.curve"), "of 48 starts there is a distribution"


def test_times_that_are_all_zero_have_an_axis_all_the_same(browser: Browser, run: Path) -> None:
    browser.open_report(run / "report.html")
    browser.driver.execute_script(_ALL_ZERO)
    numbers = [text.text for text in browser.all("[data-chart=overheads] text[text-anchor=middle]")]
    assert numbers.count("0") == 1, numbers


def test_no_table_is_clipped_at_1400_pixels(browser: Browser, run: Path, tmp_path: Path) -> None:
    long = f"workload.jobs.0.name={'a-job-with-a-name-that-is-long-' * 2}"
    other = simulate(tmp_path, "other", "scheduler.mechanism=kill", "workload.jobs.1.deadline_s=100", long)
    (tmp_path / "both.html").write_text(report_of([other, run]))
    size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open_report(tmp_path / "both.html")
        widths = browser.driver.execute_script(_TABLES)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert {name for name, *_ in widths} >= {"jobs", "queues", "overheads", "Overview"}
    assert [one for one in widths if one[1] > one[2]] == [], "neither a table nor a cell"


def test_runs_are_drawn_over_one_another(browser: Browser, run: Path, tmp_path: Path) -> None:
    other = simulate(tmp_path, "other", "scheduler.mechanism=kill")
    page = tmp_path / "both.html"
    page.write_text(report_of([run, other]))
    browser.open_report(page)
    browser.wait_until(lambda: browser.all("[data-names][data-ready]"))
    legends = [legend.text.split() for legend in browser.all("[data-names] .chart-legend")]
    assert legends == [["run", "other"]] * 2  # utilization, suspended
    charts = browser.all("[data-names] svg[role=img]")
    labels = [{text.text for text in chart.find_elements("css selector", "text")} for chart in charts]
    assert [{"run", "other"} <= texts for texts in labels[-2:]] == [True, True], "the completion times of two queues"


def test_no_chart_of_suspended_tasks_where_no_run_suspends_any(browser: Browser, tmp_path: Path) -> None:
    runs = [simulate(tmp_path, mechanism, f"scheduler.mechanism={mechanism}") for mechanism in ("kill", "wait")]
    page = tmp_path / "both.html"
    page.write_text(report_of(runs))
    browser.open_report(page)
    browser.wait_until(lambda: browser.all("[data-names][data-ready]"))
    assert [head.text for head in browser.all("[data-names] .charts h2")] == [
        "Utilization",
        "Completion times: production",
        "Completion times: research",
    ]


def test_tables_sort_and_a_chart_says_what_is_under_the_pointer(browser: Browser, run: Path) -> None:
    browser.open_report(run / "report.html")
    jobs = RunResults(run).summary["jobs"]
    by_completion = [job["name"] for job in sorted(jobs, key=lambda job: job["completion_s"])]
    head = next(found for found in browser.all("[data-table=jobs] th button") if found.text == "completion, s")
    for expected in (by_completion, by_completion[::-1]):
        head.click()
        assert [cell.text for cell in browser.all("[data-table=jobs] tbody td:nth-child(2)")] == expected
    chart = browser.one("[data-chart=utilization] svg")
    browser.point_at(chart, (chart.size["width"] / 2, chart.size["height"] / 2))
    browser.wait_until(lambda: "at work 100" in browser.one("[data-chart=utilization] .reading").text)


@pytest.mark.parametrize("width", [380, 1600])
def test_nothing_sticks_out_of_the_page(browser: Browser, run: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open_report(run / "report.html")
        assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.driver.execute_script(_BROKEN_WORDS) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_paper_that_is_narrower_than_the_window_has_the_whole_timeline(browser: Browser, run: Path) -> None:
    browser.open_report(run / "report.html")
    canvas = browser.one("canvas.timeline")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.driver.execute_script("arguments[0].style.width = '3000px'", canvas)  # as painted for a wide window
        assert canvas.size["width"] < 1280
        assert not browser.one(".toolbar").is_displayed()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
