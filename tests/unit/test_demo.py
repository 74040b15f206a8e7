"""What the demonstration says: the time scale that it chooses, its rows, its verdict, its report and picture."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from analysis.demo.rows import (
    KILL,
    NATJAM,
    SOFT_CAP,
    SUSPEND,
    VARIANTS,
    Done,
    Way,
    busy_text,
    cells,
    not_comparable,
    verdict,
)
from analysis.demo.run import run_all, worst_chain_s
from analysis.demo.scale import (
    RUN_FOR_PROBE,
    SCALES,
    Load,
    choose_scale,
    expected_end,
    expected_real_s,
    measure_load,
    most_real_s,
    scale_text,
)
from emulator.records.gaps import disturbances
from tests.live_runs import REPOSITORY


def summary_of(
    research_s: float | None = 198.0,
    production_s: float | None = 76.0,
    lost_s: float = 0.0,
    disturbed: bool = False,
    time_scale: float = 20,
) -> dict[str, Any]:
    """A summary with what the demonstration reads of it."""
    lag = {"p99_real_ms": 31.2, "p99_emulated_s": 0.624, "within_bound": not disturbed, "bound_emulated_s": 0.5}
    figures = {"research-XL": (research_s, 29, 0, lost_s), "production-S": (production_s, 0, 0, 0.0)}
    jobs = [
        {
            **dict(zip(("completion_s", "suspensions", "kills", "lost_work_s"), values, strict=True)),
            "name": name,
            "state": "failed" if values[0] is None else "succeeded",
        }
        for name, values in figures.items()
    ]
    facts = {"disturbed": disturbed, "time_scale": time_scale, "overheads": {}, "output": {"verified": True}}
    return {"jobs": jobs, "lag": lag, **facts}


def done_of(way: Way = NATJAM, late_s: float = 0.4, idle_cores: float = 1.9, **of_summary: Any) -> Done:
    """A run of two cores that were idle before it, unless it is said otherwise."""
    return Done(way, summary_of(**of_summary), Path("out"), late_s, idle_cores)


# ---- the time scale ----


def burst(last_in_time_ms: float, beyond_ms: float = 0.0) -> tuple[float, ...]:
    """A burst of 47 launches, of which all but four are ready by then; the four others take longer."""
    in_time = [last_in_time_ms * (number + 1) / 43 for number in range(43)]
    return (*in_time, *[last_in_time_ms + beyond_ms] * 4)


@pytest.mark.parametrize(
    ("lag_ms", "launches_ms", "scale"),
    [
        # Of the published 2.63 s one second is the heartbeat's: at 20, launches may take 1.63 s / 20 + 5 ms = 86.5 ms.
        (0.2, 86.5, 20),
        (0.2, 86.6, 16),
        (0.2, 168.0, 10),  # two quiet cores
        (0.2, 168.1, 8),
        (0.2, 600.0, 2.5),
        (24.9, 50.0, 20),  # half a heartbeat late
        (25.1, 50.0, 16),
        (100.1, 50.0, 4),
        (500.0, 5000.0, 2.5),  # it holds none
    ],
)
def test_the_time_scale_is_what_launches_and_timers_hold(lag_ms: float, launches_ms: float, scale: float) -> None:
    load = Load(lag_ms / RUN_FOR_PROBE, (burst(launches_ms / RUN_FOR_PROBE),) * 3, idle_cores=1.9)
    assert choose_scale(load, schedule_s=2.63, heartbeat_s=1.0) == scale
    said = scale_text(load, scale, datetime(2026, 11, 28, 23, 59))
    assert said.startswith(f"time scale {scale:g}: it ends at about 00:0")
    assert "busy" not in said
    assert f"47 launches in {launches_ms / RUN_FOR_PROBE:.0f} ms" in said
    assert ("it may be faster" in said) is (scale < 20)


def test_the_worst_burst_counts_and_of_it_the_launches_that_must_be_in_time() -> None:
    """The criterion of a disturbed run, on a burst as the run will have it, gives the same answer."""
    calm, slow = burst(50.0, beyond_ms=1000.0), burst(100.0)
    assert choose_scale(Load(0.2, (calm, calm, calm), 1.9), 2.63, 1.0) == 20
    assert choose_scale(Load(0.2, (calm, slow, calm), 1.9), 2.63, 1.0) == 13
    for scale in SCALES:
        late_s = [1.0 + scale * ready_ms * RUN_FOR_PROBE / 1e3 for ready_ms in slow]
        overruns = sum(ready_s > 2.63 + 0.005 * scale for ready_s in late_s)
        launches = {"schedule_s": {"n": 47, "overruns": overruns}}
        assert bool(disturbances({"lag": None, "overheads": launches})) is (scale > 13)


def test_a_longer_heartbeat_allows_more_lag_and_leaves_less_for_launches() -> None:
    late, slow = Load(24.9 / RUN_FOR_PROBE, (burst(1.0),), 1.9), Load(0.2, (burst(100.0 / RUN_FOR_PROBE),), 1.9)
    assert [choose_scale(late, 9.0, heartbeat_s) for heartbeat_s in (0.5, 0.9, 3.0)] == [10, 16, 20]
    assert [choose_scale(slow, 2.63, heartbeat_s) for heartbeat_s in (0.5, 1.0, 2.0)] == [20, 16, 6]


def test_it_is_said_when_it_will_end_and_whether_the_machine_is_busy() -> None:
    now, bursts = datetime(2026, 11, 28, 12, 0, 0), (burst(100.0),)
    said = scale_text(Load(0.2, bursts, 1.9), 10, now)
    assert said.startswith("time scale 10: it ends at about 12:01:48 (at the latest at 12:03:26, if runs that are ")
    assert expected_end(now, 10, runs=1) == "12:00:34"
    said = scale_text(Load(0.2, bursts, 0.1), 10, now)
    assert said.endswith("this machine is busy: other programs leave 0.1 of its cores, so no time is compared")


def test_the_load_of_this_machine_can_be_measured() -> None:
    load = measure_load()
    assert load.lag_p99_real_ms > 0
    assert load.idle_cores >= 0
    for ready_ms in load.bursts_real_ms:
        assert len(ready_ms) == 47
        assert 0 < ready_ms[0] < ready_ms[-1]
        assert list(ready_ms) == sorted(ready_ms)


# ---- which runs are made ----


def _runs(
    disturbed: set[tuple[str, float]], scale: float = 20, times_as_long: float = 1.0
) -> tuple[list[tuple[str, float]], list[str]]:
    """The runs that are made, and those that count, if each takes ``times_as_long`` as expected."""
    made: list[tuple[str, float]] = []
    took_real_s = [0.0]

    def run(variant: Way, scale: float, directory: Path) -> Done:
        made.append((directory.name, scale))
        took_real_s[0] += times_as_long * expected_real_s(scale, 1)
        summary = summary_of(disturbed=(variant.name, scale) in disturbed, time_scale=scale)
        return Done(variant, summary, directory, 0.4, 1.9)

    return made, [done.directory.name for done in run_all(run, scale, Path("out"), lambda: took_real_s[0])]


def test_every_variant_is_run_once_on_a_quiet_machine() -> None:
    made, counted = _runs(set())
    assert made == [(name, 20) for name in ("checkpoint", "kill", "suspend", "soft-cap")]
    assert counted == [name for name, _ in made]


def test_a_disturbed_run_is_made_again_once_and_slower() -> None:
    always = {(KILL.name, scale) for scale in SCALES}
    made, counted = _runs(always)
    assert made == [("checkpoint", 20), ("kill", 20), ("kill-slower", 13), ("suspend", 13), ("soft-cap", 13)]
    assert counted == ["checkpoint", "kill-slower", "suspend", "soft-cap"]


@pytest.mark.parametrize("scale", SCALES)
def test_runs_are_not_made_again_without_end(scale: float) -> None:
    """If every run is disturbed, the whole takes at most twice what was said; a machine that is slower than that makes
    less again."""
    every = {(variant.name, each) for variant in VARIANTS for each in SCALES}
    again: list[int] = []
    for times_as_long in (1.0, 2.0):
        made, counted = _runs(every, scale, times_as_long)
        assert len(counted) == len(VARIANTS)
        again.append(len(made) - len(counted))
        if times_as_long == 1.0:
            assert sum(expected_real_s(each, 1) for _, each in made) <= most_real_s(scale)
    assert again[0] >= 1 >= again[1]


# ---- how far late launches can have moved an end ----

PUBLISHED_S = {"schedule": 2.63, "suspend": 1.35, "resume": 3.88}


@pytest.mark.parametrize(
    ("operations", "worst_s"),
    [
        ([], 0.0),
        ([("schedule", 0.0, 2.63), ("kill", 3.0, 9.0)], 0.0),  # as published; without a published time
        ([("schedule", 0.0, 3.13), ("schedule", 0.0, 4.63), ("schedule", 1.0, 4.0)], 2.0),  # none waits for another
        ([("schedule", 0.0, 3.63), ("resume", 3.63, 9.51), ("schedule", 9.0, 12.0)], 3.0),  # the second for the first
        (
            [("schedule", 0.0, 3.0), ("schedule", 3.0, 6.0), ("schedule", 1.0, 6.63)],
            3.0,
        ),  # the worst chain, not the longest
    ],
)
def test_delays_add_up_where_one_operation_can_have_waited_for_the_other(
    operations: list[tuple[str, float, float]], worst_s: float
) -> None:
    assert worst_chain_s(operations, PUBLISHED_S) == pytest.approx(worst_s)
    assert worst_chain_s(reversed(operations), PUBLISHED_S) == pytest.approx(worst_s)


RECORDED = json.loads((REPOSITORY / "tests/data/demo-operations.json").read_text())
"""Runs on two cores that other programs kept busy, at two time scales: more than a tenth of all launches were late."""


@pytest.mark.parametrize(
    ("name", "late_s", "is_compared"),
    [
        ("checkpoint-10", 1.34, True),
        ("kill-10", 1.92, True),
        ("checkpoint-20", 3.66, True),
        ("kill-20", 9.59, False),  # research took 245.0 s, and 234.2 s at half the speed
    ],
)
def test_a_row_is_compared_by_how_far_its_ends_can_have_moved_and_not_by_how_many_launches_were_late(
    name: str, late_s: float, is_compared: bool
) -> None:
    run = RECORDED[name]
    assert run["late"] > 0.1 * run["launches"], "all of them were called busy"
    found_s = worst_chain_s(map(tuple, run["operations"]), PUBLISHED_S)
    assert found_s == pytest.approx(late_s, abs=0.01)
    done = done_of(KILL, late_s=found_s, research_s=run["research_s"])
    assert (not_comparable(done) is None) is is_compared
    assert ("%" in str(cells(done)[3])) is is_compared


# ---- the rows ----


def test_a_time_is_compared_with_the_published_one() -> None:
    assert cells(done_of()) == [
        *("checkpoint (Natjam)", "76.0 (+0.5%)", "75.6", "198.0 (+0.5%)", "197.0", "0.4", "29", "0", "verified")
    ]
    assert cells(done_of(SUSPEND))[1:5] == ["76.0", "-", "198.0", "-"]
    assert not_comparable(done_of()) is None


BUSY = {
    "timers": (
        {"disturbed": True},
        "timers were late by 0.62 emulated s (p99), beyond 0.5 s",
    ),
    "launches": (
        {"late_s": 4.0},
        "late launches can have moved its ends by 4.0 s, which is more than a tenth of the 39.5 s that kill costs "
        "research",
    ),
    "other programs": ({"idle_cores": 0.1, "late_s": 0.0}, None),
}


@pytest.mark.parametrize("variant", [NATJAM, SUSPEND, KILL, SOFT_CAP])
@pytest.mark.parametrize("why", BUSY)
def test_a_time_that_a_busy_machine_may_have_moved_is_not_compared(variant: Way, why: str) -> None:
    how, reason = BUSY[why]
    done = done_of(variant, time_scale=10, **how)
    row = list(map(str, cells(done)))
    assert "%" not in "".join(row)
    assert (row[1], row[3]) == ("76.0 (busy)", "198.0 (busy)")
    settings = " ".join(f"--set {override}" for override in variant.overrides)
    if reason is None:  # said once for all rows
        assert not_comparable(done) is None
        assert busy_text(0.1) == "this machine is busy: other programs leave 0.1 of its cores, so no time is compared"
        return
    assert not_comparable(done) == (
        f"{variant.name}: not comparable: this machine was busy ({reason}); on a quiet one, or: "
        f"natjam run catalog:natjam-fig4 --time-scale 2.5 {settings}"
    )


def test_a_job_that_did_not_succeed_has_no_time() -> None:
    assert cells(done_of(research_s=None))[3] == "failed"
    wrong = done_of()
    wrong = Done(NATJAM, {**wrong.summary, "output": {"verified": False}}, wrong.directory, 0.4, 1.9)
    assert cells(wrong)[-1] == Text("differs", "red")


@pytest.mark.parametrize(
    ("natjam", "kill", "said"),
    [
        (
            done_of(research_s=198.4),
            done_of(KILL, research_s=235.6, lost_s=1532.4, late_s=1.2),
            "Natjam kept all of research's work; kill lost 1,532 s of it; research-XL took 198 s under Natjam and "
            "236 s under kill, of which late launches can have made at most 1.2 s",
        ),
        (
            done_of(research_s=247.0, lost_s=12.0),
            done_of(KILL, research_s=233.0),
            "Natjam kept all but 12 s of research's work; kill lost none; research-XL took 247 s under Natjam and "
            "233 s under kill, of which late launches can have made at most 0.4 s",
        ),
        (
            done_of(research_s=247.0, disturbed=True),
            done_of(KILL, research_s=233.0, lost_s=900.0),
            "Natjam kept all of research's work; kill lost 900 s of it; "
            "their times are not comparable, because this machine was busy",
        ),
        (done_of(research_s=None), done_of(KILL), "no verdict: research-XL did not succeed both times"),
    ],
)
def test_the_verdict_is_what_was_measured(natjam: Done, kill: Done, said: str) -> None:
    assert verdict(natjam, kill) == said
