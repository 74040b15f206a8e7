"""The display of a run and its closing tables, fed with data and read back as text."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from analysis.report.facts import headline
from emulator.display.closing_tables import MAX_JOBS, closing_tables
from emulator.display.status import JobStatus, RunStatus
from emulator.display.work_display import BAR_CELLS, RunDisplay, render_status, status_line
from emulator.records.summary import failures
from tests.commands import displayed

RESEARCH = JobStatus("research-XL", "research", "running", done=10, running=28, suspended=11, waiting=2, total=51)
PRODUCTION = JobStatus("production-S", "production", "running", done=4, running=11, suspended=0, waiting=0, total=15)


def status(*jobs: JobStatus, real_s: float = 4.2, phase: str = "running", suspended: int = 3) -> RunStatus:
    used = {"production": 12, "research": 29}
    return RunStatus(75_300_000_000, real_s, 20.0, phase, jobs, 48, used, suspended, 1.7)


def summary() -> dict[str, Any]:
    job = {
        "name": "research-XL",
        "queue": "research",
        "submit_s": 0.0,
        "start_s": 5.0,
        "finish_s": 197.0,
        "completion_s": 197.02,
        "deadline_s": None,
        "margin_s": None,
        "state": "succeeded",
        "attempts": 62,
        "suspensions": 11,
        "kills": 0,
        "lost_work_s": 0.0,
        "reason": "",
    }
    cost = {"n": 60, "mean": 2.634, "p50": 2.63, "p95": 2.64, "p99": 2.71, "overruns": 1}
    none = {key: {"p50": None, "p99": None} for key in ("heartbeat", "key", "total")}
    return {
        "name": "fig4",
        "engine": "live",
        "time_scale": 20.0,
        "seed": 1,
        "makespan_s": 203.2,
        "real_s": 14.2,
        "jobs": [job],
        "overheads": {"schedule_s": {**cost, "real_ms": {**none, "mechanism": {"p50": 3.25, "p99": 8.5}}}},
        "work": {"useful_s": 7000.0, "lost_s": 0.0, "wasted_fraction": 0.0, "utilization": 0.912},
        "lag": {"p50_real_ms": 0.1, "p99_real_ms": 2.1, "max_real_ms": 9.0, "p99_emulated_s": 0.042},
        "output": {
            "verified": True,
            "keys_expected": 7000,
            "keys_written": 7000,
            "keys_lost": 0,
            "keys_duplicated": 0,
            "files_differing": 0,
            "files_missing": 0,
            "files_extra": 0,
            "extra": [],
        },
    }


def test_bars_show_each_kind_of_task_in_proportion() -> None:
    lines = displayed(render_status(status(RESEARCH, PRODUCTION), height=30)).splitlines()
    research, production, containers = lines[1:4]
    assert "10/51 done  28 running  11 suspended" in research
    assert "suspended" not in production
    for line in (research, production, containers):
        assert sum(line.count(cell) for cell in "█▓▒░·") == BAR_CELLS
    assert (research.count("█"), research.count("▓"), research.count("▒")) == (8, 22, 8)
    assert "41/48  production 12  research 29" in containers
    assert containers.count("·") == BAR_CELLS - round(BAR_CELLS * 41 / 48)
    assert "75.3 s emulated at 20x" in lines[0]
    assert "lag p99 1.7 ms" in lines[0]


def test_containers_of_several_sizes_are_counted_without_a_total() -> None:
    shown = replace(status(RESEARCH, PRODUCTION), containers_total=0)
    assert status_line(shown).endswith("containers 41")
    text = displayed(render_status(shown, height=30))
    assert "containers  41  production 12  research 29" in text
    assert "41/" not in text


def test_jobs_that_do_not_fit_the_terminal_are_counted() -> None:
    ended = [JobStatus(f"ended{n}", "research", "succeeded", 9, 0, 0, 0, 9) for n in range(20)]
    coming = [JobStatus(f"coming{n}", "research", "submitted", 0, 0, 0, 9, 9) for n in range(20)]
    lines = displayed(render_status(status(*ended, RESEARCH, *coming), height=12)).splitlines()
    assert len(lines) <= 12
    assert any("research-XL" in line for line in lines), "what runs is shown before what ended or is to come"
    assert any("and 36 more jobs; 20 of 41 ended" in line for line in lines)


@given(
    counts=st.lists(st.tuples(*[st.integers(0, 3000)] * 4), max_size=60),
    used=st.dictionaries(st.text(max_size=9), st.integers(0, 5000), max_size=3),
    total=st.integers(0, 5000),
    height=st.integers(1, 60),
)
def test_any_status_can_be_shown(counts: list[tuple[int, ...]], used: dict[str, int], total: int, height: int) -> None:
    jobs = tuple(JobStatus(f"[job {n}]", "q", "running", *count, total=sum(count)) for n, count in enumerate(counts))
    shown = RunStatus(10**9, 1.0, 1.0, "running", jobs, total, used, 0, None)
    assert displayed(render_status(shown, height))
    assert "\n" not in status_line(shown)


def test_without_a_terminal_a_line_every_few_seconds_and_at_each_phase() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, width=40)) as display:
        display.update(status(phase="starting Ray", real_s=0.0))
        for tenths in range(10, 120):
            display.update(status(RESEARCH, real_s=tenths / 10))
        display.update(status(RESEARCH, real_s=12.0, phase="verifying the output"))
    lines = out.getvalue().splitlines()
    assert [line.split("|")[2].strip() for line in lines] == ["starting Ray", *["running"] * 3, "verifying the output"]
    assert "research-XL 10/51 done, 28 running, 11 suspended" in lines[1]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_display_is_drawn_in_place_and_leaves_nothing() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, height=30, force_terminal=True)
    with RunDisplay(console) as display:
        display.update(status(RESEARCH))
    assert "research-XL" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K"), "the last thing done is to erase what was drawn"


def test_what_was_not_checked_of_an_output_is_said_beside_what_was() -> None:
    programs = summary()
    programs["output"] |= {"keys_expected": 0, "keys_written": 0, "files_expected": 3, "programs": 3}
    text = displayed(*closing_tables(programs))
    assert "not checked: what 3 programs wrote" in text
    assert "verified" not in text
    programs["output"] |= {"programs_compared": 2}
    text = displayed(*closing_tables(programs))
    assert "verified: what 2 programs wrote, unchanged since the commit" in text
    assert "not checked: what 1 program wrote" in text
    assert {tile.label: (tile.cell.text, tile.cell.tone) for tile in headline(programs)}["output"] == ("unchanged", "")


def test_closing_tables_and_no_failures() -> None:
    text = displayed(*closing_tables(summary()))
    for words in (
        *("research-XL", "succeeded", "197.0", "62", "11", "schedule", "2.634", "3.250", "8.500"),
        *(
            "verified: 7,000 keys",
            "utilization 91.2%",
            "makespan 203.2 s emulated (first submission to last end)",
            "p99 2.100 ms",
        ),
    ):
        assert words in text
    assert "work kept" in text
    assert "suspensions" not in text, "under checkpoint no process was suspended"
    assert failures(summary()) == []


def test_what_is_saved_is_not_called_suspended_and_masters_that_take_no_time_have_no_row() -> None:
    told = copy.deepcopy(summary())
    cost = told["overheads"]["schedule_s"]
    told["overheads"]["suspend_s"] = cost
    assert "suspend or save" in displayed(*closing_tables(told))
    for mean, is_shown in ((2.5, True), (0.0, False), (None, False)):
        told["overheads"]["application_master_start_s"] = {**cost, "mean": mean}
        assert ("application master start" in displayed(*closing_tables(told))) == is_shown


def test_the_reason_of_a_failure_does_not_fill_the_table() -> None:
    failed = copy.deepcopy(summary())
    failed["jobs"][0] |= {"state": "failed", "reason": "train/tasks-000.3 failed 4 times, at last: " + "a | b " * 50}
    text = displayed(*closing_tables(failed), width=400)
    assert "failed: train/tasks-000.3 failed 4 times, at last: " in text
    assert "a | b a" not in text
    assert "a | b " * 49 in failures(failed)[0]


def test_margins_are_shown_where_a_job_has_a_deadline() -> None:
    with_deadlines = copy.deepcopy(summary())
    one = with_deadlines["jobs"][0]
    assert "margin" not in displayed(*closing_tables(with_deadlines))
    with_deadlines["jobs"] = [
        {**one, "name": "late", "submit_s": 5.0, "deadline_s": 190.0, "margin_s": -7.25},
        {**one, "name": "never", "deadline_s": 190.0, "margin_s": None},
        {**one, "name": "free"},
    ]
    lines = displayed(*closing_tables(with_deadlines)).splitlines()
    heads = " ".join(lines[:5])
    assert all(head in heads for head in ("submitted", "completion", "deadline", "margin")), (
        "instants, and what is left"
    )
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if line.startswith("│ ")]
    assert {row[1]: row[6:8] for row in rows[:3]} == {
        "late": ["190.0", "-7.250"],
        "never": ["190.0", "missed"],
        "free": ["-", "-"],
    }
    with_deadlines["jobs"] += [{**one, "name": f"job-{n}"} for n in range(MAX_JOBS)]
    assert "2 of 2" in displayed(*closing_tables(with_deadlines))


def test_of_many_jobs_the_queues_are_shown_and_the_jobs_that_stand_out() -> None:
    many = copy.deepcopy(summary())
    one = many["jobs"][0]
    many["jobs"] = [{**one, "name": f"job-{n:04}", "completion_s": 1.0 + n} for n in range(2000)]
    many["jobs"][5] |= {"state": "failed", "completion_s": None}
    text = displayed(*closing_tables(many))
    assert text.count("job-") == MAX_JOBS
    assert f"{MAX_JOBS} of 2,000 jobs" in text
    assert text.index("job-0005") < text.index("job-1999") < text.index("job-1998")
    queue = next(line for line in text.splitlines() if f" {one['queue']} " in line)
    assert [cell.strip() for cell in queue.split("│")[2:6]] == ["2,000", "1", "1,001.0", "2,000.0"]


def test_a_job_that_its_scheduler_has_ended_is_cancelled_and_no_failure() -> None:
    ended = copy.deepcopy(summary())
    ended["jobs"][0] |= {"state": "killed", "reason": "preempted (PreemptMode=CANCEL)"}
    text = displayed(*closing_tables(ended))
    assert "1 by its scheduler: preempted (PreemptMode=CANCEL)" in text
    assert failures(ended) == []
    assert [tile.note for tile in headline(ended) if tile.label == "jobs"] == ["1 cancelled by their scheduler"]


def test_failures_name_the_job_and_the_output() -> None:
    failed = copy.deepcopy(summary())
    failed["jobs"][0] |= {"state": "failed", "finish_s": None, "completion_s": None, "reason": "no node is left"}
    failed["output"] |= {"verified": False, "keys_written": 6999, "keys_lost": 1, "files_differing": 1}
    failed["output"] |= {"files_extra": 1, "extra": ["_partial/research-XL/part"]}
    text = displayed(*closing_tables(failed))
    assert "NOT VERIFIED: 6999 of 7000 keys written, 1 lost" in text
    assert failures(failed)[0] == "job research-XL failed: no node is left"
    assert "1 keys lost" in failures(failed)[1]
    assert "0 missing, 1 too many (_partial/research-XL/part)" in failures(failed)[1]


@pytest.mark.parametrize("value", [None, 1.5])
def test_the_summary_of_repeats(value: float | None) -> None:
    metric = {"n": 5, "mean": value, "sd": value, "ci95_low": value, "ci95_high": value}
    repeats = {"repeats": 5, "seeds": [1, 2, 3, 4, 5], "metrics": {"research-XL.completion_s": metric}}
    text = displayed(*closing_tables(repeats))
    assert "research-XL.completion_s" in text
    assert ("1.500" in text) == (value is not None)
    assert failures(repeats) == []
