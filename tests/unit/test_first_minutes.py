"""What a new user meets first: the catalogue by name, and ``init``."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.campaign.definition import load_campaign
from emulator.errors import ConfigError
from emulator.experiment.catalog import catalog_directory, examples, located
from emulator.experiment.load import load_experiment
from tests.commands import run_natjam


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
