"""A report of 2,000 containers and some 50,000 attempts opens, and answers the pointer."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from analysis.whole_run import run_experiment
from emulator.experiment.load import load_experiment
from tests.browsing import Browser
from tests.run_results import RunResults

JOBS = 66
LARGEST_BYTES = 15e6
EXPERIMENT = """
name: large
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 250, containers_per_node: 8, memory_gb: 32, max_suspended_per_node: 16}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
  mechanism: suspend
workload:
  jobs:
"""
JOB = """
    - {{name: {queue}-{number}, queue: {queue}, submit_s: {submit_s}, maps: 300, map_s: 20, reduces: 450,
       reduce_s: {{uniform: [0.2, 1.0], longest: {longest_s}}}, key_s: 5}}
"""

# Milliseconds that the timeline takes to be drawn anew, median and worst of thirty: whole, close by, and moved along.
DRAWING = """
const done = arguments[0];
showRun(0).then((view) => {
  const times = (change) => {
    const found = Array.from({ length: 30 }, (_, step) => {
      change(step);
      const begun = performance.now();
      drawTimeline(view);
      return performance.now() - begun;
    }).sort((a, b) => a - b);
    return [found[15], found[29]];
  };
  const whole = times(() => {});
  view.setRowPixels(4);
  view.zoom(8);
  done({ whole, moved: times((step) => view.moveTo(view.from + step * 200)), lanes: view.run.lanes.length });
});
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large")
    file = directory / "large.yaml"
    jobs = [
        JOB.format(
            queue="research" if number % 3 else "production",
            number=number,
            submit_s=12 * number,
            longest_s=(60, 120, 240)[number % 3],
        )
        for number in range(JOBS)
    ]
    file.write_text(EXPERIMENT + "".join(jobs))
    run_experiment(load_experiment(file, []), directory / "out", lambda status: None)
    return directory / "out"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_thousand_containers_open_and_answer(browser: Browser, run: Path) -> None:
    attempts = RunResults(run).table("attempts")
    report = run / "report.html"
    assert len(attempts) > 49_000
    assert report.stat().st_size < LARGEST_BYTES
    begun_s = time.monotonic()
    browser.open_report(report)
    opened_s = time.monotonic() - begun_s
    canvas = browser.one("canvas.timeline")
    shown = next(row for row in attempts if row["node"] == "node-1" and row["kind"] == "reduce")
    browser.point_at(canvas, browser.place_of(shown["attempt"], "reduce"))
    browser.wait_until(lambda: browser.one(".tooltip").is_displayed())
    assert "node-1, container" in browser.said(".tooltip")["container"]
    drawn = browser.driver.execute_async_script(DRAWING)
    assert drawn["lanes"] >= 2000
    size_mb = report.stat().st_size / 1e6
    print(json.dumps({"attempts": len(attempts), "size_mb": size_mb, "opened_s": opened_s, "drawn_ms": drawn}))
