"""Which runs make an answer before all are made."""

from __future__ import annotations

import pytest

from analysis.advise.answers import comparable

ALL, FIRST = ["wait", "kill", "quick", "suspend"], frozenset({"wait", "kill", "quick"})
THREE = [(name, seed) for name in sorted(FIRST) for seed in range(3)]


@pytest.mark.parametrize(
    ("made", "hurried", "names", "seeds"),
    [
        ([("wait", 0), ("kill", 0)], False, [], []),
        ([("wait", 0), ("kill", 0)], True, ["wait", "kill"], [0]),
        ([("wait", 0), ("kill", 0), ("kill", 1)], True, ["wait", "kill"], [0]),
        ([("wait", 0)], True, [], []),
        ([("wait", 0), ("kill", 1)], True, [], []),
        ([("wait", 0), ("suspend", 0)], True, [], []),
        (THREE, True, ["wait", "kill", "quick"], [0, 1, 2]),
        (THREE, False, ["wait", "kill", "quick"], [0, 1, 2]),
    ],
)
def test_in_a_hurry_one_draw_of_two_of_the_first_is_enough(
    made: list[tuple[str, int]], hurried: bool, names: list[str], seeds: list[int]
) -> None:
    assert comparable(made, ALL, FIRST, range(10), hurried) == (names, seeds)
