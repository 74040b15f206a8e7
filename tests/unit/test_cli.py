"""The command line: help, exit statuses, one message for what is wrong, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator import __version__
from emulator.cli.main import list_policies
from emulator.errors import ConfigError
from emulator.files.data_folder import data_folder
from emulator.policies.axes import AXES
from tests.commands import invoked, run_natjam

CATALOGUE = Path(__file__).resolve().parents[2] / "workloads/catalog"
FIG4 = str(CATALOGUE / "natjam-fig4.yaml")


def test_version_and_help() -> None:
    assert invoked("--version").stdout == f"natjam {__version__}\n"
    top = run_natjam("--help")
    for command in ("run", "validate", "policies", "demo"):
        assert command in top.stdout
        shown = run_natjam(command, "--help")
        assert f"    natjam {command}" in shown.stdout, "every command has an example"
    options = invoked("run", "--help").stdout
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
        (["run", FIG4, "--out", "/proc/natjam"], "natjam: /proc/natjam: cannot be written"),
        (["run"], "Missing argument"),
        (["walk"], "No such command 'walk'"),
        (["validate", "/none.yaml"], "natjam: /none.yaml: there is no such file"),
    ],
)
def test_bad_input_is_one_message_and_status_2(arguments: list[str], message: str) -> None:
    result = run_natjam(*arguments, status=2)
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_an_output_directory_with_files_in_it_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text("mine")
    result = invoked("run", FIG4, "--out", tmp_path)
    assert (result.exit_code, "is not empty; results go to a new or an empty directory" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["results.txt"]
    result = invoked("run", FIG4, "--out", tmp_path / "results.txt")
    assert (result.exit_code, "is a file; results go to a new or an empty directory" in result.stderr) == (2, True)
    assert (tmp_path / "results.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ("import kubernetes FILE --out LINK", "pods.yaml"),
        ("import kubernetes . --out FILE", "pods.yaml"),
        ("import kueue FILE --out FILE", "queues.yaml"),
        ("import kueue other.yaml --arrivals FILE --out FILE", "queues.yaml"),
        ("import slurm --conf FILE --out LINK", "slurm.yaml"),
        ("play FILE --out FILE", "site.yaml"),
        ("workload scale FILE LINK", "t.jsonl"),
        ("workload convert FILE FILE", "t.jsonl"),
        ("workload inspect FILE --png LINK", "t.jsonl"),
        ("workload compare . --json FILE", "summary.json"),
        ("report . --out FILE", "summary.json"),
    ],
)
def test_no_output_is_an_input(arguments: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text("precious")
    (tmp_path / "link.yaml").symlink_to(file)
    result = run_natjam(*arguments.replace("FILE", file).replace("LINK", "link.yaml").split(), status=2)
    assert "the command reads; write to another file" in result.stderr
    assert (tmp_path / file).read_text() == "precious"


def test_a_machine_on_which_nothing_can_start_leaves_no_output_directory(tmp_path: Path) -> None:
    natjam = [Path(sys.executable).with_name("natjam"), "run", FIG4, "--time-scale", "20", "--out", tmp_path / "out"]
    limited = ["bash", "-c", 'ulimit -n 64; exec "$0" "$@"', *natjam]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    said = "natjam: only 64 files may be open at once; raise 'ulimit -n' to 1024 or more\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert [*tmp_path.iterdir()] == []


def test_bad_input_leaves_no_output_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_natjam("run", FIG4, "--set", "cluster.nodes=0", status=2)
    run_natjam("run", FIG4, "--set", "cluster.nodes=0", "--out", "results", status=2)
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATJAM_DEBUG", "1")
    result = invoked("run", "/none.yaml")
    assert isinstance(result.exception, ConfigError)


def test_validate_reports_every_file(tmp_path: Path) -> None:
    good = run_natjam("validate", FIG4)
    assert "natjam-fig4.yaml: valid: 2 jobs, 8 maps, 58 reduces on 48 containers" in good.stdout
    for name, text in (("one.yaml", "seed: x\n"), ("two.yaml", "- a\n")):
        (tmp_path / name).write_text(text)
    mixed = run_natjam("validate", tmp_path / "one.yaml", FIG4, tmp_path / "two.yaml", status=2)
    assert "natjam-fig4.yaml: valid" in mixed.stdout
    assert f"{tmp_path}/one.yaml:1: seed: must be a whole number" in mixed.stderr
    assert f"{tmp_path}/two.yaml:1: must be a mapping" in mixed.stderr


def test_validate_reads_the_trace_too(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("job0\tnot a number\t0\t0\t0\t0\n")
    text = (CATALOGUE / "facebook-50.yaml").read_text()
    trace = next(line for line in text.splitlines() if "path:" in line)
    (tmp_path / "bad.yaml").write_text(text.replace(trace, trace.partition("path:")[0] + "path: bad.tsv"))
    result = run_natjam("validate", tmp_path / "bad.yaml", status=2)
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
    result = run_natjam("policies")
    for _, name, _, _ in listed:
        assert f" {name} " in result.stdout


def test_the_installed_command_ends_with_the_status_and_no_traceback() -> None:
    command = Path(sys.executable).with_name("natjam")
    done = subprocess.run([command, "run", "/none.yaml"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "natjam: /none.yaml: there is no such file\n"


def test_it_works_without_standard_streams(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f'exec "$0" run {FIG4} --engine sim --out {out} <&- >&- 2>&-'
    subprocess.run(["sh", "-c", script, Path(sys.executable).with_name("natjam")], check=True)
    run_natjam("verify", out)  # nothing was written into a file of the run


def test_files_are_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "ü.yaml").write_text(Path(FIG4).read_text().replace("research-XL", "forschung-ü-日本"), "utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [Path(sys.executable).with_name("natjam"), "run", "ü.yaml", "--engine", "sim", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **ascii_only}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "forschung-ü-日本" in done.stdout.decode("utf-8")
    assert "forschung-ü-日本" in (tmp_path / "out/experiment.yaml").read_text("utf-8")


def test_a_user_without_a_home_reads_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)  # the list of users has no such one
    assert data_folder() == Path("/.local/share/natjam")
