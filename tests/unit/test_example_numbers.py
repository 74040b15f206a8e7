"""What the text says of the motivating example, as numbers: from who held what in a run."""

from __future__ import annotations

import pytest

from analysis.reproduce.cells import Cell
from analysis.reproduce.example_numbers import NUMBERS

SHARES = [  # hours, containers left, held by J1, J2, J3
    (0, 4, 10, (10, 0, 0)),
    (4, 6.5, 9, (5, 3, 1)),
    (6.5, 10, 7, (0, 7, 0)),
    (10, 16, 4, (0, 3, 1)),
    (16, 17, 2, (0, 0, 2)),
    (17, 20, 4, (0, 0, 4)),
]
SUMMARY = {
    "jobs": [{"name": name} for name in ("J1", "J2", "J3")],
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hours with all jobs, 0 to 5", 1),
        ("hours with all jobs, 7 to 11", 0),
        ("J3 starts, h", 4),
        ("J1 until D1, %", 100 * 52.5 / 62.5),
        ("J2 from D1 to D2, %", 100 * 39.5 / 44.5),
        ("J3 after D2, %", 100 * 15 / 18),
        ("transactional peak, h", 16.5),
    ],
)
def test_a_number_is_that_of_the_steps(name: str, value: float) -> None:
    assert NUMBERS[name](SUMMARY) == pytest.approx(value)


def test_without_the_job_or_its_time_there_is_no_number() -> None:
    alone = {**SUMMARY, "shares": SUMMARY["shares"][:1]}
    assert NUMBERS["J3 starts, h"](alone) is None
    assert NUMBERS["J3 after D2, %"](alone) is None


def test_the_steps_of_algorithm_1_share_out_all_the_work() -> None:
    """Of Fig. 3: J3's work is in the first two steps, and what is left of J2's is in the last."""
    steps = {name: number(SUMMARY) for name, number in NUMBERS.items() if "step" in name}
    assert steps["left after step 3, %"] == steps["step 3: J3, %"] == 0
    assert 50 < (steps["step 1: J3, %"] or 0) < 100
    assert 0 < (steps["step 3: J2, %"] or 0) < 50


def test_a_name_that_is_no_number_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="there is no number 'J3 starts'; did you mean 'J3 starts, h'"):
        Cell.model_validate({"variant": "a", "number": "J3 starts"})
