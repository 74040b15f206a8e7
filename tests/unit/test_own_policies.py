"""A user's own policy on each axis: a few lines in a file beside the experiment, and what it then decides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.frames import DataFrame
from analysis.load import load, load_decisions
from emulator.policies.axes import AXES
from tests.simulated_runs import simulate

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"
OWN = dict(re.findall(r"^## (\w+)$.*?^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
"""The guide's own examples, by axis."""
(RECORD, *_) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def run_with_own(axis: str, directory: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Path:
    assert len(OWN[axis].splitlines()) < 10
    module = f"own_{axis}_{abs(hash(str(directory)))}"
    (directory / f"{module}.py").write_text(OWN[axis])
    monkeypatch.syspath_prepend(str(directory))
    where = "scheduler.allocation.name" if axis == "allocation" else f"scheduler.{axis}"
    return simulate(directory, "run", f"{where}={module}:mine", *more)


@pytest.mark.parametrize("axis", list(AXES))
def test_a_policy_of_ones_own_on_each_axis(axis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = load(run_with_own(axis, tmp_path, monkeypatch)).jobs
    assert set(jobs["state"]) == {"succeeded"}
    assert jobs["suspensions"].sum() + jobs["kills"].sum() > 5


def test_a_record_with_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_record.py").write_text(RECORD)
    monkeypatch.syspath_prepend(str(tmp_path))
    decisions = load_decisions(simulate(tmp_path, "run", "scheduler.task_eviction={name: own_record:RECORD, keys: 20}"))
    choices = decisions[decisions["by"] == "releaser"].groupby("decision")
    assert len(choices) >= 3
    for _, candidates in choices:
        in_order = candidates.sort_values("place")
        assert in_order["keys_done"].clip(lower=20).is_monotonic_increasing
        assert set(in_order["score_name"]) == {"keys_done"}
        assert list(in_order["score"]) == list(in_order["keys_done"])


@pytest.fixture
def by_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFrame:
    return load_decisions(run_with_own("mechanism", tmp_path, monkeypatch))


def test_each_victim_has_its_mechanism_and_the_numbers_that_spoke_for_it(by_mechanism: DataFrame) -> None:
    victims = by_mechanism[(by_mechanism["by"] == "releaser") & (by_mechanism["chosen"] == 1)]
    assert set(victims["mechanism"]) == {"kill", "checkpoint"}
    for mechanism, numbers, task in zip(
        victims["mechanism"], victims["mechanism_numbers"], victims["task"], strict=True
    ):
        assert numbers == f"number={int(task)}"
        assert mechanism == ("checkpoint" if task % 2 else "kill")


def test_who_goes_on_elsewhere_does_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = load(run_with_own("placement", tmp_path, monkeypatch)).attempts.set_index("attempt")
    resumed = attempts[attempts["resumed_from"].notna()]
    before = attempts.loc[resumed["resumed_from"], "node"]
    assert len(resumed) > 5
    assert (resumed["node"].to_numpy() != before.to_numpy()).all()
