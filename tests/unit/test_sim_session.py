"""``natjam run --engine sim``: the same run directory, without Ray and without anything to verify."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.reproduce.run import run_one
from analysis.whole_run import run_experiment
from emulator.core.node_manager.node_manager import NodeManager
from emulator.costs.calibration import dump_calibration
from emulator.display.status import RunStatus
from emulator.errors import NatjamError, RunError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.journal import read_journal
from emulator.records.replay import replay
from emulator.records.run_directory import MAX_JOBS_IN_YAML
from emulator.resolved import make_machine, resolve
from tests.calibrations import make_calibration
from tests.commands import run_natjam

CATALOGUE = Path(__file__).resolve().parents[2] / "workloads/catalog"
FIG4 = CATALOGUE / "natjam-fig4.yaml"
WITHOUT_CALIBRATION = ("overheads=hadoop-0.23", "calibration=null", "engine=sim")


def simulate(file: Path, out_dir: Path, *overrides: str) -> dict[str, Any]:
    experiment = load_experiment(file, [*WITHOUT_CALIBRATION, *overrides])
    return run_experiment(experiment, out_dir, lambda status: None)


LARGE = {
    "natjam-2000",
    "natjam-trace-large",
    "ckpt-facebook",
    "ckpt-google-day",
    "ckpt-google-requests",
    "flex-gridmix",
    "os-assisted-cluster",
}
WITHOUT_PICTURES = {
    "natjam-trace-large",
    "ckpt-facebook",
    "ckpt-google-day",
    "ckpt-google-requests",
    "flex-cluster",
    "flex-gridmix",
}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=pytest.mark.slow if file.stem in LARGE else ())
        for file in sorted(CATALOGUE.glob("*.yaml"))
        if load_experiment(file).engine != "fluid"
    ],
    ids=lambda file: file.stem,
)
def test_every_catalogue_file_runs_and_leaves_a_whole_run_directory(file: Path, tmp_path: Path) -> None:
    summary = simulate(file, tmp_path / "out")
    jobs = load_experiment(file).workload.jobs or ()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("experiment.yaml", "summary.json"),
        *(("workload.jsonl",) if len(jobs) > MAX_JOBS_IN_YAML else ()),
        *(() if load_experiment(file).sim.journal == "off" else ("journal.jsonl.zst",)),
        *("jobs.parquet", "tasks.parquet", "attempts.parquet", "operations.parquet", "decisions.parquet"),
        *(() if "left_out" in summary else ("report.html", "timeline.perfetto.json")),
        *(() if load_experiment(file).cluster.availability is None else ("holders.svg",)),
    }
    assert ("left_out" in summary) == (file.stem in WITHOUT_PICTURES)
    assert json.loads((tmp_path / "out/summary.json").read_text()) == summary
    assert {job["state"] for job in summary["jobs"]} == {"succeeded"}
    assert (summary["engine"], summary["machines"], summary["output"]) == ("sim", [], None)
    assert summary["lag"]["max_real_ms"] == 0
    assert summary["events"] > 0


def test_a_run_of_a_figure_keeps_its_summary_and_what_the_rest_is_made_from(tmp_path: Path) -> None:
    experiment = load_experiment(FIG4, [*WITHOUT_CALIBRATION, "seed=7"])
    brief = run_one(experiment, tmp_path / "brief", lambda status: None)
    assert {path.name for path in (tmp_path / "brief").iterdir()} == {"experiment.yaml", "summary.json"}
    whole = simulate(tmp_path / "brief/experiment.yaml", tmp_path / "whole")
    assert (tmp_path / "whole/report.html").exists()
    own = {"left_out", "files", "real_s", "sha256"}
    assert {name: brief[name] for name in {*brief} - own} == {name: whole[name] for name in {*whole} - own}


def test_a_run_of_a_figure_that_fails_leaves_all_files_that_show_why(tmp_path: Path) -> None:
    experiment = load_experiment(FIG4, [*WITHOUT_CALIBRATION, "cluster.availability={steps: [[5, 0]]}"])
    with pytest.raises(RunError):
        run_one(experiment, tmp_path / "out", lambda status: None)
    assert (tmp_path / "out/attempts.parquet").exists()


def test_jobs_are_shown_as_they_go_on_and_not_counted_anew_where_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.sim.session.STATUS_PERIOD_REAL_S", 0)
    monkeypatch.setattr("emulator.sim.session._TIMES_SHOWING", 0)
    monkeypatch.setattr("emulator.sim.cluster._SLICE_EVENTS", 8)
    shown: list[RunStatus] = []
    experiment = load_experiment(CATALOGUE / "facebook-50.yaml", WITHOUT_CALIBRATION)
    run_experiment(experiment, tmp_path / "out", shown.append)
    assert len(shown) > 50
    of_jobs = list(zip(*(status.jobs for status in shown), strict=True))
    assert len(of_jobs) == 50
    for job in of_jobs:
        assert {one.done + one.running + one.suspended + one.waiting for one in job} == {job[0].total}
        assert [one.done for one in job] == sorted(one.done for one in job)
        assert (job[0].state, job[-1].state, job[-1].done) == ("submitted", "succeeded", job[-1].total)
    running = [one for job in of_jobs for one in job if one.state == "running"]
    assert len({id(one) for one in running}) < len(running) / 2


def test_nothing_of_the_machines_is_left_once_a_run_is_simulated(tmp_path: Path) -> None:
    """They and the cluster hold each other, and a large run writes its tables without a garbage collector."""
    gc.collect()
    gc.disable()
    try:
        simulate(FIG4, tmp_path / "out")
        left = [found for found in gc.get_objects() if isinstance(found, NodeManager)]
    finally:
        gc.enable()
    assert not left


def test_repeats_have_seeds_of_their_own(tmp_path: Path) -> None:
    summary = simulate(FIG4, tmp_path / "out", "repeats=3", "scheduler.task_eviction=random")
    assert summary["seeds"] == [1, 2, 3]
    assert summary["metrics"]["jobs.research-XL.completion_s"]["sd"] > 0


VARIANTS = {
    "profile": (),
    "calibrated": ("overheads=native",),
    "kill": ("scheduler.mechanism=kill", "scheduler.job_eviction=pr", "scheduler.task_eviction=random"),
    "soft-cap": ("scheduler.mechanism=wait", "scheduler.allocation.name=soft-cap", "cluster.nodes=3"),
    "many jobs": (
        *("scheduler.mechanism=suspend", "scheduler.job_eviction=pr", "scheduler.task_eviction=random"),
        "cluster.nodes=1",
    ),
}
RUN_THEM_ALL = """
import json, sys
from pathlib import Path
from emulator.errors import NatjamError, RunError
from emulator.experiment.load import load_experiment
from analysis.whole_run import run_experiment
catalogue, out_dir, variants = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
for name, overrides in variants.items():
    file = catalogue / ("facebook-50.yaml" if name == "many jobs" else "natjam-fig4.yaml")
    run_experiment(load_experiment(file, ["overheads=hadoop-0.23", "engine=sim", *overrides]), out_dir / name, print)
"""


def test_the_same_file_and_seed_give_the_same_journal_under_any_hash_seed(tmp_path: Path) -> None:
    (tmp_path / "natjam").mkdir()
    (tmp_path / "natjam/calibration.yaml").write_text(dump_calibration(make_calibration(10**6, 5 * 10**6)))
    journals: dict[str, set[bytes]] = {name: set() for name in VARIANTS}
    for hash_seed in ("0", "1", "4242"):
        out_dir = tmp_path / hash_seed
        command = [sys.executable, "-c", RUN_THEM_ALL, str(CATALOGUE), str(out_dir), json.dumps(VARIANTS)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "XDG_DATA_HOME": str(tmp_path)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        for name, found in journals.items():
            found.add((out_dir / name / "journal.jsonl.zst").read_bytes())
    assert {name: len(found) for name, found in journals.items()} == dict.fromkeys(VARIANTS, 1)
    assert len({journal for found in journals.values() for journal in found}) == len(VARIANTS)
    kills = json.loads((tmp_path / "0/kill/summary.json").read_text())["jobs"]
    assert sum(job["kills"] for job in kills) > 0


def test_a_calibrated_run_replays_and_tells_real_costs(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    measured = make_calibration(2 * 10**6, kill=7 * 10**6)
    with_cores_for_all = measured.model_copy(update={"machine": measured.machine.model_copy(update={"cores": 64})})
    mine.write_text(dump_calibration(with_cores_for_all))
    summary = simulate(
        FIG4, tmp_path / "out", f"overheads={mine}", "sim.journal=full", "scheduler.mechanism=kill", "time_scale=10"
    )
    assert summary["overheads"]["kill_s"]["real_ms"]["mechanism"] == {"mean": 7.0, "p50": 7.0, "p99": 7.0}
    experiment = load_experiment(tmp_path / "out/experiment.yaml")
    jobs = {job.name: job for job in expand(experiment, 1)}
    settings = resolve(experiment).settings
    _, records = read_journal(tmp_path / "out/journal.jsonl.zst")
    assert replay(records, lambda address: make_machine(address, settings, jobs)) is None


def test_the_command_says_what_it_did_and_has_no_heavy_imports(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom emulator.cli.main import app\n"
        f"arguments = ['run', {str(FIG4)!r}, '--engine', 'sim', '--out', {str(tmp_path / 'out')!r}]\n"
        "result = CliRunner().invoke(app, arguments)\n"
        "print(result.output)\nassert result.exit_code == 0, result.output\n"
        "heavy = {'ray', 'emulator.live.session.session', 'emulator.live.hosts.actors'}\n"
        "heavy |= {'analysis.verify', 'pandas', 'psutil'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "output  none: simulated" in done.stdout
    assert "lag" not in done.stdout


def test_a_policy_under_which_nothing_can_happen_is_told(tmp_path: Path) -> None:
    (tmp_path / "stingy.py").write_text(
        "from emulator.policies.views import AllocationDecision\n"
        "def nothing(view):\n    return AllocationDecision((), ())\n"
    )
    (tmp_path / "mine.yaml").write_text(FIG4.read_text().replace("name: two-queue", "name: stingy:nothing"))
    arguments = ["run", str(tmp_path / "mine.yaml"), "--engine", "sim", "--out", str(tmp_path / "out")]
    result = run_natjam(*arguments, status=1)
    assert "no task runs, and research-XL, production-S wait for containers that they cannot get" in result.stderr
    assert not (tmp_path / "out/summary.json").exists()


@pytest.mark.parametrize("phase", ["simulating", "writing the tables"])
def test_a_directory_that_is_removed_during_the_run_is_one_message(tmp_path: Path, phase: str) -> None:
    out = tmp_path / "out"

    def remove(status: RunStatus) -> None:
        if status.phase == phase:
            shutil.rmtree(out, ignore_errors=True)

    with pytest.raises(NatjamError, match=r"cannot be written: .*No such file or directory"):
        run_experiment(load_experiment(FIG4, ["engine=sim", "overheads=hadoop-0.23"]), out, remove)
