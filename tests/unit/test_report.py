"""Reports say what ``summary.json`` and the Parquet files say, to the last digit, and need nothing else to open."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from analysis import metrics
from analysis.evictions import evictions, why
from analysis.load import load
from analysis.report.page import DETAILED_RUNS, report_of, to_detail
from analysis.run_paths import RunPath
from analysis.statistics import spread
from emulator.errors import ConfigError
from tests.commands import run_natjam
from tests.report_pages import Page, payloads
from tests.run_results import RunResults
from tests.simulated_runs import simulate

DEADLINE = "workload.jobs.1.deadline_s=100"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    for mechanism in ("checkpoint", "suspend", "kill"):
        simulate(directory, mechanism, f"scheduler.mechanism={mechanism}", DEADLINE)
    return directory


@pytest.fixture(params=["checkpoint", "suspend", "kill"])
def run(runs: Path, request: pytest.FixtureRequest) -> Path:
    return runs / request.param


def summary_of(run: Path) -> dict[str, Any]:
    return RunResults(run).summary


def texts(values: list[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def test_the_job_table_is_the_summary(run: Path) -> None:
    page = Page((run / "report.html").read_text())
    keys = ("name", "queue", "state", "submit_s", "start_s", "finish_s", "completion_s", "deadline_s", "margin_s")
    keys += ("attempts", "suspensions", "kills", "lost_work_s")
    expected = [[None, *texts([job[key] for key in keys])] for job in summary_of(run)["jobs"]]
    assert page.tables["jobs"][1:] == expected, "the first column is the check box"


def test_the_overheads_are_the_summary(run: Path) -> None:
    page, summary = Page((run / "report.html").read_text()), summary_of(run)
    called = {name: name.removesuffix("_s").replace("_", " ") for name in summary["overheads"]}
    called["suspend_s"] = "suspend or save"
    expected = []
    for name, cost in summary["overheads"].items():
        figures = [cost[key] for key in ("n", "mean", "p50", "p95", "p99")]
        expected.append([called[name], *texts(figures)])
    assert page.tables["overheads"][1:] == expected
    operations = Counter(row["operation"] for row in RunResults(run).table("operations"))
    assert {row[0]: row[1] for row in page.tables["overheads"][1:]} == {
        called[name]: str(operations[name.removesuffix("_s")]) for name in summary["overheads"]
    }


def test_headline_and_details_are_the_summary_and_the_attempts(run: Path) -> None:
    page, summary, results = Page((run / "report.html").read_text()), summary_of(run), RunResults(run)
    attempts = results.table("attempts")
    assert page.tiles == {
        "makespan": str(summary["makespan_s"]),
        "jobs": str(len(summary["jobs"])),
        "utilization": str(summary["work"]["utilization"]),
        "work lost": str(summary["work"]["wasted_fraction"]),
        "preempted": str(suspensions(attempts)),
        "killed": str(sum(row["outcome"] == "killed" for row in attempts)),
        "deadlines missed": str(sum(job["margin_s"] is not None and job["margin_s"] < 0 for job in summary["jobs"])),
    }
    assert page.facts["useful work"] == str(summary["work"]["useful_s"])
    assert page.facts["lost work"] == str(summary["work"]["lost_s"])
    assert page.facts["checkpoints written"] == str(summary["checkpoint_bytes"])


def suspensions(attempts: Sequence[Mapping[str, Any]]) -> int:
    """Times that a container was given back with the work kept."""
    stops = sum(span["freed_s"] is not None for row in attempts for span in row["suspended_spans"])
    return stops + sum(row["outcome"] == "checkpointed" for row in attempts)


def test_the_queue_table_is_what_the_parquet_files_give(run: Path) -> None:
    page, results = Page((run / "report.html").read_text()), load(run)
    queues = metrics.queue_metrics(metrics.job_metrics(results.jobs, results.tasks, 48))
    columns = [
        "queue",
        "jobs",
        "failed",
        "completion_mean_s",
        "completion_p50_s",
        "completion_p95_s",
        "completion_max_s",
    ]
    queues["missed"] = queues["missed"].astype(object).where(queues["deadlines"] > 0, None)
    columns += ["missed", "suspensions", "kills", "lost_work_s"]
    expected = [texts([row[column] for column in columns]) for row in queues.to_dict("records")]
    assert page.tables["queues"][1:] == expected


def test_what_is_read_of_a_figure_is_the_figure(run: Path) -> None:
    page = Page((run / "report.html").read_text())
    for name in ("jobs", "queues", "overheads"):
        for exact, read in zip(page.tables[name], page.shown[name], strict=True):
            for value, text in zip(exact, read, strict=True):
                if value is None or not value.replace(".", "").replace("-", "").isdecimal():
                    continue
                text = text.partition(" of ")[0]
                assert float(text.replace(",", "")) == pytest.approx(float(value), rel=6e-4, abs=6e-4)


def test_the_payload_holds_the_attempts_and_the_curves_of_the_parquet_files(run: Path) -> None:
    (payload,) = payloads((run / "report.html").read_text())
    results, frames = RunResults(run), load(run)
    attempts, jobs = results.table("attempts"), results.table("jobs")
    assert payload["attempt"] == [row["attempt"] for row in attempts]
    assert payload["container"] == [row["container"] for row in attempts]
    for name in ("job", "kind", "outcome", "reason"):
        names = payload[f"{name}_names"]
        assert [names[place] if place >= 0 else None for place in payload[f"{name}_places"]] == [
            r[name] for r in attempts
        ]
    for name in ("task", "keys_start", "keys_done", "keys_total"):
        assert payload[f"attempt_{name}"].tolist() == [-1 if row[name] is None else row[name] for row in attempts]
    for name in ("ready", "first_key", "ended"):
        known = [(place, row[f"{name}_s"]) for place, row in enumerate(attempts) if row[f"{name}_s"] is not None]
        found = payload[f"attempt_{name}"] * payload["tick_s"]
        assert [found[place] for place, _ in known] == pytest.approx([value for _, value in known], abs=0.001)
    assert payload["jobs"] == [{key: row[key] for key in payload["jobs"][0]} for row in jobs]
    at_work_s, at_work = metrics.busy_containers(frames.attempts, frames.suspensions)
    assert payload["at_work_n"].tolist() == at_work.tolist()
    assert payload["at_work_s"] == pytest.approx(at_work_s.astype(numpy.float32))
    waiting_s, waiting = metrics.waiting_jobs(frames.jobs)
    assert payload["waiting_jobs_n"].tolist() == waiting.tolist()
    assert payload["waiting_jobs_s"] == pytest.approx(waiting_s)
    for operation in {row["operation"] for row in results.table("operations")}:
        totals = sorted(row["total_s"] for row in results.table("operations") if row["operation"] == operation)
        assert payload[f"overhead_{operation}"] == pytest.approx(totals, rel=1e-6)


def test_the_page_loads_nothing(run: Path) -> None:
    html = (run / "report.html").read_text()
    assert Page(html).addresses == ["data:,"]
    assert "http://www.w3.org/2000/svg" in html, "a name, not an address"
    assert html.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_several_runs_have_an_overview_and_each_its_timeline(runs: Path, tmp_path: Path) -> None:
    names = ("checkpoint", "suspend", "kill")
    out = tmp_path / "all.html"
    run_natjam("report", *(runs / name for name in names), "--out", out)
    html = out.read_text()
    rows = Page(html).tables["overview"][1:]
    for name, row, payload in zip(names, rows, payloads(html), strict=True):
        summary = summary_of(runs / name)
        completions = [job["completion_s"] for job in summary["jobs"]]
        assert row[1:5] == texts([name, summary["seed"], summary["makespan_s"], 2])
        assert row[6:9] == texts(
            [sum(completions) / 2, *(summary["work"][key] for key in ("utilization", "wasted_fraction"))]
        )
        assert payload["attempt"] == [attempt["attempt"] for attempt in RunResults(runs / name).table("attempts")]


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    name = "</script><img src=x onerror=alert(1)>"
    directory = simulate(tmp_path, "run", "name=bad")
    summary = json.loads((directory / "summary.json").read_text())
    summary["jobs"][0]["name"] = summary["name"] = name
    (directory / "summary.json").write_text(json.dumps(summary))
    html = report_of([directory])
    assert "<img" not in html
    assert Page(html).tables["jobs"][1][1] == name


def test_a_run_that_is_not_there_and_one_of_which_something_is_missing(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such directory"):
        report_of([tmp_path / "none"])
    broken = simulate(tmp_path, "broken")
    (broken / "attempts.parquet").unlink()
    done = run_natjam("report", broken, "--out", tmp_path / "out.html", status=2)
    assert "attempts.parquet: is missing" in done.output
    assert not (tmp_path / "out.html").exists()


def test_victims_say_why_they_were_chosen(run: Path) -> None:
    (payload,) = payloads((run / "report.html").read_text())
    found = {payload["attempt"][int(row)]: text for row, text in payload["why"].items()}
    expected = evictions(run)
    assert found
    assert set(found) == {eviction.attempt for eviction in expected}
    for eviction in expected:
        said = found[eviction.attempt]
        assert f"at {eviction.decision.t_s:.1f} s by {why(eviction.decision, eviction.chosen)}" in said
        assert f"its job by {eviction.why_job}, for production-S" in said


def test_repeats_and_variants_are_taken_together(tmp_path: Path) -> None:
    for mechanism in ("checkpoint", "kill"):
        for seed in (3, 4, 5):
            place = tmp_path / "campaign/runs" / f"task_eviction=random,mechanism={mechanism}"
            overrides = (f"seed={seed}", f"scheduler.mechanism={mechanism}", "scheduler.task_eviction=random")
            simulate(place, f"seed-{seed}", *overrides)
    html = report_of([tmp_path / "campaign"])
    page = Page(html)
    runs = load(tmp_path / "campaign")
    assert [row[0] for row in page.tables["variants"][1:]] == list(runs.runs["run"].unique())
    for row in page.tables["variants"][1:]:
        makespans = runs.runs[runs.runs["run"] == row[0]]["makespan_s"]
        found = spread(makespans)
        assert row[1:4] == texts([3, 0, found.mean])
        research = runs.jobs[(runs.jobs["run"] == row[0]) & (runs.jobs["queue"] == "research")]
        assert row[4] == str(spread(research["completion_s"]).mean)
    (charts,) = re.findall(r'id="interval-charts">(.*)</script>', html)
    makespan = json.loads(charts)[0]
    assert [row["name"] for row in makespan["rows"]] == ["random, checkpoint", "random, kill"]
    assert [str(row["mean"]) for row in makespan["rows"]] == [row[3] for row in page.tables["variants"][1:]]
    assert len(payloads(html)) == 6
    ((name, seeds, difference, *_),) = page.tables["differences"][1:]
    assert (name, seeds) == ("random, kill", "3")
    by_run = runs.runs.pivot(index="seed", columns="run", values="makespan_s")
    checkpoint, kill = (by_run[row[0]] for row in page.tables["variants"][1:])
    assert difference is not None
    assert float(difference) == pytest.approx(float((kill - checkpoint).mean()))
    assert "3 intervals over the seeds (Student&#39;s), each of 95% by itself" in html
    (charts,) = re.findall(r'id="difference-charts">(.*)</script>', html)
    ((of_makespan,),) = (chart["rows"] for chart in json.loads(charts)[:1])
    found = spread(kill - checkpoint)
    assert (of_makespan["mean"], of_makespan["low"], of_makespan["high"]) == (found.mean, found.low, found.high)


def test_the_baseline_is_the_variant_named(tmp_path: Path) -> None:
    for mechanism in ("checkpoint", "kill"):
        for seed in (3, 4):
            place = tmp_path / "campaign/runs" / f"mechanism={mechanism}"
            simulate(place, f"seed-{seed}", f"seed={seed}", f"scheduler.mechanism={mechanism}")
    first, named = (Page(report_of([tmp_path / "campaign"], name)).tables["differences"] for name in (None, "kill"))
    assert [row[0] for row in (first[1], named[1])] == ["kill", "checkpoint"]
    assert float(first[1][2] or 0) == pytest.approx(-float(named[1][2] or 0))
    command = ["report", str(tmp_path / "campaign"), "--baseline", "swap", "--out", str(tmp_path / "page.html")]
    refused = run_natjam(*command, status=2)
    assert "--baseline swap: there is no such variant; there are checkpoint; kill" in refused.stderr
    plan = {f"mechanism={each}/seed-3": {"variant": each, "sha256": ""} for each in ("kill", "checkpoint")}
    (tmp_path / "campaign/campaign.json").write_text(json.dumps({"natjam_campaign": 1, "runs": plan}))
    as_planned = Page(report_of([tmp_path / "campaign"], None)).tables["differences"]
    assert as_planned == named, "the first of the campaign's file, as in the campaign's own table"


def test_each_directory_has_its_own_report_and_none_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (3, 4):
        simulate(tmp_path / "campaign/runs/one", f"seed-{seed}", f"seed={seed}")
    run = Path("campaign/runs/one/seed-3")
    own = (run / "report.html").read_bytes()
    assert f"report in {run}/report.html: the run's own" in run_natjam("report", run).output
    assert "report in campaign/report.html (" in run_natjam("report", "campaign").output
    of_two = run_natjam("report", run, run.with_name("seed-4")).output
    assert re.match(r"report in runs/report-\d{8}-\d{6}\.html \(", of_two)
    assert (run / "report.html").read_bytes() == own
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaign", "runs"]
    run_natjam("verify", run)


def test_of_many_runs_those_of_every_variant_are_shown_first(tmp_path: Path) -> None:
    runs = [RunPath(name, seed, tmp_path / name / str(seed)) for name in "abc" for seed in range(9)]
    shown = to_detail(runs)
    assert len(shown) == DETAILED_RUNS
    assert {(path.parent.name, int(path.name)) for path in shown} == {
        (name, seed) for name in "abc" for seed in range(4)
    }
