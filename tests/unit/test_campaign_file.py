"""The campaign file: what it stands for, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.campaign.definition import Campaign, load_campaign
from emulator.campaign.directory import planned_runs
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from tests.experiment_files import VALID, write
from tests.refusals import refused


def loaded(folder: Path, text: str, *overrides: str) -> Campaign:
    write(folder, VALID)
    return load_campaign(write(folder, text, "campaign.yaml"), overrides)


def refusal(folder: Path, text: str) -> list[str]:
    return refused(loaded, folder, text).splitlines()


def test_the_least_is_one_experiment_with_its_own_seeds(tmp_path: Path) -> None:
    campaign = loaded(tmp_path, "name: least\nexperiment: experiment.yaml\nset: {seed: 4, repeats: 3}\n")
    (variant,) = campaign.variants
    assert (variant.name, variant.seeds) == ("least", (4, 5, 6))
    assert [run.name for run in planned_runs(campaign.variants)] == ["least/seed-4", "least/seed-5", "least/seed-6"]
    assert all(run.experiment.repeats == 1 for run in planned_runs(campaign.variants))


def test_every_variant_is_run_at_every_point_of_the_grid(tmp_path: Path) -> None:
    campaign = loaded(
        tmp_path,
        "name: all\nexperiment: experiment.yaml\nset: {engine: sim, seed: 9}\nseeds: [3, 1]\n"
        "grid: {scheduler.task_eviction: [srt, lrt], scheduler.job_eviction: [mr, pr]}\n"
        "variants: [{name: early}, {name: late, set: {workload.jobs.1.submit_s: 90}}]\n",
    )
    names = [variant.name for variant in campaign.variants]
    assert names[:2] == ["early,task_eviction=srt,job_eviction=mr", "early,task_eviction=srt,job_eviction=pr"]
    assert len(names) == len(set(names)) == 8
    last = campaign.variants[-1]
    assert last.name == "late,task_eviction=lrt,job_eviction=pr"
    assert last.factors == {"scheduler.task_eviction": "lrt", "scheduler.job_eviction": "pr"}
    assert (last.experiment.scheduler.task_eviction, last.experiment.scheduler.job_eviction) == ("lrt", "pr")
    assert last.experiment.workload.jobs is not None
    assert last.experiment.workload.jobs[1].submit_s == 90
    runs = planned_runs(campaign.variants)
    assert [run.experiment.seed for run in runs] == [3] * 8 + [1] * 8, "a first run of each before any second one"
    assert len({run.sha256 for run in runs}) == 16


def test_keys_that_end_alike_and_values_of_any_kind_have_names_of_their_own(tmp_path: Path) -> None:
    campaign = loaded(
        tmp_path,
        "name: g\nexperiment: experiment.yaml\nseeds: 1\n"
        "grid: {workload.jobs.0.submit_s: [0, 1.5], workload.jobs.1.submit_s: [2],"
        " workload.only: [null, {jobs: [research-XL]}]}\n",
    )
    assert [variant.name for variant in campaign.variants] == [
        f"workload.jobs.0.submit_s={first},workload.jobs.1.submit_s=2,only={only}"
        for first in ("0", "1.5")
        for only in ("null", "2")
    ]


def test_the_command_line_is_above_the_file(tmp_path: Path) -> None:
    campaign = loaded(
        tmp_path,
        "name: c\nexperiment: experiment.yaml\nset: {time_scale: 3}\nvariants: [{name: a, set: {time_scale: 4}}]\n",
        "time_scale=5",
    )
    assert campaign.variants[0].experiment.time_scale == 5


def test_paths_start_from_the_files_they_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    profile = "name: mine\nsource: me\nschedule_s: 1\nsuspend_s: 2\nresume_s: 3\n"
    write(tmp_path / "there", VALID)
    write(tmp_path, profile, "mine.yaml")
    path = write(tmp_path, "name: c\nexperiment: there/experiment.yaml\nset: {overheads: ./mine.yaml}\n", "c.yaml")
    monkeypatch.chdir(tmp_path / "there")
    campaign = load_campaign(path)
    assert campaign.variants[0].experiment.overheads == str(tmp_path / "mine.yaml")
    assert campaign.import_dirs == (tmp_path / "there",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: c\nseed: 3\n", ":2: seed: unknown key; did you mean 'seeds'?"),
        ("name: c\nseeds: 0\n", ":2: seeds: must be at least 1, not 0"),
        ("name: c\ngrid: {seed: []}\n", ":2: grid.seed: must have at least 1 item"),
        (
            "name: a/b\nexperiment: x.yaml\n",
            ":1: name: must have letters, digits and . _ = , + -, with a letter or a digit first, not 'a/b'",
        ),
        ("name: c\n", ": variant 'c' has no experiment; add 'experiment: FILE' to the campaign"),
        ("name: c\nexperiment: none.yaml\n", "none.yaml: there is no such file"),
        (
            "name: c\nexperiment: experiment.yaml\nset: {scheduler.mechanism: kil}\n",
            ":3: set.scheduler.mechanism: there is no mechanism 'kil'; did you mean 'kill'?",
        ),
        (
            "name: c\nexperiment: experiment.yaml\nvariants: [{name: a}, {name: a}]\n",
            ": two variants are called 'a'; rename one",
        ),
        (
            "name: c\nexperiment: experiment.yaml\ngrid: {"
            + ", ".join(f"a.{n}{'x' * 20}: [1]" for n in range(9))
            + "}\n",
            "is too long for a file name; list variants instead of the grid",
        ),
        (
            "name: c\nexperiment: experiment.yaml\ngrid: {seed: ["
            + "1, " * 101
            + "], repeats: ["
            + "1, " * 101
            + "]}\n",
            ": the grid and the variants make more than 10000 experiments",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (line, *_) = refusal(tmp_path, text)
    assert line.startswith(str(tmp_path / "campaign.yaml"))
    assert message in line


def test_one_mistake_is_said_once_whatever_the_number_of_variants(tmp_path: Path) -> None:
    grid = "grid: {scheduler.mechanism: [wait, kil], scheduler.task_eviction: [srt, lrt], seed: [1, 2]}\n"
    (line,) = refusal(tmp_path, f"name: c\nexperiment: experiment.yaml\n{grid}")
    assert line.startswith(f"{tmp_path / 'campaign.yaml'}:3: grid.scheduler.mechanism: there is no mechanism 'kil'")
    grid = grid.replace("kil]", "kill]").replace("task_eviction", "task_evictoin")
    (line,) = refusal(tmp_path, f"name: c\nexperiment: experiment.yaml\n{grid}")
    assert "grid.scheduler.task_evictoin: unknown key; did you mean 'task_eviction'?" in line
    (line,) = refusal(tmp_path, "name: c\nexperiment: none.yaml\ngrid: {seed: [1, 2, 3]}\n")
    assert "variant 'seed=1' and 2 more: " in line


def test_campaigns_and_experiments_that_are_mixed_up(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, VALID)
    assert f"an experiment, not a campaign: 'natjam run {tmp_path / 'campaign.yaml'}' runs it" in line
    path = write(tmp_path, "name: c\nexperiment: experiment.yaml\nseeds: 2\n", "campaign.yaml")
    with pytest.raises(ConfigError, match=f"is a campaign: 'natjam campaign {path}' runs it"):
        load_experiment(path)
