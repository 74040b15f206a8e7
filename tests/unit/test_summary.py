"""The summary of a run and of repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from msgspec.structs import replace

from analysis.report.facts import headline
from emulator.core.completions import RealCost
from emulator.core.messages import JobState
from emulator.costs.calibration import dump_calibration
from emulator.experiment.model import Experiment
from emulator.records.gaps import disturbed_text
from emulator.records.history import History, ImageRow, JobRow, Operation
from emulator.records.summary import build_summary, summarise_repeats
from emulator.resolved import resolve
from emulator.vocabulary import SECOND_NS
from tests.calibrations import make_calibration
from tests.commands import invoked
from tests.histories import ATTEMPT, tiny
from tests.simulated_runs import FIG4

LAG = {"p50_real_ms": 0.1, "p99_real_ms": 2.0, "max_real_ms": 3.0, "p99_emulated_s": 0.04}
OUTPUT = {
    "verified": True,
    "keys_expected": 2,
    "keys_written": 2,
    "keys_lost": 0,
    "keys_duplicated": 0,
    "files_differing": 0,
}


def job(name: str, submit_s: int, finish_s: int | None, deadline_s: int | None = None) -> JobRow:
    """It has 3 attempts, 2 suspensions, 1 kill and a second of lost work."""
    finish_ns = None if finish_s is None else finish_s * SECOND_NS
    state = JobState.RUNNING if finish_s is None else JobState.SUCCEEDED
    deadline_ns = None if deadline_s is None else deadline_s * SECOND_NS
    submit_ns = submit_s * SECOND_NS
    start_ns, lost_ns = submit_ns + SECOND_NS, SECOND_NS
    return JobRow(name, "research", submit_ns, start_ns, finish_ns, deadline_ns, state, 3, 2, 1, 0, lost_ns)


def summary(experiment: Experiment, history: History, **changes: Any) -> dict[str, Any]:
    settings = {name: changes.pop(name) for name in ("seed", "overheads") if name in changes}
    given: dict[str, Any] = {
        "versions": {"natjam": "0.1.0"},
        "machines": [{"name": "here", "clock_offset_ns": 0}],
        "real_s": 3.5,
        "lag": LAG,
        "output": OUTPUT,
    }
    return build_summary(
        history, resolve(experiment.model_copy(update={"seed": 4, **settings})), **{**given, **changes}
    )


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny(tmp_path, "time_scale=20")


def test_it_has_the_names_of_the_contract(experiment: Experiment) -> None:
    suspend = Operation("suspend", "c", 0, SECOND_NS, RealCost(1_000_000))
    made = summary(experiment, History([job("a", 5, 105, 100), job("b", 10, 60)], [], [ATTEMPT], [suspend], 321, 7))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert {name: made[name] for name in made if name not in ("jobs", "overheads", "work")} == {
        "name": "tiny",
        "state": "finished",
        "engine": "live",
        "time_scale": 20.0,
        "seed": 4,
        "versions": {"natjam": "0.1.0"},
        "machines": [{"name": "here", "clock_offset_ns": 0}],
        "makespan_s": 100.0,
        "real_s": 3.5,
        "swap_bytes": 7,
        "checkpoint_bytes": 321,
        "storage": {"peak_bytes": 0, "mean_bytes": None, "io_fraction": None},
        "response": {"mean_s": 75.0, "weighted_mean_s": 75.0},
        "energy_j": 2 * 100 * 66 + 181 * made["work"]["useful_s"] / 2 + 181 * made["work"]["lost_s"] / 2,
        "transactional": None,
        "deadlines": {
            "jobs": 1,
            "missed": 1,
            "missed_pct": 100.0,
            "beyond_s": 5.0,
            "room_s": None,
            "by_hour": [{"hour": 0, "deadlines": 1, "missed": 1}],
        },
        "disturbed": False,
        "lag": LAG,
        "output": OUTPUT,
    }
    assert made["jobs"][0] == {
        "name": "a",
        "queue": "research",
        "submit_s": 5.0,
        "start_s": 6.0,
        "finish_s": 105.0,
        "completion_s": 100.0,
        "deadline_s": 100.0,
        "margin_s": -5.0,
        "state": "succeeded",
        "attempts": 3,
        "suspensions": 2,
        "kills": 1,
        "lost_work_s": 1.0,
        "reason": "",
    }
    assert (made["jobs"][1]["deadline_s"], made["jobs"][1]["margin_s"]) == (None, None)
    assert made["overheads"]["suspend_s"]["n"] == 1
    assert made["overheads"]["suspend_s"]["real_ms"]["total"]["p50"] == 50


def test_response_times_by_weight(experiment: Experiment) -> None:
    rows = [replace(job("a", 0, 100), weight_ppm=3_000_000), job("b", 10, 30)]
    assert summary(experiment, History(rows, [], [], [], 0))["response"] == {"mean_s": 60.0, "weighted_mean_s": 80.0}
    weightless = [replace(row, weight_ppm=0) for row in rows]
    made = summary(experiment, History(weightless, [], [], [], 0))["response"]
    assert made == {"mean_s": 60.0, "weighted_mean_s": None}
    running = summary(experiment, History([*rows, job("c", 0, None)], [], [], [], 0))["response"]
    assert running == {"mean_s": None, "weighted_mean_s": None}


def test_work_and_utilization(experiment: Experiment) -> None:
    """Two nodes of two containers for 100 s: 400 container seconds, 6.5 + 3.5 of them busy, 6.4 useful and lost."""
    busy = {"busy_ns": 10_000_000_000, "masters_busy_ns": 3_500_000_000}
    row = replace(job("a", 0, 100), useful_ns=6_400_000_000, lost_work_ns=6_400_000_000, **busy)
    history = History([row], [], [], [], 0)
    made = summary(experiment, history)
    assert made["work"] == {
        "useful_s": 6.4,
        "lost_s": 6.4,
        "overhead_s": 0.0,
        "overhead_fraction": 0.0,
        "wasted_fraction": 0.5,
        "wasted_of_capacity": 6.4 / 400,
        "utilization": 0.025,
    }
    outside = experiment.model_copy(
        update={"cluster": experiment.cluster.model_copy(update={"application_masters": "outside"})}
    )
    assert summary(outside, history)["work"]["utilization"] == 6.5 / 400


def test_images_take_storage_and_devices_and_power(tmp_path: Path) -> None:
    """Two images of 400 and 100 bytes, one after the other gone; the first read twice, at 100 bytes a second."""
    tier = "storage.tier={write_mb_s: 0.0001, read_mb_s: 0.0001}"
    experiment = tiny(tmp_path, "engine=sim", tier, "cluster.power={idle_w: 10, busy_w: 30}")
    images = [
        ImageRow("c1", "node-1", 400, 800, written_ns=SECOND_NS, gone_ns=3 * SECOND_NS),
        ImageRow("c2", "node-2", 100, 0, written_ns=2 * SECOND_NS, gone_ns=None),
        ImageRow("c3", "node-2", 200, 0, written_ns=3 * SECOND_NS, gone_ns=4 * SECOND_NS),
    ]
    row = replace(job("a", 0, 100), useful_ns=6 * SECOND_NS, lost_work_ns=4 * SECOND_NS, overhead_ns=10 * SECOND_NS)
    made = summary(experiment, History([row], [], [], [], 0, images=images), output=None)
    assert made["storage"] == {"peak_bytes": 500, "mean_bytes": (400 * 2 + 200) / 100, "io_fraction": 15 / 200}
    assert (made["work"]["overhead_s"], made["work"]["wasted_fraction"]) == (10.0, 0.7)
    assert (made["work"]["overhead_fraction"], made["work"]["wasted_of_capacity"]) == (0.5, 14 / 400)
    assert made["energy_j"] == 2 * 100 * 10 + (10 + 15) / 2 * 20


def test_a_run_that_did_nothing_has_no_fractions(experiment: Experiment) -> None:
    made = summary(experiment, History([replace(job("a", 0, None), lost_work_ns=0)], [], [], [], 0), output=None)
    assert made["makespan_s"] is None
    assert made["work"] == {
        "useful_s": 0.0,
        "lost_s": 0.0,
        "overhead_s": 0.0,
        "overhead_fraction": 0.0,
        "wasted_fraction": 0.0,
        "wasted_of_capacity": None,
        "utilization": None,
    }
    assert made["energy_j"] is None
    assert made["jobs"][0]["completion_s"] is None
    assert made["jobs"][0]["state"] == "running"
    assert made["output"] is None


def test_repeats(experiment: Experiment) -> None:
    suspend = Operation("suspend", "c", 0, SECOND_NS, None)
    histories = [
        History([job("a", 0, finish_s)], [], [], [suspend] if finish_s > 100 else [], 0) for finish_s in (98, 100, 102)
    ]
    made = summarise_repeats([summary(experiment, h, seed=7 + i) for i, h in enumerate(histories)])
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert (made["repeats"], made["seeds"]) == (3, [7, 8, 9])
    assert (made["disturbed"], made["disturbed_seeds"]) == (False, [])
    half = 4.302652729749464 * 2 / 3**0.5
    for name in ("jobs.a.completion_s", "makespan_s"):
        assert made["metrics"][name] == {
            "n": 3,
            "mean": 100.0,
            "sd": 2.0,
            "ci95_low": pytest.approx(100 - half),
            "ci95_high": pytest.approx(100 + half),
        }
    assert made["metrics"]["overheads.suspend_s.mean"] == {
        "n": 1,
        "mean": 1.0,
        "sd": None,
        "ci95_low": None,
        "ci95_high": None,
    }
    assert made["metrics"]["jobs.a.suspensions"]["mean"] == 2
    assert made["metrics"]["work.lost_s"]["sd"] == 0
    assert made["metrics"]["jobs_failed"]["mean"] == 0
    assert "overheads.kill_s.mean" not in made["metrics"]
    assert "jobs.a.margin_s" not in made["metrics"]


# ---- disturbed runs ----


def launched(count: int, slow: int) -> History:
    """Launches, some of which took longer than Hadoop's by more than the tolerance of 5 real ms."""
    lengths_ns = [2_731_000_000] * slow + [2_729_000_000] * (count - slow)
    return History([job("a", 0, 9)], [], [], [Operation("schedule", "c", 0, length, None) for length in lengths_ns], 0)


@pytest.mark.parametrize(
    ("slow", "lag", "said"),
    [
        (0, {}, None),
        (2, {}, None),
        (3, {}, "disturbed: 3 of 20 launches took longer than the published overhead; the machine was busy"),
        (0, {"within_bound": True, "p99_emulated_s": 0.49}, None),
        (
            0,
            {"within_bound": False, "bound_emulated_s": 0.5, "p99_emulated_s": 1.8249},
            "late by 1.82 emulated s (p99), b",
        ),
        (3, {"within_bound": False, "bound_emulated_s": 0.5, "p99_emulated_s": 1.8249}, "s; 3 of 20 launches"),
    ],
)
def test_a_run_that_the_machine_did_not_keep_up_with_is_disturbed(
    experiment: Experiment, slow: int, lag: dict[str, Any], said: str | None
) -> None:
    made = summary(experiment, launched(20, slow), overheads="hadoop-0.23", lag={**LAG, **lag})
    assert made["disturbed"] is (said is not None)
    assert (said or "") in (disturbed_text(made) or "")
    together = summarise_repeats([{**made, "seed": 1}, {**made, "seed": 2, "disturbed": False}])
    assert together["disturbed"] is made["disturbed"]
    assert ("1 of 2 repeats (seeds 1)" in (disturbed_text(together) or "")) is made["disturbed"]


def test_a_disturbed_run_says_so_wherever_it_is_shown(tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text(dump_calibration(make_calibration(launch=300_000_000)))

    def natjam(*arguments: object) -> tuple[int, str]:
        done = invoked(*arguments)
        return done.exit_code, done.output

    run = ("run", FIG4, "--engine", "sim", "--time-scale", "20", "--set", f"calibration={slow}", "--out")
    status, output = natjam(*run, tmp_path / "one", "--strict")
    assert (status, "natjam: disturbed: " in output, "launches took longer" in output) == (1, True, True), output
    assert json.loads((tmp_path / "one/summary.json").read_text())["disturbed"] is True
    status, output = natjam(*run, tmp_path / "three", "--repeats", "2")
    assert (status, "disturbed: 2 of 2 repeats (seeds 1, 2)" in output.splitlines()[-1]) == (0, True), output
    assert headline(json.loads((tmp_path / "one/summary.json").read_text()))[0].cell.text == "disturbed"
    status, output = natjam("compare", tmp_path / "one", tmp_path / "three", "--out", tmp_path / "compared")
    assert "did not keep up with the run of one;" in output
    assert "did not keep up with the run of three;" in output, "its second run has no partner"
    assert json.loads((tmp_path / "compared/compare.json").read_text())["disturbed"] == {"a": 1, "b": 1}
    (tmp_path / "campaign.yaml").write_text(
        f"name: c\nexperiment: {FIG4}\nseeds: 2\nset: {{engine: sim, time_scale: 20, calibration: {slow}}}\n"
    )
    status, output = natjam("campaign", tmp_path / "campaign.yaml", "--out", tmp_path / "c")
    assert (status, "disturbed: the machine did not keep up with 2 of them: c/seed-1, c/seed-2" in output) == (0, True)
    assert pyarrow.parquet.read_table(tmp_path / "c/campaign.parquet").column("disturbed").to_pylist() == [True] * 4
