"""``natjam compare``: jobs are paired as they should be, and table, JSON and figure say what the summaries say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import scipy.stats

from analysis.compare import compare_runs, comparison_notes, in_order
from emulator.errors import ConfigError
from tests.commands import invoked, run_natjam
from tests.simulated_runs import simulate

RANDOM = "scheduler.task_eviction=random"
KILL = "scheduler.mechanism=kill"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs")
    simulate(directory, "kept", "repeats=3", RANDOM)
    simulate(directory, "killed", "repeats=2", RANDOM, KILL)
    for variant, mechanism in (("keep", "checkpoint"), ("kill", "kill")):
        for seed in (2, 3):
            place = directory / "campaign/runs" / variant
            simulate(place, f"seed-{seed}", f"seed={seed}", RANDOM, f"scheduler.mechanism={mechanism}")
    return directory


def completion_s(run: Path, job: str) -> float:
    jobs = json.loads((run / "summary.json").read_text())["jobs"]
    return next(found["completion_s"] for found in jobs if found["name"] == job)


def test_every_job_is_paired_with_itself_under_the_same_seed(runs: Path) -> None:
    found = compare_runs(runs / "kept", runs / "killed")
    assert (found.a, found.b, found.unpaired_runs, found.unpaired) == ("kept", "killed", (1, 0), (0, 0))
    assert len(found.pairs) == 4
    for pair in found.pairs.itertuples():
        a, b = (runs / side / f"repeat-{pair.run_number}" for side in ("kept", "killed"))
        assert (pair.a, pair.b) == (completion_s(a, pair.job), completion_s(b, pair.job))
        assert pair.difference == pair.a - pair.b
    research = found.differences["research"]
    assert research.spread.n == 2
    assert research.spread.mean < -10, "suspended research does not lose its work"
    assert research.a_lower == 1
    assert set(found.differences) == {"research", "production", "all queues"}
    assert (research.jobs, found.differences["all queues"].jobs, found.differences["all queues"].spread.n) == (2, 4, 2)


def test_campaigns_and_their_variants(runs: Path) -> None:
    runs_of = runs / "campaign/runs"
    variants = compare_runs(runs_of / "keep", runs_of / "kill")
    assert sorted(set(variants.pairs["run_number"])) == [2, 3]
    with_repeats = compare_runs(runs / "kept", runs_of / "kill")
    assert sorted(set(with_repeats.pairs["run_number"])) == [2, 3], "repeat 2 has seed 2"
    whole = compare_runs(runs / "campaign", runs / "campaign/runs/../../campaign")
    assert len(whole.pairs) == 8
    assert set(whole.pairs["variant"]) == {"keep", "kill"}
    assert (whole.pairs["difference"] == 0).all()
    assert whole.differences["research"].p_value is None


def test_without_a_seed_in_common_repeats_are_paired_by_number(runs: Path, tmp_path: Path) -> None:
    other = simulate(tmp_path, "other", "repeats=2", "seed=40", RANDOM)
    found = compare_runs(runs / "killed", other)
    assert sorted(set(found.pairs["run_number"])) == [1, 2]


def test_the_command_prints_and_writes_the_same(runs: Path, tmp_path: Path) -> None:
    arguments = ["compare", str(runs / "kept"), str(runs / "killed"), "--out", str(tmp_path / "out")]
    done = run_natjam(*arguments)
    written = json.loads((tmp_path / "out/compare.json").read_text())
    found = compare_runs(runs / "kept", runs / "killed")
    assert written["queues"]["research"]["mean"] == found.differences["research"].spread.mean
    assert [job["difference"] for job in written["jobs"]] == found.pairs["difference"].tolist()
    assert f"{found.differences['research'].percentiles[50]:+.1f}" in done.stdout
    assert "completion time, s: kept minus killed (negative: lower under kept)" in done.stdout
    assert "because the other side has none with their seed: 1 of kept, 0 of killed" in done.stdout
    assert (tmp_path / "out/compare.png").read_bytes().startswith(b"\x89PNG")


def test_one_pair_is_one_pair_in_every_table(runs: Path, tmp_path: Path) -> None:
    run, variant = runs / "kept/repeat-2", runs / "campaign/runs/kill"
    result = run_natjam("compare", run, variant, "--out", tmp_path / "out")
    assert "one pair of runs (seed 2)" in result.output
    assert "because the other side has none with their seed: 0 of repeat-2, 1 of kill" in result.output
    assert "jobs left out" not in result.output
    found = json.loads((tmp_path / "out/compare.json").read_text())
    wasted = [
        json.loads((one / "summary.json").read_text())["work"]["wasted_fraction"] for one in (run, variant / "seed-2")
    ]
    assert [found["totals"]["wasted_fraction"][side] for side in "ab"] == wasted
    assert found["evictions"]["before"]
    assert found["evictions"]["after"]


def test_a_run_is_compared_with_each_variant_of_a_campaign(runs: Path, tmp_path: Path) -> None:
    run, campaign = runs / "kept/repeat-2", runs / "campaign"
    result = run_natjam("compare", run, campaign, "--out", tmp_path / "out")
    assert "one pair of runs for each of 2 variants (seed 2)" in result.output
    found = json.loads((tmp_path / "out/compare.json").read_text())
    assert list(found["queues"]) == [
        f"{each}: {queue}" for queue in ("research", "production") for each in ("keep", "kill")
    ]
    killed_s = completion_s(campaign / "runs/kill/seed-2", "research-XL")
    assert found["queues"]["kill: research"]["mean"] == completion_s(run, "research-XL") - killed_s
    assert found["queues"]["keep: research"]["mean"] == 0
    turned = compare_runs(campaign, run)
    assert turned.differences["kill: research"].spread.mean == -found["queues"]["kill: research"]["mean"]
    assert turned.totals == {}


def test_jobs_without_a_deadline_are_left_out_with_that_reason(tmp_path: Path) -> None:
    for mechanism in ("checkpoint", "kill"):
        simulate(tmp_path, mechanism, "workload.jobs.0.deadline_s=500", f"scheduler.mechanism={mechanism}")
    found = compare_runs(tmp_path / "checkpoint", tmp_path / "kill", "margin_s")
    assert comparison_notes(found)[1].endswith("or have no deadline: 1 of checkpoint, 1 of kill")


def test_whole_runs_are_compared_by_what_they_took(runs: Path, tmp_path: Path) -> None:
    image = ("scheduler.mechanism=image", "storage.tier=ssd", "protocol.kill_timeout_s=3600")
    imaged = simulate(tmp_path, "imaged", "repeats=2", RANDOM, *image)
    summaries = [json.loads((imaged / f"repeat-{number}/summary.json").read_text()) for number in (1, 2)]
    arguments = ["compare", str(imaged), str(runs / "killed"), "--out", str(tmp_path / "out")]
    done = run_natjam(*arguments)
    totals = json.loads((tmp_path / "out/compare.json").read_text())["totals"]
    peak_bytes = [summary["storage"]["peak_bytes"] for summary in summaries]
    assert totals["peak_bytes"] == {"a": sum(peak_bytes) / 2, "b": 0}
    assert totals["energy_j"]["a"] == pytest.approx(sum(summary["energy_j"] for summary in summaries) / 2)
    assert totals["io_fraction"]["a"] > 0
    assert totals["io_fraction"]["b"] is None
    assert totals["wasted_fraction"]["b"] > 0
    assert f"{sum(peak_bytes) / 2e9:,.1f}" in done.stdout
    without = compare_runs(runs / "kept", runs / "killed").totals
    assert set(without) == {"wasted_fraction", "energy_j"}, "no images, so nothing about storage"


def test_the_interval_is_over_the_seeds_and_its_count_is_said(runs: Path, tmp_path: Path) -> None:
    kept, killed = runs / "kept", runs / "killed"
    found = compare_runs(kept, killed).differences["all queues"].spread
    means = compare_runs(kept, killed).pairs.groupby("run_number")["difference"].mean()
    low, high = scipy.stats.t.interval(0.95, 1, means.mean(), scipy.stats.sem(means))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    several = invoked("compare", kept, killed, "--out", tmp_path / "several")
    assert "2 pairs of runs, paired by seed; the interval is over the runs' mean differences" in several.stdout
    assert "3 intervals, each of 95% by itself, not adjusted for their number" in several.stdout
    pair = ["compare", str(kept / "repeat-1"), str(killed / "repeat-1"), "--out", str(tmp_path / "one")]
    one = invoked(*pair)
    assert "one pair of runs (seed 1): no interval over seeds can be given" in one.stdout
    assert json.loads((tmp_path / "one/compare.json").read_text())["queues"]["all queues"]["ci95_low"] is None


def test_variants_of_a_campaign_share_their_seeds(runs: Path) -> None:
    whole = compare_runs(runs / "campaign", runs / "campaign").differences["all queues"]
    assert (whole.jobs, whole.spread.n) == (8, 2)


def test_the_baseline_is_the_second_or_the_one_named(runs: Path) -> None:
    a, b = runs / "kept", runs / "killed"
    assert in_order(a, b, None) == in_order(a, b, Path("killed")) == in_order(a, b, b) == (a, b)
    assert in_order(a, b, Path("kept")) == in_order(a, b, a) == (b, a)
    with pytest.raises(ConfigError, match="--baseline other: must be one of the two sides"):
        in_order(a, b, Path("other"))


def test_a_seed_does_not_count_twice(runs: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(runs / "kept", copied)
    shutil.copytree(copied / "repeat-1", copied / "repeat-9")
    with pytest.raises(ConfigError, match="copied: has two runs with the seed 1, which count only once"):
        compare_runs(copied, runs / "killed")


def test_what_cannot_be_compared_is_said(runs: Path) -> None:
    with pytest.raises(ConfigError, match="no job in common with a margin_s"):
        compare_runs(runs / "kept", runs / "killed", "margin_s")
    with pytest.raises(ConfigError, match="no quantity 'speed' to compare; known are completion_s"):
        compare_runs(runs / "kept", runs / "killed", "speed")
    refused = invoked("compare", runs, "/none")
    assert (refused.exit_code, "/none: there is no such directory" in refused.stderr) == (2, True)
