"""What the demonstration says: the time scale that it chooses, its rows, its verdict, its report and picture."""

from __future__ import annotations

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
    Summary,
    Way,
    cells,
    not_comparable,
    verdict,
)
from analysis.demo.run import run_all
from analysis.demo.scale import (
    RUN_FOR_PROBE,
    SCALES,
    Load,
    choose_scale,
    expected_real_s,
    measure_load,
    most_real_s,
    scale_text,
)
from emulator.records.gaps import disturbances


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
    load = Load(lag_ms / RUN_FOR_PROBE, (burst(launches_ms / RUN_FOR_PROBE),) * 3)
    assert choose_scale(load, schedule_s=2.63, heartbeat_s=1.0) == scale
    said = scale_text(load, scale)
    assert said.startswith(f"time scale {scale:g}, which takes about ")
    assert f"47 launches in {launches_ms / RUN_FOR_PROBE:.0f} ms" in said
    assert ("it may be faster" in said) is (scale < 20)


def test_the_worst_burst_counts_and_of_it_the_launches_that_must_be_in_time() -> None:
    """The criterion of a disturbed run, on a burst as the run will have it, gives the same answer."""
    calm, slow = burst(50.0, beyond_ms=1000.0), burst(100.0)
    assert choose_scale(Load(0.2, (calm, calm, calm)), 2.63, 1.0) == 20
    assert choose_scale(Load(0.2, (calm, slow, calm)), 2.63, 1.0) == 13
    for scale in SCALES:
        late_s = [1.0 + scale * ready_ms * RUN_FOR_PROBE / 1e3 for ready_ms in slow]
        overruns = sum(ready_s > 2.63 + 0.005 * scale for ready_s in late_s)
        launches = {"schedule_s": {"n": 47, "overruns": overruns}}
        assert bool(disturbances({"lag": None, "overheads": launches})) is (scale > 13)


def test_a_longer_heartbeat_allows_more_lag_and_leaves_less_for_launches() -> None:
    late, slow = Load(24.9 / RUN_FOR_PROBE, (burst(1.0),)), Load(0.2, (burst(100.0 / RUN_FOR_PROBE),))
    assert [choose_scale(late, 9.0, heartbeat_s) for heartbeat_s in (0.5, 0.9, 3.0)] == [10, 16, 20]
    assert [choose_scale(slow, 2.63, heartbeat_s) for heartbeat_s in (0.5, 1.0, 2.0)] == [20, 16, 6]


def test_the_load_of_this_machine_can_be_measured() -> None:
    load = measure_load()
    assert load.lag_p99_real_ms > 0
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

    def run(variant: Way, scale: float, directory: Path) -> dict[str, Any]:
        made.append((directory.name, scale))
        took_real_s[0] += times_as_long * expected_real_s(scale, 1)
        return summary_of(disturbed=(variant.name, scale) in disturbed, time_scale=scale)

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


# ---- the rows ----


def test_a_time_is_compared_with_the_published_one() -> None:
    assert cells(NATJAM, summary_of()) == [
        *("checkpoint (Natjam)", "76.0 (+0.5%)", "75.6", "198.0 (+0.5%)", "197.0", "29", "0", "verified")
    ]
    assert cells(SUSPEND, summary_of())[1:5] == ["76.0", "-", "198.0", "-"]
    assert not_comparable(NATJAM, summary_of()) is None


@pytest.mark.parametrize("variant", [NATJAM, SUSPEND, KILL, SOFT_CAP])
def test_a_disturbed_time_is_not_compared(variant: Way) -> None:
    made = summary_of(disturbed=True, time_scale=10)
    row = list(map(str, cells(variant, made)))
    assert "%" not in "".join(row)
    assert (row[1], row[3]) == ("76.0 (busy)", "198.0 (busy)")
    said = not_comparable(variant, made) or ""
    assert said.startswith(
        f"{variant.name}: not comparable: this machine was busy (lag 31 ms, which is 0.62 s at time scale 10; timers "
    )
    settings = " ".join(f"--set {override}" for override in variant.overrides)
    assert said.endswith(f"on a quiet one, or: natjam run catalog:natjam-fig4 --time-scale 2.5 {settings}")


def test_a_job_that_did_not_succeed_has_no_time() -> None:
    assert cells(NATJAM, summary_of(research_s=None))[3] == "failed"
    wrong = {**summary_of(), "output": {"verified": False}}
    assert cells(NATJAM, wrong)[-1] == Text("differs", "red")


@pytest.mark.parametrize(
    ("natjam", "kill", "said"),
    [
        (
            summary_of(198.4),
            summary_of(235.6, lost_s=1532.4),
            "Natjam kept all of research's work; kill lost 1,532 s of it; "
            "research-XL took 198 s under Natjam and 236 s under kill",
        ),
        (
            summary_of(247.0, lost_s=12.0),
            summary_of(233.0),
            "Natjam kept all but 12 s of research's work; kill lost none; "
            "research-XL took 247 s under Natjam and 233 s under kill",
        ),
        (
            summary_of(247.0, disturbed=True),
            summary_of(233.0, lost_s=900.0),
            "Natjam kept all of research's work; kill lost 900 s of it; "
            "their times are not comparable, because this machine was busy",
        ),
        (summary_of(None), summary_of(), "no verdict: research-XL did not succeed both times"),
    ],
)
def test_the_verdict_is_what_was_measured(natjam: Summary, kill: Summary, said: str) -> None:
    assert verdict(natjam, kill) == said


# ---- what is shown and left ----
