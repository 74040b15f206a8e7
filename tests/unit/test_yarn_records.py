"""Recorded answers of YARN's own ResourceManager, in virtual time, held against natjam (``tests/peers/yarn.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.peers import yarn

DATA = Path(__file__).parents[1] / "data" / "yarn"
ROUNDS, RUNS = str(DATA / "rounds.json"), str(DATA / "runs.json")


class TestRounds:
    def test_the_recorded_rounds(self, capsys: pytest.CaptureFixture[str]):
        assert yarn.main(["rounds", ROUNDS, RUNS]) == 0
        assert capsys.readouterr().out == "20 of 20 equal\n"

    @pytest.mark.parametrize(
        ("what", "queue", "says"),
        [
            ("ideal", "root.research", "root.research: ideal (48128,), recorded (48127,)"),
            ("to_obtain", "root.research", "root.research: to_obtain"),
        ],
    )
    def test_a_round_that_differs(self, what: str, queue: str, says: str, tmp_path: Path, capsys):
        first = json.loads(Path(ROUNDS).read_text())[0]
        first["queues"][queue][what][0] -= 1
        damaged = tmp_path / "rounds.json"
        damaged.write_text(json.dumps([first]))
        assert yarn.main(["rounds", str(damaged), RUNS]) == 1
        found = capsys.readouterr().out
        assert says in found
        assert found.endswith("0 of 1 equal\n")


class TestRuns:
    def test_the_recorded_runs(self, capsys: pytest.CaptureFixture[str]):
        """One of each kind: one size, sizes, dominant resources, nested queues, applications of a queue; and three with
        several users and their limits."""
        assert yarn.main(["runs", RUNS]) == 0
        assert capsys.readouterr().out == "8 of 8 equal\n"

    @pytest.mark.parametrize("limit", ["user_limit_factor", "minimum_user_limit_percent"])
    def test_the_limits_of_users_decide_the_recorded_runs(self, limit: str):
        """Without them the logs differ."""
        found = []
        for run in json.loads(Path(RUNS).read_text())[-3:]:
            for queue in run["queues"]:
                del queue[limit]
            found.append(yarn.differs_in_run(run) is not None)
        assert any(found)

    def test_a_run_that_differs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        first = json.loads(Path(RUNS).read_text())[0]
        first["answer"]["log"][3][0] += 1
        damaged = tmp_path / "runs.json"
        damaged.write_text(json.dumps([first]))
        assert yarn.main(["runs", str(damaged)]) == 1
        found = capsys.readouterr().out
        assert found.startswith("one-size-1-13: line 3: ")
        assert found.endswith("0 of 1 equal\n")


def test_bad_arguments(capsys: pytest.CaptureFixture[str]):
    assert yarn.main(["rounds"]) == 2
    assert "yarn.py rounds" in capsys.readouterr().err


class TestWholeMachines:
    def test_they_come_to_the_same_as_the_decisions_alone(self, capsys: pytest.CaptureFixture[str]):
        """With the same phases all jobs complete at the same nanoseconds: what is requested when, who hears of what
        when, and what is free when, is as it is recorded of YARN."""
        assert yarn.main(["alike", RUNS]) == 0
        assert capsys.readouterr().out == "8 of 8 equal\n"
