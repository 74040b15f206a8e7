"""Comparing the engines: what is drawn at random, when the limits are missed, and going on with a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.fidelity.campaign import make_case
from analysis.fidelity.figures import Fidelity, FileFidelity, Metric, choices_of, drifts, highest_faithful_scale
from analysis.fidelity.random_experiments import in_both_engines, random_experiments
from analysis.whole_run import run_experiment
from emulator.campaign.directory import CampaignDirectory, keep_digest
from emulator.cli.fidelity import experiments_of_figures, unlike
from emulator.costs.calibration import dump_calibration
from emulator.experiment.expand import expand
from emulator.experiment.inputs import Inputs
from emulator.experiment.load import load_experiment
from emulator.experiment.model import dump_experiment
from emulator.policies import axes as policies
from emulator.records.run_directory import sha256_of
from tests.calibrations import make_calibration
from tests.commands import held_while_told, invoked
from tests.simulated_runs import FIG4


@pytest.fixture
def calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's, made up."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "data/natjam/calibration.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(dump_calibration(make_calibration(500_000, 5_000_000)))
    return path


# ---- random experiments ----


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_random_experiments_meet_every_policy_and_mechanism(seed: int) -> None:
    met = {choice for experiment in random_experiments(10, seed) for choice in choices_of(experiment)}
    registered = {(axis.replace("_", " "), name) for axis, names in in_both_engines().items() for name in names}
    selections = {("job selection", name) for name in policies.JOB_SELECTION.names}
    assert met >= registered | selections


def test_random_experiments_follow_from_their_seed_and_are_valid_files(tmp_path: Path) -> None:
    experiments = random_experiments(12, 5)
    assert experiments == random_experiments(12, 5)
    assert experiments[:3] == random_experiments(3, 5)
    assert experiments[0] != random_experiments(1, 6)[0]
    for experiment in experiments:
        file = tmp_path / f"{experiment.name}.yaml"
        file.write_text(dump_experiment(experiment))
        assert load_experiment(file) == experiment
        assert len(expand(experiment, experiment.seed)) >= 3


def test_policies_that_draw_at_random_are_run_live_five_times(calibration: Path) -> None:
    found = {"random": 5, "srt": 1, "lrt": 1}
    for task_eviction, repeats in found.items():
        experiment = load_experiment(FIG4, [f"scheduler.task_eviction={task_eviction}"])
        assert make_case("fig4", "fig4", experiment, None).repeats == repeats
    experiment = load_experiment(FIG4, ["scheduler.job_eviction=pr"])
    assert make_case("fig4", "fig4", experiment, None).repeats == 5
    assert make_case("fig4", "fig4", experiment, 2).repeats == 2


def test_repeats_have_seeds_of_their_own_where_a_policy_draws(calibration: Path) -> None:
    draws = load_experiment(FIG4, ["scheduler.task_eviction=random", "seed=7"])
    assert [experiment.seed for experiment in make_case("a", "a", draws, 3).experiments] == [7, 8, 9]
    same = load_experiment(FIG4, ["seed=7"])
    assert [experiment.seed for experiment in make_case("b", "b", same, 3).experiments] == [7, 7, 7]


def test_the_spread_of_live_runs_leaves_out_what_their_seeds_make_of_them() -> None:
    seeds_alone = Metric("job", "completion_s", (90.0, 110.0, 130.0), ((88.0, 92.0), (110.0,), (130.0,)))
    assert (seeds_alone.live_mean, seeds_alone.simulated_mean, seeds_alone.live_sd) == (110, 110, 0)
    same_seed = Metric("job", "completion_s", (99.0, 101.0), ((100.0, 104.0), (100.0, 104.0)))
    assert same_seed.live_sd == pytest.approx(2**0.5)
    assert same_seed.error == pytest.approx(0.02)


# ---- limits ----


def file_of(name: str, completions: dict[str, tuple[float, float]], **changes: Any) -> FileFidelity:
    """``completions``: live and simulated seconds by job."""
    metrics = tuple(Metric(job, "completion_s", (live,), ((sim,),)) for job, (live, sim) in completions.items())
    given: dict[str, Any] = {"time_scale": 10.0, "heartbeat_s": 1.0, "choices": (("mechanism", "kill"),), **changes}
    return FileFidelity(name, metrics=metrics, **given)


def test_the_worst_limit_is_missed_beyond_both_a_share_and_two_heartbeats() -> None:
    near = file_of("near", {"short": (10, 11.9), "long": (1000, 1049), "same": (100, 100)})
    assert Fidelity((near,)).beyond == []
    far = file_of("far", {"short": (10, 12.1), "long": (1000, 1051), "same": (100, 100)})
    assert [metric.job for _, metric in Fidelity((far,)).beyond] == ["short", "long"]
    slower_heartbeat = file_of("far", {"short": (10, 12.1)}, heartbeat_s=3.0)
    assert Fidelity((slower_heartbeat,)).beyond == []


def test_the_mean_limit_holds_for_each_policy_alone() -> None:
    good = file_of("good", {f"job-{number}": (100, 100) for number in range(9)}, choices=(("mechanism", "kill"),))
    bad = file_of("bad", {"job": (100, 97)}, choices=(("mechanism", "suspend"),))
    whole = Fidelity((good, bad))
    assert whole.mean_abs_error == pytest.approx(0.003)
    assert whole.missed == ["mechanism suspend: mean error 3.00%"]
    assert Fidelity((good,)).missed == []


def test_fluid_completions_stand_beside_the_simulated_ones() -> None:
    def metric(job: str, simulated_s: float) -> Metric:
        return Metric(job, "completion_s", (100.0,), ((simulated_s,),))

    metrics = (metric("a", 100.0), metric("b", 200.0))
    with_fluid = FileFidelity("shares", 10, 1, (), metrics, {"a": 90.0, "b": 190.0})
    assert with_fluid.fluid_errors == pytest.approx([-0.1, -0.05])
    both = Fidelity((with_fluid, FileFidelity("queues", 10, 1, (), metrics)))
    assert both.mean_abs_fluid_error == pytest.approx(0.075)
    assert [job["fluid_s"] for job in both.to_json()["files"][0]["jobs"]] == [90.0, 190.0]
    assert Fidelity((both.files[1],)).mean_abs_fluid_error is None


def test_drift_is_against_the_lowest_scale_and_stops_at_the_first_that_is_too_far() -> None:
    scaled = [
        file_of("one", {"job": (live, 100)}, time_scale=scale)
        for scale, live in ((100, 100.5), (1, 100), (50, 103), (20, 101.9))
    ]
    found = drifts(scaled)
    assert [(drift.time_scale, round(drift.live_drift, 3)) for drift in found] == [
        (1, 0),
        (20, 0.019),
        (50, 0.03),
        (100, 0.005),
    ]
    assert highest_faithful_scale(found) == 20


# ---- a comparison that is gone on with ----

SMALLER = ("cluster.nodes=1", "workload.jobs.0.reduces=7", "workload.jobs.1.reduces=3")


def leave_live_runs(directory: Path, repeats: int, *overrides: str) -> None:
    """What live runs would have left, their figures those of simulations."""
    case = make_case("natjam-fig4", "natjam-fig4", load_experiment(FIG4, [*SMALLER, *overrides]), repeats)
    campaign = CampaignDirectory(directory)
    with campaign.held():
        campaign.take_plan("fidelity", case.live_runs)
    for run in case.live_runs:
        experiment, run_dir = run.experiment, campaign.run_path(run)
        summary = run_experiment(experiment.model_copy(update={"engine": "sim"}), run_dir, lambda status: None)
        (run_dir / "experiment.yaml").write_text(dump_experiment(experiment))
        files = {**summary["files"], "experiment.yaml": sha256_of(run_dir / "experiment.yaml")}
        leave_summary(run_dir, {**summary, "files": files})


LIVE_1 = "runs/natjam-fig4-live-1/seed-1"


def leave_summary(run: Path, summary: dict[str, Any]) -> None:
    """The summary of a live run, as the comparison would have kept it, in ``runs/VARIANT/SEED``."""
    (run / "summary.json").write_text(json.dumps(summary))
    reads = Inputs().sha256(load_experiment(run / "experiment.yaml"))
    keep_digest(run.parents[2], f"{run.parent.name}/{run.name}", sha256_of(run / "summary.json"), reads)


def _arguments(*arguments: object) -> list[object]:
    return ["fidelity", *arguments, *(part for override in SMALLER for part in ("--set", override))]


def fidelity(*arguments: object) -> Any:
    return invoked(*_arguments(*arguments))


def test_live_runs_made_before_are_not_run_again(tmp_path: Path, calibration: Path) -> None:
    out = tmp_path / "out"
    leave_live_runs(out, 2)
    result = fidelity(str(FIG4), "--repeats", "2", "--out", str(out))
    assert result.exit_code == 0, result.output
    report = json.loads((out / "fidelity.json").read_text())
    jobs = report["files"][0]["jobs"]
    assert [job["job"] for job in jobs] == ["research-XL", "production-S"]
    live_s = [job["completion_s"] for job in json.loads((out / LIVE_1 / "summary.json").read_text())["jobs"]]
    assert [job["live_s"] for job in jobs] == pytest.approx(live_s)
    errors = [job["sim_s"] / job["live_s"] - 1 for job in jobs]
    assert [job["error"] for job in jobs] == pytest.approx(errors)
    assert report["mean_abs_error"] == pytest.approx(sum(map(abs, errors)) / 2)
    assert {choice["name"] for choice in report["by_choice"]} >= {"two-queue", "checkpoint", "mr", "srt"}
    assert (out / "fidelity.png").read_bytes().startswith(b"\x89PNG")
    assert "completion times by policy and mechanism" in result.stdout


def test_the_directory_is_held_until_the_report_is_written(tmp_path: Path, calibration: Path) -> None:
    leave_live_runs(tmp_path / "out", 1)
    told = held_while_told(tmp_path / "out", *_arguments(FIG4, "--repeats", "1", "--out", tmp_path / "out"))
    assert told
    assert all(told)


def test_engines_too_far_apart_fail_under_strict(tmp_path: Path, calibration: Path) -> None:
    out = tmp_path / "out"
    leave_live_runs(out, 1)
    summary = out / LIVE_1 / "summary.json"
    arguments = (str(FIG4), "--repeats", "1", "--out", str(out))
    assert fidelity(*arguments).exit_code == 0
    simulated_s = [job["sim_s"] for job in json.loads((out / "fidelity.json").read_text())["files"][0]["jobs"]]

    def live_runs_took(share: float) -> None:
        found = json.loads(summary.read_text())
        for job, completion_s in zip(found["jobs"], simulated_s, strict=True):
            job["completion_s"] = completion_s * share
        leave_summary(summary.parent, found)

    live_runs_took(1.01)
    assert fidelity(*arguments, "--strict").exit_code == 0
    live_runs_took(1.2)
    assert fidelity(*arguments).exit_code == 0
    result = fidelity(*arguments, "--strict")
    assert result.exit_code == 1
    assert "natjam-fig4, research-XL" in result.stderr


def test_live_runs_on_a_busy_machine_are_said_to_be(tmp_path: Path, calibration: Path) -> None:
    out = tmp_path / "out"
    leave_live_runs(out, 1)
    summary = out / LIVE_1 / "summary.json"
    leave_summary(summary.parent, {**json.loads(summary.read_text()), "lag": {"p99_real_ms": 1e6}})
    result = fidelity(str(FIG4), "--repeats", "1", "--out", str(out))
    assert (result.exit_code, "other programs were running" in result.stderr) == (0, True)


def test_runs_of_another_experiment_and_strange_files_are_left_alone(tmp_path: Path, calibration: Path) -> None:
    out = tmp_path / "out"
    leave_live_runs(out, 1, "heartbeat_s=2")
    result = fidelity(str(FIG4), "--repeats", "1", "--out", str(out))
    assert (result.exit_code, "was made from a different experiment" in result.stderr) == (2, True)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/thesis.tex").write_text("x")
    result = fidelity(str(FIG4), "--repeats", "1", "--out", str(tmp_path / "texts"))
    assert (result.exit_code, "is neither empty nor a directory of a campaign" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to compare"),
        ((str(FIG4), "--time-scales", "5"), "give two or more numbers above 0"),
        ((str(FIG4), "--time-scales", "1,x"), "give two or more numbers above 0"),
        ((str(FIG4), "--time-scales", "1,5", "--time-scale", "5"), "give one of them"),
    ],
)
def test_what_cannot_be_compared_is_said(
    arguments: tuple[str, ...], words: str, tmp_path: Path, calibration: Path
) -> None:
    result = fidelity(*arguments, "--out", str(tmp_path / "out"))
    assert (result.exit_code, words in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def test_two_experiments_of_one_name_are_not_mixed_up(tmp_path: Path, calibration: Path) -> None:
    other = tmp_path / FIG4.name
    other.write_text(FIG4.read_text().replace("seed: 1", "seed: 2"))
    result = fidelity(str(FIG4), str(other), "--out", str(tmp_path / "out"))
    assert (result.exit_code, "two experiments are called natjam-fig4" in result.stderr) == (2, True)


def test_the_experiments_of_figures_are_compared_once_each(calibration: Path) -> None:
    named = unlike(experiments_of_figures(["natjam/fig4", "natjam/fig5"], 10.0))
    assert len(named) == 11  # Fig. 4 has six, Fig. 5 six, and one of them is the same
    assert {experiment.engine for _, experiment in named} == {"live"}
    assert {experiment.time_scale for _, experiment in named} == {10.0}


def test_a_machine_that_was_not_measured_is_told_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    result = fidelity(str(FIG4), "--out", str(tmp_path / "out"))
    assert (result.exit_code, "run 'natjam measure' first" in result.stderr) == (2, True)
