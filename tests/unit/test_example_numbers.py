"""What the text says of the motivating example, as numbers: from who held what in a run."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.papers.cells import axes, fills, fit, holders
from analysis.reproduce.definitions import all_figures

FIG1, FIG9, FILLS = (all_figures()[f"reverse-adaptive/{name}"] for name in ("fig1", "fig9", "fills"))

SHARES = [  # hours, containers left, held by J1, J2, J3
    (0, 4, 10, (10, 0, 0)),
    (4, 6.5, 9, (5, 3, 1)),
    (6.5, 10, 7, (0, 7, 0)),
    (10, 16, 4, (0, 3, 1)),
    (16, 17, 2, (0, 0, 2)),
    (17, 20, 4, (0, 0, 4)),
]
SUMMARY = {
    "jobs": [{"name": name, "finish_s": 3600 * end} for name, end in (("J1", 6.5), ("J2", 16), ("J3", 20))],
    "shares": [
        {
            "start_s": 3600.0 * start,
            "end_s": 3600.0 * end,
            "available": left,
            "containers": {name: held for name, held in zip(("J1", "J2", "J3"), jobs, strict=True) if held},
        }
        for start, end, left, jobs in SHARES
    ],
}


def of_both(summary: dict[str, Any]) -> dict[str, float | None]:
    return holders(FIG1, {name: {1: summary} for name in ("adaptive", "stable", "reverse-adaptive")})


def test_a_number_is_that_of_the_steps() -> None:
    assert of_both(SUMMARY) == pytest.approx(
        {
            "Adaptive: hours with all jobs, 0 to 5": 1,
            "Adaptive: hours with all jobs, 5 to 7": 1.5,
            "Adaptive: hours with all jobs, 7 to 11": 1,  # J1 has ended
            "stable: hours with all jobs, 0 to 5": 1,
            "stable: hours with all jobs, 5 to 7": 1.5,
            "stable: hours with all jobs, 7 to 11": 1,
            "Reverse-Adaptive: J3 starts, h": 4,
            "Reverse-Adaptive: J1 until D1, %": 100 * 52.5 / 62.5,
            "Reverse-Adaptive: J2 from D1 to D2, %": 100 * 39.5 / 44.5,
            "Reverse-Adaptive: J3 after D2, %": 100 * 15 / 18,
            "transactional peak, h": 16.5,
        }
    )


def test_without_the_run_the_job_or_its_time_there_is_no_number() -> None:
    assert set(holders(FIG1, {}).values()) == {None}
    alone = of_both({**SUMMARY, "shares": SUMMARY["shares"][:1]})
    assert alone["Reverse-Adaptive: J3 starts, h"] is None
    assert alone["Reverse-Adaptive: J3 after D2, %"] is None


def test_two_numbers_are_told_of_each_amount_of_work() -> None:
    found = fills(FILLS, {"reverse-adaptive-fill-60": {1: SUMMARY}, "adaptive-by-deadline-fill-65": {1: SUMMARY}})
    assert {name: value for name, value in found.items() if value is not None} == {
        "J3 starts, h: reverse-adaptive, fill-60": 4,
        "hours with all jobs, 7 to 11: adaptive-by-deadline, fill-65": 1,
    }


def test_axes_end_at_the_least_and_the_largest_mean_of_any_bar() -> None:
    def run(missed_pct: float, beyond_s: float | None) -> dict[str, Any]:
        return {"deadlines": {"missed_pct": missed_pct, "beyond_s": beyond_s, "room_s": 7200}}

    runs = {"fifo-level1-0.2": {1: run(0, None), 2: run(10, 1800)}, "adaptive-level3-0.8": {1: run(60, 9000)}}
    assert axes(FIG9, runs) == pytest.approx(
        {
            "least missed, %": 5,
            "most missed, %": 60,
            "least beyond, h": 0.5,
            "most beyond, h": 2.5,
            "least room, h": 2,
            "most room, h": 2,
        }
    )
    assert set(axes(FIG9, {}).values()) == {None}


def test_the_steps_of_algorithm_1_share_out_all_the_work() -> None:
    """Of Fig. 3: J3's work is in the first two steps, and what is left of J2's is in the last."""
    steps = fit(all_figures()["reverse-adaptive/fig3"], {})
    assert steps["left after step 3, %"] == steps["step 3: J3, %"] == 0
    assert 50 < (steps["step 1: J3, %"] or 0) < 100
    assert 0 < (steps["step 3: J2, %"] or 0) < 50
