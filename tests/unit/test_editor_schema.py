"""The JSON schemas for editors accept every file that natjam accepts, and refuse typos; completion in a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from emulator.cli.main import app
from emulator.experiment.catalog import examples
from emulator.files.yaml_positions import read_document
from tests.commands import invoked, run_natjam

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = [example.path for example in examples()] + [ROOT / "workloads/starter/experiment.yaml"]
EXPERIMENTS += [path for path in sorted((ROOT / "docs").glob("*.yaml")) if "\nscheduler:" in path.read_text()]


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    found = {kind: invoked("schema", kind).stdout for kind in ("experiment", "campaign")}
    made = {kind: json.loads(text) for kind, text in found.items()}
    for schema in made.values():
        jsonschema.Draft7Validator.check_schema(schema)
    return made


def errors(schema: Any, data: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(_plain(data))]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_that_is_shipped_is_accepted(path: Path, schemas: dict[str, Any]) -> None:
    assert errors(schemas["experiment"], read_document(path).data) == []


def test_typos_are_refused(schemas: dict[str, Any]) -> None:
    data = read_document(EXPERIMENTS[-1]).data
    for changed in (
        {**data, "time_sacle": 3},
        {**data, "scheduler": {**data["scheduler"], "mechanism": "kil"}},
        {**data, "scheduler": {**data["scheduler"], "allocation": {"name": "two-queu"}}},
    ):
        assert errors(schemas["experiment"], changed)
    own = {**data, "scheduler": {**data["scheduler"], "task_eviction": "mine:newest"}}
    assert errors(schemas["experiment"], own) == []
    campaign = read_document(ROOT / "workloads/starter/campaign.yaml").data
    assert errors(schemas["campaign"], campaign) == []
    assert errors(schemas["campaign"], {**campaign, "sedes": 3})


def test_keys_are_described(schemas: dict[str, Any]) -> None:
    assert schemas["experiment"]["properties"]["time_scale"]["description"] == "Emulated seconds per real second."


def test_a_schema_is_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "natjam.schema.json"
    done = invoked("schema", "--out", out)
    assert (done.exit_code, json.loads(out.read_text())["title"]) == (0, "Experiment")
    assert "# yaml-language-server: $schema=natjam.schema.json" in done.stdout
    run_natjam("schema", "runs", status=2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    words = {"_NATJAM_COMPLETE": f"complete_{shell}", "COMP_WORDS": "natjam work", "COMP_CWORD": "1"}
    words |= {"_TYPER_COMPLETE_ARGS": "natjam work", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = CliRunner().invoke(app, [], env=words, prog_name="natjam")
    assert "workload" in done.stdout
    assert "--install-completion" in invoked("--help").stdout
