"""What a new user meets first: the catalogue by name, and ``init``."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.campaign.definition import load_campaign
from emulator.errors import ConfigError
from emulator.experiment.catalog import catalog_directory, examples, located
from emulator.experiment.load import load_experiment
from tests.commands import run_natjam
from tests.run_results import RunResults, job_of


def test_every_example_has_a_summary_and_is_found_by_its_name() -> None:
    found = examples()
    assert {example.path for example in found} == set(catalog_directory().glob("*.yaml"))
    for example in found:
        assert 10 < len(example.summary) < 350, example.name
        assert load_experiment(f"catalog:{example.name}").name == load_experiment(example.path).name


def test_a_name_that_is_not_there_is_said_with_a_near_one() -> None:
    with pytest.raises(ConfigError, match=r"catalog:natjam-fg4: there is no .*'natjam-fig4'.*'natjam examples'"):
        located("catalog:natjam-fg4")


def test_a_campaign_may_name_the_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text("{name: c, experiment: 'catalog:natjam-fig4', set: {engine: sim}, seeds: 2}")
    assert load_campaign(file).variants[0].experiment.name == "natjam-fig4"


def test_what_init_makes_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_natjam("init", "mine")
    monkeypatch.chdir(tmp_path / "mine")
    campaign = Path("campaign.yaml")
    assert "seeds: 10" in campaign.read_text()
    campaign.write_text(campaign.read_text().replace("seeds: 10", "seeds: 1"))  # each of its twelve combinations once
    run_natjam(
        *("run", "experiment.yaml", "--engine", "sim", "--set", "scheduler.task_eviction=my_policies:newest"),
        *("--out", "own"),
    )
    run_natjam("verify", "own")
    run_natjam("campaign", campaign)
    monkeypatch.chdir(tmp_path)
    assert "exists already" in run_natjam("init", "mine", status=2).stderr


@pytest.mark.parametrize(
    ("settings", "measure"),
    [
        (["mechanism=suspend"], {"suspensions": 1, "kills": 0, "lost_work_s": 0}),
        (["mechanism=image"], {"suspensions": 1, "kills": 0, "lost_work_s": 0}),
        (["mechanism=kill"], {"suspensions": 0, "kills": 1, "lost_work_s": pytest.approx(5, abs=0.5)}),
        (
            ["mechanism=kill", "workload.jobs.0.checkpoint_period_s=2"],
            {"kills": 1, "lost_work_s": pytest.approx(1, abs=0.5)},
        ),
    ],
)
def test_what_init_makes_of_a_program_is_preempted_in_each_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], measure: dict[str, float]
) -> None:
    run_natjam("init", tmp_path / "mine", "--program")
    monkeypatch.chdir(tmp_path / "mine")
    text = Path("experiment.yaml").read_text()
    assert f"scheduler.{settings[0]}" in text or settings[0].replace("=", ": ") in text
    assert run_natjam("validate", "experiment.yaml").stderr == ""
    given = [word for setting in settings for word in ("--set", setting.replace("mechanism", "scheduler.mechanism"))]
    run_natjam("run", "experiment.yaml", "--engine", "sim", *given, "--out", "out")
    trained = job_of(RunResults(Path("out")).summary, "train")
    assert {name: trained[name] for name in measure} == measure


def test_two_containers_with_masters_in_them_preempt_nobody_and_validate_says_so(tmp_path: Path) -> None:
    run_natjam("init", tmp_path / "mine", "--program")
    path = tmp_path / "mine" / "experiment.yaml"
    text = path.read_text().replace("containers_per_node: 1, application_masters: outside", "containers_per_node: 2")
    path.write_text(text)
    for command in (["validate", path], ["run", path, "--engine", "sim", "--out", tmp_path / "out"]):
        said = run_natjam(*command).stderr
        assert "no job will preempt another one" in said
        assert "cluster.application_masters: outside" in said
    assert "nobody was evicted" in run_natjam("explain", tmp_path / "out").stdout
    path.write_text(text.replace("containers_per_node: 2", "containers_per_node: 3"))
    assert run_natjam("validate", path).stderr == ""
    run_natjam("run", path, "--engine", "sim", "--out", tmp_path / "three")
    assert "one eviction" in run_natjam("explain", tmp_path / "three").stdout
