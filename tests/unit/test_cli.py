"""The command line: help, exit statuses, one message for what is wrong, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator import __version__
from emulator.cli.main import app, list_policies
from emulator.errors import ConfigError
from emulator.policies.axes import AXES

CATALOGUE = Path(__file__).resolve().parents[2] / "workloads/catalog"
FIG4 = str(CATALOGUE / "natjam-fig4.yaml")

runner = CliRunner()


def test_version_and_help() -> None:
    assert runner.invoke(app, ["--version"]).stdout == f"natjam {__version__}\n"
    top = runner.invoke(app, ["--help"])
    assert top.exit_code == 0
    for command in ("run", "validate", "policies", "demo"):
        assert command in top.stdout
        shown = runner.invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert f"    natjam {command}" in shown.stdout, "every command has an example"
    options = runner.invoke(app, ["run", "--help"]).stdout
    for option in ("--engine", "--time-scale", "--seed", "--repeats", "--set", "--out"):
        assert option in options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "/none.yaml"], "natjam: /none.yaml: there is no such file"),
        (["run", FIG4, "--set", "seed=x"], "natjam: override seed=x: seed: must be a whole number"),
        (["run", FIG4, "--time-scale", "-3"], "natjam: override time_scale=-3.0: time_scale: must be at least 1e-06"),
        (["run", FIG4, "--time-scale", "nan"], "natjam: override time_scale=nan: time_scale"),
        (["run", FIG4, "--engine", "warp"], "natjam: override engine=warp: engine: must be 'live', 'sim' or 'fluid'"),
        (["run", FIG4, "--repeats", "0"], "natjam: override repeats=0: repeats: must be at least 1"),
        (["run", FIG4, "--seed", "-1"], "natjam: override seed=-1: seed: must be at least 0"),
        (["run", FIG4, "--seed", "x"], "Invalid value for '--seed'"),
        (["run", FIG4, "--out", "/proc/natjam"], "natjam: --out /proc/natjam: cannot be written"),
        (["run"], "Missing argument"),
        (["walk"], "No such command 'walk'"),
        (["validate", "/none.yaml"], "natjam: /none.yaml: there is no such file"),
    ],
)
def test_bad_input_is_one_message_and_status_2(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_an_output_directory_with_files_in_it_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text("mine")
    result = runner.invoke(app, ["run", FIG4, "--out", str(tmp_path)])
    assert (result.exit_code, "already has files in it" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["results.txt"]
    result = runner.invoke(app, ["run", FIG4, "--out", str(tmp_path / "results.txt")])
    assert (result.exit_code, "is not a directory" in result.stderr) == (2, True)
    assert (tmp_path / "results.txt").read_text() == "mine"


def test_bad_input_leaves_no_output_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["run", FIG4, "--set", "cluster.nodes=0"]).exit_code == 2
    assert runner.invoke(app, ["run", FIG4, "--set", "cluster.nodes=0", "--out", "results"]).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_exception() -> None:
    result = runner.invoke(app, ["run", "/none.yaml"], env={"NATJAM_DEBUG": "1"})
    assert isinstance(result.exception, ConfigError)


def test_validate_reports_every_file(tmp_path: Path) -> None:
    good = runner.invoke(app, ["validate", FIG4])
    assert good.exit_code == 0
    assert "natjam-fig4.yaml: valid: 2 jobs, 8 maps, 58 reduces on 48 containers" in good.stdout
    for name, text in (("one.yaml", "seed: x\n"), ("two.yaml", "- a\n")):
        (tmp_path / name).write_text(text)
    mixed = runner.invoke(app, ["validate", str(tmp_path / "one.yaml"), FIG4, str(tmp_path / "two.yaml")])
    assert mixed.exit_code == 2
    assert "natjam-fig4.yaml: valid" in mixed.stdout
    assert f"{tmp_path}/one.yaml:1: seed: must be a whole number" in mixed.stderr
    assert f"{tmp_path}/two.yaml:1: must be a mapping" in mixed.stderr


def test_validate_reads_the_trace_too(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("job0\tnot a number\t0\t0\t0\t0\n")
    text = (CATALOGUE / "facebook-50.yaml").read_text()
    trace = next(line for line in text.splitlines() if "path:" in line)
    (tmp_path / "bad.yaml").write_text(text.replace(trace, trace.partition("path:")[0] + "path: bad.tsv"))
    result = runner.invoke(app, ["validate", str(tmp_path / "bad.yaml")])
    assert result.exit_code == 2
    assert f"{tmp_path}/bad.tsv:1" in result.stderr


def test_policies_lists_every_name_with_words_and_sources() -> None:
    listed = list_policies()
    for axis in AXES.values():
        assert {name for listed_axis, name, _, _ in listed if listed_axis == axis.name} == set(axis.names)
    assert all(description.strip(" .") for _, _, description, _ in listed)
    described = {name: (description, source) for _, name, description, source in listed}
    assert described["mr"][1] == "natjam, section 2.1"
    assert "section" not in described["srt"][0]
    twice = {axis: description for axis, name, description, _ in listed if name == "adaptive"}
    assert twice["allocation"].startswith("The Adaptive Scheduler: ")
    assert twice["mechanism"].startswith("Adaptive preemption: ")
    result = runner.invoke(app, ["policies"])
    assert result.exit_code == 0
    for _, name, _, _ in listed:
        assert f" {name} " in result.stdout


def test_the_installed_command_ends_with_the_status_and_no_traceback() -> None:
    command = Path(sys.executable).with_name("natjam")
    done = subprocess.run([command, "run", "/none.yaml"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "natjam: /none.yaml: there is no such file\n"
