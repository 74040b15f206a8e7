"""A checkout may lie anywhere: Ray puts the path of its Python into a line for a shell.  The run is a script's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.live_runs import REPOSITORY, SMALL

BOUND_S = 240.0
SCRIPT = """
import natjam
if __name__ == "__main__":
    results = natjam.run("small.yaml", "out", {"seed": 7})
    print(list(results.runs["seed"]), list(results.runs["verified"]), sorted(results.jobs["state"]))
"""


def _checkout(folder: Path) -> Path:
    """natjam in that folder, with a virtual environment of its own; returns its Python."""
    for name in ("emulator", "workloads", "analysis"):
        shutil.copytree(REPOSITORY / name, folder / name)
    venv.create(folder / ".venv", symlinks=True)
    (packages,) = folder.glob(".venv/lib/python*/site-packages")
    (packages / "all-the-others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / ".venv" / "bin" / "python"


@pytest.mark.slow
def test_a_checkout_whose_path_has_a_space_runs(tmp_path: Path) -> None:
    folder = tmp_path / "a student's check out"
    python = _checkout(folder)
    (folder / "small.yaml").write_text(SMALL)
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [python, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{folder}/emulator/public"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[7] [True] ['succeeded', 'succeeded']"
