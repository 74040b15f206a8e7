"""``import natjam``: what it has, and what a user sees whose own files have the names of natjam's packages."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import natjam
from emulator.policies import policy, views
from tests import live_runs
from tests.experiment_files import VALID
from tests.live_runs import REPOSITORY


def python(code: str, cwd: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    (cwd / "script.py").write_text(code)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_has_every_view_decision_and_record_of_a_policy() -> None:
    wanted = {
        name
        for module in (views, policy)
        for name, found in vars(module).items()
        if inspect.isclass(found) and found.__module__ == module.__name__ and not getattr(found, "_is_protocol", False)
    }
    of_natjam_itself = {"Axis", "Elsewhere", "_ByName", "TakesBack", "ExternalCommand", "SchedulerAllocation"}
    of_files = {"Maximum", "QueueRules"}
    assert wanted - of_natjam_itself - of_files <= set(natjam.__all__)
    assert all(hasattr(natjam, name) for name in natjam.__all__)


@pytest.mark.parametrize(
    "name", ["ClusterView", "JobView", "TaskView", "NodeView", "JobFacts", "Tier", "ShareDecision"]
)
def test_help_gives_the_meaning_and_the_unit_of_each_field(name: str) -> None:
    of = getattr(natjam, name)
    shown = pydoc.plain(pydoc.render_doc(of))
    fields = [line.partition(" |  ")[2] for line in shown.splitlines()]
    for field in inspect.get_annotations(of):
        (at,) = (at for at, line in enumerate(fields) if line.startswith(f"{field}: "))
        assert re.match(r"    \S", fields[at + 1]), field
    assert "emulated nanoseconds" in shown


@pytest.mark.parametrize("name", ["CycleAllocation", "CycleDecision"])
def test_a_policy_that_chose_nodes_in_cycles_is_told_what_to_do(name: str, tmp_path: Path) -> None:
    (tmp_path / "own_cycles.py").write_text(f"from natjam import {name}\n")
    allocation = "{name: own_cycles:MINE, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}"
    (tmp_path / "mine.yaml").write_text(VALID)
    override = f"scheduler.allocation={allocation}"
    done = live_runs.natjam("run", "mine.yaml", "--set", override, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    words = f"natjam.{name} is gone: .*name: external.*docs/outside.md has the protocol"
    assert re.search(words, " ".join(done.stderr.split())), done.stderr


def test_an_experiment_is_simulated_and_loaded(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(VALID)
    (tmp_path / "own.py").write_text(
        "def last(view, tasks, random):\n"
        "    from own_more import key\n"
        "    return [task.container for task in sorted(tasks, key=key)]"
    )
    (tmp_path / "own_more.py").write_text("def key(task):\n    return -task.started_ns")
    results = natjam.simulate(tmp_path / "small.yaml", {"scheduler.task_eviction": "own:last", "seed": 7})
    assert list(results.runs["seed"]) == [7]
    assert list(results.runs["task_eviction"]) == ["own:last"]
    assert set(results.jobs["state"]) == {"succeeded"}
    kept = natjam.simulate(tmp_path / "small.yaml", out=tmp_path / "out")
    assert kept.jobs.equals(natjam.load(tmp_path / "out").jobs)
    with pytest.raises(natjam.ConfigError, match=r"scheduler\.mechanism"):
        natjam.simulate(tmp_path / "small.yaml", {"scheduler.mechanism": "no such"})


def test_policies_find_it_beside_a_checkout_of_its_name(tmp_path: Path) -> None:
    """Machines of a cluster have the checkout where their Ray works, and a plain ``pip install -e``."""
    (tmp_path / "natjam").mkdir()
    (tmp_path / "small.yaml").write_text(VALID)
    (tmp_path / "own.py").write_text("from natjam import ClusterView\ndef last(view, tasks, random):\n    return []\n")
    code = (
        "import sys\n"
        "sys.path = [folder for folder in sys.path if not folder.endswith('public')]\n"
        "from pathlib import Path\n"
        "from emulator.experiment.load import load_experiment\n"
        "before = list(sys.path)\n"
        "load_experiment(Path('small.yaml'), ['scheduler.task_eviction=own:last'])\n"
        "assert sys.path == before\n"
    )
    done = python(code, tmp_path, REPOSITORY)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["analysis.py", "workloads/__init__.py", "emulator/__init__.py"])
def test_what_hides_a_package_of_ours_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    done = python("import natjam", tmp_path, REPOSITORY / "emulator" / "public", REPOSITORY)
    own, _, _ = name.partition("/")
    assert f"ImportError: {tmp_path / own} has the name of natjam's own package" in done.stderr
    assert "rename it" in done.stderr.splitlines()[-1]


def test_the_command_line_names_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "analysis.py").touch()
    done = live_runs.natjam("--help", cwd=tmp_path, PYTHONPATH=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"natjam: {tmp_path}/analysis.py has the name of natjam's own package 'analysis'")
    assert len(done.stderr.splitlines()) == 1


def test_folders_of_data_beside_a_script_hide_nothing(tmp_path: Path) -> None:
    for name in ("analysis", "emulator", "natjam", "workloads"):
        (tmp_path / name).mkdir()
    done = python("import natjam; print(natjam.simulate)", tmp_path, REPOSITORY / "emulator" / "public", REPOSITORY)
    assert done.returncode == 0, done.stderr


def test_a_policy_beside_a_package_of_that_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(VALID)
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "rules.py").touch()
    (tmp_path / "beside.py").write_text("from analysis.rules import last")
    with pytest.raises(natjam.ConfigError, match=f"{tmp_path}/analysis has the name of natjam's own package"):
        natjam.simulate(tmp_path / "small.yaml", {"scheduler.task_eviction": "beside:last"})
